//! From a question to its answer: kept before it is sent, kept before it counts.

use std::sync::{Arc, Mutex};

use manent_agent::kernel::Event;
use manent_agent::providers::Recall;
use manent_sim::model_server::replies;

use crate::fixture::{
    Fixture, LONG, ask, ask_with_events, key, log, logged_turns, messages, open, pairs, question, quiet,
    start,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_in_the_log_before_the_server_hears_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let other = open(dir.path());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (noted, k) = (seen.clone(), key("a"));
    let server = manent_sim::model_server::ModelServer::start(move |request| {
        noted.lock().unwrap().push((question(request), logged_turns(&other, &k).pop().unwrap()));
        replies::ollama("yes")
    })
    .unwrap();
    let fixture = Fixture { store: open(dir.path()), dir, server };
    let kernel = fixture.kernel();
    let conversation = kernel.conversation(&key("a"));
    for n in 0..5 {
        ask(&conversation, &format!("question {n}")).await;
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 5);
    for (n, (sent, last)) in seen.iter().enumerate() {
        assert_eq!((sent, &last.1), (&format!("question {n}"), &format!("question {n}")));
        assert_eq!(last.0, "user");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_in_the_log_when_it_is_said_to_be() {
    let fixture = Fixture::new(|request| replies::ollama(&format!("answer to {}", question(request))));
    let kernel = fixture.kernel();
    let conversation = kernel.conversation(&key("a"));
    for n in 0..5 {
        let (events, answered) = ask_with_events(&conversation, &format!("q{n}")).await;
        let answered = answered.unwrap();
        // As another process sees it, without anything ended first.
        let line = log(&open(fixture.dir.path()), &key("a")).pop().unwrap();
        assert_eq!((Some(line.seq), &line.role[..]), (answered.seq, "assistant"));
        assert_eq!((line.content, line.interrupted), (format!("answer to q{n}"), None));
        assert_eq!((answered.text, answered.stopped), (format!("answer to q{n}"), false));
        let streamed: String = events
            .iter()
            .filter_map(|event| match event {
                Event::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(streamed, format!("answer to q{n}"), "the streamed text is the logged one");
        assert!(matches!(events[0], Event::QuestionSaved { seq } if Some(seq) < answered.seq), "{events:?}");
        assert!(matches!(events[1], Event::Sending { tokens } if tokens == answered.tokens), "{events:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_thought_is_kept_and_not_sent_again() {
    use serde_json::json;
    let thinking = manent_sim::model_server::Script::new()
        .chunk(replies::ollama_line(&json!({"role": "assistant", "content": "", "thinking": "hmm"})))
        .chunk(replies::ollama_line(&json!({"role": "assistant", "content": "yes"})))
        .chunk(replies::ollama_done("stop", 20, 2));
    let fixture = Fixture::replay([thinking, replies::ollama("again")]);
    let conversation = fixture.kernel().conversation(&key("a"));
    let (events, answered) = ask_with_events(&conversation, "one").await;
    assert_eq!(answered.unwrap().text, "yes");
    let is_thought = |event: &Event| matches!(event, Event::Thinking(text) if text == "hmm");
    assert!(events.iter().any(is_thought), "{events:?}");
    ask(&conversation, "two").await;
    let record = fixture.store.load(&key("a")).unwrap().turns().nth(1).unwrap().extra.to_owned();
    assert!(record.contains("\"thinking\":\"hmm\""), "{record}");
    assert!(!fixture.chats()[1].iter().any(|(_, text)| text.contains("hmm")));
}

#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_of_servers_get_the_same_conversation() {
    let fixture = Fixture::new(|request| {
        if request.path.starts_with("/api") { replies::ollama("yes") } else { replies::openai("yes") }
    });
    for (name, model) in [("a", fixture.model()), ("b", fixture.openai())] {
        let kernel = start(fixture.store.clone(), model, &quiet());
        let conversation = kernel.conversation(&key(name));
        ask(&conversation, "one").await;
        ask(&conversation, "two").await;
        kernel.end(LONG).await;
    }
    let requests: Vec<_> = fixture.server.requests().iter().map(messages).collect();
    assert_eq!(requests[..2], requests[2..]);
    assert_eq!(requests[1][1..], pairs(&[("user", "one"), ("assistant", "yes"), ("user", "two")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_word_leaves_a_question_that_is_closed_later() {
    let fixture = Fixture::replay([replies::ollama(""), replies::ollama("yes")]);
    let conversation = fixture.kernel().conversation(&key("a"));
    let answered = ask(&conversation, "one").await;
    assert_eq!((answered.seq, answered.text), (None, String::new()));
    ask(&conversation, "two").await;
    let closed = "[interrupted before an answer was given]";
    assert_eq!(fixture.chats()[1][1..], pairs(&[("user", "one"), ("assistant", closed), ("user", "two")]));
    assert_eq!(logged_turns(&fixture.store, &key("a")).len(), 3, "nothing is made up in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_waits_for_what_is_being_answered() {
    let fixture = Fixture::new(|_| {
        manent_sim::model_server::Script::new()
            .pause(std::time::Duration::from_millis(200))
            .chunk(replies::ollama_line(&serde_json::json!({"role": "assistant", "content": "late"})))
            .chunk(replies::ollama_done("stop", 11, 1))
    });
    let kernel = fixture.kernel();
    for n in 0..10 {
        // Nobody listens.
        drop(kernel.conversation(&key(&format!("k{n}"))).ask("one").await.unwrap());
    }
    kernel.end(LONG).await;
    for n in 0..10 {
        let k = key(&format!("k{n}"));
        assert_eq!(logged_turns(&fixture.store, &k), pairs(&[("user", "one"), ("assistant", "late")]), "{k}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_the_record_answers_and_never_quotes_itself() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.append(&key("old"), manent::turn("user", "The harbour crane is called Bertha.")).unwrap();
    let kernel =
        start(store.clone(), Recall::new(store.clone()).into(), &manent_agent::config::Config::default());
    let conversation = kernel.conversation(&key("new"));
    for _ in 0..4 {
        let answered = ask(&conversation, "What is the harbour crane called?").await;
        assert_eq!(answered.model, "recall");
        assert!(answered.text.contains("old 1, user"), "{}", answered.text);
        assert!(answered.text.contains("Bertha") && !answered.text.contains("\n\n2."), "{}", answered.text);
    }
    kernel.end(LONG).await;
    assert!(store.memory().unwrap().items(&manent::memory::Filter::default()).unwrap().is_empty());
    assert!(!store.consolidation().unwrap().path().exists(), "the record itself learns nothing of itself");
}
