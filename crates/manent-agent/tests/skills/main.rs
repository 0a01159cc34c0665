//! Agent Skills from outside: what is found, read, told to a model and given to it, on real files.
//!
//! | module | about |
//! |---|---|
//! | `corpus` | a `SKILL.md` of every kind that people and vandals write, and what becomes of it |
//! | `discovery` | which directories are searched, which skill shadows which, links, bounds |
//! | `trust` | the ledger of trusted folders |
//! | `trust_changes` | skills that are held back because they differ from what was trusted |
//! | `catalogue` | what a model is told, within its budget, and that nothing breaks out of it |
//! | `activation` | the instructions and files that a model gets when it calls a skill |
//! | `mutations` | thousands of damaged files: no panic, no hang, no way out |

#![expect(clippy::disallowed_methods, reason = "the tests lay out the disk")]
#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod activation;
mod catalogue;
mod corpus;
mod discovery;
mod mutations;
mod trust;
mod trust_changes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::Store;
use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_agent::skills::{Skill, SkillDirs, Skills, TrustedFolders};

/// A project, a user and a store in a directory of their own.
struct World {
    root: tempfile::TempDir,
    disk: Arc<dyn Disk>,
    /// The project is trusted as it is, before each look.
    trusting: bool,
}

impl World {
    fn new() -> World {
        let world = World { root: tempfile::tempdir().unwrap(), disk: RealDisk::shared(), trusting: false };
        for dir in ["project", "user", "store"] {
            std::fs::create_dir_all(world.path(dir)).unwrap();
        }
        world
    }

    /// With the project trusted, whatever is in it.
    fn trusting() -> World {
        World { trusting: true, ..World::new() }
    }

    /// Trusts the project as it is.
    fn trust(&self) -> PathBuf {
        let copies = self.look().copies;
        TrustedFolders::trust(&*self.disk, &self.store(), &self.path("project"), &copies).unwrap()
    }

    fn distrust(&self) -> PathBuf {
        TrustedFolders::distrust(&*self.disk, &self.store(), &self.path("project")).unwrap()
    }

    fn store(&self) -> Store {
        Store::open(self.path("store")).unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    /// Writes a file and the directories that it needs.
    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Writes an ordinary skill.
    fn skill(&self, dir: &str, description: &str) -> PathBuf {
        let name = Path::new(dir).file_name().unwrap().to_str().unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n");
        self.write(&format!("{dir}/SKILL.md"), text).parent().unwrap().to_owned()
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    fn find(&self) -> Skills {
        if self.trusting {
            self.trust();
        }
        self.look()
    }

    fn look(&self) -> Skills {
        let trusted = TrustedFolders::load(&self.store());
        let places = SkillDirs {
            project: Some(self.path("project")),
            user: Some(self.path("user")),
            store: Some(self.path("store")),
        };
        Skills::find(&self.disk, &places, &trusted)
    }

    /// The skill in a directory.
    fn at(&self, dir: &str) -> Skill {
        Skill::at(&self.disk, &self.path(dir)).unwrap()
    }
}

/// Each skill as `name from state`.
fn lines(skills: &Skills) -> Vec<String> {
    let line = |s: &Skill| format!("{} {} {}", s.name(), s.origin.word(), s.standing.word());
    skills.all.iter().map(line).collect()
}
