//! The report that is kept, and made anew on a schedule: the latest one, as a page and as JSON, in `retro/` in the home
//! of the store.
//!
//! The JSON alone says when it was made and of what, so that all processes have one schedule, which outlives them. Each
//! file is written whole or not at all. Whoever makes a report holds a lock on the directory; whoever puts it in its
//! place, or removes runs, holds the right to move sessions, so that no report comes back that shows what was purged
//! meanwhile. The alerts that were shown stand in a third file, by what they are about: a later report that says the
//! same of the same thing is no news.
//!
//! A report is due when there are runs that the last report did not see, and that report is old enough. The time
//! between the last report and now counts in either direction, so that a clock that was set back delays a report by no
//! more than the interval, and costs one report more at most.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use manent::Store;
use manent_store::{Blobs, Lock, LockMode, LockName, Space, StreamStat, clock, is_temporary};
use serde::Deserialize;
use serde_json::json;

use super::ReportQuery;
use super::narrative::Narrative;
use super::report::{Report, time};
use super::statements::Topic;
use crate::error::{Result, io_error};
use crate::runs::Runs;

/// The report of a store that is kept.
#[derive(Debug, Clone)]
pub struct Reports {
    store: Store,
    blobs: Arc<dyn Blobs>,
    /// The folder, for people and messages.
    dir: PathBuf,
}

/// The time of the last report, and the runs that it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastReport {
    /// The time in milliseconds since 1970.
    pub at_ms: i64,
    /// The fingerprint of the runs that it saw: see [`RunsSnapshot`].
    saw: String,
}

/// The part of a stored report that is read again.
#[derive(Deserialize)]
struct StoredReport {
    made: ReportStamp,
    statements: Vec<StoredStatement>,
}

#[derive(Deserialize)]
struct ReportStamp {
    at: String,
    saw: String,
}

/// A statement of it.
#[derive(Deserialize)]
struct StoredStatement {
    topic: String,
    text: String,
    about: String,
}

/// The runs as they are seen from outside.
#[derive(Debug, Clone)]
struct RunsSnapshot(Vec<StreamStat>);

impl RunsSnapshot {
    fn of(store: &Store) -> Result<RunsSnapshot> {
        Ok(RunsSnapshot(Runs::open(store)?.sessions()?))
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|listed| listed.bytes == 0)
    }

    /// Returns a word that differs whenever a log came, grew or went.
    fn word(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for StreamStat { id, bytes, modified_ms, .. } in &self.0 {
            let key = id.key.as_str();
            hasher.update(
                format!("{}:{key}{}:{} {bytes} {modified_ms}\n", key.len(), id.id.len(), id.id).as_bytes(),
            );
        }
        hasher.finalize().to_hex()[..SAW_CHARS].to_owned()
    }

    /// Returns true if all of these logs are still there. They only grow.
    fn is_in(&self, now: &RunsSnapshot) -> bool {
        self.0.iter().all(|seen| now.0.iter().any(|log| log.id == seen.id && log.bytes >= seen.bytes))
    }
}

impl Reports {
    /// Returns the report that is kept of the runs of a store. An error if the store keeps no runs.
    pub fn open(store: &Store) -> Result<Reports> {
        store.check_supports(Space::Runs)?;
        let blobs = store.derived_blobs();
        let dir = blobs.path(REPORTS).unwrap_or_else(|| blobs.name(REPORTS).into());
        Ok(Reports { store: store.clone(), blobs, dir })
    }

    /// The directory, whether it exists or not.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The page, whether it exists or not.
    pub fn page(&self) -> PathBuf {
        self.dir.join(PAGE)
    }

    /// Returns when the last report was made. `None` if there is none, or if the file is damaged, another program's or
    /// somebody else's.
    pub fn last(&self) -> Option<LastReport> {
        let ReportStamp { at, saw } = self.read()?.made;
        Some(LastReport { at_ms: clock::parse_ms(&at)?, saw })
    }

    fn read(&self) -> Option<StoredReport> {
        serde_json::from_slice(&self.bytes_of(DATA, BYTES_MAX)?).ok()
    }

    /// Reads a blob of ours that is no longer than `bytes_max`.
    fn bytes_of(&self, name: &str, bytes_max: u64) -> Option<Vec<u8>> {
        let name = name_of(name);
        let stat = self.blobs.stat(&name).ok()??;
        if !stat.is_own || stat.bytes > bytes_max {
            return None;
        }
        let blob = self.blobs.open(&name).ok()??;
        let mut bytes = vec![0; blob.len().min(bytes_max) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            match blob.read_at(&mut bytes[filled..], filled as u64).ok()? {
                0 => break,
                n => filled += n,
            }
        }
        bytes.truncate(filled);
        Some(bytes)
    }

    /// Returns the size of the report on the disk.
    pub fn bytes(&self) -> u64 {
        let stats = [PAGE, DATA].map(|name| self.blobs.stat(&name_of(name)).ok().flatten());
        stats.into_iter().flatten().map(|stat| stat.bytes).sum()
    }

    /// The right to make a report, until it is dropped or this process ends; `None` if somebody else has it. It is not
    /// waited for.
    fn take(&self) -> Result<Option<Lock>> {
        self.blobs.lock(REPORTS, "", Duration::ZERO).map_err(io_error("use", &self.dir))
    }

    /// Keeps a report in the place of the one before, with the right to make it. False: runs that it was made of are
    /// gone, and nothing was written.
    fn keep(
        &self,
        report: &Report,
        narrative: Option<&Narrative>,
        saw: &RunsSnapshot,
        at_ms: i64,
    ) -> Result<bool> {
        let page = report.to_html(narrative);
        let mut value = report.to_json(narrative);
        value["made"] = json!({"at": time(at_ms), "saw": saw.word()});
        let data = format!("{value}\n");
        if data.len() as u64 > BYTES_MAX {
            let why = format!("the report has {} bytes, more than are read again", data.len());
            return Err(io_error("write", &self.dir.join(DATA))(io::Error::other(why)));
        }
        // A purge removes the report and then runs with the same right.
        let moves = LockName::Moves(Space::Runs);
        let _right = self.store.streams().lock(moves, LockMode::Exclusive, self.store.wait())?;
        if !saw.is_in(&RunsSnapshot::of(&self.store)?) {
            return Ok(false);
        }
        // Left by processes that died while writing.
        self.remove_temporary().map_err(io_error("remove old files from", &self.dir))?;
        // The JSON last, and only when the page cannot be lost any more: it says that there is a new one.
        let (page_name, data_name) = (name_of(PAGE), name_of(DATA));
        let blobs = [(page_name.as_str(), page.as_bytes()), (data_name.as_str(), data.as_bytes())];
        self.blobs.put_all(&blobs).map_err(io_error("write", &self.dir))?;
        Ok(true)
    }

    fn remove_temporary(&self) -> io::Result<()> {
        let names = self.blobs.list(REPORTS)?;
        let mut temporary = names.iter().filter(|name| is_temporary(name));
        temporary.try_for_each(|name| self.blobs.delete(&name_of(name)))
    }
}

fn name_of(name: &str) -> String {
    format!("{REPORTS}/{name}")
}

/// The folder of the report. [`Space::derived_blobs`] names the files in it that a purge removes.
const REPORTS: &str = match Space::Runs.derived_blobs() {
    Some(derived) => derived.folder,
    None => "",
};
const PAGE: &str = "latest.html";
const DATA: &str = "latest.json";
/// The file that lists the alerts that were shown.
const SHOWN_ALERTS: &str = "told";
/// No report is as long: its tables are bounded.
const BYTES_MAX: u64 = 64 << 20;
const SAW_CHARS: usize = 32;

impl Reports {
    /// Returns the alerts that were not shown yet (a skill got worse, or is flaky), in the words of the report, and
    /// marks them as shown. If that cannot be noted, they are returned again.
    pub fn take_alerts(&self) -> Vec<String> {
        let topics = [Topic::Regression, Topic::Flaky].map(Topic::word);
        let is_alert = |one: &StoredStatement| topics.contains(&one.topic.as_str()) && is_id(&one.about);
        let statements = self.read().map(|report| report.statements).unwrap_or_default();
        let alerts: Vec<StoredStatement> = statements.into_iter().filter(is_alert).take(ALERTS_MAX).collect();
        let shown = self.bytes_of(SHOWN_ALERTS, SHOWN_BYTES_MAX).unwrap_or_default();
        let shown = String::from_utf8_lossy(&shown);
        let shown: HashSet<&str> = shown.lines().collect();
        let is_new = |one: &&StoredStatement| !shown.contains(one.about.as_str());
        let text = |one: &StoredStatement| one.text.chars().take(TEXT_CHARS_MAX).collect();
        let new: Vec<String> = alerts.iter().filter(is_new).map(text).collect();
        if !new.is_empty() {
            let ids: Vec<&str> = alerts.iter().map(|one| one.about.as_str()).collect();
            let _ = self.blobs.put(&name_of(SHOWN_ALERTS), ids.join("\n").as_bytes());
        }
        new
    }
}

/// Returns true if it looks like the id of a statement, as our reports have it.
fn is_id(about: &str) -> bool {
    !about.is_empty() && about.len() <= ID_BYTES_MAX && about.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// No statement of ours is as long.
const TEXT_CHARS_MAX: usize = 2000;
const ALERTS_MAX: usize = 1000;
const SHOWN_BYTES_MAX: u64 = 1 << 20;
const ID_BYTES_MAX: usize = 64;

/// The schedule of reports, and the runs that they are about.
#[derive(Debug, Clone, Copy)]
pub struct Schedule<'a> {
    /// The time between two reports.
    pub every: Duration,
    /// The time that they look back.
    pub since: Duration,
    /// The time now, in milliseconds since 1970.
    pub now_ms: i64,
    /// The most time for reading runs: a report that runs out of it says that it is incomplete.
    pub within: Duration,
    /// Stops when it is set: nothing is kept.
    pub stop: &'a AtomicBool,
}

/// The outcome of [`Reports::make_if_due`].
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleOutcome {
    /// No report was made, because there are no runs since the last one.
    Nothing,
    /// The last report is not old enough, for so long.
    NotYet(Duration),
    /// Another process is making a report.
    Busy,
    /// The work was stopped; nothing was kept.
    Stopped,
    /// Runs were removed while it was made; nothing was kept.
    Overtaken,
    /// A new report was made.
    Made(Box<Report>),
}

impl Reports {
    /// Makes a report if it is time, and nobody else does. `narrate` may have a model add to it.
    ///
    /// Where it is not time, nothing is written, and no run is read.
    pub fn make_if_due(
        &self,
        schedule: &Schedule<'_>,
        narrate: &mut dyn FnMut(&Report) -> Option<Narrative>,
    ) -> Result<ScheduleOutcome> {
        if let Err(not_due) = self.due(schedule)? {
            return Ok(not_due);
        }
        let Some(_right) = self.take()? else { return Ok(ScheduleOutcome::Busy) };
        // Another process may have made one before it released the lock.
        let saw = match self.due(schedule)? {
            Err(not_due) => return Ok(not_due),
            Ok(saw) => saw,
        };
        let is_stopped = || schedule.stop.load(Ordering::Relaxed);
        let question = ReportQuery {
            now_ms: schedule.now_ms,
            since_ms: Some(schedule.now_ms.saturating_sub(millis(schedule.since))),
            // It runs in the background.
            threads: 1,
            stop: Some(schedule.stop),
            deadline: Instant::now().checked_add(schedule.within),
            ..ReportQuery::default()
        };
        let report = Runs::open(&self.store)?.retrospective(&question, &|_, _| {})?;
        if is_stopped() {
            return Ok(ScheduleOutcome::Stopped);
        }
        let narrative = narrate(&report);
        if is_stopped() {
            return Ok(ScheduleOutcome::Stopped);
        }
        let is_kept = self.keep(&report, narrative.as_ref(), &saw, schedule.now_ms)?;
        Ok(if is_kept { ScheduleOutcome::Made(Box::new(report)) } else { ScheduleOutcome::Overtaken })
    }

    /// The runs of which a report is due; or why none is.
    fn due(&self, schedule: &Schedule<'_>) -> Result<std::result::Result<RunsSnapshot, ScheduleOutcome>> {
        let last = self.last();
        if let Some(left) = last.as_ref().and_then(|last| left(last, schedule)) {
            return Ok(Err(ScheduleOutcome::NotYet(left)));
        }
        let saw = RunsSnapshot::of(&self.store)?;
        let is_unchanged = last.is_some_and(|last| last.saw == saw.word());
        Ok(if saw.is_empty() || is_unchanged { Err(ScheduleOutcome::Nothing) } else { Ok(saw) })
    }
}

/// Returns the time until the last report is old enough; `None` if it is.
fn left(last: &LastReport, schedule: &Schedule<'_>) -> Option<Duration> {
    let apart = Duration::from_millis(last.at_ms.abs_diff(schedule.now_ms));
    schedule.every.checked_sub(apart).filter(|left| !left.is_zero())
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
