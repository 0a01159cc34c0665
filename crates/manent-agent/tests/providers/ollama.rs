//! The interface of Ollama: what is sent, and how its answers are read.

use manent_agent::providers::{Capabilities, FinishReason, Message, Model, ModelError, Ollama, Request};
use manent_sim::model_server::{ModelServer, Script, replies};
use serde_json::{Value, json};

use crate::client::{ask, ask_ollama, at, ollama, question};

/// Returns the request that a server receives.
async fn sent(request: &Request, with: impl FnOnce(Ollama) -> Ollama) -> Value {
    let server = ModelServer::replay([replies::ollama("yes")]).unwrap();
    ask(&with(ollama(&server)).into(), request).await.0.unwrap();
    let requests = server.requests();
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/api/chat"));
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    assert!(requests[0].header("user-agent").unwrap().starts_with("manent/"));
    assert_eq!(requests[0].header("accept-encoding"), None, "nobody unpacks it here");
    requests[0].json()
}

fn tool_line(calls: &Value) -> String {
    replies::ollama_line(&json!({ "role": "assistant", "content": "", "tool_calls": calls }))
}

#[tokio::test]
async fn a_text_comes_word_by_word_with_counts_and_the_model() {
    let (reply, heard) = ask_ollama(replies::ollama("Because of Rayleigh scattering.")).await;
    let reply = reply.unwrap();
    assert_eq!(heard.text, "Because of Rayleigh scattering.");
    assert_eq!((reply.usage.input, reply.usage.output), (Some(11), Some(4)));
    assert_eq!((reply.finish, reply.model.as_str(), reply.tries), (FinishReason::Stop, replies::MODEL, 1));
    assert_eq!(reply.truncated, None);
}

#[tokio::test]
async fn the_window_is_always_sent_and_the_rest_only_if_it_is_set() {
    let body = sent(&question(), |model| model).await;
    assert_eq!(
        body,
        json!({
            "model": replies::MODEL,
            "stream": true,
            "messages": [{ "role": "user", "content": "Why is the sky blue?" }],
            "options": { "num_ctx": Ollama::WINDOW },
        })
    );
    let request = Request {
        think: Some(false),
        max_tokens: Some(99),
        temperature: Some(0.5),
        seed: Some(7),
        tools: Some("[]".to_owned()),
        format: Some(json!({ "type": "object", "required": ["z", "a"] })),
        ..question()
    };
    let body = sent(&request, |model| model.with_window(32_768).with_keep_alive("30m")).await;
    assert_eq!(
        body["options"],
        json!({ "num_ctx": 32_768, "num_predict": 99, "temperature": 0.5, "seed": 7 })
    );
    assert_eq!((&body["think"], &body["keep_alive"]), (&json!(false), &json!("30m")));
    assert_eq!(body["format"], json!({ "type": "object", "required": ["z", "a"] }));
    assert_eq!(body.get("tools"), None, "an empty list is none");
    let body = sent(&question(), |model| model.with_keep_alive("-1")).await;
    assert_eq!(body["keep_alive"], json!(-1));
}

#[tokio::test]
async fn calls_and_results_of_earlier_turns_are_sent_as_ollama_wants_them() {
    let call =
        r#"[{"id":"a1","name":"read","arguments":{"path":"x"}},{"id":"a2","name":"run","arguments":"{}"}]"#;
    let result = |id: &str, name: Option<&str>| Message {
        tool_call_id: Some(id.to_owned()),
        name: name.map(str::to_owned),
        ..Message::new("tool", "done")
    };
    let request = Request {
        messages: vec![
            Message::new("user", "look"),
            Message { tool_calls: Some(call.to_owned()), ..Message::new("assistant", "") },
            result("a1", Some("read")),
            result("a2", None),
        ],
        tools: Some(r#"[{"type":"function","function":{"name":"read","parameters":{}}}]"#.to_owned()),
        ..Request::default()
    };
    let body = sent(&request, |model| model).await;
    assert_eq!(body["tools"][0]["function"]["name"], "read");
    assert_eq!(
        body["messages"][1]["tool_calls"],
        json!([
            { "function": { "name": "read", "arguments": { "path": "x" } } },
            { "function": { "name": "run", "arguments": {} } },
        ])
    );
    assert_eq!(body["messages"][2], json!({ "role": "tool", "content": "done", "tool_name": "read" }));
    assert_eq!(body["messages"][3]["tool_name"], "run", "found by its call");
}

#[tokio::test]
async fn tools_and_a_format_are_never_sent_together() {
    let server = ModelServer::replay([replies::ollama("yes")]).unwrap();
    let tools = r#"[{"type":"function","function":{"name":"x"}}]"#.to_owned();
    for request in [
        Request { tools: Some(tools), format: Some(json!({})), ..question() },
        Request { tools: Some("no array".to_owned()), ..question() },
    ] {
        for model in crate::client::both(&server) {
            let error = ask(&model, &request).await.0.unwrap_err();
            assert!(matches!(error, ModelError::Unsendable { .. }), "{error}");
            assert!(!error.is_transient());
        }
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn calls_come_whole_before_the_end_and_get_ids() {
    let script = Script::new()
        .chunk(replies::ollama_line(&json!({ "role": "assistant", "content": "I look." })))
        .chunk(tool_line(&json!([{ "function": { "name": "read", "arguments": { "z": 1, "a": [] } } }])))
        .chunk(tool_line(&json!([
            { "function": { "name": "read", "arguments": "{\"path\":\"x\"}" } },
            { "function": { "index": 1, "name": "list" } },
        ])))
        .chunk(replies::ollama_done("stop", 5, 6));
    let (reply, heard) = ask_ollama(script).await;
    let reply = reply.unwrap();
    let calls: Vec<_> =
        reply.calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls[1..], [("read", r#"{"path":"x"}"#), ("list", "{}")]);
    assert_eq!(serde_json::from_str::<Value>(calls[0].1).unwrap(), json!({ "z": 1, "a": [] }));
    assert_eq!(reply.finish, FinishReason::Calls, "whatever the server calls it");
    assert_eq!(heard.text, "I look.");
    let ids: std::collections::HashSet<_> = reply.calls.iter().map(|call| &call.id).collect();
    assert!(ids.len() == 3 && ids.iter().all(|id| id.len() == 9), "{ids:?}");
}

#[tokio::test]
async fn arguments_keep_their_bytes() {
    let call = r#"{"function":{"name":"x","arguments":{"z": 1.50, "a":"\u00e9"}}}"#;
    let line = format!(r#"{{"message":{{"role":"assistant","tool_calls":[{call}]}},"done":false}}"#);
    let script = Script::new().chunk(format!("{line}\n")).chunk(replies::ollama_done("stop", 1, 1));
    assert_eq!(ask_ollama(script).await.0.unwrap().calls[0].arguments, r#"{"z": 1.50, "a":"\u00e9"}"#);
}

#[tokio::test]
async fn thoughts_are_told_apart() {
    let script = Script::new()
        .chunk(replies::ollama_line(&json!({ "role": "assistant", "content": "", "thinking": "Well, " })))
        .chunk(replies::ollama_line(&json!({ "role": "assistant", "content": "", "thinking": "air." })))
        .chunk(replies::ollama_line(&json!({ "role": "assistant", "content": "Air." })))
        .chunk(replies::ollama_done("length", 1, 1));
    let (reply, heard) = ask_ollama(script).await;
    let reply = reply.unwrap();
    assert_eq!((heard.thinking.as_str(), reply.text.as_str()), ("Well, air.", "Air."));
    assert_eq!(reply.finish, FinishReason::Length);
}

#[tokio::test]
async fn members_that_are_new_or_not_as_documented_cost_nothing() {
    let script = Script::body(
        "\u{feff}\r\n{\"model\":7,\"message\":{\"content\":null,\"images\":[{}],\"x\":1}}\r\n\n\
         {\"message\":{\"content\":\"hi\",\"tool_calls\":null},\"done\":false,\"new\":{\"a\":[[]]}}\r\n\
         {\"done\":true,\"prompt_eval_count\":\"many\",\"eval_count\":-1}",
    );
    let reply = ask_ollama(script).await.0.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish), ("hi", FinishReason::Stop));
    assert_eq!((reply.usage.input, reply.usage.output), (None, None));
    assert_eq!(reply.model, replies::MODEL, "the one that was asked, where none is named");
}

#[tokio::test]
async fn a_prompt_that_was_cut_is_noticed_and_one_that_was_cached_is_not() {
    let server = ModelServer::start(|request| {
        let read = request.json()["options"]["seed"].as_u64().unwrap();
        Script::body(replies::ollama_done("stop", read, 1))
    })
    .unwrap();
    let model = Model::from(ollama(&server).with_window(8192));
    for (counted, read, is_cut) in
        [(9000, 4096, true), (8000, 4100, true), (8000, 7800, false), (500, 20, false)]
    {
        let request = Request { counted, seed: Some(read), ..question() };
        let truncated = ask(&model, &request).await.0.unwrap().truncated;
        assert_eq!(truncated.map(|cut| (cut.counted, cut.read)), is_cut.then_some((counted, read)));
    }
    let request = Request { counted: 9000, seed: Some(0), ..question() };
    let reply = ask(&model, &request).await.0.unwrap();
    assert_eq!((reply.truncated, reply.usage.input), (None, None), "nothing was counted");
}

#[tokio::test]
async fn capabilities_are_those_that_are_told() {
    let shown = json!({
        "license": "…", "capabilities": ["completion", "tools", "vision"],
        "model_info": {
            "general.architecture": "gemma3", "clip.context_length": 77, "gemma3.context_length": 131_072,
            "tokenizer.ggml.tokens": null,
        },
    });
    let scripts =
        [shown.to_string(), json!({ "model_info": { "x.context_length": 4096 } }).to_string(), "{}".into()];
    let server = ModelServer::replay(scripts.map(Script::body)).unwrap();
    let model = ollama(&server);
    let told =
        Capabilities { tools: Some(true), thinking: Some(false), vision: Some(true), window: Some(131_072) };
    assert_eq!(model.capabilities().await.unwrap(), told);
    assert_eq!(
        model.capabilities().await.unwrap(),
        Capabilities { window: Some(4096), ..Capabilities::default() }
    );
    assert_eq!(model.capabilities().await.unwrap(), Capabilities::default());
    assert_eq!(server.requests()[0].path, "/api/show");
    assert_eq!(server.requests()[0].json(), json!({ "model": replies::MODEL }));
}

#[tokio::test]
async fn what_there_is_can_be_asked() {
    let server = ModelServer::start(|request| match request.path.as_str() {
        "/api/tags" => Script::body(r#"{"models":[{"name":"a:1b","size":7},{"name":"b"}]}"#),
        "/api/version" => Script::body(r#"{"version":"0.13.1"}"#),
        _ => Script::error(404, "404 page not found"),
    })
    .unwrap();
    let model = ollama(&server);
    assert_eq!(model.models().await.unwrap(), ["a:1b", "b"]);
    assert_eq!(model.version().await.unwrap(), "0.13.1");
    // Another server that happens to be there.
    let error = model.capabilities().await.unwrap_err();
    assert!(matches!(error, ModelError::Server { status: 404, .. }), "{error}");
}

#[tokio::test]
async fn a_probe_does_not_wait_for_long() {
    let server = ModelServer::replay([Script::new().stall()]).unwrap();
    let patience = manent_agent::providers::RetryPolicy {
        probe: std::time::Duration::from_millis(30),
        ..crate::client::patience()
    };
    let model = Ollama::new(&at(&server).with_retry_policy(patience), "x").unwrap();
    assert!(matches!(model.version().await, Err(ModelError::Stalled { .. })));
}
