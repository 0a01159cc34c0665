//! The end of what a run printed, without the credentials in it.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use manent::redact;

/// The end of an output, without credentials that no line shows alone: keys over many lines, and what stands in a line
/// whose beginning is not looked at.
pub(super) fn end_of(said: &str) -> Cow<'_, str> {
    let end = tail(said, TAIL_BYTES);
    if end.len() < said.len() && !said[..said.len() - end.len()].ends_with('\n') {
        let more = redact(tail(said, TAIL_BYTES + LOOKED_AT_BYTES));
        return Cow::Owned(tail(&more, TAIL_BYTES).to_owned());
    }
    if PRIVATE_KEY.find(end.as_bytes()).is_none() {
        return Cow::Borrowed(end);
    }
    // A key that began further above ends here.
    let cut = match (end.find("-----END "), end.find("-----BEGIN ")) {
        (Some(at), begin) if begin.is_none_or(|begin| at < begin) => &end[at..],
        _ => end,
    };
    redact(cut)
}

/// A line without colours: they may stand between a name and its value.
pub(super) fn without_escapes(line: &str) -> Cow<'_, str> {
    let Some((before, _)) = line.split_once('\u{1b}') else { return Cow::Borrowed(line) };
    let (mut out, mut rest) = (before.to_owned(), &line[before.len()..]);
    while !rest.is_empty() {
        rest = after_escape(rest);
        let end = rest.find('\u{1b}').unwrap_or(rest.len());
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    Cow::Owned(out)
}

/// The end of a text, from the beginning of a line on where there is one.
pub(super) fn tail(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let cut = &text[text.ceil_char_boundary(text.len() - bytes)..];
    // One line that is longer than that is better than nothing.
    cut.split_once('\n').map_or(cut, |(_, rest)| if rest.trim().is_empty() { cut } else { rest })
}

/// Whether a word is what a password is set to: also one that looks like any word, which nobody could tell elsewhere.
/// Here nothing is lost with it, as it differs from one time to the next.
pub(super) fn is_given_password(before: &str, gap: &str, word: &str) -> bool {
    let is_name = |name: &str| PASSWORDS.iter().any(|end| name.ends_with(end));
    let is_odd = |value: &str| value.chars().skip(1).any(|c| !c.is_lowercase());
    if let Some((name, value)) = word.split_once(':')
        && is_odd(value)
        && is_name(&name.to_ascii_lowercase())
    {
        return true;
    }
    is_name(before)
        && match gap.trim() {
            "=" => gap.len() == 1 || is_odd(word),
            // `password: required` says what is wrong.
            ":" => is_odd(word),
            "" => before.starts_with("--"),
            _ => false,
        }
}

/// What comes behind a colour or another command to a terminal.
pub(super) fn after_escape(text: &str) -> &str {
    let rest = &text[1..];
    let Some(inside) = rest.strip_prefix('[') else { return rest };
    match inside.find(|c: char| ('@'..='~').contains(&c)) {
        Some(end) => &inside[end + 1..],
        None => inside,
    }
}

static PRIVATE_KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"PRIVATE KEY"));
/// How the name of a password ends.
const PASSWORDS: [&str; 7] = ["password", "passwd", "passphrase", "pwd", "_pass", "-pass", "secret"];
pub(super) const TAIL_BYTES: usize = 8 << 10;
/// More of a line, and of what stands before it, than any credential needs to be known.
pub(super) const LOOKED_AT_BYTES: usize = 1 << 10;
