//! Asks the index, and lets the logs answer.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use manent_log::Item;

use crate::backend::{Address, Place, Position, Start};
use crate::error::Result;
use crate::key::SessionKey;
use crate::store::Store;
use crate::turn::Record;

use super::best::{Best, Scored};
use super::catalogue::Row;
use super::damage::{Broken, Read};
use super::gather::seconds;
use super::listing::unread;
use super::matching::{is_exact, matching};
use super::query::{Query, SessionMatch};
use super::related::related;
use super::rows::RowRef;
use super::score;
use super::segment::Spot;
use super::snippet::{Matcher, SNIPPET_CHARS, Snippet, snippet};
use super::speech::speech;
use super::state::Snapshot;
use super::sweep::Save;
use super::view::Filter;

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The best, best first.
    pub hits: Vec<Hit>,
    /// How many turns match in all, where that was counted.
    pub total: Option<u64>,
    /// No turn held all the words, so these are the turns that fit the question best, whatever of it they hold.
    pub related: bool,
    /// Sessions that could not be searched, and why.
    pub unread: Vec<(Address, String)>,
}

/// A turn that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The session.
    pub address: Address,
    /// Its title.
    pub title: String,
    /// The turn's number.
    pub seq: u64,
    /// Who spoke.
    pub role: String,
    /// When, as the record says; empty if it does not.
    pub ts: String,
    /// What was said there.
    pub snippet: Snippet,
    /// How well it fits: higher is better, and only comparable within one answer.
    pub score: f32,
}

impl Store {
    /// Finds turns, the best first.
    ///
    /// The answer is that of the logs at this moment, other programs' included: the index catches up first, and every
    /// hit was read from its log.
    pub fn search(&self, query: &Query, limit: usize) -> Result<Found> {
        self.search_with(query, limit, &mut |_, _| {})
    }

    /// As [`Store::search`]; tells how far the index is with catching up.
    pub fn search_with(
        &self,
        query: &Query,
        limit: usize,
        progress: crate::backend::Progress<'_>,
    ) -> Result<Found> {
        let mut found = Found::default();
        for left in (0..TRIES).rev() {
            // Sessions that are moved all the time are made to rest for once, if somebody of ours moves them.
            let _still = if left == 0 { self.backend().exclusive(self.wait()).ok() } else { None };
            let snapshot = self.index().refresh(self, Save::Sometimes, &mut *progress)?;
            let asking = Asking { store: self, snapshot: &snapshot, query };
            match asking.ask(limit) {
                Ok(Answer::Found(answer)) => return Ok(answer),
                Ok(Answer::Doubtful(numbers, answer)) => {
                    self.index().doubt(&numbers);
                    found = answer;
                }
                Err(Failed::Index) => self.index().start_anew(),
                Err(Failed::Store(e)) => return Err(e),
            }
        }
        // Sessions that change while they are searched: what could be read of them.
        Ok(found)
    }
}

/// The best turns of a question, read.
struct Kept {
    hits: Vec<Hit>,
    /// The numbers of sessions that are not what was indexed.
    doubtful: Vec<u64>,
    total: Option<u64>,
}

enum Answer {
    Found(Found),
    /// Some hits are not where they were: the numbers of their sessions, and the others.
    Doubtful(Vec<u64>, Found),
}

enum Failed {
    Index,
    Store(crate::error::Error),
}

impl From<Broken> for Failed {
    fn from(_: Broken) -> Failed {
        Failed::Index
    }
}

impl From<crate::error::Error> for Failed {
    fn from(e: crate::error::Error) -> Failed {
        Failed::Store(e)
    }
}

struct Asking<'a> {
    store: &'a Store,
    snapshot: &'a Snapshot,
    query: &'a Query,
}

impl Asking<'_> {
    fn ask(&self, limit: usize) -> std::result::Result<Answer, Failed> {
        let wanted = self.wanted_sessions()?;
        let Query { roles, not_roles, .. } = self.query;
        let wants_role = |role: &str| {
            // As questions have them: another program may write `User`.
            let role = role.to_lowercase();
            (roles.is_empty() || roles.contains(&role)) && !not_roles.contains(&role)
        };
        let asks_for_role = !roles.is_empty() || !not_roles.is_empty();
        let filter = Filter {
            sessions: wanted.as_deref(),
            role: asks_for_role.then_some(&wants_role as &(dyn Fn(&str) -> bool + Sync)),
            since: self.query.since_ms.map(seconds),
            until: self.query.until_ms.map(seconds),
        };
        let mut found = Found { unread: unread(&self.snapshot.rows)?, ..Found::default() };
        let matched = self.matched(&filter, limit)?;
        let (hits, doubtful) = match matched {
            Kept { hits, doubtful, total } if !hits.is_empty() || !doubtful.is_empty() => {
                found.total = total;
                (hits, doubtful)
            }
            Kept { total, .. } if !self.query.plain || limit == 0 => {
                found.total = total;
                return Ok(Answer::Found(found));
            }
            _ => {
                let tie = |a: &Scored, b: &Scored| self.tie(a, b);
                let best = Best::new(limit, &tie);
                let rows = self.snapshot.rows.len();
                let (near, stems) = related(&self.snapshot.views, self.query, &filter, rows, best)?;
                found.related = true;
                self.read(&near, &Matcher::of_stems(&stems))?
            }
        };
        found.hits = hits;
        found.hits.retain(|hit| filter.role.is_none_or(|wants| wants(&hit.role)));
        found.related &= !found.hits.is_empty();
        if doubtful.is_empty() { Ok(Answer::Found(found)) } else { Ok(Answer::Doubtful(doubtful, found)) }
    }

    /// The best turns that hold all of the question.
    ///
    /// Where the index knows only nearly whether they do, more of them are read until those that are left out cannot be
    /// better: none scores higher than the index said.
    fn matched(&self, filter: &Filter<'_>, limit: usize) -> std::result::Result<Kept, Failed> {
        let tie = |a: &Scored, b: &Scored| self.tie(a, b);
        let views = &self.snapshot.views;
        let matcher = Matcher::of_query(self.query);
        let exact = self.query.must.iter().chain(&self.query.not).all(is_exact);
        if exact && self.knows_roles(filter)? {
            let found = matching(views, self.query, filter, Best::new(limit, &tie))?;
            let (hits, doubtful) = self.read(&found.best, &matcher)?;
            return Ok(Kept { hits, doubtful, total: found.total });
        }
        let mut read: HashMap<(u32, u32), Option<Scored>> = HashMap::new();
        let mut doubtful = Vec::new();
        let mut wanted = limit.saturating_add(limit / 4 + 4);
        loop {
            let found = matching(views, self.query, filter, Best::new(wanted, &tie))?;
            let mut best = Best::new(limit, &tie);
            for scored in &found.best {
                let counted = match read.entry((scored.segment, scored.doc)) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(slot) => {
                        let (row, at) = self.place_of(scored)?;
                        let said = self.said(&row, at)?;
                        if said.is_none() {
                            doubtful.push(row.number);
                        }
                        let said = said.filter(|(role, _)| filter.role.is_none_or(|wants| wants(role)));
                        let times = said.and_then(|(_, text)| matcher.times(&text));
                        *slot.insert(match times {
                            Some(times) => {
                                Some(Scored { score: self.score(scored, &found.weights, &times)?, ..*scored })
                            }
                            None => None,
                        })
                    }
                };
                if let Some(scored) = counted {
                    best.offer(scored);
                }
            }
            let most = found.best.last().map_or(0.0, |last| last.score);
            let kept = best.into_kept();
            let enough = kept.len() >= limit && kept.last().is_none_or(|last| last.score > most);
            if enough || found.best.len() < wanted {
                let (hits, more_doubtful) = self.read(&kept, &matcher)?;
                doubtful.extend(more_doubtful);
                let total = (found.best.len() < wanted && doubtful.is_empty())
                    .then(|| read.values().flatten().count() as u64);
                return Ok(Kept { hits, doubtful, total });
            }
            wanted = wanted.saturating_mul(4);
        }
    }

    /// Whether the index alone tells the roles that are asked for.
    fn knows_roles(&self, filter: &Filter<'_>) -> Read<bool> {
        for view in self.snapshot.views.iter().filter(|_| filter.role.is_some()) {
            if !view.knows_roles()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn score(&self, scored: &Scored, weights: &[f32], times: &[u32]) -> Read<f32> {
        let norms = self.snapshot.views[scored.segment as usize].segment.norms()?;
        let norm = norms.get(scored.doc as usize).copied().unwrap_or(u8::MAX);
        let impacts = times.iter().map(|times| score::impact(*times, norm));
        Ok(weights.iter().zip(impacts).fold(0.0, |all, (weight, impact)| all + weight * impact))
    }

    /// Reads hits where they lie; and the numbers of the sessions that are not what was indexed.
    fn read(&self, best: &[Scored], matcher: &Matcher) -> std::result::Result<(Vec<Hit>, Vec<u64>), Failed> {
        let (mut hits, mut doubtful) = (Vec::with_capacity(best.len()), Vec::new());
        for scored in best {
            let (row, spot) = self.place_of(scored)?;
            match self.hit(&row, spot, scored.score, matcher)? {
                Some(hit) => hits.push(hit),
                None => doubtful.push(row.number),
            }
        }
        Ok((hits, doubtful))
    }

    fn place_of(&self, scored: &Scored) -> Read<(Arc<Row>, Spot)> {
        let view = &self.snapshot.views[scored.segment as usize];
        let row = view.row_of(scored.doc).and_then(|row| self.snapshot.rows.get(row as usize));
        let row = row.ok_or(Broken::Wrong("a hit belongs to no session"))?;
        Ok((row.row()?, view.segment.spot(scored.doc)?))
    }

    /// The order of hits that are equally good and equally old: the session that began later, then the later turn.
    fn tie(&self, a: &Scored, b: &Scored) -> Ordering {
        match (self.place_of(a), self.place_of(b)) {
            (Ok((row_a, spot_a)), Ok((row_b, spot_b))) => {
                let name = |row: &Row| (row.id.clone(), row.key.clone(), row.place);
                name(&row_b).cmp(&name(&row_a)).then(spot_b.seq.cmp(&spot_a.seq))
            }
            _ => Ordering::Equal,
        }
    }

    /// Which sessions are asked for, by row. Nothing: all of them.
    ///
    /// What is in the trash is not found, unless a session that is not in the trash was forked from it and needs it.
    fn wanted_sessions(&self) -> Read<Option<Vec<bool>>> {
        let rows = &self.snapshot.rows;
        let chosen = !self.query.sessions.is_empty() || !self.query.not_sessions.is_empty();
        if !chosen && rows.iter().all(|row| row.place() != Place::Trash) {
            return Ok(None);
        }
        let is_meant = |row: &Row| {
            let any = |matches: &[SessionMatch]| matches.iter().any(|one| is(one, row));
            (self.query.sessions.is_empty() || any(&self.query.sessions)) && !any(&self.query.not_sessions)
        };
        let wanted = |row: &RowRef| Ok(row.place() != Place::Trash && (!chosen || is_meant(&*row.row()?)));
        rows.iter().map(wanted).collect::<Read<_>>().map(Some)
    }

    /// Reads a hit where it lies. Nothing if that is not what was indexed.
    fn hit(&self, row: &Row, spot: Spot, score: f32, matcher: &Matcher) -> Result<Option<Hit>> {
        let Some(address) = address_of(row) else { return Ok(None) };
        self.record(row, spot, |record| Hit {
            address,
            title: row.title().to_owned(),
            seq: spot.seq,
            role: record.role().unwrap_or_default().into_owned(),
            ts: record.ts().unwrap_or_default().into_owned(),
            snippet: snippet(&speech(record), matcher, SNIPPET_CHARS),
            score,
        })
    }

    /// The role and the text of a turn.
    fn said(&self, row: &Row, spot: Spot) -> Result<Option<(String, String)>> {
        let role = |record: &Record<'_>| record.role().unwrap_or_default().into_owned();
        self.record(row, spot, |record| (role(record), speech(record).into_owned()))
    }

    /// Reads a record where it lies. Nothing if that is not what was indexed.
    fn record<T>(&self, row: &Row, spot: Spot, use_it: impl FnOnce(&Record<'_>) -> T) -> Result<Option<T>> {
        let line = self.store.backend().line(row.place(), &row.name, Position::new(spot.offset))?;
        let mut line = line.unwrap_or_default();
        if crc32c::crc32c(&line) != spot.crc {
            // Two records on one line, perhaps: a reader takes them apart.
            match self.line_by_reading(row, spot)? {
                Some(read) => line = read,
                None => return Ok(None),
            }
        }
        let verified = manent_log::frame::verify(&line).is_some();
        let entry = manent_log::Entry { seq: spot.seq, offset: spot.offset, bytes: &line, verified };
        Ok(Record::of(&entry).map(|record| use_it(&record)))
    }

    fn line_by_reading(&self, row: &Row, spot: Spot) -> Result<Option<Vec<u8>>> {
        let Some(address) = address_of(row) else { return Ok(None) };
        let start = Start::At { position: Position::new(spot.offset), seq: spot.seq };
        let mut records = match self.store.backend().read(&address, start, None) {
            Err(e) if e.is_not_found() => return Ok(None),
            read => read?,
        };
        Ok(match records.next()? {
            Some(Item::Entry(entry)) if crc32c::crc32c(entry.bytes) == spot.crc => Some(entry.bytes.to_vec()),
            _ => None,
        })
    }
}

fn is(wanted: &SessionMatch, row: &Row) -> bool {
    match wanted {
        SessionMatch::Key(key) => row.key == *key,
        SessionMatch::KeyPrefix(start) => row.key.starts_with(start.as_str()),
        SessionMatch::Id(start) => !row.id.is_empty() && row.id.starts_with(start.as_str()),
    }
}

pub(crate) fn address_of(row: &Row) -> Option<Address> {
    let key = SessionKey::new(row.key.as_str()).ok()?;
    Some(Address { place: row.place(), key, id: row.id.clone() })
}

const TRIES: u32 = 4;
