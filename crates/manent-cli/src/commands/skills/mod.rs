//! `manent skills …`: what models can be taught by files.

mod diff;
mod doctor;
mod list;
mod show;
mod trust;
mod untrust;
mod validate;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::Store;
use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_agent::skills::{Problem, Skill, SkillDirs, SkillStatus, Skills, TrustedFolders, project_of};

use super::subcommands;
use crate::commands::prelude::*;
use crate::context::user_home;

subcommands! {
    /// What models can be taught by files: list, show, check skills, and whose are used
    #[command(after_help = PLACES)]
    SkillsCommand {
        List(list::SkillsListArgs),
        Show(show::SkillsShowArgs),
        Validate(validate::SkillsValidateArgs),
        Doctor(doctor::SkillsDoctorArgs),
        /// Show how the skills of a folder differ from what was trusted
        Diff(diff::SkillsDiffArgs),
        /// Use the skills of a folder as they are now, and show what changed since they were last trusted
        Trust(trust::SkillsTrustArgs),
        /// No longer use the skills of a folder
        Untrust(untrust::SkillsUntrustArgs),
    }
}

// The folder whose skills are trusted or not.
#[derive(Debug, Args)]
pub(crate) struct Folder {
    /// The folder, or one in it [default: where you are]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Returns the skills that count in the current directory, and warns of those that are held back.
pub(crate) fn skills_here(context: &Context<'_>, store: &Store) -> Result<Skills, Failure> {
    let skills = SkillsHere::new(context, store)?.skills(context);
    note_held(context, &skills);
    Ok(skills)
}

/// The current directory, and the places of its skills.
struct SkillsHere {
    disk: Arc<dyn Disk>,
    store: Store,
    /// The directory of the store.
    home: PathBuf,
    user: Option<PathBuf>,
    cwd: PathBuf,
}

impl SkillsHere {
    /// Opens the store for a command about skills.
    fn open(context: &Context<'_>) -> Result<SkillsHere, Failure> {
        SkillsHere::new(context, &context.store(WAIT)?)
    }

    fn new(context: &Context<'_>, store: &Store) -> Result<SkillsHere, Failure> {
        let cwd = std::env::current_dir().map_err(|e| {
            Failure::failed(format!("the current directory is not known: {e}; go to one that is there"))
        })?;
        let (disk, store, home) = (RealDisk::shared(), store.clone(), context.home()?);
        Ok(SkillsHere { disk, store, home, user: user_home(), cwd })
    }

    /// Returns the folder whose skills count in a directory.
    fn project(&self, dir: &Path) -> PathBuf {
        project_of(&*self.disk, dir, self.user.as_deref())
    }

    /// Returns the skills that count in the current directory.
    fn skills(&self, context: &Context<'_>) -> Skills {
        self.skills_of(context, self.project(&self.cwd))
    }

    fn skills_of(&self, context: &Context<'_>, project: PathBuf) -> Skills {
        let trusted = TrustedFolders::load(&self.store);
        if let Some(trouble) = trusted.trouble() {
            context.warn(trouble);
        }
        let places =
            SkillDirs { project: Some(project), user: self.user.clone(), store: Some(self.home.clone()) };
        Skills::find(&self.disk, &places, &trusted)
    }
}

/// Warns of skills that are held back because they are not what was trusted.
fn note_held(context: &Context<'_>, skills: &Skills) {
    for skill in &skills.all {
        if let SkillStatus::Held { why } = &skill.standing {
            let name = skill.name();
            context.warn(&format!("the skill {name} is held back: {why}; {HELD_HINT}"));
        }
    }
}

/// Notes that there are skills which are not used because their folder is not trusted.
fn note_untrusted(context: &Context<'_>, skills: &Skills) {
    note_held(context, skills);
    let count = skills.all.iter().filter(|skill| skill.standing == SkillStatus::Untrusted).count();
    if count > 0 {
        let (are, them) = if count == 1 { ("skill is", "it") } else { ("skills are", "them") };
        context.note(&format!(
            "{count} {are} not used, because this folder is not trusted; look at {them} with `manent skills show`, \
             then `manent skills trust`"
        ));
    }
}

/// Returns the reason why a skill is not used, or `None` if it is used.
fn reason(skill: &Skill) -> Option<String> {
    match &skill.standing {
        SkillStatus::Used => None,
        SkillStatus::Untrusted => {
            Some("its folder is not trusted; `manent skills trust` changes that".to_owned())
        }
        SkillStatus::Held { why } => Some(why.clone()),
        SkillStatus::Shadowed { by } => Some(format!("the one in {} goes before it", by.display())),
        SkillStatus::Skipped(problem) => Some(problem.to_string()),
    }
}

fn json_of_problem(problem: &Problem) -> Value {
    json!({
        "rule": problem.rule.word(), "grade": problem.rule.grade().word(), "line": problem.line,
        "what": problem.what,
    })
}

/// Returns the members that every list shows of a skill.
fn json_of(skill: &Skill) -> Value {
    json!({
        "name": skill.name(), "where": skill.origin.word(), "state": skill.standing.word(),
        "reason": reason(skill), "dir": skill.dir.to_string_lossy(), "description": skill.manifest.description,
        "for_models": !skill.manifest.disable_model_invocation, "hash": skill.hash,
        "problems": skill.problems.iter().map(json_of_problem).collect::<Vec<_>>(),
    })
}

/// The wait for another process that notes a decision at the same time.
const WAIT: Duration = Duration::from_secs(5);
const HELD_HINT: &str =
    "`manent skills diff` shows what changed, `manent skills trust` trusts it as it is now";
const PLACES: &str = "\
Skills are looked for in .manent/skills, .agents/skills and .claude/skills of the project (the
nearest directory above that git knows) and of your home, and in skills/ of the store. Of two with
the same name the first counts. Those of a project are used once you trust its folder, as they were
then: what is added or changed later is held back until you trust it again. So are those of your
home that lie in the folder that you work in, where a command of a model could change them.";
