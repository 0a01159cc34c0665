//! The full check of a log, and the record by which a person acknowledges what it found.
//!
//! A gap stays where it is for ever; nothing is rewritten. `repair` cuts a torn end (setting it aside), and appends a
//! `gap` record for each damaged place, after which the place is still listed but no longer an alarm.

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::body::Body;
use crate::commit::Durability;
use crate::error::{Error, Result};
use crate::frame::FileKind;
use crate::fs::{Disk, DiskFile, read_blocks};
use crate::lock;
use crate::log::{Expect, Log};
use crate::reader::{Damage, Entry, LogEnd, LogItem, Reader};
use crate::recover;

/// The result of a full check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyReport {
    /// Records and lines of other programs that can be read, the header not counted.
    pub records: u64,
    /// The number of those that carry no checksum.
    pub unverified: u64,
    /// Each damaged place, in the order of the file.
    pub damage: Vec<DamageFinding>,
    /// The end of the file.
    pub tail: TailState,
    /// The owner of the file; `None` if it was never born.
    pub kind: Option<FileKind>,
}

/// One damaged place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamageFinding {
    /// The place and the reason.
    pub damage: Damage,
    /// True if a `gap` record says that somebody knows.
    pub acknowledged: bool,
}

/// The end of a file, as a full check finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TailState {
    /// The end of a record.
    Clean,
    /// Bytes that are no record.
    Torn(Damage),
    /// The same, while a writer holds the file: it may be writing them now.
    InFlight(Damage),
}

impl VerifyReport {
    /// Returns true if there is nothing that a person has not been told and taken note of.
    pub fn is_sound(&self) -> bool {
        !matches!(self.tail, TailState::Torn(_)) && self.damage.iter().all(|d| d.acknowledged)
    }
}

/// Reads a whole log and checks every byte of it.
pub fn verify(disk: &Arc<dyn Disk>, path: &Path) -> Result<VerifyReport> {
    verify_reader(Reader::open(disk, path)?, |_| {})
}

/// Checks every byte of the log that a reader has open. `progress` is called with the offset of each entry.
pub fn verify_reader(mut reader: Reader, mut progress: impl FnMut(u64)) -> Result<VerifyReport> {
    reader.seek_start();
    let (mut records, mut unverified) = (0, 0);
    let (mut damage, mut acknowledged) = (Vec::new(), Vec::new());
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Damage(found) => damage.push(found),
            LogItem::Entry(entry) => {
                let header = entry.verified && entry.seq == 0;
                records += u64::from(!header);
                unverified += u64::from(!entry.verified);
                acknowledged.extend(Gap::read(&entry));
                progress(entry.offset);
            }
        }
    }
    // Through the file that was read: the path may lead to another one by now.
    let (file, path) = reader.file();
    let mut found = Vec::with_capacity(damage.len());
    for damage in damage {
        let gap = Gap::of(file, path, &damage, Ending::AsItStands)?;
        found.push(DamageFinding { damage, acknowledged: acknowledged.contains(&gap) });
    }
    let tail = match reader.end() {
        LogEnd::Clean => TailState::Clean,
        LogEnd::Torn(torn) if file.lock_holder().is_some() => TailState::InFlight(torn),
        LogEnd::Torn(torn) => TailState::Torn(torn),
    };
    Ok(VerifyReport { records, unverified, damage: found, tail, kind: reader.kind() })
}

/// Acknowledges every damaged place of a log by a `gap` record. Opening it has already seen to its end.
///
/// Doing it twice changes nothing: a place that was acknowledged is left alone. `ts` is the time to write.
pub fn acknowledge_gaps(log: &mut Log, ts: &str) -> Result<Vec<Damage>> {
    let mut done = Vec::new();
    // Our own records can change what is next to them: a newline ends a line, another program's file becomes adopted.
    // What looks different afterwards is acknowledged as it looks then; more than a few rounds it never takes.
    for _ in 0..ACKNOWLEDGE_ROUNDS_MAX {
        let found = unacknowledged(log)?;
        if found.is_empty() {
            break;
        }
        let bodies: Vec<Body> = found.iter().map(|(damage, gap)| gap.body(ts, damage)).collect();
        log.append_batch(&bodies, Durability::Sync, Expect::Any)?;
        done.extend(found.into_iter().map(|(damage, _)| damage));
    }
    Ok(done)
}

fn unacknowledged(log: &Log) -> Result<Vec<(Damage, Gap)>> {
    let path = log.path();
    let report = verify(log.disk(), path)?;
    let file = lock::open_for_reading(&**log.disk(), path)?;
    let mut found = Vec::new();
    for DamageFinding { damage, .. } in report.damage.iter().filter(|f| !f.acknowledged) {
        found.push((*damage, Gap::of(&*file, path, damage, Ending::AsItStands)?));
    }
    // What opening left at the end is another program's. Our newline will end it, and then it is a gap like any.
    if let TailState::Torn(torn) | TailState::InFlight(torn) = report.tail {
        let ended = recover::ends_with_newline(&*file, path, torn.offset + torn.length)?;
        let ending = if ended { Ending::AsItStands } else { Ending::WithNewline };
        found.push((torn, Gap::of(&*file, path, &torn, ending)?));
    }
    Ok(found)
}

/// The ending with which a damaged place is hashed: as it stands, or with the newline that will be put behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    AsItStands,
    WithNewline,
}

/// A damaged place as a `gap` record names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Gap {
    offset: u64,
    length: u64,
    hash: String,
}

impl Gap {
    fn of(file: &dyn DiskFile, path: &Path, damage: &Damage, ending: Ending) -> Result<Gap> {
        let mut crc = 0;
        read_blocks(file, damage.offset..damage.offset + damage.length, |_, bytes| {
            crc = crc32c::crc32c_append(crc, bytes);
            Ok(())
        })
        .map_err(Error::io("read", path))?;
        let newline: &[u8] = if ending == Ending::WithNewline { b"\n" } else { b"" };
        let hash = format!("crc32c:{:08x}", crc32c::crc32c_append(crc, newline));
        Ok(Gap { offset: damage.offset, length: damage.length + newline.len() as u64, hash })
    }

    /// Reads a gap record; `None` for any other.
    fn read(entry: &Entry<'_>) -> Option<Gap> {
        #[derive(Deserialize)]
        struct Line {
            kind: String,
            #[serde(flatten)]
            gap: Gap,
        }
        // Cheap first: the members stand near the front, and hardly any record is one of these.
        let head = &entry.bytes[..entry.bytes.len().min(GAP_HEAD_BYTES)];
        if !entry.verified || memchr::memmem::find(head, br#""kind":"gap""#).is_none() {
            return None;
        }
        let line: Line = serde_json::from_slice(entry.bytes).ok()?;
        (line.kind == "gap").then_some(line.gap)
    }

    fn body(&self, ts: &str, damage: &Damage) -> Body {
        let mut body = Body::new();
        body.string("ts", ts).string("kind", "gap");
        body.number("offset", self.offset).number("length", self.length).string("hash", &self.hash);
        body.number("lines", damage.lines).string("reason", damage.reason.word());
        body
    }
}

const ACKNOWLEDGE_ROUNDS_MAX: usize = 4;
const GAP_HEAD_BYTES: usize = 128;
