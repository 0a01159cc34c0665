//! Retrospectives: reports on the success of skills and models, with how sure one may be.
//!
//! Runs are read once, on two threads, in bounded memory. Nothing is concluded from fewer than [`RUNS_MIN`] runs; two
//! rates are called different only if a test supports it that is corrected for all comparisons of the report; and every
//! statement names runs that it rests on. Runs of unknown outcome, or with a status that has no meaning here, are
//! neither successes nor failures: they are counted apart, and shown.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`ReportQuery`] and [`Runs::retrospective`]: the choice of runs, and reading them |
//! | `tally.rs` | counts that are kept while runs go by, and examples of runs |
//! | `bounded_map.rs` | a table of bounded size that counts what it evicts |
//! | `durations.rs`, `statistics.rs` | medians in bounded memory; intervals and tests |
//! | `signature.rs` | failures that look the same, by what they printed, without credentials |
//! | `input_hash.rs` | inputs that are the same |
//! | `report.rs`, `compare.rs` | [`Report`]: the findings; [`RateComparison`] and [`FlakySkill`] |
//! | `statements.rs` | [`Statement`]: the findings in words |
//! | `markdown.rs`, `page.rs` | the report as Markdown, and as a page with charts |
//! | `lessons.rs` | lessons in the memory, and retiring those that no longer hold |
//! | `report_store.rs` | [`Reports`]: the report that is kept, and made anew now and then; alerts |
//! | `narrative.rs` | [`Narrative`]: the prose of a model, and what of it is believed |

mod bounded_map;
mod compare;
mod durations;
mod input_hash;
mod lessons;
mod markdown;
mod narrative;
mod page;
mod report;
mod report_store;
mod signature;
mod statements;
mod statistics;
mod tally;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use manent_store::{StreamStat, threads};

use crate::error::Result;
use crate::runs::{Run, Runs};

pub use compare::{ComparisonKind, FlakySkill, RateComparison};
pub use durations::DurationStats;
pub use lessons::LessonChanges;
pub use narrative::{Narrative, NarrativePassage, Narrator, ProposedEdit, TASK, schema};
pub use report::{DayCounts, FailureCluster, NO_BEGINNING, OddityCount, Period, Report, SkillStats, Totals};
pub use report_store::{LastReport, Reports, Schedule, ScheduleOutcome};
pub use statements::{Statement, Topic, thousands};
pub use statistics::{FALSE_ALARMS, Proportion, RUNS_MIN, different, holm, wilson};

use tally::Tally;

/// The choice of runs for a report.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportQuery<'a> {
    /// The time now, in milliseconds since 1970: times far behind it are those of a wrong clock.
    pub now_ms: i64,
    /// The beginning of the period. It is compared with one of the same length before it.
    pub since_ms: Option<i64>,
    /// The end of the period, which is not in it.
    pub until_ms: Option<i64>,
    /// The project of the runs; those below it count too: see [`Run::is_in`].
    pub project: Option<&'a str>,
    /// The skill of the runs.
    pub skill: Option<&'a str>,
    /// The session of the runs.
    pub session: Option<&'a str>,
    /// Skills that there are, so that one can say which were never used.
    pub known_skills: &'a [String],
    /// The number of threads that read; 0 is two.
    pub threads: usize,
    /// Stops when it is set: the report is then about what was read, and says that it is incomplete.
    pub stop: Option<&'a AtomicBool>,
    /// Stops at this time, in the same way: for reports in the background.
    pub deadline: Option<Instant>,
}

impl ReportQuery<'_> {
    fn wants(&self, run: &Run<'_>) -> bool {
        self.skill.is_none_or(|skill| run.skill.trim() == skill)
            && self.project.is_none_or(|project| run.is_in(project))
    }

    /// Returns the beginning of the period before: it is as long as the one that was asked for.
    fn before_ms(&self) -> Option<i64> {
        let since = self.since_ms?;
        let until = self.until_ms.unwrap_or(self.now_ms);
        let length = until.checked_sub(since).filter(|length| *length > 0)?;
        since.checked_sub(length)
    }

    /// A clock may be a day ahead, and no more.
    fn latest_ms(&self) -> i64 {
        self.now_ms.saturating_add(tally::DAY_MS)
    }

    fn is_over(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
            || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// Counts of the logs that were read.
#[derive(Debug, Default)]
struct ReadStats {
    sessions: u64,
    repeated: u64,
    others: u64,
    damaged: Vec<String>,
    damaged_more: u64,
    troubles: Vec<String>,
    stopped: bool,
}

impl ReadStats {
    fn merge(&mut self, other: ReadStats) {
        self.sessions += other.sessions;
        self.repeated += other.repeated;
        self.others += other.others;
        self.damaged.extend(other.damaged);
        self.damaged_more += other.damaged_more;
        self.troubles.extend(other.troubles);
        self.stopped |= other.stopped;
    }
}

impl Runs {
    /// Looks back on all runs that are asked for. `progress` is told how many bytes of how many were read, from any
    /// thread.
    ///
    /// The answer is the same whichever thread was faster. A session that cannot be read is named in the notes of the
    /// report, and hides no other.
    pub fn retrospective(
        &self,
        question: &ReportQuery<'_>,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Report> {
        let mut sessions = self.sessions()?;
        if let Some(only) = question.session {
            sessions.retain(|listed| listed.id.key.as_str() == only);
        }
        let all_bytes = sessions.iter().map(|listed| listed.bytes).sum();
        let done = AtomicU64::new(0);
        let tell = |bytes: u64| progress(done.fetch_add(bytes, Ordering::Relaxed) + bytes, all_bytes);
        let shares = shares(&sessions, if question.threads == 0 { THREADS } else { question.threads });
        let read = |share: &Vec<usize>| read_share(self, question, &sessions, share, &tell);
        let parts = threads::parallel_map(&shares, shares.len(), read)
            .map_err(manent_store::Error::from)
            .map_err(manent::Error::from)?;
        let (mut tally, mut read) = (Tally::new(question), ReadStats::default());
        for (part, seen) in parts {
            tally.merge(part);
            read.merge(seen);
        }
        Ok(report::make(question, tally, &read))
    }
}

/// Divides the sessions among threads: the largest first, each to the thread that has least. The division depends on
/// the sessions alone, so that the same runs are always counted together.
fn shares(sessions: &[StreamStat], threads: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(sessions[*at].bytes), *at));
    let mut shares = vec![(0_u64, Vec::new()); threads.max(1)];
    for at in order {
        if let Some(least) = shares.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            least.0 += sessions[at].bytes.max(1);
            least.1.push(at);
        }
    }
    shares.into_iter().map(|(_, share)| share).collect()
}

fn read_share<'q>(
    runs: &Runs,
    question: &'q ReportQuery<'q>,
    sessions: &[StreamStat],
    share: &[usize],
    tell: &(dyn Fn(u64) + Sync),
) -> (Tally<'q>, ReadStats) {
    let (mut tally, mut read) = (Tally::new(question), ReadStats::default());
    for at in share {
        if read.stopped || question.is_over() {
            read.stopped = true;
            break;
        }
        let key = &sessions[*at].id.key;
        let number = u32::try_from(*at).unwrap_or(u32::MAX);
        let mut until_look = LOOK_EVERY;
        let mut stopped = false;
        let seen = runs.each(key, |run| {
            tally.add(number, key.as_str(), run);
            until_look -= 1;
            if until_look == 0 {
                until_look = LOOK_EVERY;
                stopped = question.is_over();
            }
            if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        read.stopped |= stopped;
        match seen {
            Ok(seen) => {
                read.sessions += 1;
                read.repeated += seen.repeated;
                read.others += seen.others;
                if !seen.damage.is_empty() {
                    read.damaged_more += seen.damage.len() as u64;
                    read.damaged.push(key.to_string());
                }
            }
            Err(e) => read.troubles.push(format!("{key}: {e}")),
        }
        tell(sessions[*at].bytes);
    }
    (tally, read)
}

const THREADS: usize = 2;
/// Looking at a clock takes time too.
const LOOK_EVERY: u32 = 64;
