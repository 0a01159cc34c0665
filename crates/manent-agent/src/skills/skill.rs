//! One skill: a directory with a `SKILL.md`, what it says, and what a model gets of it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::log::fs::{DirEntry, Disk, Shape};
use manent::tokens::Tokens;

use super::document::{self, SkillDocument};
use super::error::SkillError;
use super::json_string;
use super::manifest::Manifest;
use super::problem::{Problem, SkillRule};
use super::skill_files::{self, FileListing, ReadFailure};
use super::snapshot::{ROOM_BYTES, SkillSnapshot};

/// The origin of a skill, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkillOrigin {
    /// The folder that somebody works in. Whoever wrote the folder wrote the skill.
    Project,
    /// The user's own directories.
    User,
    /// The store.
    Store,
}

impl SkillOrigin {
    /// Returns the word for lists.
    pub fn word(self) -> &'static str {
        match self {
            SkillOrigin::Project => "project",
            SkillOrigin::User => "user",
            SkillOrigin::Store => "store",
        }
    }
}

/// The status of a skill: whether it is used, and if not, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SkillStatus {
    /// The skill is used.
    Used,
    /// The folder that it comes from is not trusted.
    Untrusted,
    /// The folder is trusted, and this is not what was trusted, or cannot be compared with it.
    Held {
        /// The difference, or the reason why the skill cannot be compared.
        why: String,
    },
    /// Another skill of the same name goes before it.
    Shadowed {
        /// The directory of the other.
        by: PathBuf,
    },
    /// The skill cannot be used because of this problem.
    Skipped(Problem),
}

impl SkillStatus {
    /// Returns the word for lists.
    pub fn word(&self) -> &'static str {
        match self {
            SkillStatus::Used => "used",
            SkillStatus::Untrusted => "untrusted",
            SkillStatus::Held { .. } => "held",
            SkillStatus::Shadowed { .. } => "shadowed",
            SkillStatus::Skipped(_) => "skipped",
        }
    }
}

/// A skill that was found.
#[derive(Debug, Clone)]
pub struct Skill {
    /// The fields of its frontmatter. Of one that was skipped, as far as they could be read.
    pub manifest: Manifest,
    /// The origin.
    pub origin: SkillOrigin,
    /// The directory, with links resolved.
    pub dir: PathBuf,
    /// The path of the `SKILL.md`.
    pub file: PathBuf,
    /// The problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// The status.
    pub standing: SkillStatus,
    /// The BLAKE3 of its `SKILL.md` when it was found, in hexadecimal; empty if it could not be read.
    pub hash: String,
    /// The files as they were compared with what was trusted: everything given of the skill comes from here. `None` if
    /// it need not be compared; then it is read when it is called.
    pub(super) snapshot: Option<Arc<SkillSnapshot>>,
    /// The name under which the directory was found.
    directory: String,
    disk: Arc<dyn Disk>,
}

/// The text that a model gets when a skill is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activation {
    /// The skill.
    pub name: String,
    /// The block for the model.
    pub text: String,
    /// The BLAKE3 of the `SKILL.md` that it was made of, in hexadecimal, for the record of a run.
    pub hash: String,
    /// The files that it names.
    pub listing: FileListing,
}

/// A file of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    /// The content.
    pub bytes: Vec<u8>,
    /// The BLAKE3 of it, in hexadecimal.
    pub hash: String,
}

impl Skill {
    /// The skill in a directory, or the one whose `SKILL.md` this is: nothing is asked about trust or other skills.
    pub fn at(disk: &Arc<dyn Disk>, path: &Path) -> Result<Skill, SkillError> {
        let unreadable = |path: &Path, source| SkillError::Unreadable { path: path.to_owned(), source };
        let real = disk.resolve(path).map_err(|e| unreadable(path, e))?;
        let info = disk.inspect(&real).map_err(|e| unreadable(path, e))?;
        let (dir, named) = match info.shape {
            Shape::Directory => (real, path),
            _ => match (path.file_name(), path.parent()) {
                (Some(name), Some(parent)) if is_skill_file(name) => {
                    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                    (disk.resolve(parent).map_err(|e| unreadable(parent, e))?, parent)
                }
                _ => return Err(SkillError::NoFile("SKILL.md".to_owned())),
            },
        };
        let entries = disk.list(&dir).map_err(|e| unreadable(path, e))?;
        let name = skill_file(&entries).ok_or_else(|| SkillError::NoFile("SKILL.md".to_owned()))?;
        // `.` and `..` have no name of their own; what they lead to has.
        let directory = named.file_name().or_else(|| dir.file_name()).unwrap_or_default().to_owned();
        Ok(Skill::load(disk, dir, &directory, &name, SkillOrigin::User, None))
    }

    /// Reads what a walk found. `dir` is behind all links.
    pub(super) fn load(
        disk: &Arc<dyn Disk>,
        dir: PathBuf,
        directory: &OsStr,
        name: &OsStr,
        origin: SkillOrigin,
        snapshot: Option<Arc<SkillSnapshot>>,
    ) -> Skill {
        let mut skill = Skill {
            manifest: Manifest::default(),
            origin,
            file: dir.join(name),
            dir,
            problems: Vec::new(),
            standing: SkillStatus::Used,
            hash: String::new(),
            snapshot,
            directory: directory.to_string_lossy().into_owned(),
            disk: Arc::clone(disk),
        };
        let (document, hash) = skill.read();
        skill.standing = document.fatal().cloned().map_or(SkillStatus::Used, SkillStatus::Skipped);
        skill.hash = hash.unwrap_or_default();
        skill.manifest = document.manifest;
        skill.problems = document.problems;
        if name != FILE_NAME {
            let what = "the file should be called SKILL.md; others do not find it by this name, rename it";
            skill.problems.push(Problem::new(SkillRule::FileName, None, what));
        }
        skill
    }

    /// Returns the name of the skill, or that of its directory if it has none.
    pub fn name(&self) -> &str {
        if self.manifest.name.is_empty() { &self.directory } else { &self.manifest.name }
    }

    /// Parses the current `SKILL.md` and returns it with its BLAKE3 hash. A file that cannot be read is a document with
    /// one problem.
    pub fn read(&self) -> (SkillDocument, Option<String>) {
        match self.bytes() {
            Ok(bytes) => {
                let hash = blake3::hash(&bytes).to_hex().to_string();
                (SkillDocument::read(&bytes, &self.directory), Some(hash))
            }
            Err(problem) => (SkillDocument { problems: vec![problem], ..SkillDocument::default() }, None),
        }
    }

    /// Returns the text that a model gets when the skill is called. Permission is not checked here but by
    /// [`super::Skills::call`].
    pub fn activate(&self) -> Result<Activation, SkillError> {
        let (document, hash) = self.read();
        if let Some(problem) = document.fatal() {
            return Err(SkillError::NotUsed { name: self.name().to_owned(), why: problem.to_string() });
        }
        let (listing, hash) = (self.files(), hash.unwrap_or_default());
        let name = self.name().to_owned();
        let text = block(&name, self, &document.body, &hash, &listing);
        Ok(Activation { name, text, hash, listing })
    }

    /// Returns the problems of the skill by line, also whether its instructions take too many tokens.
    pub fn check(&self, tokens: &Tokens) -> Vec<Problem> {
        let mut problems = self.problems.clone();
        let took = tokens.count(&self.read().0.body);
        if took > BODY_TOKENS_MAX {
            let what = format!(
                "the instructions take {took} tokens each time they are used; beyond {BODY_TOKENS_MAX}, move details \
                 to files beside it"
            );
            problems.push(Problem::new(SkillRule::BodyLong, None, what));
        }
        problems.sort_by_key(|problem| problem.line.unwrap_or(u32::MAX));
        problems
    }

    /// Returns the files beside its `SKILL.md`, as many as a model is told of.
    pub fn files(&self) -> FileListing {
        match &self.snapshot {
            Some(snapshot) => snapshot.listing(self.file_name(), skill_files::FILES_MAX),
            None => skill_files::list(&*self.disk, &self.dir, &self.file),
        }
    }

    /// Returns a file of the skill, by its path from the directory of the skill. Never one that lies elsewhere.
    pub fn file(&self, path: &str) -> Result<SkillFile, SkillError> {
        let bytes = match &self.snapshot {
            Some(snapshot) => self.file_in(snapshot, path)?,
            None => skill_files::file(&*self.disk, &self.dir, path, FILE_BYTES_MAX)?,
        };
        Ok(SkillFile { hash: blake3::hash(&bytes).to_hex().to_string(), bytes })
    }

    /// Returns whether its files could be read to be compared with what was trusted.
    pub fn is_comparable(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Compares a skill that was found as it was trusted with what is there now: a command may have changed it since.
    pub(super) fn compare_again(&self) -> Result<(), SkillError> {
        let Some(found) = &self.snapshot else { return Ok(()) };
        let why = match SkillSnapshot::take(&*self.disk, &self.dir, self.origin, &mut { ROOM_BYTES }) {
            Ok(now) if now == **found => return Ok(()),
            Ok(now) => format!("it changed since it was found as it was trusted: {}", now.summary(found)),
            Err(why) => why,
        };
        Err(SkillError::NotUsed { name: self.name().to_owned(), why })
    }

    fn file_name(&self) -> &str {
        self.file.file_name().and_then(OsStr::to_str).unwrap_or(FILE_NAME)
    }

    fn file_in(&self, snapshot: &SkillSnapshot, path: &str) -> Result<Vec<u8>, SkillError> {
        let outside = || SkillError::Outside(path.to_owned());
        let plain = skill_files::plain(path).ok_or_else(outside)?;
        let none = || SkillError::NoFile(path.to_owned());
        let entry = plain.to_str().and_then(|plain| snapshot.get(plain)).ok_or_else(none)?;
        if entry.leads_out() {
            return Err(outside());
        }
        if entry.hash.is_empty() {
            return Err(none());
        }
        let content = entry.content.as_ref().filter(|_| entry.bytes <= FILE_BYTES_MAX);
        let path = self.dir.join(&plain);
        let too_long = SkillError::TooLong { path, bytes: entry.bytes, max: FILE_BYTES_MAX };
        content.map(|content| content.bytes().to_vec()).ok_or(too_long)
    }

    fn bytes(&self) -> Result<Vec<u8>, Problem> {
        if let Some(entry) = self.snapshot.as_ref().and_then(|snapshot| snapshot.get(self.file_name())) {
            if self.origin == SkillOrigin::Project && entry.leads_out() {
                return Err(leads_out());
            }
            let content = entry.content.as_ref().map(|content| content.bytes().to_vec());
            return content.ok_or_else(|| document::too_long(entry.bytes));
        }
        let refused = |e: std::io::Error| {
            let what = format!("the file cannot be read: {e}; look what it is and at its rights");
            Problem::new(SkillRule::Unreadable, None, what)
        };
        let real = self.disk.resolve(&self.file).map_err(refused)?;
        // The user may keep his own files where he likes; what came with a project may not point at them.
        if self.origin == SkillOrigin::Project && !real.starts_with(&self.dir) {
            return Err(leads_out());
        }
        skill_files::read(&*self.disk, &real, document::FILE_BYTES_MAX).map_err(|not| match not {
            ReadFailure::Io(e) => refused(e),
            ReadFailure::TooLong(bytes) => document::too_long(bytes),
        })
    }
}

fn leads_out() -> Problem {
    let what = "the file is a link out of the skill's directory; put the file itself there";
    Problem::new(SkillRule::LeadsOut, None, what)
}

/// The instructions between two marks that hold a part of their own hash: no text can hold that, so none can end the
/// block before its end.
fn block(name: &str, skill: &Skill, body: &str, hash: &str, listing: &FileListing) -> String {
    let mark = &hash[..hash.len().min(MARK_CHARS)];
    let file =
        |file: &skill_files::SkillFileInfo| format!("[{},{}]", json_string::escaped(&file.path), file.bytes);
    let files: Vec<String> = listing.files.iter().map(file).collect();
    let head = format!(
        "{{\"name\":{},\"from\":\"{}\",\"directory\":{},\"files\":[{}],\"more_files\":{}}}",
        json_string::escaped(name),
        skill.origin.word(),
        json_string::escaped(&skill.dir.to_string_lossy()),
        files.join(","),
        listing.more
    );
    format!("<skill {mark}>\n{INTRODUCTION}\n{head}\n\n{body}\n</skill {mark}>\n")
}

/// Returns the name of the skill file among the entries of a directory.
pub(super) fn skill_file(entries: &[DirEntry]) -> Option<OsString> {
    let mut names: Vec<&OsString> = entries
        .iter()
        .filter(|entry| entry.shape != Shape::Directory && is_skill_file(&entry.name))
        .map(|entry| &entry.name)
        .collect();
    // In ASCII, capital letters come first.
    names.sort();
    names.first().map(|name| (*name).clone())
}

fn is_skill_file(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(FILE_NAME)
}

const FILE_NAME: &str = "SKILL.md";
const INTRODUCTION: &str = "The instructions of a skill. Paths in them are relative to its directory; read its files \
                            when they are needed, not before.";
const FILE_BYTES_MAX: u64 = 1 << 20;
const BODY_TOKENS_MAX: u64 = 5000;
const MARK_CHARS: usize = 16;
