//! Attempts to use up what is not theirs, or to stay. None of them is made outside.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use manent::log::RealDisk;
use manent::log::fs::Disk;

use super::super::Sandbox;
use super::super::error::SandboxError;
use super::super::outcome::{Ending, Limit, Outcome};
use super::super::policy::Limits;
use super::super::run::Line;
use super::super::stop::Stop;
use super::stage::{Stage, running};
use super::{Control, Trial, Verdict, words};

type Attempt = fn(&Sandbox) -> Result<Trial, SandboxError>;

pub(super) const ALL: &[Attempt] = &[fork_bomb, memory, disk, work, background, forever, flood];

fn fork_bomb(sandbox: &Sandbox) -> Result<Trial, SandboxError> {
    let stage = Stage::new()?;
    let limits = Limits { processes: 50, wall: Duration::from_secs(5), ..Limits::default() };
    let marker = marker(&stage);
    let line = Line::Shell(format!("bomb() {{ bomb | bomb & }}; bomb; sleep 4; : {marker}"));
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
    let verdict = if left == 0 && peak <= PEAK_MAX { Verdict::Held } else { Verdict::Escaped };
    let got = format!("{}; {peak} at most, {left} left", outcome.ending);
    Ok(trial("fork bomb", "bounded, none left", got, verdict))
}

fn memory(sandbox: &Sandbox) -> Result<Trial, SandboxError> {
    let stage = Stage::new()?;
    let limits = Limits { memory_bytes: 128 << 20, wall: LONG, ..Limits::default() };
    let line = Line::Program(words(sandbox, &stage, "memory hog"));
    let outcome = run(sandbox, &stage, limits, &line)?;
    let verdict =
        if outcome.ending == Ending::Limit(Limit::Memory) { Verdict::Held } else { Verdict::Escaped };
    Ok(trial("memory hog", "killed", outcome.ending.to_string(), verdict))
}

fn disk(sandbox: &Sandbox) -> Result<Trial, SandboxError> {
    let stage = Stage::new()?;
    let limits = Limits { file_bytes: 1 << 20, wall: LONG, ..Limits::default() };
    let line = Line::Program(words(sandbox, &stage, "fill the disk"));
    let outcome = run(sandbox, &stage, limits, &line)?;
    let written = RealDisk.inspect(&stage.targets.workspace.join("full")).map_or(0, |info| info.len);
    let verdict = if outcome.ending == Ending::Limit(Limit::FileSize) && written == 1 << 20 {
        Verdict::Held
    } else {
        Verdict::Escaped
    };
    Ok(trial("fill the disk", "killed", format!("{}, at {written} bytes", outcome.ending), verdict))
}

fn work(sandbox: &Sandbox) -> Result<Trial, SandboxError> {
    let stage = Stage::new()?;
    let limits = Limits { cpu_seconds: 1, wall: LONG, ..Limits::default() };
    // By two, of whom neither is over a limit of its own.
    let line = Line::Shell("while :; do :; done & while :; do :; done".to_owned());
    let outcome = run(sandbox, &stage, limits, &line)?;
    let verdict = if outcome.ending == Ending::Limit(Limit::Cpu) { Verdict::Held } else { Verdict::Escaped };
    Ok(trial("work without end", "killed", outcome.ending.to_string(), verdict))
}

fn background(sandbox: &Sandbox) -> Result<Trial, SandboxError> {
    let stage = Stage::new()?;
    let marker = marker(&stage);
    let stays = format!("trap '' HUP INT TERM; sleep 30; : {marker}");
    let line =
        Line::Shell(format!("(setsid sh -c \"{stays}\" &) ; setsid sh -c \"{stays}\" & sleep 0.2; echo up"));
    let outcome = run(sandbox, &stage, Limits { wall: LONG, ..Limits::default() }, &line)?;
    let left = running(&marker);
    let verdict = if left == 0 && outcome.ending == Ending::Exit(0) && outcome.stdout.text() == "up\n" {
        Verdict::Held
    } else {
        Verdict::Escaped
    };
    Ok(trial("stay in the background", "gone", format!("{}, {left} left", outcome.ending), verdict))
}

fn forever(sandbox: &Sandbox) -> Result<Trial, SandboxError> {
    let stage = Stage::new()?;
    let marker = marker(&stage);
    let limits = Limits { wall: Duration::from_secs(1), ..Limits::default() };
    let line = Line::Shell(format!("trap '' HUP INT TERM; sleep 30; sleep 30; : {marker}"));
    let outcome = run(sandbox, &stage, limits, &line)?;
    let left = running(&marker);
    let verdict =
        if left == 0 && outcome.ending == Ending::Timeout { Verdict::Held } else { Verdict::Escaped };
    Ok(trial("run for ever", "killed", format!("{}, {left} left", outcome.ending), verdict))
}

fn flood(sandbox: &Sandbox) -> Result<Trial, SandboxError> {
    let stage = Stage::new()?;
    let limits = Limits { wall: Duration::from_secs(1), output_bytes: 1000, ..Limits::default() };
    let outcome = run(sandbox, &stage, limits, &Line::Shell("yes".to_owned()))?;
    let kept = outcome.stdout.text().len();
    let verdict = if outcome.ending == Ending::Timeout && kept < 1100 && outcome.stdout.cut_bytes > 100_000 {
        Verdict::Held
    } else {
        Verdict::Escaped
    };
    Ok(trial("flood of output", "bounded", format!("{}, {kept} bytes kept", outcome.ending), verdict))
}

fn run(sandbox: &Sandbox, stage: &Stage, limits: Limits, line: &Line) -> Result<Outcome, SandboxError> {
    let mut policy = stage.policy(&sandbox.helper);
    policy.limits = limits;
    sandbox.run(&policy, line, &Stop::new()?)
}

fn trial(attempt: &'static str, expected: &'static str, got: String, verdict: Verdict) -> Trial {
    Trial { attempt, expected, got, control: Control::NotTried, verdict }
}

/// A word on the command line by which its processes are known.
fn marker(stage: &Stage) -> String {
    stage.targets.abstract_name.clone()
}

/// Longer than anything here should take.
const LONG: Duration = Duration::from_secs(30);
/// For root the kernel counts no processes, so the keeper does, many times a second; a bomb is quick between two looks.
const PEAK_MAX: usize = 4000;
