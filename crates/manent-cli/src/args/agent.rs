//! What can be typed about models.

use clap::Args as ClapArgs;

use super::Wait;

#[derive(Debug, ClapArgs)]
pub(crate) struct ModelChoice {
    /// The model [default: what `manent config` says]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Who serves it: auto, ollama, openai or recall
    #[arg(long, value_name = "WHO")]
    pub(crate) provider: Option<String>,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = CHAT_NOTES)]
pub(crate) struct Chat {
    /// The session [default: a new one, named by the time]
    pub(crate) key: Option<String>,
    /// Go on with the session that was written last
    #[arg(short = 'c', long = "continue", conflicts_with = "key")]
    pub(crate) go_on: bool,
    /// Ask this, print the answer, and end
    #[arg(short = 'p', long = "print", value_name = "QUESTION")]
    pub(crate) question: Option<String>,
    /// Only talk: the model gets no tools
    #[arg(long)]
    pub(crate) no_tools: bool,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = CONSOLIDATE_NOTES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that was typed or not")]
pub(crate) struct Consolidate {
    /// The sessions: keys, or @ and the beginning of an id
    #[arg(value_name = "KEY", required_unless_present = "all")]
    pub(crate) keys: Vec<String>,
    /// Every live session
    #[arg(long, conflicts_with = "keys")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) model: ModelChoice,
    /// Only tell what would be remembered; nothing is written
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Put what is learned into the inbox, where `manent memory accept` takes it from
    #[arg(long)]
    pub(crate) inbox: bool,
    /// Also what was looked at before, but nothing twice by the same model and the same prompt
    #[arg(long)]
    pub(crate) again: bool,
    /// Without a model: what happened is noted in the words that were said, and nothing is learned
    #[arg(long, conflicts_with_all = ["model", "provider"])]
    pub(crate) without_model: bool,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

const CHAT_NOTES: &str = "\
Kill it whenever you like: what you said is on the disk before a model is asked, and an answer before
it counts as given. Without a model server it answers from your own record, and says so.

Examples:
  manent chat work
  git diff | manent chat review
  manent chat -c -p 'and in one sentence?'";

const CONSOLIDATE_NOTES: &str = "\
Each passage is looked at once: what happened becomes a daily entry, and what you said that is worth
remembering becomes a fact, a preference or a context, with your words as its proof. What a model
says and you did not is not remembered. It can be interrupted at any time, and goes on where it was.

Examples:
  manent consolidate work --dry-run
  manent consolidate --all --inbox && manent memory inbox";
