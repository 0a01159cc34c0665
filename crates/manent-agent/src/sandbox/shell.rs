//! The sandbox as the shell of the tools.

use std::time::Duration;

use super::{
    Cause, CommandEnd, GuardNote, NewEntries, ResourceLimits, Sandbox, SandboxCommand, SandboxPolicy,
    StopFlag,
};
use crate::protected::GIT;
use crate::tools::{CommandRequest, CommandResult, Shell};

/// Runs commands in a sandbox, by one policy.
#[derive(Debug, Clone)]
pub struct SandboxShell {
    sandbox: Sandbox,
    policy: SandboxPolicy,
}

impl SandboxShell {
    /// Makes a shell that runs commands in this sandbox, by this policy.
    pub fn new(sandbox: Sandbox, policy: SandboxPolicy) -> SandboxShell {
        SandboxShell { sandbox, policy }
    }
}

impl Shell for SandboxShell {
    fn run(&self, order: &CommandRequest<'_>, stop: &dyn Fn() -> bool) -> Result<CommandResult, String> {
        let CommandRequest { command, timeout, extras } = *order;
        let limits = ResourceLimits { wall: timeout.min(self.policy.limits.wall), ..self.policy.limits };
        let mut policy = SandboxPolicy { limits, ..self.policy.clone() };
        if extras.writable_git {
            policy.writable_git.push(GIT.into());
        }
        if extras.new_repo {
            policy.new_entries = NewEntries::Allowed;
        }
        let flag = StopFlag::new().map_err(|e| e.to_string())?;
        let line = SandboxCommand::Shell(command.to_owned());
        let outcome = std::thread::scope(|scope| {
            let run = || self.sandbox.run(&policy, &line, &flag);
            let running = std::thread::Builder::new().spawn_scoped(scope, run)?;
            // `stop` is called on this thread only, because it need not be `Sync`.
            while !running.is_finished() {
                if stop() {
                    flag.now();
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            Ok::<_, std::io::Error>(running.join())
        });
        let outcome = outcome.map_err(|e| format!("no thread can be started for the command: {e}"))?;
        let outcome =
            outcome.map_err(|_| "the sandbox broke off; what the command did is unknown".to_owned())?;
        let outcome = outcome.map_err(|e| e.to_string())?;
        let exit_code = match outcome.ending {
            CommandEnd::Exit(code) => Some(code),
            _ => None,
        };
        Ok(CommandResult {
            output: outcome.stdout.text(),
            exit_code,
            ended: outcome.ending.to_string(),
            sandbox: outcome.sandbox,
            duration: outcome.duration,
            notes: outcome.notes.into_iter().map(note_for_model).collect(),
        })
    }
}

/// A note for a model, with what it could do about it.
fn note_for_model(note: GuardNote) -> String {
    match note.cause {
        Cause::Appeared => format!("{}; set new_repo to true if it is needed", note.text),
        Cause::Changed | Cause::Trouble | Cause::Limit => note.text,
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(10);
