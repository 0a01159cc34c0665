//! Attempts to use up what is not theirs, or to stay. None of them is made outside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use manent::log::RealDisk;
use manent::log::fs::Disk;

use super::super::Sandbox;
use super::super::error::SandboxError;
use super::super::outcome::{CommandEnd, CommandOutcome, Limit};
use super::super::policy::ResourceLimits;
use super::super::run::SandboxCommand;
use super::super::stop::StopFlag;
use super::stage::{TestStage, running};
use super::{Control, EscapeTrial, TrialResult, words};

type Attempt = fn(&Sandbox) -> Result<EscapeTrial, SandboxError>;

pub(super) const ALL: &[Attempt] = &[fork_bomb, memory, disk, work, background, forever, flood];

fn fork_bomb(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let limits = ResourceLimits { processes: 50, wall: Duration::from_secs(5), ..ResourceLimits::default() };
    let (over, peak) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let line = |stage: &TestStage| {
            let marker = marker(stage).to_owned();
            let line = format!("bomb() {{ bomb | bomb & }}; bomb; sleep 4; : {marker}");
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    peak.fetch_max(running(&marker), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            SandboxCommand::Shell(line)
        };
        // How it ends depends on who was quicker, the keeper or the kernel, which lets an ordinary user make no more.
        let trial = attempt(sandbox, "fork bomb", "bounded, none left", limits, line, |stage, _| {
            let (left, peak) = (running(marker(stage)), peak.load(Ordering::Relaxed));
            (left == 0 && peak <= PEAK_MAX, format!("; {peak} at most, {left} left"))
        });
        over.store(true, Ordering::Relaxed);
        trial
    })
}

fn memory(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let limits = ResourceLimits { memory_bytes: 128 << 20, wall: LONG, ..ResourceLimits::default() };
    let line = |stage: &TestStage| SandboxCommand::Program(words(sandbox, stage, "memory hog"));
    attempt(sandbox, "memory hog", "killed", limits, line, |_, outcome| {
        (outcome.ending == CommandEnd::Limit(Limit::Memory), String::new())
    })
}

fn disk(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let limits = ResourceLimits { file_bytes: 1 << 20, wall: LONG, ..ResourceLimits::default() };
    let line = |stage: &TestStage| SandboxCommand::Program(words(sandbox, stage, "fill the disk"));
    attempt(sandbox, "fill the disk", "killed", limits, line, |stage, outcome| {
        let written = RealDisk.inspect(&stage.targets.workspace.join("full")).map_or(0, |info| info.len);
        let is_held = outcome.ending == CommandEnd::Limit(Limit::FileSize) && written == 1 << 20;
        (is_held, format!(", at {written} bytes"))
    })
}

fn work(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let limits = ResourceLimits { cpu_seconds: 1, wall: LONG, ..ResourceLimits::default() };
    // By two, of whom neither is over a limit of its own.
    let line = |_: &TestStage| SandboxCommand::Shell("while :; do :; done & while :; do :; done".to_owned());
    attempt(sandbox, "work without end", "killed", limits, line, |_, outcome| {
        (outcome.ending == CommandEnd::Limit(Limit::Cpu), String::new())
    })
}

fn background(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let limits = ResourceLimits { wall: LONG, ..ResourceLimits::default() };
    let line = |stage: &TestStage| {
        let stays = format!("trap '' HUP INT TERM; sleep 30; : {}", marker(stage));
        SandboxCommand::Shell(format!(
            "(setsid sh -c \"{stays}\" &) ; setsid sh -c \"{stays}\" & sleep 0.2; echo up"
        ))
    };
    attempt(sandbox, "stay in the background", "gone", limits, line, |stage, outcome| {
        let left = running(marker(stage));
        let is_up = outcome.ending == CommandEnd::Exit(0) && outcome.stdout.text() == "up\n";
        (left == 0 && is_up, format!(", {left} left"))
    })
}

fn forever(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let limits = ResourceLimits { wall: Duration::from_secs(1), ..ResourceLimits::default() };
    let line = |stage: &TestStage| {
        SandboxCommand::Shell(format!("trap '' HUP INT TERM; sleep 30; sleep 30; : {}", marker(stage)))
    };
    attempt(sandbox, "run for ever", "killed", limits, line, |stage, outcome| {
        let left = running(marker(stage));
        (left == 0 && outcome.ending == CommandEnd::Timeout, format!(", {left} left"))
    })
}

fn flood(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let limits =
        ResourceLimits { wall: Duration::from_secs(1), output_bytes: 1000, ..ResourceLimits::default() };
    let line = |_: &TestStage| SandboxCommand::Shell("yes".to_owned());
    attempt(sandbox, "flood of output", "bounded", limits, line, |_, outcome| {
        let (kept, cut) = (outcome.stdout.text().len(), outcome.stdout.cut_bytes);
        let is_held = outcome.ending == CommandEnd::Timeout && kept < 1100 && cut > 100_000;
        (is_held, format!(", {kept} bytes kept"))
    })
}

/// Runs the `line` under the `limits`. `judge` returns whether the sandbox held, and what to add to how it ended.
fn attempt(
    sandbox: &Sandbox,
    attempt: &'static str,
    expected: &'static str,
    limits: ResourceLimits,
    line: impl FnOnce(&TestStage) -> SandboxCommand,
    judge: impl FnOnce(&TestStage, &CommandOutcome) -> (bool, String),
) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let mut policy = stage.policy(&sandbox.helper);
    policy.limits = limits;
    let outcome = sandbox.run(&policy, &line(&stage), &StopFlag::new()?)?;
    let (is_held, more) = judge(&stage, &outcome);
    let result = if is_held { TrialResult::Held } else { TrialResult::Escaped };
    let got = format!("{}{more}", outcome.ending);
    Ok(EscapeTrial { attempt, expected, got, control: Control::NotTried, result })
}

/// A word on the command line by which its processes are known.
fn marker(stage: &TestStage) -> &str {
    &stage.targets.abstract_name
}

/// Longer than anything here should take.
const LONG: Duration = Duration::from_secs(30);
/// For root the kernel counts no processes, so the keeper does, many times a second; a bomb is quick between two looks.
const PEAK_MAX: usize = 4000;
