//! The last operations, for the message of a failed test.
//!
//! Entries are kept as they are and made into text only when somebody asks, because a run that succeeds, as
//! nearly all do, must not pay for a report. The invariant: at most [`TRACE_ENTRIES_MAX`] entries, the newest
//! ones. What it does not do: decide anything.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use manent_log::fs::Access;

use crate::faults::Verdict;

/// A call of the disk, for the trace.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    pub(crate) path: Arc<Path>,
    pub(crate) detail: Detail,
}

/// The argument of a call besides the path.
#[derive(Debug, Clone)]
pub(crate) enum Detail {
    None,
    Access(Access),
    To(Arc<Path>),
    Append(usize),
    Length(u64),
    Read { offset: u64, bytes: usize },
    Write { offset: u64, bytes: usize },
}

/// Returns true if a line of a trace tells of an operation that changes the disk.
pub(crate) fn is_change(line: &str) -> bool {
    let changing = [
        "append",
        "write_at",
        "set_len",
        "sync",
        "sync_dir",
        "rename",
        "rename_new",
        "remove",
        "create_dir_all",
    ];
    changing.contains(&line.split(' ').nth(3).unwrap_or_default()) || line.contains("CreateNew")
}

/// The ring of entries.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    entries: VecDeque<Entry>,
}

#[derive(Debug)]
enum Entry {
    Call { number: u64, pid: u32, call: Call, verdict: Verdict, outcome: Outcome },
    Remark(String),
}

#[derive(Debug)]
enum Outcome {
    Done,
    Gave(u64),
    Failed(String),
}

impl Trace {
    /// Records an operation and whether it worked.
    pub(crate) fn call(
        &mut self,
        number: u64,
        pid: u32,
        call: Call,
        verdict: Verdict,
        failed: Option<String>,
    ) {
        let outcome = failed.map_or(Outcome::Done, Outcome::Failed);
        self.push(Entry::Call { number, pid, call, verdict, outcome });
    }

    /// Adds the number that the newest operation returned.
    pub(crate) fn gave(&mut self, count: u64) {
        if let Some(Entry::Call { outcome, .. }) = self.entries.back_mut() {
            *outcome = Outcome::Gave(count);
        }
    }

    /// Records something that was not an operation.
    pub(crate) fn remark(&mut self, text: String) {
        self.push(Entry::Remark(text));
    }

    /// The entries as text, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.entries.iter().map(ToString::to_string).collect()
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() == TRACE_ENTRIES_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }
}

impl Call {
    /// A call with a path and nothing else.
    pub(crate) fn on(verb: &'static str, path: &Path) -> Self {
        Self { verb, path: path.into(), detail: Detail::None }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, pid, call, verdict, outcome) = match self {
            Self::Remark(text) => return write!(f, "-- {text}"),
            Self::Call { number, pid, call, verdict, outcome } => (number, pid, call, verdict, outcome),
        };
        write!(f, "#{number} pid {pid} {} {}", call.verb, call.path.display())?;
        match &call.detail {
            Detail::None => {}
            Detail::Access(access) => write!(f, " {access:?}")?,
            Detail::To(path) => write!(f, " to {}", path.display())?,
            Detail::Append(bytes) => write!(f, " {bytes} B")?,
            Detail::Length(len) => write!(f, " {len}")?,
            Detail::Read { offset, bytes } | Detail::Write { offset, bytes } => {
                write!(f, " {bytes} B at {offset}")?;
            }
        }
        match outcome {
            Outcome::Done => f.write_str(" -> ok")?,
            Outcome::Gave(count) => write!(f, " -> {count}")?,
            Outcome::Failed(error) => write!(f, " -> {error}")?,
        }
        match verdict {
            Verdict::Go => Ok(()),
            fault => write!(f, " [{fault:?}]"),
        }
    }
}

const TRACE_ENTRIES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_call_argument_result_and_fault_and_only_the_newest_are_kept() {
        let mut trace = Trace::default();
        for n in 0..300 {
            let detail = Detail::Append(10);
            let call = Call { detail, ..Call::on("append", Path::new("/log")) };
            trace.call(n, 7, call, Verdict::Short, None);
            trace.gave(4);
        }
        trace.remark("power cut".into());
        let lines = trace.lines();
        assert_eq!(lines.len(), TRACE_ENTRIES_MAX);
        assert_eq!(lines[0], "#101 pid 7 append /log 10 B -> 4 [Short]");
        assert_eq!(lines[199], "-- power cut");
    }
}
