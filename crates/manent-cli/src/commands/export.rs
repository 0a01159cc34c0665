//! `manent export KEY`: a session as a transcript to read, or as its records, on standard output or in a file.
//!
//! A file is written beside its place, synced, and renamed: whoever looks sees all of it or nothing. In a transcript
//! nothing is left that would drive a terminal; the records are what they are.

use std::fmt::Write;
use std::path::PathBuf;

use manent::{LogEnd, LogItem, Record, Start, Store, StreamId};

use super::read_session::{for_each_record, open_session};
use crate::commands::prelude::*;
use crate::new_file::NewFile;

/// Write a session as a transcript to read, or as its records, to a file or elsewhere
#[derive(Debug, Args)]
#[command(after_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportArgs {
    /// The session: its key (the live one, else the newest archived), or @ and the beginning of its id
    key: String,
    /// What to write: a transcript to read, or the records, one a line
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    to: ExportForm,
    /// Write to this file, whole or not at all [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    #[default]
    Md,
    Json,
}

pub(crate) fn run(context: &Context<'_>, args: &ExportArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let form = if context.global.json { ExportForm::Json } else { args.to };
    match args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        None => {
            let mut output = context.output();
            export(context, &store, &args.key, form, |text| match form {
                ExportForm::Md => output.text(text),
                ExportForm::Json => output.json_line(text),
            })?;
            output.flush()?;
        }
        Some(path) => {
            let mut file = NewFile::begin(path, args.force)?;
            let line_end: &[u8] = if form == ExportForm::Json { b"\n" } else { b"" };
            export(context, &store, &args.key, form, |text| {
                file.write(text.as_bytes())?;
                file.write(line_end)
            })?;
            file.end()?;
            context.note(&format!("{} is written to {}", args.key, path.display()));
        }
    }
    Ok(Exit::Done)
}

/// Calls `write` for each part of the export: a piece of the transcript, or the JSON of a record without a line break.
fn export(
    context: &Context<'_>,
    store: &Store,
    name: &str,
    form: ExportForm,
    mut write: impl FnMut(&str) -> io::Result<()>,
) -> Result<(), Failure> {
    let (at, mut reader) = open_session(store, name, Start::First)?;
    if form == ExportForm::Md {
        let title = title(store, &at)?;
        let id = if at.id.is_empty() { String::new() } else { format!(" ({})", term::line(&at.id)) };
        let (key, place) = (code(at.key.as_str()), at.place.word());
        write(&format!("# {}\n\nSession {key}{id}, {place}.\n", term::line(&title)))?;
    }
    for_each_record(context, &at.key, &mut reader, |item| match item {
        Err(damage) => {
            context.warn_of_damage(&at.key, damage);
            Ok(())
        }
        Ok(record) if form == ExportForm::Json => write(record.line()),
        Ok(record) => write(&transcript(record)),
    })?;
    if let LogEnd::Torn(torn) = reader.end() {
        let what = "bytes at the end are no record, and are left out";
        context.warn(&format!("{}: the last {} {what}; `manent verify` tells", at.key, torn.length));
    }
    Ok(())
}

/// Returns the title of a session, or the first thing that the user said, or the key.
fn title(store: &Store, at: &StreamId) -> Result<String, Failure> {
    let (mut title, mut first_line) = (String::new(), String::new());
    let mut reader = store.read(at, Start::First)?;
    while let Some(item) = reader.next()? {
        let LogItem::Entry(entry) = item else { continue };
        let Some(record) = Record::of(&entry) else { continue };
        if record.kind().as_deref() == Some("title") {
            title = record.string("title").unwrap_or_default().into_owned();
        } else if first_line.is_empty() && record.role().as_deref() == Some("user") {
            let content = record.content();
            let line = content.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            first_line = line.chars().take(TITLE_CHARS_MAX).collect();
        }
    }
    let title = [title, first_line].into_iter().find(|title| !title.trim().is_empty());
    Ok(title.unwrap_or_else(|| at.key.to_string()))
}

/// Returns a record as Markdown. A record that is not a turn becomes one line, or nothing.
fn transcript(record: &Record<'_>) -> String {
    let Some(role) = record.role() else {
        return match record.kind().as_deref() {
            Some("compaction") => {
                "\n*From here on the model saw a summary of what came before.*\n".to_owned()
            }
            _ => String::new(),
        };
    };
    let ts = record.ts().unwrap_or_default();
    let time = when::parse_ms(&ts).map_or_else(|| term::line(&ts).into_owned(), when::minute);
    let name = record.string("name").map(|name| format!(" {}", code(&name))).unwrap_or_default();
    let mut text = format!("\n## {}{name} · {time} · {}\n", term::line(&role), record.seq());
    let content = record.content();
    let content = content.replace("\r\n", "\n");
    if role == "tool" {
        text.push_str(&fenced("", &content));
        for (member, word) in [("exit_code", "exit code"), ("failed", "failed"), ("decision", "decision")] {
            if let Some(value) = record.member(member) {
                let _ = write!(text, "\n{word}: {}\n", term::line(value));
            }
        }
    } else if !content.trim().is_empty() {
        text.push('\n');
        text.push_str(&term::block(content.trim_end()));
        text.push('\n');
    }
    if let Some(calls) = record.member("tool_calls") {
        text.push_str(&calls_of(calls));
    }
    text
}

/// Returns the tool calls of a turn as Markdown, each with its arguments.
fn calls_of(json: &str) -> String {
    let Ok(Value::Array(calls)) = serde_json::from_str(json) else { return fenced("json", json) };
    let mut text = String::new();
    for call in &calls {
        let function = call.get("function").unwrap_or(call);
        let name = function.get("name").and_then(Value::as_str).unwrap_or("?");
        let arguments = match function.get("arguments") {
            // Providers write JSON into a string.
            Some(Value::String(written)) => match serde_json::from_str::<Value>(written) {
                Ok(value) => format!("{value:#}"),
                Err(_) => written.clone(),
            },
            Some(value) => format!("{value:#}"),
            None => String::new(),
        };
        let _ = write!(text, "\ncalls {}\n{}", code(name), fenced("json", &arguments));
    }
    text
}

/// Returns a block of code whose fence is longer than any in it, so that nothing in it can end the block.
fn fenced(language: &str, text: &str) -> String {
    let text = term::block(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Returns text as inline code, whatever is in it.
fn code(text: &str) -> String {
    let text = term::line(text);
    let ticks = "`".repeat(longest_run(&text) + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{blank}{text}{blank}{ticks}")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

const TITLE_CHARS_MAX: usize = 80;

const EXPORT_EXAMPLES: &str = "\
Examples:
  manent export work -o work.md
  manent export work --to json | jq -r .content";
