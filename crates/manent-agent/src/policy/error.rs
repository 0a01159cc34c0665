//! What is wrong with rules, or with what a person allowed.

use std::path::PathBuf;

/// Rules that cannot be used, or an answer that cannot be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The text is no TOML, or of another shape.
    #[error("the rules of the policy cannot be read: {0}; mend the `[[policy.rule]]` parts of config.toml")]
    Unreadable(String),
    /// A rule makes no sense.
    #[error("rule {number} of the policy ({rule}) makes no sense: {why}")]
    Rule {
        /// The position of the rule, from 1.
        number: usize,
        /// The rule in words.
        rule: String,
        /// The fault and its remedy.
        why: String,
    },
    /// A rule does not do what its examples say.
    #[error(
        "rule {number} of the policy ({rule}) {does} {example:?}, and its examples say otherwise; change the rule or \
         the example"
    )]
    Example {
        /// The position of the rule, from 1.
        number: usize,
        /// The rule in words.
        rule: String,
        /// `matches` or `does not match`.
        does: &'static str,
        /// The example.
        example: String,
    },
    /// A call that cannot be allowed in this way.
    #[error("`{what}` cannot be allowed for longer in this way: {why}")]
    NoGrant {
        /// The call.
        what: String,
        /// The reason and the alternatives.
        why: &'static str,
    },
    /// The list of what is allowed could not be written.
    #[error("cannot note what you allowed in {}: {why}", file.display())]
    NotNoted {
        /// The list.
        file: PathBuf,
        /// The error of the system, or the fault of the ledger.
        why: String,
    },
}
