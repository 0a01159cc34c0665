//! Parses the lines of a log of runs.
//!
//! Lines come from many programs, so each member is read on its own: one of another shape is remarked on and hides no
//! other. Texts are lent from the line wherever they stand there as they are.

use std::borrow::Cow;
use std::fmt;

use manent::words;
use manent_store::clock;
use manent_store::human_time;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::verdict::{Verdict, VerdictRef};

/// One run of a skill, as its line tells it. Members that are missing are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run<'a> {
    /// The number of its record.
    pub seq: u64,
    /// The whole line as it stands in the log.
    pub line: &'a str,
    /// The id that the start and the end of a run share; empty in other programs' entries.
    pub run_id: Cow<'a, str>,
    /// A key of the program that recorded it: of entries with the same key, one counts.
    pub idempotency_key: Cow<'a, str>,
    /// The session, as the entry calls it.
    pub session_id: Cow<'a, str>,
    /// The time as the entry writes it.
    pub timestamp: Cow<'a, str>,
    /// The same in milliseconds since 1970; `None` if it is not a valid time.
    pub at_ms: Option<i64>,
    /// The name of the skill.
    pub skill: Cow<'a, str>,
    /// The version of the skill, if the whole run names one; mostly its attempts do.
    pub skill_hash: Cow<'a, str>,
    /// The phase of the work that the run was a part of.
    pub phase: Cow<'a, str>,
    /// The root directory of the project.
    pub project_root: Cow<'a, str>,
    /// The input of the skill: any JSON, as it stands.
    pub input: Option<&'a str>,
    /// The attempts, in the order of the line.
    pub attempts: Vec<Attempt<'a>>,
    /// The outcome: as the entry says, or as a later verdict says.
    pub status: Status,
    /// The word for that in the entry.
    pub final_status: Cow<'a, str>,
    /// The verdict that `status` comes from, if it does not come from the entry.
    pub judged: Option<VerdictRef>,
    /// The note of a bad verdict: the beginning of its first line, without credentials.
    /// [`Runs::verdict`](super::Runs::verdict) returns all of it.
    pub judged_note: Cow<'a, str>,
    /// The file it was about.
    pub file_path: Cow<'a, str>,
    /// The model that did it in the end.
    pub model_used: Cow<'a, str>,
    /// The duration; `None` if the entry has none, or one below zero.
    pub duration_ms: Option<u64>,
    /// Oddities of the entry that were tolerated.
    pub oddities: Vec<Oddity>,
}

/// One attempt of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attempt<'a> {
    /// The number of the attempt, from 1 on.
    pub attempt: Option<u64>,
    /// The model.
    pub model: Cow<'a, str>,
    /// A summary of the output.
    pub output_summary: Cow<'a, str>,
    /// The output of whoever ran or checked it.
    pub runner_output: Cow<'a, str>,
    /// The result of the check; `None` if nobody checked it.
    pub verified: Option<bool>,
    /// The verdict that was given afterwards and decides on `verified`; `None` if the entry itself does.
    pub judged: Option<VerdictRef>,
    /// The records that the model was given.
    pub prompt_ref: Option<RecordRange>,
    /// The records of the model's answer.
    pub output_ref: Option<RecordRange>,
    /// The parameters of the model: JSON.
    pub params: Option<&'a str>,
    /// The tokens and the like that it took: JSON.
    pub usage: Option<&'a str>,
    /// The class of the error that ended it.
    pub error_class: Cow<'a, str>,
    /// The exit code of the command.
    pub exit_code: Option<i64>,
    /// The version of the skill.
    pub skill_hash: Cow<'a, str>,
    /// The sandbox in which the attempt ran.
    pub sandbox: Cow<'a, str>,
    /// The duration in milliseconds.
    pub duration_ms: Option<u64>,
}

/// A passage of a session in the store.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct RecordRange {
    /// The key of the session.
    pub session: String,
    /// The id of the session, if it is known: another session may have the key by now.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The first and the last record.
    pub seq: (u64, u64),
}

words! {
    /// The outcome of a run.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Status {
        /// The run reached its goal.
        Success = "success",
        /// The run did not reach its goal.
        Failure = "failed",
        /// The run was begun, and nothing tells its outcome: its process died, or still works on it, or somebody broke
        /// it off.
        #[default]
        Unknown = "unknown",
        /// The entry says something that we have no meaning for. Counted as neither.
        Other = "other",
    }
}

/// An oddity of an entry that was put up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Oddity {
    /// A member has another shape than it should.
    Shape(&'static str),
    /// A duration below zero.
    NegativeDuration,
    /// Attempts in another order than their numbers.
    Order,
    /// Two attempts with one number.
    Repeated,
    /// No time, or one that is none.
    NoTime,
    /// A time before there were agents (2000): a clock that was not set.
    OldTime,
    /// A status that we have no meaning for.
    Status,
    /// Text that was no UTF-8 was replaced when it was recorded.
    Replaced,
}

/// A line in a log of runs.
#[derive(Debug, Clone, PartialEq)]
pub enum RunRecord<'a> {
    /// A run that came to its end.
    Run(Run<'a>),
    /// A run that was begun.
    Start(Run<'a>),
    /// A verdict that was given on a run afterwards.
    Verdict(Verdict<'a>),
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Oddity::Shape(name) => return write!(f, "{name} has another shape than it should"),
            Oddity::NegativeDuration => "a duration below zero",
            Oddity::Order => "attempts in another order than their numbers",
            Oddity::Repeated => "two attempts with one number",
            Oddity::NoTime => "no time",
            Oddity::OldTime => "a time before 2000, from a clock that was not set",
            Oddity::Status => "a status without a meaning here",
            Oddity::Replaced => "text that was no UTF-8, replaced when it was recorded",
        })
    }
}

impl Status {
    /// Returns the status that a word in an entry stands for, by the words of the programs that we know of.
    pub fn of_word(word: &str) -> Status {
        let word = word.trim();
        let is = |words: &[&str]| words.iter().any(|w| word.eq_ignore_ascii_case(w));
        if is(SUCCESSES) {
            Status::Success
        } else if is(FAILURES) {
            Status::Failure
        } else if is(UNKNOWN) {
            Status::Unknown
        } else {
            Status::Other
        }
    }
}

impl Run<'_> {
    /// Returns true if the run was made in a project, or below it. A project that is not an absolute path matches the
    /// last parts of the run's.
    pub fn is_in(&self, project: &str) -> bool {
        let root = bare(&self.project_root);
        let project = bare(project);
        let below = |rest: &str| rest.is_empty() || rest.starts_with(['/', '\\']) || project == "/";
        root.strip_prefix(project).is_some_and(below)
            || (!project.starts_with('/')
                && root.strip_suffix(project).is_some_and(|rest| rest.ends_with(['/', '\\'])))
    }
}

/// A path of a project: without a slash at its end, however it was written.
pub(crate) fn bare(path: &str) -> &str {
    let trimmed = path.trim().trim_end_matches(['/', '\\']);
    if trimmed.is_empty() { path.trim() } else { trimmed }
}

impl<'a> RunRecord<'a> {
    /// Parses a line given as bytes, as [`RunRecord::read`] does. Also `None` if they are not UTF-8.
    pub fn of_bytes(seq: u64, line: &'a [u8]) -> Option<RunRecord<'a>> {
        RunRecord::read(seq, std::str::from_utf8(line).ok()?)
    }

    /// Reads a line. Nothing: it is neither a run nor a verdict on one, but a header, a record of another kind, a
    /// verdict that nobody could understand, or no JSON object.
    pub fn read(seq: u64, line: &'a str) -> Option<RunRecord<'a>> {
        let members = Members(manent_log::members_of(line)?);
        if members.get("meta").is_some() {
            return None;
        }
        if members.get("kind") == Some(Verdict::KIND) {
            return members.verdict(seq).map(RunRecord::Verdict);
        }
        let kind = members.get("kind").map(text);
        match kind.as_deref() {
            Some("run-start") => Some(RunRecord::Start(members.run(seq, line))),
            Some("run") => Some(RunRecord::Run(members.run(seq, line))),
            // As other programs write them, without a kind.
            None if members.get("skill").is_some() || members.get("attempts").is_some() => {
                Some(RunRecord::Run(members.run(seq, line)))
            }
            _ => None,
        }
    }

    /// The run that it tells of, whether it begins or ends; nothing if it is a verdict.
    pub fn run(self) -> Option<Run<'a>> {
        match self {
            RunRecord::Run(run) | RunRecord::Start(run) => Some(run),
            RunRecord::Verdict(_) => None,
        }
    }
}

/// The members of an object, each as it stands.
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// The JSON of a member; of several with one name the last, as most readers have it.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().rfind(|(n, _)| n == name).map(|(_, json)| *json)
    }

    fn string(&self, name: &'static str, odd: &mut Vec<Oddity>) -> Cow<'a, str> {
        string(self.get(name), name, odd)
    }

    fn parsed<T: Deserialize<'a>>(&self, name: &'static str, odd: &mut Vec<Oddity>) -> Option<T> {
        let json = self.get(name).filter(|json| *json != "null")?;
        let read = serde_json::from_str(json).ok();
        if read.is_none() {
            odd.push(Oddity::Shape(name));
        }
        read
    }

    fn duration(&self, odd: &mut Vec<Oddity>) -> Option<u64> {
        let number: f64 = self.parsed("duration_ms", odd)?;
        if number < 0.0 {
            odd.push(Oddity::NegativeDuration);
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not below zero; it saturates"
        )]
        let ms = number as u64;
        Some(ms)
    }

    fn run(&self, seq: u64, line: &'a str) -> Run<'a> {
        let mut odd = Vec::new();
        let written = self.get("timestamp").or_else(|| self.get("ts"));
        // Seconds and milliseconds are written as numbers, too.
        let is_number = written.is_some_and(|json| json.starts_with(|c: char| c.is_ascii_digit()));
        let timestamp = if is_number {
            written.map(text).unwrap_or_default()
        } else {
            string(written, "timestamp", &mut odd)
        };
        let at_ms = time(&timestamp);
        match at_ms {
            None => odd.push(Oddity::NoTime),
            Some(ms) if ms < YEAR_2000_MS => odd.push(Oddity::OldTime),
            Some(_) => {}
        }
        let final_status = self.string("final_status", &mut odd);
        let status = Status::of_word(&final_status);
        if status == Status::Other {
            odd.push(Oddity::Status);
        }
        if self.get("replaced_utf8").is_some() {
            odd.push(Oddity::Replaced);
        }
        Run {
            seq,
            line,
            run_id: self.string("run_id", &mut odd),
            idempotency_key: self.string("idempotency_key", &mut odd),
            session_id: self.string("session_id", &mut odd),
            at_ms,
            skill: self.string("skill", &mut odd),
            skill_hash: self.string("skill_hash", &mut odd),
            phase: self.string("phase", &mut odd),
            project_root: self.string("project_root", &mut odd),
            input: self.get("input").filter(|json| *json != "null"),
            attempts: attempts(self.get("attempts"), &mut odd),
            file_path: self.string("file_path", &mut odd),
            model_used: self.string("model_used", &mut odd),
            duration_ms: self.duration(&mut odd),
            timestamp,
            status,
            final_status,
            oddities: odd,
            ..Run::default()
        }
    }

    fn attempt(&self, odd: &mut Vec<Oddity>) -> Attempt<'a> {
        Attempt {
            attempt: self.parsed("attempt", odd),
            model: self.string("model", odd),
            output_summary: self.string("output_summary", odd),
            runner_output: self.string("runner_output", odd),
            verified: self.parsed("verified", odd),
            judged: None,
            prompt_ref: self.parsed("prompt_ref", odd),
            output_ref: self.parsed("output_ref", odd),
            params: self.get("params"),
            usage: self.get("usage"),
            error_class: self.string("error_class", odd),
            exit_code: self.parsed("exit_code", odd),
            skill_hash: self.string("skill_hash", odd),
            sandbox: self.string("sandbox", odd),
            duration_ms: self.duration(odd),
        }
    }
}

fn attempts<'a>(json: Option<&'a str>, odd: &mut Vec<Oddity>) -> Vec<Attempt<'a>> {
    let Some(json) = json.filter(|json| *json != "null") else { return Vec::new() };
    let mut attempts = Vec::new();
    if let Some(list) = manent_log::members_of_each(json) {
        attempts.extend(list.into_iter().map(|members| Members(members).attempt(odd)));
    } else {
        // The list has other values among them, or is none.
        let list = serde_json::from_str::<Vec<&'a RawValue>>(json);
        odd.push(Oddity::Shape("attempts"));
        let objects =
            list.unwrap_or_default().into_iter().filter_map(|one| manent_log::members_of(one.get()));
        attempts.extend(objects.map(|members| Members(members).attempt(odd)));
    }
    let numbers = || attempts.iter().filter_map(|attempt| attempt.attempt);
    if !numbers().is_sorted() {
        odd.push(Oddity::Order);
    }
    let mut sorted: Vec<u64> = numbers().collect();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        odd.push(Oddity::Repeated);
    }
    // A million attempts that are all odd in the same way are odd in one way.
    odd.sort_unstable();
    odd.dedup();
    attempts
}

/// A member that is a text. Numbers and the like are given as they are written.
fn string<'a>(json: Option<&'a str>, name: &'static str, odd: &mut Vec<Oddity>) -> Cow<'a, str> {
    let Some(json) = json.filter(|json| *json != "null") else { return Cow::Borrowed("") };
    if !json.starts_with('"') {
        odd.push(Oddity::Shape(name));
    }
    text(json)
}

pub(super) fn text(json: &str) -> Cow<'_, str> {
    let Some(inside) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Cow::Borrowed(json);
    };
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Cow::Borrowed(inside);
    }
    // A lone half of a pair of surrogates is JSON and no text.
    let whole = manent_log::without_lone_surrogates(json);
    serde_json::from_str(&whole).map_or(Cow::Borrowed(inside), Cow::Owned)
}

/// A time as records write it, or a number of seconds or milliseconds since 1970.
pub(super) fn time(text: &str) -> Option<i64> {
    if let Some(ms) = clock::parse_own_ms(text.as_bytes()) {
        return Some(ms);
    }
    if let Ok(number) = text.parse::<f64>() {
        let ms = if number.abs() < SECONDS_BELOW { number * 1000.0 } else { number };
        #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
        return ms.is_finite().then_some(ms as i64);
    }
    // Only what names a time of day: `7d` is no time of a record.
    text.contains(':').then(|| human_time::parse_time(text, 0).ok()).flatten().map(|range| range.start_ms)
}

const SUCCESSES: &[&str] =
    &["success", "succeeded", "ok", "pass", "passed", "done", "completed", "complete", "verified"];
const FAILURES: &[&str] = &[
    "failed",
    "failure",
    "fail",
    "error",
    "errored",
    "timeout",
    "timed_out",
    "exhausted",
    "rejected",
    "crashed",
];
/// Statuses of an unknown outcome. Interrupted runs are among them: an interruption says nothing about the result.
const UNKNOWN: &[&str] =
    &["", "unknown", "started", "running", INTERRUPTED, "cancelled", "canceled", "aborted"];
/// The class of an attempt that somebody broke off, and the status of its run. It says nothing of what it was worth.
pub const INTERRUPTED: &str = "interrupted";
/// The class of an attempt that could not be checked, because whoever was to do that could not. It says nothing of what
/// it was worth.
pub const NOT_CHECKED: &str = "verifier";
/// The class of an attempt whose command was not run, because its sandbox could not be started. It says nothing of what
/// the skill is worth.
pub const NOT_RUN: &str = "sandbox";
/// A time before this comes from a clock that was not set.
pub(crate) const YEAR_2000_MS: i64 = 946_684_800_000;
/// A number below this is a time in seconds (until the year 5138), one above it in milliseconds (from 1973 on).
const SECONDS_BELOW: f64 = 1e11;
