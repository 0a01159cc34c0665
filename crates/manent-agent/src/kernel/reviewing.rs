//! The actor that looks back on what skills did, now and then, and keeps the report. No conversation waits for it, and
//! nothing waits for it to end: when the kernel ends it is stopped, and what it was at is done next time.
//!
//! All that it knows is on the disk: when the last report was made, and of which runs. So any number of processes have
//! one schedule.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manent_runs::retrospective::{
    LessonChanges, Narrative, Report, Reports, Schedule, ScheduleOutcome, Topic,
};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, watch};

use super::Shared;
use super::mailbox::{Letters, Mailbox};
use super::models::Urgency;
use crate::config::{RetroConfig, RetroInterval};
use crate::model_tasks::ModelTasks;
use crate::providers::{Model, ModelError, Reply, Request};

/// What the actor did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reviewed {
    /// There is a new report.
    Made(Review),
    /// It came to nothing, for this reason; it is tried again later.
    Failed(String),
}

/// A report that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Review {
    /// Where the page is; the JSON is beside it.
    pub page: PathBuf,
    /// Of how many runs.
    pub runs: u64,
    /// Whether all of them were read; else there was no time.
    pub whole: bool,
    /// How many skills got worse, or end both ways with everything the same.
    pub alarms: usize,
    /// What went into the memory, if that is wanted.
    pub remembered: Option<LessonChanges>,
    /// What did not work besides.
    pub troubles: Vec<String>,
}

/// The address of the actor. When it is dropped, the actor ends.
#[derive(Debug)]
pub(super) struct Reviewing {
    /// Nobody writes letters; but an actor lives as long as its mailbox.
    _mailbox: Mailbox<Letter>,
    told: broadcast::Sender<Reviewed>,
    stop: Stop,
}

#[derive(Debug)]
enum Letter {}

/// Set when it is to end; for threads, and for whoever waits for a model.
#[derive(Debug, Clone)]
struct Stop {
    flag: Arc<AtomicBool>,
    heard: Arc<watch::Sender<bool>>,
}

impl Stop {
    fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.heard.send_replace(true);
    }

    async fn wait(&self) {
        let _ = self.heard.subscribe().wait_for(|is_set| *is_set).await;
    }
}

impl Reviewing {
    /// Nothing: it is off, or the store has no runs to look back on because it is another program's.
    pub(super) fn start(shared: &Arc<Shared>) -> Option<Reviewing> {
        let RetroInterval::Time(every) = shared.config.retro.every else { return None };
        if Reports::open(&shared.store).is_err() {
            return None;
        }
        let (told, _) = broadcast::channel(TOLD_MAX);
        let stop = Stop { flag: Arc::default(), heard: Arc::new(watch::Sender::new(false)) };
        let work = Work { shared: shared.clone(), every, told: told.clone(), stop: stop.clone() };
        let mailbox =
            Mailbox::open(&shared.runtime, "the retrospective", move |letters| serve(letters, work.clone()));
        Some(Reviewing { _mailbox: mailbox, told, stop })
    }

    /// Stops what it is at, and does not wait for that.
    pub(super) fn end(&self) {
        self.stop.set();
    }

    /// What it does from now on.
    pub(super) fn listen(&self) -> broadcast::Receiver<Reviewed> {
        self.told.subscribe()
    }
}

impl Drop for Reviewing {
    fn drop(&mut self) {
        self.stop.set();
    }
}

/// What the actor works with.
#[derive(Debug, Clone)]
struct Work {
    shared: Arc<Shared>,
    every: Duration,
    told: broadcast::Sender<Reviewed>,
    stop: Stop,
}

async fn serve(letters: Letters<Letter>, work: Work) {
    let mut letters = letters.lock().await;
    let mut rest = FIRST_LOOK.min(work.every);
    loop {
        tokio::select! {
            _ = letters.recv() => return,
            () = work.stop.wait() => return,
            () = tokio::time::sleep(rest) => {}
        }
        let (working, handle) = (work.clone(), Handle::current());
        let looked = tokio::task::spawn_blocking(move || look(&working, &handle)).await;
        let (told, until_next) = match looked {
            Ok(Ok(seen)) => seen,
            // What failed once mostly fails again: the disk is full, or it is read-only.
            Ok(Err(error)) => (Some(Reviewed::Failed(error.to_string())), after_failure(work.every)),
            Err(broken) if broken.is_panic() => {
                let what =
                    "it broke off while looking back; that is a bug, and nothing else is touched by it";
                (Some(Reviewed::Failed(what.to_owned())), after_failure(work.every))
            }
            Err(_) => return,
        };
        // Mostly nobody listens.
        if let Some(told) = told {
            let _ = work.told.send(told);
        }
        rest = until_next;
    }
}

/// Looks whether it is time; says what was done, and when to look again. On a thread for what waits.
fn look(work: &Work, handle: &Handle) -> manent_runs::Result<(Option<Reviewed>, Duration)> {
    let Work { shared, every, stop, .. } = work;
    let reports = Reports::open(&shared.store)?;
    let schedule = Schedule {
        every: *every,
        since: shared.config.retro.since,
        now_ms: jiff::Timestamp::now().as_millisecond(),
        within: WITHIN,
        stop: &stop.flag,
    };
    let mut troubles = Vec::new();
    let looked =
        reports.make_if_due(&schedule, &mut |report| narrate(work, handle, report, &mut troubles))?;
    let later = LOOK_EVERY.min(*every);
    match looked {
        ScheduleOutcome::Made(report) => {
            let remembered = remember(shared, &report, &mut troubles);
            let is_alarm = |topic| matches!(topic, Topic::Regression | Topic::Flaky);
            let review = Review {
                page: reports.page(),
                runs: report.totals.runs,
                whole: report.whole,
                alarms: report.statements.iter().filter(|one| is_alarm(one.topic)).count(),
                remembered,
                troubles,
            };
            Ok((Some(Reviewed::Made(review)), later))
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
    match memory.and_then(|memory| report.remember(&memory, MEMORY_WAIT)) {
        Ok(remembered) => Some(remembered),
        Err(error) => {
            troubles.push(format!("nothing of it was remembered: {error}"));
            None
        }
    }
}

/// What a model makes of it, if that is wanted.
fn narrate(work: &Work, handle: &Handle, report: &Report, troubles: &mut Vec<String>) -> Option<Narrative> {
    let Work { shared, stop, .. } = work;
    let RetroConfig { with_model, .. } = shared.config.retro;
    if !with_model || report.totals.runs == 0 || matches!(shared.model, Model::Recall(_)) {
        return None;
    }
    let ask = |request: &Request| -> Result<Reply, ModelError> {
        handle.block_on(async {
            tokio::select! {
                reply = shared.models.ask(request.clone(), Urgency::Background) => reply,
                () = stop.wait() => Err(ModelError::Broke),
            }
        })
    };
    let window = shared.model.window().unwrap_or(shared.limits.max_tokens);
    match report.narrate(&mut ModelTasks::new(shared.model.name(), window, ask)) {
        Ok(narrative) => Some(narrative),
        Err(why) => {
            troubles.push(format!("{why}; the facts are told without the prose"));
            None
        }
    }
}

fn after_failure(every: Duration) -> Duration {
    every.clamp(Duration::from_secs(1), Duration::from_hours(1))
}

/// Whoever only asks one question is not to pay for it.
const FIRST_LOOK: Duration = Duration::from_secs(5);
/// A look costs a list of the runs at most.
const LOOK_EVERY: Duration = Duration::from_mins(10);
/// So that no clock makes it go round and round.
const MOMENT: Duration = Duration::from_millis(20);
/// A million runs are read in a few seconds.
const WITHIN: Duration = Duration::from_mins(2);
/// Another writer of the memory is at a few lines.
const MEMORY_WAIT: Duration = Duration::from_secs(10);
const TOLD_MAX: usize = 16;
