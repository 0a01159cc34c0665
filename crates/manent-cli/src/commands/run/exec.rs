//! `manent run exec SKILL -- COMMAND…`: a command in the sandbox, recorded as a run.
//!
//! That it begins is on the disk before it begins, and its end before anybody hears of it. One thread runs and records,
//! this one shows what comes: a terminal that stands still holds up neither the clock nor the record.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use manent::log::RealDisk;
use manent::runs::{Ended, NewAttempt, NewRun, Recorded, Runs, Started, Status};
use manent_agent::sandbox::{Ending, Line, Outcome, Policy, Sandbox, SandboxError, Stop};
use manent_agent::skills::project_of;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::run::Exec;
use crate::commands::skills::skills_here;
use crate::context::{self, Context, user_home};
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(crate) fn run(context: &Context<'_>, given: &Exec) -> Result<Exit, Failure> {
    let session = context::key(&given.session)?;
    let cwd = std::env::current_dir().map_err(|e| {
        Failure::new(Exit::Failed, format!("the current directory is not there: {e}; go elsewhere"))
    })?;
    // Without a sandbox nothing is run, and nothing was begun.
    let sandbox = Sandbox::probe()?;
    let runs = super::runs(context, given.wait.time)?;
    let skill_hash = skills_here(context)?.get(&given.skill).map(|skill| skill.hash.clone());
    let project = project_of(&RealDisk, &cwd, user_home().as_deref());
    let mut policy = Policy::new(&cwd, context.home()?);
    policy.limits.wall = given.timeout.min(TIMEOUT_MAX);
    policy.limits.cpu_seconds = policy.limits.cpu_seconds.max(given.timeout.as_secs().saturating_mul(CORES));
    // All of them together must fit into a record, also where each byte takes six.
    policy.limits.output_bytes = OUTPUT_BYTES_MAX.min(ALL_OUTPUT_BYTES_MAX / given.attempts as usize);
    let run = NewRun {
        skill: given.skill.clone(),
        skill_hash: skill_hash.unwrap_or_default(),
        phase: given.phase.clone().unwrap_or_default(),
        project_root: project.to_string_lossy().into_owned(),
        input: input_of(given),
        idempotency_key: given.idempotency_key.clone().unwrap_or_default(),
        ..NewRun::default()
    };
    let (stop, interrupted) = stop_by_signals()?;
    let started = runs.begin(&session, run)?;
    if started.recorded.ended {
        let id = started.run_id();
        let what = format!(
            "a run with this key has come to its end, so it is not run again; `manent run show {id}` shows it"
        );
        return Err(Failure::new(Exit::Conflict, what));
    }
    let work = Work { sandbox, policy, given, stop, interrupted };
    let mut output = context.output();
    let done = std::thread::scope(|scope| {
        let (sender, pieces) = sync_channel(PIECES_MAX);
        let running = scope.spawn(|| work.to_its_end(&runs, &started, sender));
        show_as_it_comes(&mut output, &pieces);
        running.join()
    });
    let done = done.map_err(|_| Failure::new(Exit::Failed, "the run broke off; its outcome is unknown"))?;
    tell(context, &mut output, &started, done?)
}

/// What the command is given, for the record.
fn input_of(given: &Exec) -> Option<Box<RawValue>> {
    let words: Vec<String> = given.line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut input = json!({"command": words});
    if let Some(verify) = &given.verify {
        input["verify"] = json!(verify);
    }
    RawValue::from_string(input.to_string()).ok()
}

/// A flag that the usual signals raise, and whether one did. A second Ctrl-C is not needed: the first stops everything.
fn stop_by_signals() -> Result<(Stop, Arc<AtomicBool>), Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    let stop = Stop::new()?;
    let (flag, raised) = (stop.clone(), interrupted.clone());
    std::thread::spawn(move || {
        while !raised.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
        }
        flag.now();
    });
    Ok((stop, interrupted))
}

/// What is to be done.
struct Work<'a> {
    sandbox: Sandbox,
    policy: Policy,
    given: &'a Exec,
    stop: Stop,
    interrupted: Arc<AtomicBool>,
}

/// What came of it.
struct Done {
    ended: Ended,
    recorded: Recorded,
    /// Why the last attempt could not be made.
    refused: Option<SandboxError>,
    interrupted: bool,
}

/// One attempt, and whether it is the last.
struct Tried {
    attempt: NewAttempt,
    is_good: bool,
    refused: Option<SandboxError>,
}

impl Work<'_> {
    /// Tries until it is good, and records what came of it.
    fn to_its_end(
        &self,
        runs: &Runs,
        started: &Started,
        sender: SyncSender<Vec<u8>>,
    ) -> Result<Done, Failure> {
        let begun = Instant::now();
        let mut ended = Ended { status: Status::Failure, ..Ended::default() };
        let mut refused = None;
        for _ in 0..self.given.attempts {
            let tried = self.attempt(&sender);
            ended.attempts.push(tried.attempt);
            refused = tried.refused;
            if tried.is_good {
                ended.status = Status::Success;
            }
            // What the sandbox refuses it refuses again.
            if tried.is_good || refused.is_some() || self.is_interrupted() {
                break;
            }
        }
        drop(sender);
        ended.duration = begun.elapsed();
        let recorded = runs.finish(started, &ended).map_err(|e| {
            let failure = Failure::from(e);
            let what = "the command ran, but how it ended could not be recorded, so its outcome is unknown";
            Failure::new(failure.exit, format!("{what}: {}", failure.message))
        })?;
        Ok(Done { ended, recorded, refused, interrupted: self.is_interrupted() })
    }

    fn attempt(&self, sender: &SyncSender<Vec<u8>>) -> Tried {
        let mut attempt = NewAttempt { sandbox: self.sandbox.to_string(), ..NewAttempt::default() };
        let outcome = match self.run(&Line::Program(self.given.line.clone()), sender) {
            Ok(outcome) => outcome,
            Err(error) => return refused(attempt, error),
        };
        let mut took = outcome.duration;
        let output = outcome.stdout.text();
        attempt.cut = (outcome.stdout.cut_bytes, outcome.stdout.cut_lines);
        attempt.output_summary = summary(&outcome, &output);
        attempt.runner_output = output;
        attempt.exit_code = code_of(&outcome);
        self.class_of(&outcome, "exit").clone_into(&mut attempt.error_class);
        let mut is_good = outcome.ending == Ending::Exit(0);
        if let Some(verify) = &self.given.verify {
            attempt.verified = Some(false);
            if is_good {
                let checked = match self.run(&Line::Shell(verify.clone()), sender) {
                    Ok(checked) => checked,
                    Err(error) => return refused(attempt, error),
                };
                is_good = checked.ending == Ending::Exit(0);
                attempt.verified = Some(is_good);
                self.class_of(&checked, "verify").clone_into(&mut attempt.error_class);
                took += checked.duration;
                attempt.cut.0 += checked.stdout.cut_bytes;
                attempt.cut.1 += checked.stdout.cut_lines;
                end_line(&mut attempt.runner_output);
                let (ending, said) = (checked.ending, checked.stdout.text());
                let _ = write!(attempt.runner_output, "[verification: {ending}]\n{said}");
            }
        }
        attempt.duration = Some(took);
        Tried { attempt, is_good, refused: None }
    }

    fn run(&self, line: &Line, sender: &SyncSender<Vec<u8>>) -> Result<Outcome, SandboxError> {
        let mut left_out = 0_u64;
        let outcome = self.sandbox.run_telling(&self.policy, line, &self.stop, &mut |bytes| {
            if sender.try_send(bytes.to_vec()).is_err() {
                left_out += bytes.len() as u64;
            }
        });
        if left_out > 0 {
            let note = format!("\n[{left_out} bytes came faster than they could be shown]\n");
            let _ = sender.try_send(note.into_bytes());
        }
        outcome
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// What kind of error it was; nothing if it was none.
    fn class_of(&self, outcome: &Outcome, failed: &'static str) -> &'static str {
        match outcome.ending {
            Ending::Exit(0) => "",
            Ending::Exit(_) => failed,
            Ending::Timeout => "timeout",
            Ending::Stopped => "interrupted",
            Ending::Signal(_) if self.is_interrupted() => "interrupted",
            Ending::Signal(_) => "signal",
            Ending::Limit(_) => "limit",
        }
    }
}

/// An attempt that the sandbox refused.
fn refused(mut attempt: NewAttempt, error: SandboxError) -> Tried {
    "sandbox".clone_into(&mut attempt.error_class);
    attempt.output_summary = error.to_string();
    Tried { attempt, is_good: false, refused: Some(error) }
}

fn code_of(outcome: &Outcome) -> Option<i64> {
    match outcome.ending {
        Ending::Exit(code) => Some(code.into()),
        _ => None,
    }
}

/// How it ended, and the last that it said.
fn summary(outcome: &Outcome, output: &str) -> String {
    let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let last: String = last.chars().take(SUMMARY_CHARS_MAX).collect();
    if last.is_empty() { outcome.ending.to_string() } else { format!("{}: {last}", outcome.ending) }
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Shows what the command writes: as it is in a pipe, without what a terminal would obey on one.
fn show_as_it_comes(output: &mut Output, pieces: &Receiver<Vec<u8>>) {
    let mut left: Vec<u8> = Vec::new();
    let mut is_read = !output.json;
    for piece in pieces {
        if !is_read {
            continue;
        }
        let shown = if output.terminal {
            left.extend_from_slice(&piece);
            // Half a character waits for its other half.
            let whole = whole_characters(&left);
            let text = String::from_utf8_lossy(&left[..whole]).replace("\r\n", "\n");
            left.drain(..whole);
            output.text(&text)
        } else {
            output.raw(&piece)
        };
        // Whoever looked on has left. The command goes on, and is recorded.
        is_read = shown.and_then(|()| output.flush()).is_ok();
    }
    if is_read && !left.is_empty() {
        let _ = output.text(&String::from_utf8_lossy(&left));
    }
}

/// How many bytes from the beginning can be shown: all but a character at the end that is not whole yet.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    let begins = |at: &usize| bytes[*at] >= 0xC0;
    match (start..bytes.len()).rev().find(begins) {
        Some(at) if std::str::from_utf8(&bytes[at..]).is_err_and(|e| e.error_len().is_none()) => at,
        _ => bytes.len(),
    }
}

fn tell(context: &Context<'_>, output: &mut Output, started: &Started, done: Done) -> Result<Exit, Failure> {
    let Done { ended, recorded, refused, interrupted } = done;
    let exit = match ended.status {
        Status::Success => Exit::Done,
        _ if interrupted => Exit::Interrupted,
        _ => Exit::Failed,
    };
    if output.json {
        match output.json(&json_of(started, &ended, &recorded)).and_then(|()| output.flush()) {
            // Whoever listened has left; the exit code is of the command all the same.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            told => told?,
        }
    }
    if let Some(error) = refused {
        return Err(error.into());
    }
    let tries = match ended.attempts.len() {
        1 => String::new(),
        n => format!(" after {n} attempts"),
    };
    let id = &recorded.run_id;
    match exit {
        Exit::Done => {
            context.detail(&format!("recorded as {id}{tries}"));
            Ok(exit)
        }
        Exit::Interrupted => Err(Failure::new(exit, format!("interrupted; recorded as {id}"))),
        _ => {
            let why = ended.attempts.last().map_or_else(String::new, |attempt| match attempt.exit_code {
                Some(code) if attempt.error_class == "exit" => format!("exit code {code}"),
                _ => attempt.error_class.clone(),
            });
            let hint = format!("`manent run show {id}` shows it");
            Err(Failure::new(exit, format!("it failed{tries} ({why}); {hint}")))
        }
    }
}

fn json_of(started: &Started, ended: &Ended, recorded: &Recorded) -> Value {
    let attempt = |(attempt, nth): (&NewAttempt, u64)| {
        json!({
            "attempt": nth, "exit_code": attempt.exit_code, "error_class": attempt.error_class,
            "verified": attempt.verified, "duration_ms": attempt.duration.map(ms), "sandbox": attempt.sandbox,
            "output": attempt.runner_output, "cut_bytes": attempt.cut.0, "cut_lines": attempt.cut.1,
        })
    };
    let attempts: Vec<Value> = ended.attempts.iter().zip(1..).map(attempt).collect();
    let receipt = &recorded.receipt;
    json!({
        "session": started.session().as_str(), "id": &*receipt.id, "seq": receipt.seq,
        "offset": receipt.position.raw(), "durability": receipt.durability.word(),
        "run_id": recorded.run_id, "repeated": recorded.repeated, "status": ended.status.word(),
        "duration_ms": ms(ended.duration), "attempts": attempts,
    })
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What of an attempt's output is kept: some of the beginning, most of the end.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
const ALL_OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Longer than any command runs, and short enough for every clock.
const TIMEOUT_MAX: Duration = Duration::from_hours(365 * 24);
/// Pieces of at most 64 KiB that may wait to be shown.
const PIECES_MAX: usize = 64;
const SUMMARY_CHARS_MAX: usize = 300;
/// How much work fits into a second of the clock, as far as a limit on work is concerned.
const CORES: u64 = 64;
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_comes_in_two_pieces_is_shown_whole() {
        for text in ["plain", "é", "日本", "👩x", ""] {
            assert_eq!(whole_characters(text.as_bytes()), text.len());
            for cut in 0..=text.len() {
                let whole = whole_characters(&text.as_bytes()[..cut]);
                assert!(text.is_char_boundary(whole) && cut - whole < 4, "{text} cut at {cut}");
            }
        }
        assert_eq!(whole_characters(b"\xff\xff"), 2, "what never becomes a character does not wait");
        assert_eq!(whole_characters(b"\xf0\x28"), 2);
    }
}
