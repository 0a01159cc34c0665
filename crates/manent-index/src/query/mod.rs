//! The query language.
//!
//! Everything that is typed is valid unless it would search for something other than was meant: text from anywhere can
//! be pasted, and is searched for its words. The parser reads a query once, from left to right.

pub(crate) mod answer_kind;
pub(crate) mod dates;
pub(crate) mod hit_order;
pub(crate) mod matching;
pub(crate) mod question;
pub(crate) mod ranking;
pub(crate) mod score;
pub(crate) mod search;
pub(crate) mod second_look;
pub(crate) mod snippet;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use manent_store::human_time::{TimeError, TimeRange, parse_time};
use manent_store::{SessionKey, clock};

use crate::words::{PREFIX_BYTES_MAX, Words};

/// The longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4096;
/// The most words, phrases and filters of one query.
pub const QUERY_CLAUSES_MAX: usize = 64;

/// The number of words of a question that are searched: those of a question of many pages are at its beginning.
const QUESTION_WORDS_MAX: usize = 48;

/// A parsed query.
///
/// | typed | finds records |
/// |---|---|
/// | `cafe menu`, a question | that fit best: with some of the words, those with all of them close together first |
/// | `cafe` | with this word, whatever its case and accents |
/// | `cafe AND menu` | with both |
/// | `"to the letter"` | with these words in a row; so does `foo_bar`, `src/main.rs` or `well-known` |
/// | `migrat*`, `"data bas*"` | with a word that begins so |
/// | `-draft`, `-"not this"` | without |
/// | `red OR green` | with one of them |
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
    /// A record must hold all of these.
    pub(crate) must: Vec<Clause>,
    /// A record must hold none of these.
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
    /// The query consists of bare words, any of which a record may lack.
    pub(crate) plain: bool,
    /// The query is a question even if it is a single word, whose exact matches come first otherwise.
    pub(crate) loose: bool,
    /// The items that were typed bare, in order.
    pub(crate) typed: Vec<String>,
    /// The time at which the query was parsed, from which `yesterday` is reckoned.
    pub(crate) asked_ms: i64,
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
    /// The last term is a prefix.
    pub(crate) prefix: bool,
}

/// A filter by session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionMatch {
    Key(String),
    KeyPrefix(String),
    /// A prefix of the id.
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
        /// The length of the query in bytes.
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
        /// The name of the filter: `since`, `until`, `after` or `before`.
        filter: &'static str,
        /// The reason why the value is not a time.
        source: TimeError,
    },
}

impl Query {
    /// Reads what someone typed, at this time in milliseconds since 1970.
    pub fn parse(text: &str, now_ms: i64) -> Result<Query, QueryError> {
        let text = text.trim();
        if text.len() > QUERY_BYTES_MAX {
            return Err(QueryError::TooLong { bytes: text.len() });
        }
        let mut parser = Parser {
            now_ms,
            splitter: Words::default(),
            query: Query { asked_ms: now_ms, ..Query::default() },
            pieces: Vec::new(),
        };
        let mut rest = text;
        while let Some(item) = next_item(&mut rest) {
            parser.take(&item)?;
        }
        parser.finish()
    }

    /// The words of a question and nothing else, any of which may be missing: what a user writes to a model is no
    /// query, whatever signs are in it. `None` if it has no words.
    pub fn of_question(text: &str) -> Option<Query> {
        let (mut typed, mut seen, mut splitter) = (Vec::new(), HashSet::new(), Words::default());
        for item in text.split_whitespace() {
            let mut has_words = false;
            splitter.split(item, |term, _| {
                seen.insert(term.to_owned());
                has_words = true;
            });
            if seen.len() > QUESTION_WORDS_MAX {
                break;
            }
            if has_words {
                typed.push(item.to_owned());
            }
        }
        if typed.is_empty() {
            typed.extend(seen.iter().next().cloned());
        }
        let asked_ms = clock::now_ms();
        (!typed.is_empty()).then(|| Query { plain: true, loose: true, typed, asked_ms, ..Query::default() })
    }

    /// Returns whether it is a plain question, which is answered by the turns that fit best. Any other query, a single
    /// word too, is answered by the turns that hold all of it; a single word becomes a question if there are none.
    #[must_use]
    pub fn is_question(&self) -> bool {
        self.plain && (self.loose || self.typed.len() > 1)
    }

    /// Narrows it to a role, or to several with commas between them, as `role:` does. The default query, without words,
    /// takes every turn.
    #[must_use]
    pub fn of_role(mut self, roles: &str) -> Query {
        self.roles.extend(roles_in(roles));
        self
    }

    /// Narrows it to a session: its key, the beginning of keys with a star, or `@` and the beginning of an id, as
    /// `session:` does.
    #[must_use]
    pub fn of_session(mut self, session: &str) -> Query {
        self.sessions.push(session_match(session));
        self
    }

    /// Narrows it to the sessions of a key, to the letter.
    #[must_use]
    pub fn of_key(mut self, key: &SessionKey) -> Query {
        self.sessions.push(SessionMatch::Key(key.as_str().to_owned()));
        self
    }

    /// Narrows it to records of this time or later, in milliseconds since 1970.
    #[must_use]
    pub fn since(mut self, ms: i64) -> Query {
        self.since_ms = self.since_ms.max(Some(ms));
        self
    }

    /// Narrows it to records before this time, in milliseconds since 1970.
    #[must_use]
    pub fn until(mut self, ms: i64) -> Query {
        self.until_ms = Some(self.until_ms.map_or(ms, |until| until.min(ms)));
        self
    }
}

/// One thing that was typed, as it stands between spaces or quotes.
struct Item<'a> {
    /// A hyphen before it says that it must not occur.
    excluded: bool,
    /// The name and the colon before a value: `role`.
    filter: Option<Filter>,
    /// The text, without quotes.
    text: &'a str,
    quoted: bool,
    /// A star follows the closing quote.
    star: bool,
}

#[derive(Debug, Clone, Copy)]
enum Filter {
    Role,
    Session,
    /// The name of the filter, and its bound with a hyphen before it and without.
    Time(&'static str, Bound, Bound),
}

/// On which side of which edge of a day, or of a point in time.
#[derive(Debug, Clone, Copy)]
enum Bound {
    FromStart,
    FromEnd,
    BeforeStart,
    BeforeEnd,
}

const FILTERS: [(&str, Filter); 6] = [
    ("role:", Filter::Role),
    ("session:", Filter::Session),
    ("since:", Filter::Time("since", Bound::BeforeStart, Bound::FromStart)),
    ("after:", Filter::Time("after", Bound::BeforeStart, Bound::FromStart)),
    ("until:", Filter::Time("until", Bound::FromEnd, Bound::BeforeEnd)),
    ("before:", Filter::Time("before", Bound::FromStart, Bound::BeforeStart)),
];

/// Takes the next item off the beginning of the text.
fn next_item<'a>(rest: &mut &'a str) -> Option<Item<'a>> {
    *rest = rest.trim_start_matches(is_blank);
    if rest.is_empty() {
        return None;
    }
    // Two hyphens begin the option of a command, which someone wants to find.
    let without = rest.strip_prefix('-').filter(|rest| !rest.starts_with(|c| is_blank(c) || c == '-'));
    let excluded = without.is_some_and(|rest| !rest.is_empty());
    let mut text = without.unwrap_or(rest);
    let mut filter = None;
    for (name, named) in FILTERS {
        let value = text
            .get(..name.len())
            .filter(|start| start.eq_ignore_ascii_case(name))
            .map(|_| &text[name.len()..]);
        if let Some(value) = value.filter(|value| !value.is_empty() && !value.starts_with(is_blank)) {
            (filter, text) = (Some(named), value);
        }
    }
    let Some(inside) = text.strip_prefix(is_quote) else {
        let end = text.find(is_blank).unwrap_or(text.len());
        *rest = &text[end..];
        return Some(Item { excluded, filter, text: &text[..end], quoted: false, star: false });
    };
    // Without a closing quote, the rest is the phrase.
    let (text, after) = match inside.find(is_quote) {
        Some(end) => (&inside[..end], inside[end..].strip_prefix(is_quote).unwrap_or_default()),
        None => (inside, ""),
    };
    let after_star = after.strip_prefix('*');
    // A hyphen right behind a quote joins, as in `"well"-known`.
    *rest = after_star.unwrap_or(after).trim_start_matches('-');
    Some(Item { excluded, filter, text, quoted: true, star: after_star.is_some() })
}

fn is_blank(c: char) -> bool {
    c.is_whitespace() || c.is_control()
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„')
}

/// Text that was typed, before it is known what `OR` means.
#[expect(clippy::struct_excessive_bools, reason = "each is a property of the text that was typed")]
struct Piece {
    text: String,
    phrase: Phrase,
    excluded: bool,
    /// Neither in quotes nor with a star.
    bare: bool,
    joint: Option<Joint>,
    has_lowercase: bool,
    has_uppercase: bool,
}

/// A word in capitals between two others that may say how they hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    And,
    Or,
}

struct Parser {
    now_ms: i64,
    splitter: Words,
    query: Query,
    pieces: Vec<Piece>,
}

impl Parser {
    fn take(&mut self, item: &Item<'_>) -> Result<(), QueryError> {
        match item.filter {
            None => self.take_text(item),
            Some(Filter::Role) => {
                let list = if item.excluded { &mut self.query.not_roles } else { &mut self.query.roles };
                list.extend(roles_in(item.text));
            }
            Some(Filter::Session) => {
                let list =
                    if item.excluded { &mut self.query.not_sessions } else { &mut self.query.sessions };
                list.push(session(item));
            }
            Some(Filter::Time(name, _, bound)) if !item.excluded => self.narrow(item, name, bound)?,
            Some(Filter::Time(name, without, _)) => self.narrow(item, name, without)?,
        }
        Ok(())
    }

    fn take_text(&mut self, item: &Item<'_>) {
        let Some(phrase) = self.phrase(item) else { return };
        let joint = match item.text {
            "AND" if !item.quoted => Some(Joint::And),
            "OR" if !item.quoted => Some(Joint::Or),
            _ => None,
        };
        self.pieces.push(Piece {
            text: item.text.to_owned(),
            bare: !item.quoted && !phrase.prefix,
            phrase,
            excluded: item.excluded,
            joint,
            has_lowercase: item.text.contains(char::is_lowercase),
            has_uppercase: item.text.contains(char::is_uppercase),
        });
    }

    /// Returns the terms of an item; `None` if it has none, as `!!!`.
    fn phrase(&mut self, item: &Item<'_>) -> Option<Phrase> {
        let (mut terms, mut start, mut end) = (Vec::new(), usize::MAX, 0);
        self.splitter.split(item.text, |term, range| {
            terms.push(term.to_owned());
            (start, end) = (start.min(range.start), range.end);
        });
        let last = terms.last_mut()?;
        // `**bold**` and `*so*` are how people write, not beginnings of words.
        let (before, after) = (&item.text[..start], &item.text[end..]);
        let inside = after.starts_with('*') && !after[1..].contains('*') && !before.contains('*');
        let prefix = inside || item.star;
        if prefix {
            last.truncate(last.floor_char_boundary(PREFIX_BYTES_MAX));
        }
        Some(Phrase { terms, prefix })
    }

    /// Narrows the time in which to look.
    fn narrow(&mut self, item: &Item<'_>, filter: &'static str, bound: Bound) -> Result<(), QueryError> {
        let TimeRange { start_ms, end_ms } = parse_time(item.text.trim(), self.now_ms)
            .map_err(|source| QueryError::Time { filter, source })?;
        let query = std::mem::take(&mut self.query);
        self.query = match bound {
            Bound::FromStart => query.since(start_ms),
            Bound::FromEnd => query.since(end_ms),
            Bound::BeforeStart => query.until(start_ms),
            Bound::BeforeEnd => query.until(end_ms),
        };
        Ok(())
    }

    fn finish(mut self) -> Result<Query, QueryError> {
        let pieces = std::mem::take(&mut self.pieces);
        self.query.plain = self.join(pieces) && !self.query.must.is_empty();
        let query = self.query;
        let phrases = query.must.iter().chain(&query.not).map(|clause| clause.any.len()).sum::<usize>();
        let roles = query.roles.len() + query.not_roles.len();
        let sessions = query.sessions.len() + query.not_sessions.len();
        let filtered = roles + sessions > 0 || query.since_ms.is_some() || query.until_ms.is_some();
        if phrases + roles + sessions > QUERY_CLAUSES_MAX {
            Err(QueryError::TooMany)
        } else if !query.must.is_empty() || filtered {
            Ok(query)
        } else if query.not.is_empty() {
            Err(QueryError::Nothing)
        } else {
            Err(QueryError::OnlyExcluded)
        }
    }

    /// Makes clauses of the pieces. Returns whether all of them are bare words.
    fn join(&mut self, pieces: Vec<Piece>) -> bool {
        // Who writes everything in capitals writes `AND` and `OR` so too.
        let mut words = pieces.iter().filter(|piece| piece.joint.is_none());
        let shouted =
            words.clone().any(|piece| piece.has_uppercase) && !words.any(|piece| piece.has_lowercase);
        let is_word: Vec<bool> =
            pieces.iter().map(|piece| piece.joint.is_none() && !piece.excluded).collect();
        let is_joint = |at: usize, joint: Option<Joint>| {
            joint.filter(|_| {
                !shouted && at > 0 && is_word[at - 1] && is_word.get(at + 1).is_some_and(|is_word| *is_word)
            })
        };
        let mut plain = true;
        let mut joined = None;
        for (at, piece) in pieces.into_iter().enumerate() {
            if let Some(joint) = is_joint(at, piece.joint).filter(|_| !piece.excluded) {
                joined = Some(joint);
                plain = false;
                continue;
            }
            plain &= piece.bare && !piece.excluded;
            if piece.bare && !piece.excluded {
                self.query.typed.push(piece.text);
            }
            let list = if piece.excluded { &mut self.query.not } else { &mut self.query.must };
            match (joined.take(), list.last_mut()) {
                (Some(Joint::Or), Some(before)) => before.any.push(piece.phrase),
                _ => list.push(Clause { any: vec![piece.phrase] }),
            }
        }
        for list in [&mut self.query.must, &mut self.query.not] {
            drop_repeated(list);
        }
        plain
    }
}

/// The roles of a list with commas between them.
fn roles_in(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(str::trim).filter(|role| !role.is_empty()).map(str::to_lowercase)
}

/// Quotes make everything in them part of the key.
fn session(item: &Item<'_>) -> SessionMatch {
    match (item.quoted, item.star) {
        (false, _) => session_match(item.text),
        (true, true) => SessionMatch::KeyPrefix(item.text.to_owned()),
        (true, false) => SessionMatch::Key(item.text.to_owned()),
    }
}

/// Parses the value of `session:` without quotes.
fn session_match(text: &str) -> SessionMatch {
    match (text.strip_prefix('@'), text.strip_suffix('*')) {
        (Some(id), _) if !id.is_empty() => SessionMatch::Id(id.trim_end_matches('*').to_owned()),
        (_, Some(start)) => SessionMatch::KeyPrefix(start.to_owned()),
        _ => SessionMatch::Key(text.to_owned()),
    }
}

/// A word that was typed twice is looked for once.
fn drop_repeated(list: &mut Vec<Clause>) {
    let mut seen = HashSet::new();
    list.retain(|clause| {
        let [phrase] = &clause.any[..] else { return true };
        seen.insert((phrase.terms.clone(), phrase.prefix))
    });
}
