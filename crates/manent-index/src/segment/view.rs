//! A segment together with the current catalogue: which of its records are live, and which a query selects.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::error::IndexResult;
use crate::segment::dictionary::TermEntry;
use crate::segment::postings::PostingList;
use crate::segment::{Seconds, Segment, UNNAMED_ROLE};

/// A segment, and the rows of its runs in the current catalogue.
#[derive(Debug, Clone)]
pub(crate) struct SegmentView {
    pub(crate) segment: Arc<Segment>,
    /// For each run: the row of its session in the catalogue. `None` if the session is gone, or was read anew.
    pub(crate) rows: Vec<Option<u32>>,
    /// Turns that are not there any more, in order.
    dead: Vec<Range<u32>>,
    dead_turns: u64,
    /// For a run that another one continues: the segment and the number of the record that follows its last.
    next: HashMap<u32, (u32, u32), foldhash::fast::RandomState>,
}

/// Connects runs of one stream that were indexed at different times: the last record of one has the first of the next
/// as its neighbour, in whatever segments they lie.
pub(crate) fn connect(views: &mut [SegmentView]) {
    let mut begins: HashMap<(u32, u64), (u32, u32), foldhash::fast::RandomState> = HashMap::default();
    for (number, view) in (0..).zip(&*views) {
        for (run, row) in view.segment.runs.iter().zip(&view.rows) {
            if let Some(row) = row.filter(|_| run.before > 0 && run.echo < run.count) {
                begins.insert((row, run.before), (number, run.first + run.echo));
            }
        }
    }
    if begins.is_empty() {
        return;
    }
    for view in views {
        let SegmentView { segment, rows, next, .. } = view;
        for (number, (run, row)) in (0..).zip(segment.runs.iter().zip(&*rows)) {
            if let Some(found) = row.and_then(|row| begins.get(&(row, run.after()))) {
                next.insert(number, *found);
            }
        }
    }
}

impl SegmentView {
    /// `row_of` tells where in the catalogue a session stands.
    pub(crate) fn new(segment: Arc<Segment>, row_of: impl Fn(u64) -> Option<u32>) -> SegmentView {
        let rows: Vec<Option<u32>> = segment.runs.iter().map(|run| row_of(run.session)).collect();
        let mut dead: Vec<Range<u32>> = Vec::new();
        for (run, row) in segment.runs.iter().zip(&rows) {
            let gone = match row {
                None => run.first..run.end(),
                Some(_) if run.echo > 0 => run.first..run.first + run.echo,
                Some(_) => continue,
            };
            match dead.last_mut() {
                Some(last) if last.end == gone.start => last.end = gone.end,
                _ => dead.push(gone),
            }
        }
        let dead_turns = dead.iter().map(|gone| u64::from(gone.end - gone.start)).sum();
        SegmentView { segment, rows, dead, dead_turns, next: HashMap::default() }
    }

    /// Returns the segment and the number of the record that follows the last one of a run, if another run has it.
    pub(crate) fn next_of(&self, run: usize) -> Option<(u32, u32)> {
        self.next.get(&(run as u32)).copied()
    }

    /// Returns true if the segment has the role of every record.
    pub(crate) fn knows_roles(&self) -> IndexResult<bool> {
        Ok(memchr::memchr(UNNAMED_ROLE, self.segment.role_of()?).is_none())
    }

    /// Returns the number of live records.
    pub(crate) fn turns(&self) -> u64 {
        u64::from(self.segment.turns) - self.dead_turns
    }

    /// Returns true if any stream of the segment is gone, so that it holds words that must not be found.
    pub(crate) fn holds_gone(&self) -> bool {
        self.rows.contains(&None)
    }

    /// Returns the number of live records with a word.
    pub(crate) fn count_of(&self, entry: &TermEntry) -> IndexResult<u64> {
        if self.dead.is_empty() {
            Ok(u64::from(entry.count))
        } else {
            self.live_count(&mut self.segment.list(entry)?)
        }
    }

    /// Counts like [`SegmentView::count_of`], in a list that stands anywhere.
    pub(crate) fn live_count(&self, list: &mut PostingList) -> IndexResult<u64> {
        let mut count = u64::from(list.count());
        if !self.dead.is_empty() {
            list.unpack(0)?;
        }
        for gone in &self.dead {
            let mut doc = list.seek(gone.start)?;
            while doc < gone.end {
                count -= 1;
                doc = list.next()?;
            }
        }
        Ok(count)
    }

    pub(crate) fn is_dead(&self, doc: u32) -> bool {
        let behind = self.dead.partition_point(|gone| gone.end <= doc);
        self.dead.get(behind).is_some_and(|gone| gone.start <= doc)
    }

    /// The row of the session of a turn.
    pub(crate) fn row_of(&self, doc: u32) -> Option<u32> {
        self.segment.run_of(doc).and_then(|run| self.rows[run])
    }
}

/// The conditions of a query apart from its words.
pub(crate) struct QueryFilter<'a> {
    /// By the row of the session in the catalogue: up to which number its turns are wanted. `None`: all of all.
    pub(crate) sessions: Option<&'a [u64]>,
    pub(crate) role: Option<&'a (dyn Fn(&str) -> bool + Sync)>,
    /// From this second on.
    pub(crate) since: Option<u32>,
    /// Before this second.
    pub(crate) until: Option<u32>,
    /// Those that begin at these offsets in their files. `None`: all.
    pub(crate) alive: Option<OffsetFilter<'a>>,
}

/// Selects records by their offset in the file.
pub type OffsetFilter<'a> = &'a (dyn Fn(u64) -> bool + Sync);

/// All turns of a session are wanted, or none.
pub(crate) const ALL: u64 = u64::MAX;
pub(crate) const NONE: u64 = 0;

/// A [`QueryFilter`] on one segment.
pub(crate) struct SegmentFilter<'a> {
    view: &'a SegmentView,
    /// By run, up to which number its turns are wanted. `None`: every run that is there.
    runs: Option<Vec<u64>>,
    roles: Option<(Vec<bool>, &'a [u8])>,
    seconds: Option<(Range<u64>, Seconds<'a>)>,
    alive: Option<OffsetFilter<'a>>,
}

impl<'f> QueryFilter<'f> {
    pub(crate) fn of_segment<'a>(&self, view: &'a SegmentView) -> IndexResult<SegmentFilter<'a>>
    where
        'f: 'a,
    {
        let runs = self.sessions.map(|wanted| {
            let upto = |row: &Option<u32>| row.map_or(NONE, |row| wanted[row as usize]);
            view.rows.iter().map(upto).collect::<Vec<u64>>()
        });
        let roles = match self.role {
            None => None,
            Some(wanted) => {
                let roles = view.segment.roles.iter().map(|role| wanted(role)).collect();
                Some((roles, view.segment.role_of()?))
            }
        };
        let seconds = match (self.since, self.until) {
            (None, None) => None,
            (since, until) => {
                let end = until.map_or(u64::MAX, u64::from);
                Some((u64::from(since.unwrap_or(0))..end, view.segment.seconds()?))
            }
        };
        let runs = runs.filter(|runs| runs.iter().any(|upto| *upto != ALL));
        Ok(SegmentFilter { view, runs, roles, seconds, alive: self.alive })
    }
}

impl SegmentFilter<'_> {
    #[inline]
    pub(crate) fn takes(&self, doc: u32) -> bool {
        let in_time = |(range, seconds): &(Range<u64>, Seconds<'_>)| range.contains(&seconds.of(doc).into());
        let by_role = |(wanted, roles): &(Vec<bool>, &[u8])| {
            let role = roles.get(doc as usize).copied().unwrap_or(UNNAMED_ROLE);
            // One without a name here may be wanted: its record tells.
            wanted.get(usize::from(role)).is_none_or(|wanted| *wanted)
        };
        self.seconds.as_ref().is_none_or(in_time)
            && self.roles.as_ref().is_none_or(by_role)
            && !self.view.is_dead(doc)
            && self.runs.as_ref().is_none_or(|runs| self.is_wanted(runs, doc))
            && self.alive.is_none_or(|alive| {
                self.view.segment.record_ref(doc).is_ok_and(|record| alive(record.offset))
            })
    }

    fn is_wanted(&self, runs: &[u64], doc: u32) -> bool {
        match self.view.segment.run_of(doc).map_or(NONE, |run| runs[run]) {
            ALL => true,
            NONE => false,
            upto => self.view.segment.record_ref(doc).is_ok_and(|record| record.seq <= upto),
        }
    }

    /// Returns true if live records may be left out, so that the length of a list is not the number of matches.
    pub(crate) fn hides_any(&self) -> bool {
        self.runs.is_some() || self.roles.is_some() || self.seconds.is_some() || self.alive.is_some()
    }
}
