//! The binary under strace: every system call it makes, and any of them made to fail.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::process::Command;

use super::{Output, TestEnvironment};

/// One system call of a run: which one, and the how-many-eth of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) nth: usize,
}

/// Runs `manent ARGS` and gives the system calls that it makes after it has been loaded, in order.
pub(crate) fn calls(env: &TestEnvironment, args: &[&str]) -> (Output, Vec<Call>) {
    let (output, log) = traced(env, &[], args);
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut calls = Vec::new();
    let mut loaded = false;
    for line in log.lines() {
        let Some(name) = name_of(line) else { continue };
        let nth = counts.entry(name.to_owned()).and_modify(|n| *n += 1).or_insert(1);
        // The first thing it does by itself is to look at the store.
        loaded |= line.contains(&*env.home().to_string_lossy()) && name != "execve";
        if loaded && !UNSTEADY.contains(&name) {
            calls.push(Call { name: name.to_owned(), nth: *nth });
        }
    }
    assert!(calls.len() > 10, "a trace of {args:?} shows what it does: {log}");
    (output, calls)
}

/// Runs `manent ARGS` and kills it, as kill -9 does, when it is about to make this call.
pub(crate) fn killed_at(env: &TestEnvironment, call: &Call, args: &[&str]) -> Output {
    let Call { name, nth } = call;
    let (trace, inject) = (format!("trace={name}"), format!("inject={name}:signal=SIGKILL:when={nth}"));
    traced(env, &["-e", &trace, "-e", &inject], args).0
}

/// Runs `manent ARGS` with strace's options, and gives what strace wrote.
pub(crate) fn traced(env: &TestEnvironment, options: &[&str], args: &[&str]) -> (Output, String) {
    let log: PathBuf = env.root().join("strace.log");
    let mut wrapper = vec!["strace", "-f", "-qq", "-s", "256", "-o"];
    let log_name = log.to_string_lossy();
    wrapper.push(&log_name);
    wrapper.extend(options);
    let output = env.manent_under(&wrapper, args);
    let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    (output, text)
}

/// The name in a line such as `4242  openat(AT_FDCWD, …) = 3`.
fn name_of(line: &str) -> Option<&str> {
    let call = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let (name, _) = call.split_once('(')?;
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then_some(name)
}

/// System calls whose number varies: memory depends on where it happens to lie, reads of the table of locks depend on
/// who else holds any, and the last call has nothing behind it.
const UNSTEADY: [&str; 8] = ["brk", "mmap", "munmap", "mremap", "madvise", "getrandom", "read", "exit_group"];

/// One system call of a run, told apart from others of its name by its thread and by the file that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) name: String,
    /// The number of the call in its thread, as strace counts: among the calls of this name about this path, if
    /// there is one, else among all of this name.
    pub(crate) nth: usize,
    /// The path that it is about, from the directory of the test on; empty if it lies elsewhere.
    pub(crate) path: String,
}

/// A fault at a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Kill,
    /// Fails with this error, by name.
    Error(&'static str),
}

/// In which threads faults are injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In the first thread of our process, and in no process that it starts.
    FirstThread,
    /// In every thread, and in the processes that are started.
    Everything,
}

/// A command line that is run again and again, with a fault at another place each time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faulty<'a> {
    pub(crate) args: &'a [&'a str],
    pub(crate) input: &'a str,
    pub(crate) reach: Reach,
    /// Runs it in the directory `work` of the environment.
    pub(crate) in_work: bool,
}

impl Faulty<'_> {
    /// Runs it without a fault, and gives the calls at which one can be injected: all that change something, and of the
    /// others that are of one name and about one file the first and the last. With `MANENT_EVERY_CALL`, all.
    pub(crate) fn sites(&self, env: &TestEnvironment) -> (Output, Vec<Site>) {
        let (output, log) = self.run(env, &["-y"]);
        let (mut counts, mut sites) = (HashMap::new(), Vec::new());
        let mut loaded = false;
        for line in log.lines() {
            let thread: String = line.chars().take_while(char::is_ascii_digit).collect();
            let Some(name) = name_of(line) else { continue };
            let path = path_in(line, env);
            let mut count = |path: &str| -> usize {
                let call = (thread.clone(), name.to_owned(), path.to_owned());
                *counts.entry(call).and_modify(|n| *n += 1).or_insert(1)
            };
            let (of_name, of_path) = (count(""), if path.is_empty() { 0 } else { count(&path) });
            let nth = if path.is_empty() { of_name } else { of_path };
            // The runtime of Rust sets this up before anything of ours runs.
            loaded |= name == "sigaltstack";
            if loaded && !UNSTEADY.contains(&name) && !UNINTERESTING.contains(&name) {
                sites.push(Site { name: name.to_owned(), nth, path });
            }
        }
        assert!(sites.len() > 10, "a trace of {:?} shows what it does: {log}", self.args);
        if std::env::var_os("MANENT_EVERY_CALL").is_none() {
            sites = thinned(sites);
        }
        // Of calls that count alike in two threads, a fault strikes the first.
        let mut known = HashSet::new();
        sites.retain(|site| known.insert((site.name.clone(), site.nth, site.path.clone())));
        (output, sites)
    }

    /// Runs it with a fault. Gives what came of it, and whether the fault was reached.
    pub(crate) fn with(&self, env: &TestEnvironment, site: &Site, fault: Fault) -> (Output, bool) {
        let Site { name, nth, path } = site;
        let path = format!("{}{path}", env.root().display());
        let trace = format!("trace={name}");
        let inject = match fault {
            Fault::Kill => format!("inject={name}:signal=SIGKILL:when={nth}"),
            Fault::Error(error) => format!("inject={name}:error={error}:when={nth}"),
        };
        let mut options = vec!["-e", &trace, "-e", &inject];
        if !site.path.is_empty() {
            options.extend(["-P", &path]);
        }
        let (output, log) = self.run(env, &options);
        let reached = match fault {
            Fault::Kill => output.signal() == Some(9),
            Fault::Error(_) => log.contains("INJECTED"),
        };
        (output, reached)
    }

    fn run(&self, env: &TestEnvironment, options: &[&str]) -> (Output, String) {
        let log: PathBuf = env.root().join("strace.log");
        let log_name = log.to_string_lossy();
        let mut wrapper = vec!["strace", "-qq", "-s", "256", "-o", &log_name];
        wrapper.extend((self.reach == Reach::Everything).then_some("-f"));
        wrapper.extend(options);
        let mut command: Command = env.command_under(&wrapper, self.args);
        if self.in_work {
            command.current_dir(env.root().join("work"));
        }
        let output = env.output(command, self.input.as_bytes());
        (output, String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned())
    }
}

fn thinned(sites: Vec<Site>) -> Vec<Site> {
    let place = |site: &Site| (site.name.clone(), site.path.clone());
    let last: HashMap<_, usize> = sites.iter().map(|site| (place(site), site.nth)).collect();
    let mut met = HashSet::new();
    let kept = |site: &Site| {
        let is_first = met.insert(place(site));
        is_first || changes(&site.name) || last.get(&place(site)) == Some(&site.nth)
    };
    let mut kept = kept;
    sites.into_iter().filter(|site| kept(site)).collect()
}

/// Takes out calls that change nothing, but for the first of each name: whoever is killed at one of the others is
/// killed before the next call that changes something. With `MANENT_EVERY_CALL`, all stay.
pub(crate) fn without_reads(sites: &mut Vec<Site>) {
    if std::env::var_os("MANENT_EVERY_CALL").is_none() {
        let mut met = HashSet::new();
        sites.retain(|site| met.insert(site.name.clone()) || changes(&site.name));
    }
}

/// Returns true if a call of this name changes something on the disk, takes a lock, or starts a thread or process.
pub(crate) fn changes(name: &str) -> bool {
    let changing =
        ["mkdir", "rename", "unlink", "write", "ftruncate", "fchmod", "fsync", "fdatasync", "flock", "clone"];
    changing.iter().any(|start| name.starts_with(start))
}

/// The path in a line of a trace that lies in the directory of the test, from there on.
fn path_in(line: &str, env: &TestEnvironment) -> String {
    let root = env.root().to_string_lossy();
    let Some(at) = line.find(&*root) else { return String::new() };
    let rest = &line[at + root.len()..];
    rest.chars().take_while(|c| !matches!(c, '"' | '>' | ',')).collect()
}

/// Calls that say nothing about the store, and whose number depends on the scheduler.
const UNINTERESTING: [&str; 12] = [
    "futex",
    "sched_yield",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sigaltstack",
    "set_robust_list",
    "rseq",
    "prctl",
    "clock_nanosleep",
    "epoll_wait",
    "restart_syscall",
];
