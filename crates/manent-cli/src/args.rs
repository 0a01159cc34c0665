//! What can be typed, exactly as it is typed: no file is looked at and nothing is resolved here.

pub(crate) mod agent;
pub(crate) mod export;
pub(crate) mod memory;
pub(crate) mod retro;
pub(crate) mod run;
#[cfg(target_os = "linux")]
pub(crate) mod sandbox;
pub(crate) mod skills;
pub(crate) mod train;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::AnsiColor;
use clap::builder::FalseyValueParser;
use clap::{Args as ClapArgs, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use manent::human_time::parse_duration;

use crate::when::{Since, Until};
use crate::{context, term};

/// Keep what AI agents say and do, in plain files that lose nothing.
#[derive(Debug, Parser)]
#[command(name = "manent", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Reads the command line. What is wrong with it is said without a character that a terminal would obey: it may hold
/// text from anywhere.
pub(crate) fn parse(typed: impl Iterator<Item = OsString>) -> Result<Args, ExitCode> {
    let typed: Vec<OsString> = typed.collect();
    let color = color_typed(&typed);
    let command = Args::command().color(match color {
        Color::Auto => clap::ColorChoice::Auto,
        Color::Always => clap::ColorChoice::Always,
        Color::Never => clap::ColorChoice::Never,
    });
    let parsed = command.try_get_matches_from(typed).and_then(|matches| Args::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let plain = error.render().to_string();
        match plain.strip_prefix("error: ") {
            Some(message) => context::say(color, "error", AnsiColor::Red, &term::block(message.trim_end())),
            // Help and version, which hold nothing that was typed.
            None => drop(error.print()),
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// What `--color` was given, known before anything else is: mistakes on the command line obey it too.
fn color_typed(typed: &[OsString]) -> Color {
    let words: Vec<&str> = typed.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let after = words.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let value = after.or_else(|| words.iter().find_map(|word| word.strip_prefix("--color=")));
    value.and_then(|value| Color::from_str(value, true).ok()).unwrap_or_default()
}

#[derive(Debug, ClapArgs)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that was typed or not")]
pub(crate) struct Global {
    /// The directory of the store [default: manent in the data directory of the user]
    #[arg(long, global = true, env = "MANENT_HOME", hide_env_values = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
    /// No notes: only what was asked for and what went wrong
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Say more
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Write also on network and unknown file systems, where appends and locks may not be safe
    #[arg(long, global = true, env = "MANENT_ANY_FILESYSTEM", hide_env_values = true)]
    #[arg(value_parser = FalseyValueParser::new())]
    pub(crate) any_filesystem: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Talk with a model; every turn is kept
    Chat(agent::Chat),
    /// Append to a session; a new key starts a new one
    Append(Append),
    /// Show what a session holds
    Show(Show),
    /// Write a session as a transcript to read, or as its records, to a file or elsewhere
    Export(export::Export),
    /// Find turns by their words, in live and archived sessions
    Search(Search),
    /// Show exactly what a model sees of a session, and what it takes
    Context(Context),
    /// Make what a model sees of a session smaller; nothing is removed
    Compact(Compact),
    /// Make memory of what was said: what happened, and what is worth remembering, with proof
    Consolidate(agent::Consolidate),
    /// List the sessions, newest first
    Sessions(Sessions),
    /// Put sessions away, packed; they are read as before
    Archive(Moved),
    /// Make archived sessions live again
    Unarchive(Moved),
    /// Move sessions to the trash, or remove them for good
    Rm(Remove),
    /// Bring sessions back from the trash
    Restore(Moved),
    /// Begin a new session that goes on from a record of another, without copying it
    Fork(Fork),
    /// Give a session a title
    Title(Title),
    /// What is remembered across sessions: add, forget, list, search, and where it came from
    Memory(memory::Memory),
    /// What models can be taught by files: list, show, check skills, and whose are used
    Skills(skills::Skills),
    /// What skills did, with every attempt: run and record, list, show, judge
    Run(run::Run),
    /// Look back on what skills did: how often they succeed, what goes wrong, what changed
    Retro(retro::Retro),
    /// Make data sets of what skills did, to train models on
    Train(train::Train),
    /// Show where the commands of an agent would run, and try to get out of there
    #[cfg(target_os = "linux")]
    Sandbox(sandbox::Sandbox),
    /// Count what there is, and say what could be put away
    Stats(Stats),
    /// Check every byte of sessions (all, the memory and the runs, if none is named)
    Verify(Keys),
    /// Set torn ends aside and acknowledge damage, so that it is known and no longer an alarm
    Repair(Repair),
    /// Look whether everything is as it should be: store, sessions, memory, runs, index, disk, clock
    Doctor,
    /// Show what can be set, what it is set to, and where
    Config,
    /// Make the index anew from the sessions
    Reindex,
    /// Print completions for a shell
    Completions(Completions),
    /// Print a manual page
    Man(Man),
}

#[derive(Debug, ClapArgs)]
#[command(after_help = APPEND_EXAMPLES)]
pub(crate) struct Append {
    /// The session
    pub(crate) key: String,
    /// What to append; from standard input if it is left out or '-'
    pub(crate) text: Option<String>,
    /// Who said it
    #[arg(long, default_value = "user", value_name = "ROLE")]
    pub(crate) role: String,
    /// Read one JSON record a line from standard input; receipts come as soon as records are durable
    #[arg(long, conflicts_with_all = ["role", "text"])]
    pub(crate) jsonl: bool,
    /// What a receipt promises: sync and group survive power loss, flush survives kill -9
    #[arg(long, value_enum, default_value_t, value_name = "LEVEL")]
    pub(crate) durability: Level,
    /// Append only if the (first) record gets this number; 1: the session must be new
    #[arg(long, value_name = "N")]
    pub(crate) expect_seq: Option<u64>,
    /// Idempotency key: a retry with the same key adds no second record and returns the first receipt. With
    /// --jsonl, each turn may have one as its member `idempotency_key`
    #[arg(long = "key", value_name = "NAME", conflicts_with = "jsonl")]
    pub(crate) idempotency_key: Option<String>,
    /// How long to wait if another process is writing
    #[arg(long, value_parser = parse_duration, default_value = "5s", value_name = "TIME")]
    pub(crate) wait: Duration,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    #[default]
    Sync,
    Group,
    Flush,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct Show {
    /// The session: its key (the live one, else the newest archived), or @ and the beginning of its id
    pub(crate) key: String,
    /// Only the last N turns
    #[arg(long, value_name = "N", conflicts_with = "from")]
    pub(crate) tail: Option<u64>,
    /// From this record on
    #[arg(long, value_name = "SEQ")]
    pub(crate) from: Option<u64>,
    /// Go on as the session grows, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only the texts, as they are, one after the other; never to a terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = SEARCH_NOTES)]
pub(crate) struct Search {
    /// What to look for: words that must all be in a turn
    #[arg(value_name = "QUERY")]
    pub(crate) words: Vec<String>,
    /// Only what these roles said: user, or user,assistant
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// Only what was said since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only what was said until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Until>,
    /// Only in the sessions of this key, of keys that begin so ('tele*'), or in @ and the beginning of an id
    #[arg(long, value_name = "KEY")]
    pub(crate) session: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Context {
    /// The session: its key (the live one, else the newest archived), or @ and the beginning of its id
    pub(crate) key: String,
    /// As it was at this record: what the model saw when it gave that answer
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    /// Count four bytes a token instead of asking a vocabulary
    #[arg(long)]
    pub(crate) estimate: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Compact {
    /// The session
    pub(crate) key: String,
    /// Take the last compaction back
    #[arg(long)]
    pub(crate) undo: bool,
    /// What a context may take; it is made a good deal smaller than that [default: what `manent config` says]
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// How many messages it may have [default: what `manent config` says]
    #[arg(long, value_name = "N")]
    pub(crate) max_messages: Option<usize>,
    /// Have the model of `manent config` sum up; else the sentences that name most are quoted
    #[arg(long, conflicts_with = "undo")]
    pub(crate) with_model: bool,
    #[command(flatten)]
    pub(crate) model: agent::ModelChoice,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Stats {
    /// Over how many days to count turns
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=3660))]
    pub(crate) days: u16,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Sessions {
    /// Those that were archived
    #[arg(long, conflicts_with = "trash")]
    pub(crate) archived: bool,
    /// Those in the trash
    #[arg(long)]
    pub(crate) trash: bool,
    /// Only those with something newer: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// At most so many
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Keys {
    /// The sessions: keys, or @ and the beginning of an id
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub(crate) keys: Keys,
    /// How long to wait if another process is writing
    #[arg(long, value_parser = parse_duration, default_value = "5s", value_name = "TIME")]
    pub(crate) wait: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Moved {
    /// The sessions: keys, or @ and the beginning of an id
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = RM_NOTES)]
pub(crate) struct Remove {
    #[command(flatten)]
    pub(crate) sessions: Moved,
    /// Remove for good: every session of the key, live, archived and in the trash (with @ID, that one)
    #[arg(long)]
    pub(crate) purge: bool,
    /// With --purge: their forks too, which would otherwise keep a copy of what they share
    #[arg(long, requires = "purge")]
    pub(crate) with_forks: bool,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, ClapArgs)]
#[command(after_help = FORK_EXAMPLES)]
pub(crate) struct Fork {
    /// The session: its key, or @ and the beginning of its id
    pub(crate) key: String,
    /// The key of the new session [default: the old one with -fork behind it]
    #[arg(value_name = "NEWKEY")]
    pub(crate) new_key: Option<String>,
    /// The last record to share [default: the last there is]
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: Option<u64>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Title {
    /// The session
    pub(crate) key: String,
    /// The title; empty: the first thing the user said, as before
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Wait {
    /// How long to wait if another process is writing
    #[arg(long = "wait", value_parser = parse_duration, default_value = "5s", value_name = "TIME")]
    pub(crate) time: Duration,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Man {
    /// The page of this command [default: the page of manent itself]
    pub(crate) command: Option<String>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 3 damage found, 4 not found, 5 held by another writer,
            6 conflict (expected seq, or a session in the way), 7 unknown (the record may be kept),
            130 interrupted, 129 hung up, 143 terminated";

const RM_NOTES: &str = "\
What is in the trash stays there until it is purged; `manent restore` brings it back.
A purge cannot be undone; on a terminal it asks.";

const FORK_EXAMPLES: &str = "\
Examples:
  manent fork work                    # go on from the end, as work-fork
  manent fork work --at 12 other-way  # go on from record 12";

const APPEND_EXAMPLES: &str = "\
Examples:
  manent append work 'remember the milk'
  git diff | manent append work --role tool
  manent append work 'done' --key job-17    # exit code 7, or killed? The same again is safe
  manent show old --json | manent append new --jsonl";

const SEARCH_NOTES: &str = "\
In a query:
  milk eggs          both words, in any order, whatever their case and accents
  '\"to the letter\"'  these words in a row
  'migrat*'          words that begin so
  red OR green       one of them
  -- milk -eggs      the first without the second; after --, because it looks like an option
  role:user  session:work  since:7d  until:2026-11-01    as the options
If no turn has all the words, those that fit best are shown.

Examples:
  manent search what did we decide about the database
  manent search --since 7d --role assistant 'deadlock OR timeout'
  manent search milk --json | jq -r .session | sort | uniq -c";

const SHOW_EXAMPLES: &str = "\
Examples:
  manent show work --tail 10
  manent show work -f
  manent show work --json | jq -r 'select(.role == \"user\") | .content'";
