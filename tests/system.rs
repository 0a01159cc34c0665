//! The binary `manent` from outside, as its users meet it: whole commands on real files, in real processes.
//!
//! | module | about |
//! |---|---|
//! | `cli/` | what the commands say, take and refuse; exit codes; two processes at once |
//! | `crash/` | kill -9 at random and at every system call, failing and full disks, limits, things that are no log |
//! | `hostile/` | bytes that a fault or a vandal left: flips, cuts, splices, huge and deep and foreign lines |
//! | `real_model/` | a small model served on this machine, for `./test --real-model` alone |
//! | `security/` | names, rights, the terminal, secrets |
//! | `tidy/` | the rules of the house, kept by a test |
//! | `support/` | the clean place in which all of them run, and the tools that hurt |
//!
//! The engine has tests of its own, and a simulator; here stands only what somebody at the command line can see.
//! Numbers such as "acceptance list 16" are those of the list of faults that the whole system is built against.
//! What a machine does not allow (strace, mounts, another user) is skipped loudly; `MANENT_NO_SKIP=1` forbids it.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests play the crash, the other program and the vandal: they reach around the engine's door"
)]
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing step fails the test")]

mod cli;
mod crash;
mod hostile;
mod real_model;
mod security;
mod support;
mod tidy;
