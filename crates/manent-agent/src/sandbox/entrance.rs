//! The way in: a program that uses the sandbox starts itself again, and ends up here before it does anything else.
//!
//! Two steps, both from the same program. The keeper (`keeper.rs`) puts on what cannot be put off, starts the second,
//! and looks after it. The second sets limits, closes the rest of the file system, and becomes the command.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use manent::log::RealDisk;
use manent::log::fs::Disk;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, Signal};

use super::plan::{BECOME, ENTRANCE, KEEP, KeeperPlan, report};
use super::selftest::attempts;
use super::{Isolation, keeper, landlock, resource_usage};

/// Enters a sandbox if that is what this process was started for. To be called first of all in `main`, before there is
/// a second thread; if it gives a code, the process has to end with it.
pub fn enter_if_asked() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != ENTRANCE {
        return None;
    }
    let step = words.next().unwrap_or_default();
    let rest: Vec<OsString> = words.collect();
    let done = match step.to_str() {
        Some(KEEP) => keeper::keep(&rest).map(|()| ExitCode::SUCCESS),
        Some(BECOME) => r#become(&rest).map(|never| match never {}),
        Some(attempts::ATTEMPT) => Ok(attempts::make(&rest)),
        _ => Err("this is no command for people".to_owned()),
    };
    Some(done.unwrap_or_else(|why| {
        let _ = writeln!(std::io::stderr(), "{why}");
        ExitCode::from(NOT_ENTERED)
    }))
}

/// Becomes the command. Comes back only if it cannot.
fn r#become(words: &[OsString]) -> Result<Infallible, String> {
    let (plan, command) = read(words)?;
    let (program, arguments) = command.split_first().ok_or("no command was given")?;
    // If somebody kills the keeper, at least the command itself goes with it.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    // A session of its own: no terminal to type into, no group to share signals with.
    rustix::process::setsid().map_err(|e| format!("no session can be made: {e}"))?;
    limit(&plan).map_err(|e| format!("a limit cannot be set: {e}"))?;
    // Other processes of this machine go first. If that is refused, nothing is lost.
    let _ = rustix::process::nice(NICE);
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let null = null.map_err(|e| format!("/dev/null cannot be opened: {e}"))?;
    if plan.kind == Isolation::Landlock {
        landlock::confine(&plan.rules, plan.network)?;
    }
    let told = rustix::io::write(rustix::stdio::stdin(), &[report::ENTERED]);
    told.map_err(|e| format!("whoever asked for this is gone: {e}"))?;
    rustix::stdio::dup2_stdin(&null).map_err(|e| format!("/dev/null cannot be used: {e}"))?;
    let failed = Command::new(program).args(arguments).exec();
    let _ = writeln!(std::io::stderr(), "{} cannot be started: {failed}", program.display());
    std::process::exit(i32::from(NOT_STARTED));
}

/// The plan and the command.
pub(super) fn read(words: &[OsString]) -> Result<(KeeperPlan, &[OsString]), String> {
    let (plan, command) = words.split_first().ok_or("no plan was given")?;
    let text = plan.to_str().ok_or("the plan is no text")?;
    let plan = serde_json::from_str(text).map_err(|e| format!("the plan cannot be read: {e}"))?;
    Ok((plan, command))
}

/// Closes what whoever started us left open: it is none of the command's business. Before anything is opened here.
pub(super) fn close_inherited() -> Result<(), String> {
    let listed = RealDisk.list("/proc/self/fd".as_ref());
    let listed = listed.map_err(|e| format!("open files cannot be listed: {e}"))?;
    let number = |name: &OsStr| name.to_str().and_then(|name| name.parse::<i32>().ok());
    for fd in listed.iter().filter_map(|entry| number(&entry.name)).filter(|fd| *fd > 2) {
        match nix::unistd::close(fd) {
            // The directory itself was listed, and is closed already.
            Ok(()) | Err(nix::errno::Errno::EBADF) => {}
            Err(e) => return Err(format!("file {fd} cannot be closed: {e}")),
        }
    }
    Ok(())
}

/// The limits that the kernel itself keeps, for each process. What is for all of them together, the keeper keeps.
fn limit(plan: &KeeperPlan) -> rustix::io::Result<()> {
    let limits = &plan.limits;
    set(Resource::Core, 0, 0)?;
    set(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds.saturating_add(2))?;
    set(Resource::Fsize, limits.file_bytes, limits.file_bytes)?;
    if let Some(bytes) = limits.address_space_bytes {
        set(Resource::As, bytes, bytes)?;
    }
    // Counted by user, or, in a name space of users, by user in it.
    let others = if plan.kind == Isolation::Landlock { resource_usage::tasks_of_user() } else { SPARE_TASKS };
    let tasks = limits.processes.saturating_add(others);
    set(Resource::Nproc, tasks, tasks)
}

/// Sets a limit, or leaves a stricter one as it is.
fn set(resource: Resource, soft: u64, hard: u64) -> rustix::io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let hard = now.maximum.map_or(hard, |max| max.min(hard));
    let soft = now.current.map_or(soft, |current| current.min(soft)).min(hard);
    rustix::process::setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })
}

/// The exit code of a process that could not enter the sandbox.
const NOT_ENTERED: u8 = 125;
/// The exit code of a command that could not be started, as in shells.
const NOT_STARTED: u8 = 127;
const NICE: i32 = 5;
/// The keeper and what it is about to start.
const SPARE_TASKS: u64 = 2;
