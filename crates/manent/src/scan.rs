//! A flat scanner over the members of a record: finds the envelope without touching the text.
//!
//! It reads the layout that we write, with `ts` and `role` first and `content` last, and says `None` to anything that
//! is not exactly so, whereupon the caller asks `serde_json`. It may be wrong about nothing: what it accepts, a JSON
//! parser would read the same way. No value is descended into.

use std::borrow::Cow;
use std::ops::Range;

/// The byte ranges of the members that every reader wants, within a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The time, without its quotes.
    pub(crate) ts: Option<Range<usize>>,
    /// The role.
    pub(crate) role: Option<Range<usize>>,
    /// The kind.
    pub(crate) kind: Option<Range<usize>>,
    /// All members between the envelope and the content, as they stand.
    pub(crate) extra: Range<usize>,
    /// The text, still escaped, without its quotes; `None` if it is not the last member.
    pub(crate) content: Option<Range<usize>>,
}

/// Scans a body (the members without braces). Returns `None` if it is not laid out as we write it.
pub(crate) fn envelope(body: &[u8]) -> Option<Envelope> {
    let mut found = Envelope::default();
    let mut at = 0;
    // The short members that come first.
    loop {
        let (name, value) = member_name(body, at)?;
        let slot = match name {
            b"ts" => &mut found.ts,
            b"role" => &mut found.role,
            b"kind" => &mut found.kind,
            _ => break,
        };
        let text = plain_string(body, value)?;
        at = text.end + 1;
        if slot.replace(text).is_some() {
            return None;
        }
        match body.get(at) {
            Some(b',') => at += 1,
            None => {
                found.extra = at..at;
                return Some(found);
            }
            Some(_) => return None,
        }
    }
    let extra_start = at;
    loop {
        let (name, value) = member_name(body, at)?;
        match name {
            b"content" => {
                found.extra = extra_start..at.saturating_sub(1).max(extra_start);
                if body.get(value) != Some(&b'"') || body.len() < value + 2 || body.last() != Some(&b'"') {
                    return None;
                }
                found.content = Some(value + 1..body.len() - 1);
                return Some(found);
            }
            b"ts" | b"role" | b"kind" => return None,
            _ => {}
        }
        at = skip_value(body, value)?;
        match body.get(at) {
            Some(b',') => at += 1,
            None => {
                found.extra = extra_start..at;
                return Some(found);
            }
            Some(_) => return None,
        }
    }
}

/// Decodes escaped text into the front of `out`, and returns the number of bytes it became, or `None` if it is not the
/// inside of one JSON string. `out` must have [`SLACK_BYTES`] more than the text: eight bytes are stored at a time.
pub(crate) fn unescape(text: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut rest, mut len) = (text, 0);
    while let Some(word) = rest.first_chunk::<8>() {
        *out.get_mut(len..)?.first_chunk_mut::<8>()? = *word;
        match first_quote_or_slash(u64::from_le_bytes(*word)) {
            None => {
                rest = &rest[8..];
                len += 8;
            }
            Some(clean) => {
                len += clean;
                rest = unescape_one(&rest[clean..], out, &mut len)?;
            }
        }
    }
    while let [first, tail @ ..] = rest {
        if matches!(first, b'"' | b'\\') {
            rest = unescape_one(rest, out, &mut len)?;
        } else {
            *out.get_mut(len)? = *first;
            len += 1;
            rest = tail;
        }
    }
    Some(len)
}

/// Decodes the escape that the text begins with. A quote ends the string before its time: then the text was not the
/// last member.
fn unescape_one<'a>(text: &'a [u8], out: &mut [u8], len: &mut usize) -> Option<&'a [u8]> {
    let [b'\\', letter, tail @ ..] = text else { return None };
    if *letter == b'u' {
        let (c, used) = unicode_escape(text)?;
        *len += c.encode_utf8(out.get_mut(*len..*len + 4)?).len();
        return Some(&text[used..]);
    }
    *out.get_mut(*len)? = short_escape(*letter)?;
    *len += 1;
    Some(tail)
}

/// Decodes escaped text, into a string of its own if there is anything to decode.
pub(crate) fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    if memchr::memchr2(b'"', b'\\', text.as_bytes()).is_none() {
        return Some(Cow::Borrowed(text));
    }
    let mut out = vec![0; text.len() + SLACK_BYTES];
    let length = unescape(text.as_bytes(), &mut out)?;
    out.truncate(length);
    String::from_utf8(out).ok().map(Cow::Owned)
}

/// Returns the byte that a backslash and this letter stand for.
fn short_escape(letter: u8) -> Option<u8> {
    Some(match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'"' | b'\\' | b'/' => letter,
        b'b' => 8,
        b'f' => 12,
        _ => return None,
    })
}

/// The character that `\uXXXX`, with its second half where it is one of a pair, stands for, and how many bytes it took.
fn unicode_escape(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let hex = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        hex.iter().try_fold(0_u32, |n, b| Some(n << 4 | char::from(*b).to_digit(16)?))
    };
    let first = unit(0)?;
    let (code, used) = match first {
        0xD800..=0xDBFF => match unit(6) {
            Some(second @ 0xDC00..=0xDFFF) => (0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00), 12),
            _ => return None,
        },
        _ => (first, 6),
    };
    Some((char::from_u32(code)?, used))
}

/// Returns the index of the first quote or backslash among the eight bytes of a word.
fn first_quote_or_slash(word: u64) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero_in = |word: u64| word.wrapping_sub(ONES) & !word & HIGH;
    let hit = zero_in(word ^ (ONES * u64::from(b'"'))) | zero_in(word ^ (ONES * u64::from(b'\\')));
    (hit != 0).then_some((hit.trailing_zeros() / 8) as usize)
}

/// The name of the member at `at`, and where its value begins.
fn member_name(body: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let text = plain_string(body, at)?;
    let colon = text.end + 1;
    (body.get(colon) == Some(&b':')).then_some((&body[text], colon + 1))
}

/// The inside of a string without escapes that begins at `at`.
fn plain_string(body: &[u8], at: usize) -> Option<Range<usize>> {
    if body.get(at) != Some(&b'"') {
        return None;
    }
    let start = at + 1;
    let length = memchr::memchr2(b'"', b'\\', &body[start..])?;
    (body[start + length] == b'"').then_some(start..start + length)
}

/// Returns the end of the value that begins at `at`. Strings inside are skipped; depth is counted, not recursed.
fn skip_value(body: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = at;
    loop {
        match body.get(at)? {
            b'"' => at = skip_string(body, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' if depth == 0 => return None,
            _ => at += 1,
        }
        if depth == 0 && matches!(body.get(at), None | Some(b',')) {
            return Some(at);
        }
    }
}

fn skip_string(body: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', body.get(at..)?)?;
        if body[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The room that [`unescape`] needs beyond the length of its text.
pub(crate) const SLACK_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Time, role, extra members and content.
    type Texts<'a> = (Option<&'a str>, Option<&'a str>, &'a str, Option<&'a str>);

    fn texts(body: &str) -> Option<Texts<'_>> {
        let e = envelope(body.as_bytes())?;
        Some((e.ts.map(|r| &body[r]), e.role.map(|r| &body[r]), &body[e.extra], e.content.map(|r| &body[r])))
    }

    #[test]
    fn the_layout_we_write_is_found() {
        let body = r#""ts":"t","role":"user","content":"a\"b""#;
        assert_eq!(texts(body), Some((Some("t"), Some("user"), "", Some(r#"a\"b"#))));
        let body = r#""ts":"t","role":"tool","args":{"content":"no","s":"}]"},"n":-1.5e3,"content":"yes""#;
        let extra = r#""args":{"content":"no","s":"}]"},"n":-1.5e3"#;
        assert_eq!(texts(body), Some((Some("t"), Some("tool"), extra, Some("yes"))));
        let body = r#""ts":"t","kind":"title""#;
        assert_eq!(texts(body), Some((Some("t"), None, "", None)));
        assert_eq!(texts(r#""role":"user","content":"""#), Some((None, Some("user"), "", Some(""))));
    }

    #[test]
    fn anything_else_is_left_to_a_real_parser() {
        for body in [
            r#""role":"a\u0062","content":"x""#,
            r#""role" :"user","content":"x""#,
            r#""role":"user","content":1"#,
            r#""role":"user","content":""#,
            r#""role":"user","x":1,"role":"b""#,
            r#""role":"user","role":"b","content":"x""#,
            "",
            "\"",
        ] {
            assert_eq!(texts(body), None, "{body}");
        }
    }

    #[test]
    fn text_decodes_as_a_json_parser_decodes_it() {
        let cases =
            [r"plain", r#"q\" s\\ n\n t\t b\b f\f r\r \/"#, r"\u00e9\ud83d\ude00 and \u2028", "é raw", ""];
        let long = cases.join(" and a longer text between, without any ");
        for text in cases.into_iter().chain([long.as_str()]) {
            let mut out = vec![0; text.len() + SLACK_BYTES];
            let len = unescape(text.as_bytes(), &mut out).expect(text);
            let want: String = serde_json::from_str(&format!("\"{text}\"")).expect("valid");
            assert_eq!(&out[..len], want.as_bytes());
            assert_eq!(unescaped(text).as_deref(), Some(want.as_str()));
        }
        for text in [r#"a","x":"b"#, r"\ud800", r"\x", r"\u12", "\\", r#"more than eight bytes" and more"#] {
            assert_eq!(unescape(text.as_bytes(), &mut vec![0; text.len() + SLACK_BYTES]), None, "{text}");
            assert_eq!(unescaped(text), None, "{text}");
        }
        assert_eq!(unescape(b"no room for this", &mut [0; 4]), None);
    }
}
