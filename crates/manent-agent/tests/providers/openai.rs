//! The interface like OpenAI's: what is sent, and how answers are read.

use manent_agent::providers::{
    Capabilities, FinishReason, Message, Model, ModelError, OpenAi, Reply, Request, ServerConfig,
};
use manent_sim::model_server::replies::{self, openai_event};
use manent_sim::model_server::{ModelServer, Script};
use serde_json::{Value, json};

use crate::client::{ask, ask_openai, openai, patience, question};

async fn sent(request: &Request) -> Value {
    let server = ModelServer::replay([replies::openai("yes")]).unwrap();
    ask(&openai(&server).into(), request).await.0.unwrap();
    let requests = server.requests();
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(requests[0].header("accept-encoding"), None);
    assert_eq!(requests[0].header("authorization"), None, "there is no key");
    requests[0].json()
}

/// The events of an answer that calls tools: these parts, then the end.
fn calling(parts: &[Value]) -> Script {
    parts
        .iter()
        .map(|part| openai_event(&json!({ "tool_calls": [part] }), None))
        .chain([openai_event(&json!({}), Some("tool_calls")), replies::done()])
        .fold(Script::new(), Script::chunk)
}

fn calls(reply: &Reply) -> Vec<(&str, &str, &str)> {
    reply.calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect()
}

#[tokio::test]
async fn a_text_comes_word_by_word_with_counts_and_the_model() {
    let (reply, heard) = ask_openai(replies::openai("Because of Rayleigh scattering.")).await;
    let reply = reply.unwrap();
    assert_eq!(heard.text, "Because of Rayleigh scattering.");
    assert_eq!((reply.usage.input, reply.usage.output), (Some(11), Some(4)));
    assert_eq!((reply.finish, reply.model.as_str(), reply.tries), (FinishReason::Stop, replies::MODEL, 1));
}

#[tokio::test]
async fn a_request_is_sent_as_these_servers_want_it() {
    assert_eq!(
        sent(&question()).await,
        json!({
            "model": replies::MODEL,
            "stream": true,
            "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "Why is the sky blue?" }],
        })
    );
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let request = Request {
        format: Some(schema.clone()),
        think: Some(true),
        max_tokens: Some(9),
        temperature: Some(0.0),
        seed: Some(1),
        ..question()
    };
    let body = sent(&request).await;
    assert_eq!(
        body["response_format"],
        json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema } })
    );
    assert_eq!(
        (&body["max_tokens"], &body["temperature"], &body["seed"]),
        (&json!(9), &json!(0.0), &json!(1))
    );
    assert_eq!(body["chat_template_kwargs"], json!({ "enable_thinking": true }));
}

#[tokio::test]
async fn calls_and_results_of_earlier_turns_are_sent_with_their_ids() {
    let call =
        r#"[{"id":"a1","name":"read","arguments":{"z":1,"a":2}},{"name":"run","arguments":"not json"}]"#;
    let result = Message { tool_call_id: Some("a1".to_owned()), ..Message::new("tool", "done") };
    let request = Request {
        messages: vec![
            Message { tool_calls: Some(call.to_owned()), ..Message::new("assistant", "") },
            Message { name: Some("read".to_owned()), ..result },
        ],
        tools: Some(r#"[{"type":"function","function":{"name":"read"}}]"#.to_owned()),
        ..Request::default()
    };
    let body = sent(&request).await;
    assert_eq!(
        body["messages"][0],
        json!({
            "role": "assistant",
            "content": "",
            "tool_calls": [
                { "id": "a1", "type": "function",
                  "function": { "name": "read", "arguments": "{\"z\":1,\"a\":2}" } },
                { "id": "call-1", "type": "function",
                  "function": { "name": "run", "arguments": "{\"arguments\":\"not json\"}" } },
            ],
        })
    );
    assert_eq!(body["messages"][1], json!({ "role": "tool", "content": "done", "tool_call_id": "a1" }));
    assert_eq!(body["tools"][0]["function"]["name"], "read");
}

#[tokio::test]
async fn calls_in_pieces_are_put_together_by_number() {
    let script = calling(&[
        json!({ "index": 0, "id": "a", "type": "function", "function": { "name": "read", "arguments": "" } }),
        json!({ "index": 0, "function": { "arguments": "{\"path\"" } }),
        json!({ "index": 1, "id": "b", "type": "function", "function": { "name": "list", "arguments": "{" } }),
        json!({ "index": 0, "function": { "arguments": ":\"x\"}" } }),
        json!({ "index": 1, "id": null, "function": { "name": null, "arguments": "}" } }),
    ]);
    let reply = ask_openai(script).await.0.unwrap();
    assert_eq!(calls(&reply), [("a", "read", "{\"path\":\"x\"}"), ("b", "list", "{}")]);
    assert_eq!(reply.finish, FinishReason::Calls);
}

#[tokio::test]
async fn calls_are_put_together_whatever_servers_leave_out_or_repeat() {
    // No numbers; the id stands in the first piece, or in each.
    let script = calling(&[
        json!({ "id": "a", "function": { "name": "read", "arguments": "{\"p\":" } }),
        json!({ "function": { "arguments": "1}" } }),
        json!({ "id": "b", "function": { "name": "list", "arguments": "{" } }),
        json!({ "id": "b", "function": { "name": "list", "arguments": "}" } }),
    ]);
    let reply = ask_openai(script).await.0.unwrap();
    assert_eq!(calls(&reply), [("a", "read", "{\"p\":1}"), ("b", "list", "{}")]);

    // Every call has the number 0, and comes whole.
    let script = calling(&[
        json!({ "index": 0, "id": "a", "function": { "name": "read", "arguments": "{\"p\":1}" } }),
        json!({ "index": 0, "id": "b", "function": { "name": "read", "arguments": { "p": 2 } } }),
    ]);
    let reply = ask_openai(script).await.0.unwrap();
    assert_eq!(calls(&reply), [("a", "read", "{\"p\":1}"), ("b", "read", "{\"p\":2}")]);

    // No ids at all, or the same one twice, or nothing in it.
    let script = calling(&[
        json!({ "function": { "name": "read", "arguments": "{\"p\":1}" } }),
        json!({ "function": { "name": "read", "arguments": null } }),
        json!({ "index": 7, "id": "c", "function": { "name": "list" } }),
        json!({ "index": 8, "id": "c", "function": { "name": "list" } }),
        json!({ "index": 9 }),
    ]);
    let reply = ask_openai(script).await.0.unwrap();
    let named: Vec<_> = calls(&reply).iter().map(|(_, name, arguments)| (*name, *arguments)).collect();
    assert_eq!(named, [("read", "{\"p\":1}"), ("read", "{}"), ("list", "{}"), ("list", "{}")]);
    let ids: std::collections::HashSet<_> = reply.calls.iter().map(|call| &call.id).collect();
    assert!(ids.len() == 4 && !ids.contains(&String::new()), "{ids:?}");
}

#[tokio::test]
async fn thoughts_are_told_apart_under_either_name() {
    let script = Script::new()
        .chunk(openai_event(&json!({ "reasoning_content": "Well, ", "reasoning": "Well, " }), None))
        .chunk(openai_event(&json!({ "reasoning": "air.", "content": null }), None))
        .chunk(openai_event(&json!({ "content": [{ "type": "text", "text": "Air" }, "."] }), None))
        .chunk(openai_event(&json!({}), Some("length")))
        .chunk(replies::done());
    let (reply, heard) = ask_openai(script).await;
    let reply = reply.unwrap();
    assert_eq!((heard.thinking.as_str(), reply.text.as_str()), ("Well, air.", "Air."));
    assert_eq!(reply.finish, FinishReason::Length);
}

#[tokio::test]
async fn an_answer_may_come_as_plain_json() {
    let body = json!({
        "object": "chat.completion", "model": "m", "usage": { "prompt_tokens": 3, "completion_tokens": 4 },
        "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I look.",
            "tool_calls": [{ "id": "a", "type": "function", "function": { "name": "x", "arguments": "{}" } }],
        } }],
    });
    for text in [body.to_string(), format!("\u{feff}\n {body:#}\n")] {
        for each in [1, 7, text.len()] {
            let reply = ask_openai(Script::split(&text, each)).await.0.unwrap();
            assert_eq!((reply.text.as_str(), reply.usage.input), ("I look.", Some(3)));
            assert_eq!(calls(&reply), [("a", "x", "{}")]);
            assert_eq!((reply.finish, reply.model.as_str()), (FinishReason::Calls, "m"));
        }
    }
    for (body, is_failed) in [(r#"{"error":{"message":"out of memory"}}"#, true), ("{}", false), ("{", false)]
    {
        let error = ask_openai(Script::body(body)).await.0.unwrap_err();
        assert_eq!(matches!(error, ModelError::Failed { .. }), is_failed, "{error}");
        assert_eq!(matches!(error, ModelError::Broken { .. }), !is_failed, "{error}");
    }
}

#[tokio::test]
async fn events_may_be_written_in_any_allowed_way() {
    let whole = "\u{feff}: hi\r\rdata:{\"choices\":[{\"delta\":\r\ndata: {\"content\":\"a\"}}]}\r\n\r\n\
                 event: ping\ndata: still here\n\nid: 4\nretry: 1\n\n\
                 data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}}]}\n\n\
                 data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"eos\"}]}\n\ndata: [DONE]";
    for each in 1..40 {
        let reply = ask_openai(Script::split(whole, each)).await.0.unwrap();
        assert_eq!((reply.text.as_str(), reply.finish), ("ab", FinishReason::Stop));
    }
}

#[tokio::test]
async fn an_answer_that_says_why_it_ended_is_whole_without_the_last_word() {
    let said = Script::new().chunk(openai_event(&json!({ "content": "yes" }), Some("stop")));
    assert_eq!(ask_openai(said.clone()).await.0.unwrap().text, "yes");
    assert_eq!(ask_openai(said.chunk("data: {\"usa")).await.0.unwrap().text, "yes");
    // The last word alone is enough too.
    let done = Script::new().chunk(openai_event(&json!({ "content": "yes" }), None)).chunk(replies::done());
    assert_eq!(ask_openai(done).await.0.unwrap().finish, FinishReason::Stop);
}

#[tokio::test]
async fn errors_in_an_answer_have_many_forms() {
    for error in [
        "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n",
        "data: {\"error\":\"out of memory\"}\n\n",
        "event: error\ndata: {\"message\":\"out of memory\"}\n\n",
        "event: error\ndata: out of memory\n\n",
        "data: {\"object\":\"error\",\"message\":\"out of memory\",\"code\":400}\n\n",
    ] {
        let said = Script::new().chunk(openai_event(&json!({ "content": "yes" }), None));
        let (reply, heard) = ask_openai(said.chunk(error)).await;
        match reply.unwrap_err() {
            ModelError::Failed { message, .. } => assert_eq!(message, "out of memory"),
            other => panic!("{other}"),
        }
        assert_eq!(heard.text, "yes", "what had come was told");
    }
}

#[tokio::test]
async fn what_there_is_can_be_asked() {
    let list = r#"{"object":"list","data":[{"id":"other"},{"id":"llama3.2:3b","max_model_len":4096},{}]}"#;
    let server = ModelServer::replay([Script::body(list)]).unwrap();
    let model = openai(&server);
    assert_eq!(model.models().await.unwrap(), ["other", "llama3.2:3b"]);
    let told = Capabilities { window: Some(4096), ..Capabilities::default() };
    assert_eq!(Model::from(model.clone()).capabilities().await.unwrap(), told);
    let known = model.with_window(1000);
    assert_eq!((known.window(), known.capabilities().await.unwrap().window), (Some(1000), Some(1000)));
    let only = r#"{"data":[{"id":"a file","meta":{"n_ctx":1024,"n_ctx_train":8192}}]}"#;
    let alone = ModelServer::replay([Script::body(only)]).unwrap();
    assert_eq!(
        openai(&alone).capabilities().await.unwrap().window,
        Some(1024),
        "called otherwise, but alone"
    );
    assert!(server.requests().iter().all(|request| request.path == "/v1/models" && request.method == "GET"));
}

#[tokio::test]
async fn the_key_is_sent_and_nowhere_else_seen() {
    let key = "sk-very-secret-0123456789";
    let refusal = format!(r#"{{"error":{{"message":"Incorrect API key provided: {key}."}}}}"#);
    let server = ModelServer::replay([replies::openai("yes"), Script::error(401, refusal)]).unwrap();
    let url = server.url().replace("http://", "http://me:also-secret@");
    let configured =
        ServerConfig::at(format!("{url}/v1/")).with_key(&format!(" {key}\n")).with_retry_policy(patience());
    let model = Model::from(OpenAi::new(&configured, replies::MODEL).unwrap());
    ask(&model, &question()).await.0.unwrap();
    assert_eq!(server.requests()[0].header("authorization"), Some(format!("Bearer {key}").as_str()));
    let error = ask(&model, &question()).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Refused { status: 401, .. }), "{error}");
    let shown = format!("{configured:?} {configured:#?} {model:?} {error} {error:?} {}", url.len());
    assert!(!shown.contains("secret"), "{shown}");
    assert!(error.to_string().contains("check the API key"));

    let wrong = OpenAi::new(&ServerConfig::at("http://box").with_key("a\nb-secret"), "m").unwrap_err();
    assert!(matches!(wrong, ModelError::Unsendable { .. }) && !format!("{wrong:?}").contains("secret"));
}
