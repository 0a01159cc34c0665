//! What survives a compaction without a model: file paths, ids, numbers, decisions and open tasks.
//!
//! The conversations in `tests/retention` and what a colleague who takes over would need of each were written by
//! somebody who had not seen how summaries are made. Run with `--nocapture` for the rates.
#![allow(clippy::expect_used, clippy::disallowed_methods, clippy::cast_precision_loss, reason = "a test may")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use manent::context::{CompactionMethod, Limits};
use manent::tokens::{Counting, Tokens};
use manent::{Body, Durability, Expect, SessionKey, Store, turn};
use serde::Deserialize;

#[derive(Deserialize)]
struct Conversation {
    name: String,
    turns: Vec<Turn>,
    gold: Vec<Gold>,
}

#[derive(Deserialize)]
struct Turn {
    role: String,
    content: String,
}

/// Something that must not get lost: any of these.
#[derive(Deserialize)]
struct Gold {
    kind: String,
    any: Vec<String>,
}

fn conversations() -> Vec<Conversation> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/retention");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).expect("the set").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    let read =
        |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).expect("read")).expect("a conversation");
    files.iter().map(read).collect()
}

/// Compacts a conversation to a quarter, and gives what is left of it.
fn quartered(conversation: &Conversation) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path()).expect("a store");
    let key = SessionKey::new("work").expect("a key");
    let bodies: Vec<Body> =
        conversation.turns.iter().map(|said| turn(&said.role, &said.content).into()).collect();
    let mut session = store.session(&key).expect("held");
    session.append_with(&bodies, Durability::Flush, Expect::Any).expect("kept");
    let tokens = Tokens::new(Counting::Exact);
    let before = store.context(&key, tokens).expect("a context").tokens;
    // A compaction aims at six tenths of what is allowed.
    let limits = Limits { max_tokens: before * 10 / 24, max_messages: 1000 };
    let done = session.compact(tokens, limits, false, None).expect("compacted").expect("needed");
    let after = store.context(&key, tokens).expect("a context");
    assert_eq!(done.way, CompactionMethod::Extract, "{}: {done:?}", conversation.name);
    assert!(after.tokens * 4 <= before + 4, "{}: {before} tokens became {}", conversation.name, after.tokens);
    after.messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn at_a_quarter_of_its_length_a_conversation_keeps_four_fifths_of_what_matters() {
    let (mut kept, mut all) = (0, 0);
    let mut by_kind: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for conversation in conversations() {
        let left = quartered(&conversation);
        let (mut here, mut missed) = (0, Vec::new());
        for gold in &conversation.gold {
            let is_kept = gold.any.iter().any(|text| left.contains(text.as_str()));
            let counts = by_kind.entry(gold.kind.clone()).or_default();
            *counts = (counts.0 + usize::from(is_kept), counts.1 + 1);
            here += usize::from(is_kept);
            if !is_kept {
                missed.push(&gold.any[0]);
            }
        }
        println!("{}: {here} of {}; lost: {missed:?}", conversation.name, conversation.gold.len());
        kept += here;
        all += conversation.gold.len();
    }
    println!("{kept} of {all} ({:.3}); by kind: {by_kind:?}", kept as f64 / all as f64);
    assert!(all >= 80, "a set that small tells nothing");
    assert!(kept * 100 >= all * 80, "{kept} of {all} survived");
}
