//! What can be typed about looking back.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::Wait;
use super::agent::ModelChoice;
use crate::when::{Since, Until};

#[derive(Debug, ClapArgs)]
#[command(after_help = RETRO_NOTES)]
pub(crate) struct Retro {
    /// Only runs since: 30d, 2026-11-01. They are compared with those of as long before
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only runs until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Until>,
    /// Only in this project, or below it: its path, or the end of it; '.' is the current one
    #[arg(long, value_name = "PATH")]
    pub(crate) project: Option<String>,
    /// Only of this skill
    #[arg(long, value_name = "NAME")]
    pub(crate) skill: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// Print Markdown
    #[arg(long, conflicts_with_all = ["json", "html"])]
    pub(crate) md: bool,
    /// Write a page with charts to this file (-: standard output): one file for any browser, without a network
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) html: Option<PathBuf>,
    /// Keep what has enough runs behind it in the memory; said again, it replaces what was said before
    #[arg(long)]
    pub(crate) remember: bool,
    /// Have a model tell what stands out and propose changes to skills; nothing is applied
    #[arg(long)]
    pub(crate) with_model: bool,
    /// Stay, and keep a report in the store up to date: look this often whether there are new runs
    #[arg(long, value_name = "TIME")]
    #[arg(conflicts_with_all = ["until", "project", "skill", "session", "md", "html", "json"])]
    pub(crate) every: Option<String>,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

impl Retro {
    /// Whoever names a model wants one.
    pub(crate) fn wants_model(&self) -> bool {
        self.with_model || self.model.model.is_some() || self.model.provider.is_some()
    }
}

const RETRO_NOTES: &str = "\
Nothing is concluded from fewer than 5 runs. Two rates are called different only if a test says so,
corrected for all that was compared; each statement names runs that it rests on. Runs of unknown
outcome are neither successes nor failures: they are counted apart.

A chat, and --every in a process of its own, make a report of the last 30 days once a day if there
are new runs, and keep it: retro/latest.html and retro/latest.json in the store. However many
processes there are, one makes it. `manent config` has the settings (retro.*).

Examples:
  manent retro --since 30d
  manent retro --since 2026-11 --html november.html
  manent retro --skill review --json | jq '.statements[].text'
  manent retro --every 1d --remember";
