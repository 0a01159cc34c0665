//! The task that reports on what skills did, on a schedule. No conversation waits for it, and nothing waits for its
//! end: when the kernel ends it is stopped, and what it was at is done next time.
//!
//! The schedule is kept on the disk, as the time and the runs of the last report, so that all processes share it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manent_runs::retrospective::{
    LessonChanges, Narrative, Report, Reports, Schedule, ScheduleOutcome, Topic,
};
use tokio::sync::{broadcast, watch};

use super::Shared;
use super::model_call::{Urgency, stopped};
use crate::config::RetroInterval;
use crate::providers::Request;

/// An event of the scheduled reports.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetroEvent {
    /// A new report was made.
    Made(RetroReport),
    /// The report failed for this reason. It is tried again later.
    Failed(String),
}

/// A report that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetroReport {
    /// The path of the page; the JSON is beside it.
    pub page: PathBuf,
    /// The number of runs in it.
    pub runs: u64,
    /// True if all runs were read; otherwise the time ran out.
    pub whole: bool,
    /// The number of skills that got worse, or that end both ways with everything the same.
    pub alarms: usize,
    /// The lessons that were written to the memory, if that is configured.
    pub remembered: Option<LessonChanges>,
    /// Other problems.
    pub troubles: Vec<String>,
}

/// The handle of the task. When it is dropped, the task ends.
#[derive(Debug)]
pub(super) struct RetroWorker {
    pub(super) events: broadcast::Sender<RetroEvent>,
    /// The order to stop: a flag for threads, and a channel for whoever waits for a model.
    flag: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
}

impl RetroWorker {
    /// Starts the task; `None` if reports are off, or if the store is another program's and has no runs.
    pub(super) fn start(shared: &Arc<Shared>) -> Option<RetroWorker> {
        let RetroInterval::Time(every) = shared.config.retro.every else { return None };
        if Reports::open(&shared.store).is_err() {
            return None;
        }
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let (flag, (stop, stopped)) = (Arc::<AtomicBool>::default(), watch::channel(false));
        let work = RetroTask { shared: shared.clone(), every, flag: flag.clone(), stop: stopped };
        shared.runtime.spawn(run(work, events.clone()));
        Some(RetroWorker { events, flag, stop })
    }

    /// Stops the task, and does not wait for its end.
    pub(super) fn stop(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.stop.send_replace(true);
    }
}

impl Drop for RetroWorker {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug, Clone)]
struct RetroTask {
    shared: Arc<Shared>,
    every: Duration,
    flag: Arc<AtomicBool>,
    stop: watch::Receiver<bool>,
}

/// Looks again and again whether a report is due. A panic of a look is caught, so the task needs no restart.
async fn run(work: RetroTask, events: broadcast::Sender<RetroEvent>) {
    let mut rest = FIRST_LOOK.min(work.every);
    loop {
        tokio::select! {
            () = stopped(&work.stop) => return,
            () = tokio::time::sleep(rest) => {}
        }
        let working = work.clone();
        let looked = tokio::task::spawn_blocking(move || look(&working)).await;
        // A failure mostly repeats, because the disk is full or read-only: the next try waits longer.
        let failed = |why: String| {
            (Some(RetroEvent::Failed(why)), work.every.clamp(Duration::from_secs(1), Duration::from_hours(1)))
        };
        let (event, until_next) = match looked {
            Ok(outcome) => outcome.unwrap_or_else(|error| failed(error.to_string())),
            Err(broken) if broken.is_panic() => failed(PANICKED.to_owned()),
            Err(_) => return,
        };
        // Mostly nobody listens.
        if let Some(event) = event {
            let _ = events.send(event);
        }
        rest = until_next;
    }
}

/// Makes a report if one is due. Returns the event, and the time until the next look. Blocks.
fn look(work: &RetroTask) -> manent_runs::Result<(Option<RetroEvent>, Duration)> {
    let RetroTask { shared, every, flag, .. } = work;
    let reports = Reports::open(&shared.store)?;
    let schedule = Schedule {
        every: *every,
        since: shared.config.retro.since,
        now_ms: jiff::Timestamp::now().as_millisecond(),
        within: WITHIN,
        stop: flag,
    };
    let mut troubles = Vec::new();
    let looked = reports.make_if_due(&schedule, &mut |report| narrate(work, report, &mut troubles))?;
    let later = LOOK_EVERY.min(*every);
    match looked {
        ScheduleOutcome::Made(report) => {
            let remembered = remember(shared, &report, &mut troubles);
            let is_alarm = |topic| matches!(topic, Topic::Regression | Topic::Flaky);
            let report = RetroReport {
                page: reports.page(),
                runs: report.totals.runs,
                whole: report.whole,
                alarms: report.statements.iter().filter(|one| is_alarm(one.topic)).count(),
                remembered,
                troubles,
            };
            Ok((Some(RetroEvent::Made(report)), later))
        }
        // Clocks are set, and machines sleep: not even this is waited for in one go.
        ScheduleOutcome::NotYet(left) => Ok((None, left.clamp(MOMENT, LOOK_EVERY))),
        _ => Ok((None, later.max(MOMENT))),
    }
}

fn remember(shared: &Shared, report: &Report, troubles: &mut Vec<String>) -> Option<LessonChanges> {
    if !shared.config.retro.remember {
        return None;
    }
    let memory = shared.store.memory().map_err(manent_runs::Error::from);
    let remembered = memory.and_then(|memory| report.remember(&memory, MEMORY_WAIT));
    remembered.inspect_err(|error| troubles.push(format!("nothing of it was remembered: {error}"))).ok()
}

/// Returns the prose of a model on the report, if that is configured.
fn narrate(work: &RetroTask, report: &Report, troubles: &mut Vec<String>) -> Option<Narrative> {
    let RetroTask { shared, stop, .. } = work;
    if !shared.config.retro.with_model || report.totals.runs == 0 || shared.is_recall() {
        return None;
    }
    let ask = |request: &Request| {
        shared.runtime.block_on(shared.models.ask_unless_stopped(request, Urgency::Background, stop))
    };
    let narrative = report.narrate(&mut shared.model_tasks(ask));
    narrative.inspect_err(|why| troubles.push(format!("{why}; the facts are told without the prose"))).ok()
}

const PANICKED: &str = "it broke off while looking back; that is a bug, and nothing else is touched by it";
/// Long enough that a single question does not pay for it.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// A look costs a list of the runs at most.
const LOOK_EVERY: Duration = Duration::from_mins(10);
/// Keeps a clock that is set from making the task spin.
const MOMENT: Duration = Duration::from_millis(20);
/// A million runs are read in a few seconds.
const WITHIN: Duration = Duration::from_mins(2);
/// Another writer of the memory has it for a few lines only.
const MEMORY_WAIT: Duration = Duration::from_secs(10);
const EVENTS_MAX: usize = 16;
