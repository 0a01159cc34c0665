//! What can be wrong with a skill: one rule each, so that a report can be sorted, counted and looked up.

use std::fmt;

/// A fault of a skill, and its remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The rule that is broken.
    pub rule: SkillRule,
    /// The line of `SKILL.md`, from 1, where there is one to name.
    pub line: Option<u32>,
    /// The fault and its remedy. May contain text from the file.
    pub what: String,
}

impl Problem {
    pub(super) fn new(rule: SkillRule, line: Option<u32>, what: impl Into<String>) -> Problem {
        Problem { rule, line, what: what.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The skill is allowed, and could be better.
    Advice,
    /// The skill is against the specification, and is used all the same.
    Wrong,
    /// The skill cannot be used.
    Fatal,
}

impl Severity {
    /// Returns the word for reports.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Advice => "advice",
            Severity::Wrong => "wrong",
            Severity::Fatal => "fatal",
        }
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident $word:literal $grade:ident,)*) => {
        /// The rules for skills.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum SkillRule {
            $($(#[$doc])* $name,)*
        }

        impl SkillRule {
            /// All rules.
            pub const ALL: &[SkillRule] = &[$(SkillRule::$name,)*];

            /// Returns the word for reports.
            pub fn word(self) -> &'static str {
                match self {
                    $(SkillRule::$name => $word,)*
                }
            }

            /// Returns the severity of breaking the rule.
            pub fn grade(self) -> Severity {
                match self {
                    $(SkillRule::$name => Severity::$grade,)*
                }
            }
        }
    };
}

rules! {
    /// The file can be opened and read.
    Unreadable "unreadable" Fatal,
    /// The file has a size that a model can be given.
    TooLong "too-long" Fatal,
    /// The file is UTF-8 without NUL.
    NotText "not-text" Fatal,
    /// No link leads out of where the skill belongs.
    LeadsOut "leads-out" Fatal,
    /// A skill has frontmatter.
    NoFrontmatter "no-frontmatter" Fatal,
    /// The frontmatter ends.
    NoEnd "frontmatter-end" Fatal,
    /// The frontmatter is short.
    FrontmatterLong "frontmatter-too-long" Fatal,
    /// The frontmatter is YAML, at least with values quoted.
    Yaml "yaml" Fatal,
    /// The frontmatter is a list of fields.
    NotFields "not-fields" Fatal,
    /// A skill has a description.
    NoDescription "description-missing" Fatal,
    /// A skill has a name that can be typed.
    NameUnusable "name-unusable" Fatal,
    /// The frontmatter is the first thing in the file.
    NotFirst "frontmatter-first" Wrong,
    /// The frontmatter is YAML as it stands.
    Mended "yaml-mended" Wrong,
    /// A field stands there once.
    Duplicate "duplicate-field" Wrong,
    /// A field is one that the specification knows.
    Unknown "unknown-field" Wrong,
    /// A value is a string.
    NotString "not-a-string" Wrong,
    /// The name is given.
    NameMissing "name-missing" Wrong,
    /// The name is made of lowercase letters, digits and single hyphens.
    NameForm "name-form" Wrong,
    /// The name has at most 64 characters.
    NameLength "name-length" Wrong,
    /// The name is that of the directory.
    NameDirectory "name-directory" Wrong,
    /// The description has at most 1,024 characters.
    DescriptionLength "description-length" Wrong,
    /// The compatibility has at most 500 characters.
    CompatibilityLength "compatibility-length" Wrong,
    /// The metadata is a map of strings.
    Metadata "metadata-form" Wrong,
    /// The tools are in one string, with blanks between them.
    AllowedTools "allowed-tools-form" Wrong,
    /// `disable-model-invocation` is true or false.
    Disable "disable-model-invocation-form" Wrong,
    /// The file is called `SKILL.md`.
    FileName "file-name" Wrong,
    /// A skill has no more problems than a person would read.
    More "more" Wrong,
    /// A skill has instructions.
    BodyEmpty "body-empty" Advice,
    /// The instructions have at most 500 lines and 5,000 tokens.
    BodyLong "body-long" Advice,
    /// No characters are hidden from readers of the file.
    Hidden "hidden-characters" Advice,
}
