//! The directories and file names of a store.
//!
//! ```text
//! sessions/<stem>.jsonl              live; the stem is made of the key, or another program's own name for it
//! runs/<stem>.jsonl                  runs of the session of that key
//! memory.jsonl, inbox.jsonl, consolidation.jsonl, trusted.jsonl, approvals.jsonl     spaces of one stream; ledgers
//! sessions/<stem>.jsonl.archived     archived by another program, which renames; it has no id
//! archive/<stem>.<id>.jsonl.zst      archived, packed
//! archive/<stem>.<id>.jsonl          archived, not packed yet; where both are there, this one counts
//! trash/<stem>.<id>.jsonl            deleted when it was live
//! trash/<stem>.<id>.jsonl.zst        deleted when it was archived; .jsonl.archived: by another program
//! <dir>/<id>.torn-<offset>-<n>       torn bytes that were set aside of a session that is in archive or trash now
//! <dir>/.<id>.<random>.tmp           being written; locked by its writer for as long as that lives
//! <dir>/.new-<n>.tmp                 the same, by `AtomicFile::create_locked`
//! ```
//!
//! The stem of a live file goes along through archive and trash, so that a file comes back under the name under which
//! the program that wrote it looks for it.

use std::path::{Path, PathBuf};

use crate::key::SessionKey;
use crate::streams::{Place, Space};

/// The directories of a store.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) home: PathBuf,
    pub(super) sessions: PathBuf,
    pub(super) archive: PathBuf,
    pub(super) trash: PathBuf,
    pub(super) runs: PathBuf,
}

/// In what form a file lies, which its name ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileForm {
    /// The form of a live file: plain lines.
    Plain,
    /// Compressed by us.
    Packed,
    /// Archived by another program, by renaming.
    Marked,
}

impl FileForm {
    pub(super) const ALL: [FileForm; 3] = [FileForm::Plain, FileForm::Packed, FileForm::Marked];

    pub(super) fn suffix(self) -> &'static str {
        match self {
            FileForm::Plain => ".jsonl",
            FileForm::Packed => ".jsonl.zst",
            FileForm::Marked => ".jsonl.archived",
        }
    }
}

/// A file in archive or trash, by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredName {
    pub(super) stem: String,
    pub(super) id: String,
    pub(super) form: FileForm,
}

impl Layout {
    pub(super) fn new(home: PathBuf, flat: bool) -> Layout {
        let sessions = if flat { home.clone() } else { home.join("sessions") };
        let (archive, trash, runs) = (home.join("archive"), home.join("trash"), home.join("runs"));
        Layout { home, sessions, archive, trash, runs }
    }

    /// Returns the directory of the streams of a space in a place.
    pub(super) fn dir(&self, space: Space, place: Place) -> &Path {
        match (space, place) {
            (Space::Sessions, Place::Live) => &self.sessions,
            (Space::Sessions, Place::Archive) => &self.archive,
            (Space::Sessions, Place::Trash) => &self.trash,
            (Space::Runs, _) => &self.runs,
            (Space::Memory | Space::Inbox | Space::Journal | Space::Ledger, _) => &self.home,
        }
    }

    /// Returns whether the home is a directory of another program, which holds sessions and nothing else.
    pub(super) fn is_flat(&self) -> bool {
        self.sessions == self.home
    }
}

impl StoredName {
    pub(super) fn name(&self) -> String {
        format!("{}.{}{}", self.stem, self.id, self.form.suffix())
    }

    /// Parses a name in archive or trash; `None` if it is not one of ours.
    pub(super) fn parse(name: &str) -> Option<StoredName> {
        let ending = |form: FileForm| Some((name.strip_suffix(form.suffix())?, form));
        let (rest, form) = FileForm::ALL.into_iter().find_map(ending)?;
        let (stem, id) = rest.rsplit_once('.')?;
        let whole = !stem.is_empty() && is_plain_id(id);
        whole.then(|| StoredName { stem: stem.to_owned(), id: id.to_owned(), form })
    }

    /// The key, as far as the name tells.
    pub(super) fn key(&self) -> Option<SessionKey> {
        SessionKey::of_file_name(&format!("{}{}", self.stem, FileForm::Plain.suffix()))
    }
}

/// The stem of a live file's name.
pub(super) fn stem_of(live: &Path) -> String {
    let name = live.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.strip_suffix(FileForm::Plain.suffix()).unwrap_or(&name).to_owned()
}

/// Returns whether a file is a packed one, by its name.
pub(super) fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "zst")
}

/// The packed form of a plain file in the archive.
pub(super) fn packed_beside(plain: &Path) -> PathBuf {
    plain.with_extension("jsonl.zst")
}

/// Returns whether an id can stand in a file name. Ours are UUIDs; a header written by somebody else may say anything.
pub fn is_plain_id(id: &str) -> bool {
    (8..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Returns the part of a name behind its owner's, if the name is that of torn bytes that were cut from the owner's
/// file.
pub(super) fn torn_suffix<'a>(name: &'a str, owner: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(owner)?;
    let numbers = rest.strip_prefix(TORN)?;
    let plain = !numbers.is_empty() && numbers.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    plain.then_some(rest)
}

/// The offset at which torn bytes lay, by what stands behind their owner's name.
pub(super) fn torn_offset(suffix: &str) -> Option<u64> {
    suffix.strip_prefix(TORN)?.split('-').next()?.parse().ok()
}

/// The names of the files of a space with fixed keys, which stand side by side in the home of a store; `None` where
/// files may have any name.
pub(super) fn fixed_files(space: Space) -> Option<Vec<String>> {
    let file = |key: &&str| format!("{key}{}", FileForm::Plain.suffix());
    space.fixed_keys().map(|keys| keys.iter().map(file).collect())
}

/// Returns true if a file of this name may hold a live stream of a space. No name leads out of its directory.
pub(super) fn may_be_file_of(space: Space, name: &str) -> bool {
    let stem = name.strip_suffix(FileForm::Plain.suffix());
    !name.contains('/') && space.fixed_keys().is_none_or(|keys| stem.is_some_and(|stem| keys.contains(&stem)))
}

const TORN: &str = ".torn-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_name_is_read_as_it_was_made() {
        let id = "01a1e14d-2382-722e-bd10-b9f468ff6bed";
        for stem in ["work", "a.b.c", "telegram%3aalice", "Alice", "x~0123abcd", ".hidden"] {
            for form in [FileForm::Plain, FileForm::Packed, FileForm::Marked] {
                let stored = StoredName { stem: stem.to_owned(), id: id.to_owned(), form };
                assert_eq!(StoredName::parse(&stored.name()), Some(stored));
            }
        }
        for name in ["work.jsonl", "notes.txt", ".01a1e14d.jsonl", "x.y.jsonl", "a.01a1e14d/../x.jsonl"] {
            assert_eq!(StoredName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn an_id_from_a_header_never_becomes_a_path() {
        for id in ["", "..", "../../x", "a/b", "a.b.c.d.e.f", "1234567", "né-né-né-né"] {
            assert!(!is_plain_id(id), "{id}");
        }
    }

    #[test]
    fn torn_copies_are_known_by_their_owner() {
        assert_eq!(torn_suffix("work.jsonl.torn-12-0", "work.jsonl"), Some(".torn-12-0"));
        assert_eq!(torn_suffix("work.jsonl.torn-12-0.jsonl", "work.jsonl"), None, "a session called so");
        assert_eq!(torn_suffix("workshop.jsonl.torn-12-0", "work.jsonl"), None);
        assert_eq!(torn_offset(".torn-12-0"), Some(12));
    }
}
