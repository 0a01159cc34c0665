//! Reports on a schedule: checks whether one is due, and makes it.
//!
//! It is time when there are runs that the last report did not see, and that report is as old as was said. A clock that
//! was set back makes it late by no more than that, and one report more than there would have been is the most that it
//! costs: how far the last one is from now counts, in either direction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::ReportQuery;
use super::narrative::Narrative;
use super::report::Report;
use super::report_store::{LastReport, Reports, RunsSnapshot};
use crate::error::Result;
use crate::runs::Runs;

/// The schedule of reports, and the runs that they are about.
#[derive(Debug, Clone, Copy)]
pub struct Schedule<'a> {
    /// The time between two reports.
    pub every: Duration,
    /// The time that they look back.
    pub since: Duration,
    /// The time now, in milliseconds since 1970.
    pub now_ms: i64,
    /// The most time that making one may take: what was read by then is told, and that it is not all.
    pub within: Duration,
    /// Stops when it is set: nothing is kept.
    pub stop: &'a AtomicBool,
}

/// The outcome of [`Reports::make_if_due`].
#[derive(Debug, Clone, PartialEq)]
pub enum ScheduleOutcome {
    /// There are no runs, or none since the last report.
    Nothing,
    /// The last report is not old enough, for so long.
    NotYet(Duration),
    /// Another process is making one.
    Busy,
    /// Making it was stopped; nothing was kept.
    Stopped,
    /// Runs were removed while it was made; nothing was kept.
    Overtaken,
    /// There is a new one.
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
        if let Err(looked) = self.due(schedule)? {
            return Ok(looked);
        }
        let Some(_right) = self.take()? else { return Ok(ScheduleOutcome::Busy) };
        // Whoever had it before us may just have made one.
        let saw = match self.due(schedule)? {
            Err(looked) => return Ok(looked),
            Ok(saw) => saw,
        };
        let is_stopped = || schedule.stop.load(Ordering::Relaxed);
        let question = ReportQuery {
            now_ms: schedule.now_ms,
            since_ms: Some(schedule.now_ms.saturating_sub(millis(schedule.since))),
            // Beside other work.
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
        let kept = self.keep(&report, narrative.as_ref(), &saw, schedule.now_ms)?;
        Ok(if kept { ScheduleOutcome::Made(Box::new(report)) } else { ScheduleOutcome::Overtaken })
    }

    /// The runs of which a report is due; or why none is.
    fn due(&self, schedule: &Schedule<'_>) -> Result<std::result::Result<RunsSnapshot, ScheduleOutcome>> {
        let last = self.last();
        if let Some(left) = last.as_ref().and_then(|last| left(last, schedule)) {
            return Ok(Err(ScheduleOutcome::NotYet(left)));
        }
        let saw = RunsSnapshot::of(&self.store)?;
        let is_known = last.is_some_and(|last| last.saw == saw.word());
        Ok(if saw.is_empty() || is_known { Err(ScheduleOutcome::Nothing) } else { Ok(saw) })
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
