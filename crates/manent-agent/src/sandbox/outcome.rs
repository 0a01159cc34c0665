//! What came of a command.

use std::fmt;
use std::time::Duration;

use super::guard::GuardNote;

/// A command that was run.
#[derive(Debug, Clone)]
pub struct CommandOutcome {
    /// The way the command ended.
    pub ending: CommandEnd,
    /// Standard output; with merged streams, all output.
    pub stdout: CapturedOutput,
    /// Standard error; empty with merged streams.
    pub stderr: CapturedOutput,
    /// The time from its start to its end.
    pub duration: Duration,
    /// The sandbox it ran in, for the log.
    pub sandbox: String,
    /// Notes on changes that were undone.
    pub notes: Vec<GuardNote>,
}

/// The way a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command ended by itself, with this code.
    Exit(i32),
    /// A signal ended the command, sent by itself or by another process in the sandbox.
    Signal(i32),
    /// The time limit was exceeded.
    Timeout,
    /// A resource limit was exceeded.
    Limit(Limit),
    /// The [`super::StopFlag`] was raised.
    Stopped,
}

/// The limited resource. The keeper reports it by its place in this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Work.
    Cpu,
    /// Resident memory.
    Memory,
    /// Processes and threads.
    Processes,
    /// A file became too long.
    FileSize,
}

impl fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandEnd::Exit(code) => write!(f, "exit code {code}"),
            CommandEnd::Signal(signal) => write!(f, "killed by signal {signal}"),
            CommandEnd::Timeout => f.write_str("killed: out of time"),
            CommandEnd::Limit(Limit::Cpu) => f.write_str("killed: too much work"),
            CommandEnd::Limit(Limit::Memory) => f.write_str("killed: too much memory"),
            CommandEnd::Limit(Limit::Processes) => f.write_str("killed: too many processes"),
            CommandEnd::Limit(Limit::FileSize) => f.write_str("killed: a file became too long"),
            CommandEnd::Stopped => f.write_str("stopped"),
        }
    }
}

/// Output, of which only so much is kept: some of its beginning, and most of its end, where results and errors are.
#[derive(Debug, Clone, Default)]
pub struct CapturedOutput {
    head: Vec<u8>,
    tail: Vec<u8>,
    head_max: usize,
    tail_max: usize,
    /// Bytes that were left out between beginning and end.
    pub cut_bytes: u64,
    /// Line breaks among them.
    pub cut_lines: u64,
}

impl CapturedOutput {
    /// Keeps so many bytes at most.
    pub(super) fn new(bytes_max: usize) -> CapturedOutput {
        let head_max = bytes_max / 4;
        CapturedOutput { head_max, tail_max: bytes_max - head_max, ..CapturedOutput::default() }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        let room = self.head_max.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        bytes = &bytes[room..];
        self.tail.extend_from_slice(bytes);
        // Not each time, or every byte would be moved for every byte that comes.
        if self.tail.len() > self.tail_max.saturating_mul(2) + bytes.len() {
            self.trim();
        }
    }

    /// Leaves no more than may be kept.
    pub(super) fn trim(&mut self) {
        let over = self.tail.len().saturating_sub(self.tail_max);
        let lines = memchr::memchr_iter(b'\n', &self.tail[..over]).count();
        self.tail.drain(..over);
        self.cut_bytes += over as u64;
        self.cut_lines += lines as u64;
    }

    /// Returns the output that was kept, with a line where a part is missing. Bytes that are no text are shown as `�`.
    pub fn text(&self) -> String {
        if self.cut_bytes == 0 {
            let whole = [self.head.as_slice(), &self.tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        format!(
            "{}\n[{} bytes, {} lines left out]\n{}",
            String::from_utf8_lossy(&self.head),
            self.cut_bytes,
            self.cut_lines,
            String::from_utf8_lossy(&self.tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_and_end_are_kept_and_the_rest_is_counted() {
        let text = (0..100).map(|n| format!("line {n:02}\n")).collect::<Vec<_>>().concat();
        for step in [1, 7, 64, 10_000] {
            let mut captured = CapturedOutput::new(80);
            for piece in text.as_bytes().chunks(step) {
                captured.push(piece);
            }
            captured.trim();
            let shown = captured.text();
            assert!(shown.starts_with("line 00\nline 01\n"), "{shown}");
            assert!(shown.ends_with("line 98\nline 99\n"), "{shown}");
            assert_eq!(captured.cut_bytes, 800 - 80, "in pieces of {step}");
            assert_eq!(captured.cut_lines, 90, "{shown}");
        }
    }

    #[test]
    fn what_fits_is_left_alone() {
        let mut captured = CapturedOutput::new(80);
        captured.push(b"caf");
        captured.push("é".as_bytes());
        assert_eq!((captured.text().as_str(), captured.cut_bytes), ("café", 0));
        let mut nothing = CapturedOutput::new(0);
        nothing.push(b"x\n");
        nothing.trim();
        assert_eq!((nothing.cut_bytes, nothing.cut_lines), (2, 1));
    }
}
