//! Thousands of damaged calls: whatever a model writes, there is an answer, and nothing outside changes.

use manent_agent::providers::ToolCall;
use manent_sim::Rng;
use serde_json::{Map, Value};

use super::World;

const SEEDS: [(&str, &str); 9] = [
    ("read_file", r#"{"path": "src/a.txt", "offset": 2, "limit": 3}"#),
    ("read_file", r#"{"path": "src/odd.bin"}"#),
    ("write_file", r#"{"path": "out/new.txt", "content": "a\nb\r\n"}"#),
    ("edit_file", r#"{"path": "src/a.txt", "old": "three\n", "new": "3\n", "all": false}"#),
    ("search_files", r#"{"pattern": "t[a-z]+e?", "glob": "**/*.txt", "path": "src", "context": 1}"#),
    ("search_files", r#"{"glob": "*.{txt,bin}"}"#),
    ("run_command", r#"{"command": "cargo test && ls | wc", "timeout_s": 5}"#),
    ("recall", r#"{"query": "what about the harbour", "limit": 3}"#),
    ("remember", r#"{"content": "Likes tea", "quote": "I like green tea", "kind": "pref"}"#),
];

/// Fragments that break readers of JSON, paths, patterns and text.
const PIECES: [&str; 30] = [
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "-1",
    "1e999",
    "99999999999999999999",
    "../",
    "/etc/passwd",
    "/",
    "~",
    "*",
    "**/",
    "[^",
    "(?i)",
    "(((((",
    ")",
    "{a,",
    "\u{202e}",
    "日本",
    "\\n",
    "\u{0}",
];

fn mutated(rng: &mut Rng, seed: &str) -> String {
    let mut text: Vec<char> = seed.chars().collect();
    for _ in 0..=rng.below(4) {
        let at = rng.below(text.len() as u64 + 1) as usize;
        let end = (at + rng.below(12) as usize).min(text.len());
        match rng.below(5) {
            0 => drop(text.drain(at..end)),
            1 => text.truncate(at),
            2 => {
                let piece = text[at..end].to_vec();
                text.splice(at..at, piece.repeat(rng.below(50) as usize));
            }
            _ => {
                let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
                text.splice(at..at, piece.chars());
            }
        }
    }
    text.into_iter().collect()
}

/// Damage inside of one member, in JSON that is whole: what comes further in.
fn mutated_inside(rng: &mut Rng, seed: &str) -> String {
    let mut object: Map<String, Value> = serde_json::from_str(seed).unwrap();
    let at = rng.below(object.len() as u64) as usize;
    let value = object.values_mut().nth(at).unwrap();
    *value = match value.as_str() {
        Some(text) => mutated(rng, text).into(),
        None => rng.below(300).into(),
    };
    Value::Object(object).to_string()
}

#[test]
fn ten_thousand_damaged_calls_all_get_an_answer() {
    let world = World::new();
    world.store.append(&world.session, manent::turn("user", "I like green tea in the harbour")).unwrap();
    std::fs::write(world.path("elsewhere/out.txt"), "outside three").unwrap();
    let tools = world.tools();
    let (mut made, mut refused) = (0, 0);
    for seed in 0..10_000 {
        if seed % 100 == 0 {
            // What was made by then only makes searches slow.
            std::fs::remove_dir_all(world.path("work")).unwrap();
            std::fs::create_dir_all(world.path("work/private")).unwrap();
            world.write("src/a.txt", "one\ntwo\nthree\nfour\n");
            world.write("src/odd.bin", b"three\xff\xfe\nthree\0three");
        }
        let mut rng = Rng::new(seed);
        let (name, arguments) = SEEDS[rng.below(SEEDS.len() as u64) as usize];
        let arguments = match rng.below(2) {
            0 => mutated(&mut rng, arguments),
            _ => mutated_inside(&mut rng, arguments),
        };
        let call = ToolCall { id: String::new(), name: name.to_owned(), arguments: arguments.clone() };
        match tools.prepare(&call) {
            Err(e) => {
                refused += 1;
                assert!(
                    !e.to_string().is_empty() && e.to_string().len() < 20_000,
                    "seed {seed}: {arguments}"
                );
            }
            Ok(prepared) => {
                made += 1;
                let _ = prepared.preview();
                let done = prepared.run(&|| false);
                assert!(!done.content.is_empty(), "seed {seed}: {arguments}");
                assert!(done.content.len() < 64 << 10, "seed {seed}: {arguments}");
                assert!(!done.content.contains("outside three"), "seed {seed}: {arguments}");
            }
        }
    }
    assert!(made > 1000 && refused > 1000, "{made} made, {refused} refused");
    assert_eq!(std::fs::read(world.path("elsewhere/out.txt")).unwrap(), b"outside three");
    world.leaves_nothing();
}
