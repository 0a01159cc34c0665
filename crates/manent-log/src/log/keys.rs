//! Records that are known by a key, so that an append whose outcome is unknown can be tried again.
//!
//! A record with an `idempotency_key` is looked for among the last records before it is appended. That it can be read
//! proves nothing about the disk: where a sync failed, Linux takes the pages for clean, shows them to every reader, and
//! writes them no more. So what is found is written again, from there to the end of the file, and synced; only then is
//! there a receipt. Other programs' files are not written to but at their end.

use std::collections::HashMap;

use super::{Body, Expect, Log, Receipt};
use crate::body::{self, idempotency_key};
use crate::commit::Durability;
use crate::error::{Error, Result, hint};
use crate::frame::FileKind;
use crate::reader::Item;
use crate::recover;
use crate::reverse::ReverseReader;

/// Among so many records at least, the last ones of a log, a key is looked for.
pub const KEY_RECORDS: usize = 1000;

/// Where the last records with keys stand. Valid as long as nobody else writes.
#[derive(Debug, Default)]
pub(super) struct RecentKeys {
    places: HashMap<Box<str>, Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    seq: u64,
    offset: u64,
    /// The durability of the receipt, if this handle gave it.
    given: Option<Durability>,
}

impl Place {
    /// Whether this handle made it as durable as that.
    fn is_kept(self, durability: Durability) -> bool {
        match self.given {
            None => false,
            Some(Durability::Flush) => durability == Durability::Flush,
            Some(Durability::Sync | Durability::Group) => true,
        }
    }
}

/// What becomes of one body of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate<P> {
    /// There is a record with its key, at this place.
    Known(P),
    /// It is this one of those that are written.
    Written(usize),
}

/// Decides what becomes of each body of an append, given where records with keys stand; and which bodies are written.
/// Of several with one key only the first is.
pub fn sort_out<P>(bodies: &[Body], known: impl Fn(&str) -> Option<P>) -> (Vec<Fate<P>>, Vec<&Body>) {
    let mut fresh: Vec<&Body> = Vec::new();
    let mut twins: HashMap<&str, usize> = HashMap::new();
    let mut fates = Vec::with_capacity(bodies.len());
    for body in bodies {
        if let Some(place) = body.key().and_then(&known) {
            fates.push(Fate::Known(place));
            continue;
        }
        let next = fresh.len();
        let nth = body.key().map_or(next, |key| *twins.entry(key).or_insert(next));
        if nth == next {
            fresh.push(body);
        }
        fates.push(Fate::Written(nth));
    }
    (fates, fresh)
}

/// How it comes that records are as durable as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Already,
    ByWriting,
}

impl Log {
    /// Gives the receipt of the record with a key, if it is among the last [`KEY_RECORDS`]; made durable as by an
    /// append of a body with this key ([`Log::append`]).
    pub fn receipt_of(&mut self, key: &str, durability: Durability) -> Result<Option<Receipt>> {
        self.guarded(|log| {
            let Some(place) = log.recent_keys(durability)?.get(key).copied() else { return Ok(None) };
            log.keep(&[place], durability)?;
            Ok(Some(Receipt { seq: place.seq, offset: place.offset, durability }))
        })
    }

    /// Makes the record at an offset, and everything behind it, survive power loss, whoever wrote it and whatever
    /// became of earlier syncs: the bytes are written again and synced. [`Error::Unknown`] in another program's file,
    /// in which nothing is written again.
    pub fn keep_from(&mut self, offset: u64) -> Result<()> {
        self.guarded(|log| {
            log.check_usable(Durability::Sync)?;
            log.rewrite_from(offset)
        })
    }

    /// [`Log::append_batch`], where bodies have keys.
    pub(super) fn commit_keyed(
        &mut self,
        bodies: &[Body],
        durability: Durability,
        expect: Expect,
    ) -> Result<Vec<Receipt>> {
        let recent = self.recent_keys(durability)?;
        let (fates, fresh) = sort_out(bodies, |key| recent.get(key).copied());
        for body in &fresh {
            super::check_size(body)?;
        }
        let known = fates.iter().filter_map(|fate| match fate {
            Fate::Known(place) => Some(*place),
            Fate::Written(_) => None,
        });
        if self.keep(&known.collect::<Vec<_>>(), durability)? == Kept::ByWriting {
            // That takes a while, in which another program may have written.
            self.check_usable(durability)?;
        }
        let first = self.next_seq;
        if let (Expect::Seq(expected), Some(Fate::Written(_))) = (expect, fates.first())
            && expected != first
        {
            return Err(Error::Conflict { path: self.path().to_owned(), expected, next: first });
        }
        self.encode(fresh.iter().copied())?;
        if !fresh.is_empty() {
            self.put_down(fresh.len() as u64, durability)?;
        }
        let place_of = |nth: usize| (first + nth as u64, self.starts[nth]);
        if let Some(recent) = &mut self.recent {
            for (nth, body) in fresh.iter().enumerate() {
                let (seq, offset) = place_of(nth);
                recent.insert(body, Place { seq, offset, given: Some(durability) });
            }
        }
        let receipt = |fate: Fate<Place>| {
            let (seq, offset) = match fate {
                Fate::Known(place) => (place.seq, place.offset),
                Fate::Written(nth) => place_of(nth),
            };
            Receipt { seq, offset, durability }
        };
        let receipts = fates.into_iter().map(receipt).collect();
        self.forget_keys_of(bodies);
        Ok(receipts)
    }

    /// Checks that the log may be written, and gives the keys of its last records; if they are not known, they are
    /// read.
    fn recent_keys(&mut self, durability: Durability) -> Result<&HashMap<Box<str>, Place>> {
        self.check_usable(durability)?;
        if self.is_new() {
            self.recent.get_or_insert_default();
        }
        for _ in 0..READS_MAX {
            if self.recent.as_ref().is_some_and(|recent| recent.places.len() <= KEYS_KEPT_MAX) {
                break;
            }
            self.recent = Some(RecentKeys::read(self)?);
            // Reading takes a while, in which another program may have written: then nothing is known again.
            self.check_usable(durability)?;
        }
        let recent = match self.recent.take() {
            Some(recent) => recent,
            None => RecentKeys::read(self)?,
        };
        Ok(&self.recent.insert(recent).places)
    }

    /// Makes records that were found as durable as asked.
    fn keep(&mut self, places: &[Place], durability: Durability) -> Result<Kept> {
        let not_kept = places.iter().filter(|place| !place.is_kept(durability));
        match not_kept.map(|place| place.offset).min() {
            None => Ok(Kept::Already),
            Some(first) => self.rewrite_from(first).map(|()| Kept::ByWriting),
        }
    }

    pub(super) fn rewrite_from(&mut self, offset: u64) -> Result<()> {
        if self.kind != FileKind::Native {
            let why =
                "it can be read there, but in another program's file nothing is written again to make sure";
            return Err(self.unknown(why));
        }
        // The header stands at the beginning, and a first record is little without it.
        let start = if offset <= REWRITTEN_WHOLE_BYTES { 0 } else { offset };
        if let Err(why) = recover::write_again(&*self.disk, &self.lease, start..self.len) {
            return Err(self.close_unknown(format!("it could not be written again ({why}{})", hint(&why))));
        }
        self.sync_name()
    }

    /// Forgets what is known of keys if bodies without one may have the member all the same: readers would find it.
    pub(super) fn forget_keys_of(&mut self, bodies: &[Body]) {
        if self.recent.is_some() && bodies.iter().any(body::may_hide_a_key) {
            self.recent = None;
        }
    }
}

impl RecentKeys {
    fn read(log: &Log) -> Result<RecentKeys> {
        let mut places = HashMap::new();
        let mut back = ReverseReader::of_file(log.lease.file(), log.lease.path())?;
        let mut left = KEY_RECORDS;
        while left > 0
            && let Some(item) = back.next()?
        {
            let Item::Entry(entry) = item else { continue };
            left -= 1;
            // Another program's line is not ours to give a receipt for. Of several the first counts, which comes last.
            if let Some(key) = idempotency_key(entry.bytes).filter(|_| entry.verified && entry.seq > 0) {
                let place = Place { seq: entry.seq, offset: entry.offset, given: None };
                places.insert(key.into_boxed_str(), place);
            }
        }
        Ok(RecentKeys { places })
    }

    fn insert(&mut self, body: &Body, place: Place) {
        if let Some(key) = body.key() {
            self.places.insert(key.into(), place);
        }
    }
}

/// After so many times another program that writes all the time is not waited for: what it writes has no keys of ours.
const READS_MAX: u32 = 8;
/// So many keys are remembered before the log is read again.
const KEYS_KEPT_MAX: usize = 4 * KEY_RECORDS;
/// Up to here a log is written again from its beginning: no header is longer.
const REWRITTEN_WHOLE_BYTES: u64 = 64 << 10;
