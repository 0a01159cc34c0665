//! Many at once: no answer reaches somebody else.

use std::time::Duration;

use manent_agent::providers::{Message, Model, ModelError, Request};
use manent_sim::model_server::{ModelServer, Script, replies};

use crate::client::{ask, ollama, openai, question};

#[tokio::test]
async fn five_hundred_conversations_each_hear_their_own_answer() {
    let server = ModelServer::start(|request| {
        let asked = request.json()["messages"][0]["content"].as_str().unwrap().to_owned();
        let answer = format!("the answer to {asked}");
        if request.path.starts_with("/api") { replies::ollama(&answer) } else { replies::openai(&answer) }
    })
    .unwrap();
    let models: [Model; 2] = [ollama(&server).into(), openai(&server).into()];
    let conversations: Vec<_> = (0..500)
        .map(|number| {
            let model = models[number % 2].clone();
            tokio::spawn(async move {
                let messages = vec![Message::new("user", format!("question {number}"))];
                let reply = ask(&model, &Request { messages, ..Request::default() }).await.0.unwrap();
                assert_eq!(reply.text, format!("the answer to question {number}"));
            })
        })
        .collect();
    for conversation in conversations {
        conversation.await.unwrap();
    }
    assert_eq!(server.requests().len(), 500);
}

#[tokio::test]
async fn a_server_that_goes_is_noticed_by_all_who_wait() {
    let server = ModelServer::replay([Script::new().stall()]).unwrap();
    let model = Model::from(ollama(&server));
    let ask_alone = |model: Model| tokio::spawn(async move { ask(&model, &question()).await.0 });
    let waiting: Vec<_> = (0..20).map(|_| ask_alone(model.clone())).collect();
    while !server.wait_for_requests(20, Duration::ZERO) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(server);
    for outcome in waiting {
        let outcome = outcome.await.unwrap();
        let is_noticed = matches!(outcome, Err(ModelError::Ended { .. } | ModelError::Unreachable { .. }));
        assert!(is_noticed, "{outcome:?}");
    }
    assert!(matches!(ask(&model, &question()).await.0, Err(ModelError::Unreachable { .. })));
}
