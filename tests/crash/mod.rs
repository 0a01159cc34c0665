//! Processes that die, disks that fail and fill up, and things that stand where a log should.

mod chat;
mod io_errors;
mod kill;
mod limits;
mod memory;
mod moves;
mod moves_refused;
mod not_a_log;
mod run_exec;
mod syscalls;
