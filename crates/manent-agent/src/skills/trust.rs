//! Trust: whose skills may be told to a model, and what they said when that was decided.
//!
//! Whoever opens a folder that somebody else wrote did not thereby agree to what its skills say. So a list in the store
//! says which folders the user trusts, by their path behind all links: one line of JSON a decision, the last one
//! counts. Only the folder itself is meant, not those in it. A list that others may write, or that cannot be read,
//! trusts nothing.
//!
//! A decision is about what was there: a copy of it is in `trusted/` of the store, under its hash, and the line of the
//! decision names the hash. What differs from the copy is held back until it is trusted again. Decisions of earlier
//! versions have no copy, and hold everything back.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use manent::log::AtomicFile;
use manent::log::fs::{Disk, read_whole};
use serde_json::{Value, json};

use super::error::SkillError;
use super::snapshot::{Difference, Snapshot, differing};
use crate::ledger;

/// The folders that are trusted.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    store: PathBuf,
    /// With the hash of the copy; `None`: an earlier version kept none.
    folders: BTreeMap<PathBuf, Option<String>>,
    trouble: Option<String>,
}

/// The skills of a folder as they were at one time, by their directories from the folder.
pub type Copies = BTreeMap<String, Snapshot>;

/// What is known of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// It is not trusted.
    None,
    /// It is trusted, and what was there then cannot be told: this is why.
    WithoutCopy(&'static str),
    /// It is trusted as it was then.
    As(Copies),
}

/// A skill that differs from what was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDifference {
    /// Its directory from the folder.
    pub dir: String,
    /// `added`, `changed` or `removed`.
    pub word: &'static str,
    /// The files that differ.
    pub files: Vec<Difference>,
}

impl Trusted {
    /// Reads the list of a store. Whatever is wrong with it, there is an answer: then nothing is trusted.
    pub fn load(disk: &dyn Disk, store: &Path) -> Trusted {
        let path = store.join(FILE_NAME);
        let (folders, trouble) = match read(disk, &path) {
            Ok(folders) => (folders, None),
            Err(why) => {
                let trouble = format!("no folder is trusted, because {} {why}", path.display());
                (BTreeMap::new(), Some(trouble))
            }
        };
        Trusted { store: store.to_owned(), folders, trouble }
    }

    /// Returns whether there is a decision to trust a folder. The path must be the one behind all links.
    pub fn holds(&self, folder: &Path) -> bool {
        self.folders.contains_key(folder)
    }

    /// The folders, sorted.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.keys().map(PathBuf::as_path)
    }

    /// Why nothing is trusted, if the list could not be used.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns what was trusted in a folder. The path must be the one behind all links.
    pub fn of(&self, disk: &dyn Disk, folder: &Path) -> Trust {
        let copy = match self.folders.get(folder) {
            None => return Trust::None,
            Some(None) => return Trust::WithoutCopy(EARLIER),
            Some(Some(copy)) => copy,
        };
        let path = copy_path(&self.store, copy);
        let Ok(bytes) = read_whole(disk, &path, COPY_BYTES_MAX) else {
            return Trust::WithoutCopy(UNREADABLE);
        };
        if blake3::hash(&bytes).to_hex().as_str() != copy {
            return Trust::WithoutCopy(ALTERED);
        }
        let copies = serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| {
            let skills = value["skills"].as_object()?.iter();
            skills.map(|(dir, files)| Some((dir.clone(), Snapshot::of_json(files)?))).collect()
        });
        copies.map_or(Trust::WithoutCopy(ALTERED), Trust::As)
    }

    /// Trusts a folder as it was when these copies were made, so that it outlives a power cut: the copy is there before
    /// the decision is noted. Returns the path under which it was noted.
    pub fn trust(
        disk: &dyn Disk,
        store: &Path,
        folder: &Path,
        copies: &Copies,
    ) -> Result<PathBuf, SkillError> {
        let unreadable = |source| SkillError::Unreadable { path: folder.to_owned(), source };
        let real = disk.resolve(folder).map_err(unreadable)?;
        let before = Trusted::load(disk, store);
        let skills: serde_json::Map<String, Value> =
            copies.iter().map(|(dir, snapshot)| (dir.clone(), snapshot.to_json())).collect();
        let bytes = json!({"folder": real.to_string_lossy(), "skills": skills}).to_string().into_bytes();
        let copy = blake3::hash(&bytes).to_hex().to_string();
        let path = copy_path(store, &copy);
        let not_noted = |source| SkillError::NotNoted { folder: real.clone(), file: path.clone(), source };
        keep(disk, store, &path, &bytes).map_err(not_noted)?;
        note(disk, store, &real, &json!(true), Some(&copy))?;
        before.forget_copy(disk, &real, Some(&copy));
        Ok(real)
    }

    /// Trusts a folder no longer. One that is gone can still be distrusted.
    pub fn distrust(disk: &dyn Disk, store: &Path, folder: &Path) -> Result<PathBuf, SkillError> {
        let real = match disk.resolve(folder) {
            Ok(real) => real,
            Err(e) if e.kind() == io::ErrorKind::NotFound => folder.to_owned(),
            Err(source) => return Err(SkillError::Unreadable { path: folder.to_owned(), source }),
        };
        let before = Trusted::load(disk, store);
        note(disk, store, &real, &json!(false), None)?;
        before.forget_copy(disk, &real, None);
        Ok(real)
    }

    /// Removes the copy of a folder that no decision names any more. If that fails, it is only in the way.
    fn forget_copy(&self, disk: &dyn Disk, folder: &Path, now: Option<&str>) {
        let Some(Some(old)) = self.folders.get(folder) else { return };
        let is_named =
            |(other, copy): (&PathBuf, &Option<String>)| other != folder && copy.as_ref() == Some(old);
        if now != Some(old) && !self.folders.iter().any(is_named) {
            let _ = disk.remove(&copy_path(&self.store, old));
        }
    }
}

/// Returns how skills differ from what was trusted, by directory.
pub fn differences(before: &Copies, now: &Copies) -> Vec<SkillDifference> {
    let none = Snapshot::default();
    let files = |dir: &String| {
        let (old, new) = (before.get(dir).unwrap_or(&none), now.get(dir).unwrap_or(&none));
        new.differences(old)
    };
    let differing = differing(before, now).into_iter();
    differing.map(|(dir, word)| SkillDifference { dir: dir.clone(), word, files: files(dir) }).collect()
}

/// Notes a decision, so that it outlives a power cut.
fn note(
    disk: &dyn Disk,
    store: &Path,
    folder: &Path,
    trusted: &Value,
    copy: Option<&str>,
) -> Result<(), SkillError> {
    let Some(text) = folder.to_str() else { return Err(SkillError::OddFolder { folder: folder.to_owned() }) };
    let mut line = json!({"folder": text, "trusted": trusted, "ts": manent::now()});
    if let Some(copy) = copy {
        line["copy"] = copy.into();
    }
    let file = store.join(FILE_NAME);
    let not_noted = |source| SkillError::NotNoted { folder: folder.to_owned(), file: file.clone(), source };
    ledger::add(disk, store, &file, &line).map_err(not_noted)
}

/// Writes a copy under its hash, unless it is there.
fn keep(disk: &dyn Disk, store: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What nobody would believe afterwards is not worth a copy.
    ledger::read(disk, &store.join(FILE_NAME))
        .map_err(|why| io::Error::other(format!("{FILE_NAME} {why}")))?;
    if bytes.len() as u64 > COPY_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let dir = store.join(DIRECTORY);
    disk.create_dir_all(&dir)?;
    if read_whole(disk, path, COPY_BYTES_MAX).is_ok_and(|there| there == bytes) {
        return disk.sync_dir(&dir);
    }
    let mut file = AtomicFile::create(disk, path)?;
    file.write_all(bytes)?;
    file.commit()
}

fn copy_path(store: &Path, copy: &str) -> PathBuf {
    store.join(DIRECTORY).join(format!("{copy}.json"))
}

fn read(disk: &dyn Disk, path: &Path) -> Result<BTreeMap<PathBuf, Option<String>>, String> {
    let mut folders = BTreeMap::new();
    for line in ledger::read(disk, path)? {
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

const FILE_NAME: &str = "trusted.jsonl";
const DIRECTORY: &str = "trusted";
/// What may be read of all skills of a folder, at its longest in JSON.
const COPY_BYTES_MAX: u64 = super::snapshot::ROOM_BYTES * 6 + (16 << 20);
const EARLIER: &str = "its folder was trusted by an earlier version, which kept no copy to compare with";
const UNREADABLE: &str = "the copy of what was trusted in its folder is missing or cannot be read";
const ALTERED: &str = "the copy of what was trusted in its folder is damaged";
