//! The sandbox as the shell of the tools.

use std::time::Duration;

use super::{Ending, Limits, Line, Policy, Sandbox, Stop};
use crate::tools::{Ran, Shell};

/// Runs commands in a sandbox, by one policy.
#[derive(Debug, Clone)]
pub struct SandboxShell {
    sandbox: Sandbox,
    policy: Policy,
}

impl SandboxShell {
    /// In this sandbox, by this policy.
    pub fn new(sandbox: Sandbox, policy: Policy) -> SandboxShell {
        SandboxShell { sandbox, policy }
    }
}

impl Shell for SandboxShell {
    fn run(&self, command: &str, timeout: Duration, stop: &dyn Fn() -> bool) -> Result<Ran, String> {
        let limits = Limits { wall: timeout.min(self.policy.limits.wall), ..self.policy.limits };
        let policy = Policy { limits, ..self.policy.clone() };
        let flag = Stop::new().map_err(|e| e.to_string())?;
        let line = Line::Shell(command.to_owned());
        let outcome = std::thread::scope(|scope| {
            let running = scope.spawn(|| self.sandbox.run(&policy, &line, &flag));
            // Whoever may say stop is asked here: it need not be known in other threads.
            while !running.is_finished() {
                if stop() {
                    flag.now();
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
            }
            running.join()
        });
        let outcome =
            outcome.map_err(|_| "the sandbox broke off; what the command did is unknown".to_owned())?;
        let outcome = outcome.map_err(|e| e.to_string())?;
        let exit_code = match outcome.ending {
            Ending::Exit(code) => Some(code),
            _ => None,
        };
        Ok(Ran {
            output: outcome.stdout.text(),
            exit_code,
            ended: outcome.ending.to_string(),
            sandbox: outcome.sandbox,
            duration: outcome.duration,
        })
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(10);
