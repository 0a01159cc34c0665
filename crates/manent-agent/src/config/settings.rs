//! The tables of what can be set: its name, how it is shown and read, and the variables that set it.

use std::ops::RangeBounds;
use std::str::FromStr;

use manent::human_time;

use super::{Config, ConsolidationTrigger, Provider, RetroInterval, format_duration, length};

/// A setting.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The accepted values, for error messages.
    pub(super) wanted: &'static str,
    pub(super) get: fn(&Config) -> String,
    /// Parses and stores a value; `None` if the value is not valid.
    pub(super) set: fn(&mut Config, &str) -> Option<()>,
}

/// Makes the table of settings. A row is `name: field = parse, about, wanted;`, where `parse` returns `None` for an
/// invalid value, and the field is shown by its `Display`, or by the function behind `as`.
macro_rules! settings {
    ($($name:literal: $($field:ident).+ $(as $show:path)? = $parse:expr, $about:literal, $wanted:literal;)*) => {
        pub(super) static SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            about: $about,
            wanted: $wanted,
            get: |config| settings!(@show config.$($field).+ $(, $show)?),
            set: |config, text| $parse(text).map(|value| config.$($field).+ = value),
        },)*];
    };
    (@show $value:expr) => { $value.to_string() };
    (@show $value:expr, $show:path) => { $show($value) };
}

settings! {
    "agent.model": model = named,
        "the model",
        "the name of a model";
    "agent.provider": provider = Provider::of_word,
        "who serves it: auto, ollama, openai, or recall (no model, the record itself)",
        "auto, ollama, openai or recall";
    "agent.max_context_tokens": limits.max_tokens = |text| number(text, 1000..),
        "more tokens than this are compacted",
        "a number, 1000 or more";
    "agent.max_history_messages": limits.max_messages = |text| number(text, 4..),
        "more messages than this are compacted",
        "a number, 4 or more";
    "agent.max_answer_bytes": max_answer_bytes = |text| number(text, 1000..=ANSWER_BYTES_MAX),
        "a longer answer of a model is cut off, and what came is kept",
        "a number of bytes from 1000 to 8388608";
    "agent.max_silence": max_silence as format_duration = length,
        "how long a server may send nothing in an answer; twice as long before its first word",
        "a time like 5m, a second or more";
    "agent.background_timeout": background_timeout as format_duration = length,
        "how long an answer may take that nobody reads as it comes: summaries, consolidation, reports",
        "a time like 10m, a second or more";
    "ollama.url": ollama_url = |text| address(text, "11434"),
        "where Ollama answers",
        "an address like http://127.0.0.1:11434";
    "ollama.keep_alive": ollama_keep_alive = keep_alive,
        "how long Ollama keeps the model in memory",
        "a time like 5m, or -1 for ever";
    "openai.url": openai_url = |text: &str| if text.is_empty() { Some(String::new()) } else { address(text, "") },
        "where a server answers that speaks like OpenAI; empty: none",
        "an address like https://example.org/v1";
    "openai.key_env": openai_key_env = variable,
        "the variable of the environment that has its key",
        "the name of a variable, not the key itself";
    "consolidation.when": consolidate = ConsolidationTrigger::of_words,
        "when what was said becomes memory: turn, every N, idle TIME, end, off",
        "turn, every N, idle TIME, end or off";
    "consolidation.inbox": inbox = parse,
        "what is learned waits until you accept it",
        "true or false";
    "consolidation.tokens_per_day": tokens_per_day = parse,
        "what models may take a day for it, in tokens",
        "a number";
    "retro.every": retro.every = RetroInterval::of_words,
        "how often a report of what skills did is made by itself, if there is news: TIME, off",
        "a time like 1d, a second or more, or off";
    "retro.since": retro.since as format_duration = length,
        "how far back it looks",
        "a time like 30d, a second or more";
    "retro.remember": retro.remember = parse,
        "what it teaches goes into the memory",
        "true or false";
    "retro.with_model": retro.with_model = parse,
        "a model tells what stands out in it",
        "true or false";
}

/// Variables of the environment, each with the name of the setting that it sets.
pub(super) const ENVIRONMENT: [(&str, &str); 4] = [
    ("MANENT_MODEL", "agent.model"),
    ("MANENT_PROVIDER", "agent.provider"),
    ("OLLAMA_HOST", "ollama.url"),
    ("OPENAI_BASE_URL", "openai.url"),
];

fn parse<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn number<T: FromStr + PartialOrd>(text: &str, range: impl RangeBounds<T>) -> Option<T> {
    parse(text).filter(|number| range.contains(number))
}

fn keep_alive(text: &str) -> Option<String> {
    let is_time = text == "-1" || text == "0" || human_time::parse_duration(text).is_ok();
    is_time.then(|| text.to_owned())
}

fn variable(text: &str) -> Option<String> {
    let is_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    (!text.is_empty() && text.bytes().all(is_name)).then(|| text.to_owned())
}

fn named(text: &str) -> Option<String> {
    let is_name = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned())
}

/// An address as people write it: with or without what stands before and behind the name of the host.
fn address(text: &str, port: &str) -> Option<String> {
    if text.is_empty()
        || text.len() > NAME_BYTES_MAX
        || text.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return None;
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    if !matches!(scheme, "http" | "https") || rest.is_empty() || rest.contains('@') {
        return None;
    }
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    // What a server listens on is not where it is reached.
    let host = host.replacen("0.0.0.0", "127.0.0.1", 1);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let port =
        if has_port || port.is_empty() || scheme == "https" { String::new() } else { format!(":{port}") };
    Some(format!("{scheme}://{host}{port}{}", path.trim_end_matches('/')))
}

/// The longest answer: in JSON a byte may take six, and a record of the log has at most 64 MiB.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const NAME_BYTES_MAX: usize = 500;
