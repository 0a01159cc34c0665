//! No model: the record itself. Whoever has no server still gets an answer out of what was said before.
//!
//! It searches the sessions and the memory for the words of the question, and quotes what fits best, each with where
//! it stands. It says that it does: nobody should take it for a model.

use std::fmt::Write as _;

use manent::{Hit, LogItem, Query, Record, Start, Store};

use super::{ModelError, Reply, ReplyEvent, Request};
use crate::tools::{one_line_excerpt, remembered, time_of};

/// Answers from the store.
#[derive(Debug, Clone)]
pub struct Recall {
    store: Store,
}

impl Recall {
    /// Makes a recall from this store.
    pub fn new(store: Store) -> Recall {
        Recall { store }
    }

    /// Answers the last question of a request. To be called where waiting for a disk hurts nobody.
    pub fn answer(&self, request: &Request) -> Result<String, ModelError> {
        let asked = request.messages.iter().rev().find(|message| message.role == "user");
        let question = asked.map_or("", |message| message.content.as_str());
        self.look_up(question).map_err(|e| ModelError::Record(e.to_string()))
    }

    /// Answers like the other models, on a thread that may block.
    pub async fn chat(
        &self,
        request: &Request,
        on: &mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Result<Reply, ModelError> {
        let (recall, asked) = (self.clone(), request.clone());
        let searching = tokio::task::spawn_blocking(move || recall.answer(&asked));
        let broken = |e: tokio::task::JoinError| ModelError::Record(e.to_string());
        let text = searching.await.map_err(broken)??;
        on(ReplyEvent::Text(&text));
        Ok(Reply { text, model: NAME.to_owned(), tries: 1, ..Reply::default() })
    }

    fn look_up(&self, question: &str) -> manent::Result<String> {
        let mut out = OPENING.to_owned();
        let Some(query) = Query::of_question(question) else {
            out.push_str(" Ask with some words that may have been said.\n");
            return Ok(out);
        };
        let mut quoted = 0;
        for hit in self.store.search(&query, LOOKED_AT)?.hits {
            // The question itself is in the record by now, and is no answer to itself.
            if quoted == QUOTES || is_question(&hit, question) || self.is_ours(&hit)? {
                continue;
            }
            quoted += 1;
            quote(&mut out, quoted, &hit);
        }
        let remembered = self.remembered(&query).unwrap_or_else(|error| {
            // What was said is there all the same.
            format!(
                "- nothing, because the memory cannot be read: {}",
                one_line_excerpt(&error.to_string(), QUOTE_CHARS)
            )
        });
        if !remembered.is_empty() {
            let _ = write!(out, "\n\nRemembered:\n{}", remembered.trim_end());
        }
        if quoted == 0 && remembered.is_empty() {
            out.push_str(" Nothing that was said fits the question.");
        }
        out.push('\n');
        Ok(out)
    }

    /// Returns true if `hit` is an earlier answer of [`Recall`]. Such answers are not quoted: otherwise answers would
    /// come to quote answers.
    fn is_ours(&self, hit: &Hit) -> manent::Result<bool> {
        if hit.role != "assistant" {
            return Ok(false);
        }
        let mut reader = self.store.read(&hit.id, Start::Seq(hit.seq))?;
        while let Some(item) = reader.next()? {
            if let LogItem::Entry(entry) = item {
                let model = Record::of(&entry)
                    .filter(|_| entry.seq == hit.seq)
                    .and_then(|record| record.string("model").map(|model| model == NAME));
                return Ok(model.unwrap_or(false));
            }
        }
        Ok(false)
    }

    fn remembered(&self, query: &Query) -> manent::Result<String> {
        let mut out = String::new();
        for item in remembered(&self.store, query, LOOKED_AT)?.take(REMEMBERED) {
            let _ = writeln!(out, "- {} (item {})", one_line_excerpt(&item.content, QUOTE_CHARS), item.id);
        }
        Ok(out)
    }
}

fn quote(out: &mut String, number: usize, hit: &Hit) {
    let (time, text) = (time_of(hit), one_line_excerpt(&hit.snippet.text, QUOTE_CHARS));
    let _ = write!(out, "\n\n{number}. {} {}, {}, {time}:\n   > {text}", hit.id.key, hit.seq, hit.role);
}

fn is_question(hit: &Hit, question: &str) -> bool {
    let plain = |text: &str| {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
    };
    // Nor is another question.
    let text = hit.snippet.text.trim_end();
    hit.role == "user" && (text.ends_with(['?', '？']) || plain(question).contains(&plain(text)))
}

/// The name of [`Recall`] where models have names.
pub const NAME: &str = "recall";
const OPENING: &str = "No model answers here, so this is no answer of one: these are your own records, searched for \
    the words of the question.";
const LOOKED_AT: usize = 20;
const QUOTES: usize = 5;
const REMEMBERED: usize = 5;
const QUOTE_CHARS: usize = 400;
