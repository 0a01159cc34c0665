//! What a person allowed: for a session in memory, for a project in a list in the store.
//!
//! The list, `approvals.jsonl`, has a line of JSON for each answer, with the workspace by its path behind all links. It
//! is only ever added to, and believed only if nobody else can write it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent::log::fs::Disk;
use serde_json::{Value, json};

use super::Answer;
use super::error::PolicyError;
use crate::ledger;

/// What a person allowed.
#[derive(Debug, Default)]
pub struct Approvals {
    allowed: HashSet<(String, Allowed)>,
    list: Option<List>,
    trouble: Option<String>,
}

/// One thing that is allowed with a tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Allowed {
    /// This very command or path.
    Same(String),
    /// Commands that begin with these words.
    Beginning(Vec<String>),
    /// All.
    Tool,
}

/// Where the answers for a project are kept.
#[derive(Debug)]
struct List {
    disk: Arc<dyn Disk>,
    store: PathBuf,
    workspace: PathBuf,
}

impl Approvals {
    /// What was allowed in a workspace, by the list in the home of a store. Whatever is wrong with that, there is an
    /// answer: then nothing is allowed.
    pub fn load(disk: &Arc<dyn Disk>, store: &Path, workspace: &Path) -> Approvals {
        let path = store.join(FILE_NAME);
        let nothing = |why: String| Approvals {
            trouble: Some(format!("nothing that you allowed before counts, because {why}")),
            ..Approvals::default()
        };
        let workspace = match disk.resolve(workspace) {
            Ok(real) => real,
            Err(e) => return nothing(format!("{} cannot be found: {e}", workspace.display())),
        };
        let list = List { disk: Arc::clone(disk), store: store.to_owned(), workspace };
        match ledger::read(&**disk, &path) {
            Ok(lines) => {
                let allowed = read(&lines, &list.workspace);
                Approvals { allowed, list: Some(list), trouble: None }
            }
            Err(why) => Approvals { list: Some(list), ..nothing(format!("{} {why}", path.display())) },
        }
    }

    /// Why nothing is allowed, if the list could not be used.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) fn holds(&self, tool: &str, allowed: &Allowed) -> bool {
        self.allowed.contains(&(tool.to_owned(), allowed.clone()))
    }

    /// Whether commands that begin as this one does are allowed.
    pub(super) fn allows_beginning(&self, tool: &str, words: &[String]) -> bool {
        (1..=words.len()).any(|n| self.holds(tool, &Allowed::Beginning(words[..n].to_vec())))
    }

    pub(super) fn add(&mut self, tool: &str, allowed: Allowed, answer: Answer) -> Result<(), PolicyError> {
        if answer == Answer::Project {
            self.note(tool, &allowed)?;
        }
        self.allowed.insert((tool.to_owned(), allowed));
        Ok(())
    }

    fn note(&self, tool: &str, allowed: &Allowed) -> Result<(), PolicyError> {
        let not_noted = |file: PathBuf, why: String| PolicyError::NotNoted { file, why };
        let Some(List { disk, store, workspace }) = &self.list else {
            return Err(not_noted(
                FILE_NAME.into(),
                "there is no store; allow it for the session".to_owned(),
            ));
        };
        let file = store.join(FILE_NAME);
        let Some(workspace) = workspace.to_str() else {
            let why = "the path of the workspace is not UTF-8; allow it for the session".to_owned();
            return Err(not_noted(file, why));
        };
        let mut line = json!({"workspace": workspace, "tool": tool});
        match allowed {
            Allowed::Same(what) => line["same"] = what.as_str().into(),
            Allowed::Beginning(words) => line["beginning"] = words.clone().into(),
            Allowed::Tool => line["all"] = true.into(),
        }
        line["ts"] = manent::now().into();
        ledger::add(&**disk, store, &file, &line).map_err(|e| not_noted(file, e.to_string()))
    }
}

/// A line of any other shape allows nothing.
fn read(lines: &[Value], workspace: &Path) -> HashSet<(String, Allowed)> {
    let one = |line: &Value| {
        if Path::new(line["workspace"].as_str()?) != workspace {
            return None;
        }
        let allowed = if let Some(same) = line["same"].as_str() {
            Allowed::Same(same.to_owned())
        } else if let Some(words) = line["beginning"].as_array().filter(|words| !words.is_empty()) {
            let words = words.iter().map(|word| word.as_str().map(str::to_owned));
            Allowed::Beginning(words.collect::<Option<_>>()?)
        } else if line["all"].as_bool() == Some(true) && line["tool"] != "run_command" {
            Allowed::Tool
        } else {
            return None;
        };
        Some((line["tool"].as_str()?.to_owned(), allowed))
    };
    lines.iter().filter_map(one).collect()
}

const FILE_NAME: &str = "approvals.jsonl";
