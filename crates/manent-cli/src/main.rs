//! The command `manent`.
//!
//! `args.rs` parses the command line, `context.rs` opens the store and the output, `commands/` has one file for each
//! command, and `term.rs` is the only place where text from a record meets a terminal.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod args;
mod commands;
mod context;
mod exit;
mod hints;
mod input;
mod model;
mod new_file;
mod output;
mod repl;
mod term;
mod toolbox;
mod when;

fn main() -> ExitCode {
    // Before anything else: this may be a process that is to become a command in a sandbox.
    #[cfg(target_os = "linux")]
    if let Some(code) = manent_agent::sandbox::enter_if_asked() {
        return code;
    }
    // A limit on file sizes must come back from write(2) as an error, not kill us: a handler is enough for that.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(exit) => return exit,
    };
    let context = context::Context { global: &args.global };
    let outcome = commands::run(&context, &args.command);
    let exit = outcome.unwrap_or_else(|failure| {
        context.complain(&failure);
        failure.exit
    });
    exit.into()
}
