//! A temporary log and a few ways to hurt and to look at it. No test here, but the entry of child processes.
//!
//! Lines are built by hand with the crc32c of another crate, not with the engine's own encoder: a change of the
//! format must fail here.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent_log::fs::{Access, DirEntry, DiskFile, FileId, FileState, FileSystem, PathInfo};
use manent_log::{
    Body, Damage, Disk, Durability, Error, Expect, Log, LogEnd, LogItem, LogReceipt, Options, Reader,
    RealDisk, ReverseReader, VerifyReport, verify,
};

/// One log in a directory of its own.
pub(crate) struct Scene {
    dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Scene {
    /// There is no log yet.
    pub(crate) fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("chat.jsonl");
        Scene { dir, path }
    }

    /// A log with these bytes.
    pub(crate) fn with(bytes: impl AsRef<[u8]>) -> Scene {
        let scene = Scene::new();
        scene.write(bytes);
        scene
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub(crate) fn len(&self) -> u64 {
        std::fs::metadata(&self.path).unwrap().len()
    }

    pub(crate) fn write(&self, bytes: impl AsRef<[u8]>) {
        std::fs::write(&self.path, bytes).unwrap();
    }

    /// Appends as a program does that knows nothing of leases.
    pub(crate) fn append_raw(&self, bytes: impl AsRef<[u8]>) {
        let mut file = std::fs::OpenOptions::new().append(true).open(&self.path).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    /// Changes bytes in place.
    pub(crate) fn poke(&self, offset: u64, bytes: &[u8]) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.path).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    pub(crate) fn set_len(&self, len: u64) {
        std::fs::OpenOptions::new().write(true).open(&self.path).unwrap().set_len(len).unwrap();
    }

    pub(crate) fn open(&self) -> Log {
        self.try_open().unwrap()
    }

    pub(crate) fn try_open(&self) -> Result<Log, Error> {
        Log::open(&RealDisk::shared(), &self.path, &with_header())
    }

    /// Opens, appends one record without waiting for the disk, and closes.
    pub(crate) fn append(&self, text: &str) -> LogReceipt {
        self.open().append(&turn(text), Durability::Flush, Expect::Any).unwrap()
    }

    pub(crate) fn verify(&self) -> VerifyReport {
        verify(&RealDisk::shared(), &self.path).unwrap()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&RealDisk::shared(), &self.path).unwrap()
    }

    /// Everything a forward reader gives, and how the file ends.
    pub(crate) fn read(&self) -> (Vec<ReadItem>, LogEnd) {
        let mut reader = self.reader();
        let got = drain(&mut reader);
        (got, reader.end())
    }

    pub(crate) fn read_back(&self) -> Vec<ReadItem> {
        let file = RealDisk.open(&self.path, Access::Read).unwrap();
        let mut reader = ReverseReader::new(&*file, &self.path).unwrap();
        let mut got = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            got.push(ReadItem::of(&item));
        }
        got
    }

    /// Names and bytes of the torn ends that were set aside, in the order of their names.
    pub(crate) fn torn_copies(&self) -> Vec<(OsString, Vec<u8>)> {
        let mut copies: Vec<_> = std::fs::read_dir(self.dir())
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_name().to_string_lossy().contains(".torn-"))
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect();
        copies.sort();
        copies
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.dir())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// An item that a reader gave, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadItem {
    Entry { seq: u64, offset: u64, bytes: Vec<u8>, verified: bool },
    Damage(Damage),
}

impl ReadItem {
    pub(crate) fn of(item: &LogItem<'_>) -> ReadItem {
        match *item {
            LogItem::Entry(e) => ReadItem::Entry {
                seq: e.seq,
                offset: e.offset,
                bytes: e.bytes.to_vec(),
                verified: e.verified,
            },
            LogItem::Damage(damage) => ReadItem::Damage(damage),
        }
    }

    pub(crate) fn is_entry(&self) -> bool {
        matches!(self, ReadItem::Entry { .. })
    }
}

/// Reads on to the end.
pub(crate) fn drain(reader: &mut Reader) -> Vec<ReadItem> {
    let mut got = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        got.push(ReadItem::of(&item));
    }
    got
}

/// The numbers of the entries, in order.
pub(crate) fn seqs(got: &[ReadItem]) -> Vec<u64> {
    got.iter().filter_map(|g| if let ReadItem::Entry { seq, .. } = g { Some(*seq) } else { None }).collect()
}

/// The bytes of the entries, in order.
pub(crate) fn lines(got: &[ReadItem]) -> Vec<&[u8]> {
    got.iter()
        .filter_map(|g| if let ReadItem::Entry { bytes, .. } = g { Some(bytes.as_slice()) } else { None })
        .collect()
}

/// The damage, in order.
pub(crate) fn damages(got: &[ReadItem]) -> Vec<Damage> {
    got.iter().filter_map(|g| if let ReadItem::Damage(damage) = g { Some(*damage) } else { None }).collect()
}

/// One record by hand, without its newline.
pub(crate) fn record(seq: u64, members: &str) -> Vec<u8> {
    let mut line = format!(r#"{{"seq":{seq},{members}"#).into_bytes();
    let crc = crc32c::crc32c(&line);
    line.extend_from_slice(format!(r#","crc":"{crc:08x}"}}"#).as_bytes());
    line
}

/// A turn by hand, without its newline: what [`turn`] becomes in the file.
pub(crate) fn turn_line(seq: u64, text: &str) -> Vec<u8> {
    record(seq, &format!(r#""ts":"2026-11-15T18:07:00.123Z","role":"user","content":"{text}""#))
}

/// Another program's line, without its newline.
pub(crate) fn plain_line(text: &str) -> Vec<u8> {
    format!(r#"{{"role":"user","content":"{text}"}}"#).into_bytes()
}

/// The header by hand, without its newline: what [`header`] becomes in the file.
pub(crate) fn header_line() -> Vec<u8> {
    record(0, r#""ts":"2026-11-15T18:07:00.123Z","meta":{"format":1,"id":"x","key":"telegram:alice"}"#)
}

/// Lines of a native file: the header and `count` turns, each different.
pub(crate) fn native_lines(count: u64) -> Vec<Vec<u8>> {
    std::iter::once(header_line())
        .chain((1..=count).map(|seq| turn_line(seq, &format!("turn {seq}"))))
        .collect()
}

/// Each line with its newline.
pub(crate) fn file_of(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_slice(), b"\n"].concat()).collect()
}

pub(crate) fn native(count: u64) -> Vec<u8> {
    file_of(&native_lines(count))
}

pub(crate) fn header() -> Body {
    let mut body = Body::new();
    body.string("ts", "2026-11-15T18:07:00.123Z");
    body.json("meta", serde_json::from_str(r#"{"format":1,"id":"x","key":"telegram:alice"}"#).unwrap());
    body
}

pub(crate) fn with_header() -> Options {
    Options { header: Some(header()), ..Options::default() }
}

pub(crate) fn turn(text: &str) -> Body {
    let mut body = Body::new();
    body.string("ts", "2026-11-15T18:07:00.123Z").string("role", "user").string("content", text);
    body
}

pub(crate) fn mode_of(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Numbers that look random and are the same in every run (xorshift64*).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Runs every case, several at a time: most of a recovery is waiting for the disk.
pub(crate) fn at_once<T: Sync>(cases: &[T], run: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(case);
                }
            });
        }
    });
}

/// The moment at which another program meddles with a file on a [`GrowingDisk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Right after a reader was told that the file ends.
    AtTheEnd,
    /// Right before an append, after everything was checked for it.
    BeforeAnAppend,
    /// Right before a lock is taken, after the file was opened: a new file is moved into its place.
    BeforeTheLock,
}

/// The real disk, on which another program appends to one file (or replaces it), once, at the worst moment.
#[derive(Debug)]
pub(crate) struct GrowingDisk {
    path: PathBuf,
    moment: Moment,
    growth: Arc<Mutex<Vec<u8>>>,
}

#[derive(Debug)]
struct GrowingFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    moment: Moment,
    growth: Arc<Mutex<Vec<u8>>>,
}

impl GrowingDisk {
    pub(crate) fn shared(path: &Path, moment: Moment, growth: Vec<u8>) -> Arc<dyn Disk> {
        Arc::new(GrowingDisk { path: path.to_owned(), moment, growth: Arc::new(Mutex::new(growth)) })
    }
}

impl GrowingFile {
    fn grow(&self) -> io::Result<()> {
        let growth = std::mem::take(&mut *self.growth.lock().unwrap());
        std::fs::OpenOptions::new().append(true).open(&self.path)?.write_all(&growth)
    }
}

impl Disk for GrowingDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let file = RealDisk.open(path, access)?;
        let (path, moment, growth) = (self.path.clone(), self.moment, self.growth.clone());
        Ok(Box::new(GrowingFile { file, path, moment, growth }))
    }
    fn inspect(&self, path: &Path) -> io::Result<PathInfo> {
        RealDisk.inspect(path)
    }
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.resolve(path)
    }
    fn is_own(&self, owner: u32) -> bool {
        RealDisk.is_own(owner)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        RealDisk.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename_new(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.sync_dir(dir)
    }
    fn file_system(&self, path: &Path) -> io::Result<FileSystem> {
        RealDisk.file_system(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        RealDisk.free_bytes(path)
    }
}

impl DiskFile for GrowingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset)?;
        if read == 0 && self.moment == Moment::AtTheEnd {
            self.grow()?;
        }
        Ok(read)
    }
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.moment == Moment::BeforeAnAppend {
            self.grow()?;
        }
        self.file.append(bytes)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn state(&self) -> io::Result<FileState> {
        self.file.state()
    }
    fn id(&self) -> io::Result<FileId> {
        self.file.id()
    }
    fn try_lock(&self) -> io::Result<bool> {
        if self.moment == Moment::BeforeTheLock {
            let new = std::mem::take(&mut *self.growth.lock().unwrap());
            if !new.is_empty() {
                let beside = self.path.with_extension("new");
                std::fs::write(&beside, new)?;
                std::fs::rename(beside, &self.path)?;
            }
        }
        self.file.try_lock()
    }
    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
    fn lock_holder(&self) -> Option<u32> {
        self.file.lock_holder()
    }
}

/// The user that a child process runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunAs {
    Us,
    /// The user nobody: permissions mean nothing to root.
    Nobody,
}

/// This test binary again, in a process of its own, doing one of the tasks of [`child`].
pub(crate) fn spawn_child(task: &str, path: &Path, umask: &str, run_as: RunAs) -> io::Result<Child> {
    let mut command = Command::new("sh");
    let this = std::env::current_exe()?;
    command
        .arg("-c")
        .arg(format!(r#"umask {umask}; exec "$0" --exact support::child --nocapture"#))
        .arg(this);
    command.env(TASK, task).env(PATH, path).current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped());
    if run_as == RunAs::Nobody {
        command.uid(65534).gid(65534);
    }
    command.spawn()
}

/// Waits until the child says so; false if it ended without.
pub(crate) fn wait_until_ready(child: &mut Child) -> bool {
    let out = BufReader::new(child.stdout.as_mut().unwrap());
    out.lines().map_while(Result::ok).any(|line| line.contains("child is ready"))
}

/// Does nothing in an ordinary run.
#[test]
fn child() {
    let (Ok(task), Some(path)) = (std::env::var(TASK), std::env::var_os(PATH)) else { return };
    let scene = PathBuf::from(path);
    let open = || Log::open(&RealDisk::shared(), &scene, &with_header());
    match task.as_str() {
        "hold" => {
            let _log = open().unwrap();
            println!("child is ready");
            std::thread::sleep(Duration::from_mins(1));
        }
        "write" => {
            open().unwrap().append(&turn("from a child"), Durability::Sync, Expect::Any).unwrap();
            println!("child is ready");
        }
        "be_refused" => {
            let refused = open().expect_err("an ordinary user may not write here");
            let Error::Io { source, .. } = &refused else { panic!("{refused}") };
            assert_eq!(source.kind(), io::ErrorKind::PermissionDenied, "{refused}");
            if scene.exists() {
                let report = verify(&RealDisk::shared(), &scene).unwrap();
                assert!(
                    report.is_sound() && report.records > 0,
                    "reading needs no right to write: {report:?}"
                );
            }
            println!("child is ready");
        }
        other => panic!("no task {other}"),
    }
}

const TASK: &str = "MANENT_TEST_CHILD_TASK";
const PATH: &str = "MANENT_TEST_CHILD_PATH";
