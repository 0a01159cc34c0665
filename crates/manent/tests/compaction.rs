//! A context that grew too large is made smaller by a record: nothing is lost, the thread is kept, and it always ends.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test may")]

use manent::context::{
    CompactedContext, CompactionMethod, CompactionReason, Limits, Origin, PromptConfig, Summariser,
};
use manent::tokens::{Counting, Tokens};
use manent::{Error, NewTurn, Session, SessionKey, Store, StreamId, turn};

const TOKENS: fn() -> Tokens = || Tokens::new(Counting::Estimate);

fn store() -> (tempfile::TempDir, Store, SessionKey) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    (dir, store, SessionKey::new("work").expect("a key"))
}

fn say(session: &mut Session, said: NewTurn) -> u64 {
    let kept = session.append_with(&[said.into()], manent::Durability::Flush, manent::Expect::Any);
    kept.expect("kept")[0].seq
}

fn calling(id: &str) -> NewTurn {
    let calls = serde_json::json!([{"id": id, "name": "cat", "arguments": {"path": "/x"}}]);
    turn("assistant", "let me look").json("tool_calls", &calls.to_string()).expect("JSON")
}

fn compacted(session: &mut Session, limits: Limits) -> Option<CompactedContext> {
    session.compact(TOKENS(), limits, false, None).expect("compacted")
}

struct Model {
    input: u64,
    gives: Result<String, String>,
    asked: Vec<(String, String)>,
}

impl Summariser for Model {
    fn name(&self) -> &'static str {
        "tiny"
    }

    fn prompt(&self) -> &'static str {
        "sum up"
    }

    fn max_input(&self) -> u64 {
        self.input
    }

    fn summarise(&mut self, before: &str, transcript: &str, _: u64) -> Result<String, String> {
        self.asked.push((before.to_owned(), transcript.to_owned()));
        self.gives.clone().map(|text| format!("{text} {}", self.asked.len()))
    }
}

#[test]
fn a_context_within_its_limits_is_left_alone() {
    let (_dir, store, key) = store();
    let mut session = store.session(&key).expect("held");
    say(&mut session, turn("user", "hello"));
    assert_eq!(compacted(&mut session, Limits::default()), None);
}

#[test]
fn old_outputs_are_left_out_before_anything_is_summed_up() {
    let (_dir, store, key) = store();
    let mut session = store.session(&key).expect("held");
    say(&mut session, turn("user", "look at all of it"));
    for n in 0..6 {
        say(&mut session, calling(&format!("c{n}")));
        say(&mut session, turn("tool", "x".repeat(4000)).string("tool_call_id", &format!("c{n}")));
    }
    say(&mut session, turn("assistant", "done"));
    let limits = Limits { max_tokens: 5000, max_messages: 50 };
    let done = compacted(&mut session, limits).expect("needed");
    assert_eq!((done.way, done.reason), (CompactionMethod::Prune, CompactionReason::Tokens));
    let context = store.context(&key, TOKENS()).expect("a context");
    assert_eq!(context.tokens, done.after);
    let pruned = context.messages.iter().filter(|m| matches!(m.origin, Origin::Pruned(_))).count();
    assert_eq!(pruned, 4, "the last two stay");
    assert!(context.messages.iter().any(|m| m.content.contains("they are record 3 of this session")));
    assert_eq!(store.load(&key).expect("loaded").turns().count(), 14, "nothing is gone from the log");
}

#[test]
fn one_endless_turn_is_split_and_its_question_stays() {
    let (_dir, store, key) = store();
    let mut session = store.session(&key).expect("held");
    let question = say(&mut session, turn("user", "refactor src/main.rs, and never touch src/secret.rs"));
    for n in 0..40 {
        say(&mut session, calling(&format!("c{n}")));
        say(
            &mut session,
            turn("tool", format!("line {n} ").repeat(60)).string("tool_call_id", &format!("c{n}")),
        );
    }
    let limits = Limits { max_tokens: 3000, max_messages: 500 };
    let done = compacted(&mut session, limits).expect("needed");
    assert_eq!(done.way, CompactionMethod::Extract, "{done:?}");
    let context = store.context(&key, TOKENS()).expect("a context");
    assert!(context.tokens <= 1800 && context.tokens == done.after, "{} tokens", context.tokens);
    let kept = context.messages.iter().find(|m| m.origin == Origin::Turn(question)).expect("the question");
    assert!(kept.content.contains("src/secret.rs"));
}

#[test]
fn a_model_sums_up_what_is_new_and_a_model_that_fails_is_done_without() {
    let (_dir, store, key) = store();
    let mut session = store.session(&key).expect("held");
    let limits = Limits { max_tokens: 2000, max_messages: 500 };
    let mut model = Model { input: 100_000, gives: Ok("the story".into()), asked: Vec::new() };
    let talk = |session: &mut Session, from: u64| {
        for n in from..from + 30 {
            // No numbers: a summary that names none of those that were said is not taken.
            let name: String = n.to_string().chars().map(|c| char::from(c as u8 - b'0' + b'a')).collect();
            say(session, turn("user", format!("question {name} {}", "word ".repeat(60))));
            say(session, turn("assistant", format!("answer {name}")));
        }
    };
    talk(&mut session, 0);
    let compact = |session: &mut Session, model: &mut Model| {
        session.compact(TOKENS(), limits, false, Some(model)).expect("compacted").expect("needed")
    };
    assert_eq!(compact(&mut session, &mut model).way, CompactionMethod::Model);
    talk(&mut session, 30);
    assert_eq!(compact(&mut session, &mut model).way, CompactionMethod::Model);
    assert_eq!(model.asked[1].0, "the story 1", "the summary before is brought up to date, not made again");
    assert!(!model.asked[1].1.contains("question a "), "what was summed up is not summed up again");
    talk(&mut session, 60);
    model.input = 1200;
    let done = compact(&mut session, &mut model);
    assert_eq!(done.way, CompactionMethod::Chunks);
    assert!(model.asked.iter().skip(2).all(|(_, text)| text.len() / 4 < 1200), "its input is bounded");
    talk(&mut session, 90);
    model.gives = Err("no server".into());
    let done = compact(&mut session, &mut model);
    assert_eq!((done.way, done.tried[0].1.as_str()), (CompactionMethod::Extract, "no server"));
    talk(&mut session, 120);
    model.gives = Ok("blah ".repeat(5000));
    let done = compact(&mut session, &mut model);
    assert_eq!(done.way, CompactionMethod::Extract, "a summary that frees nothing is not taken: {done:?}");
    let log = std::fs::read_to_string(store.streams().name() + "/sessions/work.jsonl").expect("the file");
    assert!(log.contains(r#""model":"tiny""#) && log.contains(r#""way":"chunks""#));
}

#[test]
fn a_model_that_writes_something_else_is_not_believed() {
    let (_dir, store, key) = store();
    let mut session = store.session(&key).expect("held");
    for n in 0..40 {
        say(&mut session, turn("user", format!("move src/part{n}.rs to port 80{n:02}, ticket OPS-{n}")));
        say(
            &mut session,
            turn("assistant", format!("done, see /var/log/move-{n}.log {}", "and so on ".repeat(20))),
        );
    }
    let limits = Limits { max_tokens: 3000, max_messages: 500 };
    let mut model =
        Model { input: 100_000, gives: Ok("We had a lovely talk about foxes".into()), asked: Vec::new() };
    let done = session.compact(TOKENS(), limits, false, Some(&mut model)).expect("done").expect("needed");
    assert_eq!(done.way, CompactionMethod::Extract, "{done:?}");
    assert!(
        done.tried.iter().any(|(way, why)| *way == CompactionMethod::Model && why.contains("names 0 %")),
        "{:?}",
        done.tried
    );
}

#[test]
fn what_cannot_be_made_small_enough_is_an_error_that_says_so_and_changes_nothing() {
    let (_dir, store, key) = store();
    let mut session = store.session(&key).expect("held");
    say(&mut session, turn("user", "hello"));
    say(&mut session, turn("assistant", "hi"));
    say(&mut session, turn("user", "x".repeat(40_000)));
    let next = session.next_seq();
    let limits = Limits { max_tokens: 2000, max_messages: 50 };
    let failed = session.compact(TOKENS(), limits, false, None).expect_err("too large");
    assert!(matches!(failed, Error::CannotCompact { tokens, limit: 2000 } if tokens > 10_000), "{failed}");
    assert_eq!(session.next_seq(), next);
}

#[test]
fn a_compaction_can_be_taken_back() {
    let (_dir, store, key) = store();
    let mut session = store.session(&key).expect("held");
    for n in 0..80 {
        say(&mut session, turn(if n % 2 == 0 { "user" } else { "assistant" }, format!("turn {n}")));
    }
    let before = store.context(&key, TOKENS()).expect("a context").messages;
    let done = compacted(&mut session, Limits::default()).expect("needed");
    assert_eq!(done.reason, CompactionReason::Messages);
    assert!(store.context(&key, TOKENS()).expect("a context").messages.len() <= 30);
    assert_eq!(session.undo_compaction().expect("undone"), Some(done.seq));
    assert_eq!(store.context(&key, TOKENS()).expect("a context").messages, before);
    assert_eq!(session.undo_compaction().expect("looked"), None);
}

#[test]
fn no_long_life_overflows_or_loses_the_last_request() {
    let mut seed = 11_u64;
    let mut random = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    let limits = Limits { max_tokens: 1500, max_messages: 40 };
    for life in 0..25 {
        let (_dir, store, key) = store();
        let mut session = store.session(&key).expect("held");
        let setting = PromptConfig { system: Some("be good ".repeat(20)), ..PromptConfig::default() };
        session.set_context(&setting).expect("noted");
        let (mut calls, mut request, mut saw) = (0, String::new(), Vec::new());
        for _ in 0..120 {
            let size = random(60) as usize;
            match random(6) {
                0 | 1 => {
                    request = format!("request {} {}", session.next_seq(), "pls ".repeat(size / 2));
                    say(&mut session, turn("user", &request));
                }
                2 | 3 => {
                    say(&mut session, calling(&format!("c{calls}")));
                    let result =
                        turn("tool", "out ".repeat(size * 8)).string("tool_call_id", &format!("c{calls}"));
                    if random(8) > 0 {
                        say(&mut session, result);
                    }
                    calls += 1;
                }
                _ => {
                    let shown = store.context(&key, TOKENS()).expect("a context");
                    let seq = say(&mut session, turn("assistant", "well ".repeat(size)));
                    saw.push((seq, shown));
                }
            }
            let done = session.compact(TOKENS(), limits, false, None);
            let done = done.unwrap_or_else(|e| panic!("life {life}: {e}"));
            let context = store.context(&key, TOKENS()).expect("a context");
            assert!(limits.exceeded_by(&context).is_none(), "life {life}: {} tokens", context.tokens);
            assert!(done.is_none_or(|done| done.after == context.tokens && done.after < done.before));
            let has_request = context.messages.iter().any(|message| message.content == request);
            assert!(request.is_empty() || has_request, "life {life} lost the request");
        }
        for (seq, seen) in saw {
            let again = store.context_at(&StreamId::live(&key), Some(seq), TOKENS()).expect("a context");
            assert_eq!(again, seen, "life {life} at {seq}");
        }
    }
}
