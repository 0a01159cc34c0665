//! Real attempts to get out of a sandbox, each with what came of it.
//!
//! An attempt is made three times over: outside, where that harms nobody, to show that it would work (the control);
//! inside; and then the place is looked at from outside, because what a process says of itself proves little. An
//! attempt that could not be made proves nothing, and is counted as such.

pub(super) mod attempts;
mod raw_syscalls;
mod repositories;
mod resource_abuse;
mod stage;

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use stage::{SECRET, TestStage, VARIABLE};

use super::error::SandboxError;
use super::outcome::CommandEnd;
use super::plan::ENTRANCE;
use super::policy::SandboxPolicy;
use super::run::SandboxCommand;
use super::stop::StopFlag;
use super::{Isolation, Sandbox};

/// One attempt, and what came of it.
#[derive(Debug, Clone)]
pub struct EscapeTrial {
    /// The name of the attempt.
    pub attempt: &'static str,
    /// The expected result.
    pub expected: &'static str,
    /// The observed result.
    pub got: String,
    /// The result outside of the sandbox.
    pub control: Control,
    /// The assessment.
    pub result: TrialResult,
}

/// The result of an attempt without a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// The attempt works, so it is the sandbox that prevents it.
    Works,
    /// The attempt is refused to this user anyway.
    Refused(String),
    /// Not tried: it would do harm.
    NotTried,
}

/// The assessment of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialResult {
    /// The sandbox prevented the attempt.
    Held,
    /// The sandbox did not prevent the attempt, or that is unknown.
    Escaped,
    /// The attempt could not be made.
    Skipped,
}

impl TrialResult {
    /// Returns the word for display.
    pub fn word(self) -> &'static str {
        match self {
            TrialResult::Held => "held",
            TrialResult::Escaped => "ESCAPED",
            TrialResult::Skipped => "skipped",
        }
    }
}

/// Makes all attempts, and tells of each when it is over.
pub fn selftest(
    sandbox: &Sandbox,
    tell: &mut dyn FnMut(&EscapeTrial),
) -> Result<Vec<EscapeTrial>, SandboxError> {
    let plain = attempts::REFUSED_ALL.iter().map(|(attempt, _)| plain(sandbox, attempt));
    let raw = raw_syscalls::ALL.iter().map(|call| raw_syscalls::trial(sandbox, call));
    let excess = resource_abuse::ALL.iter().map(|attempt| attempt(sandbox));
    let repositories = repositories::ALL.iter().map(|attempt| repositories::trial(sandbox, attempt));
    let mut trials = Vec::new();
    for trial in plain.chain(raw).chain(excess).chain(repositories) {
        let trial = trial?;
        tell(&trial);
        trials.push(trial);
    }
    Ok(trials)
}

/// The one attempt with a policy of its own: the home is the workspace, and the store is in it.
const STORE_INSIDE: &str = "unhide the store";

fn plain(sandbox: &Sandbox, attempt: &'static str) -> Result<EscapeTrial, SandboxError> {
    let control = control(sandbox, |stage| words(sandbox, stage, attempt))?;
    let mut stage = TestStage::new()?;
    let mut policy = stage.policy(&sandbox.helper);
    if attempt == STORE_INSIDE {
        policy.workspace.clone_from(&stage.targets.home);
        if sandbox.kind == Isolation::Landlock {
            return Ok(store_inside_refused(sandbox, &policy, control));
        }
    }
    stage.allow(&policy);
    let line = SandboxCommand::Program(words(sandbox, &stage, attempt));
    let (got, result) = inside(sandbox, &policy, &line, &mut stage)?;
    Ok(EscapeTrial { attempt, expected: "refused", got, control, result })
}

/// Under Landlock a part of a directory cannot be hidden, so nothing is run in such a one.
fn store_inside_refused(sandbox: &Sandbox, policy: &SandboxPolicy, control: Control) -> EscapeTrial {
    let run = StopFlag::new()
        .and_then(|stop| sandbox.run(policy, &SandboxCommand::Shell("true".to_owned()), &stop));
    let (got, result) = match run {
        Err(SandboxError::Refused { .. }) => ("no command is run there".to_owned(), TrialResult::Held),
        Err(e) => (e.to_string(), TrialResult::Escaped),
        Ok(outcome) => (outcome.ending.to_string(), TrialResult::Escaped),
    };
    EscapeTrial { attempt: STORE_INSIDE, expected: "refused", got, control, result }
}

/// Runs an attempt in the sandbox, and looks at what is left of the place.
fn inside(
    sandbox: &Sandbox,
    policy: &SandboxPolicy,
    line: &SandboxCommand,
    stage: &mut TestStage,
) -> Result<(String, TrialResult), SandboxError> {
    let mut policy = policy.clone();
    policy.limits.wall = ATTEMPT_MAX;
    let outcome = sandbox.run(&policy, line, &StopFlag::new()?)?;
    let said = outcome.stdout.text();
    if let Some(trace) = stage.traces() {
        return Ok((trace, TrialResult::Escaped));
    }
    Ok(match outcome.ending {
        _ if said.contains(SECRET) => ("the secret came out".to_owned(), TrialResult::Escaped),
        CommandEnd::Exit(code) if code == i32::from(attempts::REFUSED) => (short(&said), TrialResult::Held),
        CommandEnd::Exit(0) => (short(&said), TrialResult::Escaped),
        // An unexpected end counts as an escape.
        ending => (format!("{ending}: {}", short(&said)), TrialResult::Escaped),
    })
}

/// Runs an attempt on a place of its own, without a sandbox.
fn control(
    sandbox: &Sandbox,
    words: impl FnOnce(&TestStage) -> Vec<OsString>,
) -> Result<Control, SandboxError> {
    let mut stage = TestStage::new()?;
    let policy = stage.policy(&sandbox.helper);
    stage.allow(&policy);
    let words = words(&stage);
    let Some((program, rest)) = words.split_first() else { return Ok(Control::NotTried) };
    let mut command = Command::new(program);
    command.args(rest).env(VARIABLE, SECRET).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(SandboxError::io("make an attempt outside of the sandbox"))?;
    if output.status.success() {
        return Ok(Control::Works);
    }
    Ok(Control::Refused(short(&String::from_utf8_lossy(&output.stdout))))
}

fn words(sandbox: &Sandbox, stage: &TestStage, attempt: &str) -> Vec<OsString> {
    let targets = serde_json::to_string(&stage.targets).unwrap_or_default();
    vec![
        sandbox.helper.clone().into(),
        ENTRANCE.into(),
        attempts::ATTEMPT.into(),
        attempt.into(),
        targets.into(),
    ]
}

/// The first line, and not too much of it.
fn short(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(60).collect()
}

/// Returns true if a program exists; it can then be used in the sandbox, too.
fn has(program: &str) -> bool {
    Path::new(program).is_file()
}

/// The time limit of one attempt.
const ATTEMPT_MAX: Duration = Duration::from_secs(20);
