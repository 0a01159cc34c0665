//! The contexts of many sessions at once are those of each.
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "a test may")]

use std::path::Path;

use manent::context::Context;
use manent::tokens::{Counting, Tokens};
use manent::{Body, Durability, Expect, Place, SessionKey, Store, StreamId, turn};

const TOKENS: fn() -> Tokens = || Tokens::new(Counting::Estimate);

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

fn key(text: impl Into<String>) -> SessionKey {
    SessionKey::new(text).expect("a key")
}

fn said(random: &mut Random, n: usize) -> Body {
    let role = ["user", "assistant", "tool", "narrator"][random.below(4)];
    let text = format!("{n} \"said\"\n\t\\ é {}", "x".repeat(random.below(3000)));
    match random.below(12) {
        0 => turn(role, text).string("name", "ls").into(),
        1 => {
            let calls = r#"[{"id":"a","name":"ls","arguments":{}}]"#;
            turn("assistant", text).json("tool_calls", calls).expect("JSON").into()
        }
        2 => {
            let mut note = Body::new();
            note.string("kind", "note").string("content", &text);
            note
        }
        _ => turn(role, text).into(),
    }
}

/// Sessions of every kind: plain, forked, compacted, hurt, torn, another program's, under names of every kind.
fn fill(store: &Store, home: &Path, random: &mut Random) {
    for n in 0..50 {
        let name = match n % 5 {
            0 => format!("Upper/{n}"),
            1 => format!("{n}-{}", "long ".repeat(60)),
            _ => format!("s{n}"),
        };
        let key = key(name);
        let turns = 1 + random.below(40);
        let mut bodies: Vec<Body> = (0..turns).map(|n| said(random, n)).collect();
        if random.below(5) == 0 {
            let mut compaction = Body::new();
            let kept_from = 1 + random.below(turns) as u64;
            compaction.string("kind", "compaction").number("kept_from", kept_from).string("content", "sum");
            bodies.push(compaction);
            bodies.push(said(random, turns));
        }
        store.append_with(&key, &bodies, Durability::Flush, Expect::Any).expect("kept");
        let path = manent::Files::open(home).expect("files").live_path(&key);
        let mut bytes = std::fs::read(&path).expect("there");
        match random.below(12) {
            0 => bytes.truncate(bytes.len() - 1 - random.below(40)),
            1 | 2 => {
                let at = random.below(bytes.len());
                bytes[at] ^= 1;
            }
            3 => bytes.extend(b"{\"role\":\"user\",\"content\":\"from elsewhere\"}\n"),
            _ => {
                if random.below(3) == 0 {
                    let fork = self::key(format!("fork of {n}"));
                    store.fork(&StreamId::live(&key), None, &fork).expect("forked");
                    store.append(&fork, said(random, 0)).expect("kept");
                }
                continue;
            }
        }
        std::fs::write(&path, bytes).expect("written");
    }
    let sessions = home.join("sessions");
    std::fs::write(sessions.join("Other program.jsonl"), "{\"role\":\"user\",\"content\":\"hi\"}\n")
        .expect("written");
    std::fs::write(sessions.join("nothing.jsonl"), "").expect("written");
    std::fs::write(sessions.join("packed.jsonl"), b"\x28\xB5\x2F\xFD and so on\n").expect("written");
    std::fs::create_dir(sessions.join("directory.jsonl")).expect("made");
    std::fs::copy(sessions.join("s2.jsonl"), sessions.join("copied.jsonl")).expect("copied");
}

#[test]
fn many_at_once_are_each_what_it_is_alone() {
    let mut random = Random(5);
    for life in 0..12 {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        fill(&store, dir.path(), &mut random);
        let mut listed = store.list(Place::Live).expect("listed");
        listed.sort_by(|a, b| (b.modified_ms, &b.id.key).cmp(&(a.modified_ms, &a.id.key)));
        let (mut read, mut failed) = (0, 0);
        for turns in [1, 7, 1000] {
            let all = store.hydrate_all(1000, turns, TOKENS()).expect("hydrated");
            let keys: Vec<_> = all.iter().map(|(key, _)| key).collect();
            assert_eq!(keys, listed.iter().map(|listed| &listed.id.key).collect::<Vec<_>>());
            for ((key, context), listed) in all.iter().zip(&listed) {
                let alone = store.context_at(&listed.id, None, TOKENS());
                let (Ok(context), Ok(alone)) = (context, &alone) else {
                    let both = (context.as_ref().map(|_| ()), alone.as_ref().map(|_| ()));
                    assert!(context.is_err() && alone.is_err(), "life {life}: {key}: {both:?}");
                    failed += 1;
                    continue;
                };
                read += 1;
                assert_eq!(context.last_seq, alone.last_seq, "life {life}: {key}");
                if turns == 1000 {
                    assert_eq!(context, alone, "life {life}: {key}");
                } else {
                    assert_same_end(context, alone);
                }
            }
        }
        assert!(read > 150 && failed >= 6, "{read} read, {failed} not");
    }
}

/// The last turns are the same, however many came before them.
fn assert_same_end(few: &Context, all: &Context) {
    let last = |context: &Context| context.messages.last().map(|message| message.content.clone());
    if few.compaction == all.compaction && !few.messages.is_empty() {
        // Of a result whose call is not shown the text begins otherwise.
        let (few, all) = (last(few).unwrap_or_default(), last(all).unwrap_or_default());
        assert!(few.ends_with(&all) || few.contains("not shown"), "{few} {all}");
    }
}
