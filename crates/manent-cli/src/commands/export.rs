//! `manent export KEY`: a session as a transcript to read, or as its records, on standard output or in a file.
//!
//! A file is written beside its place, synced, and renamed: whoever looks sees all of it or nothing. In a transcript
//! nothing is left that would drive a terminal; the records are what they are.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;
use std::time::Duration;

use manent::{LogEnd, LogItem, Reader, Record, Start, Store, StreamId};
use serde_json::Value;

use super::show::open;
use crate::args::export::{Export, Form};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::new_file::NewFile;
use crate::output::Output;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Export) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let form = if context.output().json { Form::Json } else { given.to };
    match given.output.as_deref().filter(|path| path.as_os_str() != "-") {
        None => {
            let mut sink = Sink::Standard(context.output());
            write(context, &store, &given.key, form, &mut sink)?;
            sink.end()?;
        }
        Some(path) => {
            let mut file = NewFile::begin(path, given.force)?;
            write(context, &store, &given.key, form, &mut Sink::File(&mut file))?;
            file.end()?;
            context.note(&format!("{} is written to {}", given.key, path.display()));
        }
    }
    Ok(Exit::Done)
}

fn write(
    context: &Context<'_>,
    store: &Store,
    name: &str,
    form: Form,
    to: &mut Sink<'_>,
) -> Result<(), Failure> {
    let (at, mut reader) = open(store, name, Start::First)?;
    if form == Form::Md {
        let title = title(store, &at)?;
        to.text(&format!("# {}\n\n", line(&title)))?;
        to.text(&format!("Session {}", code(at.key.as_str())))?;
        let id = if at.id.is_empty() { String::new() } else { format!(" ({})", line(&at.id)) };
        to.text(&format!("{id}, {}.\n", at.place.word()))?;
    }
    each(context, &at, &mut reader, |record| match form {
        Form::Json => to.record(record.line()),
        Form::Md => to.text(&transcript(record)),
    })?;
    if let LogEnd::Torn(torn) = reader.end() {
        let what = "bytes at the end are no record, and are left out";
        context.warn(&format!("{}: the last {} {what}; `manent verify` tells", at.key, torn.length));
    }
    Ok(())
}

/// Every record but the header. What cannot be read is named.
fn each(
    context: &Context<'_>,
    at: &StreamId,
    reader: &mut Reader,
    mut act: impl FnMut(&Record<'_>) -> io::Result<()>,
) -> Result<(), Failure> {
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Damage(damage) => context.warn_of_damage(&at.key, &damage),
            LogItem::Entry(entry) if entry.seq == 0 && entry.verified => {}
            LogItem::Entry(entry) => match Record::of(&entry) {
                Some(record) => act(&record)?,
                None => context.warn(&format!("{}: record {} is not UTF-8", at.key, entry.seq)),
            },
        }
    }
    Ok(())
}

/// The title that was given, or the first thing that the user said, or the key.
fn title(store: &Store, at: &StreamId) -> Result<String, Failure> {
    let (mut given, mut first) = (String::new(), String::new());
    let mut reader = store.read(at, Start::First)?;
    while let Some(item) = reader.next()? {
        let LogItem::Entry(entry) = item else { continue };
        let Some(record) = Record::of(&entry) else { continue };
        if record.kind().as_deref() == Some("title") {
            given = record.string("title").unwrap_or_default().into_owned();
        } else if first.is_empty() && record.role().as_deref() == Some("user") {
            let content = record.content();
            let line = content.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            first = line.chars().take(TITLE_CHARS_MAX).collect();
        }
    }
    let title = [given, first].into_iter().find(|title| !title.trim().is_empty());
    Ok(title.unwrap_or_else(|| at.key.to_string()))
}

/// A record for a reader. What is no turn is told in a line, or not at all.
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
    let time = when::parse_ms(&ts).map_or_else(|| line(&ts).into_owned(), when::minute);
    let name = record.string("name").map(|name| format!(" {}", code(&name))).unwrap_or_default();
    let mut text = format!("\n## {}{name} · {time} · {}\n", line(&role), record.seq());
    let content = record.content();
    let content = content.replace("\r\n", "\n");
    if role == "tool" {
        text.push_str(&fenced("", &content));
        for (member, word) in [("exit_code", "exit code"), ("failed", "failed"), ("decision", "decision")] {
            if let Some(value) = record.member(member) {
                let _ = write!(text, "\n{word}: {}\n", line(value));
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

/// The calls of a turn, each with what it was given.
fn calls_of(json: &str) -> String {
    let Ok(Value::Array(calls)) = serde_json::from_str(json) else { return fenced("json", json) };
    let mut text = String::new();
    for call in &calls {
        let function = call.get("function").unwrap_or(call);
        let name = function.get("name").and_then(Value::as_str).unwrap_or("?");
        let given = match function.get("arguments") {
            // Providers write JSON into a string.
            Some(Value::String(written)) => match serde_json::from_str::<Value>(written) {
                Ok(value) => format!("{value:#}"),
                Err(_) => written.clone(),
            },
            Some(value) => format!("{value:#}"),
            None => String::new(),
        };
        let _ = write!(text, "\ncalls {}\n{}", code(name), fenced("json", &given));
    }
    text
}

/// A block that nothing in it can end: its fence is longer than any in it.
fn fenced(language: &str, text: &str) -> String {
    let text = term::block(text);
    let fence = "`".repeat(longest_run(&text).max(2) + 1);
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// A word in a line, whatever is in it.
fn code(text: &str) -> String {
    let text = line(text);
    let ticks = "`".repeat(longest_run(&text) + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{blank}{text}{blank}{ticks}")
}

fn longest_run(text: &str) -> usize {
    let (mut longest, mut now) = (0, 0);
    for c in text.chars() {
        now = if c == '`' { now + 1 } else { 0 };
        longest = longest.max(now);
    }
    longest
}

fn line(text: &str) -> Cow<'_, str> {
    term::line(text)
}

/// Where it goes.
enum Sink<'a> {
    Standard(Output),
    File(&'a mut NewFile),
}

impl Sink<'_> {
    fn text(&mut self, text: &str) -> io::Result<()> {
        match self {
            Sink::Standard(output) => output.text(text),
            Sink::File(file) => file.write(text.as_bytes()),
        }
    }

    fn record(&mut self, line: &str) -> io::Result<()> {
        match self {
            Sink::Standard(output) => output.json_line(line),
            Sink::File(file) => {
                file.write(line.as_bytes())?;
                file.write(b"\n")
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        match self {
            Sink::Standard(output) => output.flush(),
            Sink::File(_) => Ok(()),
        }
    }
}

const TITLE_CHARS_MAX: usize = 80;
