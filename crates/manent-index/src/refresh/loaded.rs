//! The rows and segments of the index in memory, and how they are loaded, saved and merged.

use std::collections::HashMap;
use std::sync::Arc;

use manent_store::{Blob, Cursor, Place};

use crate::catalogue::missing::LostSession;
use crate::catalogue::{self, CatalogueHead, RowRef, SegmentFile};
use crate::error::IndexResult;
use crate::pages::Pages;
use crate::refresh::index_dir::{Edition, IndexDir};
use crate::refresh::ingest::grouped;
use crate::segment::Segment;
use crate::segment::builder::merge;
use crate::segment::view::{SegmentView, connect};

/// The rows and segments of the index, in memory and on the disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoadedIndex {
    pub(crate) rows: Vec<RowRef>,
    pub(crate) next_number: u64,
    pub(crate) segments: Vec<SegmentHandle>,
    /// The catalogue on the disk that this goes on from.
    pub(crate) edition: Option<Edition>,
    /// Keeps the number of that file from being used again.
    pub(crate) catalogue: Option<Arc<dyn Blob>>,
    /// Bytes of logs, and rows, that are not on the disk yet.
    pub(crate) unsaved_bytes: u64,
    pub(crate) unsaved_rows: usize,
    /// The length of the list of recently written sessions before all streams were last compared.
    pub(crate) written_log_bytes: u64,
    /// The backend's cursor of the last comparison. With the default, all streams are compared.
    pub(crate) cursor: Cursor,
    /// The cursor in the catalogue on the disk.
    pub(crate) saved_cursor: Cursor,
    /// The time at which all streams were last compared, in milliseconds since 1970.
    pub(crate) checked_ms: i64,
    /// Sessions that are nowhere any more.
    pub(crate) gone: Vec<LostSession>,
    /// All streams were compared since it was loaded, so that the backend reports all later changes.
    pub(crate) is_checked: bool,
    /// There are files that the catalogue does not name. The next save removes them.
    pub(crate) has_strays: bool,
}

/// A segment, and its name if it is on the disk.
#[derive(Debug, Clone)]
pub(crate) struct SegmentHandle {
    pub(crate) segment: Arc<Segment>,
    pub(crate) named: Option<SegmentFile>,
}

/// An immutable view of the index, which queries read.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) rows: Vec<RowRef>,
    pub(crate) views: Vec<SegmentView>,
    /// All rows are of streams that could be read, and any is of one in the trash: computed once,
    /// and not with every question.
    pub(crate) all_read: bool,
    pub(crate) has_trash: bool,
}

impl Snapshot {
    pub(crate) fn new(rows: Vec<RowRef>, segments: &[SegmentHandle]) -> Snapshot {
        let mut views = views_of(&rows, segments);
        connect(&mut views);
        let all_read = !rows.iter().any(RowRef::is_unread);
        let has_trash = rows.iter().any(|row| row.place() == Place::Trash);
        Snapshot { rows, views, all_read, has_trash }
    }
}

fn views_of(rows: &[RowRef], segments: &[SegmentHandle]) -> Vec<SegmentView> {
    let places: HashMap<u64, u32, foldhash::fast::RandomState> =
        (0..).zip(rows).map(|(at, row)| (row.number(), at)).collect();
    let row_of = |number: u64| places.get(&number).copied();
    segments.iter().map(|handle| SegmentView::new(handle.segment.clone(), row_of)).collect()
}

impl SegmentHandle {
    pub(crate) fn in_memory(bytes: Vec<u8>) -> IndexResult<SegmentHandle> {
        Ok(SegmentHandle { segment: Arc::new(Segment::open(Pages::Memory(Arc::new(bytes)))?), named: None })
    }
}

impl LoadedIndex {
    /// Loads the index from the disk; an empty one if there is none.
    pub(crate) fn load(dir: &IndexDir) -> IndexResult<LoadedIndex> {
        let (edition, catalogue) = dir.hold_edition();
        let Some((head, filed)) = dir.catalogue()? else {
            let has_strays = dir.strays(&[]).is_ok_and(|strays| !strays.is_empty());
            return Ok(LoadedIndex { has_strays, ..LoadedIndex::default() });
        };
        let has_strays = dir.strays(&head.segments).is_ok_and(|strays| !strays.is_empty());
        let mut segments = Vec::with_capacity(head.segments.len());
        for named in head.segments {
            segments.push(SegmentHandle { segment: Arc::new(dir.segment(&named)?), named: Some(named) });
        }
        let filed = Arc::new(filed);
        let rows = (0..filed.len() as u32).map(|at| RowRef::OnDisk(filed.clone(), at)).collect();
        let CatalogueHead { next_number, cursor, checked_ms, gone, .. } = head;
        Ok(LoadedIndex {
            rows,
            next_number,
            segments,
            edition,
            catalogue,
            saved_cursor: cursor.clone(),
            cursor,
            checked_ms,
            gone,
            has_strays,
            ..LoadedIndex::default()
        })
    }

    /// Forgets the names of the segments, because their files are gone from the disk.
    pub(crate) fn forget_names(&mut self) {
        self.edition = None;
        self.segments.iter_mut().for_each(|handle| handle.named = None);
    }

    /// Forgets the names of segments that another process removed, because no catalogue named them. They are written
    /// again from what is held open.
    pub(crate) fn forget_removed_names(&mut self, dir: &IndexDir) -> IndexResult<()> {
        let there = dir.names()?;
        for handle in &mut self.segments {
            handle.named.take_if(|named| !there.contains(&named.name));
        }
        Ok(())
    }

    pub(crate) fn views(&self) -> Vec<SegmentView> {
        views_of(&self.rows, &self.segments)
    }

    /// Returns true if a segment holds records of a stream that is gone.
    pub(crate) fn holds_gone(&self) -> bool {
        self.views().iter().any(SegmentView::holds_gone)
    }

    /// Puts everything on the disk that is not there yet, and nothing that is gone. The caller has the right to write,
    /// and knows that the catalogue there is still the one that this goes on from.
    pub(crate) fn save(&mut self, dir: &IndexDir) -> IndexResult<()> {
        let saved = self.try_save(dir);
        if saved.is_err() {
            // What was written for it counts for nothing, and takes room that may be wanted for better.
            self.take_back(dir);
        }
        saved
    }

    /// Removes what no catalogue names. What is open here can be read all the same.
    fn take_back(&mut self, dir: &IndexDir) {
        let named = match dir.catalogue() {
            Ok(catalogue) => catalogue.map(|(head, _)| head.segments).unwrap_or_default(),
            Err(_) => return,
        };
        for handle in &mut self.segments {
            handle.named.take_if(|name| !named.contains(name));
        }
        let _ = dir.tidy(&named);
    }

    fn try_save(&mut self, dir: &IndexDir) -> IndexResult<()> {
        let mut stay: Vec<SegmentHandle> = Vec::new();
        let mut small = Vec::new();
        for (handle, view) in self.segments.iter().zip(self.views()) {
            if view.rows.iter().all(Option::is_none) {
                continue;
            }
            match &handle.named {
                Some(_) if !view.holds_gone() => stay.push(handle.clone()),
                Some(_) => stay.push(rewritten(dir, &[view])?),
                None => small.push(view),
            }
        }
        let has_room = |group: u64, bytes: u64| group + bytes <= SEGMENT_BYTES_MAX;
        for views in grouped(small, |view| view.segment.bytes(), has_room) {
            stay.push(rewritten(dir, &views)?);
        }
        while let Some(crowd) = crowded(&stay) {
            let (together, apart): (Vec<_>, Vec<_>) =
                stay.into_iter().partition(|handle| class_of(handle) == Some(crowd));
            stay = apart;
            stay.push(rewritten(dir, &views_of(&self.rows, &together))?);
        }
        let named: Vec<SegmentFile> = stay.iter().filter_map(|handle| handle.named.clone()).collect();
        let rows = self.rows.iter().map(RowRef::row).collect::<IndexResult<Vec<_>>>()?;
        let (next_number, cursor, checked_ms) = (self.next_number, self.cursor.clone(), self.checked_ms);
        let head =
            CatalogueHead { next_number, segments: named, cursor, checked_ms, gone: self.gone.clone() };
        dir.put_catalogue(catalogue::encode(&rows, &head), &head.segments)?;
        self.saved_cursor = head.cursor;
        self.segments = stay;
        (self.edition, self.catalogue) = dir.hold_edition();
        dir.drop_recent(self.written_log_bytes);
        dir.drop_purges(&rows);
        (self.unsaved_bytes, self.unsaved_rows, self.has_strays) = (0, 0, false);
        Ok(())
    }
}

/// Merges segments into one on the disk, without the records of streams that are gone.
fn rewritten(dir: &IndexDir, views: &[SegmentView]) -> IndexResult<SegmentHandle> {
    let named = dir.put_segment(&mut merge(views)?)?;
    Ok(SegmentHandle { segment: Arc::new(dir.segment(&named)?), named: Some(named) })
}

/// Returns the size class of a segment, or `None` if it is large: nothing is gained by merging it.
fn class_of(handle: &SegmentHandle) -> Option<u32> {
    let bytes = handle.segment.bytes();
    (bytes < SEGMENT_BYTES_MAX / CROWD as u64).then(|| (bytes / SMALLEST_BYTES).max(1).ilog(CROWD as u64))
}

/// Returns a size class with so many segments that they should be merged.
fn crowded(segments: &[SegmentHandle]) -> Option<u32> {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for class in segments.iter().filter_map(class_of) {
        *counts.entry(class).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count >= CROWD).map(|(class, _)| class).min()
}

/// A purge rewrites the segments that hold what goes: none is so large that this takes long, or much memory.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 32 * 1024 * 1024;
const SMALLEST_BYTES: u64 = 64 * 1024;
const CROWD: usize = 8;
