//! The turns of one clause of a question, in one segment.

use crate::damage::IndexResult;
use crate::dictionary::Entry;
use crate::postings::{END, List};
use crate::segment_view::SegmentView;

/// The turns with any of some words.
pub(crate) fn union(view: &SegmentView, entries: &[Entry]) -> IndexResult<DocIter> {
    if let [only] = entries {
        return Ok(DocIter::StreamStat(Box::new(view.segment.list(only)?)));
    }
    let turns = view.segment.turns() as usize;
    let found: usize = entries.iter().map(|entry| entry.count as usize).sum();
    if found >= turns / DENSE {
        let mut spread = vec![0; turns];
        for entry in entries {
            lay_out(&mut view.segment.list(entry)?, &mut spread)?;
        }
        return Ok(DocIter::Spread(spread));
    }
    let mut made = Vec::new();
    for entry in entries {
        DocIter::StreamStat(Box::new(view.segment.list(entry)?)).drain(&mut made)?;
    }
    Ok(DocIter::Made(Made::of(made)))
}

/// Adds a list to how often something is in each turn.
fn lay_out(list: &mut List, spread: &mut [u16]) -> IndexResult<()> {
    for block in 0..list.blocks() {
        list.unpack(block)?;
        let (docs, times) = list.unpacked();
        for (doc, times) in docs.iter().zip(times) {
            if let Some(slot) = spread.get_mut(*doc as usize) {
                *slot = slot.saturating_add(u16::try_from(*times).unwrap_or(u16::MAX));
            }
        }
    }
    Ok(())
}

/// The turns in which words seem to stand one behind the other: all that have them so, and a few others. The last word
/// may be one of several, of which the tag says nothing.
pub(crate) fn phrase(
    view: &SegmentView,
    words: &[Vec<Entry>],
    tags: &[u8],
    prefix: bool,
) -> IndexResult<Made> {
    let Some((last, front)) = words.split_last() else { return Ok(Made::default()) };
    let mut made = Vec::new();
    for last in last {
        let mut lists = Vec::with_capacity(words.len());
        for word in front.iter().flatten().chain([last]) {
            lists.push(view.segment.list(word)?);
        }
        let told = if prefix { tags.len() - 1 } else { tags.len() };
        rows_of_words(&mut lists, &tags[1.min(told)..told], &mut made)?;
    }
    Ok(Made::of(made))
}

/// `tags`: of the second word, the third and so on, as far as they are told.
fn rows_of_words(lists: &mut [List], tags: &[u8], made: &mut Vec<(u32, u32)>) -> IndexResult<()> {
    // Of a word, a sixteenth of its occurrences has the right tag behind it; to lead, it counts as that much rarer.
    let cost = |at: usize| lists[at].count() as usize / if at < tags.len() { TAGS } else { 1 };
    let lead = (0..lists.len()).min_by_key(|at| cost(*at)).unwrap_or(0);
    let mut others: Vec<usize> = (0..lists.len()).filter(|at| *at != lead).collect();
    others.sort_by_key(|at| lists[*at].count());
    loop {
        let mut times = match tags.get(lead) {
            Some(tag) => lists[lead].seek_followed(*tag)?,
            None => lists[lead].times(),
        };
        let doc = lists[lead].doc();
        if doc == END {
            return Ok(());
        }
        for at in &others {
            match lists[*at].seek(doc)? {
                found if found == doc => {}
                END => return Ok(()),
                _ => times = 0,
            }
            if times == 0 {
                break;
            }
            times = times.min(match tags.get(*at) {
                Some(tag) => lists[*at].followed_by(*tag)?,
                None => lists[*at].times(),
            });
        }
        if times > 0 {
            made.push((doc, times));
        }
        lists[lead].next()?;
    }
}

/// The turns of one clause, in order, and the clause's weight.
pub(crate) struct Source {
    pub(crate) turns: DocIter,
    pub(crate) weight: f32,
}

pub(crate) enum DocIter {
    StreamStat(Box<List>),
    Made(Made),
    /// How often in each turn of the segment: where many turns are asked for, looking there is faster than going along.
    Spread(Vec<u16>),
}

/// Turns that were put together, and how often they fit.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) docs: Vec<u32>,
    times: Vec<u32>,
    at: usize,
}

impl Made {
    /// Turns may come several times, in any order.
    pub(crate) fn of(mut turns: Vec<(u32, u32)>) -> Made {
        if !turns.is_sorted_by(|a, b| a.0 < b.0) {
            turns.sort_unstable();
        }
        let mut made = Made::default();
        for (doc, times) in turns {
            match made.times.last_mut() {
                Some(last) if made.docs.last() == Some(&doc) => *last = last.saturating_add(times),
                _ => {
                    made.docs.push(doc);
                    made.times.push(times);
                }
            }
        }
        made
    }
}

impl DocIter {
    pub(crate) fn count(&self) -> usize {
        match self {
            DocIter::StreamStat(list) => list.count() as usize,
            DocIter::Made(made) => made.docs.len(),
            DocIter::Spread(times) => times.len(),
        }
    }

    #[inline]
    pub(crate) fn seek(&mut self, target: u32) -> IndexResult<u32> {
        match self {
            DocIter::StreamStat(list) => list.seek(target),
            DocIter::Spread(times) => {
                let next = (target..times.len() as u32).find(|doc| times[*doc as usize] > 0);
                Ok(next.unwrap_or(END))
            }
            DocIter::Made(made) => {
                let rest = &made.docs[made.at..];
                // Most targets are the next turn or near.
                let mut step = 1;
                while step < rest.len() && rest[step] < target {
                    step *= 2;
                }
                let rest = &rest[..rest.len().min(step + 1)];
                made.at += rest.partition_point(|doc| *doc < target);
                Ok(made.docs.get(made.at).copied().unwrap_or(END))
            }
        }
    }

    /// How often in this turn. Turns are asked for in order.
    #[inline]
    pub(crate) fn times_in(&mut self, doc: u32) -> IndexResult<u32> {
        Ok(match self {
            DocIter::Spread(times) => times.get(doc as usize).copied().map_or(0, u32::from),
            DocIter::StreamStat(list) => {
                if list.seek(doc)? == doc {
                    list.times()
                } else {
                    0
                }
            }
            DocIter::Made(_) => {
                if self.seek(doc)? == doc {
                    self.times()
                } else {
                    0
                }
            }
        })
    }

    fn times(&self) -> u32 {
        match self {
            DocIter::StreamStat(list) => list.times(),
            DocIter::Made(made) => made.times.get(made.at).copied().unwrap_or(0),
            DocIter::Spread(_) => 0,
        }
    }

    /// Lays a long list out turn by turn, if `asked` turns or so will be asked for.
    pub(crate) fn spread_out(&mut self, asked: usize, turns: u32) -> IndexResult<()> {
        let DocIter::StreamStat(list) = self else { return Ok(()) };
        let count = list.count() as usize;
        if count < turns as usize / DENSE || asked < count / DENSE {
            return Ok(());
        }
        let mut spread = vec![0; turns as usize];
        lay_out(list, &mut spread)?;
        *self = DocIter::Spread(spread);
        Ok(())
    }

    pub(crate) fn drain(&mut self, into: &mut Vec<(u32, u32)>) -> IndexResult<()> {
        match self {
            DocIter::Made(made) => into.extend(made.docs.iter().copied().zip(made.times.iter().copied())),
            DocIter::Spread(times) => {
                let all = times.iter().enumerate().filter(|(_, times)| **times > 0);
                into.extend(all.map(|(doc, times)| (doc as u32, u32::from(*times))));
            }
            DocIter::StreamStat(list) => {
                for block in 0..list.blocks() {
                    list.unpack(block)?;
                    let (docs, times) = list.unpacked();
                    into.extend(docs.iter().copied().zip(times.iter().copied()));
                }
            }
        }
        Ok(())
    }
}

/// A list with one of so many turns is long.
const DENSE: usize = 16;
/// How many tags there are.
const TAGS: usize = 16;
