//! Decides whether a time stamp can be relied on to differ after the next change.
//!
//! A file that changes twice within one tick of the file system's clock has the same time stamp after both changes. A
//! reader that looked in between and compares time stamps later would miss the second change for good. So a time stamp
//! counts as settled only when it is older than a tick: from then on every change sets a later one.

use std::path::Path;

use super::{Disk, FileSystem};

/// The time at which a reader looks at files, and how old their time stamps must be to be settled.
///
/// Make it before reading what the time stamps stand for (the content of a file, the names in a directory). A change
/// after that moment is then either read, or sets another time stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settling {
    /// Nanoseconds since 1970.
    now_ns: i64,
    age_min_ns: i64,
}

impl Settling {
    /// Takes the time for files in a directory.
    pub fn begin(disk: &dyn Disk, dir: &Path) -> Settling {
        // On a network or an unknown file system, time stamps may come from the clock of another machine.
        let is_local = matches!(disk.file_system(dir), Ok(FileSystem::Local));
        let age_min_ns = if is_local { TICK_NS } else { OTHER_CLOCK_NS };
        Settling { now_ns: disk.now_ns(), age_min_ns }
    }

    /// Makes the rule for a local file system, at another time than now.
    pub fn at(now_ns: i64) -> Settling {
        Settling { now_ns, age_min_ns: TICK_NS }
    }

    /// The time that was taken, in nanoseconds since 1970.
    pub fn now_ns(self) -> i64 {
        self.now_ns
    }

    /// Returns true if every change from now on sets another time stamp than this one.
    ///
    /// A time stamp in the future is not settled: the clock was set back, and will show that time again. Nor is one
    /// from before 1970 or 1970 itself, which file systems give to directories that have none.
    pub fn is_settled(self, changed_ns: i64) -> bool {
        let is_coarse = changed_ns % COARSE_NS == 0;
        let age_min_ns = if is_coarse { self.age_min_ns.max(COARSE_TICK_NS) } else { self.age_min_ns };
        changed_ns > 0 && self.now_ns.saturating_sub(changed_ns) >= age_min_ns
    }
}

/// Kernels take time stamps from a clock that ticks every 1 to 10 ms; under load a tick may come late.
const TICK_NS: i64 = 100_000_000;
/// A time stamp that is a multiple of this may come from a file system that keeps whole seconds (ext3, HFS+) or every
/// other second (FAT).
const COARSE_NS: i64 = 100_000_000;
const COARSE_TICK_NS: i64 = 2_000_000_000 + TICK_NS;
/// The most that the clock of another machine may be behind.
const OTHER_CLOCK_NS: i64 = 600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(now_ns: i64) -> Settling {
        Settling::at(now_ns)
    }

    #[test]
    fn stamp_of_this_tick_is_not_settled() {
        let stamp = 1_700_000_000 * SECOND + 123_456_789;
        for age in [0, 1, 20_000_000, TICK_NS - 1] {
            assert!(!at(stamp + age).is_settled(stamp), "{age} ns old");
        }
        assert!(at(stamp + TICK_NS).is_settled(stamp));
    }

    #[test]
    fn stamp_in_whole_seconds_needs_two_seconds() {
        let stamp = 1_700_000_000 * SECOND;
        for age in [0, TICK_NS, SECOND, 2 * SECOND] {
            assert!(!at(stamp + age).is_settled(stamp), "{age} ns old");
        }
        assert!(at(stamp + COARSE_TICK_NS).is_settled(stamp));
    }

    #[test]
    fn stamp_in_the_future_is_not_settled() {
        let stamp = 1_700_000_000 * SECOND + 1;
        for ahead in [1, 999_999, SECOND, 3600 * SECOND, i64::MAX - stamp] {
            assert!(!at(stamp).is_settled(stamp + ahead), "{ahead} ns ahead");
        }
    }

    #[test]
    fn stamp_of_1970_is_never_settled() {
        for stamp in [0, -1, i64::MIN] {
            assert!(!at(1_700_000_000 * SECOND).is_settled(stamp));
        }
    }
}
