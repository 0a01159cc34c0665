//! Running a command in the sandbox and recording it.
//!
//! The record of the begin is on the disk before the command begins, and the record of its end before anybody hears of
//! it. This thread runs and records; another shows the output (`live_output.rs`).

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_agent::sandbox::{
    Cause, CommandEnd, CommandOutcome, GuardNote, NewEntries, Sandbox, SandboxCommand, SandboxError,
    SandboxPolicy, StopFlag,
};
use manent_agent::skills::project_of;
use manent_runs::{
    INTERRUPTED, NOT_CHECKED, NOT_RUN, NewAttempt, NewRun, RunEnd, RunReceipt, Runs, StartedRun, Status,
};
use serde_json::value::RawValue;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::exec::RunExecArgs;
use super::live_output::LiveOutput;
use crate::commands::prelude::*;
use crate::commands::skills::skills_here;
use crate::context::user_home;
use crate::output::{ReceiptOutput, receipt_json};

pub(crate) fn run(context: &Context<'_>, args: &RunExecArgs) -> Result<Exit, Failure> {
    let session = session_key(&args.session)?;
    let cwd = std::env::current_dir()
        .map_err(|e| Failure::failed(format!("the current directory is not there: {e}; go elsewhere")))?;
    // Without a sandbox nothing is run, and nothing was begun.
    let sandbox = Sandbox::probe()?;
    let store = context.store(args.wait.time)?;
    let runs = Runs::open(&store)?;
    let skill_hash = skills_here(context, &store)?.get(&args.skill).map(|skill| skill.hash.clone());
    let project = project_of(&RealDisk, &cwd, user_home().as_deref());
    let mut policy = SandboxPolicy::new(&cwd, context.home()?);
    policy.read_only.clone_from(&args.read);
    policy.writable_git.clone_from(&args.writable);
    if args.new_repo {
        policy.new_entries = NewEntries::Allowed;
    }
    policy.limits.wall = args.timeout.min(TIMEOUT_MAX);
    policy.limits.cpu_seconds = policy.limits.cpu_seconds.max(args.timeout.as_secs().saturating_mul(CORES));
    // The output of all attempts must fit into one record, also where each byte takes six.
    policy.limits.output_bytes = OUTPUT_BYTES_MAX.min(ALL_OUTPUT_BYTES_MAX / args.attempts as usize);
    sandbox.check(&policy)?;
    let run = NewRun {
        skill: args.skill.clone(),
        skill_hash: skill_hash.unwrap_or_default(),
        phase: args.phase.clone().unwrap_or_default(),
        project_root: project.to_string_lossy().into_owned(),
        input: input_of(args),
        idempotency_key: args.idempotency_key.clone().unwrap_or_default(),
        ..NewRun::default()
    };
    let (stop, signal) = stop_by_signals()?;
    let mut screen = LiveOutput::new(context).map_err(|e| no_thread(&e))?;
    // Until its end is recorded: from then on the record says that it is not run again.
    let key = Some(run.idempotency_key.as_str()).filter(|key| !key.is_empty());
    let _alone = key.map(|key| runs.lock_run(&session, key)).transpose()?;
    let started = runs.begin(&session, run)?;
    if started.recorded.ended {
        return Err(ended_before(context, &runs, &started)?);
    }
    let work = Work { sandbox, policy, args, stop, signal };
    let done = work.to_its_end(&runs, &started, &mut screen)?;
    // A reader has as long as the command had, also if that did not need it.
    let shown = screen.close(|| work.is_interrupted() || done.deadline <= Instant::now());
    tell(context, &started, done, shown)
}

/// Returns the failure for a run that ended before under the same key, and prints its JSON.
fn ended_before(context: &Context<'_>, runs: &Runs, started: &StartedRun) -> Result<Failure, Failure> {
    let id = started.run_id();
    let mut status = Status::Unknown;
    runs.each(&started.session, |run| {
        if run.run_id != id {
            return ControlFlow::Continue(());
        }
        status = run.status;
        ControlFlow::Break(())
    })?;
    // Without --json, standard output is locked by the thread that shows the output.
    if context.global.json {
        let session = started.session.as_str();
        let json = json!({"session": session, "run_id": id, "repeated": true, "status": status.word()});
        context.print(&json, |_| Ok(()))?;
    }
    let ended = match status {
        Status::Success => "with success",
        Status::Failure => "and failed",
        Status::Unknown | Status::Other => "with an unknown outcome",
    };
    let again = "give another --idempotency-key to run it again";
    let what = format!(
        "a run with this key has come to its end, {ended}, so it is not run again; `manent run show {id}` shows it; \
         {again}"
    );
    Ok(Failure::conflict(what))
}

/// Returns the input of the run, for its record.
fn input_of(args: &RunExecArgs) -> Option<Box<RawValue>> {
    let words: Vec<String> = args.line.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut input = json!({"command": words});
    if let Some(verify) = &args.verify {
        input["verify"] = json!(verify);
    }
    if !args.writable.is_empty() {
        input["writable"] = args.writable.iter().map(|path| path.to_string_lossy()).collect();
    }
    if args.new_repo {
        input["new_repo"] = json!(true);
    }
    RawValue::from_string(input.to_string()).ok()
}

/// Returns a flag that the usual signals raise, and the number of the one that did. The first Ctrl-C stops everything.
fn stop_by_signals() -> Result<(StopFlag, Arc<AtomicUsize>), Failure> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(number, signal.clone(), number.unsigned_abs() as usize)?;
    }
    let stop = StopFlag::new()?;
    let (flag, raised) = (stop.clone(), signal.clone());
    let watching = std::thread::Builder::new().spawn(move || {
        while raised.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(LOOK_EVERY);
        }
        flag.now();
    });
    watching.map_err(|e| no_thread(&e))?;
    Ok((stop, signal))
}

/// The error of a machine that runs as many processes as it may. Nothing was begun.
fn no_thread(error: &io::Error) -> Failure {
    let hint = "nothing was run; end other programs, or raise the limit on processes (ulimit -u)";
    Failure::failed(format!("cannot start a thread: {error}; {hint}"))
}

/// A command and how it is to be run.
struct Work<'a> {
    sandbox: Sandbox,
    policy: SandboxPolicy,
    args: &'a RunExecArgs,
    stop: StopFlag,
    /// The number of the signal that came, or 0.
    signal: Arc<AtomicUsize>,
}

/// The result of a run.
struct Done {
    ended: RunEnd,
    recorded: RunReceipt,
    /// The outcome of the last attempt.
    last: Tried,
    /// The exit code, if a signal interrupted the run.
    interrupted: Option<Exit>,
    /// The time at which the last attempt would have been out of time.
    deadline: Instant,
    /// The changes of all attempts that were undone.
    notes: Vec<GuardNote>,
}

/// The outcome of one attempt, besides its record.
#[derive(Default)]
struct Tried {
    is_good: bool,
    /// The option that helps, if the sandbox hides the program.
    hint: Option<String>,
    /// The reason why the command or its verification could not be started.
    refused: Option<SandboxError>,
    /// The reason why nothing is known of the attempt.
    unchecked: Option<Unchecked>,
}

/// A verification that said nothing.
struct Unchecked {
    why: String,
    /// The verification could not be started.
    is_missing: bool,
}

impl Work<'_> {
    /// Tries until it is good, and records what came of it.
    fn to_its_end(
        &self,
        runs: &Runs,
        started: &StartedRun,
        output: &mut LiveOutput<'_>,
    ) -> Result<Done, Failure> {
        let begun = Instant::now();
        let mut ended = RunEnd { status: Status::Failure, ..RunEnd::default() };
        let (mut last, mut deadline, mut notes) = (Tried::default(), begun, Vec::new());
        for _ in 0..self.args.attempts {
            deadline = Instant::now() + self.policy.limits.wall;
            let mut attempt = NewAttempt { sandbox: self.sandbox.to_string(), ..NewAttempt::default() };
            last = self.attempt(&mut attempt, &mut notes, output);
            ended.attempts.push(attempt);
            // An interrupt, a verifier that was not there and a sandbox that did not start say nothing of the skill.
            let is_unknown = self.is_interrupted() || last.unchecked.is_some() || last.refused.is_some();
            ended.status = match last.is_good {
                true => Status::Success,
                false if is_unknown => Status::Unknown,
                false => Status::Failure,
            };
            // The sandbox would refuse it again, and a program that is missing stays missing.
            let is_unchecked = last.unchecked.as_ref().is_some_and(|unchecked| unchecked.is_missing);
            let is_hopeless = last.refused.is_some() || last.hint.is_some() || is_unchecked;
            if last.is_good || is_hopeless || self.is_interrupted() {
                break;
            }
        }
        ended.duration = begun.elapsed();
        let recorded = runs.finish(started, &ended).map_err(|e| {
            let failure = Failure::from(e);
            let what = "the command ran, but how it ended could not be recorded, so its outcome is unknown";
            Failure::new(failure.exit, format!("{what}: {}", failure.message))
        })?;
        let interrupted = self.exit_by_signal();
        Ok(Done { ended, recorded, last, interrupted, deadline, notes })
    }

    /// Runs the command once, and its verification if it went well.
    fn attempt(
        &self,
        attempt: &mut NewAttempt,
        notes: &mut Vec<GuardNote>,
        output: &mut LiveOutput<'_>,
    ) -> Tried {
        let outcome = match self.run(&SandboxCommand::Program(self.args.line.clone()), output) {
            Ok(outcome) => outcome,
            Err(error) => {
                attempt.output_summary = error.to_string();
                NOT_RUN.clone_into(&mut attempt.error_class);
                return Tried { refused: Some(error), ..Tried::default() };
            }
        };
        let text = outcome.stdout.text();
        attempt.duration = Some(outcome.duration);
        attempt.cut = (outcome.stdout.cut_bytes, outcome.stdout.cut_lines);
        attempt.output_summary = summary(&outcome, &text);
        attempt.runner_output = text;
        record_notes(attempt, &outcome.notes);
        attempt.exit_code = match outcome.ending {
            CommandEnd::Exit(code) => Some(code.into()),
            _ => None,
        };
        self.class_of(&outcome, "exit").clone_into(&mut attempt.error_class);
        notes.extend(outcome.notes);
        let is_missing = matches!(outcome.ending, CommandEnd::Exit(126 | 127));
        let program = self.args.line.first().filter(|_| is_missing);
        let hint = program.and_then(|program| hidden_hint(&self.policy, program));
        let is_good = outcome.ending == CommandEnd::Exit(0);
        match &self.args.verify {
            Some(verify) if is_good => self.check(attempt, verify, notes, output),
            verify => {
                // An interrupted command was not verified.
                let is_bad = verify.is_some() && attempt.error_class != INTERRUPTED;
                attempt.verified = is_bad.then_some(false);
                Tried { is_good, hint, ..Tried::default() }
            }
        }
    }

    /// Verifies an attempt that went well.
    fn check(
        &self,
        attempt: &mut NewAttempt,
        verify: &str,
        notes: &mut Vec<GuardNote>,
        output: &mut LiveOutput<'_>,
    ) -> Tried {
        let checked = match self.run(&SandboxCommand::Shell(verify.to_owned()), output) {
            Ok(checked) => checked,
            Err(error) => {
                end_line(&mut attempt.runner_output);
                let _ = writeln!(attempt.runner_output, "[verification: {error}]");
                NOT_CHECKED.clone_into(&mut attempt.error_class);
                return Tried { refused: Some(error), ..Tried::default() };
            }
        };
        attempt.duration = attempt.duration.map(|duration| duration + checked.duration);
        attempt.cut.0 += checked.stdout.cut_bytes;
        attempt.cut.1 += checked.stdout.cut_lines;
        end_line(&mut attempt.runner_output);
        let (ending, text) = (checked.ending, checked.stdout.text());
        let _ = write!(attempt.runner_output, "[verification: {ending}]\n{text}");
        record_notes(attempt, &checked.notes);
        let mut unchecked = unchecked(ending);
        if let Some(unchecked) = unchecked.as_mut().filter(|unchecked| unchecked.is_missing)
            && let Some(program) = verify.split_whitespace().next()
            && let Some(hint) = hidden_hint(&self.policy, program.as_ref())
        {
            let _ = write!(unchecked.why, "; {hint}");
        }
        let class = if unchecked.is_some() { NOT_CHECKED } else { self.class_of(&checked, "verify") };
        class.clone_into(&mut attempt.error_class);
        notes.extend(checked.notes);
        let is_good = ending == CommandEnd::Exit(0);
        let says_something = unchecked.is_none() && class != INTERRUPTED;
        attempt.verified = says_something.then_some(is_good);
        Tried { is_good, unchecked, ..Tried::default() }
    }

    fn run(
        &self,
        line: &SandboxCommand,
        screen: &mut LiveOutput<'_>,
    ) -> Result<CommandOutcome, SandboxError> {
        let outcome = self.sandbox.run_observed(&self.policy, line, &self.stop, screen);
        screen.note_gaps();
        outcome
    }

    fn is_interrupted(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// Returns the exit code, if a signal came.
    fn exit_by_signal(&self) -> Option<Exit> {
        let number = i32::try_from(self.signal.load(Ordering::Relaxed)).unwrap_or_default();
        match number {
            0 => None,
            SIGTERM => Some(Exit::Terminated),
            SIGHUP => Some(Exit::HungUp),
            _ => Some(Exit::Interrupted),
        }
    }

    /// Returns the class of an error, which is empty for a success.
    fn class_of(&self, outcome: &CommandOutcome, failed: &'static str) -> &'static str {
        match outcome.ending {
            CommandEnd::Exit(0) => "",
            CommandEnd::Exit(_) => failed,
            CommandEnd::Timeout => "timeout",
            CommandEnd::Stopped => INTERRUPTED,
            CommandEnd::Signal(_) if self.is_interrupted() => INTERRUPTED,
            CommandEnd::Signal(_) => "signal",
            CommandEnd::Limit(_) => "limit",
        }
    }
}

/// Returns the reason why a verification with this ending says nothing of the attempt. A shell exits with 126 and 127
/// for a program that it cannot start.
fn unchecked(ending: CommandEnd) -> Option<Unchecked> {
    let is_missing = matches!(ending, CommandEnd::Exit(126 | 127));
    let why = match ending {
        CommandEnd::Exit(126 | 127) => format!("it could not be started in the sandbox ({ending})"),
        CommandEnd::Timeout | CommandEnd::Limit(_) => format!("it came to no end ({ending})"),
        _ => return None,
    };
    Some(Unchecked { why, is_missing })
}

/// Returns the ending of a command and the last line that it wrote.
fn summary(outcome: &CommandOutcome, output: &str) -> String {
    let last = output.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let last: String = last.chars().take(SUMMARY_CHARS_MAX).collect();
    if last.is_empty() { outcome.ending.to_string() } else { format!("{}: {last}", outcome.ending) }
}

/// Adds to the output what was undone, one line each.
fn record_notes(attempt: &mut NewAttempt, notes: &[GuardNote]) {
    for note in notes {
        end_line(&mut attempt.runner_output);
        let text = note.text.replace(char::is_control, " ");
        let _ = writeln!(attempt.runner_output, "[sandbox: {text}]");
    }
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

fn tell(
    context: &Context<'_>,
    started: &StartedRun,
    done: Done,
    shown: Result<(), String>,
) -> Result<Exit, Failure> {
    let Done { ended, recorded, last, interrupted, notes, .. } = done;
    for note in &notes {
        context.warn(&note.text);
    }
    if notes.iter().any(|note| note.cause == Cause::Appeared) {
        context.note("`--new-repo` lets a command leave new repositories and protected files behind");
    }
    let exit = match (ended.status, interrupted) {
        (Status::Success, _) => Exit::Done,
        (_, Some(exit)) => exit,
        (_, None) => Exit::Failed,
    };
    if context.global.json {
        // If whoever listened has left, the exit code is of the command all the same.
        ReceiptOutput(Some(context.output())).write(|output| {
            output.json(&json_of(started, &ended, &recorded))?;
            output.flush()
        })?;
    }
    if let Some(error) = last.refused {
        return Err(error.into());
    }
    let tries = match ended.attempts.len() {
        1 => String::new(),
        n => format!(" after {n} attempts"),
    };
    let id = &recorded.run_id;
    if let Err(unshown) = shown {
        // A script must not take a part of the output for all of it.
        if exit == Exit::Done {
            let hint = format!("it succeeded; `manent run show {id}` shows what is recorded of it");
            return Err(Failure::failed(format!("{unshown}; {hint}")));
        }
        context.warn(&unshown);
    }
    match exit {
        Exit::Done => {
            context.detail(&format!("recorded as {id}{tries}"));
            Ok(exit)
        }
        Exit::Interrupted | Exit::HungUp | Exit::Terminated => {
            Err(Failure::new(exit, format!("interrupted; recorded as {id}")))
        }
        _ => {
            if let Some(Unchecked { why, .. }) = last.unchecked {
                let what = format!("the command ran{tries}, but its verification says nothing of it: {why}");
                let hint = format!("recorded as {id}, with an unknown outcome");
                return Err(Failure::new(exit, format!("{what}; {hint}")));
            }
            let why = ended.attempts.last().map_or_else(String::new, |attempt| match attempt.exit_code {
                Some(code) if attempt.error_class == "exit" => format!("exit code {code}"),
                _ => attempt.error_class.clone(),
            });
            let hint = last.hint.unwrap_or_else(|| format!("`manent run show {id}` shows it"));
            Err(Failure::new(exit, format!("it failed{tries} ({why}); {hint}")))
        }
    }
}

fn json_of(started: &StartedRun, ended: &RunEnd, recorded: &RunReceipt) -> Value {
    let attempt = |(attempt, nth): (&NewAttempt, u64)| {
        json!({
            "attempt": nth, "exit_code": attempt.exit_code, "error_class": attempt.error_class,
            "verified": attempt.verified, "duration_ms": attempt.duration.map(ms), "sandbox": attempt.sandbox,
            "output": attempt.runner_output, "cut_bytes": attempt.cut.0, "cut_lines": attempt.cut.1,
        })
    };
    let attempts: Vec<Value> = ended.attempts.iter().zip(1..).map(attempt).collect();
    let mut json = receipt_json(&started.session, Some(&recorded.receipt));
    json["run_id"] = recorded.run_id.as_str().into();
    json["repeated"] = recorded.repeated.into();
    json["status"] = ended.status.word().into();
    json["duration_ms"] = ms(ended.duration).into();
    json["attempts"] = attempts.into();
    json
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the option that lets a program in which could not be started because the sandbox hides it.
fn hidden_hint(policy: &SandboxPolicy, program: &OsStr) -> Option<String> {
    let found = candidates(Path::new(program)).into_iter().find(|path| path.is_file())?;
    let real = RealDisk.resolve(&found).ok()?;
    if policy.shows(&real) {
        return None;
    }
    let home = policy.home.as_deref();
    let mut dirs = vec![to_let_in(&real, home)];
    // The programs of rustup start those in its own directory.
    let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".rustup")));
    if found.with_file_name("rustup").is_file() {
        dirs.extend(rustup.filter(|dir| dir.is_dir()));
    }
    let options: Vec<String> = dirs.iter().map(|dir| format!("--read {}", dir.display())).collect();
    let (name, options) = (Path::new(program).display(), options.join(" "));
    Some(format!(
        "{name} is at {}, which the sandbox hides; `{options}` lets it in, to be read",
        found.display()
    ))
}

/// Returns the paths at which a program is looked for without a sandbox.
fn candidates(program: &Path) -> Vec<PathBuf> {
    if program.components().count() != 1 {
        return vec![program.to_owned()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).collect()
}

/// Returns the directory that has to be let in for a program: with what lies beside its `bin`, unless that is half of
/// the home.
fn to_let_in(program: &Path, home: Option<&Path>) -> PathBuf {
    let dir = program.parent().unwrap_or(program);
    let around = dir.parent().filter(|_| dir.ends_with("bin"));
    let is_too_much = |around: &Path| {
        around.parent().is_none() || home.is_some_and(|home| around == home || around == home.join(".local"))
    };
    around.filter(|around| !is_too_much(around)).unwrap_or(dir).to_owned()
}

/// The bytes of an attempt's output that are kept: some of the beginning, most of the end.
const OUTPUT_BYTES_MAX: usize = 256 << 10;
const ALL_OUTPUT_BYTES_MAX: usize = 4 << 20;
/// A time that no command reaches and every clock can hold.
const TIMEOUT_MAX: Duration = Duration::from_hours(365 * 24);
const SUMMARY_CHARS_MAX: usize = 300;
/// The CPU seconds that a command may use in a second of the clock.
const CORES: u64 = 64;
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_of_a_home_is_let_in_than_a_program_needs() {
        let of = |program: &str| to_let_in(program.as_ref(), Some("/home/ann".as_ref()));
        assert_eq!(of("/home/ann/.cargo/bin/cargo"), Path::new("/home/ann/.cargo"));
        assert_eq!(of("/home/ann/bin/tool"), Path::new("/home/ann/bin"));
        assert_eq!(of("/home/ann/.local/bin/tool"), Path::new("/home/ann/.local/bin"));
        assert_eq!(of("/opt/tool"), Path::new("/opt"));
        assert_eq!(of("/bin/tool"), Path::new("/bin"));
    }
}
