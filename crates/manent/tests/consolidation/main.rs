//! Consolidation: what the user said becomes memory, with proof, once, whatever breaks and whatever a model answers.
//!
//! | file | about |
//! |---|---|
//! | `first.rs` | what a user sees of it on an ordinary day, and what a model sees of the user |
//! | `sessions.rs` | sessions of any kind and size |
//! | `crashes.rs` | a simulated disk that crashes, loses power and fails; models that die |
//! | `cursor.rs` | how far a session was looked at, and two who look |
//! | `oracle.rs`, `hostile.rs` | models that lie, against a table of what may be remembered |
//! | `tricks.rs` | lies that were thought out by hand |
//! | `merging.rs` | what is known already, and what contradicts it; the inbox |
//! | `limits.rs` | budgets, dry runs, models that refuse |
//!
//! `MANENT_CONSOLIDATION_LIVES=n` lives n lives, `MANENT_CONSOLIDATION_SEED=n` lives one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may"
)]
#![allow(clippy::disallowed_methods, reason = "tests do to files what people and other programs do")]

mod crashes;
mod cursor;
mod false_claims;
mod hostile;
mod limits;
mod merging;
mod oracle;
mod sessions;
mod steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use manent::consolidate::{
    Consolidated, Extractor, ExtractorError, ExtractorReply, Rules, Step, TokensSpent,
};
use manent::memory::{Filter, Item, Kind};
use manent::{Durability, Expect, SessionKey, Store, StoreOptions, StreamId, turn};

type Answer<'a> = Box<dyn FnMut(&str) -> Result<String, ExtractorError> + 'a>;

/// A model that a test plays: it keeps all that it was shown.
pub(crate) struct Model<'a> {
    pub(crate) prompt: String,
    pub(crate) max: u64,
    pub(crate) daily: Answer<'a>,
    pub(crate) facts: Answer<'a>,
    pub(crate) spent: TokensSpent,
    pub(crate) transcripts: Vec<String>,
    pub(crate) evidence: Vec<String>,
    pub(crate) complaints: Vec<(String, String)>,
}

impl<'a> Model<'a> {
    /// One that tells the truth, and points at every sentence in which users speak of themselves.
    pub(crate) fn honest() -> Model<'a> {
        Model {
            prompt: "remember".into(),
            max: 4000,
            daily: Box::new(|_| Ok(String::new())),
            facts: Box::new(|evidence| Ok(all_said(evidence))),
            spent: TokensSpent { input: 100, output: 10 },
            transcripts: Vec::new(),
            evidence: Vec::new(),
            complaints: Vec::new(),
        }
    }

    /// One that always claims this.
    pub(crate) fn claiming(claims: &[(&str, &str)]) -> Model<'a> {
        let answer = facts(claims);
        Model { facts: Box::new(move |_| Ok(answer.clone())), ..Model::honest() }
    }

    pub(crate) fn asked(&self) -> usize {
        self.transcripts.len() + self.evidence.len()
    }
}

impl Extractor for Model<'_> {
    fn name(&self) -> &'static str {
        "played"
    }

    fn prompt(&self) -> &str {
        &self.prompt
    }

    fn max_input(&self) -> u64 {
        self.max
    }

    fn daily(&mut self, transcript: &str) -> Result<ExtractorReply, ExtractorError> {
        self.transcripts.push(transcript.to_owned());
        Ok(ExtractorReply { text: (self.daily)(transcript)?, spent: self.spent })
    }

    fn facts(
        &mut self,
        evidence: &str,
        complaint: Option<(&str, &str)>,
    ) -> Result<ExtractorReply, ExtractorError> {
        self.evidence.push(evidence.to_owned());
        self.complaints.extend(complaint.map(|(before, wrong)| (before.to_owned(), wrong.to_owned())));
        Ok(ExtractorReply { text: (self.facts)(evidence)?, spent: self.spent })
    }
}

/// The answer that claims these: contents and quotes.
pub(crate) fn facts(claims: &[(&str, &str)]) -> String {
    let claims = claims
        .iter()
        .map(|(content, quote)| serde_json::json!({"kind": "fact", "content": content, "quote": quote}));
    serde_json::json!({"facts": claims.collect::<Vec<_>>()}).to_string()
}

/// The answer that claims every line in which somebody speaks of themselves.
pub(crate) fn all_said(evidence: &str) -> String {
    let mut claims: Vec<(String, String)> = Vec::new();
    for line in evidence.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("evidence is JSON, a turn a line");
        for sentence in value["said"].as_str().expect("what was said").lines() {
            if ["I ", "My "].iter().any(|start| sentence.starts_with(start)) {
                claims.push((sentence.to_owned(), sentence.to_owned()));
            }
        }
    }
    facts(&claims.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect::<Vec<_>>())
}

/// A directory in memory where there is one: what a real disk makes of a sync is nothing that these tests look at.
pub(crate) fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A store that waits for nobody.
pub(crate) fn open(home: &Path) -> Store {
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Store::open_with(home, options).unwrap()
}

pub(crate) fn key(name: &str) -> SessionKey {
    SessionKey::new(name).unwrap()
}

pub(crate) fn say(store: &Store, name: &str, role: &str, text: &str) -> u64 {
    let bodies = [turn(role, text).into()];
    store.append_with(&key(name), &bodies, Durability::Flush, Expect::Any).unwrap()[0].seq
}

pub(crate) fn at(store: &Store, name: &str) -> StreamId {
    store.find(&key(name)).unwrap().id
}

/// Looks at a session until there is nothing more to look at.
pub(crate) fn look(store: &Store, name: &str, model: &mut Model<'_>) -> Vec<Consolidated> {
    look_at(store, &at(store, name), model, Rules::default()).unwrap()
}

pub(crate) fn look_at(
    store: &Store,
    at: &StreamId,
    model: &mut Model<'_>,
    rules: Rules,
) -> manent::Result<Vec<Consolidated>> {
    let mut by = store.consolidation()?.consolidator(Duration::ZERO)?;
    let mut all = Vec::new();
    loop {
        match by.step(at, model, &rules)? {
            Step::Done(done) => all.push(*done),
            Step::UpToDate => return Ok(all),
            other => panic!("{other:?}"),
        }
        assert!(all.len() < 2000, "it never ends");
    }
}

/// The active items but for what days brought, oldest first.
pub(crate) fn learned(store: &Store) -> Vec<Item> {
    let mut items = store.memory().unwrap().items(&Filter::default()).unwrap();
    items.retain(|item| item.kind != Kind::Daily);
    items.sort_by_key(|item| item.id);
    items
}

/// Returns the texts of items, without the opening words.
pub(crate) fn contents(store: &Store) -> Vec<String> {
    let plain = |text: &str| text.strip_prefix("The user said: ").unwrap_or(text).to_owned();
    learned(store).iter().map(|item| plain(&item.content)).collect()
}

pub(crate) fn dailies(store: &Store) -> Vec<Item> {
    let filter = Filter { kinds: vec![Kind::Daily], ..Filter::default() };
    store.memory().unwrap().items(&filter).unwrap()
}

pub(crate) fn proposed(store: &Store) -> Vec<Item> {
    let mut items = store.inbox().unwrap().items(&Filter::default()).unwrap();
    items.sort_by_key(|item| item.id);
    items
}

/// Every file below a directory, with its bytes.
pub(crate) fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            all.extend(files(&entry.path()));
        } else {
            all.insert(entry.path(), std::fs::read(entry.path()).unwrap_or_default());
        }
    }
    all
}

/// All that was written rests on what the user said.
pub(crate) fn expect_grounded(store: &Store) {
    for memory in [store.memory().unwrap(), store.inbox().unwrap()] {
        let audit = memory.audit().unwrap();
        assert_eq!(audit.ungrounded.items, 0, "{:?}", memory.items(&Filter::default()));
        assert_eq!(audit.secret.items, 0, "{:?}", memory.items(&Filter::default()));
    }
}
