//! Credentials that only what stands beside them tells: the secret of an access key, the login of a request.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// The secret that belongs to an access key of Amazon: forty letters, digits and two signs, soon behind it.
pub(super) fn partner_of_key(text: &str, key_end: usize) -> Option<Range<usize>> {
    let near = &text.as_bytes()[key_end..(key_end + NEAR_BYTES).min(text.len())];
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'+');
    let mut at = 0;
    for run in near.split(|b| !is_part(b)) {
        let has = |kind: fn(&u8) -> bool| run.iter().any(kind);
        let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
        // One that goes on behind what is looked at is longer.
        let is_whole = at + run.len() < near.len() || key_end + near.len() == text.len();
        if run.len() == SECRET_BYTES && is_mixed && is_whole {
            return Some(key_end + at..key_end + at + run.len());
        }
        at += run.len() + 1;
    }
    None
}

/// What `curl -u user:password` tells.
pub(super) fn find_logins(text: &str, found: &mut Vec<Range<usize>>) {
    for call in CALL.find_iter(text.as_bytes()) {
        let line = &text[call..text.floor_char_boundary(call + LINE_BYTES)];
        let line = &line[..line.find('\n').unwrap_or(line.len())];
        for option in [" -u ", " --user ", " --user=", " -U ", " --proxy-user "] {
            let Some(at) = line.find(option) else { continue };
            let rest = &line[at + option.len()..];
            let login = rest.trim_start_matches([' ', '"', '\'', '\\']);
            let start = call + line.len() - login.len();
            let login = &login[..login.find([' ', '"', '\'', '\\', '`', ')']).unwrap_or(login.len())];
            let Some((user, password)) = login.split_once(':') else { continue };
            let is_named = password.starts_with(['$', '{', '<', '%', '*']);
            if password.len() >= 3 && !is_named {
                let start = start + user.len() + 1;
                found.push(start..start + password.len());
            }
        }
    }
}

static CALL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("curl "));
const SECRET_BYTES: usize = 40;
/// So far behind a key its secret may stand.
const NEAR_BYTES: usize = 200;
/// So much of a command is looked at.
const LINE_BYTES: usize = 512;
