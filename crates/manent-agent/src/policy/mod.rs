//! What tools may do: rules, and what a person allowed.
//!
//! Looking is free, everything else asks, and rules of the user change that. Of several rules that match, a deny goes
//! before an ask, and that before an allow. What a person allowed goes before an ask, never before a deny. Where nobody
//! can be asked, ask means no.
//!
//! Rules are the user's: they come from the configuration of the store, never from the project that is worked on.
//!
//! ```toml
//! [[policy.rule]]
//! tool = "run_command"
//! prefix = ["cargo", "test"]
//! decision = "allow"
//! match = ["cargo test -p x"]        # examples, tried when the rules are read
//! not_match = ["cargo publish"]
//!
//! [[policy.rule]]
//! tool = "edit_file"
//! path = "docs/**"
//! decision = "allow"
//! ```
//!
//! Some calls only a person can allow, each time: a change of a protected file, and a command that is to write into a
//! repository ([`PreparedCall::once_because`]).
//!
//! None of this is a wall. Whoever may run a command may do with it what that command can do; what holds it is the
//! sandbox.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`ToolPolicy`]: deciding, and keeping what a person allowed |
//! | `rules.rs` | [`PolicyRules`]: reading them, and which of them match |
//! | `shell_line.rs` | a line of shell as far as it is understood; its tests ask real shells |
//! | `prefix.rs` | [`Prefix`]: which prefixes of commands can be allowed, and for how long |
//! | `approvals.rs` | [`Approvals`]: what a person allowed, for a session or a project |
//! | `error.rs` | [`PolicyError`] |

mod approvals;
mod error;
mod prefix;
mod rules;
mod shell_line;

use std::fmt;

use crate::tools::{self, CallSubject, PreparedCall, ToolEffect};
use approvals::ApprovedCalls;
use rules::Rule;
use shell_line::ShellLine;

pub use approvals::Approvals;
pub use error::PolicyError;
pub use prefix::{Prefix, READERS, RUNNERS};
pub use rules::PolicyRules;

/// The permission for a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// The call is made without asking.
    Allow,
    /// A person says.
    Ask,
    /// The call is refused.
    Deny,
}

impl Permission {
    /// The word for it, in rules and records.
    pub fn word(self) -> &'static str {
        match self {
            Permission::Allow => "allow",
            Permission::Ask => "ask",
            Permission::Deny => "deny",
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A permission and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The permission.
    pub permission: Permission,
    /// The reason, in a sentence for a person; for a refusal also for the model.
    pub why: String,
}

impl Decision {
    fn new(permission: Permission, why: impl Into<String>) -> Decision {
        Decision { permission, why: why.into() }
    }
}

/// The availability of a person who can approve calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approver {
    /// A person at a terminal.
    Person,
    /// No person can be asked, so that what would be asked is denied.
    Nobody,
}

/// The time for which a person allows calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalScope {
    /// The call is allowed this time.
    Once,
    /// The call is allowed for the lifetime of this policy.
    Session,
    /// The call is allowed in this workspace from now on.
    Project,
}

/// The set of calls that a person approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// The same command; the same file, with this tool.
    Same,
    /// Commands that begin with these words: for a project only those of [`READERS`], never those of [`RUNNERS`].
    Prefix(Vec<String>),
    /// Every call of the tool. Not for commands.
    Tool,
}

/// Decides which tool calls may be made.
#[derive(Debug)]
pub struct ToolPolicy {
    rules: PolicyRules,
    approvals: Approvals,
}

impl ToolPolicy {
    /// Makes a policy of rules and of the calls that a person allowed before.
    pub fn new(rules: PolicyRules, approvals: Approvals) -> ToolPolicy {
        ToolPolicy { rules, approvals }
    }

    /// Decides whether a call may be made.
    pub fn decide(&self, prepared: &PreparedCall, asking: Approver) -> Decision {
        let decision = match &prepared.subject {
            CallSubject::Command(command) => self.decide_command(prepared.tool, command),
            CallSubject::Path(_) | CallSubject::Record => self.decide_other(prepared),
        };
        let decision = match prepared.once_because {
            // Neither a rule nor an earlier answer stands for a person here.
            Some(why) if decision.permission != Permission::Deny => ask_once(why, asking),
            _ => decision,
        };
        if decision.permission == Permission::Ask && asking == Approver::Nobody {
            let why = format!("{}, and nobody is there to be asked; a rule could allow it", decision.why);
            return Decision { permission: Permission::Deny, why };
        }
        decision
    }

    /// Keeps what a person allowed. For the project, it is on the disk when this returns.
    pub fn remember(
        &mut self,
        prepared: &PreparedCall,
        answer: ApprovalScope,
        grant: &Grant,
    ) -> Result<(), PolicyError> {
        if answer == ApprovalScope::Once {
            return Ok(());
        }
        if let Some(why) = prepared.once_because {
            return Err(PolicyError::NoGrant { what: prepared.what.clone(), why });
        }
        let allowed = allowed(prepared, answer, grant)?;
        self.approvals.add(prepared.tool, allowed, answer)
    }

    /// Returns what would be decided about a tool: what its rules say of some of its calls, what a person allowed, then
    /// what holds for all others.
    pub fn outlook(&self, tool: &str, asking: Approver) -> Vec<Decision> {
        let mut all: Vec<Decision> = self.rules.of_tool(tool).map(Rule::outlook).collect();
        all.sort_by_key(|decision| std::cmp::Reverse(decision.permission));
        all.extend(self.approvals.outlook(tool));
        let rest = match tools::effect_of(tool) {
            _ if self.approvals.holds(tool, &ApprovedCalls::Tool) => {
                Decision::new(Permission::Allow, "you allowed this before")
            }
            Some(effect) => by_default(effect),
            None => Decision::new(Permission::Allow, "it only reads"),
        };
        all.push(rest);
        for decision in all.iter_mut().filter(|decision| decision.permission == Permission::Ask) {
            if asking == Approver::Nobody {
                decision.permission = Permission::Deny;
                decision.why.push_str(", and nobody is there to be asked");
            }
        }
        all
    }

    /// Returns the prefix that a person may be offered to allow, or `None` if only the very same can be allowed.
    pub fn prefix_of(prepared: &PreparedCall) -> Option<Prefix> {
        let CallSubject::Command(command) = &prepared.subject else { return None };
        Prefix::of(&ShellLine::read(command))
    }

    fn decide_command(&self, tool: &str, command: &str) -> Decision {
        let line = ShellLine::read(command);
        let rules: Vec<&Rule> = self.rules.of_tool(tool).collect();
        let hit = |of| rules.iter().find(|rule| rule.permission == of && rule.takes_any(&line));
        if let Some(rule) = hit(Permission::Deny) {
            return rule.decision();
        }
        if self.approvals.holds(tool, &ApprovedCalls::Same(command.to_owned())) {
            return Decision::new(Permission::Allow, "you allowed this command before");
        }
        if let Some(rule) = hit(Permission::Ask) {
            return rule.decision();
        }
        if let Some(rule) = rules.iter().find(|rule| rule.permission == Permission::Allow && rule.takes_all())
        {
            return rule.decision();
        }
        let ask = |why: String| Decision::new(Permission::Ask, why);
        if let Some(why) = &line.unclear {
            return ask(format!("the command {why}"));
        }
        let is_allowed = |words: &Vec<String>| {
            rules.iter().any(|rule| rule.permission == Permission::Allow && rule.takes_words(words))
                || self.approvals.allows_prefix(tool, words)
        };
        if let Some(words) = line.commands.iter().find(|words| !is_allowed(words)) {
            return ask(format!("no rule allows `{}`", shell_line::display_words(words)));
        }
        Decision::new(Permission::Allow, "rules, or what you allowed before, allow every part of it")
    }

    fn decide_other(&self, prepared: &PreparedCall) -> Decision {
        let path = match &prepared.subject {
            CallSubject::Path(path) => path.as_str(),
            _ => "",
        };
        let matching = self.rules.of_tool(prepared.tool).filter(|rule| rule.takes_path(path));
        // The first of those with the strictest permission.
        let strictest = matching.reduce(|a, b| if b.permission > a.permission { b } else { a });
        if let Some(rule) = strictest.filter(|rule| rule.permission == Permission::Deny) {
            return rule.decision();
        }
        let is_approved = self.approvals.holds(prepared.tool, &ApprovedCalls::Tool)
            || self.approvals.holds(prepared.tool, &ApprovedCalls::Same(path.to_owned()));
        if is_approved {
            return Decision::new(Permission::Allow, "you allowed this before");
        }
        match strictest {
            Some(rule) => rule.decision(),
            None => by_default(prepared.effect),
        }
    }
}

/// Decides that a person is asked about this one call, or that it is denied where no person can be asked.
fn ask_once(why: &str, asking: Approver) -> Decision {
    let why = format!("{why}: a person allows it each time");
    match asking {
        Approver::Person => Decision { permission: Permission::Ask, why },
        Approver::Nobody => Decision::new(Permission::Deny, format!("{why}, and nobody is there")),
    }
}

/// Returns the default decision, where no rule and no approval applies.
fn by_default(effect: ToolEffect) -> Decision {
    let (permission, why) = match effect {
        ToolEffect::Read => (Permission::Allow, "looking is free"),
        ToolEffect::Write => (Permission::Ask, "changing files needs your word"),
        ToolEffect::Run => (Permission::Ask, "running commands needs your word"),
        ToolEffect::Record => (Permission::Ask, "remembering needs your word"),
    };
    Decision::new(permission, why)
}

fn allowed(
    prepared: &PreparedCall,
    answer: ApprovalScope,
    grant: &Grant,
) -> Result<ApprovedCalls, PolicyError> {
    let cannot = |why: &'static str| Err(PolicyError::NoGrant { what: prepared.what.clone(), why });
    match (grant, &prepared.subject) {
        (Grant::Same, CallSubject::Command(command)) => Ok(ApprovedCalls::Same(command.clone())),
        (Grant::Same, CallSubject::Path(path)) => Ok(ApprovedCalls::Same(path.clone())),
        (Grant::Same, CallSubject::Record) => cannot("it is never the same twice; allow the tool, or once"),
        (Grant::Tool, CallSubject::Command(_)) => {
            cannot("not every command can be allowed; allow some, by a rule")
        }
        (Grant::Tool, _) => Ok(ApprovedCalls::Tool),
        (Grant::Prefix(words), CallSubject::Command(command)) => {
            let line = ShellLine::read(command);
            let begins = |command: &&Vec<String>| command.starts_with(words);
            let Some(seen) = line.commands.iter().find(begins).filter(|_| !words.is_empty()) else {
                return cannot("it does not begin so");
            };
            if prefix::runs_others(words) {
                return cannot("whatever begins so can run anything; allow this very command, or once");
            }
            if prefix::is_reader(words) {
                return Ok(ApprovedCalls::Prefix(words.clone()));
            }
            if answer == ApprovalScope::Project {
                return cannot(
                    "arguments of this program may write files or run programs; allow this very command, or the \
                     prefix in this chat",
                );
            }
            Ok(ApprovedCalls::PrefixWith { words: words.clone(), options: prefix::options(seen) })
        }
        (Grant::Prefix(_), _) => cannot("only commands have a prefix; allow the file, or the tool"),
    }
}

/// The warning at each prefix whose program is not one of [`READERS`], wherever it is offered or listed.
pub const MAY_CHANGE: &str = "may run programs and change files here";
