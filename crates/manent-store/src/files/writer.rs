//! The lease of one file, as callers of the seam hold it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use manent_log::fs::{Access, DiskFile, copy_range};
use manent_log::{Body, Damage, Entry, FileKind, FileLock, KeyRule, KeyedLine, Occurrence, SetAside};

use super::forms;
use super::moves;
use super::store_dir::{Spot, StoreDir};
use super::writers::{FileLease, Writers};
use crate::error::{Error, Result, io_error};
use crate::streams::{
    AppendOptions, Place, Position, Receipt, Replaced, StreamId, StreamParts, StreamWriter,
};

/// The right to write one file.
#[derive(Debug)]
pub(super) struct FileWriter {
    pub(super) dir: StoreDir,
    pub(super) writers: Arc<Writers>,
    pub(super) at: StreamId,
    pub(super) spot: Spot,
    pub(super) hold: Hold,
}

/// What keeps others off the file.
#[derive(Debug)]
pub(super) enum Hold {
    /// A live file, ready to be appended to. `None` once it was given back.
    Lease(Option<Box<FileLease>>),
    /// A file that is only read and replaced: in archive or trash, or written by a newer version, which needs that.
    Lock { _held: FileLock, len: u64, id: Arc<str>, needs: Option<String> },
}

impl FileWriter {
    fn lease(&self) -> Option<&FileLease> {
        match &self.hold {
            Hold::Lease(lease) => lease.as_deref(),
            Hold::Lock { .. } => None,
        }
    }

    fn live(&mut self) -> Result<&mut FileLease> {
        let (key, place) = (&self.at.key, self.at.place);
        match &mut self.hold {
            Hold::Lease(Some(lease)) => Ok(lease),
            Hold::Lock { needs: Some(needs), .. } => {
                let (path, needs) = (self.spot.path.clone(), needs.clone());
                Err(manent_log::Error::Newer { path, needs }.into())
            }
            Hold::Lease(None) | Hold::Lock { .. } => Err(Error::NotLive { key: key.to_string(), place }),
        }
    }

    /// Copies ranges of the file beside it, and makes the copy durable. Removed again if anything fails: a part of it
    /// helps nobody, and on a full disk it is in the way.
    fn set_ranges_aside(&self, ranges: &[Damage]) -> Result<Option<PathBuf>> {
        if ranges.is_empty() {
            return Ok(None);
        }
        let (disk, path) = (&self.dir.disk, &self.spot.path);
        let mut name = path.clone().into_os_string();
        name.push(format!(".damaged-{}", uuid::Uuid::now_v7().simple()));
        let copy = PathBuf::from(name);
        let from = disk.open(path, Access::Read).map_err(io_error("read", path))?;
        let to = disk.open(&copy, Access::CreateNew).map_err(io_error("create", &copy))?;
        let copied = ranges
            .iter()
            .try_for_each(|damage| copy_range(&*from, damage.offset, damage.length, &*to))
            .and_then(|()| to.sync())
            .and_then(|()| disk.sync_dir(path.parent().unwrap_or(&self.dir.layout.home)));
        if let Err(e) = copied {
            let _ = disk.remove(&copy);
            return Err(io_error("set damaged lines aside in", &copy)(e));
        }
        Ok(Some(copy))
    }

    fn replace_held(
        &self,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        let (disk, path) = (&self.dir.disk, &self.spot.path);
        let old = disk.open(path, Access::Read).map_err(io_error("read", path))?;
        // The length is that of the lease: the caller may not have seen what another program wrote since it was taken.
        let len = match &self.hold {
            Hold::Lease(lease) => lease.as_ref().map_or(0, |lease| lease.log.end_offset()),
            Hold::Lock { len, .. } => *len,
        };
        let unchanged = || {
            if old.state().map_err(io_error("inspect", path))?.len == len {
                return Ok(());
            }
            let next = self.next_seq();
            Err(manent_log::Error::Conflict { path: path.clone(), expected: next, next: next + 1 }.into())
        };
        unchanged()?;
        let copy = self.set_ranges_aside(left_out)?;
        let replaced = forms::replace(&self.dir, &self.at, &self.spot, header, parts, unchanged);
        let (bytes, new) = replaced.inspect_err(|_| {
            if let Some(copy) = &copy {
                let _ = disk.remove(copy);
            }
        })?;
        take_along(&*old, len, &*new).map_err(io_error("write", path))?;
        self.dir.sync_dir(path.parent().unwrap_or(&self.dir.layout.home))?;
        Ok(Replaced { bytes, set_aside: copy })
    }
}

/// Copies what a program without our lease wrote to the old file in the last instant.
fn take_along(old: &dyn DiskFile, from: u64, new: &dyn DiskFile) -> io::Result<()> {
    let len = old.state()?.len;
    if len > from {
        copy_range(old, from, len - from, new)?;
        new.sync()?;
    }
    Ok(())
}

impl StreamWriter for FileWriter {
    fn append(&mut self, bodies: &[Body], how: &AppendOptions<'_>) -> Result<Vec<Receipt>> {
        self.live()?.append(bodies, how.durability, how.expect, how.keys)
    }

    fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>> {
        Ok(self.live()?.log.find(rule, key, which)?)
    }

    fn keep_from(&mut self, position: Position) -> Result<()> {
        Ok(self.live()?.log.keep_from(position.raw())?)
    }

    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        let mut writer = self;
        let replaced = writer.replace_held(header, parts, left_out);
        // The file that is held is not the stream's any more, or may not be: it is not kept open.
        if let Hold::Lease(lease) = &mut writer.hold {
            drop(lease.take());
        }
        replaced
    }

    fn acknowledge(&mut self, ts: &str) -> Result<Vec<Damage>> {
        Ok(manent_log::acknowledge_gaps(&mut self.live()?.log, ts)?)
    }

    fn next_seq(&self) -> u64 {
        self.lease().map_or(0, |lease| lease.log.next_seq())
    }

    fn id(&self) -> &Arc<str> {
        static NONE: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| "".into());
        match &self.hold {
            Hold::Lease(lease) => lease.as_ref().map_or(&NONE, |lease| &lease.id),
            Hold::Lock { id, .. } => id,
        }
    }

    fn header(&self) -> Option<Entry<'_>> {
        self.lease().and_then(|lease| lease.log.header_line())
    }

    fn is_new(&self) -> bool {
        self.lease().is_some_and(|lease| lease.log.is_new())
    }

    fn is_native(&self) -> bool {
        self.lease().is_some_and(|lease| lease.log.kind() == FileKind::Native)
    }

    fn is_finished(&self) -> bool {
        self.lease().is_none_or(|lease| lease.log.poisoned().is_some())
    }

    fn set_aside(&self) -> Option<&SetAside> {
        self.lease().and_then(|lease| lease.log.set_aside())
    }

    fn set_aside_bytes(&self) -> Result<Vec<u64>> {
        moves::torn_at_end(&self.dir, &self.spot.path)
    }

    fn opened_by(&self) -> Option<u32> {
        self.dir.disk.opened_by(&self.spot.path)
    }

    fn names(&self) -> Result<u64> {
        self.lease().map_or(Ok(1), |lease| Ok(lease.log.names()?))
    }
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        let Hold::Lease(lease) = &mut self.hold else { return };
        let Some(lease) = lease.take() else { return };
        if self.at.place != Place::Live || lease.log.poisoned().is_some() || lease.log.is_new() {
            return;
        }
        self.writers.rest(&self.dir, &(self.at.space, self.at.key.clone()), *lease);
    }
}
