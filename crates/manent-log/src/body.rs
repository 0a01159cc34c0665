//! The members of a record before it has a number: JSON that is valid by construction.
//!
//! A [`Body`] can only be built through this file, and it keeps three things true, so that the append path need not
//! check them again: it is one line (no control byte), it has no member `seq` or `crc`, and no bytes inside it can
//! be taken for the end of a record. `content` belongs last: a reader then finds everything else without touching
//! the text.

use serde_json::value::RawValue;

use crate::error::{BodyError, Error};
use crate::frame::{self, RECORD_BYTES_MAX};
use crate::members;

/// The longest idempotency key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
const KEY_MEMBER: &str = "idempotency_key";

/// Members of a record, in the order in which they will stand in the file.
///
/// ```
/// use manent_log::Body;
/// let mut body = Body::new();
/// body.string("role", "user").string("content", "a \"quoted\"\nword");
/// assert_eq!(body.as_str(), r#""role":"user","content":"a \"quoted\"\nword""#);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    bytes: Vec<u8>,
    key: Option<Box<str>>,
}

impl Body {
    /// A body without members.
    pub fn new() -> Body {
        Body::default()
    }

    /// Empties the body and keeps its memory, for the next record.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.key = None;
    }

    /// Adds the member `idempotency_key`, by which a log knows the record again: an append of a body with the same key
    /// gives the receipt of the first one ([`Log::append`](crate::Log::append)). Once for each body, of 1 to
    /// [`KEY_BYTES_MAX`] bytes.
    pub fn idempotent(&mut self, key: &str) -> &mut Body {
        self.key = Some(key.into());
        self.string(KEY_MEMBER, key)
    }

    /// Takes the member `idempotency_key`, where there is one and it is a string, for the key of [`Body::idempotent`].
    #[must_use]
    pub fn keyed_by_member(mut self) -> Body {
        self.key = idempotency_key(format!("{{{}}}", self.as_str()).as_bytes()).map(String::into_boxed_str);
        self
    }

    /// The key by which a log knows the record again.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Adds a string. The names `seq` and `crc` belong to the engine and are ignored.
    pub fn string(&mut self, name: &str, value: &str) -> &mut Body {
        if self.name(name) {
            push_string(&mut self.bytes, value);
        }
        self
    }

    /// Adds a whole number.
    pub fn number(&mut self, name: &str, value: u64) -> &mut Body {
        if self.name(name) {
            self.bytes.extend_from_slice(value.to_string().as_bytes());
        }
        self
    }

    /// Adds an object made of other members.
    pub fn object(&mut self, name: &str, members: &Body) -> &mut Body {
        if self.name(name) {
            self.bytes.push(b'{');
            push_json(&mut self.bytes, members.as_str());
            self.bytes.push(b'}');
        }
        self
    }

    /// Adds a value that is JSON already. Its bytes are kept, but for line breaks between its tokens, which become
    /// blanks, and an object inside it that ends as a record ends, which gets a blank before its brace.
    pub fn json(&mut self, name: &str, value: &RawValue) -> &mut Body {
        if self.name(name) {
            push_json(&mut self.bytes, value.get());
        }
        self
    }

    /// Adds all members of another body behind those that are here. They must have other names.
    pub fn members(&mut self, other: &Body) -> &mut Body {
        if !self.bytes.is_empty() && !other.bytes.is_empty() {
            self.bytes.push(b',');
        }
        self.bytes.extend_from_slice(&other.bytes);
        self.key = self.key.take().or_else(|| other.key.clone());
        self
    }

    /// Refuses a body whose record would be too long for a log, or whose key is empty or too long. Checked before any
    /// byte is written.
    pub fn check_size(&self) -> Result<(), Error> {
        if let Some(bytes) = self.key().map(str::len).filter(|bytes| !(1..=KEY_BYTES_MAX).contains(bytes)) {
            return Err(BodyError::Key { bytes, max: KEY_BYTES_MAX }.into());
        }
        let bytes = frame::encoded_len_max(self.as_bytes());
        if bytes > RECORD_BYTES_MAX {
            return Err(Error::TooLarge { bytes: bytes as u64, max: RECORD_BYTES_MAX as u64 });
        }
        Ok(())
    }

    /// Takes a whole JSON object apart into a body.
    ///
    /// `seq` and `crc` are dropped, `ts`, `role` and `kind` come first and `content` last; everything else keeps its
    /// order and bytes. Refused: what is not an object, two members of one name, and a string with half a surrogate
    /// pair, which other readers would refuse or replace.
    pub fn parse(object: &[u8]) -> Result<Body, BodyError> {
        let text = std::str::from_utf8(object).map_err(|e| BodyError::NotUtf8 { offset: e.valid_up_to() })?;
        let text = text.trim();
        let Some(mut members) = members::list(text) else {
            let error = serde_json::from_str::<&RawValue>(text).err();
            return Err(BodyError::NotAnObject {
                why: error.map_or_else(|| "another JSON value".to_owned(), |e| e.to_string()),
            });
        };
        if let Some(name) = first_duplicate(&members) {
            return Err(BodyError::DuplicateMember { name });
        }
        if lone_surrogate(text.as_bytes(), 0).is_some() {
            return Err(BodyError::LoneSurrogate);
        }
        members.sort_by_key(|(name, _)| match name.as_ref() {
            "ts" => 0,
            "role" | "kind" => 1,
            "content" => 3,
            _ => 2,
        });
        let mut body = Body::new();
        for (name, value) in &members {
            if body.name(name) {
                push_json(&mut body.bytes, value);
            }
        }
        Ok(body)
    }

    /// The members as they will stand in the file, without braces.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The members as text.
    pub fn as_str(&self) -> &str {
        // Built from `str` only, so this cannot fail; an empty body is the harmless answer if it ever did.
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    fn name(&mut self, name: &str) -> bool {
        let reserved = matches!(name, "seq" | "crc");
        if !reserved {
            if !self.bytes.is_empty() {
                self.bytes.push(b',');
            }
            push_string(&mut self.bytes, name);
            self.bytes.push(b':');
        }
        !reserved
    }
}

/// Returns the idempotency key of the record in a line.
pub fn idempotency_key(line: &[u8]) -> Option<String> {
    // Most records have none, and a writer of ours does not escape the name. Inside a string its quotes are escaped.
    memchr::memmem::find(line, b"\"idempotency_key\"")?;
    let members = members::list(std::str::from_utf8(line).ok()?)?;
    let (_, json) = members.iter().rfind(|(name, _)| name == KEY_MEMBER)?;
    serde_json::from_str(json).ok()
}

/// Returns true if a body without a key may have a member of that name all the same.
pub(crate) fn may_hide_a_key(body: &Body) -> bool {
    body.key.is_none() && memchr::memmem::find(body.as_bytes(), KEY_MEMBER.as_bytes()).is_some()
}

fn first_duplicate(members: &[(std::borrow::Cow<'_, str>, &str)]) -> Option<String> {
    let mut seen = std::collections::HashSet::with_capacity(members.len());
    members.iter().find(|(name, _)| !seen.insert(name.as_ref())).map(|(name, _)| name.to_string())
}

/// Copies a JSON value on one line and defuses ends of records inside it.
fn push_json(out: &mut Vec<u8>, value: &str) {
    let bytes = value.as_bytes();
    // Valid JSON has control bytes only between tokens, where a blank means the same.
    let on_one_line = |part: &[u8], out: &mut Vec<u8>| out.extend(part.iter().map(|b| (*b).max(b' ')));
    let mut done = 0;
    for at in memchr::memmem::find_iter(bytes, b"\"crc\":\"") {
        let brace = at + 16;
        if bytes.get(brace - 1..=brace) == Some(b"\"}") {
            on_one_line(&bytes[done..brace], out);
            out.push(b' ');
            done = brace;
        }
    }
    on_one_line(&bytes[done..], out);
}

/// Writes a JSON string. Eight bytes are copied at a time, and those behind the first that needs an escape taken back:
/// stores of a fixed size are several times faster than copies of a few bytes each.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len() + rest.len() / 8 + 32);
    out.push(b'"');
    while let Some(word) = rest.first_chunk::<8>() {
        out.extend_from_slice(word);
        match first_to_escape(u64::from_le_bytes(*word)) {
            None => rest = &rest[8..],
            Some(clean) => {
                out.truncate(out.len() - 8 + clean);
                push_escape(out, word[clean]);
                rest = &rest[clean + 1..];
            }
        }
    }
    for byte in rest {
        if *byte < 0x20 || *byte == b'"' || *byte == b'\\' {
            push_escape(out, *byte);
        } else {
            out.push(*byte);
        }
    }
    out.push(b'"');
}

fn push_escape(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

/// Returns the index of the first of the eight bytes of a word that needs an escape in a JSON string.
fn first_to_escape(word: u64) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    // The classic test for a byte below n in a word; a false alarm can only stand above a true one, and the lowest
    // one set is the first byte in memory, so the position is exact.
    let below = |word: u64, n: u64| word.wrapping_sub(ONES * n) & !word & HIGH;
    let quote = below(word ^ (ONES * u64::from(b'"')), 1);
    let slash = below(word ^ (ONES * u64::from(b'\\')), 1);
    let hit = below(word, 0x20) | quote | slash;
    (hit != 0).then_some((hit.trailing_zeros() / 8) as usize)
}

/// JSON with every half of a surrogate pair replaced by `\ufffd`, as long as it was.
///
/// Programs that keep bytes which are no text in strings write such halves.
pub fn without_lone_surrogates(json: &str) -> std::borrow::Cow<'_, str> {
    let Some(mut at) = lone_surrogate(json.as_bytes(), 0) else { return json.into() };
    let mut mended = json.to_owned();
    loop {
        mended.replace_range(at..at + 6, "\\ufffd");
        match lone_surrogate(mended.as_bytes(), at + 6) {
            Some(next) => at = next,
            None => return mended.into(),
        }
    }
}

/// Looks for `\uD800`..`\uDFFF` that is not part of a pair. The text is JSON already, and no escape begins before
/// `at` and ends behind it.
fn lone_surrogate(json: &[u8], mut at: usize) -> Option<usize> {
    while let Some(step) = json.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += step;
        match unit_at(json, at) {
            Some(0xD800..=0xDBFF) if matches!(unit_at(json, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    None
}

/// The UTF-16 unit that an escape `\uXXXX` at this place stands for.
fn unit_at(json: &[u8], at: usize) -> Option<u16> {
    let hex = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_escape_exactly_as_a_json_reader_expects() {
        let mut every: String = (0..0x80_u8).map(char::from).collect();
        every.push_str("é\u{2028}\u{10FFFF} plain text of some length \"\\ and more after it");
        for start in 0..40 {
            let text: String = every.chars().skip(start).collect();
            let mut out = Vec::new();
            push_string(&mut out, &text);
            assert_eq!(serde_json::from_slice::<String>(&out).expect("valid"), text);
            assert!(out.iter().all(|b| *b >= 0x20));
        }
    }

    #[test]
    fn an_object_is_put_in_order_and_keeps_the_bytes_of_its_values() {
        let given = r#" {"content":"x","seq":9,"n":1e400,"role":"user","z":[ 1,
            2],"ts":"t","crc":"no"} "#;
        let body = Body::parse(given.as_bytes()).expect("an object");
        assert_eq!(
            body.as_str(),
            r#""ts":"t","role":"user","n":1e400,"z":[ 1,             2],"content":"x""#
        );
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_nothing_else() {
        let given = r#"["\ud800","\udc00\ud83d\ude00\ud801","\\ud800","é\udfff"]"#;
        let wanted = r#"["\ufffd","\ufffd\ud83d\ude00\ufffd","\\ud800","é\ufffd"]"#;
        assert_eq!(without_lone_surrogates(given), wanted);
        assert!(matches!(without_lone_surrogates(wanted), std::borrow::Cow::Borrowed(_)));
        for broken in ["\\", "\\u", "\\ud80", "\\ud8é0", "\\ud800\\"] {
            assert_eq!(without_lone_surrogates(broken).len(), broken.len());
        }
    }

    #[test]
    fn members_of_two_bodies_come_together() {
        let (mut one, mut other) = (Body::new(), Body::new());
        other.number("b", 2);
        one.members(&other).members(&Body::new());
        assert_eq!(one.as_str(), r#""b":2"#);
        one.members(Body::new().string("c", ""));
        assert_eq!(one.as_str(), r#""b":2,"c":"""#);
    }

    #[test]
    fn a_record_inside_a_record_cannot_be_taken_for_its_end() {
        let inner = r#"{"seq":1,"a":1,"crc":"00000000"}"#;
        let body = Body::parse(format!(r#"{{"kind":"x","v":{inner},"w":[{inner}]}}"#).as_bytes())
            .expect("an object");
        assert!(!body.as_str().contains(r#""crc":"00000000"}"#));
        assert!(body.as_str().contains(r#""crc":"00000000" }"#));
    }

    #[test]
    fn what_other_readers_would_change_is_refused() {
        let refused = |json: &str| Body::parse(json.as_bytes()).expect_err(json);
        assert!(matches!(refused(r#"{"a":1,"a":2}"#), BodyError::DuplicateMember { .. }));
        assert!(matches!(refused(r#"{"a":1,"\u0061":2}"#), BodyError::DuplicateMember { .. }));
        assert!(matches!(refused(r#"{"a":"\ud800"}"#), BodyError::LoneSurrogate));
        assert!(matches!(refused(r#"{"a":"\udc00\ud800"}"#), BodyError::LoneSurrogate));
        assert!(matches!(refused(r#"{"a":NaN}"#), BodyError::NotAnObject { .. }));
        assert!(matches!(refused("[1]"), BodyError::NotAnObject { .. }));
        assert!(Body::parse(br#"{"a":"\ud83d\ude00 \\ud800"}"#).is_ok(), "a pair, and an escaped backslash");
        assert!(matches!(Body::parse(b"{\"a\":\"\xff\"}"), Err(BodyError::NotUtf8 { offset: 6 })));
    }
}
