//! Exit codes that scripts can rely on, and failures with their exit code.

use std::process::ExitCode;

use manent::backend::Error as StoreError;
use manent::memory::ItemError;
use manent_agent::config::ConfigError;
use manent_agent::providers::ModelError;
use manent_agent::skills::SkillError;

use crate::hints;

/// The documented exit codes, ordered by how bad they are, so that the worst of several can be returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Done,
    /// Ended by Ctrl-C.
    Interrupted,
    /// Ended by SIGHUP: the terminal is gone.
    HungUp,
    /// Ended by SIGTERM.
    Terminated,
    NotFound,
    Conflict,
    Held,
    Failed,
    /// Outranks `Failed`: a script must hear of damage in a store, whatever else could not be read.
    Damage,
    Usage,
    /// The record may be there or not. To a script this is the worst: a retry may append it twice.
    Unknown,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Interrupted => 130,
            Exit::HungUp => 129,
            Exit::Terminated => 143,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Damage => 3,
            Exit::NotFound => 4,
            Exit::Held => 5,
            Exit::Conflict => 6,
            Exit::Unknown => 7,
        })
    }
}

/// The message and the exit code of a command that did not succeed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Failure {
        Failure::new(Exit::NotFound, message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Conflict, message)
    }

    /// Returns the failure of a command for live sessions that was given another one.
    pub(crate) fn not_live(id: &manent::StreamId, hint: &str) -> Failure {
        let error = StoreError::NotLive { key: id.key.to_string(), place: id.place };
        Failure::new(Exit::Failed, format!("{error}; {hint}"))
    }
}

/// Errors that are treated as errors of the library.
macro_rules! library_failures {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                manent::Error::from(error).into()
            }
        })+
    };
}
library_failures!(StoreError, manent::log::Error, manent::KeyError);

impl From<manent::Error> for Failure {
    fn from(error: manent::Error) -> Failure {
        Failure::new(exit_of(&error), hints::message(&error))
    }
}

fn exit_of(error: &manent::Error) -> Exit {
    match error {
        manent::Error::Store(error) => exit_of_store(error.root()),
        manent::Error::Item(ItemError::Quote(_) | ItemError::NoMoreIds) => Exit::Failed,
        manent::Error::Key(_) | manent::Error::Ambiguous { .. } | manent::Error::Item(_) => Exit::Usage,
        manent::Error::NoSuchRecord { .. }
        | manent::Error::NotProposed { .. }
        | manent::Error::NoItem { .. } => Exit::NotFound,
        manent::Error::Replaced { .. } => Exit::Conflict,
        manent::Error::MemoryHeld { .. } | manent::Error::ConsolidationHeld { .. } => Exit::Held,
        manent::Error::NotPacked { source, .. } => exit_of(source),
        _ => Exit::Failed,
    }
}

impl From<manent_runs::Error> for Failure {
    fn from(error: manent_runs::Error) -> Failure {
        Failure::new(exit_of_runs(&error), hints::message_of_runs(&error))
    }
}

fn exit_of_runs(error: &manent_runs::Error) -> Exit {
    match error {
        manent_runs::Error::Manent(error) => exit_of(error),
        manent_runs::Error::NoRun { .. } | manent_runs::Error::NoAttempt { .. } => Exit::NotFound,
        manent_runs::Error::Running { .. } => Exit::Held,
        _ => Exit::Failed,
    }
}

/// Errors that name their remedy themselves, and that exit with 1.
macro_rules! plain_failures {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                Failure::new(Exit::Failed, error.to_string())
            }
        })+
    };
}

plain_failures!(ModelError);
#[cfg(target_os = "linux")]
plain_failures!(manent_agent::sandbox::SandboxError);

impl From<SkillError> for Failure {
    fn from(error: SkillError) -> Failure {
        let exit = match &error {
            SkillError::NoSuch { .. } | SkillError::NoFile { .. } => Exit::NotFound,
            SkillError::Unreadable { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Exit::NotFound
            }
            _ => Exit::Failed,
        };
        Failure::new(exit, hints::message_of_skills(&error))
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::failed(hints::message_of_config(&error))
    }
}

/// Standard input or output failed. A closed pipe is not a failure: `head` closes it when it has enough.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::new(Exit::Done, "");
        }
        Failure::new(Exit::Failed, format!("cannot read input or write output: {error}"))
    }
}

fn exit_of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Log(log) => exit_of_log(log),
        StoreError::NotFound { .. } => Exit::NotFound,
        StoreError::InTheWay { .. } => Exit::Conflict,
        StoreError::Busy { .. } => Exit::Held,
        StoreError::Archive { .. } => Exit::Damage,
        _ => Exit::Failed,
    }
}

fn exit_of_log(error: &manent::log::Error) -> Exit {
    match error.root() {
        manent::log::Error::Held { .. } => Exit::Held,
        manent::log::Error::Conflict { .. } => Exit::Conflict,
        manent::log::Error::NotFound { .. } => Exit::NotFound,
        manent::log::Error::Unknown { .. } => Exit::Unknown,
        _ => Exit::Failed,
    }
}
