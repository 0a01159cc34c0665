//! Whether something is remembered already, or contradicts what is. By its words alone, among what is like it.

use crate::error::Result;
use crate::memory::{Item, Kind, Memory, Relation, Source, SourceKind};
use manent_index::Query;
use manent_index::words::Words;
use manent_store::clock;

use super::grounding::SAID;

/// What the memory has that is like something.
#[derive(Debug, Default)]
pub(super) struct Found {
    same: bool,
    against: Vec<Item>,
}

impl Found {
    pub(super) fn is_known(&self) -> bool {
        self.same
    }

    /// The item that it replaces: the newest of those that it contradicts.
    pub(super) fn contradicts(&self) -> Option<u64> {
        self.against.iter().map(|item| item.id).max()
    }

    /// What a person put there, or a file of theirs, is not replaced by what a model took from a conversation.
    pub(super) fn needs_a_person(&self) -> bool {
        self.against.iter().any(|item| item.source.who != SourceKind::Model)
    }

    /// Whether something that it contradicts was said later: conversations are not always looked at in the order in
    /// which they were.
    pub(super) fn is_outdated(&self, memory: &Memory, source: &Source, ts: &str) -> Result<bool> {
        let ms = clock::parse_ms(ts).unwrap_or(i64::MAX);
        for item in &self.against {
            let here =
                (&source.session_id, &source.session) == (&item.source.session_id, &item.source.session);
            if here && item.source.seqs > source.seqs {
                return Ok(true);
            }
            let said = memory.said_at(&item.source)?;
            if said.as_deref().and_then(clock::parse_ms).is_some_and(|other| other > ms) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Compares something with what is active.
pub(super) fn compare(memory: &Memory, content: &str) -> Result<Found> {
    let mut found = Found::default();
    let plain = plainly(content);
    let Some(query) = Query::of_question(&plain) else { return Ok(found) };
    for hit in memory.search(&query, CANDIDATES)?.hits {
        if hit.item.kind == Kind::Daily {
            continue;
        }
        let other = plainly(&hit.item.content);
        match Relation::between(&other, &plain) {
            Relation::Near if is_turned(&other, &plain) => found.against.push(hit.item),
            Relation::Same | Relation::Near => found.same = true,
            Relation::Contradictory => found.against.push(hit.item),
            Relation::Unrelated => {}
        }
    }
    Ok(found)
}

/// Whether one text puts this over that, and the other that over this: the same words, and the opposite.
fn is_turned(one: &str, other: &str) -> bool {
    let sides = |text: &str| {
        let mut words = Vec::new();
        Words::default().split(text, |term, _| words.push(term.to_owned()));
        let at = words.iter().position(|word| matches!(word.as_str(), "over" | "than"))?;
        Some((words.get(at.checked_sub(1)?)?.clone(), words.get(at + 1)?.clone()))
    };
    matches!((sides(one), sides(other)), (Some((a, b)), Some((c, d))) if a == d && b == c && a != b)
}

/// What is said of the user, as the user says it: without who said it, and in the first person.
fn plainly(content: &str) -> String {
    let text = content.strip_prefix(SAID).unwrap_or(content);
    let mut words: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        let own = match word {
            "user" | "User" => "I",
            "user's" | "user’s" | "User's" | "User’s" => "my",
            _ => word,
        };
        if own != word && words.last().is_some_and(|before| before.eq_ignore_ascii_case("the")) {
            words.pop();
        }
        let is_verb = words.last() == Some(&"I");
        words.push(match own {
            "has" if is_verb => "have",
            "is" if is_verb => "am",
            "does" if is_verb => "do",
            "doesn't" | "doesn’t" if is_verb => "don't",
            verb if is_verb && !verb.ends_with("ss") => verb.strip_suffix('s').unwrap_or(verb),
            other => other,
        });
    }
    words.join(" ")
}

/// So many items that fit best are compared.
const CANDIDATES: usize = 32;
