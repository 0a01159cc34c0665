//! Forks: a session that goes on from a record of another one without copying it.
//!
//! The header of a fork names its parent by id, and the last record they share by number and checksum. The parent may
//! be archived or deleted afterwards; it is found by its id. Only when it is purged does the fork get a copy.

use manent_log::frame::DamageReason;
use manent_log::{Body, DamageFinding, LogItem};

use manent_store::{LockMode, LockName, Place, SessionKey, Space, StreamId, StreamPart, is_plain_id};

use crate::error::{Error, Result, if_found};
use crate::meta::Parent;
use crate::reader::{Reader, Records, Start, crc_of, damage_at, find_parent};
use crate::store::Store;
use crate::turn::body_of_line;
use manent_store::clock;

/// A fork that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// The address of the fork.
    pub id: StreamId,
    /// The last record it shares.
    pub upto: u64,
    /// True if the records were copied, because the other session is another program's and may be rewritten.
    pub copied: bool,
}

/// The last record that a fork is to share.
struct Branch {
    /// The session that holds it: the one that was named, or one that this was forked from.
    holder: StreamId,
    upto: u64,
    crc: String,
}

impl Store {
    /// Makes a new session that continues another from a record on, or from its end. Takes the same time however long
    /// that is; its writer is not disturbed.
    pub fn fork(&self, at: &StreamId, upto: Option<u64>, key: &SessionKey) -> Result<Forked> {
        // The parent must not be purged while the fork is made.
        let moves = LockName::Moves(Space::Sessions);
        let _moving = self.streams().lock(moves, LockMode::Exclusive, self.wait())?;
        let branch = self.branch(at, upto)?;
        // What the fork rests on must not be lost by a power cut that the fork survives.
        self.streams().sync(&branch.holder)?;
        // A session whose id cannot be a name gets another one when it is put away, and would not be found again.
        let native = is_plain_id(&branch.holder.id) && !branch.crc.is_empty();
        let parent = Parent {
            id: branch.holder.id.clone(),
            key: branch.holder.key.to_string(),
            upto: branch.upto,
            crc: branch.crc,
        };
        let header = self.header(key, native.then_some(&parent));
        let mut copied = ForeignRecords { reader: Reader::default(), upto: branch.upto, lost: 0, seq: 0 };
        if !native {
            copied.reader = self.read(&branch.holder, Start::First)?;
        }
        self.streams().create(&StreamId::live(key), &header, &mut copied)?;
        self.index().note_written(key);
        let id = StreamId::session(Place::Live, key, header.id);
        Ok(Forked { id, upto: branch.upto, copied: !native })
    }

    fn branch(&self, at: &StreamId, upto: Option<u64>) -> Result<Branch> {
        let start = match upto {
            Some(seq) => Start::Seq(seq),
            None => Start::Tail { count: 1, before: None },
        };
        let mut holder = at.clone();
        loop {
            let mut records = self.records(&holder, start)?;
            let parent = records.meta().and_then(|meta| meta.parent.clone());
            if let Some(meta) = records.meta().filter(|_| holder.place == Place::Live) {
                // A listing from before the header was written has no id.
                holder.id.clone_from(&meta.id);
            }
            let found = match upto {
                Some(seq) => record_at(&mut records, seq)?,
                None => last_record(&mut records)?,
            };
            if let Some((upto, crc)) = found {
                return Ok(Branch { holder, upto, crc });
            }
            // Not among its own: then among what it was forked from.
            let shared = parent.filter(|parent| upto.is_none_or(|seq| seq <= parent.upto));
            let Some(parent) = shared else { return Err(self.no_such_record(at, upto)?) };
            let Some(address) = find_parent(self.streams(), &parent)? else {
                return Err(self.no_such_record(at, upto)?);
            };
            if upto.is_none() {
                return Ok(Branch { holder: address, upto: parent.upto, crc: parent.crc });
            }
            if address == holder {
                return Err(self.no_such_record(at, upto)?);
            }
            holder = address;
        }
    }

    fn no_such_record(&self, at: &StreamId, upto: Option<u64>) -> Result<Error> {
        let mut reader = self.read(at, Start::Tail { count: 1, before: None })?;
        let mut last = None;
        while let Some(item) = reader.next()? {
            if let LogItem::Entry(entry) = item {
                last = Some(entry.seq).filter(|seq| *seq > 0).or(last);
            }
        }
        Ok(Error::NoSuchRecord { name: at.key.to_string(), seq: upto.unwrap_or(1), last })
    }

    /// Finds out what is wrong with the session that this one was forked from, if it was.
    pub(crate) fn check_parent(&self, at: &StreamId) -> Result<Vec<DamageFinding>> {
        let mut found = Vec::new();
        // Others may move the parent while it is looked for, or purge it and give the fork a copy: what is missing is
        // looked for again, from the header on.
        for _ in 0..PARENT_LOOKS {
            let records = self.records(at, Start::Header);
            // Any other error shows again when the session is read.
            let Some(parent) = records.ok().and_then(|records| records.meta()?.parent.clone()) else {
                return Ok(Vec::new());
            };
            let Some(reason) = self.fault_of_parent(&parent)? else { return Ok(Vec::new()) };
            found = vec![DamageFinding { damage: damage_at(parent.upto, reason), acknowledged: false }];
        }
        Ok(found)
    }

    /// Returns the reason why `parent` cannot serve its fork, or `None` if it can.
    fn fault_of_parent(&self, parent: &Parent) -> Result<Option<DamageReason>> {
        let Some(address) = find_parent(self.streams(), parent)? else {
            return Ok(Some(DamageReason::NoParent));
        };
        let records = if_found(self.records(&address, Start::Seq(parent.upto)))?;
        let Some(mut records) = records else { return Ok(Some(DamageReason::NoParent)) };
        let shared = record_at(&mut records, parent.upto)?;
        let is_same = shared.is_some_and(|(seq, crc)| (seq, &crc) == (parent.upto, &parent.crc));
        Ok((!is_same).then_some(DamageReason::OtherParent))
    }
}

/// The number of attempts to find a parent.
const PARENT_LOOKS: u32 = 8;

/// The record with this number, if the stream holds it itself.
fn record_at(records: &mut Records, seq: u64) -> Result<Option<(u64, String)>> {
    while let Some(item) = records.next()? {
        if let LogItem::Entry(entry) = item {
            return Ok((entry.seq == seq && seq > 0).then(|| (seq, crc_of(&entry))));
        }
    }
    Ok(None)
}

fn last_record(records: &mut Records) -> Result<Option<(u64, String)>> {
    let mut last = None;
    while let Some(item) = records.next()? {
        match item {
            LogItem::Entry(entry) if entry.seq > 0 => last = Some((entry.seq, crc_of(&entry))),
            _ => {}
        }
    }
    Ok(last)
}

/// The records of another program's session as records of ours. Every line takes a number, one that cannot be read too,
/// so that the numbers stay what they were.
struct ForeignRecords {
    reader: Reader,
    upto: u64,
    /// Lines that could not be read, still to be stood in for.
    lost: u64,
    /// The number of the last record that was given.
    seq: u64,
}

impl Iterator for ForeignRecords {
    type Item = manent_store::Result<StreamPart>;

    fn next(&mut self) -> Option<manent_store::Result<StreamPart>> {
        let body = self.next_body()?;
        self.seq += 1;
        Some(body.map(|body| StreamPart::Record { seq: self.seq, body }).map_err(Error::into_store))
    }
}

impl ForeignRecords {
    fn next_body(&mut self) -> Option<Result<Body>> {
        while self.lost == 0 {
            match self.reader.next() {
                Err(e) => return Some(Err(e)),
                Ok(None) => return None,
                Ok(Some(LogItem::Entry(entry))) if entry.seq > self.upto => return None,
                Ok(Some(LogItem::Entry(entry))) if entry.seq == 0 => {}
                Ok(Some(LogItem::Entry(entry))) => return Some(Ok(body_of_line(&entry))),
                Ok(Some(LogItem::Damage(damage))) => {
                    self.lost = damage.lines.min(self.upto.saturating_sub(damage.seq) + 1);
                }
            }
        }
        self.lost -= 1;
        let mut body = Body::new();
        body.string("ts", &clock::now())
            .string("kind", "gap")
            .string("reason", "unreadable where it came from");
        Some(Ok(body))
    }
}
