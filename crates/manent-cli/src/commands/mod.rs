//! One file for each command.
//!
//! A command is a file with three parts, of which `title.rs` is a short example:
//!
//! 1. its arguments, a `clap` struct; the doc comment of the struct is the help of the command, those of its fields are
//!    the help of its options,
//! 2. `run(context, args)`, which does the work and returns the exit code,
//! 3. the constants that the two need.
//!
//! To add one, write the file, and add it below: its `mod` line, and its line in [`Command`], in the order in which
//! `manent help` lists the commands. A command whose arguments are a group that several commands share names that group
//! by an alias, and its help stands in [`Command`]. A command with subcommands is a directory of such files
//! (`memory/mod.rs`).
//! `prelude.rs` has what most commands import, `session_names.rs` finds the sessions that a command line names,
//! `read_session.rs` reads their records, and `crate::args` has the arguments that several commands share.

pub(crate) mod append;
pub(crate) mod archive;
pub(crate) mod chat;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod consolidate;
pub(crate) mod context;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod man;
pub(crate) mod memory;
pub(crate) mod missing;
pub(crate) mod prelude;
mod read_session;
pub(crate) mod reindex;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod retro;
pub(crate) mod rm;
pub(crate) mod run;
#[cfg(target_os = "linux")]
pub(crate) mod sandbox;
pub(crate) mod search;
mod session_names;
pub(crate) mod sessions;
pub(crate) mod show;
mod side_logs;
pub(crate) mod skills;
pub(crate) mod stats;
pub(crate) mod title;
pub(crate) mod train;
pub(crate) mod unarchive;
pub(crate) mod verify;

use prelude::*;

/// Declares an enum of subcommands for `clap`, and a function `run`, which calls the `run` of the module that is named
/// before the arguments. A subcommand that not every system has is followed by `if` and a condition for `cfg`.
macro_rules! subcommands {
    ($(#[$of_enum:meta])* $name:ident {
        $($(#[$of_variant:meta])* $variant:ident($module:ident::$args:ident) $(if $condition:meta)?,)+
    }) => {
        #[derive(Debug, Subcommand)]
        $(#[$of_enum])*
        pub(crate) enum $name {
            $($(#[$of_variant])* $(#[cfg($condition)])? $variant($module::$args),)+
        }

        pub(crate) fn run(context: &Context<'_>, command: &$name) -> Result<Exit, Failure> {
            match command {
                $($(#[cfg($condition)])? $name::$variant(args) => $module::run(context, args),)+
            }
        }
    };
}
use subcommands;

subcommands! {
    Command {
        Chat(chat::ChatArgs),
        Append(append::AppendArgs),
        Show(show::ShowArgs),
        Export(export::ExportArgs),
        Search(search::SearchArgs),
        Context(context::ContextArgs),
        Compact(compact::CompactArgs),
        Consolidate(consolidate::ConsolidateArgs),
        Sessions(sessions::SessionsArgs),
        /// Put sessions away, packed; they are read as before
        Archive(archive::ArchiveArgs),
        /// Make archived sessions live again
        Unarchive(unarchive::UnarchiveArgs),
        Rm(rm::RmArgs),
        /// Bring sessions back from the trash
        Restore(restore::RestoreArgs),
        Fork(fork::ForkArgs),
        Title(title::TitleArgs),
        #[command(subcommand)]
        Memory(memory::MemoryCommand),
        #[command(subcommand)]
        Skills(skills::SkillsCommand),
        #[command(subcommand)]
        Run(run::RunCommand),
        Retro(retro::RetroArgs),
        Train(train::TrainArgs),
        Sandbox(sandbox::SandboxArgs) if target_os = "linux",
        Stats(stats::StatsArgs),
        Verify(verify::VerifyArgs),
        Repair(repair::RepairArgs),
        Doctor(doctor::DoctorArgs),
        Config(config::ConfigArgs),
        Reindex(reindex::ReindexArgs),
        Completions(completions::CompletionsArgs),
        Man(man::ManArgs),
    }
}
