//! A whole session in memory, decoded: every turn with its role, time and text.
//!
//! All text lies in one arena of about the size of the file, so that a session of 100,000 turns costs one allocation
//! and not 300,000. What a turn carries besides (tool calls, usage) is kept as it stands, as JSON.

use manent_log::{Damage, LogEnd, LogItem};

use crate::arena::{Arena, Spot};
use crate::error::{Error, Result};
use crate::reading::Reader;
use crate::scan;
use crate::turn::Record;

/// The turns of a session.
#[derive(Debug, Default)]
pub struct Transcript {
    text: Arena,
    turns: Vec<Place>,
    /// What could not be read.
    pub damage: Vec<Damage>,
    /// Lines whose checksum holds but that are not UTF-8, by number.
    pub unreadable: Vec<u64>,
    /// How the file ends.
    pub torn: Option<Damage>,
}

/// One turn, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<'a> {
    /// Its number.
    pub seq: u64,
    /// Its time; empty if the line has none.
    pub ts: &'a str,
    /// Who spoke.
    pub role: &'a str,
    /// The other members, as JSON without braces; empty if there are none.
    pub extra: &'a str,
    /// What was said.
    pub content: &'a str,
}

/// Where the four texts of a turn end in the arena; the first begins at `start`.
#[derive(Debug, Clone, Copy)]
struct Place {
    seq: u64,
    start: Spot,
    ts_bytes: u32,
    role_bytes: u32,
    extra_bytes: u32,
    content_bytes: u32,
}

impl Transcript {
    /// Reads everything that a reader has before it. `bytes` is how much that is, about.
    pub fn load(reader: &mut Reader, bytes: u64) -> Result<Transcript> {
        let mut all = Transcript { text: Arena::for_about(bytes), ..Transcript::default() };
        while let Some(item) = reader.next()? {
            match item {
                LogItem::Damage(damage) => all.damage.push(damage),
                LogItem::Entry(entry) => match Record::of(&entry) {
                    Some(record) if record.is_turn() => all.push(&record)?,
                    Some(_) => {}
                    None => all.unreadable.push(entry.seq),
                },
            }
        }
        if let LogEnd::Torn(torn) = reader.end() {
            all.torn = Some(torn);
        }
        Ok(all)
    }

    /// How many turns there are.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The turns in order.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = Turn<'_>> + ExactSizeIterator {
        self.turns.iter().map(|place| self.turn(place))
    }

    fn turn(&self, place: &Place) -> Turn<'_> {
        let mut rest = self.text.from(place.start);
        let mut next = |bytes: u32| {
            let part = rest.split_off(..bytes as usize).unwrap_or_default();
            // Each part was copied from a `str` or decoded from one; nothing else comes here.
            simdutf8::basic::from_utf8(part).unwrap_or_default()
        };
        Turn {
            seq: place.seq,
            ts: next(place.ts_bytes),
            role: next(place.role_bytes),
            extra: next(place.extra_bytes),
            content: next(place.content_bytes),
        }
    }

    fn push(&mut self, record: &Record<'_>) -> Result<()> {
        // What a turn becomes is never longer than its line.
        self.text.make_room(record.line().len() + scan::SLACK_BYTES).map_err(Error::Memory)?;
        if !self.push_known(record) {
            self.push_any(record);
        }
        Ok(())
    }

    fn push_known(&mut self, record: &Record<'_>) -> bool {
        let Some((body, envelope)) = record.parts() else { return false };
        let (Some(role), Some(content)) = (envelope.role.clone(), envelope.content.clone()) else {
            return false;
        };
        let ts = envelope.ts.clone().unwrap_or(0..0);
        let body = body.as_bytes();
        let (room, start) = self.text.room();
        let Some(content_bytes) = ({
            let mut filled = 0;
            for part in [ts.clone(), role.clone(), envelope.extra.clone()] {
                room[filled..filled + part.len()].copy_from_slice(&body[part.clone()]);
                filled += part.len();
            }
            scan::unescape(&body[content], &mut room[filled..])
        }) else {
            return false;
        };
        let extra = envelope.extra.len();
        self.text.advance(ts.len() + role.len() + extra + content_bytes);
        self.turns.push(Place {
            seq: record.seq(),
            start,
            ts_bytes: ts.len() as u32,
            role_bytes: role.len() as u32,
            extra_bytes: extra as u32,
            content_bytes: content_bytes as u32,
        });
        true
    }

    /// A turn of another layout, through the parser.
    fn push_any(&mut self, record: &Record<'_>) {
        let mut extra = String::new();
        for (name, value) in manent_log::members_of(record.line()).unwrap_or_default() {
            if !matches!(name.as_ref(), "ts" | "role" | "content" | "seq" | "crc") {
                let comma = if extra.is_empty() { "" } else { "," };
                extra.extend([comma, &serde_json::Value::from(name.as_ref()).to_string(), ":", value]);
            }
        }
        let (ts, role) = (record.ts().unwrap_or_default(), record.role().unwrap_or_default());
        let content = record.content();
        let (room, start) = self.text.room();
        let mut filled = 0;
        for part in [&*ts, &*role, &*extra, &*content] {
            room[filled..filled + part.len()].copy_from_slice(part.as_bytes());
            filled += part.len();
        }
        self.text.advance(filled);
        self.turns.push(Place {
            seq: record.seq(),
            start,
            ts_bytes: ts.len() as u32,
            role_bytes: role.len() as u32,
            extra_bytes: extra.len() as u32,
            content_bytes: content.len() as u32,
        });
    }
}
