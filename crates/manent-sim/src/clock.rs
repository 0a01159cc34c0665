//! The clock of a simulated machine, and how exactly its file system keeps time.
//!
//! Every operation takes a while. Tests set the clock, let it jump, and choose what of the time a time stamp keeps.

use std::io;
use std::path::Path;

use crate::disk::SimDisk;

/// The time, how fast it passes, and what of it a time stamp keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The time now, in nanoseconds since 1970.
    pub now_ns: i64,
    /// The time that each operation takes.
    pub step_ns: i64,
    /// Time stamps are rounded down to a multiple of this: 1 for an exact file system, 2 s for FAT.
    pub tick_ns: i64,
}

impl Clock {
    /// The time stamp of what changes now.
    pub(crate) fn stamp_ns(self) -> i64 {
        self.now_ns - self.now_ns.rem_euclid(self.tick_ns.max(1))
    }

    pub(crate) fn pass(&mut self, ns: i64) {
        self.now_ns = self.now_ns.saturating_add(ns);
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { now_ns: 1_700_000_000_000_000_000, step_ns: 1_000_000, tick_ns: 1 }
    }
}

impl SimDisk {
    /// Returns the time of the machine's clock.
    pub fn clock(&self) -> Clock {
        self.world().clock
    }

    /// Sets the clock, or gives it another speed, or its file system other time stamps.
    pub fn set_clock(&self, clock: Clock) {
        let mut world = self.world();
        world.clock = clock;
        world.tree.stamp_ns = clock.stamp_ns();
    }

    /// Lets time pass; a negative number sets the clock back.
    pub fn pass(&self, ns: i64) {
        let mut clock = self.clock();
        clock.pass(ns);
        self.set_clock(clock);
    }

    /// Gives a file a time of its own, as a program does that restores or copies it. The time of the last change of
    /// anything about it is now.
    pub fn set_modified(&self, path: impl AsRef<Path>, modified_ns: i64) -> io::Result<()> {
        let mut world = self.world();
        let ino = world.tree.resolve(path.as_ref())?;
        world.stamp(ino);
        world.tree.inode_mut(ino).modified_ns = modified_ns;
        Ok(())
    }
}

/// The time that a machine takes to start again after its power failed.
pub(crate) const REBOOT_NS: i64 = 10_000_000_000;
