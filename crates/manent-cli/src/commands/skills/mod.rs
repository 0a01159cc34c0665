//! `manent skills …`: what models can be taught by files.

mod diff;
mod doctor;
mod list;
mod show;
mod trust;
mod validate;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent::Store;
use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_agent::skills::{Problem, Skill, SkillDirs, SkillStatus, Skills, TrustedFolders, project_of};
use serde_json::{Value, json};

use crate::args::skills::{self as args, SkillsCommand};
use crate::context::{Context, user_home};
use crate::exit::{Exit, Failure};

pub(crate) fn run(context: &Context<'_>, given: &args::Skills) -> Result<Exit, Failure> {
    let here = Here::new(context, &context.store(WAIT)?)?;
    match &given.command {
        SkillsCommand::List => list::run(context, &here),
        SkillsCommand::Show(given) => show::run(context, &here, given),
        SkillsCommand::Validate(given) => validate::run(context, &here, given),
        SkillsCommand::Doctor(given) => doctor::run(context, &here, given),
        SkillsCommand::Diff(given) => diff::run(context, &here, given),
        SkillsCommand::Trust(given) => trust::trust(context, &here, given),
        SkillsCommand::Untrust(given) => trust::untrust(context, &here, given),
    }
}

/// All skills that count where somebody types.
pub(crate) fn skills_here(context: &Context<'_>, store: &Store) -> Result<Skills, Failure> {
    let skills = Here::new(context, store)?.skills(context);
    note_held(context, &skills);
    Ok(skills)
}

/// Where somebody types, and what belongs to that.
struct Here {
    disk: Arc<dyn Disk>,
    store: Store,
    /// The home of the store.
    home: PathBuf,
    user: Option<PathBuf>,
    cwd: PathBuf,
}

impl Here {
    fn new(context: &Context<'_>, store: &Store) -> Result<Here, Failure> {
        let cwd = std::env::current_dir().map_err(|e| {
            Failure::new(
                Exit::Failed,
                format!("the current directory is not known: {e}; go to one that is there"),
            )
        })?;
        let (disk, store, home) = (RealDisk::shared(), store.clone(), context.home()?);
        Ok(Here { disk, store, home, user: user_home(), cwd })
    }

    /// The folder whose skills count in a directory.
    fn project(&self, dir: &Path) -> PathBuf {
        project_of(&*self.disk, dir, self.user.as_deref())
    }

    /// All skills that count where somebody types.
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

/// Says which skills are held back because they are not what was trusted.
fn note_held(context: &Context<'_>, skills: &Skills) {
    for skill in &skills.all {
        if let SkillStatus::Held { why } = &skill.standing {
            let name = skill.name();
            context.warn(&format!("the skill {name} is held back: {why}; {HELD_HINT}"));
        }
    }
}

/// Says that there are skills which are not used because of trust.
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

/// Why a skill is not used; nothing if it is.
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

/// What every list says of a skill.
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
