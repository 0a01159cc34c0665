//! Answers that come in pieces, break off, or never end.

use std::time::Duration;

use manent_agent::providers::{ModelError, Ollama, OpenAi, Reply, ReplyEvent, Request, RetryPolicy};
use manent_sim::model_server::replies::{self, ollama_line, openai_event};
use manent_sim::model_server::{Closing, ModelServer, Script, Step};
use serde_json::json;

use crate::client::{ask, ask_ollama, ask_openai, at, both, patience, question};

const TEXT: &str = "Grün, 漢字 und 🦀🏴‍☠️: \u{0} \"x\"\n\\ ende";

/// Returns the response of a server for a text, in one piece.
fn bytes_of(line: impl Fn(&str) -> String, end: &str) -> String {
    TEXT.split_inclusive(' ').map(line).collect::<String>() + end
}

fn ollama_bytes() -> String {
    bytes_of(
        |text| ollama_line(&json!({ "role": "assistant", "content": text })),
        &replies::ollama_done("stop", 3, 4),
    )
}

fn openai_bytes() -> String {
    let end = openai_event(&json!({}), Some("stop")) + &replies::done();
    bytes_of(|text| openai_event(&json!({ "content": text }), None), &end)
}

#[tokio::test]
async fn characters_survive_being_split_anywhere() {
    let server = ModelServer::start(|request| {
        let at =
            request.json()["seed"].as_u64().or(request.json()["options"]["seed"].as_u64()).unwrap() as usize;
        let bytes = if request.path.starts_with("/api") { ollama_bytes() } else { openai_bytes() };
        if at == 0 {
            return Script::split(bytes, 1);
        }
        let (a, b) = bytes.as_bytes().split_at(at.min(bytes.len()));
        Script::new().chunk(a).chunk(b)
    })
    .unwrap();
    let longest = ollama_bytes().len().max(openai_bytes().len());
    for model in both(&server) {
        for at in 0..longest {
            let request = Request { seed: Some(at as u64), ..question() };
            assert_eq!(ask(&model, &request).await.0.unwrap().text, TEXT, "split at {at}");
        }
    }
}

#[tokio::test]
async fn an_error_under_status_200_is_an_error_wherever_it_comes() {
    for before in ["", "Because", "Because of Rayleigh scattering."] {
        let (reply, heard) =
            ask_ollama(replies::ollama_error(before, "llama runner process has terminated")).await;
        let error = reply.unwrap_err();
        assert!(
            matches!(&error, ModelError::Failed { message, .. } if message.contains("terminated")),
            "{error}"
        );
        assert!(error.is_transient());
        assert_eq!(heard.text, before);
    }
}

#[tokio::test]
async fn an_answer_that_stops_is_not_taken_for_whole() {
    let said = ollama_line(&json!({ "role": "assistant", "content": "Because" }));
    let event = openai_event(&json!({ "content": "Because" }), None);
    for cut in ["", "{\"mess", "{\"message\":{\"content\":\"\u{e9}", "\n\n"] {
        let of_ollama = Script::new().chunk(&said).chunk(cut);
        let of_openai = Script::new().chunk(&event).chunk(if cut.is_empty() { "" } else { "data: {\"cho" });
        for how in [None, Some(Closing::Fin), Some(Closing::Rst)] {
            let with_end = |script: Script| match how {
                None => script,
                Some(how) => script.close(how),
            };
            for (reply, heard) in
                [ask_ollama(with_end(of_ollama.clone())).await, ask_openai(with_end(of_openai.clone())).await]
            {
                assert!(matches!(reply, Err(ModelError::Ended { .. })), "{cut:?} {how:?} {reply:?}");
                assert_eq!(heard.text, "Because");
            }
        }
    }
    // A character cut in its middle.
    let cut = Script::new().chunk(&said).chunk(b"{\"message\":{\"content\":\"\xf0\x9f");
    assert!(matches!(ask_ollama(cut).await.0, Err(ModelError::Ended { .. })));
    assert!(matches!(ask_ollama(Script::new()).await.0, Err(ModelError::Ended { .. })));
    assert!(matches!(ask_openai(Script::new()).await.0, Err(ModelError::Ended { .. })));
}

type Outcome = Result<Reply, ModelError>;

async fn ollama_within(patience: RetryPolicy, script: Script) -> Outcome {
    let server = ModelServer::replay([script]).unwrap();
    ask(&Ollama::new(&at(&server).with_retry_policy(patience), "m").unwrap().into(), &question()).await.0
}

async fn openai_within(patience: RetryPolicy, script: Script) -> Outcome {
    let server = ModelServer::replay([script]).unwrap();
    ask(&OpenAi::new(&at(&server).with_retry_policy(patience), "m").unwrap().into(), &question()).await.0
}

#[tokio::test]
async fn silence_ends() {
    let short = Duration::from_millis(15);
    let between = RetryPolicy { between: short, ..patience() };
    let first = RetryPolicy { first_byte: short, ..patience() };
    let line = ollama_line(&json!({ "role": "assistant", "content": "a" }));
    let event = openai_event(&json!({ "content": "a" }), None);
    let outcomes = [
        ollama_within(between, Script::new().chunk(&line).stall()).await,
        openai_within(between, Script::new().chunk(&event).stall()).await,
        ollama_within(first, Script::new().stall()).await,
        openai_within(first, Script::new().stall()).await,
        // Not even a head.
        ollama_within(first, Script::new().pause(Duration::from_mins(1))).await,
    ];
    for outcome in outcomes {
        assert!(matches!(&outcome, Err(ModelError::Stalled { after, .. }) if *after == short), "{outcome:?}");
        assert!(outcome.unwrap_err().is_transient());
    }
    // It said why it ended, and then nothing: whole.
    let said = Script::new().chunk(openai_event(&json!({ "content": "a" }), Some("stop"))).stall();
    assert_eq!(openai_within(between, said).await.unwrap().text, "a");
}

#[tokio::test]
async fn silence_has_reasons() {
    let patience = RetryPolicy { between: Duration::from_millis(10), ..patience() };
    let silence = Duration::from_millis(40);
    let role = openai_event(&json!({ "role": "assistant", "content": "" }), None);
    let event = openai_event(&json!({ "content": "a" }), None);
    // It thinks, and does not show it.
    let script = Script::new().chunk(role).pause(silence).chunk(format!("{event}{}", replies::done()));
    assert_eq!(openai_within(patience, script).await.unwrap().text, "a");
    // It writes a call, and shows it when it is whole.
    let script = Script::new().chunk(&event).pause(silence).chunk(replies::done());
    let server = ModelServer::replay([script]).unwrap();
    let model = OpenAi::new(&at(&server).with_retry_policy(patience), "m").unwrap().into();
    let tools = Some(r#"[{"type":"function","function":{"name":"x"}}]"#.to_owned());
    let request = Request { tools, ..question() };
    assert_eq!(ask(&model, &request).await.0.unwrap().text, "a");
    assert!(matches!(ask(&model, &question()).await.0, Err(ModelError::Stalled { .. })));
}

#[tokio::test]
async fn signs_of_life_are_not_an_answer() {
    let patience = RetryPolicy { first_byte: Duration::from_millis(40), ..patience() };
    let breath = |byte: &str| {
        let breath = |script: Script, _| script.chunk(byte).pause(Duration::from_millis(2));
        (0..5000).fold(Script::new(), breath)
    };
    let ollama = ollama_within(patience, breath("\n")).await;
    let openai = openai_within(patience, breath(": still here\n\n")).await;
    for outcome in [ollama, openai] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, ModelError::Stalled { .. }), "{error}");
        assert!(error.to_string().contains("allow it more time with agent.max_silence"), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_named_and_not_quoted() {
    let page = "<!doctype html><title>Sign in</title>secret";
    let bad: [&[u8]; 9] = [
        b"secret\n",
        b"{\"message\":{\"content\":\"\xff secret\"}}\n",
        b"[]\n",
        b"[\"secret\",null,true]\n",
        b"{\"message\":{\"content\":\"secret\"}\n\n",
        b"{\"message\":[[[[1]]]]}\n",
        b"\0\0\0\0\n",
        b"42\n",
        page.as_bytes(),
    ];
    for bytes in bad {
        let whole = [bytes, b"\n"].concat();
        let error = ask_ollama(Script::body(&whole)).await.0.unwrap_err();
        assert!(matches!(error, ModelError::Broken { .. }), "{error} for {}", bytes.escape_ascii());
        assert!(!error.to_string().contains("secret"));
        let event = [b"data: ", bytes, b"\n\n"].concat();
        let (error, _) = ask_openai(Script::body(&event)).await;
        let error = error.unwrap_err();
        let is_known = matches!(error, ModelError::Broken { .. } | ModelError::Ended { .. });
        assert!(is_known && !error.to_string().contains("secret"), "{error} for {}", bytes.escape_ascii());
    }
    assert!(matches!(ask_openai(Script::body(page)).await.0, Err(ModelError::Broken { .. })));
    let deep = "[".repeat(100_000);
    let error = ask_ollama(Script::body(format!("{{\"message\":{deep}\n"))).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn lines_and_answers_have_limits() {
    let mebi = "x".repeat(1 << 20);
    // One line that does not end.
    let endless = |begin: &str| (0..9).fold(Script::new().chunk(begin), |script, _| script.chunk(&mebi));
    for (reply, heard) in [
        ask_ollama(endless("{\"message\":{\"content\":\"")).await,
        ask_openai(endless("data: {\"")).await,
        ask_openai(endless(": ")).await,
    ] {
        assert!(matches!(reply, Err(ModelError::TooLarge { limit, .. }) if limit == 8 << 20), "{reply:?}");
        assert_eq!(heard.text, "");
    }
    // Many lines, each of them as they should be.
    let line = ollama_line(&json!({ "role": "assistant", "content": mebi }));
    let event = openai_event(&json!({ "content": mebi }), None);
    let many = |line: &str| (0..6).fold(Script::new(), |script, _| script.chunk(line));
    for (reply, heard) in [ask_ollama(many(&line)).await, ask_openai(many(&event)).await] {
        let error = reply.unwrap_err();
        assert!(matches!(error, ModelError::TooLarge { limit, .. } if limit == 4 << 20), "{error}");
        assert!(error.to_string().contains("allow longer answers with agent.max_answer_bytes"), "{error}");
        assert_eq!(heard.text.len(), 4 << 20);
    }
    // Calls without end.
    let calls: Vec<_> = (0..2000).map(|_| json!({ "function": { "name": "x" } })).collect();
    let line = ollama_line(&json!({ "tool_calls": calls }));
    let event = openai_event(&json!({ "tool_calls": calls }), Some("stop"));
    for (reply, _) in [ask_ollama(Script::body(line)).await, ask_openai(Script::body(event)).await] {
        assert!(matches!(reply, Err(ModelError::TooLarge { .. })));
    }
}

/// Objects without a word in them are no answer, and have an end too.
#[tokio::test]
async fn a_server_that_sends_without_saying_anything_is_cut_off() {
    let patience = RetryPolicy { answer_bytes: 1000, ..patience() };
    let ollama = ollama_line(&json!({ "role": "assistant", "content": "" }));
    let openai = openai_event(&json!({ "content": "" }), None);
    let endless =
        |line: &str| (0..50).fold(Script::new(), |script, _| script.chunk(line.repeat(200))).stall();
    let outcomes =
        [ollama_within(patience, endless(&ollama)).await, openai_within(patience, endless(&openai)).await];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(ModelError::TooLarge { limit: 256_000, .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn who_does_not_wait_closes_the_connection() {
    let said = ollama_line(&json!({ "role": "assistant", "content": "a" }));
    let event = openai_event(&json!({ "content": "a" }), None);
    let server = ModelServer::start(move |request| {
        let first = if request.path.starts_with("/api") { &said } else { &event };
        Script::new().chunk(first).stall()
    })
    .unwrap();
    for (at, model) in both(&server).into_iter().enumerate() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let mut tell = Some(tell);
        // Spawned: so it is seen that the future may go to another thread.
        let asking = tokio::spawn(async move {
            let mut on = |_: ReplyEvent<'_>| {
                tell.take().map(|tell| tell.send(()));
            };
            model.chat(&question(), &mut on).await
        });
        told.await.unwrap();
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        // The client needs its runtime to close.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(server.wait_for_leaving(at + 1, Duration::from_secs(10)));
    }
}

#[tokio::test]
async fn connections_are_used_again_for_the_next_question() {
    let server = ModelServer::replay([replies::ollama("yes")]).unwrap();
    let [model, _] = both(&server);
    for _ in 0..5 {
        ask(&model, &question()).await.0.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(server.connections() < 5, "{}", server.connections());
}

#[tokio::test]
async fn what_is_no_http_is_no_answer() {
    for raw in ["", "SSH-2.0-OpenSSH_9.6\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{", "\0\0\0"] {
        let script = Script::new().step(Step::Raw(raw.as_bytes().to_vec())).close(Closing::Fin);
        let outcomes =
            [ollama_within(patience(), script.clone()).await, openai_within(patience(), script).await];
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert!(
                matches!(error, ModelError::Unreachable { .. } | ModelError::Ended { .. }),
                "{raw:?} {error}"
            );
        }
    }
}
