//! Making a log ready to append to: what a crash left at its end is set aside, and only then cut.
//!
//! The cases are listed in `docs/RECOVERY.md` as R1 to R17, each with its test. The rule behind all of them: no
//! readable line is ever cut, and no byte is cut before a copy of it is on the disk. Each step can be interrupted and
//! done again with the same outcome. Only the holder of the lease comes here.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::frame::{self, FileKind};
use crate::fs::{Access, Disk, DiskFile, copy_range, read_fully, rewrite};
use crate::lock::{Lease, MissingLog, directory_of};
use crate::reader::Damage;
use crate::tail::{self, LogTail};

/// The end of a log that can be appended to. Its writer keeps this up to date.
#[derive(Debug)]
pub(crate) struct AppendState {
    pub(crate) kind: FileKind,
    /// The header as it stands, if there is one and nothing damaged before it.
    pub(crate) header_line: Option<Vec<u8>>,
    /// True if nothing was ever written: a header is due.
    pub(crate) unborn: bool,
    /// The offset of the next line, if nobody else appends.
    pub(crate) len: u64,
    pub(crate) next_seq: u64,
    /// A place from which everything can be read again, and the number there: the end of the last line that can be
    /// read, or the beginning of the last commit. What stands behind may be another program's line that is not
    /// finished, or one that slipped in before our last commit.
    pub(crate) settled: (u64, u64),
    /// True if the last line lacks its newline, which must then go before the next record.
    pub(crate) newline_first: bool,
    /// True if bytes that cannot be read stay at the end: another program's line, cut short or in flight. As long as
    /// nothing readable follows them, the next writer may find that they are torn and cut them.
    pub(crate) torn_end: bool,
    pub(crate) set_aside: Option<SetAside>,
}

/// Torn bytes that were cut off the end of a log and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The offset in the log at which they stood.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The file that holds them now.
    pub copy: PathBuf,
}

/// Checks the end of the log under this lease and makes it ready.
pub(crate) fn make_ready(disk: &dyn Disk, lease: &Lease, missing: MissingLog) -> Result<AppendState> {
    let LogTail { origin, len, good_end, good_seq, torn } = tail::inspect(lease.file(), lease.path())?;
    if origin.is_none() && missing == MissingLog::Refuse {
        return Err(Error::NotFound { path: lease.path().to_owned() });
    }
    let kind = origin.as_ref().map_or(FileKind::Native, |o| o.kind);
    if let Some(header) = origin.as_ref().and_then(|o| o.header.as_ref()) {
        header.check_writable(lease.path())?;
    }
    if kind == FileKind::Foreign && good_end == 0 {
        refuse_what_is_no_log(lease)?;
    }
    let mut ready = AppendState {
        kind,
        unborn: origin.is_none(),
        header_line: origin.and_then(|o| o.header_line),
        len,
        next_seq: good_seq,
        settled: (good_end, good_seq),
        newline_first: false,
        torn_end: false,
        set_aside: None,
    };
    if let Some(torn) = torn {
        if ours_to_cut(kind, lease, &torn)? {
            ready.set_aside = Some(cut(disk, lease, kind, &torn)?);
            ready.len = torn.offset;
        } else {
            // Another program's fragment stays, becomes a line, and takes a number like any line.
            ready.next_seq += torn.lines;
            ready.torn_end = true;
        }
    }
    ready.newline_first = !ends_with_newline(lease.file(), lease.path(), ready.len)?;
    Ok(ready)
}

/// Returns true if the last byte before `len` is a newline (or there is none).
pub(crate) fn ends_with_newline(file: &dyn DiskFile, path: &Path, len: u64) -> Result<bool> {
    let mut last = [b'\n'];
    if len > 0 {
        read_fully(file, &mut last, len - 1).map_err(Error::io("read", path))?;
    }
    Ok(last == *b"\n")
}

/// In a native file everything torn is ours. In another program's file only a fragment that begins as our records
/// do; the rest may be that program's line in the middle of being written.
fn ours_to_cut(kind: FileKind, lease: &Lease, torn: &Damage) -> Result<bool> {
    match kind {
        FileKind::Native => Ok(true),
        FileKind::Foreign => Ok(false),
        FileKind::Adopted => {
            let mut head = [0; 16];
            let n =
                read_fully(lease.file(), &mut head, torn.offset).map_err(Error::io("read", lease.path()))?;
            Ok(frame::begins_like_a_record(&head[..n]) && torn.lines == 1)
        }
    }
}

/// A file in which nothing can be read and that does not even begin like JSON is no log of anybody's.
fn refuse_what_is_no_log(lease: &Lease) -> Result<()> {
    let mut head = [0; 64];
    let n = read_fully(lease.file(), &mut head, 0).map_err(Error::io("read", lease.path()))?;
    if frame::trim(&head[..n]).first() == Some(&b'{') {
        return Ok(());
    }
    Err(Error::NotALog { path: lease.path().to_owned(), what: "a file in which no line can be read" })
}

fn cut(disk: &dyn Disk, lease: &Lease, kind: FileKind, torn: &Damage) -> Result<SetAside> {
    let copy = set_aside(disk, lease, torn)?;
    if kind == FileKind::Native {
        // On the disk, whole records may stand where the cache shows the stub of a failed write (`Log::take_back`).
        // They must be gone before the end looks clean, for nobody would look again.
        let head = torn.offset..torn.offset + torn.length.min(STUB_BYTES);
        write_again(disk, lease, head).map_err(Error::io("write the torn end again of", lease.path()))?;
    }
    lease.file().set_len(torn.offset).map_err(Error::io("cut the torn end of", lease.path()))?;
    lease.file().sync().map_err(Error::io("sync", lease.path()))?;
    Ok(SetAside { offset: torn.offset, length: torn.length, copy })
}

/// Writes the bytes of a range again where they stand and syncs the file, whatever became of earlier syncs of it.
pub(crate) fn write_again(disk: &dyn Disk, lease: &Lease, range: Range<u64>) -> io::Result<()> {
    let file = disk.open(lease.path(), Access::Overwrite)?;
    if file.id()? != lease.id() {
        return Err(io::Error::other("the file was replaced"));
    }
    rewrite(&*file, range)?;
    file.sync()
}

/// Copies torn bytes to `<log>.torn-<offset>-<n>` and makes the copy durable.
///
/// A copy that an interrupted recovery left is never used again, however complete it looks: if the sync of it failed,
/// it may exist in the cache alone, and no later sync would tell. The simulator found that.
fn set_aside(disk: &dyn Disk, lease: &Lease, torn: &Damage) -> Result<PathBuf> {
    for n in 0..COPIES_MAX {
        let mut name = lease.path().to_owned().into_os_string();
        name.push(format!(".torn-{}-{n}", torn.offset));
        let copy = PathBuf::from(name);
        let file = match disk.open(&copy, Access::CreateNew) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(Error::io("set torn bytes aside in", &copy)(e)),
        };
        copy_range(lease.file(), torn.offset, torn.length, &*file)
            .map_err(Error::io("set torn bytes aside in", &copy))?;
        file.sync().map_err(Error::io("sync", &copy))?;
        let dir = directory_of(&copy);
        disk.sync_dir(dir).map_err(Error::io("sync the directory", dir))?;
        return Ok(copy);
    }
    let why = io::Error::other("too many copies of torn bytes from one place; move the .torn files away");
    Err(Error::io("set torn bytes aside of", lease.path())(why))
}

/// The bytes that stay of a failed write until the rest is known to be gone: a newline, perhaps, and the beginning of
/// a line, which nobody can take for a record.
pub(crate) const STUB_BYTES: u64 = 8;
const COPIES_MAX: u32 = 1000;
