//! Rules: read with their examples, which must hold; and which of them match.

use globset::GlobMatcher;
use serde::Deserialize;

use super::error::PolicyError;
use super::shell_line::{self, ShellLine};
use super::{Decision, MAY_CHANGE, Permission, prefix};
use crate::tools;

/// The rules that the user wrote.
#[derive(Debug, Clone, Default)]
pub struct PolicyRules {
    rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    number: usize,
    tool: String,
    what: RuleTarget,
    pub(super) permission: Permission,
    because: Option<String>,
}

/// The calls that a rule applies to.
#[derive(Debug, Clone)]
enum RuleTarget {
    /// Every call of the tool.
    All,
    /// Commands that begin with these words.
    Beginning(Vec<String>),
    /// Files.
    Path(GlobMatcher),
}

/// A rule as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    tool: String,
    prefix: Option<Vec<String>>,
    path: Option<String>,
    decision: Permission,
    because: Option<String>,
    #[serde(default, rename = "match")]
    matching: Vec<String>,
    #[serde(default)]
    not_match: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    policy: Section,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(default)]
    rule: Vec<RuleText>,
}

impl PolicyRules {
    /// Reads the `[[policy.rule]]` parts of a TOML text; other parts are somebody else's.
    pub fn read(text: &str) -> Result<PolicyRules, PolicyError> {
        let file: File = toml::from_str(text).map_err(|e| {
            let why = e.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
            PolicyError::Unreadable(why)
        })?;
        let written = file.policy.rule.into_iter().enumerate();
        let rules = written.map(|(at, written)| Rule::of(at + 1, written)).collect::<Result<_, _>>()?;
        Ok(PolicyRules { rules })
    }

    pub(super) fn of_tool(&self, tool: &str) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.tool == tool)
    }

    /// The files that tools may not read, as patterns, for [`tools::Tools::without`]: a search looks into files that
    /// no call names.
    pub fn unreadable(&self) -> Vec<String> {
        let denies = |rule: &&Rule| rule.permission == Permission::Deny && rule.tool == READ_FILE;
        let pattern = |rule: &Rule| match &rule.what {
            RuleTarget::Path(glob) => Some(glob.glob().glob().to_owned()),
            _ => None,
        };
        self.rules.iter().filter(denies).filter_map(pattern).collect()
    }
}

impl Rule {
    fn of(number: usize, written: RuleText) -> Result<Rule, PolicyError> {
        let RuleText { tool, prefix, path, decision: permission, because, matching, not_match } = written;
        let in_short = format!("{permission} {tool}");
        let wrong = |why: String| PolicyError::Rule { number, rule: in_short.clone(), why };
        if !tools::names().any(|name| name == tool) {
            let names = tools::names().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!("there is no such tool; the tools are {names}")));
        }
        let what = match (prefix, path) {
            (None, None) => RuleTarget::All,
            (Some(words), None) if tool == RUN_COMMAND => {
                let is_word = |word: &String| !word.is_empty() && !word.contains(char::is_whitespace);
                if words.is_empty() || !words.iter().all(is_word) {
                    return Err(wrong(r#"prefix must be words like ["cargo", "test"]"#.to_owned()));
                }
                RuleTarget::Beginning(words)
            }
            (None, Some(path)) if FILE_TOOLS.contains(&tool.as_str()) => {
                RuleTarget::Path(tools::glob(&path).map_err(wrong)?.compile_matcher())
            }
            (Some(_), _) => return Err(wrong(format!("only {RUN_COMMAND} has a prefix"))),
            (None, Some(_)) => return Err(wrong(format!("only {} have a path", FILE_TOOLS.join(", ")))),
        };
        let rule = Rule { number, tool, what, permission, because };
        let examples = [(matching, true), (not_match, false)];
        for (example, should) in
            examples.iter().flat_map(|(examples, should)| examples.iter().map(move |e| (e, *should)))
        {
            if rule.takes_example(example) != should {
                let does = if should { "does not match" } else { "matches" };
                return Err(PolicyError::Example {
                    number,
                    rule: rule.words(),
                    does,
                    example: example.clone(),
                });
            }
        }
        Ok(rule)
    }

    /// Returns true if the rule alone decides about an example: an allow rule must understand and cover all of it, the
    /// others any part.
    fn takes_example(&self, example: &str) -> bool {
        if self.tool != RUN_COMMAND {
            return self.takes_path(example);
        }
        let line = ShellLine::read(example);
        match self.permission {
            Permission::Allow if self.takes_all() => true,
            Permission::Allow => {
                line.unclear.is_none() && line.commands.iter().all(|words| self.takes_words(words))
            }
            Permission::Ask | Permission::Deny => self.takes_any(&line),
        }
    }

    /// Returns true if the rule covers every call of its tool, understood or not.
    pub(super) fn takes_all(&self) -> bool {
        matches!(self.what, RuleTarget::All)
    }

    /// Returns true if the rule covers a simple command, word for word.
    pub(super) fn takes_words(&self, words: &[String]) -> bool {
        match &self.what {
            RuleTarget::All => true,
            RuleTarget::Beginning(beginning) => words.starts_with(beginning),
            RuleTarget::Path(_) => false,
        }
    }

    /// Returns true if the rule covers any part of a line, or might.
    pub(super) fn takes_any(&self, line: &ShellLine) -> bool {
        match &self.what {
            RuleTarget::All => true,
            RuleTarget::Beginning(beginning) => line.may_run(beginning),
            RuleTarget::Path(_) => false,
        }
    }

    /// Returns true if the rule covers a file.
    pub(super) fn takes_path(&self, path: &str) -> bool {
        match &self.what {
            RuleTarget::All => true,
            RuleTarget::Path(glob) => glob.is_match(path),
            RuleTarget::Beginning(_) => false,
        }
    }

    pub(super) fn decision(&self) -> Decision {
        let verb = match self.permission {
            Permission::Allow => "allows",
            Permission::Ask => "has you asked about",
            Permission::Deny => "denies",
        };
        let because = self.because.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let why = format!("rule {} {verb} {}{because}", self.number, self.about());
        Decision { permission: self.permission, why }
    }

    /// Returns the decision as lists show it: marked as the user's own, with what it makes possible.
    pub(super) fn outlook(&self) -> Decision {
        let Decision { permission, mut why } = self.decision();
        why.push_str("; your rule in config.toml");
        let is_wide = match &self.what {
            RuleTarget::All => self.tool == RUN_COMMAND,
            RuleTarget::Beginning(words) => !prefix::is_reader(words),
            RuleTarget::Path(_) => false,
        };
        if is_wide && permission == Permission::Allow {
            why = format!("{why}, {MAY_CHANGE}");
        }
        Decision { permission, why }
    }

    fn words(&self) -> String {
        format!("{} {}", self.permission, self.about())
    }

    fn about(&self) -> String {
        match &self.what {
            RuleTarget::All => self.tool.clone(),
            RuleTarget::Beginning(words) => format!("{} `{}`", self.tool, shell_line::display_words(words)),
            RuleTarget::Path(glob) => format!("{} {}", self.tool, glob.glob().glob()),
        }
    }
}

const RUN_COMMAND: &str = "run_command";
const READ_FILE: &str = "read_file";
/// A search is about many files: it passes over those that may not be read.
const FILE_TOOLS: [&str; 3] = [READ_FILE, "write_file", "edit_file"];
