//! Answers queries: finds records by the index, and reads each hit from its stream.
//!
//! A hit whose line is not what was indexed marks its stream as stale, and the query is repeated after a refresh.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use manent_log::LogItem;
use manent_store::{Place, Position, ProgressFn, Seek, SessionKey, StreamId};

use crate::catalogue::listing::unread;
use crate::catalogue::{Row, RowRef};
use crate::corpus::{Corpus, Document};
use crate::error::{IndexDamage, IndexResult, Result};
use crate::query::hit_order::{HitOrder, join_passages, number_passages};
use crate::query::matching::{is_exact, matching};
use crate::query::question::Question;
use crate::query::ranking::rank;
use crate::query::score::{Scored, TopK};
use crate::query::second_look::{LookedAt, SECOND_LOOK, Sketch, TextFit, rescored};
use crate::query::snippet::{Matcher, SNIPPET_CHARS, Snippet, snippet};
use crate::query::{Query, SessionMatch, score};
use crate::refresh::ingest::seconds;
use crate::refresh::loaded::Snapshot;
use crate::refresh::{Index, IndexProgress, RefreshError, RefreshResult, Save, if_usable};
use crate::segment::RecordRef;
use crate::segment::view::{ALL, NONE, OffsetFilter, QueryFilter};

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchResults {
    /// The best hits, best first.
    pub hits: Vec<Hit>,
    /// The number of all records that match, where that was counted.
    pub total: Option<u64>,
    /// The turns that fit a plain question best, of which none holds all of its words.
    pub related: bool,
    /// Sessions that could not be searched, and why.
    pub unread: Vec<(StreamId, String)>,
    /// The progress of the index, if the answer does not cover everything; see [`Index::search_partial`].
    pub partial: Option<IndexProgress>,
}

/// A turn that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session.
    pub id: StreamId,
    /// The title of the session.
    pub title: String,
    /// The turn's number.
    pub seq: u64,
    /// The position of the record in the stream.
    pub position: Position,
    /// The role of the speaker.
    pub role: String,
    /// The time as the record gives it; empty if it gives none.
    pub ts: String,
    /// The text around the words that were searched.
    pub snippet: Snippet,
    /// The score. Higher is better; scores are comparable within one answer only.
    pub score: f32,
    /// The passage that the turn belongs to: the place of the passage in the answer, from 1. Neighbours in a session
    /// and turns that say the same share one.
    pub passage: usize,
    /// The better hit that says nearly the same, if there is one. Only of plain questions.
    pub repeats: Option<(StreamId, u64)>,
}

impl Index {
    /// Finds records, the best first, among those that `alive` takes.
    ///
    /// The answer is that of the streams at this moment, other programs' included: the index catches up first, and
    /// every hit was read from its stream. `progress` tells how far catching up is.
    pub fn search(
        &self,
        query: &Query,
        limit: usize,
        progress: ProgressFn<'_>,
        alive: Option<OffsetFilter<'_>>,
    ) -> Result<SearchResults> {
        let mut found = SearchResults::default();
        for left in (0..TRIES).rev() {
            // Streams that are moved all the time are kept where they are for once, if a program of ours moves them.
            let _still = if left == 0 { self.corpus.lock_moves() } else { None };
            let snapshot = self.refresh(Save::Sometimes, &mut *progress)?;
            let execution = QueryExecution { corpus: &*self.corpus, snapshot: &snapshot, query, alive };
            match execution.ask(limit) {
                Ok((answer, stale)) if stale.is_empty() => return Ok(answer),
                Ok((answer, stale)) => {
                    self.mark_stale(&stale);
                    found = answer;
                }
                Err(RefreshError::Failed(e)) => return Err(e),
                Err(_) => self.start_anew(),
            }
        }
        // Streams that change while they are searched: the hits that could be read of them.
        Ok(found)
    }

    /// Finds records as [`Index::search`] does, in the part of the streams that is known at once. Where much is still
    /// to be read, a thread reads it, and [`SearchResults::partial`] says how far that thread is.
    pub fn search_partial(self: &Arc<Self>, query: &Query, limit: usize) -> Result<SearchResults> {
        let Some((snapshot, reading)) = self.known_so_far() else {
            return self.search(query, limit, &mut |_, _| {}, None);
        };
        // Hits that are not where they were are left out: whoever reads the streams now finds them again.
        let execution = QueryExecution { corpus: &*self.corpus, snapshot: &snapshot, query, alive: None };
        let (found, _) = if_usable(execution.ask(limit))?.unwrap_or_default();
        Ok(SearchResults { total: None, partial: Some(reading), ..found })
    }
}

/// The best turns of a question, read.
#[derive(Default)]
struct Matched {
    hits: Vec<Hit>,
    /// The numbers of sessions that are not what was indexed.
    stale: Vec<u64>,
    total: Option<u64>,
}

struct QueryExecution<'a> {
    corpus: &'a dyn Corpus,
    snapshot: &'a Snapshot,
    query: &'a Query,
    alive: Option<OffsetFilter<'a>>,
}

impl QueryExecution<'_> {
    fn ask(&self, limit: usize) -> RefreshResult<(SearchResults, Vec<u64>)> {
        let wanted = self.wanted_sessions()?;
        let Query { roles, not_roles, .. } = self.query;
        let wants_role = |role: &str| {
            // As questions have them: another program may write `User`.
            let role = role.to_lowercase();
            (roles.is_empty() || roles.contains(&role)) && !not_roles.contains(&role)
        };
        let asks_for_role = !roles.is_empty() || !not_roles.is_empty();
        let filter = QueryFilter {
            sessions: wanted.as_deref(),
            role: asks_for_role.then_some(&wants_role as &(dyn Fn(&str) -> bool + Sync)),
            since: self.query.since_ms.map(seconds),
            until: self.query.until_ms.map(seconds),
            alive: self.alive,
        };
        let mut found = SearchResults { unread: unread(self.snapshot)?, ..SearchResults::default() };
        let is_question = self.query.is_question();
        let mut matched = if is_question { Matched::default() } else { self.matched(&filter, limit)? };
        let found_none = matched.hits.is_empty() && matched.stale.is_empty();
        if self.query.plain && found_none && limit > 0 {
            (matched, found.related) = self.ranked(&filter, limit)?;
        }
        found.total = matched.total;
        found.hits = matched.hits;
        found.hits.retain(|hit| filter.role.is_none_or(|wants| wants(&hit.role)));
        found.related &= !found.hits.is_empty();
        Ok((found, matched.stale))
    }

    /// Finds the records that fit a plain question best. Also returns whether none of them holds all of its words.
    fn ranked(&self, filter: &QueryFilter<'_>, limit: usize) -> RefreshResult<(Matched, bool)> {
        let question = Question::new(self.query);
        let tie = |a: &Scored, b: &Scored| self.tie(a, b);
        let (views, scope) = (&self.snapshot.views, self.corpus.score_scope());
        let top = TopK::new(limit.max(SECOND_LOOK), &tie);
        let ranking = rank(views, &question, filter, self.snapshot.rows.len(), scope, top)?;
        let patterns = Matcher::of_question(&question, &ranking.weights);
        let (near, rest) = ranking.best.split_at(ranking.best.len().min(SECOND_LOOK));
        let (mut matched, mut lines) = (Matched::default(), Lines::default());
        let mut looked_at = Vec::with_capacity(near.len());
        for (scored, factor) in near.iter().zip(&ranking.factors) {
            let (row, record) = self.place_of(scored)?;
            let line = self.line(&row, record)?;
            let document = line.as_ref().and_then(|line| self.document_in(line, record));
            let Some((role, text)) = document.and_then(Document::searched) else {
                matched.stale.push(row.number);
                continue;
            };
            let view = &views[scored.segment as usize];
            let run = view.segment.run_of(scored.doc).map(|run| &view.segment.runs[run]);
            looked_at.push(LookedAt {
                scored: *scored,
                factor: *factor,
                norm: view.segment.norm(scored.doc)?,
                stream: row.number,
                ordinal: run.map_or(0, |run| run.ordinal(scored.doc)),
                role: role.into_owned(),
                fit: TextFit::of(&text, &question, &ranking.weights, &patterns),
            });
            drop(text);
            lines.keep(scored, line.unwrap_or_default());
        }
        let has_all = !ranking.lacks_term && looked_at.iter().any(|looked_at| looked_at.fit.has_all);
        let mut scores = rescored(&looked_at, &question, &ranking.weights, scope);
        scores.sort_by(|a, b| TopK::compare(a, b, &tie));
        let mut order = HitOrder::default();
        for scored in &scores {
            if order.len() >= limit {
                break;
            }
            let (row, record) = self.place_of(scored)?;
            let line = match lines.take(scored) {
                Some(line) => Some(line),
                None => self.line(&row, record)?,
            };
            let hit = line.as_ref().and_then(|line| {
                let (_, text) = self.document_in(line, record)?.searched()?;
                Some((self.hit(&row, record, scored.score, line, &patterns)?, Sketch::of(&text)))
            });
            match hit {
                Some((hit, sketch)) => order.push(hit, sketch),
                None => matched.stale.push(row.number),
            }
        }
        matched.hits = order.into_hits(limit);
        let left = (limit - matched.hits.len()).min(rest.len());
        let (hits, stale) = self.read(&rest[..left], &patterns, Lines::default())?;
        matched.hits.extend(hits);
        matched.stale.extend(stale);
        join_passages(&mut matched.hits);
        Ok((matched, !has_all))
    }

    /// Finds the best records that hold all of the query.
    ///
    /// Where the index knows only nearly whether they do, more of them are read until those that are left out cannot be
    /// better: none scores higher than the index said.
    fn matched(&self, filter: &QueryFilter<'_>, limit: usize) -> RefreshResult<Matched> {
        let tie = |a: &Scored, b: &Scored| self.tie(a, b);
        let views = &self.snapshot.views;
        let matcher = Matcher::of_query(self.query);
        let exact = self.query.must.iter().chain(&self.query.not).all(is_exact);
        if exact && self.knows_roles(filter)? {
            let found = matching(views, self.query, filter, TopK::new(limit, &tie))?;
            let (hits, stale) = self.read(&found.best, &matcher, Lines::default())?;
            return Ok(Matched { hits, stale, total: found.total });
        }
        let mut read: HashMap<(u32, u32), Option<Scored>> = HashMap::new();
        let (mut lines, mut stale) = (Lines::default(), Vec::new());
        let mut wanted = limit.saturating_add(limit / 4 + 4);
        loop {
            let found = matching(views, self.query, filter, TopK::new(wanted, &tie))?;
            let mut best = TopK::new(limit, &tie);
            for scored in &found.best {
                let counted = match read.entry((scored.segment, scored.doc)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(slot) => {
                        let (row, at) = self.place_of(scored)?;
                        let line = self.line(&row, at)?;
                        let document = line.as_ref().and_then(|line| self.document_in(line, at));
                        if document.is_none() {
                            stale.push(row.number);
                        }
                        let times = document.and_then(Document::searched).and_then(|(role, text)| {
                            let is_wanted = filter.role.is_none_or(|wants| wants(&role));
                            if is_wanted { matcher.times(&text) } else { None }
                        });
                        let score =
                            times.map(|times| self.score(scored, &found.weights, &times)).transpose()?;
                        if let (Some(line), Some(_)) = (line, score) {
                            lines.keep(scored, line);
                        }
                        *slot.insert(score.map(|score| Scored { score, ..*scored }))
                    }
                };
                if let Some(scored) = counted {
                    best.offer(scored);
                }
            }
            let most = found.best.last().map_or(0.0, |last| last.score);
            let shown = best.into_best();
            let enough = shown.len() >= limit && shown.last().is_none_or(|last| last.score > most);
            if enough || found.best.len() < wanted {
                let (hits, more_stale) = self.read(&shown, &matcher, lines)?;
                stale.extend(more_stale);
                let total = (found.best.len() < wanted && stale.is_empty())
                    .then(|| read.values().flatten().count() as u64);
                return Ok(Matched { hits, stale, total });
            }
            wanted = wanted.saturating_mul(4);
        }
    }

    /// Returns true if the index alone tells the roles of all records, as far as a role is asked for.
    fn knows_roles(&self, filter: &QueryFilter<'_>) -> IndexResult<bool> {
        for view in self.snapshot.views.iter().filter(|_| filter.role.is_some()) {
            if !view.knows_roles()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn score(&self, scored: &Scored, weights: &[f32], times: &[u32]) -> IndexResult<f32> {
        let norm = self.snapshot.views[scored.segment as usize].segment.norm(scored.doc)?;
        let impacts = times.iter().map(|times| score::impact(*times, norm));
        Ok(weights.iter().zip(impacts).fold(0.0, |all, (weight, impact)| all + weight * impact))
    }

    /// Reads hits where they lie, but for those that were just read; and the numbers of the sessions that are not what
    /// was indexed.
    fn read(
        &self,
        best: &[Scored],
        matcher: &Matcher,
        mut lines: Lines,
    ) -> RefreshResult<(Vec<Hit>, Vec<u64>)> {
        let (mut hits, mut stale) = (Vec::with_capacity(best.len()), Vec::new());
        for scored in best {
            let (row, record) = self.place_of(scored)?;
            let line = match lines.take(scored) {
                Some(line) => Some(line),
                None => self.line(&row, record)?,
            };
            match line.and_then(|line| self.hit(&row, record, scored.score, &line, matcher)) {
                Some(hit) => hits.push(hit),
                None => stale.push(row.number),
            }
        }
        number_passages(&mut hits);
        Ok((hits, stale))
    }

    fn place_of(&self, scored: &Scored) -> IndexResult<(Arc<Row>, RecordRef)> {
        let view = &self.snapshot.views[scored.segment as usize];
        let row = view.row_of(scored.doc).and_then(|row| self.snapshot.rows.get(row as usize));
        let row = row.ok_or(IndexDamage::Wrong("a hit belongs to no session"))?;
        Ok((row.row()?, view.segment.record_ref(scored.doc)?))
    }

    /// The order of hits that are equally good and equally old: the session that began later, then the later turn.
    fn tie(&self, a: &Scored, b: &Scored) -> Ordering {
        let views = &self.snapshot.views;
        let row_of = |scored: &Scored| views[scored.segment as usize].row_of(scored.doc);
        let seq_of =
            |scored: &Scored| views[scored.segment as usize].segment.record_ref(scored.doc).map(|s| s.seq);
        if let (Some(row_a), Some(row_b)) = (row_of(a), row_of(b))
            && row_a == row_b
            && let (Ok(seq_a), Ok(seq_b)) = (seq_of(a), seq_of(b))
        {
            return seq_b.cmp(&seq_a);
        }
        match (self.place_of(a), self.place_of(b)) {
            (Ok((row_a, record_a)), Ok((row_b, record_b))) => {
                let name = |row: &Row| (row.id.clone(), row.key.clone(), row.place);
                name(&row_b).cmp(&name(&row_a)).then(record_b.seq.cmp(&record_a.seq))
            }
            _ => Ordering::Equal,
        }
    }

    /// Returns for each row up to which number its records are searched, or `None` if all are.
    ///
    /// What is in the trash is not found, but for what a session that is not in the trash was forked from, and shows.
    fn wanted_sessions(&self) -> IndexResult<Option<Vec<u64>>> {
        let rows = &self.snapshot.rows;
        let chosen = !self.query.sessions.is_empty() || !self.query.not_sessions.is_empty();
        if !chosen && !self.snapshot.has_trash {
            return Ok(None);
        }
        let is_meant = |row: &Row| {
            let any = |matches: &[SessionMatch]| matches.iter().any(|one| is(one, row));
            (self.query.sessions.is_empty() || any(&self.query.sessions)) && !any(&self.query.not_sessions)
        };
        let shown = shown_by_forks(rows)?;
        let wanted = |row: &RowRef| {
            let in_trash = row.place() == Place::Trash;
            if !chosen && (!in_trash || shown.is_empty()) {
                return Ok(if in_trash { NONE } else { ALL });
            }
            let row = row.row()?;
            let upto = if in_trash { shown.get(&row.id).copied().unwrap_or(NONE) } else { ALL };
            Ok(if !chosen || is_meant(&row) { upto } else { NONE })
        };
        rows.iter().map(wanted).collect::<IndexResult<_>>().map(Some)
    }

    /// Makes the hit of a record, or `None` if its line is not what was indexed.
    fn hit(&self, row: &Row, record: RecordRef, score: f32, line: &[u8], matcher: &Matcher) -> Option<Hit> {
        let (id, document) = (stream_of(row)?, self.document_in(line, record)?);
        let ts = document.ts.clone().unwrap_or_default().into_owned();
        let (role, text) = document.searched()?;
        Some(Hit {
            id,
            title: row.title().to_owned(),
            seq: record.seq,
            position: Position::new(record.offset),
            role: role.into_owned(),
            ts,
            snippet: snippet(&text, matcher, SNIPPET_CHARS, &|text| self.corpus.redactions(text)),
            score,
            passage: 0,
            repeats: None,
        })
    }

    /// Reads the line of a record, or returns `None` if it is not what was indexed.
    fn line(&self, row: &Row, record: RecordRef) -> Result<Option<Vec<u8>>> {
        let line = self.corpus.line_at(row.place(), &row.name, Position::new(record.offset))?;
        match line.filter(|line| crc32c::crc32c(line) == record.crc) {
            Some(line) => Ok(Some(line)),
            // Two records on one line, perhaps: a reader takes them apart.
            None => self.line_by_reading(row, record),
        }
    }

    /// Returns the document of the line that was read for a record.
    fn document_in<'l>(&self, line: &'l [u8], record: RecordRef) -> Option<Document<'l>> {
        let verified = manent_log::frame::verify(line).is_some();
        let entry = manent_log::Entry { seq: record.seq, offset: record.offset, bytes: line, verified };
        self.corpus.document(&entry)
    }

    fn line_by_reading(&self, row: &Row, record: RecordRef) -> Result<Option<Vec<u8>>> {
        let Some(id) = stream_of(row) else { return Ok(None) };
        let seek = Seek::Position { position: Position::new(record.offset), seq: record.seq };
        let id = StreamId { space: self.corpus.space(), ..id };
        let mut records = match self.corpus.open_at(&id, seek) {
            Err(e) if e.is_not_found() => return Ok(None),
            read => read?,
        };
        Ok(match records.next()? {
            Some(LogItem::Entry(entry)) if crc32c::crc32c(entry.bytes) == record.crc => {
                Some(entry.bytes.to_vec())
            }
            _ => None,
        })
    }
}

/// Lines of turns that were read to know whether they are hits, and will be shown if they are.
#[derive(Default)]
struct Lines {
    kept: HashMap<(u32, u32), Vec<u8>>,
    bytes: usize,
}

impl Lines {
    /// Keeps a line, unless there are many: those are read again.
    fn keep(&mut self, of: &Scored, line: Vec<u8>) {
        self.bytes += line.len();
        if self.bytes <= LINES_BYTES_MAX {
            self.kept.insert((of.segment, of.doc), line);
        }
    }

    /// Takes the line of a record, if it was kept.
    fn take(&mut self, of: &Scored) -> Option<Vec<u8>> {
        self.kept.remove(&(of.segment, of.doc))
    }
}

/// By the ids of sessions in the trash: up to which number sessions that are not there show their records as their own.
fn shown_by_forks(rows: &[RowRef]) -> IndexResult<HashMap<String, u64>> {
    let mut shown = HashMap::new();
    let forks = rows.iter().filter(|row| row.is_fork()).map(RowRef::row).collect::<IndexResult<Vec<_>>>()?;
    let mut todo: Vec<(&str, u64)> = Vec::new();
    for fork in forks.iter().filter(|fork| fork.place() != Place::Trash) {
        todo.push((&fork.parent, fork.upto));
    }
    while let Some((id, upto)) = todo.pop() {
        // Headers made by hand may go round in a circle: what was shown before leads no further.
        let before = shown.entry(id.to_owned()).or_insert(NONE);
        if upto > *before {
            *before = upto;
            let above = forks.iter().filter(|fork| fork.id == id && fork.place() == Place::Trash);
            todo.extend(above.map(|fork| (fork.parent.as_str(), fork.upto.min(upto))));
        }
    }
    Ok(shown)
}

fn is(wanted: &SessionMatch, row: &Row) -> bool {
    match wanted {
        SessionMatch::Key(key) => row.key == *key,
        SessionMatch::KeyPrefix(start) => row.key.starts_with(start.as_str()),
        SessionMatch::Id(start) => !row.id.is_empty() && row.id.starts_with(start.as_str()),
    }
}

/// Names the session of a row.
pub(crate) fn stream_of(row: &Row) -> Option<StreamId> {
    let key = SessionKey::new(row.key.as_str()).ok()?;
    Some(StreamId::session(row.place(), &key, row.id.as_str()))
}

const TRIES: u32 = 4;
/// So much of what was read is kept until it is shown.
const LINES_BYTES_MAX: usize = 1024 * 1024;
