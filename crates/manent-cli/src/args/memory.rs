//! What can be typed behind `manent memory`.

use clap::{Args as ClapArgs, Subcommand};
use manent::memory::{ItemError, Kind, SourceKind};

use super::Wait;
use crate::when::{Since, Until};

#[derive(Debug, ClapArgs)]
pub(crate) struct Memory {
    #[command(subcommand)]
    pub(crate) command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Remember something
    Add(Add),
    /// Forget items; `compact` then removes them from the file
    Forget(Forget),
    /// List what is remembered, newest first
    List(List),
    /// Find items by their words
    Search(Search),
    /// Show where an item came from, with what was said around it
    Why(Why),
    /// Show what a model would be given for a question
    Select(Select),
    /// Look for duplicates, contradictions, secrets, and what rests on nothing
    Audit,
    /// Rewrite the file without what was forgotten
    Compact(Wait),
    /// Show what was proposed to be remembered and waits for you
    Inbox,
    /// Remember what waits in the inbox
    Accept(Forget),
    /// Throw away what waits in the inbox
    Reject(Forget),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct Add {
    /// What to remember; from standard input if it is left out or '-'
    pub(crate) text: Option<String>,
    /// fact, pref, context or daily
    #[arg(long, default_value = "fact", value_name = "KIND", value_parser = kind)]
    pub(crate) kind: Kind,
    /// A label; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// The item that this one replaces; it is hidden until this one is forgotten
    #[arg(long, value_name = "ID")]
    pub(crate) replaces: Option<u64>,
    /// Who says so: user, model or import
    #[arg(long = "from", default_value = "user", value_name = "WHO", value_parser = who)]
    pub(crate) who: SourceKind,
    /// The session in which it was said: its key, or @ and the beginning of its id
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// The record in which it was said, or the first and the last: 12, 12-14
    #[arg(long, value_name = "SEQ", requires = "session", value_parser = range)]
    pub(crate) seq: Option<(u64, u64)>,
    /// The words it rests on, as they were said there
    #[arg(long, value_name = "WORDS", requires = "seq")]
    pub(crate) quote: Option<String>,
    /// The model that took it from there
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Forget {
    /// The items
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<u64>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Only of this kind: fact, pref, context or daily; may be given several times
    #[arg(long = "kind", value_name = "KIND", value_parser = kind)]
    pub(crate) kinds: Vec<Kind>,
    /// Only with this label; given several times, with all of them
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Only from: user, model or import
    #[arg(long = "from", value_name = "WHO", value_parser = who)]
    pub(crate) who: Vec<SourceKind>,
    /// Only what was said in the session of this key
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// Only what was remembered since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only what was remembered until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Until>,
    /// Those that newer items replace, instead
    #[arg(long)]
    pub(crate) replaced: bool,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Search {
    /// What to look for, as in `manent search`
    #[arg(value_name = "QUERY")]
    pub(crate) words: Vec<String>,
    /// Only of this kind: fact, pref, context or daily; may be given several times
    #[arg(long = "kind", value_name = "KIND", value_parser = kind)]
    pub(crate) kinds: Vec<Kind>,
    /// Only what was remembered since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only what was remembered until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Until>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Why {
    /// The item
    pub(crate) id: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Select {
    /// What is asked
    #[arg(value_name = "QUESTION")]
    pub(crate) words: Vec<String>,
    /// How many tokens there are for it
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) tokens: u64,
}

fn kind(word: &str) -> Result<Kind, ItemError> {
    word.parse()
}

fn who(word: &str) -> Result<SourceKind, ItemError> {
    word.parse()
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last && first > 0 => Ok((first, last)),
        _ => Err("a record has a number, and a passage two: 12, 12-14".to_owned()),
    }
}

const ADD_EXAMPLES: &str = "\
Examples:
  manent memory add 'the staging database is read-only on Sundays' --tag ops
  manent memory add --kind pref 'answers in French'
  manent memory add 'lives in Berlin' --replaces 12
  manent memory add 'prefers tabs' --from model --session work --seq 3 --quote 'I prefer tabs'";
