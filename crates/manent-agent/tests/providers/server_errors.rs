//! Servers that refuse, are busy, or are not there.

use std::net::TcpListener;
use std::time::Duration;

use manent_agent::providers::{Model, ModelError, Ollama, OpenAi, RetryPolicy, ServerConfig};
use manent_sim::model_server::{Closing, ModelServer, Script, replies};
use serde_json::json;

use crate::client::{ask, ask_ollama, ask_openai, at, both, ollama, openai, patience, question};

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again() {
    for status in [429, 500, 502, 503, 504] {
        let server = ModelServer::replay([
            Script::error(status, r#"{"error":"later"}"#),
            Script::error(status, "<html><title>Bad Gateway</title></html>"),
            replies::ollama("yes"),
        ])
        .unwrap();
        let (reply, heard) = ask(&ollama(&server).into(), &question()).await;
        assert_eq!((reply.unwrap().tries, server.requests().len()), (3, 3));
        assert_eq!(heard.again.len(), 2);
        assert!(heard.again[0].1.contains("later") && heard.again[0].1.contains(&status.to_string()));
        assert!(heard.again.iter().all(|(after, _)| *after <= 2), "{:?}", heard.again);
        let bodies: Vec<_> = server.requests().iter().map(|request| request.body.clone()).collect();
        assert!(bodies.iter().all(|body| *body == bodies[0]), "the same each time");
    }
}

#[tokio::test]
async fn a_server_says_when_to_come_again() {
    let cases = [("0.02", 20), ("0", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("3600", 50)];
    for (retry_after, after_ms) in cases {
        let server = ModelServer::replay([replies::busy(429, retry_after), replies::openai("yes")]).unwrap();
        let (reply, heard) = ask(&openai(&server).into(), &question()).await;
        assert_eq!(reply.unwrap().text, "yes");
        assert_eq!(heard.again[0].0, after_ms, "{retry_after}");
    }
}

#[tokio::test]
async fn a_server_that_stays_busy_is_given_up() {
    for status in [429, 503] {
        let server = ModelServer::replay([Script::error(status, r#"{"error":"full"}"#)]).unwrap();
        for model in both(&server) {
            let error = ask(&model, &question()).await.0.unwrap_err();
            assert!(matches!(error, ModelError::Busy { tries: 3, .. }), "{error}");
            assert!(error.is_transient() && error.to_string().contains("3 times"), "{error}");
        }
        assert_eq!(server.requests().len(), 6);
    }
    let server = ModelServer::replay([Script::error(500, r#"{"error":"no memory"}"#)]).unwrap();
    let error = ask(&ollama(&server).into(), &question()).await.0.unwrap_err();
    assert!(matches!(&error, ModelError::Server { status: 500, message, .. } if message == "no memory"));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn who_ran_out_of_money_is_not_asked_again() {
    let body = r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    let server = ModelServer::replay([Script::error(429, body)]).unwrap();
    let error = ask(&openai(&server).into(), &question()).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Server { status: 429, .. }) && !error.is_transient(), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn nothing_is_asked_again_once_something_came() {
    for script in [replies::ollama_error("yes", "died"), replies::ollama_error("", "died")] {
        let server = ModelServer::replay([script, replies::ollama("other")]).unwrap();
        assert!(matches!(ask(&ollama(&server).into(), &question()).await.0, Err(ModelError::Failed { .. })));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let configured = ServerConfig::at(format!("http://me:secret@{address}"));
    let once = Model::from(Ollama::new(&configured.clone().with_retry_policy(patience()), "m").unwrap());
    let (reply, heard) = ask(&once, &question()).await;
    let error = reply.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }) && error.is_transient());
    let text = error.to_string();
    assert!(text.contains(&format!("http://{address}")) && text.contains("ollama serve"), "{text}");
    assert!(text.contains("refused") && !text.contains("secret"), "{text}");
    assert!(heard.again.is_empty(), "only if configured");

    let patience = RetryPolicy { reach_tries: 3, ..patience() };
    let often = Model::from(Ollama::new(&configured.with_retry_policy(patience), "m").unwrap());
    assert_eq!(ask(&often, &question()).await.1.again.len(), 2);
}

#[tokio::test]
async fn a_connection_that_is_closed_without_a_word_is_made_again_if_configured() {
    for how in [Closing::Fin, Closing::Rst] {
        let closed = Script::new().close(how);
        let server = ModelServer::replay([closed.clone(), closed, replies::ollama("yes")]).unwrap();
        let (reply, _) = ask(&ollama(&server).into(), &question()).await;
        assert!(matches!(reply, Err(ModelError::Unreachable { .. })), "{reply:?}");
        let patience = RetryPolicy { reach_tries: 2, ..patience() };
        let model = Model::from(Ollama::new(&at(&server).with_retry_policy(patience), "m").unwrap());
        let (reply, heard) = ask(&model, &question()).await;
        assert_eq!((reply.unwrap().tries, heard.again.len()), (2, 1));
    }
}

#[tokio::test]
async fn a_model_that_is_not_there_is_named_with_those_that_are() {
    let server = ModelServer::start(|request| match request.path.as_str() {
        "/api/chat" => Script::error(404, r#"{"error":"model 'llama3.2:3b' not found"}"#),
        "/api/tags" => Script::body(r#"{"models":[{"name":"qwen3:4b"},{"name":"evil\u001b[2J"}]}"#),
        "/v1/models" => Script::body(r#"{"data":[{"id":"qwen3:4b"}]}"#),
        _ => Script::error(
            404,
            r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
        ),
    })
    .unwrap();
    for model in both(&server) {
        let error = ask(&model, &question()).await.0.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ModelError::NoSuchModel { .. }), "{text}");
        assert!(text.contains("ollama pull llama3.2:3b") && text.contains("qwen3:4b"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
    // Not knowing the others is no other error.
    let missing = Script::error(404, r#"{"error":"model \"x\" not found, try pulling it first"}"#);
    let error = ask_ollama(missing).await.0.unwrap_err();
    assert!(matches!(&error, ModelError::NoSuchModel { others, .. } if others.is_empty()), "{error}");
}

#[tokio::test]
async fn a_model_without_tools_is_told_from_other_errors() {
    let no_tools = r#"{"error":"registry.ollama.ai/library/gemma3:4b does not support tools"}"#;
    assert!(matches!(ask_ollama(Script::error(400, no_tools)).await.0, Err(ModelError::NoTools { .. })));
    let no_tools =
        r#"{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice"}"#;
    assert!(matches!(ask_openai(Script::error(400, no_tools)).await.0, Err(ModelError::NoTools { .. })));
    let other = ask_ollama(Script::error(400, r#"{"error":"invalid options"}"#)).await.0.unwrap_err();
    assert!(
        matches!(&other, ModelError::Server { status: 400, message, .. } if message == "invalid options")
    );
    assert!(!other.is_transient());
}

#[tokio::test]
async fn a_request_that_is_too_long_is_told_from_other_errors() {
    let of_llama = json!({ "error": {
        "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9001, "n_ctx": 4096,
        "message": "the request exceeds the available context size, try increasing it",
    } });
    let (reply, _) = ask_openai(Script::error(400, of_llama.to_string())).await;
    let error = reply.unwrap_err();
    let is_told = matches!(error, ModelError::TooLong { tokens: Some(9001), window: Some(4096), .. });
    assert!(is_told && error.to_string().contains("9001"), "{error}");
    let of_openai = json!({ "error": {
        "message": "This model's maximum context length is 8192 tokens.", "type": "invalid_request_error",
        "code": "context_length_exceeded",
    } });
    for script in [
        Script::error(400, of_openai.to_string()),
        Script::error(500, r#"{"error":"input length exceeds the context length"}"#),
        Script::body(format!("data: {of_llama}\n\n")),
    ] {
        let server = ModelServer::replay([script]).unwrap();
        let error = ask(&openai(&server).into(), &question()).await.0.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { .. }) && !error.is_transient(), "{error}");
        assert_eq!(server.requests().len(), 1, "asking again would not help");
    }
}

#[tokio::test]
async fn messages_of_servers_are_cut_and_cannot_move_the_cursor() {
    let nasty = format!("\u{1b}[2J\u{0}\u{7}\u{9b}x\r\n\u{202e}{}", "long ".repeat(1000));
    let body = json!({ "error": nasty }).to_string();
    for script in [Script::error(400, &body), Script::body(format!("{body}\n")), Script::error(418, &nasty)] {
        let error = ask_ollama(script).await.0.unwrap_err();
        let text = error.to_string();
        assert!(text.chars().count() < 450 && text.contains('…'), "{text}");
        assert!(!text.chars().any(|c| c.is_control() || c == '\u{202e}'), "{text:?}");
    }
    let page = "\n<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
    let error = ask_openai(Script::error(404, page)).await.0.unwrap_err();
    assert!(
        matches!(&error, ModelError::Server { status: 404, message, .. } if message.contains("502 Bad Gateway"))
    );
    let error = ask_ollama(Script::error(400, "")).await.0.unwrap_err();
    assert!(error.to_string().contains("does not say why"), "{error}");
    let error = ask_ollama(Script::error(403, b"\xff\xfe")).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Refused { status: 403, .. }));
}

#[tokio::test]
async fn a_message_that_does_not_end_is_not_waited_for() {
    let patience = RetryPolicy { between: Duration::from_millis(30), tries: 1, ..patience() };
    let script = Script::error(400, "half of a mess").stall();
    let server = ModelServer::replay([script]).unwrap();
    let model = Model::from(Ollama::new(&at(&server).with_retry_policy(patience), "m").unwrap());
    let error = ask(&model, &question()).await.0.unwrap_err();
    assert!(matches!(&error, ModelError::Server { message, .. } if message == "half of a mess"), "{error}");
}

#[tokio::test]
async fn nobody_is_followed_elsewhere() {
    let elsewhere = ModelServer::replay([replies::ollama("gotcha")]).unwrap();
    for status in [301, 302, 307, 308] {
        let script = Script::error(status, "").header("location", &format!("{}/api/chat", elsewhere.url()));
        let server = ModelServer::replay([script]).unwrap();
        let configured = at(&server).with_key("sk-secret");
        let model = Model::from(Ollama::new(&configured, "m").unwrap());
        let error = ask(&model, &question()).await.0.unwrap_err();
        assert!(error.to_string().contains(&elsewhere.url()), "{error}");
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_at_once() {
    for wrong in ["", "http://", "ftp://box", "http://a b"] {
        let error = Ollama::new(&ServerConfig::at(wrong), "m").unwrap_err();
        assert!(matches!(error, ModelError::Address { .. }), "{error}");
        assert!(OpenAi::new(&ServerConfig::at(wrong), "m").is_err());
    }
    // Certificates are looked for only where they are needed; both can be made without sending anything.
    Ollama::new(&ServerConfig::at("localhost"), "m").unwrap();
    assert_eq!(OpenAi::new(&ServerConfig::at("http://box:1/v1"), "m").unwrap().url(), "http://box:1/v1");
}
