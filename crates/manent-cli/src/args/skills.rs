//! What can be typed behind `manent skills`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
pub(crate) struct Skills {
    #[command(subcommand)]
    pub(crate) command: SkillsCommand,
}

#[derive(Debug, Subcommand)]
#[command(after_help = PLACES)]
pub(crate) enum SkillsCommand {
    /// List the skills, and say which are used
    List,
    /// Show what a model gets when a skill is called
    Show(Show),
    /// Check skills against the specification (all that are found, if none is named)
    Validate(Validate),
    /// Show what models are told of the skills, to the letter, and what was cut, skipped or held back
    Doctor(Doctor),
    /// Show how the skills of a folder differ from what was trusted
    Diff(Folder),
    /// Use the skills of a folder as they are now, and show what changed since they were last trusted
    Trust(Folder),
    /// No longer use the skills of a folder
    Untrust(Folder),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// The skill: its name, or a path with a slash in it
    pub(crate) name: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Validate {
    /// A skill's directory, its SKILL.md, or a directory of skills
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// What the catalogue may take [default: 2 % of a context of 32,000, but at least 1,000]
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Folder {
    /// The folder, or one in it [default: where you are]
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

const PLACES: &str = "\
Skills are looked for in .manent/skills, .agents/skills and .claude/skills of the project (the
nearest directory above that git knows) and of your home, and in skills/ of the store. Of two with
the same name the first counts. Those of a project are used once you trust its folder, as they were
then: what is added or changed later is held back until you trust it again. So are those of your
home that lie in the folder that you work in, where a command of a model could change them.";
