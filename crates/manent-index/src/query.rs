//! The query language: what someone types, as what an index can be asked.
//!
//! Nothing that is typed is a mistake unless it would look for something else than was meant: text from anywhere can be
//! pasted, and is looked for.

use std::collections::HashSet;

use crate::words::Words;
use manent_store::SessionKey;
use manent_store::clock;
use manent_store::human_time::TimeError;

mod parse;
#[cfg(test)]
mod tests;

/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4096;
/// The most words, phrases and filters of one query.
pub const QUERY_CLAUSES_MAX: usize = 64;

/// What a question of many pages asks is in its first words, or in none.
const QUESTION_WORDS_MAX: usize = 48;

/// What to look for.
///
/// | typed | finds records |
/// |---|---|
/// | `cafe menu` | with both words, whatever their case and accents |
/// | `"to the letter"` | with these words in a row; so does `foo_bar`, `src/main.rs` or `well-known` |
/// | `migrat*`, `"data bas*"` | with a word that begins so |
/// | `-draft`, `-"not this"` | without |
/// | `red OR green` | with one of them (`AND` between words is as good as nothing) |
/// | `role:user`, `role:user,tool`, `-role:tool` | of these roles, of others |
/// | `session:KEY`, `session:"a key"`, `session:tele*`, `session:@ID`, `-session:KEY` | of these, of others |
/// | `since:7d`, `since:2026-11-01`, `after:…` | from that time on |
/// | `until:2026-11-01`, `until:yesterday` | up to the end of that day, or up to that minute |
/// | `before:2026-11-01` | up to its beginning |
///
/// ```
/// use manent_index::Query;
/// let now_ms = 1_794_766_020_000;
/// assert!(Query::parse("what did we decide about the database? since:7d", now_ms).is_ok());
/// assert!(Query::parse("!!!", now_ms).is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// What a record must hold: all of these.
    pub(crate) must: Vec<Clause>,
    /// What it must not hold: none of these.
    pub(crate) not: Vec<Clause>,
    /// Any of these roles, in lower case; none: of every role.
    pub(crate) roles: Vec<String>,
    /// None of these roles, in lower case.
    pub(crate) not_roles: Vec<String>,
    /// Any of these sessions; none: of every session.
    pub(crate) sessions: Vec<SessionMatch>,
    /// None of these sessions.
    pub(crate) not_sessions: Vec<SessionMatch>,
    /// Not earlier than this.
    pub(crate) since_ms: Option<i64>,
    /// Earlier than this.
    pub(crate) until_ms: Option<i64>,
    /// Whether what is looked for are words alone, which may be looked for one by one if no record has them all.
    pub(crate) plain: bool,
    /// Whether records that hold only some of the words are as welcome as those that hold them all.
    pub(crate) loose: bool,
    words: Vec<String>,
}

/// Alternatives: a record satisfies it that holds any of them. Mostly there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Clause {
    pub(crate) any: Vec<Phrase>,
}

/// Terms in a row; a word is a phrase of one. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Phrase {
    pub(crate) terms: Vec<String>,
    /// Whether the last term is only the beginning of one.
    pub(crate) prefix: bool,
}

/// Which sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionMatch {
    /// Of this key.
    Key(String),
    /// Of a key that begins so.
    KeyPrefix(String),
    /// Of an id that begins so.
    Id(String),
}

/// A query that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No word and no filter.
    #[error("there is nothing to look for; give a word, or a filter such as since:7d or role:user")]
    Nothing,
    /// Only words that must not occur.
    #[error("that only says what to leave out; add a word to look for, or a filter such as since:7d")]
    OnlyExcluded,
    /// Longer than [`QUERY_BYTES_MAX`].
    #[error(
        "the query has {bytes} bytes, and at most {QUERY_BYTES_MAX} are read; look for a few words of it"
    )]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// More than [`QUERY_CLAUSES_MAX`] words, phrases and filters.
    #[error(
        "the query has more than {QUERY_CLAUSES_MAX} words and filters; give fewer, or put them in quotes to look for \
         them in a row"
    )]
    TooMany,
    /// A filter by time without a time.
    #[error("{filter}: {source}; or put it in quotes to look for the words")]
    Time {
        /// Which one: `since`, `until`, `after` or `before`.
        filter: &'static str,
        /// What is wrong with it.
        source: TimeError,
    },
}

impl Query {
    /// The same, for what fits best, whether it holds all the words or some of them.
    pub(crate) fn loosely(self) -> Query {
        Query { loose: true, ..self }
    }

    /// Reads what someone typed, at this time in milliseconds since 1970.
    pub fn parse(text: &str, now_ms: i64) -> Result<Query, QueryError> {
        parse::query(text, now_ms)
    }

    /// The words of a question and nothing else, any of which may be missing: what a user writes to a model is no
    /// query, whatever signs are in it. Nothing: it has no words.
    pub fn of_question(text: &str) -> Option<Query> {
        let (mut words, mut seen) = (String::new(), HashSet::new());
        Words::default().split(text, |term, _| {
            if seen.len() < QUESTION_WORDS_MAX && seen.insert(term.to_owned()) {
                words.push_str(term);
                words.push(' ');
            }
        });
        Some(Query::parse(&words, clock::now_ms()).ok()?.loosely())
    }

    /// Narrows it to a role, or to several with commas between them, as `role:` does. The default query, without words,
    /// takes every turn.
    #[must_use]
    pub fn of_role(mut self, roles: &str) -> Query {
        let roles = roles.split(',').map(str::trim).filter(|role| !role.is_empty());
        self.roles.extend(roles.map(str::to_lowercase));
        self
    }

    /// Narrows it to a session: its key, the beginning of keys with a star, or `@` and the beginning of an id, as
    /// `session:` does.
    #[must_use]
    pub fn of_session(mut self, session: &str) -> Query {
        self.sessions.push(parse::session_match(session));
        self
    }

    /// Narrows it to the sessions of a key, to the letter.
    #[must_use]
    pub fn of_key(mut self, key: &SessionKey) -> Query {
        self.sessions.push(SessionMatch::Key(key.as_str().to_owned()));
        self
    }

    /// Narrows it to what was said at this time or later, in milliseconds since 1970.
    #[must_use]
    pub fn since(mut self, ms: i64) -> Query {
        self.since_ms = self.since_ms.max(Some(ms));
        self
    }

    /// Narrows it to what was said before this time, in milliseconds since 1970.
    #[must_use]
    pub fn until(mut self, ms: i64) -> Query {
        self.until_ms = Some(self.until_ms.map_or(ms, |until| until.min(ms)));
        self
    }

    /// The words that were typed bare, in order, for a search by any of them.
    pub(crate) fn words(&self) -> Vec<String> {
        self.words.clone()
    }
}
