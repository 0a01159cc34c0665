//! Approvals of a person: for a session in memory, for a project in a ledger of the store.
//!
//! The ledger `approvals` has a line for each answer, with the workspace by its path behind all links. It is only ever
//! appended to, and believed only if nobody else can write it. Earlier versions stored prefixes of any program; only
//! those of [`READERS`](super::READERS) count, the others are named once.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use manent::Store;
use serde_json::{Value, json};

use super::error::PolicyError;
use super::{ApprovalScope, Decision, MAY_CHANGE, Permission, prefix, shell_line};
use crate::ledger::Ledger;

/// The approvals that a person gave.
#[derive(Debug, Default)]
pub struct Approvals {
    allowed: HashSet<(String, ApprovedCalls)>,
    list: Option<ProjectLedger>,
    trouble: Option<String>,
    /// Prefixes in the list that no longer count, and that nobody was told of yet.
    retired: BTreeSet<Vec<String>>,
}

/// A set of calls that are allowed with a tool.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ApprovedCalls {
    /// The same command or path.
    Same(String),
    /// Commands of a program that only reads, beginning with these words.
    Prefix(Vec<String>),
    /// Commands that begin with these words and have no other options than these. For a session only.
    PrefixWith { words: Vec<String>, options: BTreeSet<String> },
    /// Every call of the tool.
    Tool,
}

/// The ledger of approvals for a project.
#[derive(Debug)]
struct ProjectLedger {
    ledger: Ledger,
    workspace: PathBuf,
}

impl Approvals {
    /// Reads what was allowed in a workspace from the ledger of a store. The path must be the one behind all links.
    /// There is always an answer: if something is wrong with the ledger, nothing is allowed.
    pub fn load(store: &Store, workspace: &Path) -> Approvals {
        let ledger = Ledger::approvals(store);
        let (read, trouble) = match ledger.read() {
            Ok(lines) => (read(&lines, workspace), None),
            Err(why) => {
                let path = ledger.path();
                let path = path.display();
                (
                    <_>::default(),
                    Some(format!("nothing that you allowed before counts, because {path} {why}")),
                )
            }
        };
        let (allowed, retired) = read;
        Approvals {
            allowed,
            list: Some(ProjectLedger { ledger, workspace: workspace.to_owned() }),
            trouble,
            retired,
        }
    }

    /// Returns the reason why no earlier approval counts, if the ledger could not be read.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    pub(super) fn holds(&self, tool: &str, allowed: &ApprovedCalls) -> bool {
        self.allowed.contains(&(tool.to_owned(), allowed.clone()))
    }

    /// Returns a note about prefixes that were allowed earlier and no longer count, if there are any that nobody was
    /// told of. Asked again, or by another process, there is no note: that it was given is in the list.
    pub fn take_note(&mut self) -> Option<String> {
        let retired = std::mem::take(&mut self.retired);
        if retired.is_empty() {
            return None;
        }
        let shown: Vec<String> =
            retired.iter().map(|words| format!("`{}`", shell_line::display_words(words))).collect();
        if let Some(ProjectLedger { ledger, workspace }) = &self.list {
            let words: Vec<&Vec<String>> = retired.iter().collect();
            let told = json!({"workspace": workspace.to_str(), "retired": words, "ts": manent::now()});
            // If that cannot be kept, the note is given once more next time.
            let _ = ledger.lease().and_then(|mut writer| writer.append(&told));
        }
        Some(format!(
            "what you allowed earlier for every command that begins with {} no longer counts, because arguments of \
             it may run programs or change files; you are asked again, and a rule in config.toml can allow it",
            shown.join(", ")
        ))
    }

    /// Returns whether a prefix of a command is allowed.
    pub(super) fn allows_prefix(&self, tool: &str, words: &[String]) -> bool {
        self.allowed.iter().filter(|(of, _)| of == tool).any(|(_, allowed)| match allowed {
            ApprovedCalls::Prefix(prefix) => words.starts_with(prefix),
            ApprovedCalls::PrefixWith { words: prefix, options } => {
                words.starts_with(prefix) && prefix::options(words).is_subset(options)
            }
            ApprovedCalls::Same(_) | ApprovedCalls::Tool => false,
        })
    }

    /// Lists what is allowed with a tool beyond its default, sorted.
    pub(super) fn outlook(&self, tool: &str) -> Vec<Decision> {
        let of_tool = self.allowed.iter().filter(|(of, _)| of == tool).map(|(_, allowed)| allowed);
        let mut whys: Vec<String> = of_tool
            .filter_map(|allowed| match allowed {
                ApprovedCalls::Same(what) => {
                    Some(format!("you allowed `{}`", shell_line::display_words(std::slice::from_ref(what))))
                }
                ApprovedCalls::Prefix(words) => {
                    Some(format!("you allowed every `{}`", shell_line::display_words(words)))
                }
                ApprovedCalls::PrefixWith { words, options } => {
                    let options: Vec<String> = options.iter().cloned().collect();
                    let with = match options.as_slice() {
                        [] => "without options".to_owned(),
                        options => {
                            format!("with no other options than {}", shell_line::display_words(options))
                        }
                    };
                    let words = shell_line::display_words(words);
                    Some(format!("you allowed every `{words}` {with} in this chat; {MAY_CHANGE}"))
                }
                ApprovedCalls::Tool => None,
            })
            .collect();
        whys.sort();
        whys.into_iter().map(|why| Decision { permission: Permission::Allow, why }).collect()
    }

    pub(super) fn add(
        &mut self,
        tool: &str,
        allowed: ApprovedCalls,
        answer: ApprovalScope,
    ) -> Result<(), PolicyError> {
        if answer == ApprovalScope::Project {
            self.note(tool, &allowed)?;
        }
        self.allowed.insert((tool.to_owned(), allowed));
        Ok(())
    }

    fn note(&self, tool: &str, allowed: &ApprovedCalls) -> Result<(), PolicyError> {
        let Some(ProjectLedger { ledger, workspace }) = &self.list else {
            let why = "there is no store; allow it for the session".to_owned();
            return Err(PolicyError::NotNoted { file: "approvals".into(), why });
        };
        let not_noted = |why| PolicyError::NotNoted { file: ledger.path(), why };
        let Some(workspace) = workspace.to_str() else {
            let why = "the path of the workspace is not UTF-8; allow it for the session".to_owned();
            return Err(not_noted(why));
        };
        let mut line = json!({"workspace": workspace, "tool": tool});
        match allowed {
            ApprovedCalls::Same(what) => line["same"] = what.as_str().into(),
            ApprovedCalls::Prefix(words) => line["beginning"] = words.clone().into(),
            ApprovedCalls::PrefixWith { .. } => {
                let why = "such a prefix is allowed for a session only".to_owned();
                return Err(not_noted(why));
            }
            ApprovedCalls::Tool => line["all"] = true.into(),
        }
        line["ts"] = manent::now().into();
        ledger.lease().and_then(|mut writer| writer.append(&line)).map_err(not_noted)
    }
}

/// Returns what the lines allow in a workspace, and the prefixes among them that no longer count. A line of any other
/// shape allows nothing.
fn read(lines: &[Value], workspace: &Path) -> (HashSet<(String, ApprovedCalls)>, BTreeSet<Vec<String>>) {
    let (mut allowed, mut retired) = (HashSet::new(), BTreeSet::new());
    let is_here = |line: &&Value| line["workspace"].as_str().is_some_and(|dir| Path::new(dir) == workspace);
    for line in lines.iter().filter(is_here) {
        for told in line["retired"].as_array().into_iter().flatten().filter_map(words) {
            retired.remove(&told);
        }
        let Some(tool) = line["tool"].as_str() else { continue };
        let one = if let Some(same) = line["same"].as_str() {
            ApprovedCalls::Same(same.to_owned())
        } else if let Some(words) = words(&line["beginning"]) {
            if !prefix::is_reader(&words) {
                retired.insert(words);
                continue;
            }
            ApprovedCalls::Prefix(words)
        } else if line["all"].as_bool() == Some(true) && tool != "run_command" {
            ApprovedCalls::Tool
        } else {
            continue;
        };
        allowed.insert((tool.to_owned(), one));
    }
    (allowed, retired)
}

/// Returns the words of a prefix, of which there is at least one.
fn words(value: &Value) -> Option<Vec<String>> {
    let words = value.as_array().filter(|words| !words.is_empty())?;
    words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}
