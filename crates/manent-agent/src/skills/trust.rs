//! Trust: whose skills may be told to a model, and what they said when that was decided.
//!
//! Whoever opens a folder that somebody else wrote did not thereby agree to what its skills say. So a ledger of the
//! store says which folders the user trusts, by their path behind all links: one line for each decision, of which the
//! last counts. Only the folder itself is meant, not those in it. A ledger that others may write, or that cannot be
//! read, trusts nothing.
//!
//! A decision is about what was there: a copy of it is in the blobs of the store, as `trusted/<hash>.json`, and the
//! decision names the hash. What differs from the copy is held back until it is trusted again. Decisions of earlier
//! versions have no copy, and hold everything back. So does a copy that is gone, which is why a blob is good enough:
//! whoever deletes it is asked again, and nothing is trusted by mistake.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::log::fs::Disk;
use manent::{Blobs, Store};
use serde::Deserialize;
use serde_json::json;

use super::error::SkillError;
use super::snapshot::{FileDifference, SkillSnapshot, differing};
use crate::ledger::Ledger;

/// The folders that are trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustedFolders {
    /// The blobs that hold the copies, or `None` if the store has none.
    blobs: Option<Arc<dyn Blobs>>,
    /// The folders, each with the hash of its copy; `None` if an earlier version kept no copy.
    folders: BTreeMap<PathBuf, Option<String>>,
    trouble: Option<String>,
}

/// The skills of a folder as they were at one time, by their directories from the folder.
pub type TrustedCopies = BTreeMap<String, SkillSnapshot>;

/// The part that is read of a stored copy.
#[derive(Deserialize)]
struct StoredCopies {
    skills: TrustedCopies,
}

/// The trust decision about a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustState {
    /// The folder is not trusted.
    None,
    /// Trusted, but the copy of what was trusted is not available, for this reason.
    WithoutCopy(&'static str),
    /// Trusted as it was then.
    As(TrustedCopies),
}

/// A skill that differs from what was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDifference {
    /// The directory of the skill, relative to the folder.
    pub dir: String,
    /// `added`, `changed` or `removed`.
    pub word: &'static str,
    /// The files that differ.
    pub files: Vec<FileDifference>,
}

impl TrustedFolders {
    /// Reads the ledger of a store. There is always an answer: if something is wrong with the ledger, nothing is
    /// trusted.
    pub fn load(store: &Store) -> TrustedFolders {
        let ledger = Ledger::trusted(store);
        let (folders, trouble) = match read(&ledger) {
            Ok(folders) => (folders, None),
            Err(why) => {
                let trouble = format!("no folder is trusted, because {} {why}", ledger.path().display());
                (BTreeMap::new(), Some(trouble))
            }
        };
        TrustedFolders { blobs: store.blobs().cloned(), folders, trouble }
    }

    /// Returns whether there is a decision to trust a folder. The path must be the one behind all links.
    pub fn holds(&self, folder: &Path) -> bool {
        self.folders.contains_key(folder)
    }

    /// The folders, sorted.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.keys().map(PathBuf::as_path)
    }

    /// Returns the reason why nothing is trusted, if the ledger could not be read.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns what was trusted in a folder. The path must be the one behind all links.
    pub fn of(&self, folder: &Path) -> TrustState {
        let copy = match self.folders.get(folder) {
            None => return TrustState::None,
            Some(None) => return TrustState::WithoutCopy(EARLIER),
            Some(Some(copy)) => copy,
        };
        let read = self.blobs.as_deref().and_then(|blobs| read_copy(blobs, copy).ok().flatten());
        let Some(bytes) = read else { return TrustState::WithoutCopy(UNREADABLE) };
        if blake3::hash(&bytes).to_hex().as_str() != copy {
            return TrustState::WithoutCopy(ALTERED);
        }
        let stored = serde_json::from_slice::<StoredCopies>(&bytes);
        stored.map_or(TrustState::WithoutCopy(ALTERED), |stored| TrustState::As(stored.skills))
    }

    /// Trusts a folder as it was when these copies were made, so that it outlives a power cut: the copy is there before
    /// the decision is noted. Returns the path under which it was noted.
    pub fn trust(
        disk: &dyn Disk,
        store: &Store,
        folder: &Path,
        copies: &TrustedCopies,
    ) -> Result<PathBuf, SkillError> {
        let unreadable = |source| SkillError::Unreadable { path: folder.to_owned(), source };
        let real = disk.resolve(folder).map_err(unreadable)?;
        let bytes = json!({"folder": real.to_string_lossy(), "skills": copies}).to_string().into_bytes();
        let copy = blake3::hash(&bytes).to_hex().to_string();
        note(store, &real, Some((&copy, &bytes)))?;
        Ok(real)
    }

    /// Trusts a folder no longer. One that is gone can still be distrusted.
    pub fn distrust(disk: &dyn Disk, store: &Store, folder: &Path) -> Result<PathBuf, SkillError> {
        let real = match disk.resolve(folder) {
            Ok(real) => real,
            Err(e) if e.kind() == io::ErrorKind::NotFound => folder.to_owned(),
            Err(source) => return Err(SkillError::Unreadable { path: folder.to_owned(), source }),
        };
        note(store, &real, None)?;
        Ok(real)
    }

    /// Removes the copy of a folder that no decision names any more. If that fails, it is only in the way.
    fn forget_copy(&self, folder: &Path, now: Option<&str>) {
        let (Some(Some(old)), Some(blobs)) = (self.folders.get(folder), &self.blobs) else { return };
        let is_named =
            |(other, copy): (&PathBuf, &Option<String>)| other != folder && copy.as_ref() == Some(old);
        if now != Some(old) && !self.folders.iter().any(is_named) {
            let _ = blobs.delete(&copy_name(old));
        }
    }
}

/// Returns how skills differ from what was trusted, by directory.
pub fn differences(before: &TrustedCopies, now: &TrustedCopies) -> Vec<SkillDifference> {
    let none = SkillSnapshot::default();
    let files = |dir: &String| {
        let (old, new) = (before.get(dir).unwrap_or(&none), now.get(dir).unwrap_or(&none));
        new.differences(old)
    };
    let differing = differing(before, now).into_iter();
    differing.map(|(dir, word)| SkillDifference { dir: dir.clone(), word, files: files(dir) }).collect()
}

/// Notes a decision, so that it outlives a power cut. A folder is trusted if there is a copy, of which this takes the
/// hash and the bytes. The lease is held all the while, so that nobody removes a copy that another decision names.
fn note(store: &Store, folder: &Path, copy: Option<(&str, &[u8])>) -> Result<(), SkillError> {
    let Some(text) = folder.to_str() else { return Err(SkillError::OddFolder(folder.to_owned())) };
    let ledger = Ledger::trusted(store);
    let not_noted = |file: PathBuf, why| SkillError::NotNoted { folder: folder.to_owned(), file, why };
    let mut writer = ledger.lease().map_err(|why| not_noted(ledger.path(), why))?;
    let before = TrustedFolders::load(store);
    let mut line = json!({"folder": text, "trusted": copy.is_some(), "ts": manent::now()});
    if let Some((hash, bytes)) = copy {
        line["copy"] = hash.into();
        let kept = keep_copy(store, hash, bytes);
        kept.map_err(|e| not_noted(copy_name(hash).into(), e.to_string()))?;
    }
    writer.append(&line).map_err(|why| not_noted(ledger.path(), why))?;
    before.forget_copy(folder, copy.map(|(hash, _)| hash));
    Ok(())
}

/// Writes a copy under its hash, unless it is there.
fn keep_copy(store: &Store, hash: &str, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() as u64 > COPY_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let missing = || io::Error::other("this store has no place for copies of what is trusted");
    let blobs = store.blobs().ok_or_else(missing)?;
    // The lock makes the folder. Decisions exclude each other by their lease.
    drop(blobs.lock(FOLDER, "", store.wait())?);
    if read_copy(&**blobs, hash)?.is_none_or(|there| there != bytes) {
        blobs.put(&copy_name(hash), bytes)?;
    }
    blobs.sync(FOLDER)?;
    blobs.sync("")
}

/// Returns the bytes of a copy, or `None` if there is none, or one that is longer than any.
fn read_copy(blobs: &dyn Blobs, hash: &str) -> io::Result<Option<Vec<u8>>> {
    let opened = blobs.open(&copy_name(hash))?;
    let Some(blob) = opened.filter(|blob| blob.len() <= COPY_BYTES_MAX) else { return Ok(None) };
    let mut bytes = vec![0; usize::try_from(blob.len()).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while filled < bytes.len() {
        match blob.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    Ok(Some(bytes))
}

fn copy_name(hash: &str) -> String {
    format!("{FOLDER}/{hash}.json")
}

fn read(ledger: &Ledger) -> Result<BTreeMap<PathBuf, Option<String>>, String> {
    let mut folders = BTreeMap::new();
    for line in ledger.read()? {
        let Some(folder) = line["folder"].as_str().map(PathBuf::from) else { continue };
        let is_hash = |copy: &&str| copy.len() == 64 && copy.bytes().all(|b| b.is_ascii_hexdigit());
        let copy = line["copy"].as_str().filter(is_hash).map(str::to_owned);
        match line["trusted"].as_bool() {
            Some(true) => drop(folders.insert(folder, copy)),
            _ => drop(folders.remove(&folder)),
        }
    }
    Ok(folders)
}

/// The folder of the copies in the blobs of a store.
const FOLDER: &str = "trusted";
/// The length of the longest copy: all skills of a folder, at their longest in JSON.
const COPY_BYTES_MAX: u64 = super::snapshot::ROOM_BYTES * 6 + (16 << 20);
const EARLIER: &str = "its folder was trusted by an earlier version, which kept no copy to compare with";
const UNREADABLE: &str = "the copy of what was trusted in its folder is missing or cannot be read";
const ALTERED: &str = "the copy of what was trusted in its folder is damaged";
