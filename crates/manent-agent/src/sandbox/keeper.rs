//! The keeper: the process between us and a command. It starts the command, looks how much is used up, tells how it
//! ended, and leaves nothing running: not after the command, not after a limit, and not if we are gone.
//!
//! With bubblewrap it is the first process of its name space, so that the kernel ends the others with it. With
//! Landlock it is the parent of everything whose own parent is gone, and its signals reach only what it started.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid as AnyPid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitOptions, WaitStatus};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::outcome::{CommandEnd, Limit};
use super::plan::{BECOME, ENTRANCE, KeeperPlan, report};
use super::{Isolation, entrance, landlock, resource_usage, scratch, seccomp};

/// Keeps a command until it ends. Standard input is the line to whoever asked.
pub(super) fn keep(words: &[OsString]) -> Result<(), String> {
    entrance::close_inherited()?;
    let (plan, _) = entrance::read(words)?;
    let own = rustix::process::getpid();
    if plan.kind == Isolation::Landlock {
        landlock::confine_signals()?;
    }
    check_reach(own)?;
    let subreaper = rustix::process::set_child_subreaper(Some(own));
    subreaper.map_err(|e| format!("orphans cannot be taken in: {e}"))?;
    drop_rights().map_err(|e| format!("rights cannot be dropped: {e}"))?;
    seccomp::install(plan.kind, plan.network)?;
    let child = start(words)?;
    let ending = watch(own, child, &plan);
    end_all(own)?;
    match (ending, &plan.scratch) {
        (Some(ending), _) => drop(rustix::io::write(rustix::stdio::stdin(), &report::encode(ending))),
        (None, Some(dir)) => scratch::remove(dir),
        (None, None) => {}
    }
    Ok(())
}

fn start(words: &[OsString]) -> Result<Pid, String> {
    let program = std::env::current_exe().map_err(|e| format!("our own program cannot be found: {e}"))?;
    let line = rustix::stdio::stdin().try_clone_to_owned();
    let line = line.map_err(|e| format!("the line outside cannot be shared: {e}"))?;
    let mut second = Command::new(program);
    second.args([ENTRANCE, BECOME]).args(words).stdin(Stdio::from(line));
    let child = second.spawn().map_err(|e| format!("the second step cannot be started: {e}"))?;
    Pid::from_raw(child.id().cast_signed()).ok_or_else(|| "a process without a number".to_owned())
}

/// Waits until the command ends, uses too much, or nobody is there any more who asked for it (nothing).
fn watch(own: Pid, child: Pid, plan: &KeeperPlan) -> Option<CommandEnd> {
    let handle = rustix::process::pidfd_open(child, PidfdFlags::empty()).ok();
    let line = rustix::stdio::stdin();
    let mut pause = PAUSE_MIN;
    loop {
        let mut waited = vec![PollFd::new(&line, PollFlags::IN)];
        waited.extend(handle.as_ref().map(|handle| PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)));
        let _ = poll(&mut waited, Timespec::try_from(pause).ok().as_ref());
        // No byte is ever sent on this pipe, so an event means that the other end is gone.
        if !waited[0].revents().is_empty() {
            return None;
        }
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == child {
                return Some(ending_of(status));
            }
        }
        let begun = Instant::now();
        if let Some(limit) = resource_usage::count(own).over(&plan.limits) {
            return Some(CommandEnd::Limit(limit));
        }
        // Where there are many processes, looking at them takes time; it may take a tenth of it.
        pause = (begun.elapsed() * 10).clamp(PAUSE_MIN, PAUSE_MAX);
    }
}

fn ending_of(status: WaitStatus) -> CommandEnd {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => CommandEnd::Exit(code),
        (None, Some(libc::SIGXCPU)) => CommandEnd::Limit(Limit::Cpu),
        (None, Some(libc::SIGXFSZ)) => CommandEnd::Limit(Limit::FileSize),
        (None, signal) => CommandEnd::Signal(signal.unwrap_or_default()),
    }
}

/// Ends everything that was started. One call for all of them, during which none can be born: what a process does to
/// hide or to multiply does not help it.
fn end_all(own: Pid) -> Result<(), String> {
    let deadline = Instant::now() + END_MAX;
    while Instant::now() < deadline {
        // Looked at each time: "all" must never be more than ours.
        check_reach(own)?;
        let _ = kill(AnyPid::from_raw(-1), Signal::SIGKILL);
        match rustix::process::wait(WaitOptions::NOHANG) {
            Err(rustix::io::Errno::CHILD) => return Ok(()),
            Ok(Some(_)) => {}
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(())
}

/// Makes sure that a signal to "all" reaches nobody outside: we are the first of a name space, or our own parent is
/// out of reach.
fn check_reach(own: Pid) -> Result<(), String> {
    if own.is_init() {
        return Ok(());
    }
    let parent = rustix::process::getppid().unwrap_or(Pid::INIT);
    match rustix::process::test_kill_process(parent) {
        Err(rustix::io::Errno::PERM) => Ok(()),
        _ => Err("signals are not confined here".to_owned()),
    }
}

/// Gives up the rights of root for good. An ordinary user has none to give up.
fn drop_rights() -> rustix::io::Result<()> {
    let none = CapabilitySet::empty();
    let held = rustix::thread::capabilities(None)?;
    if held.permitted.is_empty() && held.inheritable.is_empty() {
        return Ok(());
    }
    for right in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(right) {
            // An older kernel does not know the newest.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(e) => return Err(e),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
}

const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(250);
const END_MAX: Duration = Duration::from_secs(3);
