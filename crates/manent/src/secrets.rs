//! Likely credentials in a text: found by their shape, by what they are assigned to, and by where they stand.
//!
//! Sessions are full of them: an agent prints its environment, a user pastes a key. This finds what can be told from
//! ordinary text; it can miss what looks like nothing, so it is no licence to publish. Every pass is linear: what the
//! expressions match is short and fixed, and everything of open length is walked over once.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memmem::Finder;
use regex::Regex;

#[cfg(test)]
mod tests;
mod values;

/// The text that replaces a secret.
pub const REDACTED: &str = "[secret]";

/// Finds likely credentials: byte ranges in order that do not touch each other.
///
/// ```
/// let text = "export DB_PASSWORD=tr0ub4dor&3 # do not tell";
/// let found = manent::secrets(text);
/// assert_eq!(&text[found[0].clone()], "tr0ub4dor&3");
/// ```
pub fn secrets(text: &str) -> Vec<Range<usize>> {
    let Some(mut found) = find_all(text) else {
        // Text that could not be searched is a secret as a whole.
        return std::iter::once(0..text.len()).filter(|all| !all.is_empty()).collect();
    };
    found.sort_unstable_by_key(|range| (range.start, range.end));
    found.dedup_by(|next, kept| {
        let touches = next.start <= kept.end;
        if touches {
            kept.end = kept.end.max(next.end);
        }
        touches
    });
    found
}

/// Finds credentials, in no order. An expression is compiled only when a text holds what it begins with. Returns `None`
/// if one could not be compiled.
fn find_all(text: &str) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    if BEGIN.find(text.as_bytes()).is_some() {
        found.extend(BLOCKS.as_ref()?.find_iter(text).map(|block| block.range()));
    }
    if may_have_shapes(text) {
        find_shapes(text, SHAPES.as_ref()?, &mut found);
    }
    if values::may_have_values(text) {
        values::find_values(text, values::HEADS.as_ref()?, &mut found);
    }
    values::find_addresses(text, &mut found);
    find_logins(text, &mut found);
    Some(found)
}

/// The text with [`REDACTED`] for every likely credential.
///
/// ```
/// assert_eq!(manent::redact("postgres://me:hunter2@db/x"), "postgres://me:[secret]@db/x");
/// ```
pub fn redact(text: &str) -> Cow<'_, str> {
    let found = secrets(text);
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for range in found {
        out.push_str(&text[at..range.start]);
        out.push_str(REDACTED);
        at = range.end;
    }
    out.push_str(&text[at..]);
    Cow::Owned(out)
}

/// Credentials that have a form of their own: how they may begin, and the rest as far as it is of fixed length.
const SHAPED: [(&[&str], &str); 34] = [
    // Model providers.
    (&["sk-"], "[A-Za-z0-9_-]{20}"),
    (&["gsk_", "xai-", "pplx-"], "[A-Za-z0-9]{40}"),
    (&["hf_", "r8_"], "[A-Za-z0-9]{30}"),
    // Homes of code and packages.
    (&["gho_", "ghp_", "ghs_", "ghr_", "ghu_"], "[A-Za-z0-9]{30}"),
    (&["github_pat_"], "[A-Za-z0-9_]{22}"),
    (
        &["glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glimt-", "glagent-"],
        "[A-Za-z0-9_-]{20}",
    ),
    (&["npm_"], "[A-Za-z0-9]{36}"),
    (&["pypi-"], "[A-Za-z0-9_-]{50}"),
    (&["dckr_pat_"], "[A-Za-z0-9_-]{20}"),
    // Clouds.
    (&["AKIA", "ASIA", "ABIA", "ACCA"], "[A-Z0-9]{16}"),
    (&["AIza"], "[A-Za-z0-9_-]{35}"),
    (&["ya29."], "[A-Za-z0-9_-]{20}"),
    (&["GOCSPX-"], "[A-Za-z0-9_-]{20}"),
    (&["doo_v1_", "dop_v1_", "dor_v1_"], "[a-f0-9]{40}"),
    (&["dapi"], "[a-f0-9]{32}"),
    (&["sbp_"], "[a-f0-9]{40}"),
    (&["hvs."], "[A-Za-z0-9_-]{24}"),
    (&["tskey-"], "[a-z]{3,8}-[A-Za-z0-9]{10}"),
    // Chats, mail, payment, and the rest.
    (&["xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"], "[A-Za-z0-9-]{10}"),
    (&["xapp-"], "[0-9]-[A-Za-z0-9-]{10}"),
    (&["hooks.slack.com/"], "[a-z]{5,12}/[A-Za-z0-9/_-]{20}"),
    (&["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"], "[0-9]{10}"),
    (&[":AA"], "[A-Za-z0-9_-]{33}"),
    (&["SG."], r"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16}"),
    (&["rk_live_", "rk_test_", "sk_live_", "sk_test_"], "[A-Za-z0-9]{16}"),
    (&["whsec_"], "[A-Za-z0-9]{24}"),
    (&["shpat_", "shpca_", "shppa_", "shpss_"], "[a-fA-F0-9]{32}"),
    (&["sq0"], "[a-z]{3}-[A-Za-z0-9_-]{22}"),
    (&["ATATT3"], "[A-Za-z0-9_=-]{50}"),
    (&["lin_api_"], "[A-Za-z0-9]{30}"),
    (&["ntn_"], "[A-Za-z0-9]{40}"),
    (&["glsa_", "figd_", "sntrys_", "sntryu_"], "[A-Za-z0-9_-]{30}"),
    (&["AGE-SECRET-KEY-1"], "[0-9A-Z]{50}"),
    (&["eyJ"], "[A-Za-z0-9_-]{8}"),
];

static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shape = |(starts, rest): &(&[&str], &str)| {
        let starts: Vec<String> = starts.iter().map(|start| regex::escape(start)).collect();
        format!("(?:{}){rest}", starts.join("|"))
    };
    Regex::new(&format!("(?-u:{})", SHAPED.iter().map(shape).collect::<Vec<_>>().join("|"))).ok()
});

/// The beginnings of [`SHAPED`]. Most texts hold nothing that looks like a credential, and finding that out this way
/// takes less time than compiling the expressions that would find one.
static SHAPE_STARTS: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(SHAPED.iter().flat_map(|(starts, _)| *starts)).ok());

static BEGIN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("-----BEGIN "));

/// Private keys as files hold them, also with escaped line ends. One whose end is cut off is one all the same.
static BLOCKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let gap = r"(?:[ \t\r\n]|\\[rnt])*";
    let line = r"[A-Za-z0-9+/=]";
    Regex::new(&format!(
        "(?-u:-----BEGIN [A-Z0-9 ]{{0,24}}PRIVATE KEY(?: BLOCK)?-----\
         (?:{gap}[A-Za-z-]{{3,16}}: [ -\\[\\]-~]{{1,80}})*\
         (?:{gap}{line}{{16}}{line}*)*\
         (?:{gap}{line}{{0,76}}{gap}-----END [A-Z0-9 ]{{0,40}}-----)?)"
    ))
    .ok()
});

/// Returns false if no credential with a form of its own can begin in the text.
fn may_have_shapes(text: &str) -> bool {
    SHAPE_STARTS.as_ref().is_none_or(|starts| {
        let mut found = starts.find_overlapping_iter(text).map(|found| found.start());
        found.any(|start| begins_word(text, start) || text[start..].starts_with(':'))
    })
}

fn find_shapes(text: &str, shapes: &Regex, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while let Some(shape) = shapes.find_at(text, at) {
        let start = shape.start();
        if !begins_word(text, start) && !shape.as_str().starts_with(':') {
            at = start + 1;
            continue;
        }
        at = end_of_run(text, &shape);
        let whole = &text[start..at];
        let begins = |with: &[&str]| with.iter().any(|start| whole.starts_with(start));
        let is_secret = if begins(&[":"]) {
            // A token for a bot on Telegram: the digits before the colon belong to it.
            digits_before(text, start) >= 8
        } else if begins(&["eyJ"]) {
            whole.split('.').filter(|part| part.len() >= 8).count() >= 3
        } else if begins(&["AKIA", "ASIA", "ABIA", "ACCA"]) {
            whole.len() == shape.len()
        } else if begins(&["sk-", "gl", "pypi-", "xox", "xapp-"]) {
            // Classes of a page are named with hyphens too, but in lower case and without numbers.
            whole.bytes().skip(4).any(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        } else {
            true
        };
        if is_secret && !is_filler(whole) {
            let digits = if whole.starts_with(':') { digits_before(text, start) } else { 0 };
            found.push(start - digits..at);
            if begins(&["AKIA", "ASIA"]) {
                found.extend(partner_of_key(text, at));
            }
        }
    }
}

/// Returns true if no part of a word stands before `start`. An escaped line end is not part of a word.
fn begins_word(text: &str, start: usize) -> bool {
    let before = &text.as_bytes()[..start];
    match before {
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., last] => !last.is_ascii_alphanumeric() && *last != b'_',
    }
}

/// Returns the end of a credential whose beginning has a shape.
fn end_of_run(text: &str, shape: &regex::Match<'_>) -> usize {
    let bytes = text.as_bytes();
    let begins = |with: &[&str]| with.iter().any(|start| shape.as_str().starts_with(start));
    let (dots, slashes) = (begins(&["eyJ", "ya29", "SG.", "hvs.", "sntry"]), begins(&["hooks", "discord"]));
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let mut end = shape.end();
    while let Some(&byte) = bytes.get(end) {
        let goes_on = bytes.get(end + 1).is_some_and(|next| is_part(*next));
        let inside =
            is_part(byte) || byte == b'=' || (byte == b'.' && dots && goes_on) || (byte == b'/' && slashes);
        if !inside {
            break;
        }
        end += 1;
    }
    end
}

fn digits_before(text: &str, end: usize) -> usize {
    text.as_bytes()[..end].iter().rev().take(12).take_while(|b| b.is_ascii_digit()).count()
}

/// Recognizes fillers that documents show instead of a key: `ghp_xxxxxxxxxxxx`.
fn is_filler(text: &str) -> bool {
    let end = text.len();
    let tail = &text.as_bytes()[end - end.min(12)..];
    tail.iter().all(|b| *b == tail[0])
}

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

/// Finds the passwords in calls such as `curl -u user:password`.
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
/// The number of bytes of a command that are searched.
const LINE_BYTES: usize = 512;
