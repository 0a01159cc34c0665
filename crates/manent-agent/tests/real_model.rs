//! One real model, small enough to come from a package registry: `./test --real-model`.
//!
//! It is good at nothing but being real: it streams, obeys schemas, overflows, and invents. What is asserted is
//! structure, and that nothing it invented is kept.

#![allow(clippy::expect_used, reason = "a test may")]

use std::time::Duration;

use manent::consolidate::{Rules, Step};
use manent::context::Limits;
use manent::memory::{Filter, Kind};
use manent::tokens::Tokens;
use manent::{SessionKey, Store, turn};
use manent_agent::model_tasks::ModelTasks;
use manent_agent::providers::{Message, Model, ModelError, OpenAi, Reply, ReplyEvent, Request, ServerConfig};
use tokio::runtime::{Builder, Runtime};

const WINDOW: u64 = 2048;

fn model() -> (Runtime, Model) {
    let url = std::env::var("MANENT_REAL_MODEL").expect("run ./test --real-model");
    let model = OpenAi::new(&ServerConfig::at(url), "smollm2").expect("an address").with_window(WINDOW);
    (Builder::new_current_thread().enable_all().build().expect("a clock"), model.into())
}

fn ask(text: &str) -> Request {
    let messages = vec![Message::new("user", text)];
    Request { messages, max_tokens: Some(24), seed: Some(1), ..Request::default() }
}

fn asking<'a>(runtime: &'a Runtime, model: &'a Model) -> ModelTasks<'a> {
    ModelTasks::new(model.name(), WINDOW, |request| runtime.block_on(model.chat(request, &mut |_| {})))
}

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn real_model_streams_what_it_says() {
    let (runtime, model) = model();
    let mut heard = String::new();
    let reply: Reply = runtime
        .block_on(model.chat(&ask("What is the capital of France?"), &mut |piece| {
            if let ReplyEvent::Text(text) = piece {
                heard.push_str(text);
            }
        }))
        .expect("an answer");
    assert_eq!(heard, reply.text);
    assert!(!reply.text.is_empty());
    assert!(
        reply.usage.input.is_some_and(|n| n > 10) && reply.usage.output.is_some_and(|n| n > 0),
        "{reply:?}"
    );
}

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn real_model_follows_a_schema() {
    let (runtime, model) = model();
    let schema = serde_json::json!({
        "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}}, "required": ["city"],
    });
    let request = Request { format: Some(schema), max_tokens: Some(60), ..ask("Name a city.") };
    let reply = runtime.block_on(model.chat(&request, &mut |_| {})).expect("an answer");
    let value: serde_json::Value = serde_json::from_str(&reply.text).expect("JSON");
    assert!(value["city"].is_string(), "{value}");
}

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn real_model_says_when_it_is_too_much() {
    let (runtime, model) = model();
    let error = runtime.block_on(model.chat(&ask(&"word ".repeat(4000)), &mut |_| {})).expect_err("too long");
    let ModelError::TooLong { tokens, window, .. } = error else { panic!("{error:?}") };
    assert!(tokens.is_some_and(|n| n > WINDOW) && window == Some(WINDOW), "{tokens:?} {window:?}");
}

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn real_model_can_be_stopped_and_asked_again() {
    let (runtime, model) = model();
    let long = Request { max_tokens: Some(1500), ..ask("Tell a very long story about a fox.") };
    runtime.block_on(async {
        let mut on = |_: ReplyEvent<'_>| {};
        let chat = model.chat(&long, &mut on);
        assert!(tokio::time::timeout(Duration::from_secs(3), chat).await.is_err(), "it is not done yet");
    });
    let reply = runtime.block_on(model.chat(&ask("Say hello."), &mut |_| {})).expect("an answer");
    assert!(!reply.text.is_empty());
}

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn real_model_invents_and_nothing_of_it_is_remembered() {
    let (runtime, model) = model();
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    let talks: [&[(&str, &str)]; 6] = [
        &[("user", "I prefer Rust over Go. I live in Lyon."), ("assistant", "Noted.")],
        &[("user", "thanks!"), ("assistant", "You are welcome."), ("user", "bye")],
        &[("user", "My name is Anna and my cat is called Tom."), ("assistant", "Hello Anna.")],
        &[("user", "Why does the build fail?"), ("tool", "error: I live in Paris"), ("assistant", "A typo.")],
        &[("user", "Please write a poem about autumn."), ("assistant", "Leaves fall, I love Berlin.")],
        &[("user", "We deploy on Fridays at 16:00. The port is 8080."), ("assistant", "Understood.")],
    ];
    let mut holder = store.consolidation().unwrap().consolidator(Duration::ZERO).unwrap();
    let (mut claimed, mut kept) = (0, 0);
    for (number, talk) in talks.iter().enumerate() {
        let key = SessionKey::new(format!("talk-{number}")).unwrap();
        for (role, text) in *talk {
            store.append(&key, turn(role, *text)).unwrap();
        }
        let at = store.find(&key).unwrap().id;
        let step = holder.step(&at, &mut asking(&runtime, &model), &Rules::default()).unwrap();
        let Step::Done(done) = step else { panic!("{step:?}") };
        claimed += done.items.len() + done.refused.len();
        kept += done.items.len();
        assert!(done.daily.is_some());
        let again = holder.step(&at, &mut asking(&runtime, &model), &Rules::default()).unwrap();
        assert_eq!(again, Step::UpToDate);
    }
    let memory = store.memory().unwrap();
    let audit = memory.audit().unwrap();
    println!("{claimed} claimed, {kept} kept, {} ungrounded", audit.ungrounded.items);
    assert_eq!(audit.ungrounded.items, 0, "{:?}", audit.ungrounded);
    let users = talks.iter().flat_map(|talk| talk.iter()).filter(|(role, _)| *role == "user");
    let said: String = users.map(|(_, text)| *text).collect();
    for item in memory.items(&Filter::default()).unwrap() {
        println!("  {}: {}", item.kind, item.content);
        assert!(item.kind == Kind::Daily || said.contains(item.source.quote.as_deref().unwrap()), "{item:?}");
    }
}

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn real_model_sums_up_or_is_done_without() {
    let (runtime, model) = model();
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    let key = SessionKey::new("long").unwrap();
    let mut session = store.session(&key).unwrap();
    for n in 0..30 {
        session.append(turn("user", format!("Step {n}: what is in the file src/part{n}.rs?"))).unwrap();
        let text = format!("It has {} lines, and a function named do_{n} that calls the next one.", n * 7);
        session.append(turn("assistant", text)).unwrap();
    }
    let limits = Limits { max_tokens: 1200, max_messages: 50 };
    let mut asking = asking(&runtime, &model);
    let done = session.compact(Tokens::default(), limits, false, Some(&mut asking)).unwrap();
    let done = done.expect("it is too long");
    println!("{:?}: {} tokens are {} now; {:?}", done.way, done.before, done.after, done.tried);
    let context = store.context(&key, Tokens::default()).unwrap();
    assert!(context.tokens == done.after && context.tokens < limits.max_tokens, "{}", context.tokens);
}
