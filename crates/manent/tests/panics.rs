//! A disk, or a backend, that panics at each of its calls in turn, under a store that many threads use: nobody hangs,
//! nobody gets a receipt for what is not kept, and the store can be opened and used afterwards.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use manent::backend::{
    AppendOptions, Blobs, Changes, Cursor, IfMissing, KnownStreams, Lock, LockMode, LockName, Maintenance,
    NewHeader, Place, Position, Receipt, Replaced, Result, Seek, Space, StreamFilter, StreamHeader, StreamId,
    StreamParts, StreamReader, StreamStat, StreamWriter, Streams, Target,
};
use manent::log::{Entry, FileChange, KeyRule, KeyedLine, LogEnd, LogItem, Occurrence, SetAside};
use manent::{
    Body, Damage, Durability, Expect, Files, InMemory, Query, SessionKey, Store, StoreOptions, turn,
};
use manent_sim::{CrashKind, Fault, SimDisk};

fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

fn query() -> Query {
    Query::parse("again", 0).unwrap()
}

fn said(text: &str) -> Body {
    turn("user", text).key(text).into()
}

/// The acknowledged records, and whether any thread panicked.
#[derive(Debug, Default)]
struct Told {
    acknowledged: Vec<(&'static str, String)>,
    panics: usize,
}

/// Threads that append in groups, alone and under a lease, search, list, and move sessions about. A panic ends what it
/// struck; its thread goes on with the next.
fn crowd(store: &Store) -> Told {
    let mut told = Told::default();
    let append = |session: &'static str, text: String, durability: Durability| {
        let appended = catch_unwind(AssertUnwindSafe(|| {
            store.append_with(&key(session), &[said(&text)], durability, Expect::Any)
        }));
        (session, text, appended)
    };
    let leased = |text: &str| -> manent::Result<Vec<Receipt>> {
        let mut session = store.session(&key("leased"))?;
        session.append_with(&[said(text), said(&format!("{text} more"))], Durability::Sync, Expect::Any)
    };
    let others: [&(dyn Fn() -> manent::Result<()> + Sync); 4] = [
        &|| store.search(&query(), 10).map(drop),
        &|| store.list(Place::Live).map(drop),
        &|| store.fork(&StreamId::live(&key("shared")), None, &key("fork")).map(drop),
        &|| {
            let archived = store.archive(&store.find(&key("leased"))?.id, &mut |_, _| {})?;
            store.unarchive(&archived).map(drop)
        },
    ];
    std::thread::scope(|scope| {
        let groups: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let one = |nth| append("shared", format!("again {thread} {nth}"), Durability::Group);
                    (0..2).map(one).collect::<Vec<_>>()
                })
            })
            .collect();
        let alone = scope.spawn(|| {
            let first = append("alone", "again alone".to_owned(), Durability::Sync);
            let second = catch_unwind(AssertUnwindSafe(|| leased("again leased")));
            (first, second)
        });
        let others: Vec<_> =
            others.map(|other| scope.spawn(move || catch_unwind(AssertUnwindSafe(other)).is_err())).into();
        for (session, text, appended) in groups.into_iter().flat_map(|thread| thread.join().unwrap()) {
            told.hear(session, &[&text], appended);
        }
        let ((session, text, first), second) = alone.join().unwrap();
        told.hear(session, &[&text], first);
        told.hear("leased", &["again leased", "again leased more"], second);
        told.panics += others.into_iter().map(|other| usize::from(other.join().unwrap())).sum::<usize>();
    });
    told
}

impl Told {
    fn hear(
        &mut self,
        session: &'static str,
        texts: &[&str],
        appended: std::thread::Result<manent::Result<Vec<Receipt>>>,
    ) {
        match appended {
            Err(_) => self.panics += 1,
            Ok(Err(_)) => {}
            Ok(Ok(receipts)) => {
                assert_eq!(receipts.len(), texts.len());
                self.acknowledged.extend(texts.iter().map(|text| (session, (*text).to_owned())));
            }
        }
    }

    /// Everything that was acknowledged is there once, wherever its session is now.
    fn check(&self, store: &Store, what: &str) {
        let mut there = BTreeSet::new();
        for place in Place::ALL {
            for listed in store.list(place).unwrap() {
                let name = listed.id.key.to_string();
                for turn in store.load_at(&listed.id).unwrap().turns() {
                    let new = there.insert((name.clone(), turn.content.to_owned()));
                    assert!(new, "{what}: {name} has {:?} twice", turn.content);
                }
            }
        }
        for (session, text) in &self.acknowledged {
            let wanted = ((*session).to_owned(), text.clone());
            assert!(there.contains(&wanted), "{what}: {text:?} of {session} was acknowledged and is gone");
        }
    }

    /// The store can be used: what may have failed is tried again, and there once.
    fn go_on(&mut self, store: &Store, what: &str) {
        self.check(store, what);
        let again = |session: &'static str, text: &str| {
            let live = key(session);
            if !store.exists(&live).unwrap() && !store.list_of(Place::Archive, &live).unwrap().is_empty() {
                store.unarchive(&store.find(&live).unwrap().id).unwrap();
            }
            let done = store.append(&live, said(text));
            (
                session,
                done.unwrap_or_else(|e| panic!("{what}: {text} is not taken any more: {e}")),
                text.to_owned(),
            )
        };
        let texts =
            [("shared", "again 0 1"), ("shared", "again 1 1"), ("alone", "again alone"), ("leased", "x")];
        for (session, _, text) in texts.map(|(session, text)| again(session, text)) {
            self.acknowledged.push((session, text));
        }
        self.acknowledged.sort();
        self.acknowledged.dedup();
        self.check(store, what);
        store.search(&query(), 10).unwrap();
    }
}

fn options() -> StoreOptions {
    StoreOptions { wait: Duration::from_mins(1), ..StoreOptions::default() }
}

#[test]
fn panic_of_the_disk_at_any_call_hangs_nobody_and_gives_no_false_receipt() {
    let mut panics = 0;
    for operation in (0..).step_by(3) {
        let disk = SimDisk::new(operation);
        disk.poke_dir("/home").unwrap();
        let fault = if operation % 2 == 0 { Fault::PanicBefore } else { Fault::PanicAfter };
        disk.add_fault(operation, fault);
        let what = format!("{fault:?} at operation {operation}");
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Store::open_on(Arc::new(disk.clone()), "/home/store".into(), options()).unwrap()
        }));
        let mut told = Told::default();
        if let Ok(store) = opened {
            told = crowd(&store);
            panics += told.panics;
            let reached = disk.faults_left() == 0;
            disk.reset_faults();
            told.check(&store, &what);
            told.go_on(&store, &format!("{what}, the same store"));
            let closed = catch_unwind(AssertUnwindSafe(|| drop(store)));
            assert!(closed.is_ok(), "{what}: closing");
            if !reached {
                assert!(operation > 100, "only {operation} operations");
                break;
            }
        }
        disk.reset_faults();
        disk.crash(CrashKind::Power);
        let disk = disk.restart();
        let store = Store::open_on(Arc::new(disk), "/home/store".into(), options()).unwrap();
        told.go_on(&store, &format!("{what}, after a power cut"));
    }
    assert!(panics > 10, "only {panics} panics were heard of");
}

#[test]
fn panic_of_a_backend_at_any_call_hangs_nobody_and_gives_no_false_receipt() {
    for in_memory in [true, false] {
        let mut panics = 0;
        for call in 1.. {
            let disk = SimDisk::new(call);
            disk.poke_dir("/home").unwrap();
            let files = Files::open_on(Arc::new(disk.clone()), "/home/store".into()).unwrap();
            let blobs = files.blobs().filter(|_| !in_memory).map(|blobs| Arc::new(blobs) as Arc<dyn Blobs>);
            let inner: Arc<dyn Streams> = if in_memory { Arc::new(InMemory::new()) } else { Arc::new(files) };
            let countdown = Countdown(Arc::new(AtomicU64::new(call)));
            let backend = Panicking { inner: inner.clone(), countdown: countdown.clone() };
            let store = Store::on(Arc::new(backend), blobs.clone(), options());
            let mut told = crowd(&store);
            panics += told.panics;
            let what = format!("call {call}");
            if countdown.0.swap(0, Ordering::Relaxed) > 0 {
                assert!(call > 15, "only {call} calls");
                break;
            }
            told.go_on(&store, &what);
            drop(store);
            told.go_on(&Store::on(inner, blobs, options()), &format!("{what}, another store"));
        }
        assert!(panics > 5, "only {panics} panics were heard of");
    }
}

/// Panics when it comes to 0.
#[derive(Debug, Clone)]
struct Countdown(Arc<AtomicU64>);

impl Countdown {
    fn tick(&self) {
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if before == Ok(1) {
            std::panic::resume_unwind(Box::new("a backend that panics"));
        }
    }
}

/// A backend that does what another does, and panics at one of its calls.
#[derive(Debug)]
struct Panicking {
    inner: Arc<dyn Streams>,
    countdown: Countdown,
}

#[derive(Debug)]
struct PanickingWriter {
    inner: Box<dyn StreamWriter>,
    countdown: Countdown,
}

#[derive(Debug)]
struct PanickingReader {
    inner: Box<dyn StreamReader>,
    countdown: Countdown,
}

impl StreamWriter for PanickingWriter {
    fn append(&mut self, bodies: &[Body], how: &AppendOptions<'_>) -> Result<Vec<Receipt>> {
        self.countdown.tick();
        let appended = self.inner.append(bodies, how);
        // Also when it is done, and nobody heard of it.
        self.countdown.tick();
        appended
    }

    fn find(&mut self, rule: &KeyRule, key: &[u8], which: Occurrence) -> Result<Option<KeyedLine>> {
        self.countdown.tick();
        self.inner.find(rule, key, which)
    }

    fn keep_from(&mut self, position: Position) -> Result<()> {
        self.countdown.tick();
        self.inner.keep_from(position)
    }

    fn replace(
        self: Box<Self>,
        header: Option<&Body>,
        parts: StreamParts<'_>,
        left_out: &[Damage],
    ) -> Result<Replaced> {
        self.countdown.tick();
        self.inner.replace(header, parts, left_out)
    }

    fn acknowledge(&mut self, ts: &str) -> Result<Vec<Damage>> {
        self.inner.acknowledge(ts)
    }

    fn next_seq(&self) -> u64 {
        self.countdown.tick();
        self.inner.next_seq()
    }

    fn id(&self) -> &Arc<str> {
        self.countdown.tick();
        self.inner.id()
    }

    fn header(&self) -> Option<Entry<'_>> {
        self.countdown.tick();
        self.inner.header()
    }

    fn is_new(&self) -> bool {
        self.inner.is_new()
    }

    fn is_native(&self) -> bool {
        self.inner.is_native()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    fn set_aside(&self) -> Option<&SetAside> {
        self.inner.set_aside()
    }
}

impl StreamReader for PanickingReader {
    fn header(&self) -> Option<&[u8]> {
        self.countdown.tick();
        self.inner.header()
    }

    fn id(&self) -> &str {
        self.inner.id()
    }

    fn seek(&mut self, to: Seek<'_>) -> Result<u64> {
        self.countdown.tick();
        self.inner.seek(to)
    }

    fn end_at(&mut self, seq: u64) {
        self.inner.end_at(seq);
    }

    fn advance(&mut self) -> Result<bool> {
        self.countdown.tick();
        self.inner.advance()
    }

    fn item(&self) -> Option<LogItem<'_>> {
        self.countdown.tick();
        self.inner.item()
    }

    fn line_at(&self, position: Position, bytes: usize) -> Result<Option<Vec<u8>>> {
        self.countdown.tick();
        self.inner.line_at(position, bytes)
    }

    fn end(&self) -> LogEnd {
        self.inner.end()
    }

    fn poll(&self) -> Result<FileChange> {
        self.inner.poll()
    }

    fn identity(&self) -> [u64; 2] {
        self.inner.identity()
    }

    fn is_native(&self) -> Result<bool> {
        self.inner.is_native()
    }
}

impl Streams for Panicking {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn supports(&self, space: Space) -> bool {
        self.inner.supports(space)
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        self.countdown.tick();
        let inner = self.inner.open(at)?;
        Ok(Box::new(PanickingReader { inner, countdown: self.countdown.clone() }))
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        self.countdown.tick();
        let inner = self.inner.lease(id, missing, wait)?;
        Ok(Box::new(PanickingWriter { inner, countdown: self.countdown.clone() }))
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &AppendOptions<'_>,
    ) -> Result<Vec<Receipt>> {
        self.countdown.tick();
        // The header is made inside of the commit: a panic there is one of whoever leads it.
        let header = || {
            self.countdown.tick();
            new()
        };
        let appended = self.inner.append(id, &header, records, how);
        self.countdown.tick();
        appended
    }

    fn list(&self, which: &StreamFilter<'_>) -> Result<Vec<StreamStat>> {
        self.countdown.tick();
        self.inner.list(which)
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes> {
        self.countdown.tick();
        self.inner.changes(space, known, since)
    }

    fn create(&self, id: &StreamId, header: &StreamHeader, parts: StreamParts<'_>) -> Result<()> {
        self.countdown.tick();
        self.inner.create(id, header, parts)
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        self.countdown.tick();
        self.inner.relocate(id, to, wait)
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        self.countdown.tick();
        self.inner.delete(id, wait)
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        self.countdown.tick();
        self.inner.sync(id)
    }

    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        self.countdown.tick();
        self.inner.lock(name, mode, wait)
    }

    fn maintenance(&self) -> Option<&dyn Maintenance> {
        self.countdown.tick();
        self.inner.maintenance()
    }
}
