//! The command line: the top-level parser, the options of every command, and argument groups that several commands
//! share. The arguments of one command stand in the file of that command. No file is opened and no name is looked up
//! here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anstyle::AnsiColor;
use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, ValueEnum};
use manent::Durability;
use manent::human_time::parse_duration;

use crate::commands::Command;
use crate::{context, term};

/// Keep what AI agents say and do, in plain files that lose nothing.
#[derive(Debug, Parser)]
#[command(name = "manent", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Parses a command line, or prints what is wrong with it and returns the exit code. The words may hold text from
/// anywhere, so the message is printed without characters that a terminal would obey.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<CommandLine, ExitCode> {
    let words: Vec<OsString> = words.collect();
    let color = color_option(&words);
    let matches = CommandLine::command().color(color).try_get_matches_from(words);
    let parsed = matches.and_then(|matches| CommandLine::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let plain = error.render().to_string();
        match plain.strip_prefix("error: ") {
            Some(message) => context::say(color, "error", AnsiColor::Red, &term::block(message.trim_end())),
            // Help and version quote nothing from the command line.
            None => drop(error.print()),
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
    })
}

/// Returns the value of `--color` before the command line is parsed, because messages about mistakes obey it too.
fn color_option(words: &[OsString]) -> ColorChoice {
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let after = words.windows(2).find(|pair| pair[0] == "--color").map(|pair| pair[1]);
    let value = after.or_else(|| words.iter().find_map(|word| word.strip_prefix("--color=")));
    value.and_then(|value| <ColorChoice as ValueEnum>::from_str(value, true).ok()).unwrap_or_default()
}

// The groups below have no doc comments of their own: clap would show them as the help of the commands.

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that was typed or not")]
pub(crate) struct GlobalArgs {
    /// The directory of the store [default: manent in the data directory of the user]
    #[arg(long, global = true, env = "MANENT_HOME", hide_env_values = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: ColorChoice,
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

// Sessions to read; none means all of them.
#[derive(Debug, Args)]
pub(crate) struct SessionNames {
    /// The sessions: keys, or @ and the beginning of an id
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
}

// Sessions to move, at least one.
#[derive(Debug, Args)]
pub(crate) struct MovedSessions {
    /// The sessions: keys, or @ and the beginning of an id
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<String>,
    #[command(flatten)]
    pub(crate) wait: Wait,
}

#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// How long to wait if another process is writing
    #[arg(long = "wait", value_parser = parse_duration, default_value = "5s", value_name = "TIME")]
    pub(crate) time: Duration,
}

// The model to ask, over what the configuration says.
#[derive(Debug, Args)]
pub(crate) struct ModelChoice {
    /// The model [default: what `manent config` says]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Who serves it: auto, ollama, openai or recall
    #[arg(long, value_name = "WHO")]
    pub(crate) provider: Option<String>,
}

impl ModelChoice {
    /// Returns true if a model or a provider was named, which asks for a model where one is optional.
    pub(crate) fn is_some(&self) -> bool {
        self.model.is_some() || self.provider.is_some()
    }
}

/// Returns a parser of a few words, each of which means a value.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|(word, _)| word)).try_map(move |typed| {
        let found = words.iter().find(|(word, _)| *word == typed);
        found.map(|(_, value)| *value).ok_or("no such value")
    })
}

/// Returns the parser of `--durability`.
pub(crate) fn durability() -> impl TypedValueParser<Value = Durability> {
    one_of([Durability::Sync, Durability::Group, Durability::Flush].map(|level| (level.word(), level)))
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed, 2 usage, 3 damage found, 4 not found, 5 held by another writer,
            6 conflict (expected seq, or a session in the way), 7 unknown (the record may be kept),
            130 interrupted, 129 hung up, 143 terminated";
