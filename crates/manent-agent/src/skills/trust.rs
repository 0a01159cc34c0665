//! Which folders are trusted: whose skills may be told to a model.
//!
//! Whoever opens a folder that somebody else wrote did not thereby agree to what its skills say. So a list in the store
//! says which folders the user trusts, by their path behind all links: one line of JSON a decision, the last one
//! counts. Only the folder itself is meant, not those in it. A list that others may write, or that cannot be read,
//! trusts nothing.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use manent::log::fs::Disk;

use super::error::SkillError;
use crate::ledger;

/// The folders that are trusted.
#[derive(Debug, Clone, Default)]
pub struct Trusted {
    folders: BTreeSet<PathBuf>,
    trouble: Option<String>,
}

/// What the user decided about a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Its skills are used.
    Trust,
    /// They are not.
    Distrust,
}

impl Trusted {
    /// Reads the list of a store. Whatever is wrong with it, there is an answer: then nothing is trusted.
    pub fn load(disk: &dyn Disk, store: &Path) -> Trusted {
        let path = store.join(FILE_NAME);
        match read(disk, &path) {
            Ok(folders) => Trusted { folders, trouble: None },
            Err(why) => {
                let trouble = format!("no folder is trusted, because {} {why}", path.display());
                Trusted { folders: BTreeSet::new(), trouble: Some(trouble) }
            }
        }
    }

    /// Whether a folder is trusted. The path must be the one behind all links.
    pub fn holds(&self, folder: &Path) -> bool {
        self.folders.contains(folder)
    }

    /// The folders, sorted.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// Why nothing is trusted, if the list could not be used.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Notes a decision, so that it outlives a power cut, and gives the path under which it was noted. A folder that is
    /// gone can still be distrusted.
    pub fn decide(
        disk: &dyn Disk,
        store: &Path,
        folder: &Path,
        decision: Decision,
    ) -> Result<PathBuf, SkillError> {
        let real = match disk.resolve(folder) {
            Ok(real) => real,
            Err(e) if e.kind() == io::ErrorKind::NotFound && decision == Decision::Distrust => {
                folder.to_owned()
            }
            Err(source) => return Err(SkillError::Unreadable { path: folder.to_owned(), source }),
        };
        let Some(text) = real.to_str() else { return Err(SkillError::OddFolder { folder: real }) };
        let line =
            serde_json::json!({"folder": text, "trusted": decision == Decision::Trust, "ts": manent::now()});
        let file = store.join(FILE_NAME);
        let not_noted = |source| SkillError::NotNoted { folder: real.clone(), file: file.clone(), source };
        ledger::add(disk, store, &file, &line).map_err(not_noted)?;
        Ok(real)
    }
}

fn read(disk: &dyn Disk, path: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let mut folders = BTreeSet::new();
    for line in ledger::read(disk, path)? {
        let Some(folder) = line["folder"].as_str().map(PathBuf::from) else { continue };
        match line["trusted"].as_bool() {
            Some(true) => folders.insert(folder),
            _ => folders.remove(&folder),
        };
    }
    Ok(folders)
}

const FILE_NAME: &str = "trusted.jsonl";
