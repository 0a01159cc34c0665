//! `edit_file`: a text in a file replaced by another, where it stands exactly once.
//!
//! It works on bytes, so that whatever else is in the file stays as it is: bytes that are no UTF-8, marks at its
//! beginning, line ends. A model writes line feeds; in a file whose lines end with CRLF, it means that.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;

use super::arguments::{Parameter, ParameterType, ToolSpec};
use super::error::ToolError;
use super::file_edit::{self, FileEdit};
use super::workspace::{FILE_BYTES_MAX, ResolvedPath, Workspace};
use super::{PreparedCall, ToolEffect, Tools, text};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "edit_file",
    effect: ToolEffect::Write,
    about: "Replace a text in a file. The old text must stand there exactly once, to the blank.",
    parameters: &[
        Parameter::required("path", ParameterType::Text, "Path from the workspace"),
        Parameter::required("old", ParameterType::Text, "The text as it stands"),
        Parameter::required("new", ParameterType::Text, "The text instead"),
        Parameter::optional("all", ParameterType::Truth, "Replace it everywhere"),
    ],
    prepare,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

fn prepare(tools: &Tools, raw: &str) -> Result<PreparedCall, ToolError> {
    let arguments: Arguments = SPEC.read(raw)?;
    if arguments.old.is_empty() {
        return Err(SPEC.wrong("\"old\" is empty; write_file makes a file".to_owned()));
    }
    if arguments.old == arguments.new {
        return Err(SPEC.wrong("\"old\" and \"new\" are the same".to_owned()));
    }
    let file = tools.workspace.existing(&arguments.path)?;
    let compute = move |workspace: &Workspace, file: &ResolvedPath| edit(workspace, file, &arguments);
    file_edit::prepare(&SPEC, "edit", &tools.workspace, file, compute)
}

/// Computes the edit, or the message about a text that occurs not at all or too often.
fn edit(workspace: &Workspace, file: &ResolvedPath, arguments: &Arguments) -> Result<FileEdit, ToolError> {
    let before = workspace.read(file)?;
    let unfit = |why: String| file.unfit(why);
    if let Some(what) = text::binary(&before) {
        return Err(unfit(format!("is {what} and cannot be edited; run a command")));
    }
    let Arguments { old, new, all, .. } = arguments;
    let (old, new, places) = find(&before, old, new);
    match places.len() {
        0 => return Err(unfit(missed(&before, &arguments.old))),
        1 => {}
        _ if *all => {}
        count => {
            let lines = numbers(&before, &places);
            return Err(unfit(format!(
                "holds \"old\" {count} times, at the lines {lines}; add lines around it until it stands there \
                     once, or set \"all\" to true"
            )));
        }
    }
    let grown = places.len().saturating_mul(new.len()).saturating_add(before.len());
    if grown as u64 > FILE_BYTES_MAX * 2 {
        return Err(unfit(format!("would have up to {grown} bytes then; replace less at once")));
    }
    let after = replaced(&before, &places, old.len(), new.as_bytes());
    let lines = numbers(&before, &places);
    let message = format!("edited {} at line {lines}", file.shown);
    Ok(FileEdit { before: Some(before), after, message })
}

/// Both texts with the line ends of the file, and where the old one stands.
fn find<'a>(bytes: &[u8], old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>, Vec<usize>) {
    let pairs = memmem::find_iter(bytes, "\r\n").count();
    let is_crlf = pairs * 2 > memchr::memchr_iter(b'\n', bytes).count();
    let places = all_of(bytes, old);
    if !places.is_empty() {
        // With line feeds alone in `old`, it means a part whose lines end so.
        let keeps = !is_crlf || (old.contains('\n') && !old.contains("\r\n"));
        return (old.into(), if keeps { new.into() } else { with_returns(new) }, places);
    }
    if pairs > 0 && old.contains('\n') {
        let old = with_returns(old);
        let places = all_of(bytes, &old);
        return (old, with_returns(new), places);
    }
    (old.into(), new.into(), places)
}

fn with_returns(text: &str) -> Cow<'_, str> {
    if text.contains('\n') { text.replace("\r\n", "\n").replace('\n', "\r\n").into() } else { text.into() }
}

/// Returns the offsets of all occurrences of `text`, including overlapping ones.
fn all_of(bytes: &[u8], text: &str) -> Vec<usize> {
    let finder = memmem::Finder::new(text);
    let (mut places, mut from) = (Vec::new(), 0);
    while let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest)) {
        places.push(from + at);
        from += at + 1;
    }
    places
}

fn replaced(bytes: &[u8], places: &[usize], old_len: usize, new: &[u8]) -> Vec<u8> {
    let mut after = Vec::with_capacity(bytes.len());
    let mut done = 0;
    for &place in places {
        // One that overlaps the one before is gone with it.
        if place >= done {
            after.extend_from_slice(&bytes[done..place]);
            after.extend_from_slice(new);
            done = place + old_len;
        }
    }
    after.extend_from_slice(&bytes[done..]);
    after
}

/// The lines of places, the first of them.
fn numbers(bytes: &[u8], places: &[usize]) -> String {
    let (mut line, mut counted) = (1, 0);
    let mut numbers = Vec::new();
    for &place in places.iter().take(NUMBERS_MAX) {
        line += memchr::memchr_iter(b'\n', &bytes[counted..place]).count();
        counted = place;
        numbers.push(line.to_string());
    }
    let more = if places.len() > NUMBERS_MAX { " and more" } else { "" };
    numbers.join(", ") + more
}

/// Returns the message for a text that does not occur, with similar lines of the file.
fn missed(bytes: &[u8], old: &str) -> String {
    let content = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = content.lines().collect();
    if let Some(line) = blanks_apart(&lines, old) {
        return format!(
            "does not hold \"old\" as it is written: from line {line} on it differs in blanks only. Read those lines \
             and copy them exactly"
        );
    }
    let similar = similar_lines(&lines, old);
    if similar.is_empty() {
        return "does not hold \"old\", nor anything like it; read the file and copy the text exactly"
            .to_owned();
    }
    let shown: Vec<String> = similar
        .iter()
        .map(|&at| format!("{:>6}\t{}", at + 1, text::cut_line(lines[at], SHOWN_CHARS)))
        .collect();
    format!("does not hold \"old\". Lines that are like its first one:\n{}", shown.join("\n"))
}

/// The line from which on the file holds the text but for its blanks.
fn blanks_apart(lines: &[&str], old: &str) -> Option<usize> {
    let wanted: Vec<String> =
        old.lines().map(text::collapse_whitespace).skip_while(String::is_empty).collect();
    let wanted = &wanted[..=wanted.iter().rposition(|line| !line.is_empty())?];
    let lines: Vec<String> =
        lines.iter().take(COMPARED_LINES_MAX).map(|line| text::collapse_whitespace(line)).collect();
    lines.windows(wanted.len()).position(|window| window == wanted).map(|at| at + 1)
}

/// Returns the lines that are most similar to the first one of a text, best first.
fn similar_lines(lines: &[&str], old: &str) -> Vec<usize> {
    let short = |line: &str| line.trim().chars().take(COMPARED_CHARS).collect::<String>();
    let Some(wanted) = old.lines().map(short).find(|line| !line.is_empty()) else { return Vec::new() };
    let near = |a: usize, b: usize| a.min(b) * 2 >= a.max(b);
    let mut scored: Vec<(f64, usize)> = lines
        .iter()
        .take(COMPARED_LINES_MAX)
        .enumerate()
        .map(|(at, line)| (short(line), at))
        .filter(|(line, _)| near(line.len(), wanted.len()))
        .map(|(line, at)| (strsim::normalized_levenshtein(&line, &wanted), at))
        .filter(|(score, _)| *score >= SIMILARITY_MIN)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scored.into_iter().take(SIMILAR_SHOWN).map(|(_, at)| at).collect()
}

const NUMBERS_MAX: usize = 20;
const SIMILARITY_MIN: f64 = 0.6;
const SIMILAR_SHOWN: usize = 3;
/// The number of lines that are compared: comparing takes time.
const COMPARED_LINES_MAX: usize = 20_000;
const COMPARED_CHARS: usize = 100;
const SHOWN_CHARS: usize = 200;
