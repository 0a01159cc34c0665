//! The whole store from outside: what is listed where, what a session says, and every byte that lies anywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::TestEnvironment;

impl TestEnvironment {
    pub(crate) fn archive(&self) -> PathBuf {
        self.home().join("archive")
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.home().join("trash")
    }

    /// Runs a command that must succeed, and gives what it printed.
    #[track_caller]
    pub(crate) fn done(&self, args: &[&str]) -> String {
        let output = self.manent(args);
        output.assert_code(0);
        output.stdout()
    }

    /// The sessions of a place, `live`, `archived` or `trash`, as a script sees them.
    #[track_caller]
    pub(crate) fn listed(&self, place: &str) -> Vec<Value> {
        let output = match place {
            "live" => self.manent(&["sessions", "--json"]),
            place => self.manent(&["sessions", "--json", &format!("--{place}")]),
        };
        output.assert_code(0);
        output.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Counts the sessions: live, archived, in the trash.
    #[track_caller]
    pub(crate) fn counts(&self) -> [usize; 3] {
        ["live", "archived", "trash"].map(|place| self.listed(place).len())
    }

    /// The id of the session of a key in a place, of which there must be one.
    #[track_caller]
    pub(crate) fn id_in(&self, place: &str, key: &str) -> String {
        let all = self.listed(place);
        let ids: Vec<&str> =
            all.iter().filter(|row| row["key"] == key).map(|row| row["id"].as_str().unwrap()).collect();
        let [id] = ids[..] else { panic!("{key} has the sessions {ids:?} in {place}") };
        id.to_owned()
    }

    /// The texts of a session's turns, whatever they are called by.
    #[track_caller]
    pub(crate) fn said(&self, name: &str) -> Vec<String> {
        self.records(name).iter().filter_map(|line| content_of(line)).collect()
    }

    /// The directory of the index.
    pub(crate) fn index(&self) -> PathBuf {
        self.home().join("index")
    }

    /// Returns the cache directory, which has the indexes of other programs' stores.
    pub(crate) fn cache(&self) -> PathBuf {
        self.root().join(".cache")
    }

    /// Every file of the store but the index, which comes and goes, by its path from the store's directory.
    pub(crate) fn tree(&self) -> BTreeMap<String, Vec<u8>> {
        self.everything().into_iter().filter(|(name, _)| !name.starts_with("index/")).collect()
    }

    /// Every file of the store, and of its index wherever that is.
    pub(crate) fn everything(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(self.home(), self.home(), &mut files);
        let mut cached = BTreeMap::new();
        collect(self.root(), &self.cache(), &mut cached);
        files.extend(cached.into_iter().map(|(name, bytes)| (format!("index/{name}"), bytes)));
        files
    }

    /// Files that were being written when their writer died, and are nobody's any more.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        self.everything().into_keys().filter(|name| ends(name, "tmp")).collect()
    }

    /// The files in which some text can be found: in their name, as it lies there, or packed.
    pub(crate) fn holding(&self, text: &str) -> Vec<String> {
        let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        let found = self.everything().into_iter().filter(|(name, bytes)| {
            holds(name.as_bytes())
                || holds(bytes)
                || zstd::stream::decode_all(&bytes[..]).is_ok_and(|unpacked| holds(&unpacked))
        });
        found.map(|(name, _)| name).collect()
    }
}

/// Returns true if a path has this extension.
pub(crate) fn ends(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

/// The text of a record, if it is a turn.
pub(crate) fn content_of(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).unwrap();
    record["role"].is_string().then(|| record["content"].as_str().unwrap_or_default().to_owned())
}

fn collect(root: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            collect(root, &path, files);
        } else if kind.is_file() {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
}
