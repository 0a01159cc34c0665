//! Servers that break off, stall and refuse, and whoever stops an answer: the question is kept, what came is kept, and
//! the next question works.

use std::time::Duration;

use manent_agent::kernel::{Event, TurnError};
use manent_agent::providers::ModelError;
use manent_sim::model_server::{Closing, Script, replies};
use serde_json::json;

use crate::fixture::{Fixture, LONG, ask, ask_with_events, key, log, logged_turns, pairs};

fn piece(text: &str) -> String {
    replies::ollama_line(&json!({"role": "assistant", "content": text}))
}

/// One question that goes wrong, and one that does not.
async fn ask_failing(bad: Script, tries: usize, partial: Option<&str>) -> ModelError {
    let fixture = Fixture::new(move |request| match crate::fixture::question(request).as_str() {
        "one" => bad.clone(),
        _ => replies::ollama("fine"),
    });
    let conversation = fixture.kernel().conversation(&key("a"));
    let (events, outcome) = ask_with_events(&conversation, "one").await;
    let Err(TurnError::Model(error)) = outcome else { panic!("{outcome:?}") };
    assert!(matches!(events[0], Event::QuestionSaved { .. }), "{events:?}");
    let mut lines = log(&fixture.store, &key("a"));
    lines.retain(|line| line.role != "context");
    assert_eq!((&lines[0].role[..], &lines[0].content[..]), ("user", "one"), "the question is kept");
    let logged = lines.get(1).map(|line| line.content.as_str());
    assert_eq!(logged, partial, "what came is kept");
    if let Some(line) = lines.get(1) {
        assert_eq!(line.interrupted.as_deref(), Some("broken"), "and marked");
    }
    assert_eq!(fixture.server.requests().len(), tries);

    assert_eq!(ask(&conversation, "two").await.text, "fine");
    let closed = partial.unwrap_or("[interrupted before an answer was given]");
    let sent = fixture.chats().pop().unwrap();
    assert_eq!(sent[1..], pairs(&[("user", "one"), ("assistant", closed), ("user", "two")]));
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_breaks_off() {
    for how in [Closing::Fin, Closing::Rst] {
        let error = ask_failing(Script::new().chunk(piece("half ")).close(how), 1, Some("half ")).await;
        assert!(matches!(error, ModelError::Ended { .. }), "{error}");
        let error = ask_failing(Script::new().close(how), 1, None).await;
        assert!(matches!(error, ModelError::Unreachable { .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stalls() {
    let error = ask_failing(Script::new().chunk(piece("half ")).stall(), 1, Some("half ")).await;
    assert!(matches!(error, ModelError::Stalled { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails() {
    let error = ask_failing(Script::error(500, r#"{"error":"no memory"}"#), 2, None).await;
    assert!(matches!(error, ModelError::Server { status: 500, .. }), "{error}");
    let error = ask_failing(Script::error(400, r#"{"error":"bad"}"#), 1, None).await;
    assert!(matches!(error, ModelError::Server { status: 400, .. }), "{error}");
    let error = ask_failing(replies::ollama_error("half of it", "died"), 1, Some("half of it")).await;
    assert!(matches!(error, ModelError::Failed { .. }), "{error}");
    let error = ask_failing(Script::body("<html>hello</html>"), 1, None).await;
    assert!(matches!(error, ModelError::Broken { .. } | ModelError::Ended { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_is_asked_again_and_that_is_told() {
    let fixture = Fixture::replay([Script::error(503, r#"{"error":"full"}"#), replies::ollama("yes")]);
    let (events, answered) = ask_with_events(&fixture.kernel().conversation(&key("a")), "one").await;
    assert_eq!(answered.unwrap().text, "yes");
    assert!(events.iter().any(|event| matches!(event, Event::Retry { .. })), "{events:?}");
    assert_eq!(logged_turns(&fixture.store, &key("a")).len(), 2, "the question is kept once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_keeps_what_came_and_the_next_question_works() {
    let fixture = Fixture::new(|request| match crate::fixture::question(request).as_str() {
        "one" => Script::new().chunk(piece("half ")).chunk(piece("of ")).stall(),
        _ => replies::ollama("fine"),
    });
    let conversation = fixture.kernel().conversation(&key("a"));
    let mut stream = conversation.ask("one").await.unwrap();
    let mut text = String::new();
    while text != "half of " {
        if let Event::Text(more) = stream.next().await.unwrap() {
            text.push_str(&more);
        }
    }
    stream.stop();
    let answered = stream.end().await.unwrap();
    assert!(answered.stopped && answered.text == "half of ", "{answered:?}");
    let line = log(&fixture.store, &key("a")).pop().unwrap();
    assert_eq!((Some(line.seq), line.interrupted.as_deref()), (answered.seq, Some("stopped")));
    assert!(fixture.server.wait_for_leaving(1, LONG), "the server need not go on");
    assert_eq!(ask(&conversation, "two").await.text, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_before_anything_came_leaves_the_question_alone() {
    let fixture = Fixture::new(|request| match crate::fixture::question(request).as_str() {
        "one" => Script::new().stall(),
        _ => replies::ollama("fine"),
    });
    let conversation = fixture.kernel().conversation(&key("a"));
    let mut stream = conversation.ask("one").await.unwrap();
    while !matches!(stream.next().await, Some(Event::Sending { .. })) {}
    while !fixture.server.wait_for_requests(1, Duration::ZERO) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stream.stop();
    let answered = stream.end().await.unwrap();
    assert!(answered.stopped && answered.seq.is_none(), "{answered:?}");
    assert_eq!(logged_turns(&fixture.store, &key("a")), pairs(&[("user", "one")]));
    assert_eq!(ask(&conversation, "two").await.text, "fine");
}

/// Somebody who asks and does not listen holds up nobody but themselves, and can still stop it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_heard_while_nobody_listens() {
    let many = (0..500).fold(Script::new(), |script, n| script.chunk(piece(&format!("{n} ")))).stall();
    let fixture = Fixture::new(move |request| match crate::fixture::question(request).as_str() {
        "one" => many.clone(),
        _ => replies::ollama("fine"),
    });
    let conversation = fixture.kernel().conversation(&key("a"));
    let stream = conversation.ask("one").await.unwrap();
    assert!(fixture.server.wait_for_requests(1, LONG));
    tokio::time::sleep(Duration::from_millis(100)).await;
    stream.stop();
    let answered = stream.end().await.unwrap();
    assert!(answered.stopped, "{answered:?}");
    assert!(answered.text.starts_with("0 1 2 3"), "what came is kept, heard or not");
    assert_eq!(ask(&conversation, "two").await.text, "fine");
}

/// A stop while the context is being made smaller by a model counts at once: nobody waits for a summary then.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_heard_while_a_summary_is_made() {
    let fixture = Fixture::new(|request| {
        if crate::fixture::is_chat(request) {
            replies::ollama("a story of ships")
        } else {
            Script::new().stall()
        }
    });
    let mut config = crate::fixture::quiet();
    config.limits.max_messages = 6;
    let retry_policy = manent_agent::providers::RetryPolicy {
        between: LONG * 2,
        first_byte: LONG * 2,
        ..crate::fixture::retry_policy()
    };
    let server =
        manent_agent::providers::ServerConfig::at(fixture.server.url()).with_retry_policy(retry_policy);
    let model = manent_agent::providers::Ollama::new(&server, replies::MODEL).unwrap();
    let conversation =
        crate::fixture::start(fixture.store.clone(), model.into(), &config).conversation(&key("a"));
    let mut questions = 0;
    let mut stream = loop {
        let stream = conversation.ask("Tell me of the ships in the harbour of Lisbon.").await.unwrap();
        questions += 1;
        // The first one that is too many.
        if questions == 4 {
            break stream;
        }
        stream.end().await.unwrap();
    };
    assert!(matches!(stream.next().await, Some(Event::QuestionSaved { .. })));
    while !fixture.server.wait_for_requests(4, Duration::ZERO) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!crate::fixture::is_chat(&fixture.server.requests()[3]), "a summary is asked for");
    stream.stop();
    let answered = stream.end().await.unwrap();
    assert!(answered.stopped && answered.seq.is_none(), "{answered:?}");
    assert_eq!(logged_turns(&fixture.store, &key("a")).len(), 7, "the question is kept");
    assert!(
        fixture.store.context(&key("a"), manent::tokens::Tokens::default()).unwrap().compaction.is_none()
    );
}
