//! Attempts to use up what is not theirs, or to stay. None of them is made outside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use manent::log::RealDisk;
use manent::log::fs::Disk;

use super::super::Sandbox;
use super::super::error::SandboxError;
use super::super::outcome::{CommandEnd, CommandOutcome, Limit};
use super::super::policy::ResourceLimits;
use super::super::run::CommandLine;
use super::super::stop::StopFlag;
use super::stage::{TestStage, running};
use super::{Control, EscapeTrial, TrialResult, words};

type Attempt = fn(&Sandbox) -> Result<EscapeTrial, SandboxError>;

pub(super) const ALL: &[Attempt] = &[fork_bomb, memory, disk, work, background, forever, flood];

fn fork_bomb(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let limits = ResourceLimits { processes: 50, wall: Duration::from_secs(5), ..ResourceLimits::default() };
    let marker = marker(&stage);
    let line = CommandLine::Shell(format!("bomb() {{ bomb | bomb & }}; bomb; sleep 4; : {marker}"));
    let (over, peak) = (AtomicBool::new(false), AtomicUsize::new(0));
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                peak.fetch_max(running(&marker), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let outcome = run(sandbox, &stage, limits, &line);
        over.store(true, Ordering::Relaxed);
        outcome
    })?;
    let (left, peak) = (running(&marker), peak.into_inner());
    // How it ends depends on who was quicker, the keeper or the kernel, which lets an ordinary user make no more.
    let verdict = if left == 0 && peak <= PEAK_MAX { TrialResult::Held } else { TrialResult::Escaped };
    let got = format!("{}; {peak} at most, {left} left", outcome.ending);
    Ok(trial("fork bomb", "bounded, none left", got, verdict))
}

fn memory(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let limits = ResourceLimits { memory_bytes: 128 << 20, wall: LONG, ..ResourceLimits::default() };
    let line = CommandLine::Program(words(sandbox, &stage, "memory hog"));
    let outcome = run(sandbox, &stage, limits, &line)?;
    let verdict = if outcome.ending == CommandEnd::Limit(Limit::Memory) {
        TrialResult::Held
    } else {
        TrialResult::Escaped
    };
    Ok(trial("memory hog", "killed", outcome.ending.to_string(), verdict))
}

fn disk(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let limits = ResourceLimits { file_bytes: 1 << 20, wall: LONG, ..ResourceLimits::default() };
    let line = CommandLine::Program(words(sandbox, &stage, "fill the disk"));
    let outcome = run(sandbox, &stage, limits, &line)?;
    let written = RealDisk.inspect(&stage.targets.workspace.join("full")).map_or(0, |info| info.len);
    let verdict = if outcome.ending == CommandEnd::Limit(Limit::FileSize) && written == 1 << 20 {
        TrialResult::Held
    } else {
        TrialResult::Escaped
    };
    Ok(trial("fill the disk", "killed", format!("{}, at {written} bytes", outcome.ending), verdict))
}

fn work(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let limits = ResourceLimits { cpu_seconds: 1, wall: LONG, ..ResourceLimits::default() };
    // By two, of whom neither is over a limit of its own.
    let line = CommandLine::Shell("while :; do :; done & while :; do :; done".to_owned());
    let outcome = run(sandbox, &stage, limits, &line)?;
    let verdict = if outcome.ending == CommandEnd::Limit(Limit::Cpu) {
        TrialResult::Held
    } else {
        TrialResult::Escaped
    };
    Ok(trial("work without end", "killed", outcome.ending.to_string(), verdict))
}

fn background(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let marker = marker(&stage);
    let stays = format!("trap '' HUP INT TERM; sleep 30; : {marker}");
    let line = CommandLine::Shell(format!(
        "(setsid sh -c \"{stays}\" &) ; setsid sh -c \"{stays}\" & sleep 0.2; echo up"
    ));
    let outcome = run(sandbox, &stage, ResourceLimits { wall: LONG, ..ResourceLimits::default() }, &line)?;
    let left = running(&marker);
    let verdict = if left == 0 && outcome.ending == CommandEnd::Exit(0) && outcome.stdout.text() == "up\n" {
        TrialResult::Held
    } else {
        TrialResult::Escaped
    };
    Ok(trial("stay in the background", "gone", format!("{}, {left} left", outcome.ending), verdict))
}

fn forever(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let marker = marker(&stage);
    let limits = ResourceLimits { wall: Duration::from_secs(1), ..ResourceLimits::default() };
    let line = CommandLine::Shell(format!("trap '' HUP INT TERM; sleep 30; sleep 30; : {marker}"));
    let outcome = run(sandbox, &stage, limits, &line)?;
    let left = running(&marker);
    let verdict = if left == 0 && outcome.ending == CommandEnd::Timeout {
        TrialResult::Held
    } else {
        TrialResult::Escaped
    };
    Ok(trial("run for ever", "killed", format!("{}, {left} left", outcome.ending), verdict))
}

fn flood(sandbox: &Sandbox) -> Result<EscapeTrial, SandboxError> {
    let stage = TestStage::new()?;
    let limits =
        ResourceLimits { wall: Duration::from_secs(1), output_bytes: 1000, ..ResourceLimits::default() };
    let outcome = run(sandbox, &stage, limits, &CommandLine::Shell("yes".to_owned()))?;
    let kept = outcome.stdout.text().len();
    let verdict =
        if outcome.ending == CommandEnd::Timeout && kept < 1100 && outcome.stdout.cut_bytes > 100_000 {
            TrialResult::Held
        } else {
            TrialResult::Escaped
        };
    Ok(trial("flood of output", "bounded", format!("{}, {kept} bytes kept", outcome.ending), verdict))
}

fn run(
    sandbox: &Sandbox,
    stage: &TestStage,
    limits: ResourceLimits,
    line: &CommandLine,
) -> Result<CommandOutcome, SandboxError> {
    let mut policy = stage.policy(&sandbox.helper);
    policy.limits = limits;
    sandbox.run(&policy, line, &StopFlag::new()?)
}

fn trial(attempt: &'static str, expected: &'static str, got: String, verdict: TrialResult) -> EscapeTrial {
    EscapeTrial { attempt, expected, got, control: Control::NotTried, verdict }
}

/// A word on the command line by which its processes are known.
fn marker(stage: &TestStage) -> String {
    stage.targets.abstract_name.clone()
}

/// Longer than anything here should take.
const LONG: Duration = Duration::from_secs(30);
/// For root the kernel counts no processes, so the keeper does, many times a second; a bomb is quick between two looks.
const PEAK_MAX: usize = 4000;
