//! `read_file`: lines of a file, numbered.
//!
//! The file is read block by block and never held as a whole: it may be larger than memory, and one line.

use std::fmt::Write as _;
use std::sync::Arc;

use manent::log::fs::{DiskFile, read_fully};
use serde::Deserialize;

use super::arguments::{Parameter, ParameterType, ToolSpec};
use super::error::ToolError;
use super::text::{self, TextPage};
use super::workspace::{ResolvedPath, Workspace, system};
use super::{CallSubject, Job, PreparedCall, ToolEffect, ToolResult, Tools};

pub(super) const SPEC: ToolSpec = ToolSpec {
    name: "read_file",
    effect: ToolEffect::Read,
    about: "Read a text file. Lines come with their numbers, which are not part of the file.",
    parameters: &[
        Parameter::required("path", ParameterType::Text, "Path from the workspace"),
        Parameter::optional("offset", ParameterType::Number { max: 1 << 40 }, "First line, from 1"),
        Parameter::optional("limit", ParameterType::Number { max: 1 << 40 }, "How many lines"),
    ],
    prepare,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    offset: Option<u64>,
    limit: Option<u64>,
}

struct ReadFileJob {
    workspace: Arc<Workspace>,
    resolved: ResolvedPath,
    first: u64,
    limit: u64,
}

fn prepare(tools: &Tools, raw: &str) -> Result<PreparedCall, ToolError> {
    let Arguments { path, offset, limit } = SPEC.read(raw)?;
    let resolved = tools.workspace.existing(&path)?;
    let what = text::what("read", &resolved.shown);
    let subject = CallSubject::Path(resolved.shown.clone());
    let first = offset.unwrap_or(1).max(1);
    let limit = limit.unwrap_or(text::LINES_MAX as u64).max(1);
    let job = ReadFileJob { workspace: Arc::clone(&tools.workspace), resolved, first, limit };
    Ok(SPEC.prepared(subject, what, job))
}

impl Job for ReadFileJob {
    fn run(&self, stop: &dyn Fn() -> bool) -> Result<ToolResult, ToolError> {
        let file = self.workspace.open(&self.resolved)?;
        let failed = |e: std::io::Error| system("read", &self.resolved.shown, &e);
        let len = file.state().map_err(failed)?.len;
        let mut head = vec![0; text::HEAD_BYTES];
        let got = read_fully(&*file, &mut head, 0).map_err(failed)?;
        if let Some(what) = text::binary(&head[..got]) {
            return Ok(ToolResult::of(format!(
                "[{} is {what} of {len} bytes; its content is not shown]",
                self.resolved.shown
            )));
        }
        let mut lines = LineCollector::new(self.first, self.limit);
        let ended = self.read_blocks(&*file, &mut lines, stop)?;
        self.make_result(lines, ended, len)
    }
}

impl ReadFileJob {
    /// Reads the file block by block. Returns true if the end was reached.
    fn read_blocks(
        &self,
        file: &dyn DiskFile,
        lines: &mut LineCollector,
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, ToolError> {
        let mut block = vec![0; BLOCK_BYTES];
        let mut offset = 0;
        while offset < SCANNED_BYTES_MAX {
            if stop() {
                return Err(ToolError::Stopped);
            }
            let got =
                read_fully(file, &mut block, offset).map_err(|e| system("read", &self.resolved.shown, &e))?;
            if got == 0 {
                lines.end();
                return Ok(true);
            }
            lines.take(&block[..got]);
            offset += got as u64;
        }
        Ok(false)
    }

    /// Makes the result of the lines that were read, with notes on the rest of the file.
    fn make_result(&self, lines: LineCollector, ended: bool, len: u64) -> Result<ToolResult, ToolError> {
        let LineCollector { first, next_shown, count, mut page, broken, returns, .. } = lines;
        let all = if ended { count.to_string() } else { format!("more than {count}") };
        if len == 0 {
            return Ok(ToolResult::of(format!("[{} is empty]", self.resolved.shown)));
        }
        if next_shown == first {
            return Err(self.resolved.unfit(format!("has {all} lines; give an offset up to that")));
        }
        if next_shown <= count {
            page.note(&format!(
                "lines {first} to {} of {all}; read on with offset {next_shown}",
                next_shown - 1
            ));
        } else {
            page.note(&format!("lines {first} to {count} of {all}"));
        }
        if broken > 0 {
            page.note(&format!("{broken} of these lines hold bytes that are no UTF-8, shown as \u{fffd}"));
        }
        if returns > 0 {
            page.note("lines end with CRLF");
        }
        Ok(ToolResult::of(page.text))
    }
}

/// Lines out of blocks: those that are wanted are kept, all are counted.
#[derive(Default)]
struct LineCollector {
    first: u64,
    limit: u64,
    /// The first line that was not shown.
    next_shown: u64,
    /// Lines that have begun.
    count: u64,
    /// The beginning of the line under way, as much of it as may be shown.
    kept: Vec<u8>,
    /// The length of the current line so far.
    len: u64,
    page: TextPage,
    broken: u64,
    returns: u64,
}

impl LineCollector {
    fn new(first: u64, limit: u64) -> LineCollector {
        LineCollector { first, limit, next_shown: first, ..LineCollector::default() }
    }

    fn take(&mut self, mut block: &[u8]) {
        while !block.is_empty() {
            let end = memchr::memchr(b'\n', block);
            let piece = &block[..end.unwrap_or(block.len())];
            if self.is_wanted() {
                let room = KEPT_BYTES_MAX.saturating_sub(self.kept.len()).min(piece.len());
                self.kept.extend_from_slice(&piece[..room]);
            }
            self.len += piece.len() as u64;
            match end {
                Some(end) => {
                    self.finish();
                    block = &block[end + 1..];
                }
                None => return,
            }
        }
    }

    /// A last line without a line feed is one, too.
    fn end(&mut self) {
        if self.len > 0 {
            self.finish();
        }
    }

    /// Returns true if the current line is to be shown.
    fn is_wanted(&self) -> bool {
        let number = self.count + 1;
        number >= self.first && number - self.first < self.limit && !self.page.is_full()
    }

    fn finish(&mut self) {
        if self.is_wanted() {
            let is_whole = self.len == self.kept.len() as u64;
            if is_whole && self.kept.last() == Some(&b'\r') {
                self.kept.pop();
                self.returns += 1;
            }
            // The last character may be cut in two where the line was cut.
            let is_broken = str::from_utf8(&self.kept).is_err_and(|e| is_whole || e.error_len().is_some());
            let line = String::from_utf8_lossy(&self.kept);
            let mut shown: String = line.chars().take(text::LINE_CHARS_MAX).collect();
            if !is_whole || shown.len() < line.len() {
                let _ = write!(shown, "… [cut: the line has {} bytes]", self.len);
            }
            if self.page.push(&format!("{:>6}\t{shown}", self.count + 1)) {
                self.broken += u64::from(is_broken);
                self.next_shown = self.count + 2;
            }
        }
        self.kept.clear();
        self.len = 0;
        self.count += 1;
    }
}

const BLOCK_BYTES: usize = 256 << 10;
/// The bytes that are kept of a line: more than the longest line that is shown has, whatever its characters.
const KEPT_BYTES_MAX: usize = (text::LINE_CHARS_MAX + 2) * text::CHAR_BYTES_MAX;
/// Lines of longer files are counted up to here.
const SCANNED_BYTES_MAX: u64 = 4 << 30;
