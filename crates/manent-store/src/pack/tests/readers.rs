//! What the engine makes of packed logs that are damaged: every record that is left is given, every place
//! that is not is named, and nothing that lost its end looks whole.

use manent_log::frame::DamageReason;
use manent_log::{Damage, LogEnd, VerifyReport};
use tempfile::TempDir;

use super::*;

/// A place for packed logs.
struct PackedDir {
    dir: TempDir,
}

/// The items that a reader gave: numbers and lines, damage, and the end.
#[derive(Debug, PartialEq)]
struct Found {
    entries: Vec<(u64, Vec<u8>)>,
    damage: Vec<Damage>,
    end: LogEnd,
}

impl Found {
    fn add(&mut self, item: LogItem<'_>) {
        match item {
            LogItem::Entry(entry) => self.entries.push((entry.seq, entry.bytes.to_vec())),
            LogItem::Damage(damage) => self.damage.push(damage),
        }
    }

    /// Returns true if it looks as if nothing were wrong.
    fn looks_whole(&self) -> bool {
        self.damage.is_empty() && self.end == LogEnd::Clean
    }
}

impl PackedDir {
    fn new() -> PackedDir {
        PackedDir { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("a.jsonl.zst")
    }

    /// Puts a file here in place of the one before.
    fn put(&self, bytes: &[u8]) {
        let _ = RealDisk.remove(&self.path());
        let file = RealDisk.open(&self.path(), Access::CreateNew).unwrap();
        write_fully(&*file, bytes).unwrap();
    }

    fn reader(&self) -> manent_log::Result<Reader> {
        Reader::open_with(&RealDisk::shared(), &self.path(), super::super::open)
    }

    fn verify(&self) -> VerifyReport {
        manent_log::verify_reader(self.reader().unwrap(), |_| {}).unwrap()
    }

    fn forwards(&self) -> manent_log::Result<Found> {
        PackedDir::read(self.reader()?)
    }

    fn tail(&self, count: u64) -> manent_log::Result<Found> {
        let mut reader = self.reader()?;
        reader.seek_last(None, count, |_| true)?;
        PackedDir::read(reader)
    }

    fn read(mut reader: Reader) -> manent_log::Result<Found> {
        let mut found = Found { entries: Vec::new(), damage: Vec::new(), end: LogEnd::Clean };
        while let Some(item) = reader.next()? {
            found.add(item);
        }
        found.end = reader.end();
        Ok(found)
    }

    /// In the order of the file.
    fn backwards(&self) -> manent_log::Result<Found> {
        let file = super::super::open(RealDisk.open(&self.path(), Access::Read).unwrap()).unwrap();
        let mut reader = ReverseReader::new(&*file, &self.path())?;
        let mut found = Found { entries: Vec::new(), damage: Vec::new(), end: LogEnd::Clean };
        while let Some(item) = reader.next()? {
            found.add(item);
        }
        found.entries.reverse();
        found.damage.reverse();
        Ok(found)
    }
}

/// The lines of a plain file that lie in some of the frames, numbered from `first`.
fn lines_of(plain: &[u8], first: u64, is_there: impl Fn(u64) -> bool) -> Vec<(u64, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut offset = 0;
    for (seq, line) in (first..).zip(plain.split_inclusive(|b| *b == b'\n')) {
        if is_there(offset) {
            lines.push((seq, line.strip_suffix(b"\n").unwrap_or(line).to_vec()));
        }
        offset += line.len() as u64;
    }
    lines
}

#[test]
fn a_damaged_frame_is_one_named_place_and_all_else_is_read() {
    let plain = whole_log();
    let bytes = packed(&plain);
    let table = open(&bytes).unwrap().table;
    let shelf = PackedDir::new();
    for frame in [0, 1, table.frames() / 2, table.frames() - 2] {
        let (place, lost) = (table.packed(frame), table.plain(frame));
        let mut harmed = bytes.clone();
        let middle = (place.start + place.end) as usize / 2;
        harmed[middle..middle + 5].iter_mut().for_each(|b| *b ^= 0x55);
        shelf.put(&harmed);

        let expected = lines_of(&plain, 0, |offset| !lost.contains(&offset));
        for found in [shelf.forwards().unwrap(), shelf.backwards().unwrap()] {
            assert!(found.entries == expected, "{} of {} entries", found.entries.len(), expected.len());
            let [only] = found.damage[..] else { panic!("{:?}", found.damage) };
            assert_eq!(
                (only.offset, only.length, only.reason),
                (lost.start, lost.end - lost.start, DamageReason::Nul),
                "frame {frame}"
            );
            assert_eq!(found.end, LogEnd::Clean);
        }
        for count in [1, 50, 300] {
            let newest = &expected[expected.len() - count..];
            assert!(shelf.tail(count as u64).unwrap().entries == newest, "the last {count}, frame {frame}");
        }
        let report = shelf.verify();
        assert!(!report.is_sound() && report.damage.len() == 1);
    }
}

#[test]
fn the_last_frame_is_a_torn_end_if_it_is_damaged() {
    let plain = whole_log();
    let mut bytes = packed(&plain);
    let table = open(&bytes).unwrap().table;
    let last = table.frames() - 1;
    bytes[table.packed(last).start as usize + 30] ^= 1;
    let shelf = PackedDir::new();
    shelf.put(&bytes);
    let found = shelf.forwards().unwrap();
    assert!(found.entries == lines_of(&plain, 0, |offset| offset < table.plain(last).start));
    assert!(matches!(found.end, LogEnd::Torn(torn) if torn.offset == table.plain(last).start));
    assert!(!shelf.verify().is_sound());
}

#[test]
fn a_damaged_frame_hides_no_line_of_another_program() {
    let lines = |from: u32| -> Vec<u8> {
        (from..from + 5).flat_map(|n| format!("{{\"role\":\"user\",\"n\":{n}}}\n").into_bytes()).collect()
    };
    let pieces = [lines(0), lines(5), lines(10)];
    let mut bytes = packed_in_pieces(&[&pieces[0], &pieces[1], &pieces[2]]);
    let middle = open(&bytes).unwrap().table.packed(1);
    bytes[middle.end as usize - 1] ^= 1;
    let shelf = PackedDir::new();
    shelf.put(&bytes);
    for found in [shelf.forwards().unwrap(), shelf.backwards().unwrap()] {
        let texts: Vec<u8> = found.entries.iter().flat_map(|(_, line)| [line, &b"\n"[..]].concat()).collect();
        assert_eq!(texts, [&pieces[0][..], &pieces[2]].concat());
        assert_eq!(found.damage.len(), 1);
    }
}

/// A log of three frames, small enough to break it everywhere.
fn small_log() -> (Vec<u8>, Vec<u8>) {
    let mut random = Random(11);
    let mut line = |seq| {
        let mut body = Body::new();
        body.string("content", &String::from_utf8(random.lines(40, 30)).unwrap());
        manent_log::frame::line(seq, &body)
    };
    let pieces = [0..3, 3..5, 5..9].map(|range| range.flat_map(&mut line).collect::<Vec<u8>>());
    (packed_in_pieces(&[&pieces[0], &pieces[1], &pieces[2]]), pieces.concat())
}

/// Reads a broken file in every way. Nothing wrong may be given, and where something is missing that must
/// show.
fn check(shelf: &PackedDir, bytes: &[u8], all: &[(u64, Vec<u8>)], how: &str) {
    shelf.put(bytes);
    let Ok(found) = shelf.forwards() else { return };
    assert!(found.entries.iter().all(|entry| all.contains(entry)), "{how}: something was made up");
    assert!(found.entries == all || !found.looks_whole(), "{how}: it looks whole");
    let report = shelf.verify();
    assert_eq!(report.is_sound(), found.looks_whole(), "{how}");
    assert_eq!(shelf.backwards().unwrap().entries, found.entries, "{how}");
    let last = shelf.tail(2).unwrap().entries;
    assert_eq!(last, found.entries[found.entries.len().saturating_sub(2)..], "{how}");
}

#[test]
fn a_log_cut_anywhere_gives_what_is_left_and_never_looks_whole() {
    let (bytes, plain) = small_log();
    let all = lines_of(&plain, 0, |_| true);
    let shelf = PackedDir::new();
    shelf.put(&bytes);
    let found = shelf.forwards().unwrap();
    assert!(found.looks_whole() && found.entries == all);
    for len in 0..bytes.len() {
        check(&shelf, &bytes[..len], &all, &format!("cut at {len}"));
        assert!(shelf.forwards().is_err() || !shelf.forwards().unwrap().looks_whole(), "cut at {len}");
    }
}

#[test]
fn a_log_with_any_bit_flipped_gives_nothing_wrong_and_never_looks_whole_unless_it_is() {
    let (bytes, plain) = small_log();
    let all = lines_of(&plain, 0, |_| true);
    let shelf = PackedDir::new();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&shelf, &flipped, &all, &format!("bit {bit}"));
    }
}

#[test]
fn what_is_copied_is_whole_or_not_copied() {
    let (mut bytes, plain) = small_log();
    let shelf = PackedDir::new();
    shelf.put(&bytes);
    let strict = || open_strict(RealDisk.open(&shelf.path(), Access::Read)?);
    assert_eq!(all_of(&*strict().unwrap()).unwrap(), plain);
    shelf.put(&bytes[..bytes.len() - 1]);
    assert_eq!(strict().unwrap_err().kind(), ErrorKind::InvalidData);
    let middle = open(&bytes).unwrap().table.packed(1).end as usize - 1;
    bytes[middle] ^= 1;
    shelf.put(&bytes);
    assert_eq!(all_of(&*strict().unwrap()).unwrap_err().kind(), ErrorKind::InvalidData);
}
