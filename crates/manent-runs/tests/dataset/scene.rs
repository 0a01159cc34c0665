//! A store with sessions and runs, and the data sets that are made of it.

use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::{Body, Durability, SessionKey, Store, turn};
use manent_runs::Runs;
use manent_runs::dataset::{Dataset, DatasetCounts, DatasetError, DatasetFormat, Existing, Recipe, make};
use serde_json::{Value, json};

use super::schema;

pub(crate) const FORMATS: [DatasetFormat; 5] = [
    DatasetFormat::OpenAi,
    DatasetFormat::TrlSft,
    DatasetFormat::TrlDpo,
    DatasetFormat::Kto,
    DatasetFormat::ShareGpt,
];

pub(crate) struct Scene {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
}

/// The rows of the files of a data set.
pub(crate) struct Rows {
    pub(crate) dir: PathBuf,
    pub(crate) made: Dataset,
}

pub(crate) fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

/// A passage of a session.
pub(crate) fn passage(session: &str, first: u64, last: u64) -> Value {
    json!({"session": session, "seq": [first, last]})
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store")).unwrap();
        Scene { dir, store }
    }

    /// Appends a turn; gives its number.
    pub(crate) fn say(&self, session: &str, role: &str, content: &str) -> u64 {
        self.store.append(&key(session), turn(role, content)).unwrap().seq
    }

    /// Appends any record; gives its number.
    pub(crate) fn record(&self, session: &str, record: &Value) -> u64 {
        let body = manent::body_of_json(record.to_string().as_bytes(), "2026-05-01T10:00:00Z").unwrap();
        self.store.append(&key(session), body).unwrap().seq
    }

    /// Records a run.
    pub(crate) fn run(&self, session: &str, run: &Value) {
        let mut run = run.clone();
        run["kind"] = json!("run");
        self.run_line(session, &run.to_string());
    }

    pub(crate) fn run_line(&self, session: &str, line: &str) {
        let body = Body::parse(line.as_bytes()).unwrap();
        Runs::open(&self.store).unwrap().append(&key(session), &[body], Durability::Flush).unwrap();
    }

    /// A question and its answer in a session, and the run of one attempt that gave it.
    pub(crate) fn asked(&self, session: &str, project: &str, question: &str, answer: &str, verified: bool) {
        let asked = self.say(session, "user", question);
        let answered = self.say(session, "assistant", answer);
        self.run(
            session,
            &json!({"skill": "fix", "project_root": project, "timestamp": "2026-05-01T10:00:00Z", "attempts": [{
                "attempt": 1, "model": "m", "verified": verified,
                "prompt_ref": passage(session, asked, asked), "output_ref": passage(session, answered, answered)}]}),
        );
    }

    pub(crate) fn try_make(
        &self,
        recipe: &Recipe,
        dir: &Path,
        existing: Existing,
    ) -> Result<Dataset, DatasetError> {
        make(&self.store, recipe, &RealDisk::shared(), dir, existing, &mut |_, _| {})
    }

    /// Makes a data set, and checks every row of it against what its format documents.
    pub(crate) fn make(&self, recipe: &Recipe) -> Rows {
        let dir = tempfile::tempdir_in(self.dir.path()).unwrap().keep();
        let made = self.try_make(recipe, &dir, Existing::Keep).unwrap();
        let rows = Rows { dir, made };
        schema::check(recipe.format, &rows);
        rows
    }

    /// Makes none, because there are no rows: what was counted, and that nothing was written.
    pub(crate) fn make_none(&self, recipe: &Recipe) -> DatasetCounts {
        let dir = self.dir.path().join("none");
        let Err(DatasetError::NoRows { counts }) = self.try_make(recipe, &dir, Existing::Keep) else {
            panic!("there are rows, or something else is wrong");
        };
        assert!(!dir.exists(), "nothing is written");
        *counts
    }

    /// Everything to train on: for tests that are not about sides.
    pub(crate) fn make_all(&self, format: DatasetFormat) -> Rows {
        self.make(&Recipe { validation: 0, ..Recipe::new(format) })
    }
}

impl Rows {
    pub(crate) fn of(&self, name: &str) -> Vec<Value> {
        let text = self.text(name);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.join(name)).unwrap()
    }

    /// Every file, by name.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let entries = std::fs::read_dir(&self.dir).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .map(|path| {
                (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap())
            })
            .collect();
        files.sort();
        files
    }

    pub(crate) fn left_out(&self, why: &str) -> u64 {
        let manifest: Value = serde_json::from_str(&self.text("manifest.json")).unwrap();
        manifest["left_out"][why].as_u64().unwrap_or(0)
    }
}

/// Words that say something else for every number, enough of them that two of these texts are not alike.
pub(crate) fn words(seed: u64, count: u64) -> String {
    let word = |n: u64| {
        let mut x = (seed * 1_000_003 + n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        format!("w{}", (x ^ (x >> 32)) % 1_000_000)
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}
