//! Entries to be recorded: those of other programs, checked, and runs and attempts of this one.
//!
//! An entry is refused only if it cannot be read as a run. Other oddities are recorded as they are, and listed.

use std::borrow::Cow;
use std::time::Duration;

use manent_log::{Body, BodyError, frame};
use manent_store::clock;
use manent_store::{KeyError, SessionKey};
use serde_json::value::RawValue;

use super::entry::{INTERRUPTED, Oddity, RecordRange, RunRecord, Status};
use super::verdict::Verdict;

/// An entry that cannot be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The entry is not a JSON object, or one that other readers would read otherwise.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A header.
    #[error("a member `meta` makes it a header, which only the log writes; take it out")]
    Meta,
    /// A record that is no run.
    #[error("its `kind` is neither `run` nor `run-start`; leave it out, or append it to a session")]
    Kind,
    /// A verdict on a run.
    #[error("it is a verdict on a run, and not a run")]
    Verdict,
    /// An entry with neither a skill nor an attempt.
    #[error("it has neither `skill` nor `attempts`, so it is no run; name the skill")]
    NoSkill,
    /// No session.
    #[error("it has no `session_id`; add one, or say which session it belongs to")]
    NoSession,
    /// A session key that is not valid.
    #[error("its `session_id` is no key of a session: {0}")]
    Session(#[from] KeyError),
}

/// An entry, ready to be recorded.
#[derive(Debug, Clone)]
pub struct NewEntry {
    pub(super) kind: RunEntryKind,
    /// The session it names, if it names one.
    session_id: Option<String>,
    /// The id of the run; if empty, it gets a new one.
    pub(super) run_id: String,
    pub(super) idempotency_key: String,
    /// The members that are written behind `kind` and `run_id`.
    pub(super) members: Body,
    /// True if another program gave the id, so that the run may have been recorded before.
    pub(super) id_is_given: bool,
    /// Oddities of the entry, which is recorded all the same.
    pub oddities: Vec<Oddity>,
}

/// The part of a run's life that an entry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunEntryKind {
    Start,
    Run,
}

/// A run that is about to begin.
#[derive(Debug, Clone, Default)]
pub struct NewRun {
    /// The name of the skill. Required.
    pub skill: String,
    /// The version of the skill.
    pub skill_hash: String,
    /// The phase of the work that the run is a part of.
    pub phase: String,
    /// The root directory of the project.
    pub project_root: String,
    /// The input of the skill: any JSON.
    pub input: Option<Box<RawValue>>,
    /// The file it is about.
    pub file_path: String,
    /// The same run, begun twice with the same key, is recorded once. Empty: it is never the same.
    pub idempotency_key: String,
}

/// One attempt, as it is recorded. Its number is its place.
#[derive(Debug, Clone, Default)]
pub struct NewAttempt {
    /// The model.
    pub model: String,
    /// A summary of the output.
    pub output_summary: String,
    /// The output of whoever ran or checked it.
    pub runner_output: String,
    /// The bytes and lines that were cut off the output.
    pub cut: (u64, u64),
    /// The result of the check; `None` if nobody checked it.
    pub verified: Option<bool>,
    /// The records that the model was given.
    pub prompt_ref: Option<RecordRange>,
    /// The records of the model's answer.
    pub output_ref: Option<RecordRange>,
    /// The parameters of the model.
    pub params: Option<Box<RawValue>>,
    /// The tokens and the like that it took.
    pub usage: Option<Box<RawValue>>,
    /// The class of the error that ended it; [`INTERRUPTED`] if somebody broke it off.
    pub error_class: String,
    /// The exit code of the command.
    pub exit_code: Option<i64>,
    /// The version of the skill; that of the run if it is empty.
    pub skill_hash: String,
    /// The sandbox in which the attempt ran.
    pub sandbox: String,
    /// The duration of the attempt.
    pub duration: Option<Duration>,
}

/// The end of a run.
#[derive(Debug, Clone, Default)]
pub struct RunEnd {
    /// The attempts, in order.
    pub attempts: Vec<NewAttempt>,
    /// The outcome. Unknown where somebody broke it off, which the class of its last attempt tells.
    pub status: Status,
    /// The model that did it in the end.
    pub model_used: String,
    /// The duration of the run.
    pub duration: Duration,
}

impl NewEntry {
    /// Reads an entry as another program wrote it: one JSON object.
    ///
    /// Bytes that are no UTF-8, and halves of surrogate pairs, are replaced, and the entry gets `replaced_utf8`.
    /// `seq` and `crc` are dropped: they are those of another log.
    pub fn parse(entry: &[u8]) -> Result<NewEntry, EntryError> {
        let lossy = String::from_utf8_lossy(entry);
        let mended = manent_log::without_lone_surrogates(&lossy);
        let is_replaced = matches!(lossy, Cow::Owned(_)) || matches!(mended, Cow::Owned(_));
        let parsed = Body::parse(mended.as_bytes())?;
        let braced = format!("{{{}}}", parsed.as_str());
        let listed = manent_log::members_of(&braced).unwrap_or_default();
        let json_of = |name: &str| listed.iter().find(|(n, _)| n == name).map(|(_, json)| *json);
        let has = |name: &str| json_of(name).is_some_and(|json| json != "null");
        if json_of("meta").is_some() {
            return Err(EntryError::Meta);
        }
        let kind = match json_of("kind") {
            None | Some(r#""run""#) => RunEntryKind::Run,
            Some(r#""run-start""#) => RunEntryKind::Start,
            Some(Verdict::KIND) => return Err(EntryError::Verdict),
            Some(_) => return Err(EntryError::Kind),
        };
        if !has("skill") && !has("attempts") {
            return Err(EntryError::NoSkill);
        }
        let run = RunRecord::read(0, &braced).and_then(RunRecord::run).unwrap_or_default();
        let mut oddities = run.oddities;
        let mut members = Body::new();
        if !has("timestamp") && !has("ts") {
            oddities.retain(|odd| *odd != Oddity::NoTime);
            members.string("timestamp", &clock::now());
        }
        if is_replaced {
            oddities.push(Oddity::Replaced);
            members.json("replaced_utf8", RawValue::TRUE);
        }
        // Members that are written anew, or have no value.
        let replaced = |name: &str| match name {
            "kind" | "run_id" => true,
            "timestamp" | "ts" => !has(name),
            "replaced_utf8" => is_replaced,
            _ => false,
        };
        if listed.iter().any(|(name, _)| replaced(name)) {
            let others = listed.iter().filter(|(name, _)| !replaced(name));
            others.for_each(|(name, json)| add_json(&mut members, name, json));
        } else {
            members.members(&parsed);
        }
        Ok(NewEntry {
            kind,
            session_id: Some(run.session_id.into_owned()).filter(|id| !id.is_empty()),
            id_is_given: !run.run_id.is_empty(),
            run_id: run.run_id.into_owned(),
            idempotency_key: run.idempotency_key.into_owned(),
            members,
            oddities,
        })
    }

    /// The session that it says it belongs to.
    pub fn session(&self) -> Result<SessionKey, EntryError> {
        let id = self.session_id.as_deref().ok_or(EntryError::NoSession)?;
        Ok(SessionKey::new(id)?)
    }

    /// Returns the body of the record, with this run id.
    pub(super) fn body(&self, run_id: &str, session: &SessionKey) -> Body {
        let kind = match self.kind {
            RunEntryKind::Start => "run-start",
            RunEntryKind::Run => "run",
        };
        let mut body = Body::new();
        body.string("kind", kind).string("run_id", run_id);
        if self.session_id.is_none() {
            body.string("session_id", session.as_str());
        }
        body.members(&self.members);
        body
    }

    /// Returns true if the entry may have been recorded before.
    pub(super) fn may_be_recorded(&self) -> bool {
        self.id_is_given || !self.idempotency_key.is_empty()
    }

    /// The beginning of a run.
    pub(super) fn start(run: &NewRun) -> Result<NewEntry, EntryError> {
        let mut entry = NewEntry::new(RunEntryKind::Start, run)?;
        add_text(&mut entry.members, "skill_hash", &run.skill_hash);
        Ok(entry)
    }

    /// Makes the entry of the end of a run.
    pub(super) fn end(run: &NewRun, run_id: &str, ended: &RunEnd) -> Result<NewEntry, EntryError> {
        let mut entry = NewEntry { run_id: run_id.to_owned(), ..NewEntry::new(RunEntryKind::Run, run)? };
        let members = &mut entry.members;
        add_text(members, "model_used", &ended.model_used);
        members.string("final_status", ended.word());
        members.number("duration_ms", ms(ended.duration));
        let attempts = ended.attempts.iter().zip(1..).map(|(attempt, nth)| attempt.object(nth, run));
        add_json(members, "attempts", &format!("[{}]", attempts.collect::<Vec<_>>().join(",")));
        Ok(entry)
    }

    /// Makes an entry of this program with the members that the start and the end of a run share.
    fn new(kind: RunEntryKind, run: &NewRun) -> Result<NewEntry, EntryError> {
        let mut members = Body::new();
        members.string("timestamp", &clock::now());
        run.write(&mut members)?;
        Ok(NewEntry {
            kind,
            session_id: None,
            run_id: String::new(),
            idempotency_key: run.idempotency_key.clone(),
            members,
            id_is_given: false,
            oddities: Vec::new(),
        })
    }
}

impl RunEnd {
    /// The word for how it ended.
    fn word(&self) -> &'static str {
        let is_interrupted = self.attempts.last().is_some_and(|attempt| attempt.error_class == INTERRUPTED);
        if self.status == Status::Unknown && is_interrupted { INTERRUPTED } else { self.status.word() }
    }

    /// The same with as little output of each attempt as fits in any case, and with counts of what was left out.
    pub(super) fn shortened(&self) -> RunEnd {
        // Two texts of each attempt; and a byte takes six if it must be escaped.
        let room = frame::RECORD_BYTES_MAX / 2 / 6 / 2 / self.attempts.len().max(1);
        let mut short = self.clone();
        for attempt in &mut short.attempts {
            for text in [&mut attempt.runner_output, &mut attempt.output_summary] {
                let from = text.ceil_char_boundary(text.len().saturating_sub(room));
                let cut = text.drain(..from).as_str().len();
                attempt.cut.0 += cut as u64;
            }
        }
        short
    }
}

impl NewRun {
    fn write(&self, members: &mut Body) -> Result<(), EntryError> {
        if self.skill.trim().is_empty() {
            return Err(EntryError::NoSkill);
        }
        add_text(members, "idempotency_key", &self.idempotency_key);
        members.string("skill", &self.skill);
        for (name, text) in
            [("phase", &self.phase), ("project_root", &self.project_root), ("file_path", &self.file_path)]
        {
            add_text(members, name, text);
        }
        if let Some(input) = &self.input {
            add_json(members, "input", input.get());
        }
        Ok(())
    }
}

impl NewAttempt {
    fn object(&self, nth: u64, run: &NewRun) -> String {
        let mut members = Body::new();
        members.number("attempt", nth);
        add_text(&mut members, "model", &self.model);
        let hash = if self.skill_hash.is_empty() { &run.skill_hash } else { &self.skill_hash };
        add_text(&mut members, "skill_hash", hash);
        add_text(&mut members, "sandbox", &self.sandbox);
        add_text(&mut members, "error_class", &self.error_class);
        for (name, json) in [
            ("exit_code", self.exit_code.map(|code| code.to_string())),
            ("verified", self.verified.map(|verified| verified.to_string())),
            ("prompt_ref", self.prompt_ref.as_ref().and_then(|passage| serde_json::to_string(passage).ok())),
            ("output_ref", self.output_ref.as_ref().and_then(|passage| serde_json::to_string(passage).ok())),
            ("params", self.params.as_ref().map(|json| json.get().to_owned())),
            ("usage", self.usage.as_ref().map(|json| json.get().to_owned())),
        ] {
            if let Some(json) = json {
                add_json(&mut members, name, &json);
            }
        }
        add_number(&mut members, "duration_ms", self.duration.map(ms));
        add_number(&mut members, "cut_bytes", Some(self.cut.0).filter(|bytes| *bytes > 0));
        add_number(&mut members, "cut_lines", Some(self.cut.1).filter(|lines| *lines > 0));
        add_text(&mut members, "output_summary", &self.output_summary);
        add_text(&mut members, "runner_output", &self.runner_output);
        format!("{{{}}}", members.as_str())
    }
}

/// Adds a text, unless it is empty.
pub(super) fn add_text(members: &mut Body, name: &str, text: &str) {
    if !text.is_empty() {
        members.string(name, text);
    }
}

pub(super) fn add_number(members: &mut Body, name: &str, number: Option<u64>) {
    if let Some(number) = number {
        members.number(name, number);
    }
}

/// Adds a value that is JSON. What only looked like JSON is added as text, so that nothing is lost.
pub(super) fn add_json(members: &mut Body, name: &str, json: &str) {
    let json = manent_log::without_lone_surrogates(json);
    match serde_json::from_str::<&RawValue>(&json) {
        Ok(json) => members.json(name, json),
        Err(_) => members.string(name, &json),
    };
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
