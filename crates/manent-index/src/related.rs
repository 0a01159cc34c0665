//! The turns that fit a question best when none holds all its words.
//!
//! Words count by their stems, and those that every sentence has do not count. A turn is taken together with those just
//! before it, the nearer the more, because a question and its answer seldom share their words; what the rest of the
//! session speaks of counts a little, and so does the day on which something was said, where a question names one.

use crate::corpus::ScoreScope;
use crate::damage::IndexResult;
use crate::dates::{self, Part};
use crate::dictionary::Entry;
use crate::query::Query;
use crate::score;
use crate::segment_view::{Filter, SegmentView};
use crate::top_k::{Scored, TopK};
use crate::words::{is_stop, stem, stem_prefix};

impl ScoreScope {
    fn neighbours(self) -> usize {
        if self == ScoreScope::Alone { 0 } else { NEIGHBOURS }
    }

    fn session(self) -> f32 {
        if self == ScoreScope::Alone { 0.0 } else { SESSION }
    }
}

/// The best turns, and the stems that were looked for.
pub(crate) fn related(
    views: &[SegmentView],
    query: &Query,
    filter: &Filter<'_>,
    rows: usize,
    scope: ScoreScope,
    mut best: TopK<'_>,
) -> IndexResult<(Vec<Scored>, Vec<String>)> {
    let words = query.words();
    let stems = stems_of(&words);
    let all: u64 = views.iter().map(SegmentView::turns).sum();
    let sought = stems.iter().map(|stem| Sought::new(views, stem, rows)).collect::<IndexResult<Vec<_>>>()?;
    let dates = Dates::all_of(views, &dates::parts(&words))?;
    for (number, view) in views.iter().enumerate() {
        let scores = scores_in(view, number, &sought, &dates, all, scope)?;
        let of_segment = filter.of_segment(view)?;
        let seconds = view.segment.seconds()?;
        for (doc, score) in (0..).zip(scores).filter(|(_, score)| *score > 0.0) {
            let second = seconds.of(doc);
            if best.could_take(score, second) && of_segment.takes(doc) {
                best.offer(Scored { score, second, segment: number as u32, doc });
            }
        }
    }
    Ok((best.into_kept(), stems))
}

/// What tells something, by its stem, each once. Where nothing does, everything.
fn stems_of(words: &[String]) -> Vec<String> {
    let telling: Vec<&String> = words.iter().filter(|word| !is_stop(word)).collect();
    let telling = if telling.is_empty() { words.iter().collect() } else { telling };
    let mut stems: Vec<String> = Vec::new();
    for word in telling {
        let stem = stem(word).into_owned();
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
}

/// A stem, looked up in every segment.
struct Sought {
    /// Where the lists of all words of this stem are, for each segment.
    entries: Vec<Vec<Entry>>,
    /// In how many turns any of them stands, about.
    count: u64,
    /// In which sessions.
    rows: Vec<bool>,
}

impl Sought {
    fn new(views: &[SegmentView], stem_sought: &str, rows: usize) -> IndexResult<Sought> {
        let mut sought =
            Sought { entries: Vec::with_capacity(views.len()), count: 0, rows: vec![false; rows] };
        for view in views {
            let mut found = Vec::new();
            view.segment.words().with_prefix(stem_prefix(stem_sought), |word, entry| {
                if std::str::from_utf8(word).is_ok_and(|word| stem(word) == stem_sought) {
                    found.push(entry);
                }
            })?;
            for entry in &found {
                sought.count += view.count_of(entry)?;
                sought.note_rows(view, entry)?;
            }
            sought.entries.push(found);
        }
        Ok(sought)
    }

    fn note_rows(&mut self, view: &SegmentView, entry: &Entry) -> IndexResult<()> {
        let mut list = view.segment.list(entry)?;
        for (run, row) in view.segment.runs().iter().zip(&view.rows) {
            let found = list.seek(run.first + run.echo)?;
            if let Some(slot) =
                row.filter(|_| found < run.end()).and_then(|row| self.rows.get_mut(row as usize))
            {
                *slot = true;
            }
        }
        Ok(())
    }
}

/// Parts of a date that a question names, and how many turns were said on a day that has all of them.
struct Dates {
    parts: Vec<Part>,
    turns: u64,
    /// How much it counts.
    factor: f32,
}

impl Dates {
    /// Each part on its own, and all of them together: who names a day wants that day, but may be wrong about it.
    fn all_of(views: &[SegmentView], parts: &[Part]) -> IndexResult<Vec<Dates>> {
        let single = parts.iter().map(|part| (vec![*part], DATE_PART));
        let whole = (parts.len() > 1).then(|| (parts.to_vec(), DATE_WHOLE));
        single.chain(whole).map(|(parts, factor)| Dates::new(views, parts, factor)).collect()
    }

    fn new(views: &[SegmentView], parts: Vec<Part>, factor: f32) -> IndexResult<Dates> {
        let mut dates = Dates { parts, turns: 0, factor };
        for view in views {
            let mut days = Days::default();
            let seconds = view.segment.seconds()?;
            let fits = |doc: &u32| !view.is_dead(*doc) && days.fit(&dates.parts, seconds.of(*doc));
            dates.turns += (0..view.segment.turns()).filter(fits).count() as u64;
        }
        Ok(dates)
    }
}

/// Turns of one day follow each other: whether it fits is worked out once.
#[derive(Default)]
struct Days {
    last: Option<(u32, bool)>,
}

impl Days {
    fn fit(&mut self, parts: &[Part], second: u32) -> bool {
        let day = second / DAY_SECONDS;
        match self.last {
            Some((last, fits)) if last == day => fits,
            _ => {
                let time = jiff::Timestamp::from_second(i64::from(second)).ok();
                let date = time.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).date());
                let fits = date.is_some_and(|date| parts.iter().all(|part| part.is_of(date)));
                self.last = Some((day, fits));
                fits
            }
        }
    }
}

/// The score of every turn of a segment.
fn scores_in(
    view: &SegmentView,
    number: usize,
    sought: &[Sought],
    dates: &[Dates],
    all: u64,
    scope: ScoreScope,
) -> IndexResult<Vec<f32>> {
    let turns = view.segment.turns() as usize;
    let mut scores = vec![0.0; turns];
    let lengths = lengths_with_neighbours(view, scope)?;
    let mut times = vec![0.0_f32; turns];
    for stem in sought {
        times.fill(0.0);
        for entry in &stem.entries[number] {
            let mut list = view.segment.list(entry)?;
            for block in 0..list.blocks() {
                list.unpack(block)?;
                let (docs, counts) = list.unpacked();
                for (doc, count) in docs.iter().zip(counts) {
                    if let Some(slot) = times.get_mut(*doc as usize) {
                        *slot += score::rounded(*count);
                    }
                }
            }
        }
        let weight = score::weight(stem.count.min(all), all);
        add_word(view, stem, &Counted { times: &times, lengths: &lengths }, weight, scope, &mut scores);
    }
    let seconds = view.segment.seconds()?;
    for date in dates {
        let weight = date.factor * score::weight(date.turns.min(all), all);
        let mut days = Days::default();
        for (doc, score) in (0..).zip(&mut scores) {
            if days.fit(&date.parts, seconds.of(doc)) {
                *score += weight * score::impact_of_length(1.0, lengths[doc as usize]);
            }
        }
    }
    Ok(scores)
}

/// Of every turn of a segment: how often it holds a word, and how long it is.
struct Counted<'a> {
    times: &'a [f32],
    lengths: &'a [f32],
}

/// Adds what a word brings to each turn.
fn add_word(
    view: &SegmentView,
    stem: &Sought,
    counted: &Counted<'_>,
    weight: f32,
    scope: ScoreScope,
    scores: &mut [f32],
) {
    for (run, row) in view.segment.runs().iter().zip(&view.rows) {
        let in_session = row.is_some_and(|row| stem.rows.get(row as usize).is_some_and(|is_in| *is_in));
        if !in_session {
            continue;
        }
        let (first, end) = (run.first as usize, run.end() as usize);
        for (doc, sum_of_all) in scores.iter_mut().enumerate().take(end).skip(first) {
            let near = &counted.times[doc.saturating_sub(scope.neighbours()).max(first)..=doc];
            let sum = near.iter().rev().zip(NEARNESS).fold(0.0, |sum, (times, near)| sum + times * near);
            *sum_of_all += weight * scope.session();
            if sum > 0.0 {
                *sum_of_all += weight * score::impact_of_length(sum, counted.lengths[doc]);
            }
        }
    }
}

/// How long each turn is, taken together with the one before it.
fn lengths_with_neighbours(view: &SegmentView, scope: ScoreScope) -> IndexResult<Vec<f32>> {
    let norms = view.segment.norms()?;
    let mut lengths = Vec::with_capacity(norms.len());
    for run in view.segment.runs() {
        let mut before = 0.0;
        for norm in &norms[run.first as usize..run.end() as usize] {
            let own = score::rounded(score::length_of(*norm));
            lengths.push(own + before / 2.0);
            before = if scope == ScoreScope::Alone { 0.0 } else { own };
        }
    }
    Ok(lengths)
}

/// How many turns before a turn are taken together with it.
pub(crate) const NEIGHBOURS: usize = 4;
/// How much a word counts in the turn itself, the one before it, and so on.
const NEARNESS: [f32; NEIGHBOURS + 1] = [1.0, 0.6, 0.36, 0.22, 0.13];
/// How much a word counts that is somewhere in the session.
const SESSION: f32 = 0.2;
/// How much a part of a date counts that a question names, compared with a word of the turn; and all parts together.
const DATE_PART: f32 = 0.5;
const DATE_WHOLE: f32 = 2.0;
const DAY_SECONDS: u32 = 24 * 60 * 60;
