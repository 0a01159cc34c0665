//! The history of typed lines, kept for the next chat: a file with one line an entry that is only ever appended to, so
//! that two chats at once lose nothing of each other.
//!
//! The history is a convenience and may hold secrets. So a file that others could have written or could read is not
//! used, and whatever is wrong with it is a warning, never a failure. When it has grown, the last entries are written
//! anew and put in its place; a lock on the file itself keeps those who add away for that moment.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use manent::log::fs::{Access, Disk, DiskFile, PathInfo, Shape, read_fully, write_fully};
use manent::log::{AtomicFile, CommitSync, Error, FileLock, LockMode};

/// The file of lines that were typed in earlier chats.
#[derive(Debug)]
pub(super) struct HistoryFile {
    disk: Arc<dyn Disk>,
    home: PathBuf,
    /// True if the file cannot be used; a warning said why, and it is left as it is.
    unused: bool,
}

impl HistoryFile {
    pub(super) fn in_home(disk: Arc<dyn Disk>, home: PathBuf) -> HistoryFile {
        HistoryFile { disk, home, unused: false }
    }

    fn path(&self) -> PathBuf {
        self.home.join(FILE_NAME)
    }

    /// Returns the last entries, the oldest first. An error says what is wrong with the file, and what to do.
    pub(super) fn load(&mut self) -> Result<Vec<String>, String> {
        let loaded = self.read();
        self.unused = loaded.is_err();
        loaded.map_err(|why| self.trouble(&why))
    }

    /// Adds an entry. An error is returned once; from then on the file is left alone.
    pub(super) fn add(&mut self, entry: &str) -> Result<(), String> {
        if self.unused || entry.len() > ENTRY_BYTES_MAX || !is_plain(entry) {
            return Ok(());
        }
        self.append(entry).map_err(|why| {
            self.unused = true;
            self.trouble(&why)
        })
    }

    fn trouble(&self, why: &str) -> String {
        format!("what you type is not kept for later: {} {why}", self.path().display())
    }

    fn read(&self) -> Result<Vec<String>, String> {
        let Some(info) = self.look()? else { return Ok(Vec::new()) };
        let file =
            self.disk.open(&self.path(), Access::Read).map_err(|e| format!("cannot be opened: {e}"))?;
        // Between the look and the open somebody may have put another in its place.
        if !file.id().is_ok_and(|id| id == info.id) {
            return Err("was replaced just now".to_owned());
        }
        entries(&*file).map_err(|e| format!("cannot be read: {e}; remove it"))
    }

    /// Looks at the file, if it is there, and refuses one that somebody else could have had a hand in.
    fn look(&self) -> Result<Option<PathInfo>, String> {
        let info = match self.disk.inspect(&self.path()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            looked => looked.map_err(|e| format!("cannot be looked at: {e}"))?,
        };
        if info.shape != Shape::File {
            return Err("is no file; remove it".to_owned());
        }
        if !self.disk.is_own(info.owner) {
            return Err("belongs to somebody else; remove it".to_owned());
        }
        if info.mode & OTHERS != 0 {
            return Err("is open to others; `chmod 600` it, or remove it".to_owned());
        }
        if info.links > 1 {
            return Err("has another name too; remove it".to_owned());
        }
        Ok(Some(info))
    }

    fn append(&self, entry: &str) -> Result<(), String> {
        let plain = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
        let path = self.path();
        for _ in 0..TRIES {
            if self.look()?.is_none() {
                self.disk.create_dir_all(&self.home).map_err(plain("cannot be made"))?;
                match self.disk.open(&path, Access::CreateNew) {
                    // Another chat was faster.
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    made => drop(made.map_err(plain("cannot be made"))?),
                }
            }
            let lock = FileLock::acquire(&*self.disk, &path, Access::Append, LockMode::Exclusive, WAIT);
            let lock = match lock.map_err(|e| (matches!(e, Error::Held { .. }), io::Error::from(e))) {
                Err((true, _)) => return Err("is held by another program".to_owned()),
                // Forgotten in between.
                Err((false, e)) if e.kind() == io::ErrorKind::NotFound => continue,
                Err((false, e)) => return Err(format!("cannot be locked: {e}")),
                Ok(lock) => lock,
            };
            // The locked file is asked, because it need not be the one that was looked at before.
            if self.look()?.is_some_and(|info| info.id == lock.id()) {
                return self.append_to(lock.file(), entry).map_err(plain("cannot be written"));
            }
        }
        Err("was replaced just now".to_owned())
    }

    /// Appends to the file, which the caller has locked.
    fn append_to(&self, file: &dyn DiskFile, entry: &str) -> io::Result<()> {
        let len = file.state()?.len;
        let mut last = [b'\n'];
        if len > 0 {
            read_fully(file, &mut last, len - 1)?;
        }
        // An entry that a crash left without its line break must not swallow this one.
        let before = if last == *b"\n" { "" } else { "\n" };
        let line = format!("{before}{}\n", escaped(entry));
        write_fully(file, line.as_bytes()).map_err(|(_, e)| e)?;
        if len > FILE_BYTES_MAX { self.shorten(file) } else { Ok(()) }
    }

    /// Replaces the file by one with its last entries.
    fn shorten(&self, file: &dyn DiskFile) -> io::Result<()> {
        let mut entries = entries(file)?;
        let old = entries.len().saturating_sub(ENTRIES_MAX / 2);
        entries.drain(..old);
        let text: String = entries.iter().map(|entry| escaped(entry) + "\n").collect();
        let over = text.len().saturating_sub(FILE_BYTES_MAX as usize / 2);
        let cut = if over == 0 { 0 } else { newline_behind(text.as_bytes(), over) };
        let new = self.home.join(format!("{FILE_NAME}.{}.new", std::process::id()));
        let _ = self.disk.remove(&new);
        let made = AtomicFile::create_as(&*self.disk, &self.path(), new)?;
        // A convenience: losing it to a power cut is not worth a sync.
        let mut made = made.with_sync(CommitSync::None);
        made.write_all(&text.as_bytes()[cut..])?;
        made.commit()
    }
}

/// Removes the history. Returns true if there was one. An error says what to do.
pub(crate) fn forget(disk: &dyn Disk, home: &Path) -> Result<bool, String> {
    let path = home.join(FILE_NAME);
    match disk.remove(&path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(format!("{} may hold what was said, and cannot be removed: {e}", path.display())),
    }
}

/// Returns the offset of the line behind the one that holds this byte.
fn newline_behind(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| at + n + 1)
}

/// Returns the last entries of the file.
fn entries(file: &dyn DiskFile) -> io::Result<Vec<String>> {
    let len = file.state()?.len;
    let start = len.saturating_sub(READ_BYTES_MAX);
    let mut bytes = vec![0; (len - start) as usize];
    let read = read_fully(file, &mut bytes, start)?;
    bytes.truncate(read);
    let first = if start == 0 { 0 } else { newline_behind(&bytes, 0) };
    let lines = bytes[first..].split(|byte| *byte == b'\n');
    let entry = |line: &[u8]| std::str::from_utf8(line).ok().map(unescaped);
    let is_good = |entry: &String| !entry.is_empty() && is_plain(entry);
    let mut all: Vec<String> = lines.filter_map(entry).filter(is_good).collect();
    let old = all.len().saturating_sub(ENTRIES_MAX);
    all.drain(..old);
    Ok(all)
}

/// Returns true if the entry holds no character that a terminal would obey.
fn is_plain(entry: &str) -> bool {
    crate::term::block(entry) == entry
}

fn escaped(entry: &str) -> String {
    entry.replace('\\', r"\\").replace('\n', r"\n")
}

fn unescaped(line: &str) -> String {
    let (mut out, mut chars) = (String::with_capacity(line.len()), line.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

const FILE_NAME: &str = "chat_history";
/// The number of entries that are offered; about half of them stay when the file has grown too large.
pub(super) const ENTRIES_MAX: usize = 1000;
/// A longer entry is a document, and stands in the log.
const ENTRY_BYTES_MAX: usize = 16 << 10;
const FILE_BYTES_MAX: u64 = 256 << 10;
/// The file and the entry that made it too long.
const READ_BYTES_MAX: u64 = FILE_BYTES_MAX + 2 * (ENTRY_BYTES_MAX as u64) + 2;
const OTHERS: u32 = 0o077;
const TRIES: u32 = 10;
const WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files are made for it to find")]

    use manent::log::RealDisk;

    use super::*;

    fn history(dir: &Path) -> HistoryFile {
        HistoryFile::in_home(RealDisk::shared(), dir.to_owned())
    }

    #[test]
    fn what_was_typed_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let entries = ["one", "two\nlines \\n and \\", "日本語\ttab", "```\ncode\n```"];
        for entry in entries {
            history(dir.path()).add(entry).unwrap();
        }
        history(dir.path()).add("bell \u{7} and \u{1b}[2J").unwrap();
        history(dir.path()).add(&"x".repeat(ENTRY_BYTES_MAX + 1)).unwrap();
        assert_eq!(history(dir.path()).load().unwrap(), entries);
    }

    #[test]
    fn it_stays_bounded_and_keeps_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (history(dir.path()), history(dir.path()));
        for n in 0..600 {
            one.add(&format!("one {n} {}", "x".repeat(1000))).unwrap();
            two.add(&format!("two {n}")).unwrap();
        }
        let len = std::fs::metadata(dir.path().join(FILE_NAME)).unwrap().len();
        assert!(len <= FILE_BYTES_MAX + 2 * ENTRY_BYTES_MAX as u64, "{len}");
        let all = one.load().unwrap();
        assert!(all.len() <= ENTRIES_MAX && all.len() > 100, "{}", all.len());
        assert_eq!(all[all.len() - 1], "two 599");
        assert!(all[all.len() - 2].starts_with("one 599"), "nothing between is lost");
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left beside it: {names:?}");
    }

    #[test]
    fn many_at_once_lose_no_line() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for who in 0..4 {
                let path = dir.path();
                scope.spawn(move || {
                    for n in 0..50 {
                        history(path).add(&format!("{who} {n}")).unwrap();
                    }
                });
            }
        });
        let mut all = history(dir.path()).load().unwrap();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 200);
    }

    #[test]
    fn a_torn_end_and_bytes_of_others_swallow_nothing() {
        let dir = tempfile::tempdir().unwrap();
        history(dir.path()).add("one").unwrap();
        let path = dir.path().join(FILE_NAME);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(b"\xff\xfe\nev\x1b[2Jil\n\n\ntorn");
        std::fs::write(&path, bytes).unwrap();
        history(dir.path()).add("two").unwrap();
        assert_eq!(history(dir.path()).load().unwrap(), ["one", "torn", "two"]);
    }
}
