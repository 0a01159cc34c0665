//! One file on a simulated disk without faults, and everything that is read from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent_log::fs::Disk;
use manent_log::{Body, Damage, Entry, LogEnd, LogItem, Options, Reader, ReverseReader};
use manent_sim::SimDisk;

pub const LOG: &str = "/store/log.jsonl";

/// A disk with one file.
#[derive(Debug)]
pub struct Scene {
    pub sim: SimDisk,
    pub disk: Arc<dyn Disk>,
}

impl Scene {
    pub fn with(bytes: &[u8]) -> Scene {
        let sim = SimDisk::new(0);
        sim.poke(LOG, bytes).expect("an empty disk takes a file");
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        Scene { sim, disk }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.sim.peek(LOG).unwrap_or_default()
    }

    /// The files beside the log that hold what was cut off it.
    pub fn torn_copies(&self) -> Vec<PathBuf> {
        let is_copy = |path: &PathBuf| path.to_string_lossy().contains(".torn-");
        self.sim.paths().into_iter().filter(is_copy).collect()
    }

    /// Reads forward; nothing if the file is refused as a whole.
    pub fn read(&self) -> Option<Reading> {
        let reader = Reader::open(&self.disk, Path::new(LOG)).expect("the file is there");
        Reading::of(reader, self.bytes().len())
    }

    /// Reads backward, newest first; nothing if the file is refused as a whole.
    pub fn read_back(&self) -> Option<Vec<ReadItem>> {
        let file = self.disk.open(Path::new(LOG), manent_log::fs::Access::Read).ok()?;
        let mut reader = ReverseReader::new(&*file, Path::new(LOG)).ok()?;
        let (mut seen, len) = (Vec::new(), self.bytes().len());
        while let Some(item) = reader.next().ok()? {
            seen.push(ReadItem::of(item));
            assert!(seen.len() <= len * 2 + 8, "the reverse reader does not end");
        }
        Some(seen)
    }
}

/// One item of a reader, with its bytes copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadItem {
    Entry { seq: u64, offset: u64, bytes: Vec<u8>, verified: bool },
    Damage(Damage),
}

impl ReadItem {
    fn of(item: LogItem<'_>) -> ReadItem {
        match item {
            LogItem::Damage(damage) => ReadItem::Damage(damage),
            LogItem::Entry(Entry { seq, offset, bytes, verified }) => {
                ReadItem::Entry { seq, offset, bytes: bytes.to_vec(), verified }
            }
        }
    }

    pub fn is_entry(&self) -> bool {
        matches!(self, ReadItem::Entry { .. })
    }

    pub fn seq(&self) -> u64 {
        match self {
            ReadItem::Entry { seq, .. } => *seq,
            ReadItem::Damage(damage) => damage.seq,
        }
    }

    pub fn offset(&self) -> u64 {
        match self {
            ReadItem::Entry { offset, .. } => *offset,
            ReadItem::Damage(damage) => damage.offset,
        }
    }
}

/// Everything a forward reader gave, and what it said at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub items: Vec<ReadItem>,
    pub end: LogEnd,
    pub next_seq: Option<u64>,
}

impl Reading {
    /// Drains a reader of a file of `len` bytes; nothing if the file is refused as a whole.
    pub fn of(mut reader: Reader, len: usize) -> Option<Reading> {
        let mut items = Vec::new();
        loop {
            match reader.next() {
                Ok(Some(item)) => items.push(ReadItem::of(item)),
                Ok(None) => break,
                Err(_) if items.is_empty() => return None,
                Err(e) => panic!("a reader failed in the middle of a file on a disk without faults: {e}"),
            }
            // Each byte can be in one entry and in one damaged place, and nothing else is given.
            assert!(items.len() <= len * 2 + 8, "the reader does not end");
        }
        let reading = Reading { items, end: reader.end(), next_seq: reader.next_seq() };
        // At the end it may be asked again, and nothing has changed.
        assert!(reader.next().expect("no faults").is_none(), "a reader at the end gave something more");
        assert_eq!((reader.end(), reader.next_seq()), (reading.end, reading.next_seq), "the end changed");
        Some(reading)
    }

    pub fn entries(&self) -> Vec<&ReadItem> {
        self.items.iter().filter(|item| item.is_entry()).collect()
    }

    pub fn damage(&self) -> Vec<Damage> {
        let damage = |item: &ReadItem| match item {
            ReadItem::Damage(damage) => Some(*damage),
            ReadItem::Entry { .. } => None,
        };
        self.items.iter().filter_map(damage).collect()
    }
}

/// Options that let an unborn log be born.
pub fn options() -> Options {
    let (mut header, mut meta) = (Body::new(), Body::new());
    meta.number("format", manent_log::FORMAT).string("id", "fuzz");
    header.object("meta", &meta);
    Options { header: Some(header), ..Options::default() }
}

/// A turn.
pub fn turn(content: &str) -> Body {
    let mut body = Body::new();
    body.string("ts", "2026-11-15T18:07:00.123Z").string("role", "user").string("content", content);
    body
}
