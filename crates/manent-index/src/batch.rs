//! Reads many sessions for the index, on several threads where there is much to read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use manent_store::sync::lock;
use manent_store::threads::{processors, with_helpers};
use manent_store::{ListDetail, Place, ScanTime, Selector, StreamId, StreamStat, Version};

use crate::corpus::Corpus;
use crate::error::{Error, Result};

use crate::catalogue::Row;
use crate::index_dir::IndexDir;
use crate::ingest::{Intake, ingest};
use crate::loaded::SegmentHandle;
use crate::refresh_error::RefreshError;
use crate::rows::RowRef;

/// A session that changed, or is new.
pub(crate) struct Changed {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) version: Version,
    pub(crate) bytes: u64,
    /// When it was seen.
    pub(crate) seen_at: ScanTime,
    /// Whether it is the same stream and not shorter, so that what was read of it may still stand.
    pub(crate) grew: bool,
    pub(crate) old: Option<Arc<Row>>,
}

impl Changed {
    /// How much of it is to be read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        let read = self.old.as_ref().map_or(0, |old| old.last.offset);
        if self.bytes >= read { self.bytes - read } else { self.bytes }
    }

    /// What the stream is; `None` if it is gone since it was seen.
    pub(crate) fn identify(&self, corpus: &dyn Corpus) -> Result<Option<StreamStat>> {
        Ok(corpus.list(self.place, Selector::Name(&self.name), ListDetail::Header)?.into_iter().next())
    }
}

pub(crate) fn in_batches(changed: Vec<Changed>) -> Vec<Vec<Changed>> {
    let mut batches: Vec<Vec<Changed>> = Vec::new();
    let mut bytes = 0;
    for one in changed {
        if batches.is_empty() || bytes >= BATCH_BYTES {
            batches.push(Vec::new());
            bytes = 0;
        }
        bytes += one.unread_bytes();
        if let Some(batch) = batches.last_mut() {
            batch.push(one);
        }
    }
    batches
}

/// What came of reading a batch.
pub(crate) struct Batch {
    pub(crate) rows: Vec<RowRef>,
    pub(crate) segments: Vec<SegmentHandle>,
    pub(crate) next_number: u64,
    /// Some were no longer where they had been seen: they may be elsewhere.
    pub(crate) lost: bool,
}

/// Sessions that are not where they were, by their ids.
pub(crate) type Moved = Mutex<HashMap<String, Arc<Row>>>;

/// Called with each segment that is finished, and the rows of the streams that were read since the last one.
pub(crate) type Publish<'a> = &'a (dyn Fn(&[RowRef], &SegmentHandle) + Sync);

/// Reads streams, on several threads where there is much to read.
pub(crate) fn read_batch(
    corpus: &dyn Corpus,
    batch: &[Changed],
    moved: &Moved,
    next_number: u64,
    onto: Option<&IndexDir>,
    publish: Option<Publish<'_>>,
    progress: &mut dyn FnMut(u64),
) -> std::result::Result<Batch, RefreshError> {
    let bytes: u64 = batch.iter().map(Changed::unread_bytes).sum();
    let threads = if bytes < ALONE_BYTES { 1 } else { processors(THREADS_MAX) };
    let reading = Reading {
        corpus,
        batch,
        moved,
        onto,
        publish,
        next: AtomicUsize::new(0),
        number: AtomicU64::new(next_number),
        done: AtomicU64::new(0),
        lost: AtomicBool::new(false),
    };
    let parts: Vec<Part> = with_helpers(threads, || reading.work(&mut |_| {}), || reading.work(progress));
    let (mut rows, mut segments) = (Vec::with_capacity(batch.len()), Vec::new());
    for part in parts {
        let (some_rows, some_segments) = part?;
        rows.extend(some_rows);
        segments.extend(some_segments);
    }
    let (next_number, lost) = (reading.number.into_inner(), reading.lost.into_inner());
    Ok(Batch { rows, segments, next_number, lost })
}

/// What one thread has read.
type Part = std::result::Result<(Vec<RowRef>, Vec<SegmentHandle>), RefreshError>;

struct Reading<'a> {
    corpus: &'a dyn Corpus,
    batch: &'a [Changed],
    moved: &'a Moved,
    onto: Option<&'a IndexDir>,
    publish: Option<Publish<'a>>,
    next: AtomicUsize,
    number: AtomicU64,
    done: AtomicU64,
    lost: AtomicBool,
}

impl Reading<'_> {
    /// Takes one session after the other, until there are none.
    fn work(&self, progress: &mut dyn FnMut(u64)) -> Part {
        // Shared with the closure that publishes them.
        let rows: RefCell<Vec<RowRef>> = RefCell::default();
        let mut segments = Vec::new();
        let mut published = 0;
        let mut give = |bytes: Vec<u8>| {
            let segment = self.keep(bytes)?;
            if let Some(publish) = self.publish {
                let rows = rows.borrow();
                publish(&rows[published..], &segment);
                published = rows.len();
            }
            segments.push(segment);
            Ok(())
        };
        let mut intake = Intake::new(SEGMENT_MEMORY, &mut give);
        while let Some(changed) = self.batch.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let listed = match changed.identify(self.corpus) {
                Ok(Some(listed)) => listed,
                // Gone since it was seen.
                Ok(None) => {
                    self.lost.store(true, Ordering::Relaxed);
                    continue;
                }
                Err(e) => return Err(e.into()),
            };
            let id = listed.id.id.as_str();
            let by_name = changed.old.clone().filter(|old| old.id == id);
            let old = by_name.or_else(|| self.take_moved(&listed.id));
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let mut row = ingest(self.corpus, changed, &listed, old.as_deref(), number, &mut intake)?;
            if row.unreadable.is_empty() {
                row.read_at = changed.seen_at;
            } else if changed.identify(self.corpus)?.is_none() {
                self.lost.store(true, Ordering::Relaxed);
            }
            rows.borrow_mut().push(row.into());
            let done =
                self.done.fetch_add(changed.unread_bytes(), Ordering::Relaxed) + changed.unread_bytes();
            progress(done);
        }
        intake.finish()?;
        Ok((rows.into_inner(), segments))
    }

    /// What was known of a session that came from elsewhere. Of several copies, one goes on with its turns: a number
    /// belongs to one row.
    fn take_moved(&self, at: &StreamId) -> Option<Arc<Row>> {
        let mut moved = lock(self.moved);
        moved.get(at.id.as_str()).filter(|row| row.key == at.key.as_str())?;
        moved.remove(at.id.as_str())
    }

    /// On the disk if there is much, else in memory; in memory too if the disk does not take it.
    fn keep(&self, mut bytes: Vec<u8>) -> Result<SegmentHandle> {
        if let Some(kept) = self.onto
            && bytes.len() as u64 >= SAVE_BYTES
            && let Ok(named) = kept.put_segment(&mut bytes)
            && let Ok(segment) = kept.segment(&named)
        {
            return Ok(SegmentHandle { segment: Arc::new(segment), named: Some(named) });
        }
        SegmentHandle::in_memory(bytes).map_err(|broken| Error::Index(broken.to_string()))
    }
}

/// So many bytes of logs are not read again by the next process.
pub(crate) const SAVE_BYTES: u64 = 256 * 1024;
/// What is read between two saves when everything is read anew.
pub(crate) const BATCH_BYTES: u64 = 1024 * 1024 * 1024;
/// Less than this is read sooner than threads are begun.
const ALONE_BYTES: u64 = 4 * 1024 * 1024;
const THREADS_MAX: usize = 4;
/// The memory that a segment may take while it is made, in each thread: with it, the whole process stays below 100 MiB
/// where one file is read, however many turns it holds.
const SEGMENT_MEMORY: usize = 64 * 1024 * 1024;
