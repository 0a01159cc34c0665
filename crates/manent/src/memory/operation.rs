//! The effect of a line on the memory, found without parsing its text.
//!
//! Loading looks at every line and needs four things of it: the time, the kind, the id, and the id that it forgets or
//! replaces. Lines that we wrote have them at the front, in one order, so that they are found without a JSON parser;
//! any other line is parsed and means the same.

use manent_log::{Entry, frame};

use super::item::{FORGET, Kind};
use crate::turn::Record;
use manent_store::clock;

/// The effect of a line on the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineEffect {
    /// The id, if the line has one that is a whole number.
    pub(crate) id: Option<u64>,
    /// The time of writing in milliseconds since 1970, if the line has one.
    pub(crate) at_ms: Option<i64>,
    pub(crate) operation: Operation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An item, and the one that it replaces.
    Remember(Kind, Option<u64>),
    /// The end of the items with this id: they are forgotten from here on.
    Forget(u64),
    /// A header, a note about damage, a kind that only a newer version knows.
    Other,
}

impl LineEffect {
    pub(crate) fn of(entry: &Entry<'_>) -> LineEffect {
        let own_layout = entry.verified.then(|| parse_own_layout(frame::body_of(entry.bytes))).flatten();
        own_layout.unwrap_or_else(|| parse_any_layout(entry))
    }
}

/// Reads the layout that we write.
fn parse_own_layout(body: &[u8]) -> Option<LineEffect> {
    let rest = body.strip_prefix(br#""ts":""#)?;
    let (ts, rest) = until_quote(rest)?;
    let (kind, rest) = until_quote(rest.strip_prefix(br#","kind":""#)?)?;
    let (id, rest) = number(rest.strip_prefix(br#","id":"#)?)?;
    let rest = rest.strip_prefix(b",")?;
    let operation = if kind == FORGET.as_bytes() {
        let (target, rest) = number(rest.strip_prefix(br#""target":"#)?)?;
        rest.is_empty().then_some(Operation::Forget(target))?
    } else {
        let kind = Kind::ALL.into_iter().find(|one| one.word().as_bytes() == kind)?;
        match rest.strip_prefix(br#""replaces":"#) {
            Some(rest) => {
                let (replaced, rest) = number(rest)?;
                is_later_member(rest.strip_prefix(b",")?)
                    .then_some(Operation::Remember(kind, Some(replaced)))?
            }
            None => is_later_member(rest).then_some(Operation::Remember(kind, None))?,
        }
    };
    Some(LineEffect { id: Some(id), at_ms: clock::parse_bytes_ms(ts), operation })
}

/// Returns true if the text begins with a member that we write behind those that count here.
fn is_later_member(rest: &[u8]) -> bool {
    let names = [&br#""tags":["#[..], br#""idempotency_key":""#, br#""source":{"#, br#""content":""#];
    names.iter().any(|name| rest.starts_with(name))
}

fn until_quote(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', text)?;
    (text[end] == b'"').then(|| (&text[..end], &text[end + 1..]))
}

/// A whole number, and what follows it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let plain = (digits == 1 || text[0] != b'0') && !matches!(text.get(digits), Some(b'.' | b'e' | b'E'));
    plain.then_some((value, &text[digits..]))
}

/// Reads any layout.
fn parse_any_layout(entry: &Entry<'_>) -> LineEffect {
    let no_effect = LineEffect { id: None, at_ms: None, operation: Operation::Other };
    let Some(record) = Record::of(entry) else { return no_effect };
    let whole = |name: &str| record.parse::<u64>(name);
    let at_ms = record.ts().and_then(|ts| match ts.parse::<i64>() {
        // Other programs count seconds, or milliseconds.
        Ok(seconds) if seconds.unsigned_abs() < SECONDS_MAX => Some(seconds.saturating_mul(1000)),
        Ok(milliseconds) => Some(milliseconds),
        Err(_) => clock::parse_ms(&ts).or_else(|| fraction_ms(&ts)),
    });
    let id = whole("id");
    let kind = record.kind();
    let operation = match (kind.as_deref(), id) {
        (Some(FORGET), _) => whole("target").map_or(Operation::Other, Operation::Forget),
        (Some(word), Some(_)) => {
            Kind::of_word(word).map_or(Operation::Other, |kind| Operation::Remember(kind, whole("replaces")))
        }
        _ => Operation::Other,
    };
    LineEffect { id, at_ms, operation }
}

/// Seconds since 1970 with a fraction, as some languages give the time.
fn fraction_ms(ts: &str) -> Option<i64> {
    let ms = ts.parse::<f64>().ok()? * 1000.0;
    // What is no number, or too large for one, is no time.
    (ms.abs() < 1e14).then(|| ms.round() as i64)
}

/// The largest count of seconds since 1970: a larger number counts milliseconds.
const SECONDS_MAX: u64 = 100_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::item::{NewItem, tombstone};

    const TS: &str = "2026-11-16T07:00:00.000Z";

    fn both(line: &[u8]) -> (Option<LineEffect>, LineEffect) {
        let entry = Entry { seq: 1, offset: 0, bytes: line, verified: true };
        (parse_own_layout(frame::body_of(line)), parse_any_layout(&entry))
    }

    #[test]
    fn our_own_lines_are_read_at_a_glance_and_as_a_parser_reads_them() {
        let plain = NewItem::new(Kind::Fact, "a \"quoted\"\nword");
        let tagged = NewItem::new(Kind::Pref, r#"","id":9"#).tag(r#"x","id":7"#).replacing(3);
        for body in [
            plain.body(4, TS, "k"),
            tagged.body(u64::MAX, TS, r#"","id":8"#),
            tombstone(5, 4),
            plain.clone().tag("t").body(1, TS, "k"),
        ] {
            let line = frame::line(1, &body);
            let (quick, thorough) = both(line.trim_ascii_end());
            assert_eq!(quick, Some(thorough), "{}", body.as_str());
            assert_ne!(thorough.operation, Operation::Other);
        }
    }

    #[test]
    fn any_other_line_is_left_to_a_parser() {
        for body in [
            r#""ts":"2026-11-16T00:00:00.000Z","kind":"fact","id":1.0,"content":"x""#,
            r#""ts":"2026-11-16T00:00:00.000Z","kind":"fact","id":01,"content":"x""#,
            r#""ts":"2026-11-16T00:00:00.000Z","kind":"fact","id":1e3,"content":"x""#,
            r#""ts":"2026-11-16T00:00:00.000Z","kind":"fact","id":99999999999999999999999,"content":"x""#,
            r#""ts":"2026-11-16T00:00:00.000Z","kind":"fact","id":1,"new":1,"replaces":2,"content":"x""#,
            r#""ts":"2026-11-16T00:00:00.000Z","kind":"skill","id":1,"content":"x""#,
            r#""ts":"2026-11-16T00:00:00.000Z","kind":"forget","id":1,"target":2,"why":"x""#,
            r#""kind":"fact","ts":"2026-11-16T00:00:00.000Z","id":1,"content":"x""#,
        ] {
            assert_eq!(parse_own_layout(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn another_programs_line_means_the_same() {
        let line = br#"{"id":2,"kind":"pref","content":"x","ts":1763251200}"#;
        let entry = Entry { seq: 1, offset: 0, bytes: line, verified: false };
        let effect = LineEffect::of(&entry);
        assert_eq!(effect.operation, Operation::Remember(Kind::Pref, None));
        assert_eq!((effect.id, effect.at_ms), (Some(2), Some(1_763_251_200_000)));
        let line = br#"{"id":3,"kind":"forget","target":2}"#;
        let entry = Entry { seq: 2, offset: 0, bytes: line, verified: false };
        assert_eq!(LineEffect::of(&entry).operation, Operation::Forget(2));
        let line = br#"{"meta":{"v":1}}"#;
        let entry = Entry { seq: 1, offset: 0, bytes: line, verified: false };
        assert_eq!(LineEffect::of(&entry), LineEffect { id: None, at_ms: None, operation: Operation::Other });
    }
}
