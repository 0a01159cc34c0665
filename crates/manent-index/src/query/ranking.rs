//! Ranks records for a plain question, from the index alone.
//!
//! A record is good if it, or a record next to it, has the rare words of the question: a question and its answer seldom
//! share their words. What a word tells grows slowly with its evidence (a square root), so that a record with something
//! of every word is better than one with much of a single word. Long records lend and borrow less. The record
//! `docs/decisions/0058-plain-questions-are-ranked.md` has the formula and what each part of it is worth.
//!
//! Words are processed in the order of their weight. As soon as the others together cannot lift a record among the
//! best, they are only looked up in the sessions of the candidates.

use std::ops::Range;

use manent_store::threads::join;

use crate::corpus::ScoreScope;
use crate::english::{Frequency, forms_of, frequency, root, stem_prefix};
use crate::error::IndexResult;
use crate::query::dates::{DATE_FACTOR_MAX, DateFit};
use crate::query::matching::{DocIter, phrase};
use crate::query::question::{Question, Speaker, TermKind};
use crate::query::score::{self, Scored, TopK};
use crate::segment::dictionary::TermEntry;
use crate::segment::postings;
use crate::segment::view::{QueryFilter, SegmentView};

/// The best records for a question, and what is needed to look at them more closely.
pub(crate) struct Ranking {
    pub(crate) best: Vec<Scored>,
    /// The weight of each term of the question; 0 for one that is not searched, or that no record has.
    pub(crate) weights: Vec<f32>,
    /// For each of the best, the factor of its date and its role, which is in its score.
    pub(crate) factors: Vec<f32>,
    /// The question has a term that no record has.
    pub(crate) lacks_term: bool,
}

/// Ranks the records of all segments for a question.
pub(crate) fn rank(
    views: &[SegmentView],
    question: &Question,
    filter: &QueryFilter<'_>,
    rows: usize,
    scope: ScoreScope,
    mut best: TopK<'_>,
) -> IndexResult<Ranking> {
    let by_date = names_a_time(views, question)?;
    let mut ranker = Ranker {
        views,
        filter,
        // Records that stand alone have no roles to prefer.
        speaker: if scope == ScoreScope::Alone { Speaker::Anybody } else { question.speaker },
        scope,
        dates: if by_date { question } else { &Question::default() },
        scores: views.iter().map(|view| vec![0.0; view.segment.turns as usize]).collect(),
        base: vec![0.0; rows],
    };
    let all: u64 = views.iter().map(SegmentView::turns).sum();
    let mut lacks_term = false;
    let mut terms = Vec::with_capacity(question.terms.len());
    for (number, term) in question.terms.iter().enumerate() {
        if by_date && term.of_date {
            continue;
        }
        let resolved = ResolvedTerm::new(views, number, &term.kind)?;
        if resolved.count > 0 {
            terms.push(resolved);
        } else {
            lacks_term = true;
        }
    }
    let mut weights = vec![0.0; question.terms.len()];
    for term in &terms {
        weights[term.number] = weight(term, question, all);
    }
    terms.sort_by(|a, b| weights[b.number].total_cmp(&weights[a.number]));
    let mut left: f32 = terms.iter().map(|term| weights[term.number]).sum();
    let mut postings_left: u64 = terms.iter().map(|term| term.count).sum();
    // Marks by row the sessions that are still looked at; `None` for all.
    let mut chosen: Option<Vec<bool>> = None;
    for (at, term) in terms.iter().enumerate() {
        if at > 0 && postings_left > WORTH_PRUNING {
            let floor = ranker.worst_of_best(&best)?;
            // Sums of rounded numbers may differ in the last digits.
            if floor > left * ranker.factor_max() * 1.001 {
                chosen = Some(ranker.rows_in_reach(floor, left)?);
            }
        }
        ranker.add(term, weights[term.number], chosen.as_deref())?;
        left -= weights[term.number];
        postings_left -= term.count;
    }
    ranker.offer_to(&mut best, chosen.as_deref())?;
    let best = best.into_best();
    let factors = best.iter().map(|scored| ranker.factor(scored)).collect::<IndexResult<_>>()?;
    Ok(Ranking { best, weights, factors, lacks_term })
}

/// Returns whether any turn was written near the dates of a question. Where none was, they are words of the text.
fn names_a_time(views: &[SegmentView], question: &Question) -> IndexResult<bool> {
    if question.dates.is_empty() {
        return Ok(false);
    }
    let mut fit = DateFit::new(&question.dates);
    for view in views {
        let seconds = view.segment.seconds()?;
        if (0..view.segment.turns).any(|doc| fit.factor(seconds.of(doc)) > NEAR_DATE && !view.is_dead(doc)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the weight of a term: half of it by how rare it is among the records, half by how rare it is in English. A
/// small store cannot tell from its own records which words are rare.
fn weight(term: &ResolvedTerm, question: &Question, all: u64) -> f32 {
    let in_store = score::weight(term.count.min(all), all);
    if !question.is_english {
        return in_store;
    }
    let common = match &question.terms[term.number].kind {
        TermKind::Root(root) => frequency(root),
        TermKind::Sequence(_) => None,
    };
    let in_english = match common {
        Some(Frequency::Top100) => 1.44,
        Some(Frequency::Top280) => 2.01,
        Some(Frequency::Top1000) => 2.59,
        Some(Frequency::Top3000) => 3.16,
        // A store of so many records cannot show that a word is rarer.
        None => in_units(all).ln().min(RAREST_IN_ENGLISH),
    };
    f32::midpoint(in_store, in_english)
}

/// A number of records as weights are reckoned with.
#[expect(clippy::cast_precision_loss, reason = "nobody has so many records that it mattered")]
fn in_units(records: u64) -> f32 {
    records.max(1) as f32
}

/// A term, looked up in every segment.
struct ResolvedTerm {
    /// The index of the term in the question.
    number: usize,
    /// For each segment, the lists of all words of the term.
    lists: Vec<TermLists>,
    /// The number of records with the term, approximately.
    count: u64,
}

enum TermLists {
    /// Words that count as one.
    Any(Vec<TermEntry>),
    /// The records that have words in a row, as far as the index knows, and how often.
    Sequence(Vec<(u32, u32)>),
}

impl ResolvedTerm {
    fn new(views: &[SegmentView], number: usize, kind: &TermKind) -> IndexResult<ResolvedTerm> {
        let mut term = ResolvedTerm { number, lists: Vec::with_capacity(views.len()), count: 0 };
        for view in views {
            let lists = match kind {
                TermKind::Root(sought) => {
                    let entries = entries_of(view, sought)?;
                    for entry in &entries {
                        term.count += view.count_of(entry)?;
                    }
                    TermLists::Any(entries)
                }
                TermKind::Sequence(words) => {
                    let found = rows_of(view, words)?;
                    term.count += found.iter().filter(|(doc, _)| !view.is_dead(*doc)).count() as u64;
                    TermLists::Sequence(found)
                }
            };
            term.lists.push(lists);
        }
        Ok(term)
    }
}

/// Returns the lists of all words with a root.
fn entries_of(view: &SegmentView, sought: &str) -> IndexResult<Vec<TermEntry>> {
    let mut entries = Vec::new();
    view.segment.words.with_prefix(stem_prefix(sought), |word, entry| {
        if std::str::from_utf8(word).is_ok_and(|word| root(word) == sought) {
            entries.push(entry);
        }
    })?;
    for form in forms_of(sought) {
        entries.extend(view.segment.words.find(form)?);
    }
    Ok(entries)
}

/// Returns the records in which words seem to stand in a row, and how often.
fn rows_of(view: &SegmentView, words: &[String]) -> IndexResult<Vec<(u32, u32)>> {
    let mut entries = Vec::with_capacity(words.len());
    for word in words {
        match view.segment.words.find(word)? {
            Some(entry) => entries.push(vec![entry]),
            None => return Ok(Vec::new()),
        }
    }
    let tags: Vec<u8> = words.iter().map(|word| postings::tag(word)).collect();
    let mut found = Vec::new();
    DocIter::Merged(phrase(view, &entries, &tags, false)?).drain(&mut found)?;
    Ok(found)
}

/// The evidence of a term in a segment: records, in order, and how much each speaks for the term, from 0 to 1.
type Evidence = Vec<(u32, f32)>;

/// Adds up the scores of all records, term by term.
struct Ranker<'a> {
    views: &'a [SegmentView],
    filter: &'a QueryFilter<'a>,
    speaker: Speaker,
    scope: ScoreScope,
    /// The question whose dates count; an empty one if there are none.
    dates: &'a Question,
    /// For each segment and record: what the terms near it add to what they add to its whole session.
    scores: Vec<Vec<f32>>,
    /// For each row of the catalogue: what the terms anywhere in the session add to each of its records.
    base: Vec<f32>,
}

impl Ranker<'_> {
    /// Adds a term, in all sessions or only in the chosen ones.
    fn add(&mut self, term: &ResolvedTerm, weight: f32, chosen: Option<&[bool]>) -> IndexResult<()> {
        let views = self.views;
        let half = views.len() / 2;
        let gather = |numbers: Range<usize>| -> IndexResult<Vec<Evidence>> {
            numbers.map(|number| evidence(&views[number], &term.lists[number], chosen)).collect()
        };
        let found = if term.count < ALONE_POSTINGS || half == 0 {
            gather(0..views.len())?
        } else {
            let (first, second) = join(|| gather(0..half), || gather(half..views.len()));
            let mut found = first?;
            found.extend(second?);
            found
        };
        let mut most = vec![0.0_f32; self.base.len()];
        if self.scope == ScoreScope::Conversation {
            for (view, evidence) in views.iter().zip(&found) {
                note_most(view, evidence, &mut most);
            }
            for (base, most) in self.base.iter_mut().zip(&most) {
                *base += weight * (SESSION * most).sqrt();
            }
        }
        let term_count = term.count;
        let term = TermEvidence { views, found: &found, most: &most, weight, scope: self.scope };
        let (first, second) = self.scores.split_at_mut(half);
        let add = |scores: &mut [Vec<f32>], begin: usize| -> IndexResult<()> {
            scores.iter_mut().enumerate().try_for_each(|(at, scores)| term.add_to(begin + at, scores))
        };
        if term_count < ALONE_POSTINGS || half == 0 {
            add(first, 0)?;
            add(second, half)
        } else {
            let (one, other) = join(|| add(first, 0), || add(second, half));
            one.and(other)
        }
    }

    /// The most that a score is multiplied by.
    fn factor_max(&self) -> f32 {
        if self.dates.dates.is_empty() { 1.0 } else { DATE_FACTOR_MAX }
    }

    /// Calls `each` with every record that has a score and is selected by the filter.
    fn for_each(
        &self,
        chosen: Option<&[bool]>,
        mut each: impl FnMut(&SegmentView, u32, Scored),
        mut could: impl FnMut(f32) -> bool,
    ) -> IndexResult<()> {
        let factor_max = self.factor_max();
        for (number, (view, scores)) in self.views.iter().zip(&self.scores).enumerate() {
            let filtered = self.filter.of_segment(view)?;
            let seconds = view.segment.seconds()?;
            let roles = view.segment.role_of()?;
            let is_user: Vec<bool> = view.segment.roles.iter().map(|role| is_user(role)).collect();
            let mut fit = DateFit::new(&self.dates.dates);
            for (run, row) in view.segment.runs.iter().zip(&view.rows) {
                let Some(row) = row.filter(|row| chosen.is_none_or(|chosen| chosen[*row as usize])) else {
                    continue;
                };
                let base = self.base.get(row as usize).copied().unwrap_or_default();
                for doc in run.first + run.echo..run.end() {
                    let near = scores[doc as usize];
                    if near <= 0.0 || !could((near + base) * factor_max) {
                        continue;
                    }
                    let by_user = is_user.get(usize::from(roles[doc as usize])).copied().unwrap_or(true);
                    let second = seconds.of(doc);
                    let factor = fit.factor(second) * self.speaker.factor(by_user);
                    let score = (near + base) * factor;
                    if could(score) && filtered.takes(doc) {
                        each(view, row, Scored { score, second, segment: number as u32, doc });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the score that a record must have to be among the best, or 0 if there are not so many yet.
    fn worst_of_best(&self, best: &TopK<'_>) -> IndexResult<f32> {
        let limit = best.limit();
        let mut scores: Vec<f32> = Vec::new();
        self.for_each(None, |_, _, scored| scores.push(scored.score), |_| true)?;
        if limit == 0 || scores.len() < limit {
            return Ok(0.0);
        }
        let (_, worst, _) = scores.select_nth_unstable_by(limit - 1, |a, b| b.total_cmp(a));
        Ok(*worst)
    }

    /// Returns for each row whether any of its records could still be among the best.
    fn rows_in_reach(&self, floor: f32, left: f32) -> IndexResult<Vec<bool>> {
        let mut rows = vec![false; self.base.len()];
        let reach = left * self.factor_max();
        let mark = |_: &SegmentView, row: u32, _: Scored| rows[row as usize] = true;
        self.for_each(None, mark, |score| (score + reach) * 1.001 >= floor)?;
        Ok(rows)
    }

    /// Returns the factor of a record's date and its role.
    fn factor(&self, scored: &Scored) -> IndexResult<f32> {
        let segment = &self.views[scored.segment as usize].segment;
        let role = segment
            .role_of()?
            .get(scored.doc as usize)
            .and_then(|role| segment.roles.get(usize::from(*role)));
        let by_user = role.is_none_or(|role| is_user(role));
        Ok(DateFit::new(&self.dates.dates).factor(scored.second) * self.speaker.factor(by_user))
    }

    fn offer_to(&self, best: &mut TopK<'_>, chosen: Option<&[bool]>) -> IndexResult<()> {
        let best = std::cell::RefCell::new(best);
        self.for_each(
            chosen,
            |_, _, scored| best.borrow_mut().offer(scored),
            |score| best.borrow().could_take(score, u32::MAX),
        )
    }
}

impl Speaker {
    /// Returns the factor for the score of a turn, by whether the user wrote it.
    fn factor(self, by_user: bool) -> f32 {
        match self {
            Speaker::Asker if !by_user => NOT_THE_ASKER,
            Speaker::Asker | Speaker::Anybody | Speaker::Assistant => 1.0,
        }
    }
}

fn is_user(role: &str) -> bool {
    ["user", "human"].iter().any(|name| role.eq_ignore_ascii_case(name))
}

/// Returns how much each record of a segment speaks for a term.
fn evidence(view: &SegmentView, lists: &TermLists, chosen: Option<&[bool]>) -> IndexResult<Evidence> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    match lists {
        TermLists::Sequence(all) => found.clone_from(all),
        TermLists::Any(entries) => {
            for entry in entries {
                let mut list = view.segment.list(entry)?;
                match chosen {
                    None => DocIter::Postings(Box::new(list)).drain(&mut found)?,
                    Some(chosen) => {
                        for (run, row) in view.segment.runs.iter().zip(&view.rows) {
                            if !row.is_some_and(|row| chosen[row as usize]) {
                                continue;
                            }
                            let mut doc = list.seek(run.first)?;
                            while doc < run.end() {
                                found.push((doc, list.times()));
                                doc = list.next()?;
                            }
                        }
                    }
                }
            }
            if entries.len() > 1 {
                found.sort_unstable();
            }
        }
    }
    let norms = view.segment.norms()?;
    let mut evidence: Evidence = Vec::with_capacity(found.len());
    let mut at = 0;
    while let Some(&(doc, mut times)) = found.get(at) {
        at += 1;
        while let Some((_, more)) = found.get(at).filter(|(next, _)| *next == doc) {
            times = times.saturating_add(*more);
            at += 1;
        }
        // A damaged list leads anywhere.
        if let Some(norm) = norms.get(doc as usize) {
            evidence.push((doc, score::saturation(times, *norm)));
        }
    }
    Ok(evidence)
}

/// Raises for each row the largest evidence of a record of its session.
fn note_most(view: &SegmentView, evidence: &Evidence, most: &mut [f32]) {
    let mut rest = evidence.as_slice();
    for (run, row) in view.segment.runs.iter().zip(&view.rows) {
        if rest.is_empty() {
            break;
        }
        let (of_run, behind) = rest.split_at(rest.partition_point(|(doc, _)| *doc < run.end()));
        rest = behind;
        if let Some(slot) = row.and_then(|row| most.get_mut(row as usize)) {
            *slot = of_run.iter().fold(*slot, |most, (_, evidence)| most.max(*evidence));
        }
    }
}

/// One term, in all segments.
struct TermEvidence<'a> {
    views: &'a [SegmentView],
    found: &'a [Evidence],
    /// For each row, the largest evidence of its session.
    most: &'a [f32],
    weight: f32,
    scope: ScoreScope,
}

impl TermEvidence<'_> {
    /// Adds the term to the scores of one segment.
    fn add_to(&self, number: usize, scores: &mut [f32]) -> IndexResult<()> {
        let view = &self.views[number];
        let (norms, roles) = (view.segment.norms()?, view.segment.role_of()?);
        let questions = view.segment.questions()?;
        let neighbours = self.scope == ScoreScope::Conversation;
        let mut rest = self.found[number].as_slice();
        let mut near = vec![0.0_f32; if rest.is_empty() { 0 } else { norms.len() }];
        for (run_number, (run, row)) in view.segment.runs.iter().zip(&view.rows).enumerate() {
            let (of_run, others) = rest.split_at(run_split(rest, run.end()));
            rest = others;
            let Some(row) = *row else { continue };
            let next = view.next_of(run_number).filter(|_| neighbours);
            let behind = next.map_or(0.0, |(view, doc)| self.of(view as usize, doc));
            if of_run.is_empty() && behind == 0.0 {
                continue;
            }
            if near.is_empty() {
                near.resize(norms.len(), 0.0);
            }
            for (doc, evidence) in of_run {
                near[*doc as usize] = *evidence;
            }
            let in_session = if neighbours {
                SESSION * self.most.get(row as usize).copied().unwrap_or_default()
            } else {
                0.0
            };
            let base = in_session.sqrt();
            let mut add = |doc: u32| {
                let at = doc as usize;
                let mut nearby = Nearby { own: near[at], session: in_session, ..Nearby::default() };
                if neighbours {
                    let reach = (doc - run.first).min(NEIGHBOURS as u32) as usize;
                    for (back, before) in nearby.before.iter_mut().take(reach).enumerate() {
                        *before = near[at - back - 1];
                    }
                    nearby.before_asks = reach > 0 && questions[at - 1] != 0;
                    (nearby.after, nearby.after_replies) = if doc + 1 < run.end() {
                        (near[at + 1], roles[at + 1] != roles[at])
                    } else {
                        let replies =
                            |(view, other)| self.role(view as usize, other) != self.role(number, doc);
                        (behind, next.is_some_and(replies))
                    };
                }
                let own = nearby.together(norms[at]);
                scores[at] += self.weight * (own.sqrt() - base);
            };
            let first = run.first + run.echo;
            let mut done = first;
            for (doc, _) in of_run {
                let (from, end) = if neighbours {
                    (doc.saturating_sub(1), doc + 1 + NEIGHBOURS as u32)
                } else {
                    (*doc, doc + 1)
                };
                let (from, end) = (from.max(done), end.min(run.end()));
                (from..end).for_each(&mut add);
                done = done.max(end);
            }
            if behind > 0.0 && done < run.end() {
                add(run.end() - 1);
            }
            for (doc, _) in of_run {
                near[*doc as usize] = 0.0;
            }
        }
        Ok(())
    }

    /// Returns the evidence of one record.
    fn of(&self, number: usize, doc: u32) -> f32 {
        let found = &self.found[number];
        found.binary_search_by_key(&doc, |(doc, _)| *doc).map_or(0.0, |at| found[at].1)
    }

    /// Returns the role of a record, or `None` if the segment has no name for it.
    fn role(&self, number: usize, doc: u32) -> Option<&str> {
        let segment = &self.views.get(number)?.segment;
        let role = segment.role_of().ok()?.get(doc as usize)?;
        segment.roles.get(usize::from(*role)).map(String::as_str)
    }
}

/// The evidence of a term in a record and around it, each from 0 to 1.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Nearby {
    pub(crate) own: f32,
    /// The records before it, the nearest first.
    pub(crate) before: [f32; NEIGHBOURS],
    /// The nearest of them ends in a question, which this one may answer.
    pub(crate) before_asks: bool,
    pub(crate) after: f32,
    /// The record after has another role, and so may reply to this one.
    pub(crate) after_replies: bool,
    /// The share of the best record of the session.
    pub(crate) session: f32,
}

impl Nearby {
    /// Returns the evidence of all of them together, for a record of this length.
    pub(crate) fn together(self, norm: u8) -> f32 {
        let gate = GATES[usize::from(norm)];
        let mut shares = BEFORE;
        if self.before_asks {
            shares[0] = ANSWER;
        }
        let shares = self.before.iter().zip(shares);
        let before = shares.fold(1.0, |lacking, (evidence, share)| lacking * (1.0 - evidence * gate * share));
        let after = 1.0 - self.after * gate * if self.after_replies { REPLY } else { AFTER };
        1.0 - (1.0 - self.own) * (1.0 - self.session) * before * after
    }
}

/// Returns where the evidence of a run ends.
fn run_split(evidence: &[(u32, f32)], end: u32) -> usize {
    // Most runs have little of it.
    let near = evidence.iter().take(8).position(|(doc, _)| *doc >= end);
    near.unwrap_or_else(|| evidence.partition_point(|(doc, _)| *doc < end))
}

/// The share of its neighbours' evidence that a record borrows, by its encoded length.
static GATES: [f32; 256] = {
    let mut gates = [0.0; 256];
    let mut norm = 0;
    while norm < gates.len() {
        gates[norm] = GATE_WORDS / (GATE_WORDS + score::rounded(score::length_of(norm as u8)));
        norm += 1;
    }
    gates
};

/// The number of preceding records that count towards the score of a record.
pub(crate) const NEIGHBOURS: usize = 4;
/// The shares of the evidence of the preceding records that count, the nearest first.
const BEFORE: [f32; NEIGHBOURS] = [0.6, 0.36, 0.22, 0.13];
/// The share of the record before, if it ends in a question that this one may answer.
const ANSWER: f32 = 0.8;
/// The shares of the record after: of a reply to this one, and of any other.
const REPLY: f32 = 0.6;
const AFTER: f32 = 0.15;
/// A record of so many words borrows half as much from its neighbours as an empty one.
const GATE_WORDS: f32 = 80.0;
/// The share of the evidence of the best record of a session, for every other record of it.
const SESSION: f32 = 0.05;
/// Who asks for what they said themselves means their own words: the factor for all others.
const NOT_THE_ASKER: f32 = 0.7;
/// No word is rarer in English than this.
const RAREST_IN_ENGLISH: f32 = 8.6;
/// A turn with a larger factor was written near a date.
const NEAR_DATE: f32 = 1.05;
/// So few are looked at sooner than a thread is begun.
const ALONE_POSTINGS: u64 = 50_000;
/// With so many records still to be looked at, it pays to find out which of them can be among the best.
const WORTH_PRUNING: u64 = 20_000;
