//! A whole session in memory, decoded: every turn with its role, time and text.
//!
//! All text lies in one arena of about the size of the file, so that a session of 100,000 turns costs one allocation
//! and not 300,000. Other members of a turn (tool calls, usage) are kept as JSON.
//!
//! Loading a large session costs more in page faults than in parsing, so the arena maps large blocks in huge pages.
//! They are anonymous memory, not the file: a live log is never mapped. Small sessions get ordinary memory of their own
//! size, so that thousands of them can be held.

use std::io;

use manent_log::{Damage, LogEnd, LogItem};
#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::MmapMut;

use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::scan;
use crate::turn::Record;

/// The turns of a session.
#[derive(Debug, Default)]
pub struct Transcript {
    text: Arena,
    turns: Vec<TurnSpan>,
    /// The damage found while reading.
    pub damage: Vec<Damage>,
    /// Lines whose checksum holds but that are not UTF-8, by number.
    pub unreadable: Vec<u64>,
    /// The torn end of the file, if it has one.
    pub torn: Option<Damage>,
}

/// One turn, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<'a> {
    /// The number of the record.
    pub seq: u64,
    /// The time of the turn; empty if the line has none.
    pub ts: &'a str,
    /// The role of the speaker.
    pub role: &'a str,
    /// The other members, as JSON without braces; empty if there are none.
    pub extra: &'a str,
    /// The decoded text.
    pub content: &'a str,
}

/// The lengths of the four texts of a turn, which lie one after another in the arena from `start` on.
#[derive(Debug, Clone, Copy)]
struct TurnSpan {
    seq: u64,
    start: ArenaOffset,
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

    /// Returns the number of turns.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Returns true if there are no turns.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The turns in order.
    pub fn turns(&self) -> impl DoubleEndedIterator<Item = Turn<'_>> + ExactSizeIterator {
        self.turns.iter().map(|span| self.turn(span))
    }

    fn turn(&self, span: &TurnSpan) -> Turn<'_> {
        let mut rest = self.text.from(span.start);
        let mut next = |bytes: u32| {
            let part = rest.split_off(..bytes as usize).unwrap_or_default();
            // Each part was copied from a `str` or decoded from one; nothing else comes here.
            simdutf8::basic::from_utf8(part).unwrap_or_default()
        };
        Turn {
            seq: span.seq,
            ts: next(span.ts_bytes),
            role: next(span.role_bytes),
            extra: next(span.extra_bytes),
            content: next(span.content_bytes),
        }
    }

    fn push(&mut self, record: &Record<'_>) -> Result<()> {
        // A decoded turn is never longer than its line.
        self.text.make_room(record.line().len() + scan::SLACK_BYTES).map_err(Error::Memory)?;
        if let Some((body, envelope)) = record.parts()
            && let (Some(role), Some(content)) = (envelope.role.clone(), envelope.content.clone())
        {
            let ts = envelope.ts.clone().unwrap_or(0..0);
            let texts = [&body[ts], &body[role], &body[envelope.extra.clone()]];
            if self.fill(record.seq(), texts, |room| scan::unescape(body[content].as_bytes(), room)) {
                return Ok(());
            }
        }
        // A turn of another layout goes through the parser.
        let mut extra = String::new();
        for (name, value) in manent_log::members_of(record.line()).unwrap_or_default() {
            if !matches!(name.as_ref(), "ts" | "role" | "content" | "seq" | "crc") {
                let comma = if extra.is_empty() { "" } else { "," };
                extra.extend([comma, &serde_json::Value::from(name.as_ref()).to_string(), ":", value]);
            }
        }
        let (ts, role) = (record.ts().unwrap_or_default(), record.role().unwrap_or_default());
        let content = record.content();
        self.fill(record.seq(), [&ts, &role, &extra], |room| {
            room[..content.len()].copy_from_slice(content.as_bytes());
            Some(content.len())
        });
        Ok(())
    }

    /// Adds a turn. `write` puts its content into a buffer and returns the length, or `None` if it cannot; then nothing
    /// is added, and `false` is returned.
    fn fill(&mut self, seq: u64, texts: [&str; 3], write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let (room, start) = self.text.room();
        let mut filled = 0;
        for text in texts {
            room[filled..filled + text.len()].copy_from_slice(text.as_bytes());
            filled += text.len();
        }
        let Some(content_bytes) = write(&mut room[filled..]) else { return false };
        self.text.len += filled + content_bytes;
        let [ts_bytes, role_bytes, extra_bytes] = texts.map(|text| text.len() as u32);
        let content_bytes = content_bytes as u32;
        self.turns.push(TurnSpan { seq, start, ts_bytes, role_bytes, extra_bytes, content_bytes });
        true
    }
}

/// Blocks of bytes.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    blocks: Vec<Block>,
    /// The number of used bytes of the last block.
    len: usize,
    /// The planned size of the first block.
    first_bytes: usize,
}

/// A place in an arena.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArenaOffset {
    block: u32,
    at: usize,
}

#[derive(Debug)]
enum Block {
    Small(Vec<u8>),
    Large(MmapMut),
}

impl Arena {
    /// An arena for about so many bytes. Nothing is taken before something is put in.
    pub(crate) fn for_about(bytes: u64) -> Arena {
        let first_bytes = usize::try_from(bytes).unwrap_or(BLOCK_BYTES_MAX).min(BLOCK_BYTES_MAX);
        Arena { first_bytes, ..Arena::default() }
    }

    /// Sees to it that [`Arena::room`] has at least so many bytes.
    pub(crate) fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.blocks.last().is_some_and(|block| block.bytes().len() - self.len >= bytes) {
            return Ok(());
        }
        let wanted = if self.blocks.is_empty() { self.first_bytes } else { BLOCK_BYTES_NEXT };
        self.blocks.push(Block::of(wanted.saturating_add(bytes))?);
        self.len = 0;
        Ok(())
    }

    /// The free bytes of the last block, and where they begin.
    pub(crate) fn room(&mut self) -> (&mut [u8], ArenaOffset) {
        let offset = ArenaOffset { block: self.blocks.len().saturating_sub(1) as u32, at: self.len };
        let room = self.blocks.last_mut().map_or(&mut [][..], |block| &mut block.bytes_mut()[self.len..]);
        (room, offset)
    }

    /// The bytes of a block from a spot on.
    pub(crate) fn from(&self, offset: ArenaOffset) -> &[u8] {
        let block = self.blocks.get(offset.block as usize);
        block.and_then(|block| block.bytes().get(offset.at..)).unwrap_or_default()
    }
}

impl Block {
    fn of(bytes: usize) -> io::Result<Block> {
        if bytes < LARGE_FROM_BYTES {
            return Ok(Block::Small(vec![0; bytes]));
        }
        let map = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE_BYTES))?;
        // Only a wish: without huge pages it is slower, not wrong.
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::HugePage);
        Ok(Block::Large(map))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Block::Small(bytes) => bytes,
            Block::Large(map) => map,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Block::Small(bytes) => bytes,
            Block::Large(map) => map,
        }
    }
}

const HUGE_PAGE_BYTES: usize = 2 << 20;
const LARGE_FROM_BYTES: usize = 4 << 20;
/// A file may claim any length; no more than this is taken on its word.
const BLOCK_BYTES_MAX: usize = 1 << 30;
/// The size of blocks for what a file grew by while it was read.
const BLOCK_BYTES_NEXT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_where_they_were_put_in_blocks_of_any_size() {
        for about in [0, 100, 5 << 20, u64::MAX] {
            let mut arena = Arena::for_about(about);
            let mut offsets = Vec::new();
            for n in 0..2_000_u32 {
                let text = n.to_string().repeat(900);
                arena.make_room(text.len()).expect("memory");
                let (room, offset) = arena.room();
                room[..text.len()].copy_from_slice(text.as_bytes());
                arena.len += text.len();
                offsets.push((offset, text));
            }
            for (offset, text) in &offsets {
                assert_eq!(&arena.from(*offset)[..text.len()], text.as_bytes());
            }
        }
    }
}
