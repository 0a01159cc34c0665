//! The binary under strace: every system call it makes, and any of them made to fail.

use std::collections::HashMap;
use std::path::PathBuf;

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

/// How often memory is asked for depends on where it happens to lie, how often the table of locks is read depends on
/// who else holds any, and the last call has nothing behind it.
const UNSTEADY: [&str; 8] = ["brk", "mmap", "munmap", "mremap", "madvise", "getrandom", "read", "exit_group"];
