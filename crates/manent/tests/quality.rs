//! How well plain questions find the turns that answer them: made-up conversations, questions, and the turns that
//! hold the answers (tests/quality). No model is asked.
//!
//! The floors are what the search reached when they were set, less a little: a change that makes it worse is noticed.
//! Run with `--nocapture` to see the figures by kind of question.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    reason = "a test with files"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use manent::{Durability, Expect, Query, SessionKey, Store, body_of_json};
use serde::Deserialize;

#[derive(Deserialize)]
struct Question {
    id: String,
    kind: String,
    #[serde(rename = "question")]
    text: String,
    evidence: Vec<Evidence>,
}

#[derive(Deserialize, PartialEq)]
struct Evidence {
    session: String,
    seq: u64,
}

#[derive(Default)]
struct Figures {
    questions: f64,
    recall_at_5: f64,
    recall_at_10: f64,
    hit_at_1: f64,
}

impl Figures {
    fn add(&mut self, found: &[Evidence], evidence: &[Evidence]) {
        let recall = |k: usize| {
            let among = evidence.iter().filter(|turn| found.iter().take(k).any(|hit| hit == *turn)).count();
            among as f64 / evidence.len() as f64
        };
        self.questions += 1.0;
        self.recall_at_5 += recall(5);
        self.recall_at_10 += recall(10);
        self.hit_at_1 += f64::from(u8::from(found.first().is_some_and(|hit| evidence.contains(hit))));
    }

    fn means(&self) -> [f64; 3] {
        [self.recall_at_5, self.recall_at_10, self.hit_at_1].map(|sum| sum / self.questions)
    }
}

/// Returns the directory of a set; the first one is in `tests/quality` itself.
fn set_dir(name: &str) -> PathBuf {
    std::env::var_os("MANENT_QUALITY_SET")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/quality"), PathBuf::from)
        .join(name)
}

fn store_with_the_conversations(home: &std::path::Path, set: &std::path::Path) -> Store {
    let store = Store::open(home).expect("a store");
    let mut files: Vec<PathBuf> = std::fs::read_dir(set.join("conversations"))
        .expect("the conversations")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    for file in files {
        let key = SessionKey::new(file.file_stem().and_then(|s| s.to_str()).expect("a name")).expect("a key");
        let text = std::fs::read_to_string(&file).expect("a conversation");
        let bodies: Vec<_> =
            text.lines().map(|line| body_of_json(line.as_bytes(), "").expect("a turn")).collect();
        store.append_with(&key, &bodies, Durability::Flush, Expect::Any).expect("kept");
    }
    store
}

/// Asks all questions of a set, prints the figures by kind, and fails if recall@5, recall@10 or hit@1 is below its
/// floor.
fn assert_quality(name: &str, floors: [f64; 3]) {
    let (home, set) = (tempfile::tempdir().expect("a directory"), set_dir(name));
    let store = store_with_the_conversations(home.path(), &set);
    let questions = std::fs::read_to_string(set.join("questions.jsonl")).expect("the questions");
    let mut by_kind: BTreeMap<String, Figures> = BTreeMap::new();
    let mut all = Figures::default();
    for line in questions.lines() {
        let Question { id, kind, text, evidence } = serde_json::from_str(line).expect("a question");
        let query = Query::parse(&text, 1_770_000_000_000).expect("a query");
        let found: Vec<Evidence> = store
            .search(&query, 10)
            .expect("an answer")
            .hits
            .into_iter()
            .map(|hit| Evidence { session: hit.id.key.to_string(), seq: hit.seq })
            .collect();
        if std::env::var_os("MANENT_QUALITY_MISSED").is_some() && !found.iter().any(|f| evidence.contains(f))
        {
            println!("missed {id} ({kind}): {text}");
        }
        by_kind.entry(kind).or_default().add(&found, &evidence);
        all.add(&found, &evidence);
    }
    println!("{:16} {:>5} {:>9} {:>9} {:>6}", "kind", "n", "recall@5", "recall@10", "hit@1");
    for (kind, figures) in by_kind.iter().map(|(kind, f)| (kind.as_str(), f)).chain([("all", &all)]) {
        let [five, ten, one] = figures.means();
        println!("{kind:16} {:>5} {five:>9.3} {ten:>9.3} {one:>6.3}", figures.questions);
    }
    let means = all.means();
    assert!(all.questions >= 60.0, "too few questions to tell anything");
    let holds = means.iter().zip(floors).all(|(mean, floor)| *mean >= floor);
    assert!(holds, "recall@5, recall@10 and hit@1 are {means:.3?}, at least {floors:?} were reached before");
}

#[test]
fn plain_questions_find_the_turns_that_answer_them() {
    assert_quality("", [0.59, 0.76, 0.335]);
}

#[test]
fn questions_to_long_sessions_with_an_assistant_find_the_turns_that_answer_them() {
    assert_quality("assistant", [0.80, 0.87, 0.55]);
}

#[test]
fn questions_to_sessions_of_coding_agents_find_the_turns_that_answer_them() {
    assert_quality("coding", [0.71, 0.77, 0.52]);
}
