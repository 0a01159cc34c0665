//! Packing: what comes back, and what it costs to read. What damaged and hostile files can do is in
//! `damage.rs`, and what the engine makes of them in `readers.rs`.

mod damage;
mod readers;

use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use manent_log::fs::{Access, Disk, DiskFile, FileId, FileState, RealDisk, read_fully, write_fully};
use manent_log::{Body, Durability, Expect, Log, LogItem, Options, Reader, ReverseReader};

use crate::threads::without_threads;

use super::table::TableEnd;
use super::*;

/// A file in memory: thousands of damaged ones are opened here.
#[derive(Debug, Default, Clone)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// The disk has failed: nothing can be read.
    failed: Arc<AtomicBool>,
}

impl Memory {
    fn of(bytes: &[u8]) -> Memory {
        Memory { bytes: Arc::new(Mutex::new(bytes.to_vec())), ..Memory::default() }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl DiskFile for Memory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk failed"));
        }
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let n = rest.len().min(buffer.len());
        buffer[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn state(&self) -> io::Result<FileState> {
        Ok(FileState { len: self.bytes.lock().unwrap().len() as u64, links: 1 })
    }

    fn id(&self) -> io::Result<FileId> {
        Ok(FileId { device: 1, inode: 1 })
    }

    fn try_lock(&self) -> io::Result<bool> {
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock_holder(&self) -> Option<u32> {
        None
    }
}

/// The same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// Lines of words and numbers, each at most so long, for so many bytes.
    fn lines(&mut self, bytes: usize, line_max: usize) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes + line_max);
        while text.len() < bytes {
            let end = text.len() + self.below(line_max);
            while text.len() < end {
                text.extend_from_slice(["read ", "the ", "file ", "again "][self.below(4)].as_bytes());
                text.extend_from_slice(self.below(1_000_000).to_string().as_bytes());
            }
            text.truncate(end);
            text.push(b'\n');
        }
        text.truncate(bytes);
        text
    }
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let (source, target) = (Memory::of(plain), Memory::default());
    let mut done = 0;
    pack(&source, plain.len() as u64, &target, &mut |n| done = n).unwrap();
    assert_eq!(done, plain.len() as u64);
    target.bytes()
}

/// A packed file of frames that are smaller than we would make them.
fn packed_in_pieces(pieces: &[&[u8]]) -> Vec<u8> {
    let (mut bytes, mut table) = (Vec::new(), Table::empty());
    for piece in pieces {
        let frame = fast_compressor().unwrap().compress(piece).unwrap();
        table.push(frame.len(), piece.len());
        bytes.extend(frame);
    }
    bytes.extend(table.to_bytes());
    bytes
}

fn open(bytes: &[u8]) -> io::Result<Packed> {
    Packed::open(boxed(bytes))
}

fn boxed(bytes: &[u8]) -> Box<dyn DiskFile> {
    Box::new(Memory::of(bytes))
}

fn all_of(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.state()?.len as usize + 1];
    let n = read_fully(file, &mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Unpacks with stock zstd.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut plain).unwrap();
    plain
}

fn samples() -> Vec<Vec<u8>> {
    let mut random = Random(1);
    let mut samples = vec![Vec::new(), b"\n".to_vec(), b"x".to_vec(), vec![b'\n'; 3 << 20]];
    for bytes in [100, 70_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2 << 20, 5_000_000] {
        for line_max in [30, 3_000, 900_000] {
            samples.push(random.lines(bytes, line_max));
        }
    }
    // A line of 3 MiB, alone, and among short ones.
    samples.push(vec![b'a'; 3 << 20]);
    let long: Vec<u8> =
        random.lines(3 << 20, 200).iter().map(|b| if *b == b'\n' { b' ' } else { *b }).collect();
    samples.push([b"first\n", &long[..], b"\n", &random.lines(300_000, 200)].concat());
    // What cannot be compressed, newlines included.
    samples.push((0..2_500_000).map(|_| random.below(256) as u8).collect());
    samples
}

#[test]
fn what_was_packed_comes_back_here_and_from_stock_zstd() {
    for plain in samples() {
        let bytes = packed(&plain);
        let file = open(&bytes).unwrap();
        assert_eq!(file.state().unwrap(), FileState { len: plain.len() as u64, links: 1 });
        assert!(all_of(&file).unwrap() == plain, "{} bytes read", plain.len());
        assert!(decoded(&bytes) == plain, "{} bytes decoded", plain.len());
        compare(boxed(&bytes), &Memory::of(&plain), plain.len() as u64, &mut |_| {}).unwrap();
    }
}

#[test]
fn frames_are_small_and_end_with_a_line_where_they_can() {
    for plain in samples() {
        let table = open(&packed(&plain)).unwrap().table;
        let len = plain.len() as u64;
        for frame in 0..table.frames() {
            let place = table.plain(frame);
            let bytes = &plain[place.start as usize..place.end as usize];
            assert!(bytes.len() <= FRAME_BYTES_MAX);
            if frame + 1 == table.frames() {
                continue;
            }
            let whole_piece = bytes.len() == FRAME_BYTES_MAX && !bytes.contains(&b'\n');
            assert!(bytes.ends_with(b"\n") || whole_piece, "frame {frame} of {len}");
            let lines = memchr::memchr_iter(b'\n', bytes).count();
            assert!(bytes.len() <= frame_bytes(place.start, len) || lines <= 1, "frame {frame} of {len}");
            let two = table.plain(frame + 1).end - place.start;
            assert!(two > frame_bytes(place.start, len) as u64, "this is what bounds the table");
        }
        let is_small = |frame: &usize| frame_bytes(table.plain(*frame).start, len) < FRAME_BYTES_MAX;
        assert!((0..table.frames()).filter(is_small).count() < SMALL_FRAMES_MAX);
        assert!(table.frames() as u64 <= len / FRAME_BYTES_MAX as u64 * 2 + SMALL_FRAMES_MAX as u64);
    }
}

#[test]
fn a_small_file_is_one_frame_and_a_large_one_begins_and_ends_with_small_ones() {
    let random = &mut Random(12);
    assert_eq!(open(&packed(&random.lines(FRAME_BYTES_MAX, 500))).unwrap().table.frames(), 1);
    let plain = random.lines(9_000_000, 500);
    let table = open(&packed(&plain)).unwrap().table;
    let bytes = |frame| table.plain(frame).end - table.plain(frame).start;
    assert!(bytes(0) <= 16 << 10 && bytes(1) > 1_000_000);
    // The last n bytes are in frames of at most n and a half, and one small one.
    for n in [50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000] {
        let first = table.frame_at(plain.len() as u64 - n).unwrap();
        let cost = plain.len() as u64 - table.plain(first).start;
        assert!(cost <= n + n / 2 + (64 << 10), "{n} bytes cost {cost}");
    }
}

#[test]
fn the_zstd_command_unpacks_it_if_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    for (n, plain) in [Vec::new(), Random(2).lines(2_500_000, 3_000)].iter().enumerate() {
        let path = dir.path().join(format!("{n}.jsonl.zst"));
        let file = RealDisk.open(&path, Access::CreateNew).unwrap();
        pack(&Memory::of(plain), plain.len() as u64, &*file, &mut |_| {}).unwrap();
        let Ok(output) = Command::new("zstd").args(["-d", "-c", "-q"]).arg(&path).output() else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == *plain);
    }
}

#[test]
fn any_place_reads_as_in_the_plain_file() {
    let mut random = Random(3);
    let plain = random.lines(4_000_000, 300_000);
    let file = open(&packed(&plain)).unwrap();
    let mut buffer = vec![0; 2_000_000];
    for _ in 0..60 {
        let (offset, wanted) = (random.below(plain.len() + 10), random.below(buffer.len()));
        let n = read_fully(&file, &mut buffer[..wanted], offset as u64).unwrap();
        let rest = plain.get(offset..).unwrap_or_default();
        assert!(buffer[..n] == rest[..wanted.min(rest.len())], "{wanted} bytes at {offset}");
    }
    assert_eq!(file.read_at(&mut buffer, u64::MAX).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
}

#[test]
fn a_pass_decompresses_each_frame_once_and_a_tail_only_the_last() {
    let plain = Random(4).lines(6_000_000, 2_000);
    let bytes = packed(&plain);
    let (file, len) = (open(&bytes).unwrap(), plain.len());
    let frames = file.table.frames();
    assert!(frames > 10);
    assert_eq!(file.unpacked_so_far(), 0, "opening reads only the table");

    let mut block = vec![0; 64 << 10];
    read_fully(&file, &mut block, (len - (64 << 10)) as u64).unwrap();
    assert!(file.unpacked_so_far() <= 2);

    let file = open(&bytes).unwrap();
    for offset in (0..len).step_by(block.len()) {
        read_fully(&file, &mut block, offset as u64).unwrap();
    }
    assert_eq!(file.unpacked_so_far(), frames, "forwards");

    let file = open(&bytes).unwrap();
    for end in (block.len()..=len).rev().step_by(block.len()) {
        read_fully(&file, &mut block, (end - (64 << 10)) as u64).unwrap();
    }
    read_fully(&file, &mut block, 0).unwrap();
    assert_eq!(file.unpacked_so_far(), frames, "backwards");
    assert!(file.kept_bytes() <= 2 * FRAME_BYTES_MAX);
}

/// Everything a reader gives, in a form that can be compared.
fn items(mut next: impl FnMut() -> Option<String>) -> Vec<String> {
    std::iter::from_fn(&mut next).collect()
}

fn describe(item: LogItem<'_>) -> String {
    match item {
        LogItem::Entry(entry) => format!("{entry:?}"),
        LogItem::Damage(damage) => format!("{damage:?}"),
    }
}

fn forwards(mut reader: Reader) -> Vec<String> {
    let mut found = items(|| reader.next().unwrap().map(describe));
    found.push(format!("{:?} {:?} {}", reader.end(), reader.change().unwrap(), reader.position()));
    found
}

/// A log of some megabytes.
fn whole_log() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = &dir.path().join("source.jsonl");
    let mut header = Body::new();
    header.json("meta", serde_json::from_str(r#"{"format":1}"#).unwrap());
    let options = Options { header: Some(header), ..Options::default() };
    let mut log = Log::open(&RealDisk::shared(), path, &options).unwrap();
    let mut random = Random(5);
    for _ in 0..100 {
        let bodies: Vec<Body> = (0..15)
            .map(|_| {
                let length = random.below(4_000);
                let text = String::from_utf8(random.lines(length, 300)).unwrap();
                let mut body = Body::new();
                body.string("role", "user").string("content", &text);
                body
            })
            .collect();
        log.append_batch(&bodies, Durability::Flush, Expect::Any).unwrap();
    }
    drop(log);
    all_of(&*RealDisk.open(path, Access::Read).unwrap()).unwrap()
}

/// The same, damaged in the middle and torn at its end.
fn hurt_log() -> Vec<u8> {
    let mut bytes = whole_log();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(b'~');
    bytes.extend(b"{\"seq\":9,\"ro");
    bytes
}

#[test]
fn readers_find_the_same_in_a_packed_log_as_in_the_plain_one() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = hurt_log();
    let (plain_at, packed_at) = (dir.path().join("chat.jsonl"), dir.path().join("chat.jsonl.zst"));
    let plain = RealDisk.open(&plain_at, Access::CreateNew).unwrap();
    write_fully(&*plain, &bytes).unwrap();
    let target = RealDisk.open(&packed_at, Access::CreateNew).unwrap();
    pack(&*plain, bytes.len() as u64, &*target, &mut |_| {}).unwrap();

    let both = |read: &dyn Fn(&Path) -> Vec<String>| {
        let (from_plain, from_packed) = (read(&plain_at), read(&packed_at));
        assert!(from_plain == from_packed, "{} and {} items", from_plain.len(), from_packed.len());
        from_plain.len()
    };
    let reader = |path: &Path| {
        let is_packed = path == packed_at;
        Reader::open_with(
            &RealDisk::shared(),
            path,
            |file| if is_packed { super::open(file) } else { Ok(file) },
        )
        .unwrap()
    };
    let seeking = |path: &Path, seek: &dyn Fn(&mut Reader)| {
        let mut reader = reader(path);
        seek(&mut reader);
        forwards(reader)
    };
    assert!(both(&|path| forwards(reader(path))) > 1_490);
    for count in [0, 1, 7, 900, 5_000] {
        both(&|path| seeking(path, &|reader| assert!(reader.seek_last(None, count, |_| true).is_ok())));
    }
    for seq in [0, 1, 700, 750, 1_499, 1_500, 9_999] {
        both(&|path| seeking(path, &|reader| reader.seek_seq(seq).unwrap()));
    }
    let backwards = |path: &Path| {
        let file = RealDisk.open(path, Access::Read).unwrap();
        let file = if path == packed_at { super::open(file).unwrap() } else { file };
        let mut reader = ReverseReader::new(&*file, path).unwrap();
        items(|| reader.next().unwrap().map(describe))
    };
    assert!(both(&backwards) > 1_490);
}

#[test]
fn packed_file_is_read_as_plain_and_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let (plain_at, packed_at) = (dir.path().join("a.jsonl"), dir.path().join("a.jsonl.zst"));
    let file = RealDisk.open(&plain_at, Access::CreateNew).unwrap();
    write_fully(&*file, b"a line\n").unwrap();
    let target = RealDisk.open(&packed_at, Access::CreateNew).unwrap();
    pack(&*file, 7, &*target, &mut |_| {}).unwrap();
    let again = pack(&*file, 7, &*target, &mut |_| {}).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::InvalidInput, "the target has bytes already");

    let opened = super::open(RealDisk.open(&packed_at, Access::Read).unwrap()).unwrap();
    assert_eq!(all_of(&*opened).unwrap(), b"a line\n");
    assert_eq!(opened.id().unwrap(), target.id().unwrap());
    assert!(opened.try_lock().unwrap() && !target.try_lock().unwrap());
    assert_eq!(opened.append(b"x").unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(opened.set_len(0).unwrap_err().kind(), ErrorKind::Unsupported);
    RealDisk.remove(&packed_at).unwrap();
    assert_eq!(opened.state().unwrap(), FileState { len: 7, links: 0 });
}

#[test]
fn a_difference_is_named_with_its_place() {
    let mut plain = Random(6).lines(2_500_000, 500);
    let (bytes, len) = (packed(&plain), plain.len() as u64);
    let message = |plain: &[u8], len| {
        let error = compare(boxed(&bytes), &Memory::of(plain), len, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        error.to_string()
    };
    assert!(message(&plain[..2_400_000], len).contains("differ at byte 2400000;"));
    assert!(message(&plain, len - 1).contains("holds 2500000 bytes, the plain one 2499999"));
    plain[1_234_567] ^= 1;
    assert!(message(&plain, len).contains("differ at byte 1234567;"));
}

#[test]
fn pack_without_threads_gives_the_same_bytes() {
    let plain = Random(7).lines(6 << 20, 500);
    assert_eq!(without_threads(|| packed(&plain)), packed(&plain));
}
