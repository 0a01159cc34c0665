//! A command that is left running: a writer that keeps a session open, a reader that follows one.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::environment::{HANG, TestEnvironment, wait};

/// A running `manent`, killed when it is dropped.
pub(crate) struct Stream {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

impl Stream {
    /// Starts `manent ARGS`.
    pub(crate) fn start<A: AsRef<OsStr>>(env: &TestEnvironment, args: &[A]) -> Stream {
        let mut command = env.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stdout.take().expect("it was piped"));
        let errors = lines_of(child.stderr.take().expect("it was piped"));
        Stream { stdin: child.stdin.take(), child, lines, errors }
    }

    /// A writer that holds the session until it is dropped or finished. It has written one turn.
    pub(crate) fn hold(env: &TestEnvironment, key: &str) -> Stream {
        let mut holder = Stream::start(env, &["append", "--jsonl", "--durability", "flush", "--", key]);
        holder.send(&super::records::plain("held"));
        holder.line();
        holder
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line to its standard input.
    pub(crate) fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("the input is open").write_all(bytes).unwrap();
    }

    /// Waits for the next line of standard output.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(HANG).expect("a line comes")
    }

    /// The lines that come until one is what we wait for, that one included.
    #[track_caller]
    pub(crate) fn lines_until(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.line());
            if lines.last().is_some_and(|line| wanted(line)) {
                return lines;
            }
        }
    }

    /// The first line of standard error from here on that has these words.
    #[track_caller]
    pub(crate) fn error_with(&self, words: &str) -> String {
        loop {
            let line = self.errors.recv_timeout(HANG).unwrap_or_else(|_| panic!("it never says {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Returns true if standard output stays empty for a while.
    pub(crate) fn is_silent_for(&self, while_: Duration) -> bool {
        matches!(self.lines.recv_timeout(while_), Err(RecvTimeoutError::Timeout))
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Closes its input and waits for it to end. Gives the rest of its output, and its errors.
    #[track_caller]
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<String>, Vec<String>) {
        self.stdin = None;
        let status = wait(&mut self.child, HANG).expect("it ends by itself");
        (status, self.lines.iter().collect(), self.errors.iter().collect())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { break };
            if send.send(line).is_err() {
                break;
            }
        }
    });
    receive
}
