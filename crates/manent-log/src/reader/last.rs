//! Standing before the last entries of a log.
//!
//! Nearly every log is whole at its end, and a few pages tell: these are read once, looked at from the end backwards,
//! and then given forwards out of the same memory. Anything unusual (damage, a torn end, another program's lines, a
//! tail of megabytes) is left to the readers that know about it, as if nothing had been looked at.

use std::path::Path;
use std::sync::Arc;

use super::{LogItem, Reader, Resume};
use crate::error::{Error, Result};
use crate::frame;
use crate::fs::{Disk, read_fully};
use crate::header::Header;
use crate::lines::{SMALL_BLOCK_BYTES, TAIL_BYTES};
use crate::reverse::ReverseReader;
use crate::tail::{self, Origin};

impl Reader {
    /// Opens a log and stands before its last `count` entries for which `wanted` is true.
    ///
    /// Costs the tail, not the length, if the file is native.
    pub fn open_tail(
        disk: &Arc<dyn Disk>,
        path: &Path,
        count: u64,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Reader> {
        Ok(Reader::open_last(disk, path, None, count, wanted)?.0)
    }

    /// As [`Reader::open_tail`], of what stands before the number `before`; and how many of the wanted entries were not
    /// there. The reader itself goes on behind that number.
    pub fn open_last(
        disk: &Arc<dyn Disk>,
        path: &Path,
        before: Option<u64>,
        count: u64,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<(Reader, u64)> {
        let mut reader = Reader::open_sized(disk, path, TAIL_BYTES)?;
        let missing = reader.seek_last(before, count, wanted)?;
        Ok((reader, missing))
    }

    /// Moves before the last `count` entries for which `wanted` is true, of those before the number `before`, and
    /// returns how many of them were not there. The reader itself goes on behind that number.
    pub fn seek_last(
        &mut self,
        before: Option<u64>,
        count: u64,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<u64> {
        if let Some(seq) = before {
            self.seek_seq(seq)?;
            return self.walk_back(count, wanted, Some(self.resume));
        }
        self.reset(TAIL_BYTES);
        if let Some(left) = self.glance_back(count, &wanted)? {
            return Ok(left);
        }
        self.reset(SMALL_BLOCK_BYTES);
        self.walk_back(count, wanted, None)
    }

    /// The first line, where the file is ours and nothing damaged stands before it.
    pub fn header_line(&self) -> Result<Option<Vec<u8>>> {
        if let Some(line) = self.origin.as_ref().and_then(|origin| origin.header_line.clone()) {
            return Ok(Some(line));
        }
        Ok(tail::detect_at_once(&*self.file, &self.path)?.and_then(|origin| origin.header_line))
    }

    /// Goes back over the wanted entries one by one, from a place or the end; gives how many were not there.
    fn walk_back(&mut self, count: u64, wanted: impl Fn(&[u8]) -> bool, from: Option<Resume>) -> Result<u64> {
        let mut back = match from {
            None => ReverseReader::of_file(&*self.file, &self.path)?,
            Some(Resume { offset, next_seq, .. }) => {
                ReverseReader::before(&*self.file, &self.path, offset, next_seq.unwrap_or(0))?
            }
        };
        let mut left = count;
        let mut start = Resume { offset: back.end_offset, next_seq: Some(back.next_seq), after_gap: false };
        while left > 0 {
            match back.next()? {
                None => break,
                Some(LogItem::Damage(_)) => {}
                Some(LogItem::Entry(entry)) => {
                    start = Resume { offset: entry.offset, next_seq: Some(entry.seq), after_gap: false };
                    left -= u64::from(wanted(entry.bytes));
                }
            }
        }
        let origin = back.origin;
        if left == 0 {
            self.origin = origin;
            self.go_to(start);
        } else {
            // Fewer than wanted: the file begins here, and what stands before the first entry is to be named too.
            self.origin = None;
            self.go_to(Resume::default());
        }
        Ok(left)
    }

    /// As [`Reader::walk_back`] from the end, of a log that is ours and whole: every record back to the first that is
    /// wanted verifies, and each follows the one before it. Nothing: it is not, or that cannot be told in a few blocks.
    fn glance_back(&mut self, count: u64, wanted: impl Fn(&[u8]) -> bool) -> Result<Option<u64>> {
        let len = self.file.state().map_err(Error::io("inspect", &self.path))?.len;
        self.lines.stand_at_end(len);
        let (mut left, mut start, mut next) = (count, len, None);
        while left > 0 && next != Some(0) {
            let base = self.lines.position();
            let line = match self.lines.held().get(..(start - base) as usize) {
                None | Some([]) => None,
                Some([before @ .., b'\n']) => {
                    let first = (base == 0).then_some(0);
                    let at = memchr::memrchr(b'\n', before).map(|newline| newline + 1).or(first);
                    at.map(|at| (base + at as u64, &before[at..]))
                }
                Some(_) => return Ok(None),
            };
            let Some((offset, line)) = line else {
                let filled = self.lines.fill_back(&*self.file).map_err(Error::io("read", &self.path))?;
                if filled {
                    continue;
                }
                return Ok(None);
            };
            let Some(seq) = frame::verify(line).filter(|seq| (*seq == 0) == (offset == 0)) else {
                return Ok(None);
            };
            let after = if seq == 0 { Header::parse(line).first_seq } else { seq + 1 };
            if next.is_some_and(|next| next != after) {
                return Ok(None);
            }
            left -= u64::from(wanted(line));
            (start, next) = (offset, Some(seq));
        }
        let Some(origin) = self.origin_at_once()?.filter(|_| next.is_some()) else { return Ok(None) };
        self.origin = Some(origin);
        self.stand_at(Resume { offset: start, next_seq: next, after_gap: false });
        self.lines.pass_to(start);
        self.verified_to = len;
        Ok(Some(left))
    }

    /// Whose file it is, if it begins with a header of ours.
    fn origin_at_once(&self) -> Result<Option<Origin>> {
        let mut first = [0; HEADER_BYTES];
        let bytes = if self.lines.position() == 0 {
            self.lines.held()
        } else {
            let n = read_fully(&*self.file, &mut first, 0).map_err(Error::io("read", &self.path))?;
            &first[..n]
        };
        let line = memchr::memchr(b'\n', bytes).map(|end| &bytes[..end]);
        Ok(line.filter(|line| frame::verify(line) == Some(0)).map(|line| Origin::native(line, 0)))
    }
}

/// Longer than nearly every header.
const HEADER_BYTES: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::RealDisk;
    use crate::{Body, LogEnd};

    /// What can be said of an item when its bytes are gone.
    fn told(reader: &mut Reader) -> (Vec<String>, LogEnd) {
        let mut all = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            all.push(match item {
                LogItem::Entry(e) => {
                    format!("{} {} {} {:?}", e.seq, e.offset, e.verified, String::from_utf8_lossy(e.bytes))
                }
                LogItem::Damage(damage) => format!("{damage:?}"),
            });
        }
        (all, reader.end())
    }

    fn is_turn(line: &[u8]) -> bool {
        memchr::memmem::find(line, b"\"role\"").is_some()
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % n
        }
    }

    /// A log, of which most are whole and some are hurt or another program's.
    fn file(random: &mut Random) -> Vec<u8> {
        let mut bytes = Vec::new();
        let first = if random.below(4) == 0 { 8 } else { 1 };
        let mut header = Body::new();
        let mut meta = Body::new();
        meta.number("format", 1);
        if first > 1 {
            let mut parent = Body::new();
            parent.number("upto", first - 1);
            meta.object("parent", &parent);
        }
        header.object("meta", &meta);
        if random.below(8) > 0 {
            bytes.extend(frame::line(0, &header));
        }
        let long = [10, 300, 5_000, 90_000][random.below(4)];
        for n in 0..random.below(40) as u64 {
            let mut body = Body::new();
            let name = if random.below(4) == 0 { "kind" } else { "role" };
            body.string(name, "user").string("content", &"x".repeat(random.below(long)));
            bytes.extend(frame::line(first + n, &body));
            match random.below(150) {
                0 => bytes.extend(b"{\"role\":\"other\"}\n"),
                1 => bytes.extend(b"\n"),
                2 => bytes.extend(b"no record\n"),
                3 => bytes.truncate(bytes.len() - 1),
                _ => {}
            }
        }
        match random.below(6) {
            0 => bytes.truncate(bytes.len() - random.below(bytes.len().min(60) + 1)),
            1 if !bytes.is_empty() => {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            2 => bytes.extend([b"\n\n".as_slice(), b"{\"role\":\"a\"}\n", b"{\"seq\":9"][random.below(3)]),
            _ => {}
        }
        bytes
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test lays out the disk")]
    fn a_glance_gives_what_a_walk_gives_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let disk = RealDisk::shared();
        let mut random = Random(11);
        let mut glances = 0;
        for life in 0..300 {
            let bytes = file(&mut random);
            std::fs::write(&path, &bytes).unwrap();
            for count in [0, 1, 3, 20, 1000] {
                let mut walking = Reader::open_small(&disk, &path).unwrap();
                let walked = walking.walk_back(count, is_turn, None);
                let mut glancing = Reader::open_sized(&disk, &path, TAIL_BYTES).unwrap();
                let Some(left) = glancing.glance_back(count, is_turn).unwrap() else { continue };
                glances += 1;
                assert_eq!(left, walked.unwrap(), "life {life}, {count}");
                assert_eq!(glancing.header_line().unwrap(), walking.header_line().unwrap());
                assert_eq!(told(&mut glancing), told(&mut walking), "life {life}, {count}");
                // And on, when the file has grown.
                let next = glancing.next_seq().unwrap();
                let grown = [bytes.as_slice(), &frame::line(next, Body::new().string("role", "a"))].concat();
                std::fs::write(&path, grown).unwrap();
                assert_eq!(told(&mut glancing), told(&mut walking), "life {life}, {count}, grown");
                std::fs::write(&path, &bytes).unwrap();
            }
        }
        assert!(glances > 300, "only {glances} glances");
    }
}
