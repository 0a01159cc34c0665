//! Looking for skills: which directories, in which order, how far, and what goes before what.
//!
//! Of each place, `.manent/skills` comes first (it is ours), then `.agents/skills` and `.claude/skills`. A directory
//! with a `SKILL.md` is a skill, and what lies in it is not looked through for others. A directory may be a symbolic
//! link: in the user's places it may lead anywhere; in a project, which somebody else may have written, only into the
//! project. A directory that was seen under another name is not seen again, so that links in a circle end.
//!
//! Skills of a project are compared with what was trusted there. So are those of the user that lie in the project, by a
//! link or because somebody works in their home: commands that a model runs there could change them. Others lie where
//! no sandboxed command writes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::log::fs::{Disk, FileId, Shape};

use super::error::SkillError;
use super::skill::{Skill, SkillOrigin, SkillStatus, skill_file};
use super::skill_files::is_passed_over;
use super::snapshot::{ROOM_BYTES, SkillSnapshot};
use super::trust::{TrustState, TrustedCopies, TrustedFolders};

/// The directories that may hold skills.
#[derive(Debug, Clone, Default)]
pub struct SkillDirs {
    /// The folder that somebody works in.
    pub project: Option<PathBuf>,
    /// The user's home.
    pub user: Option<PathBuf>,
    /// The home of the store.
    pub store: Option<PathBuf>,
}

/// A place where looking went no further.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchNote {
    /// The place.
    pub path: PathBuf,
    /// The reason and its remedy.
    pub what: String,
}

/// The caller of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A model, by the name in its catalogue.
    Model,
    /// The user, by typing its name.
    User,
}

/// All skills that were found.
#[derive(Debug, Clone, Default)]
pub struct Skills {
    /// The skills that were found: those of the project first, then by name; of the same name the one that is used
    /// first.
    pub all: Vec<Skill>,
    /// The directories that were not searched, and why.
    pub notes: Vec<SearchNote>,
    /// Snapshots of the skills that were compared or can be trusted, by directory relative to the project.
    pub copies: TrustedCopies,
}

impl Skills {
    /// Looks through all places. Nothing stops it: what cannot be read is a note or a skill that is skipped.
    pub fn find(disk: &Arc<dyn Disk>, places: &SkillDirs, trusted: &TrustedFolders) -> Skills {
        let mut found = Skills::default();
        let user = places.user.as_ref().and_then(|path| disk.resolve(path).ok());
        let project = places.project.as_ref().and_then(|path| disk.resolve(path).ok());
        let mut compared = project.as_ref().map(|project| TrustCheck {
            trust: trusted.of(project),
            folder: project.clone(),
            room: ROOM_BYTES,
        });
        // Who works in his home has no project there, only skills of his own.
        if let Some(project) = project.as_ref().filter(|project| user.as_ref() != Some(project)) {
            let mut walk = Walk::new(disk, SkillOrigin::Project, Some(project));
            walk.compared = compared.take();
            walk.places(project, &mut found);
            compared = walk.compared.take();
        }
        let mut walk = Walk::new(disk, SkillOrigin::User, None);
        // No command is run where all of the system is the workspace.
        walk.compared = compared.filter(|compared| compared.folder.parent().is_some());
        if let Some(user) = &user {
            walk.places(user, &mut found);
        }
        if let Some(store) = &places.store {
            // The store is hidden from commands, wherever it lies.
            (walk.origin, walk.compared) = (SkillOrigin::Store, None);
            walk.root(&store.join("skills"), &mut found);
        }
        found.shadow();
        let is_unused = |skill: &Skill| skill.standing != SkillStatus::Used;
        found.all.sort_by(|a, b| {
            let by = |skill: &Skill| {
                (skill.origin != SkillOrigin::Project, skill.name().to_owned(), is_unused(skill))
            };
            by(a).cmp(&by(b))
        });
        found
    }

    /// Returns all skills under a directory, whoever may use them, to check them.
    pub fn under(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Skills, SkillError> {
        let unreadable = |source| SkillError::Unreadable { path: dir.to_owned(), source };
        let real = disk.resolve(dir).map_err(unreadable)?;
        disk.list(&real).map_err(unreadable)?;
        let mut found = Skills::default();
        Walk::new(disk, SkillOrigin::User, None).root(&real, &mut found);
        Ok(found)
    }

    /// The skill of this name that is used, or else one that is not.
    pub fn get(&self, name: &str) -> Option<&Skill> {
        let mut named = self.all.iter().filter(|skill| skill.name() == name);
        let first = named.clone().next();
        named.find(|skill| skill.standing == SkillStatus::Used).or(first)
    }

    /// The skill that a caller may use, or why he may not.
    pub fn call(&self, name: &str, caller: Caller) -> Result<&Skill, SkillError> {
        let skill = self.get(name).ok_or_else(|| SkillError::NoSuch(name.to_owned()))?;
        let why = match &skill.standing {
            SkillStatus::Used if caller == Caller::Model && skill.manifest.disable_model_invocation => {
                "only the user calls it".to_owned()
            }
            SkillStatus::Used => {
                skill.compare_again()?;
                return Ok(skill);
            }
            SkillStatus::Held { why } => format!("{why}; only the user can trust it as it is now"),
            SkillStatus::Untrusted => {
                "the folder that it comes from is not trusted; only the user can change that".to_owned()
            }
            SkillStatus::Shadowed { by } => format!("the one in {} goes before it", by.display()),
            SkillStatus::Skipped(problem) => problem.to_string(),
        };
        Err(SkillError::NotUsed { name: name.to_owned(), why })
    }

    /// Marks all but the first of several skills with the same name as shadowed.
    fn shadow(&mut self) {
        let mut first: HashMap<String, PathBuf> = HashMap::new();
        for skill in self.all.iter_mut().filter(|skill| skill.standing == SkillStatus::Used) {
            match first.get(skill.name()) {
                Some(by) => skill.standing = SkillStatus::Shadowed { by: by.clone() },
                None => drop(first.insert(skill.name().to_owned(), skill.dir.clone())),
            }
        }
    }
}

struct Walk<'a> {
    disk: &'a Arc<dyn Disk>,
    origin: SkillOrigin,
    /// The directory that links must not leave.
    within: Option<&'a Path>,
    seen: HashSet<FileId>,
    compared: Option<TrustCheck>,
}

/// The trust decision that skills are compared with.
struct TrustCheck {
    folder: PathBuf,
    trust: TrustState,
    /// The number of bytes that may still be read.
    room: u64,
}

impl TrustCheck {
    /// Returns how a skill stands whose files are these, and that could be used otherwise.
    fn standing(&self, place: &str, snapshot: &Result<Arc<SkillSnapshot>, String>) -> SkillStatus {
        let held = |why: String| SkillStatus::Held { why };
        let trusted = match &self.trust {
            TrustState::None => return SkillStatus::Untrusted,
            TrustState::WithoutCopy(why) => return held((*why).to_owned()),
            TrustState::As(copies) => copies.get(place),
        };
        match (snapshot, trusted) {
            (Err(why), _) => held(format!("it cannot be compared with what was trusted: {why}")),
            (Ok(_), None) => held("it was added after its folder was trusted".to_owned()),
            (Ok(now), Some(trusted)) if **now == *trusted => SkillStatus::Used,
            (Ok(now), Some(trusted)) => {
                held(format!("it differs from what was trusted: {}", now.summary(trusted)))
            }
        }
    }
}

impl<'a> Walk<'a> {
    fn new(disk: &'a Arc<dyn Disk>, origin: SkillOrigin, within: Option<&'a Path>) -> Walk<'a> {
        Walk { disk, origin, within, seen: HashSet::new(), compared: None }
    }

    fn places(&mut self, base: &Path, found: &mut Skills) {
        for dir in DIRECTORIES {
            self.root(&base.join(dir), found);
        }
    }

    /// Looks through one directory of skills, level by level.
    fn root(&mut self, root: &Path, found: &mut Skills) {
        let mut left = VecDeque::new();
        match self.disk.resolve(root) {
            Ok(real) if self.allows(&real) => left.push_back((real, OsString::new(), 0)),
            Ok(_) => found.note(root, "it leads out of the project and is not followed; copy it there"),
            // Most people have none of most of them.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Err(e) => found.note(root, format!("it cannot be looked at: {e}")),
        }
        let mut directories = 0;
        while let Some((dir, name, depth)) = left.pop_front() {
            match self.disk.inspect(&dir) {
                Ok(info) if info.shape == Shape::Directory && self.seen.insert(info.id) => {}
                _ => continue,
            }
            directories += 1;
            if directories > DIRECTORIES_MAX {
                let what =
                    format!("it has more than {DIRECTORIES_MAX} directories; the rest is not looked at");
                return found.note(root, what);
            }
            self.directory(dir, &name, depth, &mut left, found);
        }
    }

    fn directory(
        &mut self,
        dir: PathBuf,
        name: &OsString,
        depth: usize,
        left: &mut VecDeque<(PathBuf, OsString, usize)>,
        found: &mut Skills,
    ) {
        let mut entries = match self.disk.list(&dir) {
            Ok(entries) => entries,
            Err(e) => return found.note(&dir, format!("it cannot be listed: {e}; look at its rights")),
        };
        if let Some(file) = skill_file(&entries) {
            if depth > 0 {
                return self.found(dir, name, &file, found);
            }
            found.note(&dir.join(&file), "it is passed over; put it in a directory of its own");
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries.into_iter().filter(|entry| !is_passed_over(&entry.name)) {
            let path = dir.join(&entry.name);
            let real = match entry.shape {
                Shape::Directory => path,
                Shape::Link => match self.linked(&path, found) {
                    Some(real) => real,
                    None => continue,
                },
                Shape::File | Shape::Special => continue,
            };
            if depth == DEPTH_MAX {
                let what = format!("what is deeper than {DEPTH_MAX} directories is not looked at");
                return found.note(&dir, what);
            }
            left.push_back((real, entry.name, depth + 1));
        }
    }

    /// Adds a skill, compared with what was trusted if it lies where that is needed.
    fn found(&mut self, dir: PathBuf, name: &OsString, file: &OsString, found: &mut Skills) {
        let origin = self.origin;
        let compared = self.compared.as_mut().filter(|compared| dir.starts_with(&compared.folder));
        let Some(compared) = compared else {
            return found.all.push(Skill::load(self.disk, dir, name, file, origin, None));
        };
        let place = dir.strip_prefix(&compared.folder).unwrap_or(&dir).to_string_lossy().into_owned();
        let snapshot = SkillSnapshot::take(&**self.disk, &dir, origin, &mut compared.room).map(Arc::new);
        let mut skill = Skill::load(self.disk, dir, name, file, origin, snapshot.clone().ok());
        if skill.standing == SkillStatus::Used {
            skill.standing = compared.standing(&place, &snapshot);
        }
        if let Ok(snapshot) = snapshot {
            found.copies.insert(place, (*snapshot).clone());
        }
        found.all.push(skill);
    }

    /// The directory that a link leads to, if it may.
    fn linked(&self, path: &Path, found: &mut Skills) -> Option<PathBuf> {
        let Ok(real) = self.disk.resolve(path) else {
            found.note(path, "it is a link that leads nowhere");
            return None;
        };
        let is_directory = self.disk.inspect(&real).is_ok_and(|info| info.shape == Shape::Directory);
        if !is_directory {
            return None;
        }
        if !self.allows(&real) {
            found.note(path, "it is a link out of the project and is not followed; copy what it leads to");
            return None;
        }
        Some(real)
    }

    fn allows(&self, real: &Path) -> bool {
        self.within.is_none_or(|within| real.starts_with(within))
    }
}

impl Skills {
    fn note(&mut self, path: &Path, what: impl Into<String>) {
        self.notes.push(SearchNote { path: path.to_owned(), what: what.into() });
    }
}

/// The folder of a project that somebody works in somewhere: the nearest one above that git knows, but not the user's
/// home, and else where he is.
pub fn project_of(disk: &dyn Disk, cwd: &Path, user: Option<&Path>) -> PathBuf {
    let Ok(cwd) = disk.resolve(cwd) else { return cwd.to_owned() };
    let user = user.and_then(|user| disk.resolve(user).ok());
    let below_home = cwd.ancestors().take_while(|dir| user.as_deref() != Some(*dir));
    let mut known = below_home.filter(|dir| disk.inspect(&dir.join(".git")).is_ok());
    known.next().map_or_else(|| cwd.clone(), Path::to_owned)
}

/// The directories from the nearest to the farthest.
const DIRECTORIES: [&str; 3] = [".manent/skills", ".agents/skills", ".claude/skills"];
const DEPTH_MAX: usize = 6;
/// The number of directories that are searched below one root.
const DIRECTORIES_MAX: usize = 2000;
