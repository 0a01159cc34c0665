//! A corpus without a library above it: streams of JSON lines with a role and a text.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use manent_log::{Body, Durability, Entry};
use manent_sim::SimDisk;
use manent_store::{
    AppendOptions, Blobs, Changes, Cursor, Files, InMemory, InMemoryBlobs, KnownStreams, ListDetail, Place,
    Result, Selector, SessionKey, Space, StreamFilter, StreamHeader, StreamId, StreamReader, StreamStat,
    Streams, Target,
};

use crate::{
    Background, Content, Corpus, Document, Index, IndexDir, LossPolicy, Query, ScoreScope, SearchResults,
    StreamOrigin,
};

/// Streams, and an index over them.
pub(super) struct World {
    pub(super) index: Arc<Index>,
    pub(super) corpus: Arc<Lines>,
    pub(super) blobs: Option<Arc<dyn Blobs>>,
}

impl World {
    /// A store in the directory `/store` of a simulated disk, with its index beside it.
    pub(super) fn on_disk(disk: &SimDisk) -> World {
        let files = Files::open_on(Arc::new(disk.clone()), "/store".into()).unwrap();
        let blobs = files.blobs().map(|blobs| Arc::new(blobs) as Arc<dyn Blobs>);
        World::new(Arc::new(files), blobs)
    }

    /// Streams and an index that live in memory.
    pub(super) fn in_memory() -> World {
        World::new(Arc::new(InMemory::new()), Some(Arc::new(InMemoryBlobs::default())))
    }

    fn new(streams: Arc<dyn Streams>, blobs: Option<Arc<dyn Blobs>>) -> World {
        let corpus = Arc::new(Lines { streams, gate: Gate::default(), compared: Mutex::default() });
        let dir = blobs.clone().map(|blobs| IndexDir::new(blobs, FOLDER));
        let index = Index::new(corpus.clone(), dir, Background::Never, Duration::ZERO);
        World { index, corpus, blobs }
    }

    /// The same streams and the same files of the index, as another process has them.
    pub(super) fn of_another_process(&self) -> World {
        World::new(self.corpus.streams.clone(), self.blobs.clone())
    }

    /// Another process, which waits for this one as long as it takes.
    pub(super) fn of_another_process_that_waits(&self) -> World {
        let world = self.of_another_process();
        let dir = self.blobs.clone().map(|blobs| IndexDir::new(blobs, FOLDER));
        let index = Index::new(world.corpus.clone(), dir, Background::Never, Duration::from_mins(2));
        World { index, ..world }
    }

    /// Removes a stream for good, as a purge does.
    pub(super) fn purge(&self, key: &str) -> crate::Result<()> {
        let key = SessionKey::new(key).unwrap();
        let header = self.corpus.list(Place::Live, Selector::Key(&key), ListDetail::Header).unwrap();
        self.index.announce_purge(std::slice::from_ref(&header[0].id));
        self.corpus.streams.delete(&header[0].id, Duration::ZERO).unwrap();
        self.index.forget()
    }

    /// Returns the files of the index in which these bytes stand.
    pub(super) fn files_with(&self, bytes: &[u8]) -> Vec<String> {
        let blobs = self.blobs.as_ref().unwrap();
        let mut names = blobs.list(FOLDER).unwrap();
        names.retain(|name| {
            let Some(blob) = blobs.open(&format!("{FOLDER}/{name}")).unwrap() else { return false };
            let mut read = vec![0; blob.len() as usize];
            crate::pages::fill(&*blob, &mut read, 0).unwrap();
            memchr::memmem::find(&read, bytes).is_some()
        });
        names
    }

    pub(super) fn append(&self, key: &str, role: &str, text: &str) {
        let key = SessionKey::new(key).unwrap();
        let header = || {
            let (id, mut meta, mut body) = (format!("id-of-{}", key.as_str()), Body::new(), Body::new());
            let id = id.replace(' ', "-");
            meta.number("format", manent_log::FORMAT).string("id", &id).string("key", key.as_str());
            body.object("meta", &meta);
            StreamHeader { id, body }
        };
        let mut body = Body::new();
        body.string("ts", "2026-11-15T18:07:00.000Z").string("role", role).string("content", text);
        let how = AppendOptions::new(Durability::Flush);
        self.corpus.streams.append(&StreamId::live(&key), &header, &[body], &how).unwrap();
    }

    pub(super) fn search(&self, text: &str, limit: usize) -> SearchResults {
        let query = Query::parse(text, 1_794_766_020_000).unwrap();
        self.index.search(&query, limit, &mut |_, _| {}, None).unwrap()
    }

    pub(super) fn search_partial(&self, text: &str, limit: usize) -> SearchResults {
        let query = Query::parse(text, 1_794_766_020_000).unwrap();
        self.index.search_partial(&query, limit).unwrap()
    }
}

const FOLDER: &str = "index";

/// The content of a record at which readers wait while the gate is shut for it.
pub(super) const GATE: &str = "gate";

/// Lines of JSON as documents. Opening a stream, and reading a record of [`GATE`], waits while the gate is shut.
#[derive(Debug)]
pub(super) struct Lines {
    streams: Arc<dyn Streams>,
    pub(super) gate: Gate,
    /// For each comparison of all streams, whether the answer of a backend that watches them was good enough.
    pub(super) compared: Mutex<Vec<bool>>,
}

/// Holds readers back, so that a test sees what happens while they read.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// The key of the stream whose readers wait, and how many do.
    shut: Mutex<(Option<String>, usize)>,
    changed: Condvar,
    /// The number of records of [`GATE`] that were read.
    passed: AtomicUsize,
}

impl Gate {
    pub(super) fn shut(&self, key: &str) {
        self.shut.lock().unwrap().0 = Some(key.to_owned());
    }

    pub(super) fn open(&self) {
        self.shut.lock().unwrap().0 = None;
        self.changed.notify_all();
    }

    /// Waits until somebody waits at the gate.
    pub(super) fn await_reader(&self) {
        let shut = self.shut.lock().unwrap();
        drop(self.changed.wait_while(shut, |(_, waiting)| *waiting == 0).unwrap());
    }

    pub(super) fn times_passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }

    fn pass(&self, key: &str) {
        self.passed.fetch_add(usize::from(key == GATE), Ordering::Relaxed);
        let mut shut = self.shut.lock().unwrap();
        if shut.0.as_deref() == Some(key) {
            shut.1 += 1;
            self.changed.notify_all();
            shut = self.changed.wait_while(shut, |(shut, _)| shut.as_deref() == Some(key)).unwrap();
            shut.1 -= 1;
        }
    }
}

impl Corpus for Lines {
    fn space(&self) -> Space {
        Space::Sessions
    }

    fn changes(&self, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes> {
        self.compared.lock().unwrap().push(known.is_complete());
        self.streams.changes(Space::Sessions, known, since)
    }

    fn list(&self, place: Place, which: Selector<'_>, detail: ListDetail) -> Result<Vec<StreamStat>> {
        self.streams.list(&StreamFilter { detail, ..StreamFilter::sessions(place, which) })
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        if let Target::Id(id) = at {
            self.gate.pass(id.key.as_str());
        }
        self.streams.open(at)
    }

    fn origin(&self, header: &[u8]) -> Option<StreamOrigin> {
        let line: serde_json::Value = serde_json::from_slice(header).ok()?;
        Some(StreamOrigin { id: line["meta"]["id"].as_str()?.to_owned(), parent: None })
    }

    fn document<'a>(&self, entry: &Entry<'a>) -> Option<Document<'a>> {
        let line: serde_json::Value = serde_json::from_slice(entry.bytes).ok()?;
        let text = |name: &str| line[name].as_str().map(|text| Cow::Owned(text.to_owned()));
        let content = match (text("role"), text("content")) {
            (Some(role), Some(text)) => {
                if text == GATE {
                    self.gate.pass(GATE);
                }
                Content::Text { role, text }
            }
            _ => Content::Other,
        };
        Some(Document { ts: text("ts"), content })
    }

    fn score_scope(&self) -> ScoreScope {
        ScoreScope::Conversation
    }

    fn losses(&self) -> LossPolicy {
        LossPolicy::Remembered
    }
}

impl Deref for World {
    type Target = Lines;

    fn deref(&self) -> &Lines {
        &self.corpus
    }
}
