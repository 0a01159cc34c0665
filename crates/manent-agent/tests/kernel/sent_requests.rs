//! What a server got is what the log says that it got: after memory that came and went, compactions, restarts, and
//! answers that were stopped.

use std::time::Duration;

use manent::memory::{Kind, NewItem};
use manent::tokens::{Counting, Tokens};
use manent::{SessionKey, Store, StreamId};
use manent_agent::config::Config;
use manent_agent::kernel::{Conversation, Event};
use manent_sim::model_server::{Script, replies};
use serde_json::json;

use crate::fixture::{Fixture, LONG, ask, ask_with_events, key, log, open, question, quiet, start};

/// Every request of the conversation is, message by message, what the log gives for the answer to it. Gives how many
/// there were.
pub(crate) fn assert_sent_as_logged(fixture: &Fixture, store: &Store, key: &SessionKey) -> usize {
    let answers: Vec<u64> =
        log(store, key).iter().filter(|line| line.role == "assistant").map(|line| line.seq).collect();
    let sent = fixture.chats();
    assert_eq!(sent.len(), answers.len(), "one answer a request");
    for (nth, (sent, seq)) in sent.iter().zip(&answers).enumerate() {
        // By whatever count: what was sent is in the log, and not in how tokens are counted.
        for tokens in [Tokens::default(), Tokens::new(Counting::Estimate)] {
            let context = store.context_at(&StreamId::live(key), Some(*seq), tokens).unwrap();
            let logged: Vec<(String, String)> =
                context.messages.into_iter().map(|message| (message.role, message.content)).collect();
            assert_eq!(sent, &logged, "request {nth}, answer {seq}");
        }
    }
    answers.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_is_what_the_log_says_over_a_whole_life() {
    let fixture = Fixture::new(|request| match question(request) {
        slow if slow.starts_with("stop") => Script::new()
            .chunk(replies::ollama_line(&json!({"role": "assistant", "content": "half of "})))
            .stall(),
        text => replies::ollama(&format!("I heard: {text}")),
    });
    let k = key("life");
    let memory = fixture.store.memory().unwrap();
    let config = small();
    let mut remembered = Vec::new();
    for life in 0..6 {
        // Each life is another process in effect: another handle, another kernel.
        let store = open(fixture.dir.path());
        let kernel = start(store.clone(), fixture.model(), &config);
        let conversation = kernel.conversation(&k);
        for n in 0..5 {
            if n == 1 {
                let text = format!("The harbour master of pier {life} is called Ines {life}.");
                remembered.push(memory.add(&NewItem::new(Kind::Fact, text)).unwrap().id);
            }
            if n == 3 && life % 2 == 1 {
                memory.forget(&[remembered.remove(0)]).unwrap();
            }
            let text = format!("life {life} question {n}: who is the harbour master of pier {life}?");
            ask(&conversation, &text).await;
        }
        if life % 2 == 0 {
            stop_in_the_middle(&conversation).await;
        }
        if life == 3 {
            store.existing_session(&k).unwrap().undo_compaction().unwrap();
        }
        kernel.end(LONG).await;
    }
    assert!(log(&fixture.store, &k).iter().any(|line| line.role == "compaction"), "it was compacted");
    let with_memory = fixture.chats().iter().filter(|sent| sent[1].1.contains("called Ines")).count();
    assert!(with_memory > 10, "what is remembered was sent {with_memory} times");
    assert_eq!(assert_sent_as_logged(&fixture, &open(fixture.dir.path()), &k), 6 * 5 + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_is_what_the_log_says_by_any_way_of_compacting() {
    let fixture = Fixture::new(|request| replies::ollama(&format!("I heard: {}", question(request))));
    let (k, store) = (key("ways"), fixture.store.clone());
    let kernel = start(store.clone(), fixture.model(), &quiet());
    let conversation = kernel.conversation(&k);
    for n in 0..12 {
        ask(&conversation, &format!("question {n}: {}", "a long story about ships. ".repeat(20))).await;
        if n % 4 == 3 {
            let mut session = store.existing_session(&k).unwrap();
            session.compact(Tokens::default(), quiet().limits, true, None).unwrap().unwrap();
        }
    }
    kernel.end(LONG).await;
    assert_eq!(assert_sent_as_logged(&fixture, &store, &k), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_sends_what_it_shares() {
    let fixture = Fixture::new(|request| replies::ollama(&format!("I heard: {}", question(request))));
    let kernel = fixture.kernel();
    ask(&kernel.conversation(&key("a")), "one").await;
    let last = log(&fixture.store, &key("a")).last().unwrap().seq;
    let at = StreamId::live(&key("a"));
    fixture.store.fork(&at, Some(last), &key("b")).unwrap();
    let answered = ask(&kernel.conversation(&key("b")), "two").await;
    let at = StreamId::live(&key("b"));
    let context = fixture.store.context_at(&at, answered.seq, Tokens::default()).unwrap();
    let logged: Vec<(String, String)> =
        context.messages.into_iter().map(|message| (message.role, message.content)).collect();
    assert_eq!(fixture.chats()[1], logged);
    assert!(logged.iter().any(|(_, text)| text == "I heard: one"));
}

/// So few messages that it is compacted now and then.
fn small() -> Config {
    let mut config = quiet();
    config.limits.max_messages = 14;
    config
}

async fn stop_in_the_middle(conversation: &Conversation) {
    let mut stream = conversation.ask("stop here").await.unwrap();
    while let Some(event) = stream.next().await {
        if matches!(event, Event::Text(_)) {
            break;
        }
    }
    stream.stop();
    let answered = stream.end().await.unwrap();
    assert!(answered.stopped && answered.seq.is_some());
    assert_eq!(answered.text, "half of ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_a_crash_left_alone_is_closed_for_the_model() {
    let fixture = Fixture::new(|_| replies::ollama("yes"));
    let k = key("a");
    fixture.store.append(&k, manent::turn("user", "asked before the crash")).unwrap();
    let (_, answered) = ask_with_events(&fixture.kernel().conversation(&k), "and now?").await;
    answered.unwrap();
    let roles: Vec<String> = fixture.chats()[0].iter().map(|(role, _)| role.clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(assert_sent_as_logged(&fixture, &fixture.store, &k), 1);
    assert!(fixture.server.wait_for_requests(1, Duration::ZERO));
}
