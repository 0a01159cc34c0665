//! The command `manent`.
//!
//! `args.rs` says what can be typed, `context.rs` turns it into a store and an output, `commands/` holds one file for
//! each command, and `term.rs` is the only place where text from a record meets a terminal.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod args;
mod commands;
mod context;
mod exit;
mod output;
mod term;
mod when;

fn main() -> ExitCode {
    // A limit on file sizes must come back from write(2) as an error, not kill us: a handler is enough for that.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    let args = match args::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(exit) => return exit,
    };
    let context = context::Context::new(&args.global);
    let outcome = match &args.command {
        args::Command::Append(given) => commands::append::run(&context, given),
        args::Command::Show(given) => commands::show::run(&context, given),
        args::Command::Search(given) => commands::search::run(&context, given),
        args::Command::Context(given) => commands::context::run(&context, given),
        args::Command::Compact(given) => commands::compact::run(&context, given),
        args::Command::Sessions(given) => commands::sessions::run(&context, given),
        args::Command::Archive(given) => commands::archive::run(&context, given),
        args::Command::Unarchive(given) => commands::unarchive::run(&context, given),
        args::Command::Rm(given) => commands::rm::run(&context, given),
        args::Command::Restore(given) => commands::restore::run(&context, given),
        args::Command::Fork(given) => commands::fork::run(&context, given),
        args::Command::Title(given) => commands::title::run(&context, given),
        args::Command::Memory(given) => commands::memory::run(&context, given),
        args::Command::Stats(given) => commands::stats::run(&context, given),
        args::Command::Doctor => commands::doctor::run(&context),
        args::Command::Reindex => commands::reindex::run(&context),
        args::Command::Completions(given) => commands::completions::run(given),
        args::Command::Man(given) => commands::man::run(given),
        args::Command::Verify(given) => commands::verify::run(&context, given),
        args::Command::Repair(given) => commands::repair::run(&context, given),
    };
    let exit = outcome.unwrap_or_else(|failure| {
        context.complain(&failure);
        failure.exit
    });
    exit.into()
}
