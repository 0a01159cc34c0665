//! Memory that is made while nobody waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use manent::Store;
use manent::memory::{Filter, Item, Kind, SourceKind};
use manent_agent::config::{Config, ConsolidationTrigger};
use manent_agent::kernel::{Kernel, TurnError};
use manent_sim::model_server::{Request, Script, replies};
use serde_json::json;

use crate::fixture::{Fixture, LONG, ask, ask_with_events, is_chat, key, logged_turns, system_text};

const SAID: &str = "My boat is called Bertha and lies in Lisbon.";

/// A model that finds what was said.
fn helpful(request: &Request) -> Script {
    if is_chat(request) {
        return replies::ollama("Aye.");
    }
    if system_text(request).starts_with("Tell in one") {
        return replies::ollama("The user told of a boat.");
    }
    replies::ollama(&json!({"facts": [{"kind": "fact", "quote": SAID, "content": SAID}]}).to_string())
}

fn with(when: ConsolidationTrigger) -> Config {
    let mut config = Config::default();
    config.consolidate = when;
    config
}

fn facts(store: &Store) -> Vec<Item> {
    let all = store.memory().unwrap().items(&Filter::default()).unwrap();
    all.into_iter().filter(|item| item.kind != Kind::Daily).collect()
}

async fn wait_for_facts(store: &Store) -> Vec<Item> {
    let began = Instant::now();
    loop {
        let facts = facts(store);
        if !facts.is_empty() || began.elapsed() > LONG {
            return facts;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_said_is_remembered_after_the_answer() {
    let fixture = Fixture::new(helpful);
    let kernel = fixture.kernel_with(&with(ConsolidationTrigger::Every(1)));
    let conversation = kernel.conversation(&key("a"));
    ask(&conversation, SAID).await;
    let facts = wait_for_facts(&fixture.store).await;
    assert_eq!(facts.len(), 1);
    let source = &facts[0].source;
    assert_eq!((source.session.as_deref(), source.seqs), (Some("a"), Some((1, 1))));
    assert_eq!((source.quote.as_deref(), &source.who), (Some(SAID), &SourceKind::Model));
    // And what is remembered is sent where it helps.
    ask(&conversation, "Where does my boat lie?").await;
    kernel.end(LONG).await;
    assert!(fixture.chats()[1][1].1.contains("Bertha"), "{:?}", fixture.chats()[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_it() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let closed = gate.clone();
    let waits = Arc::new(AtomicBool::new(false));
    let has_begun = waits.clone();
    let fixture = Fixture::new(move |request| {
        if !is_chat(request) {
            has_begun.store(true, Ordering::SeqCst);
            let open = closed.0.lock().unwrap();
            drop(closed.1.wait_timeout_while(open, LONG, |open| !*open).unwrap());
        }
        helpful(request)
    });
    let kernel = fixture.kernel_with(&with(ConsolidationTrigger::Every(1)));
    let conversation = kernel.conversation(&key("a"));
    ask(&conversation, SAID).await;
    while !waits.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The model is asked what is worth remembering, and does not answer. A hundred answers more than its mailbox takes.
    for n in 0..40 {
        ask(&conversation, &format!("question {n}")).await;
    }
    assert!(facts(&fixture.store).is_empty());
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    kernel.end(LONG).await;
    assert_eq!(facts(&fixture.store).len(), 1);
    let at = fixture.store.live(&key("a")).unwrap().unwrap().id;
    let last = fixture.store.load(&key("a")).unwrap().turns().next_back().unwrap().seq;
    let cursor = fixture.store.consolidation().unwrap().cursor(&at).unwrap();
    assert!(cursor > 1 && cursor <= last, "it went on where it was: {cursor} of {last}");
}

/// More conversations than the mailbox has room for, while the model is at the first of them: none is forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_forgotten_while_it_is_busy() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let closed = gate.clone();
    let fixture = Fixture::new(move |request| {
        if !is_chat(request) {
            let open = closed.0.lock().unwrap();
            drop(closed.1.wait_timeout_while(open, LONG, |open| !*open).unwrap());
        }
        helpful(request)
    });
    let kernel = fixture.kernel_with(&with(ConsolidationTrigger::Every(1)));
    for n in 0..80 {
        ask(&kernel.conversation(&key(&format!("k{n}"))), &format!("I have {n} boats.")).await;
    }
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    kernel.end(LONG).await;
    let consolidation = fixture.store.consolidation().unwrap();
    let looked_at = |n: &i32| {
        let at = fixture.store.live(&key(&format!("k{n}"))).unwrap().unwrap().id;
        consolidation.cursor(&at).unwrap() > 0
    };
    let forgotten: Vec<i32> = (0..80).filter(|n| !looked_at(n)).collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn off_is_off() {
    let fixture = Fixture::new(helpful);
    let kernel = fixture.kernel_with(&with(ConsolidationTrigger::Off));
    ask(&kernel.conversation(&key("a")), SAID).await;
    kernel.end(LONG).await;
    assert_eq!(fixture.server.requests().len(), 1);
    assert!(facts(&fixture.store).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_done_at_the_end() {
    for when in [
        ConsolidationTrigger::End,
        ConsolidationTrigger::Every(10),
        ConsolidationTrigger::Idle(Duration::from_hours(1)),
    ] {
        let fixture = Fixture::new(helpful);
        let kernel = fixture.kernel_with(&with(when));
        let conversation = kernel.conversation(&key("a"));
        ask(&conversation, SAID).await;
        ask(&conversation, "thanks").await;
        assert!(fixture.server.requests().iter().all(is_chat), "not yet: {when:?}");
        kernel.end(LONG).await;
        assert_eq!(facts(&fixture.store).len(), 1, "{when:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_does_not_wait_longer_than_it_was_told_and_the_rest_is_done_next_time() {
    let fixture =
        Fixture::new(|request| if is_chat(request) { helpful(request) } else { Script::new().stall() });
    let kernel = start_patient(&fixture);
    ask(&kernel.conversation(&key("a")), SAID).await;
    let began = Instant::now();
    kernel.end(Duration::from_millis(300)).await;
    assert!(began.elapsed() < LONG / 2);
    assert!(facts(&fixture.store).is_empty());
}

fn start_patient(fixture: &Fixture) -> Kernel {
    fixture.kernel_with(&with(ConsolidationTrigger::Every(1)))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_is_used_where_it_is_configured() {
    let fixture = Fixture::new(helpful);
    let mut config = with(ConsolidationTrigger::End);
    config.inbox = true;
    let kernel = fixture.kernel_with(&config);
    ask(&kernel.conversation(&key("a")), SAID).await;
    kernel.end(LONG).await;
    assert!(facts(&fixture.store).is_empty());
    assert_eq!(fixture.store.inbox().unwrap().items(&Filter::default()).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_used_up_stops_it_and_nothing_else() {
    let fixture = Fixture::new(helpful);
    let mut config = with(ConsolidationTrigger::Every(1));
    config.tokens_per_day = 0;
    let kernel = fixture.kernel_with(&config);
    let conversation = kernel.conversation(&key("a"));
    ask(&conversation, SAID).await;
    ask(&conversation, "thanks").await;
    kernel.end(LONG).await;
    assert!(fixture.server.requests().iter().all(is_chat));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_always_fails_disturbs_no_conversation() {
    let fixture = Fixture::new(|request| {
        if is_chat(request) { helpful(request) } else { Script::error(400, r#"{"error":"no"}"#) }
    });
    let kernel = fixture.kernel_with(&with(ConsolidationTrigger::Every(1)));
    let conversation = kernel.conversation(&key("a"));
    for n in 0..20 {
        let (_, outcome): (_, Result<_, TurnError>) =
            ask_with_events(&conversation, &format!("question {n}")).await;
        outcome.unwrap();
    }
    kernel.end(LONG).await;
    assert_eq!(logged_turns(&fixture.store, &key("a")).len(), 40);
    assert!(facts(&fixture.store).is_empty());
}
