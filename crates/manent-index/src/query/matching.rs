//! Finds the records that hold all words of a query, and ranks them.
//!
//! Weights come from all segments together, and scores from one formula with constant parameters: how the index is cut
//! into segments changes no answer.

use std::ops::Range;

use manent_store::threads::join;

use crate::error::IndexResult;
use crate::query::score::{Scored, TopK};
use crate::query::{Clause, Phrase, Query, score};
use crate::segment::dictionary::TermEntry;
use crate::segment::postings::{self, END, PostingList};
use crate::segment::view::{QueryFilter, SegmentFilter, SegmentView};

/// The best records of a query that hold all of it.
#[derive(Debug)]
pub(crate) struct Matched {
    pub(crate) best: Vec<Scored>,
    /// The number of all matches; `None` where counting them would take longer than finding the best.
    pub(crate) total: Option<u64>,
    /// The weight of each clause that must be there.
    pub(crate) weights: Vec<f32>,
}

/// Finds the turns that hold what must be there and nothing of what must not.
///
/// Of phrases the index knows only nearly where they are ([`is_exact`] tells): a turn that is given may not have them,
/// or less often, so that its score is the most it can be. One that has them is always given.
pub(crate) fn matching(
    views: &[SegmentView],
    query: &Query,
    filter: &QueryFilter<'_>,
    mut best: TopK<'_>,
) -> IndexResult<Matched> {
    let all: u64 = views.iter().map(SegmentView::turns).sum();
    let resolve = |clause: &Clause| ResolvedClause::new(views, clause, all);
    let must = query.must.iter().map(resolve).collect::<IndexResult<Vec<_>>>()?;
    // A phrase that is nearly there excludes nothing.
    let without = query.not.iter().filter(|clause| is_exact(clause));
    let not = without.map(resolve).collect::<IndexResult<Vec<_>>>()?;
    let work = work(query, &must, &not);
    let search = |numbers: Range<usize>, best: &mut TopK<'_>| -> IndexResult<Option<u64>> {
        let mut total = Some(0);
        for number in numbers {
            let count = search_segment(&views[number], number, &must, &not, filter, best)?;
            total = total.zip(count).map(|(total, count)| total + count);
        }
        Ok(total)
    };
    let total = if work < ALONE_TURNS || views.len() < 2 {
        search(0..views.len(), &mut best)?
    } else {
        let half = halves(views);
        let mut other = best.another();
        let (first, second) = join(|| search(0..half, &mut best), || search(half..views.len(), &mut other));
        best.join(other);
        first?.zip(second?).map(|(first, second)| first + second)
    };
    let exact = query.must.iter().chain(&query.not).all(is_exact);
    let weights = must.iter().map(|sought| sought.weight).collect();
    Ok(Matched { best: best.into_best(), total: total.filter(|_| exact), weights })
}

/// Estimates how many records have to be looked at.
fn work(query: &Query, must: &[ResolvedClause], not: &[ResolvedClause]) -> u64 {
    // One word is looked for block by block, and most blocks are passed over.
    if must.len() == 1 && not.is_empty() && query.must.iter().all(is_one_word) {
        return 0;
    }
    // The turns of a word are gone along with those of the rarest; the turns of anything else are put together first.
    let put_together = query.must.iter().zip(must).filter(|(clause, _)| !is_one_word(clause));
    let put_together: u64 = put_together.map(|(_, sought)| sought.turns()).sum();
    let rarest = must.iter().map(ResolvedClause::turns).min().unwrap_or(ALONE_TURNS);
    put_together + rarest.saturating_mul((must.len() + not.len()) as u64)
}

fn is_one_word(clause: &Clause) -> bool {
    matches!(clause.any.as_slice(), [phrase] if phrase.terms.len() == 1 && !phrase.prefix)
}

/// Returns true if the posting lists alone tell which records hold a clause, and how often.
pub(crate) fn is_exact(clause: &Clause) -> bool {
    clause.any.iter().all(|phrase| phrase.terms.len() < 2)
}

/// Offers the matches of a segment to `best`. Returns their number where that was counted.
fn search_segment(
    view: &SegmentView,
    number: usize,
    must: &[ResolvedClause],
    not: &[ResolvedClause],
    filter: &QueryFilter<'_>,
    best: &mut TopK<'_>,
) -> IndexResult<Option<u64>> {
    // Nothing, if one clause is nowhere in the segment.
    let sources =
        must.iter().map(|sought| sought.source(view, number)).collect::<IndexResult<Option<Vec<_>>>>()?;
    let Some(mut sources) = sources else { return Ok(Some(0)) };
    let filtered = filter.of_segment(view)?;
    if let ([Source { turns: DocIter::Postings(list), weight }], []) = (sources.as_mut_slice(), not) {
        return best_of_one(view, number, list, *weight, &filtered, best);
    }
    let mut without = Vec::new();
    for sought in not {
        without.extend(sought.source(view, number)?);
    }
    best_of_all(view, number, &mut sources, &mut without, &filtered, best).map(Some)
}

/// Returns the segment at which to split, so that both halves have about as many bytes.
fn halves(views: &[SegmentView]) -> usize {
    let all: u64 = views.iter().map(|view| view.segment.bytes()).sum();
    let mut before = 0;
    let reaches = |view: &SegmentView| {
        before += view.segment.bytes();
        before * 2 >= all
    };
    views.iter().position(reaches).map_or(views.len(), |at| at + 1).min(views.len() - 1)
}

/// The best turns with one word. The blocks that can bring most come first, and as soon as the next one cannot bring
/// anything better, neither can the rest.
fn best_of_one(
    view: &SegmentView,
    number: usize,
    list: &mut PostingList,
    weight: f32,
    filter: &SegmentFilter<'_>,
    best: &mut TopK<'_>,
) -> IndexResult<Option<u64>> {
    let mut order: Vec<(f32, u32, usize)> = (0..list.blocks())
        .filter_map(|block| list.bound(block).map(|bound| (bound.impact * weight, bound.newest, block)))
        .filter(|(score, newest, _)| best.could_take(*score, *newest))
        .collect();
    // Of equally good ones the last turns of a session come first, and so those that are kept in the end.
    order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.cmp(&a.2)));
    if list.bound(0).is_none() {
        order.push((f32::INFINITY, u32::MAX, 0));
    }
    for (score, newest, block) in order {
        if !best.could_take(score, newest) {
            // The next may be newer, but none scores higher.
            if !best.could_take(score, u32::MAX) {
                break;
            }
            continue;
        }
        list.unpack(block)?;
        let (docs, times) = list.unpacked();
        for (doc, times) in docs.iter().zip(times).rev() {
            let score = weight * score::impact(*times, view.segment.norm(*doc)?);
            if !best.could_take(score, newest) {
                continue;
            }
            let second = view.segment.second(*doc)?;
            if best.could_take(score, second) && filter.takes(*doc) {
                best.offer(Scored { score, second, segment: number as u32, doc: *doc });
            }
        }
    }
    let count = view.live_count(list)?;
    Ok((!filter.hides_any()).then_some(count))
}

/// The best turns that are in all sources and in none of `without`. Gives how many there are.
fn best_of_all(
    view: &SegmentView,
    number: usize,
    sources: &mut [Source],
    without: &mut [Source],
    filter: &SegmentFilter<'_>,
    best: &mut TopK<'_>,
) -> IndexResult<u64> {
    // The shortest leads; scores are added up in the order of the question.
    let lead = (0..sources.len()).min_by_key(|at| sources[*at].turns.count());
    let asked = lead.map_or(0, |lead| sources[lead].turns.count());
    for (at, source) in sources.iter_mut().enumerate() {
        if Some(at) != lead {
            source.turns.spread_out(asked, view.segment.turns)?;
        }
    }
    let mut times = vec![0; sources.len()];
    let mut count = 0;
    let mut doc = 0;
    'next: loop {
        // Without any words: every turn that the filter takes.
        doc = match lead {
            Some(lead) => sources[lead].turns.seek(doc)?,
            None if doc < view.segment.turns => doc,
            None => END,
        };
        if doc == END {
            break;
        }
        for (source, times) in sources.iter_mut().zip(&mut times) {
            *times = source.turns.times_in(doc)?;
            if *times == 0 {
                doc += 1;
                continue 'next;
            }
        }
        let mut unwanted = !filter.takes(doc);
        for source in &mut *without {
            unwanted = unwanted || source.turns.times_in(doc)? > 0;
        }
        if !unwanted {
            count += 1;
            let norm = view.segment.norm(doc)?;
            let impacts = times.iter().map(|times| score::impact(*times, norm));
            let score = sources.iter().zip(impacts).fold(0.0, |all, (s, impact)| all + s.weight * impact);
            if best.could_take(score, u32::MAX) {
                best.offer(Scored { score, second: view.segment.second(doc)?, segment: number as u32, doc });
            }
        }
        doc += 1;
    }
    Ok(count)
}

/// A clause, looked up in every segment.
struct ResolvedClause {
    any: Vec<ResolvedPhrase>,
    /// The weight of the rarest phrase.
    weight: f32,
}

struct ResolvedPhrase {
    weight: f32,
    /// The number of records with its words, added up over the words.
    turns: u64,
    /// For each segment and each word of the phrase: where its lists are. Several for a prefix, none if it is not
    /// there.
    entries: Vec<Vec<Vec<TermEntry>>>,
    /// The tag of each word.
    tags: Vec<u8>,
    prefix: bool,
}

impl ResolvedClause {
    fn new(views: &[SegmentView], clause: &Clause, all: u64) -> IndexResult<ResolvedClause> {
        let any: Vec<ResolvedPhrase> = clause
            .any
            .iter()
            .map(|phrase| ResolvedPhrase::new(views, phrase, all))
            .collect::<IndexResult<_>>()?;
        let weight = any.iter().map(|phrase| phrase.weight).fold(0.0, f32::max);
        Ok(ResolvedClause { any, weight })
    }

    /// About how many turns have to be looked at for it.
    fn turns(&self) -> u64 {
        self.any.iter().map(|phrase| phrase.turns).sum()
    }

    fn source(&self, view: &SegmentView, number: usize) -> IndexResult<Option<Source>> {
        let mut found = Vec::with_capacity(self.any.len());
        for phrase in &self.any {
            found.extend(phrase.turns(view, number)?.map(|turns| Source { turns, weight: self.weight }));
        }
        if found.len() < 2 {
            return Ok(found.pop());
        }
        let mut made = Vec::new();
        for source in &mut found {
            source.turns.drain(&mut made)?;
        }
        Ok(Some(Source { turns: DocIter::Merged(MergedDocs::of(made)), weight: self.weight }))
    }
}

impl ResolvedPhrase {
    fn new(views: &[SegmentView], phrase: &Phrase, all: u64) -> IndexResult<ResolvedPhrase> {
        let mut entries = Vec::with_capacity(views.len());
        let mut counts = vec![0_u64; phrase.terms.len()];
        for view in views {
            let mut of_segment = Vec::with_capacity(phrase.terms.len());
            for (at, term) in phrase.terms.iter().enumerate() {
                let mut found = Vec::new();
                if phrase.prefix && at + 1 == phrase.terms.len() {
                    view.segment.words.with_prefix(term, |_, entry| found.push(entry))?;
                } else {
                    found.extend(view.segment.words.find(term)?);
                }
                for entry in &found {
                    counts[at] += view.count_of(entry)?;
                }
                of_segment.push(found);
            }
            entries.push(of_segment);
        }
        let weight = counts.iter().map(|count| score::weight((*count).min(all), all)).sum();
        let tags = phrase.terms.iter().map(|term| postings::tag(term)).collect();
        let turns = counts.iter().sum();
        Ok(ResolvedPhrase { weight, turns, entries, tags, prefix: phrase.prefix })
    }

    fn turns(&self, view: &SegmentView, number: usize) -> IndexResult<Option<DocIter>> {
        let entries = &self.entries[number];
        if entries.iter().any(Vec::is_empty) {
            return Ok(None);
        }
        match entries.as_slice() {
            [] => Ok(None),
            [one] => union(view, one).map(Some),
            several => {
                let made = phrase(view, several, &self.tags, self.prefix)?;
                Ok((!made.docs.is_empty()).then_some(DocIter::Merged(made)))
            }
        }
    }
}

/// So few are looked at sooner than a thread is begun.
const ALONE_TURNS: u64 = 100_000;

/// The turns with any of some words.
pub(crate) fn union(view: &SegmentView, entries: &[TermEntry]) -> IndexResult<DocIter> {
    if let [only] = entries {
        return Ok(DocIter::Postings(Box::new(view.segment.list(only)?)));
    }
    let turns = view.segment.turns as usize;
    let found: usize = entries.iter().map(|entry| entry.count as usize).sum();
    if found >= turns / DENSE {
        let mut spread = vec![0; turns];
        for entry in entries {
            lay_out(&mut view.segment.list(entry)?, &mut spread)?;
        }
        return Ok(DocIter::Dense(spread));
    }
    let mut made = Vec::new();
    for entry in entries {
        DocIter::Postings(Box::new(view.segment.list(entry)?)).drain(&mut made)?;
    }
    Ok(DocIter::Merged(MergedDocs::of(made)))
}

/// Adds a list to how often something is in each turn.
fn lay_out(list: &mut PostingList, spread: &mut [u16]) -> IndexResult<()> {
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
    words: &[Vec<TermEntry>],
    tags: &[u8],
    prefix: bool,
) -> IndexResult<MergedDocs> {
    let Some((last, front)) = words.split_last() else { return Ok(MergedDocs::default()) };
    let mut made = Vec::new();
    for last in last {
        let mut lists = Vec::with_capacity(words.len());
        for word in front.iter().flatten().chain([last]) {
            lists.push(view.segment.list(word)?);
        }
        let tagged = if prefix { tags.len() - 1 } else { tags.len() };
        rows_of_words(&mut lists, &tags[1.min(tagged)..tagged], &mut made)?;
    }
    Ok(MergedDocs::of(made))
}

/// `tags`: of the second word, the third and so on, as far as they are tagged.
fn rows_of_words(lists: &mut [PostingList], tags: &[u8], made: &mut Vec<(u32, u32)>) -> IndexResult<()> {
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
    Postings(Box<PostingList>),
    Merged(MergedDocs),
    /// The number of occurrences in every record of the segment: faster than seeking where many records are asked for.
    Dense(Vec<u16>),
}

/// Turns that were put together, and how often they fit.
#[derive(Debug, Default)]
pub(crate) struct MergedDocs {
    pub(crate) docs: Vec<u32>,
    times: Vec<u32>,
    at: usize,
}

impl MergedDocs {
    /// Turns may come several times, in any order.
    pub(crate) fn of(mut turns: Vec<(u32, u32)>) -> MergedDocs {
        if !turns.is_sorted_by(|a, b| a.0 < b.0) {
            turns.sort_unstable();
        }
        let mut made = MergedDocs::default();
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
            DocIter::Postings(list) => list.count() as usize,
            DocIter::Merged(made) => made.docs.len(),
            DocIter::Dense(times) => times.len(),
        }
    }

    #[inline]
    pub(crate) fn seek(&mut self, target: u32) -> IndexResult<u32> {
        match self {
            DocIter::Postings(list) => list.seek(target),
            DocIter::Dense(times) => {
                let next = (target..times.len() as u32).find(|doc| times[*doc as usize] > 0);
                Ok(next.unwrap_or(END))
            }
            DocIter::Merged(made) => {
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

    /// Returns the number of occurrences in a record. Records must be asked for in order.
    #[inline]
    pub(crate) fn times_in(&mut self, doc: u32) -> IndexResult<u32> {
        match self {
            DocIter::Dense(times) => Ok(times.get(doc as usize).copied().map_or(0, u32::from)),
            DocIter::Postings(list) => Ok(if list.seek(doc)? == doc { list.times() } else { 0 }),
            DocIter::Merged(_) => {
                let is_there = self.seek(doc)? == doc;
                let DocIter::Merged(docs) = self else { return Ok(0) };
                Ok(if is_there { docs.times.get(docs.at).copied().unwrap_or(0) } else { 0 })
            }
        }
    }

    /// Lays a long list out turn by turn, if `asked` turns or so will be asked for.
    pub(crate) fn spread_out(&mut self, asked: usize, turns: u32) -> IndexResult<()> {
        let DocIter::Postings(list) = self else { return Ok(()) };
        let count = list.count() as usize;
        if count < turns as usize / DENSE || asked < count / DENSE {
            return Ok(());
        }
        let mut spread = vec![0; turns as usize];
        lay_out(list, &mut spread)?;
        *self = DocIter::Dense(spread);
        Ok(())
    }

    pub(crate) fn drain(&mut self, into: &mut Vec<(u32, u32)>) -> IndexResult<()> {
        match self {
            DocIter::Merged(made) => into.extend(made.docs.iter().copied().zip(made.times.iter().copied())),
            DocIter::Dense(times) => {
                let all = times.iter().enumerate().filter(|(_, times)| **times > 0);
                into.extend(all.map(|(doc, times)| (doc as u32, u32::from(*times))));
            }
            DocIter::Postings(list) => {
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
/// The number of different tags.
const TAGS: usize = 16;
