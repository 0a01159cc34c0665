//! Reads a query from left to right, once.

use crate::words::{PREFIX_BYTES_MAX, Words};
use manent_store::human_time::parse_time;

use super::{Clause, Phrase, QUERY_BYTES_MAX, QUERY_CLAUSES_MAX, Query, QueryError, SessionMatch};

pub(super) fn query(text: &str, now_ms: i64) -> Result<Query, QueryError> {
    let text = text.trim();
    if text.len() > QUERY_BYTES_MAX {
        return Err(QueryError::TooLong { bytes: text.len() });
    }
    let mut parser =
        Parser { now_ms, splitter: Words::default(), query: Query::default(), pieces: Vec::new() };
    let mut rest = text;
    while let Some(item) = next_item(&mut rest) {
        parser.take(&item)?;
    }
    parser.finish()
}

/// One thing that was typed, as it stands between spaces or quotes.
struct Item<'a> {
    /// Whether a hyphen says that it must not occur.
    excluded: bool,
    /// The name and the colon before a value: `role`.
    filter: Option<Filter>,
    /// The text, without quotes.
    text: &'a str,
    quoted: bool,
    /// Whether a star follows the closing quote.
    star: bool,
}

#[derive(Debug, Clone, Copy)]
enum Filter {
    Role,
    Session,
    /// Its name, what it means with a hyphen before it, and without.
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
struct Piece {
    phrase: Phrase,
    excluded: bool,
    /// Neither in quotes nor with a star.
    bare: bool,
    joint: Option<Joint>,
    case: Case,
}

/// A word in capitals between two others that may say how they hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Lower,
    Upper,
    /// Numbers, other scripts.
    None,
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
                let roles = item.text.split(',').map(str::trim).filter(|role| !role.is_empty());
                let list = if item.excluded { &mut self.query.not_roles } else { &mut self.query.roles };
                list.extend(roles.map(str::to_lowercase));
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
        let case = match item.text {
            text if text.contains(char::is_lowercase) => Case::Lower,
            text if text.contains(char::is_uppercase) => Case::Upper,
            _ => Case::None,
        };
        let bare = !item.quoted && !phrase.prefix;
        self.pieces.push(Piece { phrase, excluded: item.excluded, bare, joint, case });
    }

    /// The terms of an item. Nothing: it has none, as `!!!`.
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
        let given = parse_time(item.text.trim(), self.now_ms)
            .map_err(|source| QueryError::Time { filter, source })?;
        let (since, until) = (&mut self.query.since_ms, &mut self.query.until_ms);
        match bound {
            Bound::FromStart => *since = (*since).max(Some(given.start_ms)),
            Bound::FromEnd => *since = (*since).max(Some(given.end_ms)),
            Bound::BeforeStart => *until = Some(earlier(*until, given.start_ms)),
            Bound::BeforeEnd => *until = Some(earlier(*until, given.end_ms)),
        }
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
        let has = |case: Case| pieces.iter().any(|piece| piece.joint.is_none() && piece.case == case);
        let shouted = has(Case::Upper) && !has(Case::Lower);
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
                self.query.words.extend(piece.phrase.terms.iter().cloned());
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

fn earlier(until: Option<i64>, ms: i64) -> i64 {
    until.map_or(ms, |until| until.min(ms))
}

/// Quotes make everything in them part of the key.
fn session(item: &Item<'_>) -> SessionMatch {
    let text = item.text;
    if item.quoted {
        return if item.star {
            SessionMatch::KeyPrefix(text.to_owned())
        } else {
            SessionMatch::Key(text.to_owned())
        };
    }
    session_match(text)
}

/// What is meant by a session's name without quotes.
pub(super) fn session_match(text: &str) -> SessionMatch {
    match (text.strip_prefix('@'), text.strip_suffix('*')) {
        (Some(id), _) if !id.is_empty() => SessionMatch::Id(id.trim_end_matches('*').to_owned()),
        (_, Some(start)) => SessionMatch::KeyPrefix(start.to_owned()),
        _ => SessionMatch::Key(text.to_owned()),
    }
}

/// A word that was typed twice is looked for once.
fn drop_repeated(list: &mut Vec<Clause>) {
    let mut seen = std::collections::HashSet::new();
    list.retain(|clause| {
        let [phrase] = &clause.any[..] else { return true };
        seen.insert((phrase.terms.clone(), phrase.prefix))
    });
}
