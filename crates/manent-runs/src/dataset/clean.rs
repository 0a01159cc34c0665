//! Removes from texts what must not be in a data set: credentials, and names in the paths of home directories.
//!
//! Texts are cleaned as they were said, then once more as the JSON that is written: what only shows there is found
//! too. A credential that was found once in a row is taken out wherever else it stands in it, without anything around
//! it that would tell.

use std::borrow::Cow;
use std::sync::LazyLock;

use manent::{REDACTED, redact, secrets};
use memchr::memmem::Finder;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::SkipReason;

/// Cleans the texts of one row.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// The credentials that were taken out.
    pub(super) secrets: u64,
    /// The names in paths that were taken out.
    pub(super) homes: u64,
    /// True if there are values of JSON among the texts, or names beside them.
    has_values: bool,
    /// Credentials that are long enough to be looked for elsewhere.
    known: Vec<String>,
}

impl Cleaner {
    /// A text without credentials and names.
    pub(super) fn text<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        let found = secrets(text);
        let clean = if found.is_empty() {
            Cow::Borrowed(text)
        } else {
            let (mut out, mut at) = (String::with_capacity(text.len()), 0);
            for range in found {
                let secret = &text[range.clone()];
                if secret.contains(REDACTED) {
                    continue;
                }
                self.secrets += 1;
                self.learn(secret);
                out.push_str(&text[at..range.start]);
                out.push_str(REDACTED);
                at = range.end;
            }
            out.push_str(&text[at..]);
            Cow::Owned(out)
        };
        match without_names(&clean) {
            Some((nameless, homes)) => {
                self.homes += homes;
                Cow::Owned(nameless)
            }
            None => clean,
        }
    }

    fn learn(&mut self, secret: &str) {
        if secret.len() >= KNOWN_BYTES_MIN && !self.known.iter().any(|known| known == secret) {
            self.known.push(secret.to_owned());
        }
    }

    /// A value of JSON, every text in it cleaned together with the name that it is given to.
    pub(super) fn value(&mut self, value: &mut Value) {
        self.has_values = true;
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.text(text) {
                    *text = clean;
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|one| self.value(one)),
            Value::Object(members) => {
                let old = std::mem::take(members);
                for (name, mut one) in old {
                    self.value(&mut one);
                    if let Value::String(text) = &mut one {
                        self.given_to(&name, text);
                    }
                    members.insert(self.text(&name).into_owned(), one);
                }
            }
            _ => {}
        }
    }

    /// Adds everything that another cleaner took out of texts of this row, to look for it here.
    pub(super) fn absorb(&mut self, other: &Cleaner) {
        self.secrets += other.secrets;
        self.homes += other.homes;
        self.has_values |= other.has_values;
        for secret in &other.known {
            self.learn(secret);
        }
    }

    /// `hunter2` tells nothing, `"password":"hunter2"` does.
    fn given_to(&mut self, name: &str, text: &mut String) {
        let written = format!("{name}={text}");
        let from = name.len() + 1;
        let hit = secrets(&written).into_iter().find(|range| range.end > from);
        let is_new = hit.is_some_and(|range| !written[range].contains(REDACTED));
        if is_new && !text.is_empty() {
            self.secrets += 1;
            self.learn(text);
            REDACTED.clone_into(text);
        }
    }

    /// Returns true if a credential is known that may stand in texts that were cleaned before it was found.
    pub(super) fn knows_any(&self) -> bool {
        !self.known.is_empty()
    }

    /// The members of a row as they are written, without what was found elsewhere in it and what shows only here.
    /// An error: it could not be taken out without breaking the JSON.
    pub(super) fn json(&mut self, json: String) -> Result<String, SkipReason> {
        let mut clean = json;
        // Texts alone were looked at as they were said, and nothing shows here that did not there.
        if self.secrets == 0 && !self.has_values {
            return Ok(clean);
        }
        for known in &self.known {
            let written = serde_json::to_string(known).unwrap_or_default();
            let inside = written.get(1..written.len().saturating_sub(1)).unwrap_or_default();
            for form in [known.as_str(), inside] {
                if !form.is_empty() && memchr::memmem::find(clean.as_bytes(), form.as_bytes()).is_some() {
                    self.secrets +=
                        memchr::memmem::find_iter(clean.as_bytes(), form.as_bytes()).count() as u64;
                    clean = clean.replace(form, REDACTED);
                }
            }
        }
        let left = secrets(&clean);
        let left: Vec<_> =
            left.into_iter().filter(|range| !clean[range.clone()].contains(REDACTED)).collect();
        for range in left.iter().rev() {
            clean.replace_range(range.clone(), REDACTED);
            self.secrets += 1;
        }
        let touched = self.knows_any() || !left.is_empty();
        if touched && serde_json::from_str::<IgnoredAny>(&format!("[{clean}]")).is_err() {
            return Err(SkipReason::Unsafe);
        }
        Ok(clean)
    }
}

/// A text that goes into the manifest or the card.
pub(super) fn label(text: &str) -> String {
    let clean = redact(text);
    without_names(&clean).map_or_else(|| clean.into_owned(), |(nameless, _)| nameless)
}

/// Replaces the names in `/home/…`, `/Users/…` and `\Users\…` by `user`. Returns `None` if there are none.
fn without_names(text: &str) -> Option<(String, u64)> {
    let bytes = text.as_bytes();
    let homes = HOME.find_iter(bytes).map(|start| (start, start + HOME.needle().len()));
    let mut places: Vec<(usize, usize)> = homes.chain(users(bytes)).collect();
    places.sort_unstable();
    let (mut out, mut at, mut homes) = (String::new(), 0, 0);
    for (start, name_from) in places {
        let before = bytes[..start].last().copied().unwrap_or(b' ');
        let is_inside = before.is_ascii_alphanumeric() || matches!(before, b'_' | b'-' | b'.');
        let length = bytes[name_from..].iter().take_while(|b| is_of_name(**b)).count();
        let name = &text[name_from..name_from + length];
        // `C:\Users\…` has its drive before it.
        if (is_inside && bytes[start] == b'/') || name_from < at || length == 0 || name == SOMEBODY {
            continue;
        }
        out.push_str(&text[at..name_from]);
        out.push_str(SOMEBODY);
        at = name_from + length;
        homes += 1;
    }
    (homes > 0).then(|| {
        out.push_str(&text[at..]);
        (out, homes)
    })
}

/// Finds `Users` between slashes, and the beginning of the name: `/Users/x`, `\Users\x`, `\\Users\\x` in JSON.
fn users(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> + '_ {
    USERS.find_iter(bytes).filter_map(|at| {
        let start = at.checked_sub(1)?;
        let slash = bytes[start];
        let after = &bytes[at + "Users".len()..];
        let slashes = after.iter().take_while(|b| **b == slash).count();
        let is_place = matches!(slash, b'/' | b'\\') && (1..=2).contains(&slashes);
        is_place.then_some((start, at + "Users".len() + slashes))
    })
}

/// Letters beyond ASCII belong to names, too.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'@' | b'+') || byte >= 0x80
}

static HOME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("/home/"));
static USERS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("Users"));
/// The length from which a known credential is replaced: shorter ones may be ordinary words.
const KNOWN_BYTES_MIN: usize = 8;
/// The name that replaces every other one.
const SOMEBODY: &str = "user";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_paths_go_and_paths_stay() {
        let mut cleaner = Cleaner::default();
        let clean = |text: &str, cleaner: &mut Cleaner| cleaner.text(text).into_owned();
        assert_eq!(clean("cat /home/alice/x.rs", &mut cleaner), "cat /home/user/x.rs");
        assert_eq!(clean("/Users/Bob.M/a and /home/é", &mut cleaner), "/Users/user/a and /home/user");
        assert_eq!(clean(r"C:\Users\carol\x", &mut cleaner), r"C:\Users\user\x");
        assert_eq!(clean(r"C:\\Users\\carol\\x", &mut cleaner), r"C:\\Users\\user\\x");
        assert_eq!(cleaner.homes, 5);
        for same in ["src/home/index.ts", "https://example.com/home/feed", "/home/user/x", "/home/", "Users"]
        {
            assert_eq!(clean(same, &mut cleaner), same);
        }
    }

    #[test]
    fn a_value_is_cleaned_with_the_name_it_is_given_to() {
        let mut cleaner = Cleaner::default();
        let mut value =
            serde_json::json!({"db_password": "tr0ub4dor&3", "deep": [{"api_key": "q8ZbX0aa71"}], "n": 1});
        cleaner.value(&mut value);
        let text = value.to_string();
        assert!(!text.contains("tr0ub4dor") && !text.contains("q8ZbX0aa71"), "{text}");
        assert_eq!(cleaner.secrets, 2);
        let json = cleaner.json(r#"{"content":"again tr0ub4dor&3"}"#.to_owned()).unwrap();
        assert_eq!(json, r#"{"content":"again [secret]"}"#, "what was found once is found everywhere");
    }
}
