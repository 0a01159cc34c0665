//! What a model sees: made from the log alone, the same whenever it is asked, and never what a provider refuses.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test may")]

use manent::context::{Context, Message, Origin, PromptConfig};
use manent::tokens::{Counting, Tokens};
use manent::{NewTurn, SessionKey, Store, StreamId, turn};

const CHEAP: Counting = Counting::Estimate;

fn store() -> (tempfile::TempDir, Store, SessionKey) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    (dir, store, SessionKey::new("work").expect("a key"))
}

fn seen(store: &Store, key: &SessionKey) -> Context {
    store.context(key, Tokens::new(CHEAP)).expect("a context")
}

fn calling(ids: &[&str]) -> NewTurn {
    let calls: Vec<_> =
        ids.iter().map(|id| serde_json::json!({"id": id, "name": "ls", "arguments": {}})).collect();
    turn("assistant", "").json("tool_calls", &serde_json::json!(calls).to_string()).expect("JSON")
}

fn result(id: &str) -> NewTurn {
    turn("tool", format!("output of {id}")).string("tool_call_id", id)
}

fn origins(context: &Context) -> Vec<Origin> {
    context.messages.iter().map(|message| message.origin).collect()
}

/// Checks the order of messages that every provider insists on.
fn check_sendable(messages: &[Message]) {
    let mut waiting: Vec<String> = Vec::new();
    let mut asked = false;
    for message in messages {
        match message.role.as_str() {
            "tool" => {
                let id = message.tool_call_id.as_ref().expect("a result says what it answers");
                let at = waiting.iter().position(|call| call == id).expect("a result has a call before it");
                waiting.remove(at);
            }
            role => {
                assert!(waiting.is_empty(), "{role} speaks while results of {waiting:?} are awaited");
                let is_question = matches!(message.origin, Origin::Turn(_)) && role == "user";
                assert!(!(asked && is_question), "two questions in a row");
                asked = is_question;
                if let Some(calls) = &message.tool_calls {
                    let calls: serde_json::Value = serde_json::from_str(calls).expect("JSON");
                    let ids = calls.as_array().expect("a list").iter().map(|call| call["id"].as_str());
                    waiting = ids.map(|id| id.expect("an id").to_owned()).collect();
                }
            }
        }
    }
    assert!(waiting.is_empty(), "calls without results at the end");
}

#[test]
fn a_call_without_a_result_and_a_question_without_an_answer_are_closed_in_the_context_and_not_in_the_log() {
    let (_dir, store, key) = store();
    for said in [turn("user", "a"), turn("user", "b"), calling(&["x", "y"]), result("y"), turn("user", "c")] {
        store.append(&key, said).expect("kept");
    }
    let context = seen(&store, &key);
    let want = [
        Origin::Turn(1),
        Origin::Unanswered(1),
        Origin::Turn(2),
        Origin::Turn(3),
        Origin::Turn(4),
        Origin::Interrupted(3),
        Origin::Turn(5),
    ];
    assert_eq!(origins(&context), want);
    assert!(context.unanswered);
    assert_eq!(store.load(&key).expect("loaded").turns().count(), 5, "nothing was added to the log");
    check_sendable(&context.messages);
}

#[test]
fn a_result_whose_call_is_not_there_becomes_a_note() {
    let (_dir, store, key) = store();
    for said in [result("lost"), turn("user", "a"), calling(&["x"]), result("x"), result("x")] {
        store.append(&key, said).expect("kept");
    }
    let context = seen(&store, &key);
    assert_eq!(origins(&context)[0], Origin::Stray(1));
    assert_eq!(origins(&context).last(), Some(&Origin::Stray(5)));
    check_sendable(&context.messages);
}

#[test]
fn damage_is_shown_to_the_model_and_counted() {
    let (_dir, store, key) = store();
    for said in [turn("user", "one"), turn("assistant", "two"), turn("user", "three")] {
        store.append(&key, said).expect("kept");
    }
    let path = store.streams().name() + "/sessions/work.jsonl";
    let text = std::fs::read_to_string(&path).expect("the file").replace("two", "2wo");
    std::fs::write(&path, text).expect("written");
    let context = seen(&store, &key);
    assert_eq!(context.gaps, 1);
    assert!(context.messages[1].content.contains("damaged"), "{context:?}");
    check_sendable(&context.messages);
}

#[test]
fn what_the_model_saw_is_rebuilt_to_the_byte_for_every_answer() {
    let (_dir, store, key) = store();
    let long = |word: &str| format!("{word} ").repeat(40);
    let mut saw: Vec<(u64, Context)> = Vec::new();
    for n in 0..12_u64 {
        let mut session = store.session(&key).expect("held");
        let setting = PromptConfig {
            system: Some(long(if n < 6 { "early" } else { "late" })),
            tools: (n % 3 == 0).then(|| long("schema")),
            memory: Some(format!("<memory>{}</memory>", n / 4)),
            memory_ids: vec![n / 4],
            model: Some("llama".to_owned()),
            protocol: (n > 8).then(|| "text".to_owned()),
        };
        session.append(turn("user", format!("question {n}"))).expect("kept");
        session.set_context(&setting).expect("noted");
        if n == 7 {
            let mut compaction = manent::Body::new();
            compaction.string("kind", "compaction").number("kept_from", session.next_seq() - 4);
            compaction.number("context", 3).string("content", "they spoke");
            session.append(compaction).expect("kept");
        }
        let before = seen(&store, &key);
        assert_eq!(before.messages[0].content, setting.system.clone().expect("set"));
        let answer = session.append(turn("assistant", format!("answer {n}"))).expect("kept");
        saw.push((answer.seq, before));
    }
    for (seq, before) in saw {
        let again =
            store.context_at(&StreamId::live(&key), Some(seq), Tokens::new(CHEAP)).expect("a context");
        assert_eq!(again, before, "at {seq}");
    }
    let file = std::fs::read_to_string(store.streams().name() + "/sessions/work.jsonl").expect("the file");
    assert_eq!(file.matches(&long("early")).count(), 1, "a long text is written once");
}

#[test]
fn a_session_whose_system_text_rotted_goes_on_and_says_so() {
    let (_dir, store, key) = store();
    let setting = PromptConfig { system: Some("be good ".repeat(30)), ..PromptConfig::default() };
    let path = store.streams().name() + "/sessions/work.jsonl";
    {
        let mut session = store.session(&key).expect("held");
        session.set_context(&setting).expect("noted");
        session.append(turn("user", "hello")).expect("kept");
        let other = PromptConfig { model: Some("llama".to_owned()), ..setting.clone() };
        session.set_context(&other).expect("noted");
        session.append(turn("assistant", "hi")).expect("kept");
    }
    let file = std::fs::read_to_string(&path).expect("the file");
    std::fs::write(&path, file.replacen("be good", "be goof", 1)).expect("written");
    let context = seen(&store, &key);
    assert!(context.gaps >= 2 && context.messages.len() >= 2, "{context:?}");
    let lost =
        store.context_at(&StreamId::live(&key), Some(4), Tokens::new(CHEAP)).expect_err("not as it was");
    assert!(lost.to_string().contains("has no system"), "{lost}");
    let mut session = store.session(&key).expect("held");
    let setting = PromptConfig { model: Some("llama".to_owned()), ..setting };
    assert!(session.set_context(&setting).expect("noted").is_some(), "what is lost is written again");
    let system = seen(&store, &key).messages[0].content.clone();
    assert_eq!(Some(system), setting.system);
}

#[test]
fn a_compaction_made_by_hand_that_keeps_nothing_does_not_count() {
    let (_dir, store, key) = store();
    store.append(&key, turn("user", "hello")).expect("kept");
    for (from, pinned) in [(u64::MAX, "[]"), (9, "[1]"), (1, "[1,1,1,5,18446744073709551615]")] {
        let json =
            format!(r#"{{"kind":"compaction","kept_from":{from},"pinned":{pinned},"content":"gone"}}"#);
        store.append(&key, manent::body_of_json(json.as_bytes(), "now").expect("a record")).expect("kept");
        let context = seen(&store, &key);
        assert!(context.messages.iter().any(|message| message.content == "hello"), "{json}: {context:?}");
    }
}

#[test]
fn a_compaction_stands_for_what_it_summed_up_until_it_is_undone() {
    let (_dir, store, key) = store();
    for n in 0..200 {
        store
            .append(&key, turn(if n % 2 == 0 { "user" } else { "assistant" }, format!("turn {n}")))
            .expect("kept");
    }
    let compaction = |from: u64, text: &str| {
        let mut body = manent::Body::new();
        body.string("kind", "compaction").number("kept_from", from).string("content", text);
        body
    };
    store.append(&key, compaction(101, "first")).expect("kept");
    let second = store.append(&key, compaction(191, "second")).expect("kept").seq;
    let context = seen(&store, &key);
    assert_eq!(
        (context.compaction, context.first_seq, context.messages.len()),
        (Some(second), Some(191), 11)
    );
    assert!(context.messages[0].content.ends_with("second"));
    let mut undo = manent::Body::new();
    undo.string("kind", "undo").number("target", second);
    store.append(&key, undo).expect("kept");
    let context = seen(&store, &key);
    assert_eq!((context.first_seq, context.messages.len()), (Some(101), 101));
    let fork = SessionKey::new("fork").expect("a key");
    let at = store.find(&key).expect("there").id;
    store.fork(&at, Some(150), &fork).expect("forked");
    assert_eq!(seen(&store, &fork).messages.len(), 150, "a fork from before the compaction does not have it");
}

#[test]
fn a_program_that_starts_gets_the_last_turns_of_the_newest_sessions() {
    let (_dir, store, _) = store();
    for n in 0..40 {
        let key = SessionKey::new(format!("s{n:02}")).expect("a key");
        let said: Vec<manent::Body> = (0..9).map(|m| turn("user", format!("{n} {m}")).into()).collect();
        store.append_with(&key, &said, manent::Durability::Flush, manent::Expect::Any).expect("kept");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let all = store.hydrate_all(30, 3, Tokens::new(CHEAP)).expect("hydrated");
    let keys: Vec<&str> = all.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!((keys.len(), keys[0], keys[29]), (30, "s39", "s10"));
    for (key, context) in &all {
        let context = context.as_ref().expect("read");
        let last = format!("{} 8", key.as_str()[1..].parse::<u32>().expect("a number"));
        assert_eq!(context.messages.last().expect("said").content, last);
        assert_eq!(context.first_seq, Some(7));
    }
}

#[test]
fn no_sequence_of_turns_gives_what_a_provider_refuses() {
    let mut seed = 7_u64;
    let mut random = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for life in 0..60 {
        let (_dir, store, key) = store();
        let mut session = store.session(&key).expect("held");
        for _ in 0..random(30) {
            let said = match random(8) {
                0 | 1 => turn("user", "u"),
                2 => turn("assistant", "a"),
                3 => calling(&["a"]),
                4 => calling(&["a", "b", "c"]),
                5 => result(["a", "b", "c", "zzz"][random(4) as usize]),
                6 => turn("system", "s"),
                _ => turn("narrator", "n"),
            };
            session
                .append_with(&[said.into()], manent::Durability::Flush, manent::Expect::Any)
                .expect("kept");
        }
        let context = seen(&store, &key);
        check_sendable(&context.messages);
        let turns = store.load(&key).expect("loaded").turns().count();
        let shown =
            context.messages.iter().filter(|m| matches!(m.origin, Origin::Turn(_) | Origin::Stray(_)));
        assert_eq!(shown.count(), turns, "no turn is left out in life {life}");
    }
}
