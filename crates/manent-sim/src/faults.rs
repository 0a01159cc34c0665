//! [`FaultPlan`]: the operations that fail, and the kind of each failure.
//!
//! Operations are all calls of the `Disk` and `DiskFile` traits (but `is_own`), by every handle and process
//! of one simulated disk, counted from 0. A plan names the operation at which a fault strikes; a test that
//! sweeps the number from 0 upward has put the fault in every gap of the code under test, until
//! [`FaultPlan::left`] shows that it no longer struck.
//!
//! The invariant: a fault strikes once, and never before its number. What a fault does to bytes is not
//! decided here.

use std::io;

use crate::disk::SimDisk;

/// The way in which a simulated machine stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashKind {
    /// All processes die (kill -9). What they had written is in the cache, and the cache lives on.
    Kill,
    /// The machine loses power. Of what was not synced, anything may be left.
    Power,
}

/// An error number that the simulated system returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Errno {
    /// EIO: the device failed.
    Io,
    /// ENOSPC: the disk is full.
    NoSpace,
    /// EROFS: the file system was remounted read-only, as ext4 does after an error.
    ReadOnly,
    /// EMFILE: the process has too many open files.
    TooManyFiles,
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operation does nothing and returns this error. A failed sync also gives up its data: it stays
    /// readable, but no later sync writes it.
    Fail(Errno),
    /// Fails the next sync of a file with EIO. See [`Fault::Fail`].
    FailSync,
    /// The operation does nothing and returns `Interrupted`.
    Interrupted,
    /// A write writes a part, at least one byte and not all, and returns that count.
    ShortWrite,
    /// Writes short as `ShortWrite` does, and fails the next append to any file with ENOSPC: the way a disk fills up.
    PartialThenFail,
    /// All processes die inside the operation, which may be done, not done, or done in part.
    CrashKill,
    /// The power fails inside the operation, which may be done, not done, or done in part.
    CrashPower,
    /// The thread panics before it does anything. If it is unwinding already, this is [`Fault::CrashKill`].
    PanicBefore,
    /// The operation is done, and the thread panics before it can tell. If it is unwinding already, this is
    /// [`Fault::CrashKill`].
    PanicAfter,
}

/// The faults still to come.
///
/// A fault strikes the first operation from its number on that it applies to: `ShortWrite` and
/// `PartialThenFail` wait for a write of two bytes or more, `FailSync` for the sync of a file, the others strike any
/// operation. One operation
/// is struck by one fault at most; of two with the same number, the second strikes a later operation.
/// Operations of dead handles are not counted, so the numbers go on across a crash without a hole.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan {
    /// Sorted by operation; equal numbers stay in the order they were added.
    queue: Vec<(u64, Fault)>,
    /// Set by `PartialThenFail` for the append that comes next.
    next_append_fails: bool,
}

/// The decision on an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Go,
    Short,
    Fail(Errno),
    Interrupted,
    Crash(CrashKind),
    PanicBefore,
    PanicAfter,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fault at the operation with this number (from 0), or the first after it that the fault applies
    /// to.
    #[must_use]
    pub fn at(mut self, operation: u64, fault: Fault) -> Self {
        self.add(operation, fault);
        self
    }

    /// Returns the number of faults that have not struck yet.
    pub fn left(&self) -> usize {
        self.queue.len() + usize::from(self.next_append_fails)
    }

    pub(crate) fn add(&mut self, operation: u64, fault: Fault) {
        let place = self.queue.partition_point(|(at, _)| *at <= operation);
        self.queue.insert(place, (operation, fault));
    }

    /// Decides about the sync of a file.
    pub(crate) fn strike_sync(&mut self, operation: u64) -> Verdict {
        let due = self.queue.iter().position(|(at, fault)| *at <= operation && *fault == Fault::FailSync);
        match due {
            Some(due) => {
                self.queue.remove(due);
                Verdict::Fail(Errno::Io)
            }
            None => self.strike(operation, None),
        }
    }

    /// Decides about one operation; `append_bytes` is given if it is an append.
    pub(crate) fn strike(&mut self, operation: u64, append_bytes: Option<usize>) -> Verdict {
        let splittable = append_bytes.is_some_and(|bytes| bytes >= 2);
        let due = self.queue.iter().position(|(at, fault)| match fault {
            Fault::FailSync => false,
            Fault::ShortWrite | Fault::PartialThenFail => *at <= operation && splittable,
            _ => *at <= operation,
        });
        let Some(due) = due else {
            if append_bytes.is_some() && std::mem::take(&mut self.next_append_fails) {
                return Verdict::Fail(Errno::NoSpace);
            }
            return Verdict::Go;
        };
        match self.queue.remove(due).1 {
            Fault::Fail(errno) => Verdict::Fail(errno),
            Fault::FailSync => Verdict::Fail(Errno::Io),
            Fault::Interrupted => Verdict::Interrupted,
            Fault::ShortWrite => Verdict::Short,
            Fault::PartialThenFail => {
                self.next_append_fails = true;
                Verdict::Short
            }
            Fault::CrashKill => Verdict::Crash(CrashKind::Kill),
            Fault::CrashPower => Verdict::Crash(CrashKind::Power),
            Fault::PanicBefore => Verdict::PanicBefore,
            Fault::PanicAfter => Verdict::PanicAfter,
        }
    }
}

impl Errno {
    /// The number, which Linux and macOS agree on for these four.
    pub const fn raw(self) -> i32 {
        match self {
            Self::Io => 5,
            Self::NoSpace => 28,
            Self::ReadOnly => 30,
            Self::TooManyFiles => 24,
        }
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        Self::from_raw_os_error(errno.raw())
    }
}

/// Returns true if an error says that the simulated machine stopped under the caller.
pub fn is_crash(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<SimulatedCrash>())
}

/// The error that every operation of a dead handle returns.
pub(crate) fn crash_error(kind: CrashKind) -> io::Error {
    io::Error::other(SimulatedCrash(kind))
}

#[derive(Debug)]
struct SimulatedCrash(CrashKind);

impl std::fmt::Display for SimulatedCrash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            CrashKind::Kill => f.write_str("simulated crash (kill -9)"),
            CrashKind::Power => f.write_str("simulated crash (power cut)"),
        }
    }
}

impl std::error::Error for SimulatedCrash {}

impl SimDisk {
    /// Adds a fault at the operation with this number.
    pub fn add_fault(&self, operation: u64, fault: Fault) {
        self.world().plan.add(operation, fault);
    }

    /// Returns the number of faults that have not struck yet.
    pub fn faults_left(&self) -> usize {
        self.world().plan.left()
    }

    /// Forgets all faults that have not struck yet.
    pub fn reset_faults(&self) {
        self.world().plan = FaultPlan::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_once_and_not_before_its_number() {
        let mut plan = FaultPlan::new().at(2, Fault::Interrupted).at(1, Fault::Fail(Errno::Io));
        let verdicts: Vec<Verdict> = (0..4).map(|n| plan.strike(n, None)).collect();
        assert_eq!(verdicts, [Verdict::Go, Verdict::Fail(Errno::Io), Verdict::Interrupted, Verdict::Go]);
        assert_eq!(plan.left(), 0);
    }

    #[test]
    fn two_faults_of_one_number_strike_two_operations_in_the_order_given() {
        let mut plan = FaultPlan::new().at(0, Fault::CrashKill).at(0, Fault::CrashPower);
        assert_eq!(plan.strike(0, None), Verdict::Crash(CrashKind::Kill));
        assert_eq!(plan.strike(1, None), Verdict::Crash(CrashKind::Power));
    }

    #[test]
    fn a_write_fault_waits_for_an_append_that_can_be_split_and_holds_up_no_other() {
        let mut plan = FaultPlan::new().at(0, Fault::PartialThenFail).at(1, Fault::Interrupted);
        assert_eq!(plan.strike(0, None), Verdict::Go);
        assert_eq!(plan.strike(1, Some(1)), Verdict::Interrupted);
        assert_eq!(plan.strike(2, Some(1)), Verdict::Go, "one byte has no proper part");
        assert_eq!(plan.strike(3, Some(2)), Verdict::Short);
        assert_eq!(plan.strike(4, None), Verdict::Go, "only appends meet the full disk");
        assert_eq!(plan.strike(5, Some(1)), Verdict::Fail(Errno::NoSpace));
        assert_eq!(plan.strike(6, Some(1)), Verdict::Go);
    }

    #[test]
    fn only_a_crash_is_taken_for_one() {
        assert!(is_crash(&crash_error(CrashKind::Kill)));
        assert!(!is_crash(&io::Error::other("simulated crash")));
        assert!(!is_crash(&Errno::Io.into()));
        assert_eq!(io::Error::from(Errno::NoSpace).kind(), io::ErrorKind::StorageFull);
        assert_eq!(io::Error::from(Errno::ReadOnly).kind(), io::ErrorKind::ReadOnlyFilesystem);
    }
}
