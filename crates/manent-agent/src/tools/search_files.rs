//! `search_files`: lines by a pattern, files by their names.
//!
//! What git ignores is passed over, and so are `.git`, links, and what is hidden. Files are opened through the
//! workspace like any other.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;

use globset::GlobMatcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch};
use ignore::{DirEntry, WalkBuilder};
use manent::log::fs::{DiskFile, Shape};
use serde::Deserialize;

use super::arguments::{Parameter, ParameterType, ToolSpec};
use super::error::ToolError;
use super::text::{self, TextPage};
use super::workspace::{ResolvedPath, Workspace, glob};
use super::{CallSubject, Job, PreparedCall, ToolEffect, ToolResult, Tools};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "search_files",
    effect: ToolEffect::Read,
    about: "Find lines by a regular expression, or files by name, or lines in files of a name.",
    parameters: &[
        Parameter::optional("pattern", ParameterType::Text, "Regular expression; (?i) in front ignores case"),
        Parameter::optional("glob", ParameterType::Text, "File names, like *.rs or src/**/*.md"),
        Parameter::optional("path", ParameterType::Text, "Only in this directory or file"),
        Parameter::optional("context", ParameterType::Number { max: CONTEXT_MAX }, "Lines around each match"),
    ],
    prepare,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    pattern: Option<String>,
    glob: Option<String>,
    path: Option<String>,
    context: Option<usize>,
}

struct SearchFilesJob {
    workspace: Arc<Workspace>,
    resolved: ResolvedPath,
    pattern: Option<RegexMatcher>,
    glob: Option<NamePattern>,
    context: usize,
}

/// Files by name.
struct NamePattern {
    matcher: GlobMatcher,
    /// Without a slash, a name in any directory is meant.
    is_name: bool,
}

fn prepare(tools: &Tools, raw: &str) -> Result<PreparedCall, ToolError> {
    let Arguments { pattern, glob, path, context } = SPEC.read(raw)?;
    let pattern = pattern.filter(|pattern| !pattern.is_empty());
    let glob = glob.filter(|glob| !glob.is_empty());
    let sought: Vec<String> =
        [&pattern, &glob].into_iter().flatten().map(|text| text::excerpt(text)).collect();
    if sought.is_empty() {
        return Err(SPEC.wrong("there is neither a \"pattern\" nor a \"glob\"".to_owned()));
    }
    let path = path.filter(|path| !path.is_empty()).unwrap_or_else(|| ".".to_owned());
    let resolved = tools.workspace.existing(&path)?;
    let what = text::what("search", &format!("{} for {}", resolved.shown, sought.join(" in ")));
    let subject = CallSubject::Path(resolved.shown.clone());
    let job = SearchFilesJob {
        workspace: Arc::clone(&tools.workspace),
        resolved,
        pattern: pattern.as_deref().map(matcher).transpose()?,
        glob: glob.as_deref().map(names).transpose()?,
        context: context.unwrap_or(0),
    };
    Ok(SPEC.prepared(subject, what, job))
}

fn matcher(pattern: &str) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new().size_limit(REGEX_BYTES_MAX).line_terminator(Some(b'\n')).build(pattern).map_err(|e| {
        let why = text::excerpt(&e.to_string());
        SPEC.wrong(format!(
            "\"pattern\" is no regular expression ({why}); put a backslash before signs that are meant as they are"
        ))
    })
}

fn names(pattern: &str) -> Result<NamePattern, ToolError> {
    let matcher = glob(pattern).map_err(|why| SPEC.wrong(why))?.compile_matcher();
    Ok(NamePattern { matcher, is_name: !pattern.contains('/') })
}

impl NamePattern {
    /// Returns true if the pattern matches a file, by its path from the workspace or from the start of the search.
    fn take(&self, path: &Path, from: &Path) -> bool {
        if self.is_name {
            return path.file_name().is_some_and(|name| self.matcher.is_match(name));
        }
        self.matcher.is_match(path) || path.strip_prefix(from).is_ok_and(|path| self.matcher.is_match(path))
    }
}

impl Job for SearchFilesJob {
    fn run(&self, stop: &dyn Fn() -> bool) -> Result<ToolResult, ToolError> {
        let mut found = SearchCounts::default();
        let mut page = TextPage::default();
        let is_dir = self.resolved.info.is_some_and(|info| info.shape == Shape::Directory);
        let from = if is_dir { Path::new(&self.resolved.shown) } else { Path::new("") };
        for entry in self.walk() {
            if stop() {
                return Err(ToolError::Stopped);
            }
            let Ok(entry) = entry else {
                found.unread += 1;
                continue;
            };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let Ok(path) = entry.path().strip_prefix(self.workspace.root()) else { continue };
            if self.glob.as_ref().is_some_and(|names| !names.take(path, from)) {
                continue;
            }
            found.files += 1;
            if found.files > FILES_MAX {
                found.unfinished = true;
                break;
            }
            let name = path.to_string_lossy();
            match &self.pattern {
                Some(pattern) => self.search_one(pattern, &name, &mut page, &mut found),
                None => found.show(&mut page, &text::cut_line(&name, text::LINE_CHARS_MAX)),
            }
        }
        Ok(ToolResult::of(self.finish_page(page, &found)))
    }
}

impl SearchFilesJob {
    fn walk(&self) -> ignore::Walk {
        let workspace = Arc::clone(&self.workspace);
        let is_shown = move |entry: &DirEntry| {
            entry.file_name() != ".git" && (entry.depth() == 0 || !workspace.is_hidden(entry.path()))
        };
        WalkBuilder::new(&self.resolved.real)
            // Names with a dot in front are a project's files like others.
            .hidden(false)
            // The same answer on every machine: neither the user's own list nor the need of a repository.
            .git_global(false)
            .require_git(false)
            .follow_links(false)
            .sort_by_file_path(Path::cmp)
            .filter_entry(is_shown)
            .build()
    }

    fn search_one(&self, pattern: &RegexMatcher, name: &str, page: &mut TextPage, found: &mut SearchCounts) {
        let opened = self.workspace.resolve(name).and_then(|resolved| self.workspace.open(&resolved));
        let Ok(file) = opened else {
            found.unread += 1;
            return;
        };
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(LINE_BYTES_MAX))
            .build();
        let mut hits = MatchSink { name, is_named: false, page, found };
        let outcome = searcher.search_reader(pattern, FileReader { file: &*file, offset: 0 }, &mut hits);
        if outcome.is_err() {
            // A line longer than any text has, or a disk that fails.
            found.unread += 1;
        }
    }

    /// Returns the text of the page with a note on what was found and searched.
    fn finish_page(&self, mut page: TextPage, found: &SearchCounts) -> String {
        let matches = if self.pattern.is_some() { "lines match" } else { "files" };
        let mut note = match found.matches {
            0 => "nothing found".to_owned(),
            count if found.shown < count => format!(
                "{} of {count} {matches} shown; narrow the search with a glob, a path or a longer pattern",
                found.shown
            ),
            count => format!("{count} {matches}"),
        };
        if self.pattern.is_some() {
            let _ = write!(note, "; {} files searched", found.files.min(FILES_MAX));
        }
        for (count, what) in [(found.binary, "binary"), (found.unread, "unreadable")] {
            if count > 0 {
                let _ = write!(note, ", {count} of them {what}");
            }
        }
        if found.unfinished {
            let _ = write!(note, "; there are more files: give a path");
        }
        page.note(&note);
        page.text
    }
}

/// Counters of a search.
#[derive(Default)]
struct SearchCounts {
    files: u64,
    matches: u64,
    shown: u64,
    binary: u64,
    unread: u64,
    unfinished: bool,
}

impl SearchCounts {
    /// Counts a match, and shows it if there is room.
    fn show(&mut self, page: &mut TextPage, line: &str) {
        self.matches += 1;
        if self.shown < SHOWN_MAX && page.push(line) {
            self.shown += 1;
        }
    }
}

/// Puts the matches of one file on the page.
struct MatchSink<'a> {
    name: &'a str,
    is_named: bool,
    page: &'a mut TextPage,
    found: &'a mut SearchCounts,
}

impl MatchSink<'_> {
    fn line(number: Option<u64>, sign: char, bytes: &[u8]) -> String {
        let line = String::from_utf8_lossy(bytes);
        let line = text::cut_line(line.trim_end_matches(['\n', '\r']), LINE_CHARS);
        format!("{:>6}{sign} {line}", number.unwrap_or(0))
    }

    fn has_room(&self) -> bool {
        self.found.shown < SHOWN_MAX && !self.page.is_full()
    }

    fn name(&mut self) {
        if !self.is_named && self.has_room() {
            self.page.push(self.name);
            self.is_named = true;
        }
    }
}

impl Sink for MatchSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> io::Result<bool> {
        self.name();
        self.found.show(self.page, &MatchSink::line(matched.line_number(), ':', matched.bytes()));
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.has_room() {
            self.name();
            self.page.push(&MatchSink::line(context.line_number(), '-', context.bytes()));
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.found.binary += u64::from(finish.binary_byte_offset().is_some());
        Ok(())
    }
}

/// A file as a stream.
struct FileReader<'a> {
    file: &'a dyn DiskFile,
    offset: u64,
}

impl io::Read for FileReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.offset)?;
        self.offset += got as u64;
        Ok(got)
    }
}

const CONTEXT_MAX: u64 = 20;
/// Matches that are shown; all are counted.
const SHOWN_MAX: u64 = 200;
const LINE_CHARS: usize = 500;
const FILES_MAX: u64 = 200_000;
const LINE_BYTES_MAX: usize = 64 << 20;
const REGEX_BYTES_MAX: usize = 8 << 20;
