//! Who is in the sandbox, and what they use up, as `/proc` tells it.
//!
//! The kernel's own limits are for one process, or for all processes of a user, and do not hold for root. These are for
//! everything that the keeper started, whoever it runs as.

use std::collections::HashMap;

use manent::log::RealDisk;
use manent::log::fs::{Access, Disk, read_fully};
use rustix::process::Pid;

use super::outcome::Limit;
use super::policy::ResourceLimits;

/// The resources that a command uses at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ResourceUsage {
    /// Processes and threads.
    pub(super) tasks: u64,
    pub(super) memory_bytes: u64,
    pub(super) cpu_seconds: u64,
}

impl ResourceUsage {
    /// Returns the limit that is exceeded, if one is.
    pub(super) fn over(&self, limits: &ResourceLimits) -> Option<Limit> {
        if self.tasks > limits.processes {
            return Some(Limit::Processes);
        }
        if self.memory_bytes > limits.memory_bytes {
            return Some(Limit::Memory);
        }
        (self.cpu_seconds > limits.cpu_seconds).then_some(Limit::Cpu)
    }
}

/// Counts all descendants of a process; of itself only the work of those that are gone.
pub(super) fn count(keeper: Pid) -> ResourceUsage {
    let mut children: HashMap<u64, Vec<Process>> = HashMap::new();
    let keeper = u64::from(keeper.as_raw_nonzero().get().unsigned_abs());
    let mut usage = ResourceUsage::default();
    let mut ticks = 0;
    for entry in RealDisk.list("/proc".as_ref()).unwrap_or_default() {
        let Some(pid) = entry.name.to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
        let Some(process) = look_at(pid) else { continue };
        if pid == keeper {
            ticks += process.ticks_of_gone;
        }
        children.entry(process.parent).or_default().push(process);
    }
    let mut left = vec![keeper];
    while let Some(parent) = left.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            left.push(process.pid);
            usage.tasks += process.threads;
            usage.memory_bytes += process.pages * rustix::param::page_size() as u64;
            ticks += process.ticks + process.ticks_of_gone;
        }
    }
    usage.cpu_seconds = ticks / rustix::param::clock_ticks_per_second().max(1);
    usage
}

/// Returns the number of processes and threads of this user on the whole machine.
pub(super) fn tasks_of_user() -> u64 {
    let own = |pid: &u64| {
        rustix::fs::stat(format!("/proc/{pid}"))
            .is_ok_and(|stat| stat.st_uid == rustix::process::getuid().as_raw())
    };
    let listed = RealDisk.list("/proc".as_ref()).unwrap_or_default();
    let pids = listed.iter().filter_map(|entry| entry.name.to_str()?.parse::<u64>().ok());
    pids.filter(own).filter_map(look_at).map(|process| process.threads).sum()
}

struct Process {
    pid: u64,
    parent: u64,
    threads: u64,
    pages: u64,
    ticks: u64,
    ticks_of_gone: u64,
}

fn look_at(pid: u64) -> Option<Process> {
    let file = RealDisk.open(format!("/proc/{pid}/stat").as_ref(), Access::Read).ok()?;
    let mut buffer = [0; 1024];
    let read = read_fully(&*file, &mut buffer, 0).ok()?;
    parse(pid, &String::from_utf8_lossy(&buffer[..read]))
}

/// The name of a program may hold anything, also brackets and blanks; what counts stands behind its last bracket.
fn parse(pid: u64, stat: &str) -> Option<Process> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // Numbered as in proc(5), where the field behind the name is the third.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Process {
        pid,
        parent: field(4)?,
        ticks: field(14)? + field(15)?,
        ticks_of_gone: field(16)? + field(17)?,
        threads: field(20)?,
        pages: field(24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_whatever_the_program_is_called() {
        let rest = "S 7 1 1 0 -1 0 0 0 0 0 10 20 30 40 20 0 3 0 99 1000 25 0";
        for name in ["sh", "a b", "x) R 1 (y", ""] {
            let process = parse(5, &format!("5 ({name}) {rest}")).expect("a line of proc");
            assert_eq!((process.parent, process.threads, process.pages), (7, 3, 25), "{name}");
            assert_eq!((process.ticks, process.ticks_of_gone), (30, 70), "{name}");
        }
        assert!(parse(5, "5 (sh").is_none() && parse(5, "5 (sh) S 1").is_none());
    }

    #[test]
    fn what_we_started_is_counted() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        // A program that has just been begun has no memory yet.
        let counted = |usage: &ResourceUsage| usage.tasks >= 1 && usage.memory_bytes > 0;
        let mut usage = count(rustix::process::getpid());
        for _ in 0..500 {
            if counted(&usage) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            usage = count(rustix::process::getpid());
        }
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert!(counted(&usage), "{usage:?}");
        assert!(tasks_of_user() >= 2, "this process has threads");
    }

    #[test]
    fn each_limit_is_told_from_the_others() {
        let limits =
            ResourceLimits { processes: 2, memory_bytes: 10, cpu_seconds: 3, ..ResourceLimits::default() };
        let usage = |tasks, memory_bytes, cpu_seconds| ResourceUsage { tasks, memory_bytes, cpu_seconds };
        assert_eq!(usage(2, 10, 3).over(&limits), None);
        assert_eq!(usage(3, 10, 3).over(&limits), Some(Limit::Processes));
        assert_eq!(usage(2, 11, 3).over(&limits), Some(Limit::Memory));
        assert_eq!(usage(2, 10, 4).over(&limits), Some(Limit::Cpu));
    }
}
