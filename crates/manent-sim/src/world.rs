//! [`World`]: the state that all handles of one simulated disk share (operation counter, faults, crashes, locks).
//!
//! Every trait call passes through [`World::run`]: it numbers the operation, asks the plan what becomes of
//! it, lets the effect happen as far as that allows, records it, and then perhaps lets the world end.
//!
//! The invariant: an incarnation (the time between two crashes) ends once, and no handle made in it ever has
//! an effect again. Operations of dead handles are refused before they are counted, so that a thread that
//! dies slowly does not shift the numbers of those that come after.
//!
//! What it does not do: know the traits (`disk.rs`) or choose which bytes a crash leaves (`pages.rs`,
//! `changes.rs`).

use std::collections::BTreeMap;
use std::io;

use manent_log::LockMode;
use manent_log::fs::FileSystem;

use crate::clock::{Clock, REBOOT_NS};
use crate::faults::{CrashKind, Errno, FaultPlan, Verdict, crash_error};
use crate::pages::CutStyle;
use crate::rng::Rng;
use crate::trace::{Call, Detail, Trace};
use crate::tree::{Ino, Tree};

/// One simulated machine with its disk.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) tree: Tree,
    pub(crate) plan: FaultPlan,
    pub(crate) trace: Trace,
    pub(crate) rng: Rng,
    pub(crate) clock: Clock,
    /// Operations begun.
    pub(crate) operations: u64,
    /// The ends of all incarnations, so the present one is number `ends.len()`.
    pub(crate) ends: Vec<CrashKind>,
    /// Total bytes that all files together may have.
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) file_system: FileSystem,
    /// The style of all cuts to come, if a test wants one.
    pub(crate) cut_style: Option<CutStyle>,
    /// The user whom all files belong to.
    pub(crate) owner: u32,
    locks: BTreeMap<Ino, Lock>,
    handles: u64,
}

/// The caller: a process of an incarnation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimProcess {
    pub(crate) incarnation: usize,
    pub(crate) pid: u32,
}

/// The part of an operation that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    Whole,
    /// An append writes a nonempty proper part.
    Short,
    /// The caller dies inside: any part, none and all included.
    Torn,
}

/// An open file or directory: the inode, and the number that tells this handle from others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) ino: Ino,
    number: u64,
}

/// The lock of an inode, held by one handle exclusively or by several together.
#[derive(Debug)]
struct Lock {
    mode: LockMode,
    holders: Vec<Holder>,
}

#[derive(Debug)]
struct Holder {
    handle: u64,
    pid: u32,
}

impl World {
    pub(crate) fn new(seed: u64, plan: FaultPlan) -> Self {
        Self {
            tree: Tree::new(),
            plan,
            trace: Trace::default(),
            rng: Rng::new(seed),
            clock: Clock::default(),
            operations: 0,
            ends: Vec::new(),
            capacity_bytes: None,
            file_system: FileSystem::Local,
            cut_style: None,
            owner: USER,
            locks: BTreeMap::new(),
            handles: 0,
        }
    }

    /// Runs one operation, or what the faults leave of it.
    pub(crate) fn run<T>(
        &mut self,
        caller: SimProcess,
        call: Call,
        effect: impl FnOnce(&mut Self, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        self.run_or(caller, call, effect, |_| ())
    }

    /// Runs an operation that leaves something behind when it fails. See [`Self::run`].
    pub(crate) fn run_or<T>(
        &mut self,
        caller: SimProcess,
        call: Call,
        effect: impl FnOnce(&mut Self, Extent) -> io::Result<T>,
        on_failure: impl FnOnce(&mut Self),
    ) -> io::Result<T> {
        if let Some(end) = self.end_of(caller) {
            return Err(crash_error(end));
        }
        let number = self.operations;
        self.operations += 1;
        self.pass(self.clock.step_ns);
        let verdict = match call.verb {
            "sync" => self.plan.strike_sync(number),
            _ => self.plan.strike(number, call.written_bytes()),
        };
        let verdict = match verdict {
            // A panic while another one unwinds aborts the process, here as it would abort the tests.
            Verdict::PanicBefore | Verdict::PanicAfter if std::thread::panicking() => {
                Verdict::Crash(CrashKind::Kill)
            }
            verdict => verdict,
        };
        let result = match verdict {
            Verdict::Go | Verdict::PanicAfter => effect(self, Extent::Whole),
            Verdict::Short => effect(self, Extent::Short),
            Verdict::Interrupted => Err(io::ErrorKind::Interrupted.into()),
            Verdict::PanicBefore => Err(io::Error::other(PANIC)),
            Verdict::Fail(errno) => {
                on_failure(self);
                Err(errno.into())
            }
            Verdict::Crash(kind) => {
                if self.rng.chance(3, 4) {
                    // Whether it worked is nobody's business any more.
                    let _ = effect(self, Extent::Torn);
                }
                Err(crash_error(kind))
            }
        };
        self.trace.call(number, caller.pid, call, verdict, result.as_ref().err().map(ToString::to_string));
        match verdict {
            Verdict::Crash(kind) => self.crash(kind),
            // A panic that prints nothing. A second one, in a destructor while the first unwinds, would end the test.
            Verdict::PanicBefore | Verdict::PanicAfter if !std::thread::panicking() => {
                std::panic::resume_unwind(Box::new(PANIC));
            }
            _ => {}
        }
        result
    }

    /// Ends the incarnation.
    pub(crate) fn crash(&mut self, kind: CrashKind) {
        self.locks.clear();
        match kind {
            CrashKind::Kill => {
                self.tree.release_all();
                self.trace.remark("kill -9".to_owned());
            }
            CrashKind::Power => {
                self.pass(REBOOT_NS);
                let report = self.tree.cut(self.cut_style, &mut self.rng);
                self.trace.remark(report);
            }
        }
        self.ends.push(kind);
    }

    /// Returns the end of the incarnation of a caller, if it has ended.
    pub(crate) fn end_of(&self, caller: SimProcess) -> Option<CrashKind> {
        self.ends.get(caller.incarnation).copied()
    }

    pub(crate) fn open(&mut self, ino: Ino) -> Handle {
        self.tree.hold(ino);
        self.handles += 1;
        Handle { ino, number: self.handles }
    }

    /// Closes a handle, which is not an operation and cannot fail.
    pub(crate) fn close(&mut self, caller: SimProcess, handle: Handle) {
        if self.end_of(caller).is_none() {
            self.unlock(handle);
            self.tree.release(handle.ino);
        }
    }

    /// Takes the lock of an inode unless another handle's lock is in the way. As with flock(2), a handle that had the
    /// lock in the other mode has lost it if this fails.
    pub(crate) fn try_lock(&mut self, caller: SimProcess, handle: Handle, mode: LockMode) -> bool {
        self.unlock(handle);
        let lock = self.locks.entry(handle.ino).or_insert(Lock { mode, holders: Vec::new() });
        let is_free = lock.holders.is_empty() || (lock.mode == LockMode::Shared && mode == LockMode::Shared);
        if is_free {
            lock.mode = mode;
            lock.holders.push(Holder { handle: handle.number, pid: caller.pid });
        }
        is_free
    }

    /// Frees the lock of an inode as far as it is this handle's.
    pub(crate) fn unlock(&mut self, handle: Handle) {
        if let Some(lock) = self.locks.get_mut(&handle.ino) {
            lock.holders.retain(|holder| holder.handle != handle.number);
            if lock.holders.is_empty() {
                self.locks.remove(&handle.ino);
            }
        }
    }

    pub(crate) fn lock_holder(&self, ino: Ino) -> Option<u32> {
        self.locks.get(&ino).and_then(|lock| lock.holders.first()).map(|holder| holder.pid)
    }

    /// Appends as much as `extent` and the capacity allow; gives the count.
    pub(crate) fn append(&mut self, ino: Ino, bytes: &[u8], extent: Extent) -> io::Result<usize> {
        let wanted = match extent {
            Extent::Whole => bytes.len(),
            Extent::Short => self.rng.range(1..=bytes.len() as u64 - 1) as usize,
            Extent::Torn => self.torn_at(self.tree.inode(ino).len(), bytes.len() as u64) as usize,
        };
        let fitting = wanted.min(usize::try_from(self.free_bytes()).unwrap_or(usize::MAX));
        if fitting == 0 && wanted > 0 {
            return Err(Errno::NoSpace.into());
        }
        self.tree.pages_mut(ino)?.append(&bytes[..fitting]);
        self.stamp(ino);
        Ok(fitting)
    }

    /// Writes over bytes that are there, as far as `extent` allows; gives the count.
    pub(crate) fn write_at(
        &mut self,
        ino: Ino,
        bytes: &[u8],
        offset: u64,
        extent: Extent,
    ) -> io::Result<usize> {
        let count = match extent {
            Extent::Whole => bytes.len(),
            Extent::Short => self.rng.range(1..=bytes.len() as u64 - 1) as usize,
            Extent::Torn => self.torn_at(offset, bytes.len() as u64) as usize,
        };
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.tree.pages_mut(ino)?.write_at(&bytes[..count], offset)?;
        self.stamp(ino);
        Ok(count)
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.map_or(FREE_BYTES_UNLIMITED, |bytes| bytes.saturating_sub(self.tree.used_bytes()))
    }

    fn pass(&mut self, ns: i64) {
        self.clock.pass(ns);
        self.tree.stamp_ns = self.clock.stamp_ns();
    }

    /// Sets the time of the last change to now.
    pub(crate) fn stamp(&mut self, ino: Ino) {
        let stamp_ns = self.tree.stamp_ns;
        let inode = self.tree.inode_mut(ino);
        (inode.modified_ns, inode.changed_ns) = (stamp_ns, stamp_ns);
    }

    /// Returns the place where a write of `len` bytes at `start` breaks off. Kernels stop at the border of a page;
    /// other places are here because nothing promises that.
    fn torn_at(&mut self, start: u64, len: u64) -> u64 {
        let any = self.rng.range(0..=len);
        match self.rng.below(4) {
            0 => len,
            1 => any,
            _ => ((start + any) / PAGE_BYTES * PAGE_BYTES).saturating_sub(start),
        }
    }
}

impl Call {
    /// The length of a write; `None` for other calls.
    fn written_bytes(&self) -> Option<usize> {
        match self.detail {
            Detail::Append(bytes) | Detail::Write { bytes, .. } => Some(bytes),
            _ => None,
        }
    }
}

/// The user who runs all simulated processes.
pub(crate) const USER: u32 = 1000;
/// The payload with which a thread panics that a fault strikes.
pub(crate) const PANIC: &str = "simulated panic";
const PAGE_BYTES: u64 = 4096;
const FREE_BYTES_UNLIMITED: u64 = 1 << 40;
