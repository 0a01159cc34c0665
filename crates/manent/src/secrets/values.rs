//! Credentials recognized by the text before them: `password=`, `Authorization: Bearer`, `user:…@` in an address.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memmem::Finder;
use regex::Regex;

/// The number of bytes of a value that decide whether it is a credential.
const VALUE_BYTES_LOOKED_AT: usize = 256;

/// Matches a name or scheme before a value, with the separator between them.
pub(super) static HEADS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let names = "password|passwd|passphrase|[_-]pass|pwd|mnemonic|seed[_ -]?phrase|secret|token|credential\
                 |(?:api|access|private|secret|encryption|signing|account|auth|master)[_ -]?key";
    let more = "(?:[_-]?(?:key|base|prod|production|dev|staging|live|test|[0-9]{1,2}))?";
    let set = r#"\\?["'`]?[ \t]*(?::=|=>|==|[=:>])[ \t]*"#;
    let said = r"[ \t]+is:?[ \t]+";
    let schemes = r#"authorization\\?["']?[ \t]*[:=][ \t]*\\?["']?(?:basic|bearer|token)[ \t]+|bearer[ \t]+"#;
    Regex::new(&format!("(?i-u:(?<name>{names}){more}(?<sep>{set}|{said}|[ \\t]+)|(?<scheme>{schemes}))"))
        .ok()
});

/// Parts of the names that stand before a value.
static NAMES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let names = ["pass", "pwd", "mnemonic", "phrase", "secret", "token", "credential", "key"];
    let words = names.into_iter().chain(["authorization", "bearer"]);
    AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok()
});

/// Returns false if [`find_values`] cannot find anything.
pub(super) fn may_have_values(text: &str) -> bool {
    NAMES.as_ref().is_none_or(|names| names.is_match(text))
}

/// The notation of an assigned value, which decides how certain a find is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// In quotes.
    Quoted,
    /// A value without a space on either side of the sign: `PASSWORD=…`.
    Close,
    /// Bare, with spaces: this may be code, where a bare word is a name and no value.
    Loose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Password,
    /// Words in a row.
    Phrase,
    Token,
}

pub(super) fn find_values(text: &str, heads: &Regex, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(head) = heads.captures_at(text, at) {
        let Some(whole) = head.get(0) else { break };
        at = whole.end();
        let value = match (head.name("name"), head.name("sep")) {
            (Some(name), Some(sep)) => assigned(text, name, sep),
            _ => bearer(text, whole.as_str(), whole.end()),
        };
        if let Some(value) = value {
            at = value.end;
            found.push(value);
        }
    }
}

/// The value that a name is given, if it looks like a credential.
fn assigned(text: &str, name: regex::Match<'_>, sep: regex::Match<'_>) -> Option<Range<usize>> {
    let sign = sep.as_str().trim_matches([' ', '\t']);
    // Only the option of a command is parted from its value by a space alone: `--token …`.
    if sign.is_empty() && !is_option(text, name.start()) {
        return None;
    }
    let (start, quote) = opening(text, sep.end());
    let looked_at = start..start + length(&text[start..], quote, VALUE_BYTES_LOOKED_AT);
    let written = match sep.as_str() {
        _ if quote.is_some() => Written::Quoted,
        sep if sign.is_empty() || !sep.contains([' ', '\t']) => Written::Close,
        _ => Written::Loose,
    };
    let lower = name.as_str().to_ascii_lowercase();
    let named = match &*lower {
        "passphrase" | "mnemonic" => Named::Phrase,
        seed if seed.starts_with("seed") => Named::Phrase,
        pass if pass.contains("pass") || pass == "pwd" => Named::Password,
        _ => Named::Token,
    };
    let next = text.as_bytes().get(looked_at.end).copied();
    if is_call(written, next) || !is_credential(&text[looked_at], named, written) {
        return None;
    }
    Some(start..start + length(&text[start..], quote, usize::MAX))
}

/// Returns true if a name ends the name of an option: hyphens stand close before it.
fn is_option(text: &str, name_start: usize) -> bool {
    let before = &text.as_bytes()[name_start.saturating_sub(32)..name_start];
    let word = before.iter().rev().take_while(|b| b.is_ascii_alphanumeric() || **b == b'-').count();
    before[before.len() - word..].starts_with(b"--")
}

/// A bare word before a bracket is code: `password = ask(…)`.
fn is_call(written: Written, next: Option<u8>) -> bool {
    written != Written::Quoted && matches!(next, Some(b'(' | b'[' | b'{'))
}

/// Returns the start of a value, and the quote that will end it.
fn opening(text: &str, at: usize) -> (usize, Option<&'static str>) {
    let quotes = ["\\\"", "\\'", "\"\"\"", "\"", "'", "`"];
    let quote = quotes.into_iter().find(|quote| text[at..].starts_with(quote));
    (at + quote.map_or(0, str::len), quote)
}

/// The length of the value at the beginning of a text, as far as one looks.
fn length(text: &str, quote: Option<&str>, bytes_max: usize) -> usize {
    let near = &text[..text.floor_char_boundary(bytes_max)];
    let Some(quote) = quote else {
        let ends = |(at, c): (usize, char)| match c {
            ',' | ';' | '&' => is_next_pair(&near[at + 1..]),
            c => c.is_whitespace() || c.is_control() || "\"'`\\<>(){}[]|".contains(c),
        };
        let end = near.char_indices().find(|at| ends(*at)).map_or(near.len(), |(at, _)| at);
        return near[..end].trim_end_matches(['.', ':', '!', '?']).len();
    };
    let mut escaped = false;
    let close = near.char_indices().find(|&(at, c)| {
        let ends = c == '\n' || (!escaped && near[at..].starts_with(quote));
        escaped = c == '\\' && !escaped && quote.len() == 1;
        ends
    });
    close.map_or(near.len(), |(at, _)| at)
}

/// Returns true if a comma or the like ends a value, because nothing or the next pair follows; otherwise it is part of
/// the value.
fn is_next_pair(rest: &str) -> bool {
    let name = rest.bytes().take(32).take_while(|b| b.is_ascii_alphanumeric() || b"_.-".contains(b)).count();
    let next = rest[name..].chars().next();
    if name == 0 {
        next.is_none_or(|c| !c.is_ascii_graphic() || "\"'`\\".contains(c))
    } else {
        matches!(next, Some('=' | ':'))
    }
}

fn is_credential(value: &str, named: Named, written: Written) -> bool {
    // `token::Kind` is a path in code.
    if is_placeholder(value) || value.starts_with(':') {
        return false;
    }
    let count = |is: fn(&u8) -> bool| value.as_bytes().iter().filter(|b| is(b)).count();
    let digits = count(u8::is_ascii_digit);
    let letters = count(|b| b.is_ascii_alphabetic() || !b.is_ascii());
    let signs = count(|b| b.is_ascii_punctuation() && !b"_-./:".contains(b));
    let mixed = digits > 0 && letters > 0;
    if value.contains(char::is_whitespace) {
        return named == Named::Phrase && written == Written::Quoted && value.len() >= 12;
    }
    match (named, written) {
        (_, Written::Loose) if is_code(value, signs) => false,
        (Named::Token, Written::Loose) => {
            value.len() >= 16 && digits >= 2 && letters > 0 && !value.contains('_')
        }
        (Named::Token, _) => value.len() >= 8 && mixed,
        (Named::Password | Named::Phrase, _) => {
            let is_number = digits == value.len();
            let long =
                value.len() >= 20 && written != Written::Loose && !value.contains(['_', '.', '/', ':']);
            (value.len() >= 6 && (mixed || is_number))
                || (value.len() >= 8 && signs > 0 && letters > 0)
                || long
        }
    }
}

/// `config.db1.password`, `super::Token2`, `WIN32_ERROR`: the name of something.
fn is_code(value: &str, signs: usize) -> bool {
    let constant = value.contains('_') && !value.contains(|c: char| c.is_ascii_lowercase());
    constant || value.contains("::") || (value.contains('.') && signs == 0 && value.len() < 32)
}

/// Recognizes placeholders that stand in documents and code instead of a value.
fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let named = value.strip_prefix(['$', '%']).unwrap_or_default();
    let is_variable =
        |name: &str| name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"_%".contains(&b));
    let signs = ["${", "$(", "{{", "<", "...", "…", "***", "xxxx", "%s", "%(", "{}", "://"];
    let words = [
        "process.env",
        "environ",
        "getenv",
        "env.",
        "your",
        "example",
        "placeholder",
        "redacted",
        "[secret]",
    ];
    value.is_empty()
        || (!named.is_empty() && is_variable(named))
        || signs.iter().any(|sign| lower.contains(sign))
        || words.iter().any(|word| lower.contains(word))
}

/// Finds the credential behind the scheme of an `Authorization` header.
fn bearer(text: &str, head: &str, start: usize) -> Option<Range<usize>> {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"._~+/=-".contains(b);
    let length = text.as_bytes()[start..].iter().take_while(|b| is_part(b)).count();
    let value = text[start..start + length].trim_end_matches('.');
    let in_header = head.len() > "bearer".len() + 8;
    let long = if in_header { 8 } else { 16 };
    let has_digit = value.bytes().any(|b| b.is_ascii_digit());
    let is_one = value.len() >= long && (in_header || has_digit) && !is_placeholder(value);
    is_one.then_some(start..start + value.len())
}

static SIGN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("://"));

/// Passwords in addresses: `scheme://user:password@host`.
pub(super) fn find_addresses(text: &str, found: &mut Vec<Range<usize>>) {
    let ends = |c: char| c.is_whitespace() || c.is_control() || "/\"'`<>\\?#".contains(c);
    for sign in SIGN.find_iter(text.as_bytes()) {
        let start = sign + 3;
        let near = &text[start..text.floor_char_boundary(start + VALUE_BYTES_LOOKED_AT)];
        let authority = &near[..near.find(ends).unwrap_or(near.len())];
        let Some((login, _)) = authority.rsplit_once('@') else { continue };
        let Some((user, password)) = login.split_once(':') else { continue };
        let placeholder =
            password.starts_with(['$', '{', '<', '%']) && !password.contains(|c: char| c.is_ascii_digit());
        if password.len() >= 3 && !placeholder && password.bytes().any(|b| b != b'*' && b != b'x') {
            let start = start + user.len() + 1;
            found.push(start..start + password.len());
        }
    }
}
