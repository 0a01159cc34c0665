//! The contract of backends, run on ours: files, files on the simulated disk, memory, and on one in `SQLite`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod one_lock;
mod sqlite;
mod stores;

use std::cell::RefCell;
use std::sync::Arc;

use manent_log::RealDisk;
use manent_sim::SimDisk;
use manent_store::{Blobs, FileBlobs, Files, InMemory, InMemoryBlobs, Streams};

thread_local! {
    /// Each test has a thread of its own, and with it end its directories.
    static DIRS: RefCell<Vec<tempfile::TempDir>> = const { RefCell::new(Vec::new()) };
}

fn new_dir() -> std::path::PathBuf {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    DIRS.with_borrow_mut(|dirs| dirs.push(dir));
    path
}

fn on_files() -> Arc<dyn Streams> {
    Arc::new(Files::open(new_dir()).unwrap())
}

/// Keeps one file open, so that every change of the key closes one.
fn on_one_open_file() -> Arc<dyn Streams> {
    Arc::new(Files::open(new_dir()).unwrap().keeping_open(1))
}

fn on_a_simulated_disk() -> Arc<dyn Streams> {
    let disk = SimDisk::new(1);
    disk.poke_dir("/store").unwrap();
    Arc::new(Files::open_on(Arc::new(disk), "/store".into()).unwrap())
}

/// A directory of another program, which holds sessions and nothing else.
fn in_a_flat_directory() -> Arc<dyn Streams> {
    let dir = new_dir();
    RealDisk::shared().create_dir_all(&dir.join("archive")).unwrap();
    Arc::new(Files::open(dir).unwrap())
}

fn in_memory_only() -> Arc<dyn Streams> {
    Arc::new(InMemory::new())
}

fn in_a_database() -> Arc<dyn Streams> {
    Arc::new(sqlite::Sqlite::open(&new_dir().join("store.db")).unwrap())
}

fn with_one_lock() -> Arc<dyn Streams> {
    Arc::new(one_lock::OneLock::new(in_memory_only()))
}

mod files {
    manent_contract::backend_contract!(super::on_files);
}

mod few_open_files {
    manent_contract::backend_contract!(super::on_one_open_file);
}

mod simulated_disk {
    manent_contract::backend_contract!(super::on_a_simulated_disk);
}

mod flat_directory {
    manent_contract::backend_contract!(super::in_a_flat_directory);
}

mod in_sqlite {
    manent_contract::backend_contract!(super::in_a_database);
}

mod in_memory {
    manent_contract::backend_contract!(super::in_memory_only);
}

mod stores_on_files {
    crate::stores::store_tests!(super::on_files);
}

mod stores_on_a_simulated_disk {
    crate::stores::store_tests!(super::on_a_simulated_disk);
}

mod stores_in_memory {
    crate::stores::store_tests!(super::in_memory_only);
}

mod stores_in_sqlite {
    crate::stores::store_tests!(super::in_a_database);
}

/// The rustdoc of `LockName::Moves` allows a backend one lock for all spaces, so no operation may need two.
mod stores_with_one_lock {
    crate::stores::store_tests!(super::with_one_lock);
}

mod file_blobs {
    manent_contract::blobs_contract!(super::blobs_in_files);
}

mod simulated_blobs {
    manent_contract::blobs_contract!(super::blobs_on_a_simulated_disk);
}

mod in_memory_blobs {
    manent_contract::blobs_contract!(super::blobs_in_memory);
}

fn blobs_in_files() -> Arc<dyn Blobs> {
    Arc::new(FileBlobs::new(RealDisk::shared(), new_dir().join("blobs")))
}

fn blobs_on_a_simulated_disk() -> Arc<dyn Blobs> {
    let disk = SimDisk::new(1);
    disk.poke_dir("/cache").unwrap();
    Arc::new(FileBlobs::new(Arc::new(disk), "/cache/blobs".into()))
}

fn blobs_in_memory() -> Arc<dyn Blobs> {
    Arc::new(InMemoryBlobs::new())
}

/// The lists of checks are written by hand; a check that is not on them would never run.
#[test]
fn every_check_is_on_the_list() {
    let listed: Vec<&str> = manent_contract::CHECKS.to_vec();
    let of_blobs = manent_contract::BLOB_CHECKS.iter().map(|(name, _)| *name);
    let listed: Vec<&str> = listed.into_iter().chain(of_blobs).collect();
    let sources = [
        include_str!("../src/blobs.rs"),
        include_str!("../src/append.rs"),
        include_str!("../src/idempotency.rs"),
        include_str!("../src/keys.rs"),
        include_str!("../src/read.rs"),
        include_str!("../src/positions.rs"),
        include_str!("../src/follow.rs"),
        include_str!("../src/lease.rs"),
        include_str!("../src/lock.rs"),
        include_str!("../src/threads.rs"),
        include_str!("../src/list.rs"),
        include_str!("../src/changes.rs"),
        include_str!("../src/relocate.rs"),
        include_str!("../src/create.rs"),
        include_str!("../src/replace.rs"),
        include_str!("../src/spaces.rs"),
    ];
    let names = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
        let rest = line.strip_prefix("pub fn ")?;
        Some(rest.split('(').next().unwrap())
    });
    let forgotten: Vec<&str> = names.filter(|name| !listed.contains(name)).collect();
    assert_eq!(forgotten, Vec::<&str>::new());
}

#[allow(clippy::disallowed_methods, reason = "the tests play another program")]
mod other_programs {
    use std::collections::BTreeMap;
    use std::io::Write;
    use std::path::Path;
    use std::time::Duration;

    use manent_log::{Body, Durability};
    use manent_store::{
        AppendOptions, ChangeKind, Changes, Cursor, Files, IfMissing, KnownStreams, Place, Selector,
        SessionKey, Space, StreamHeader, StreamId, StreamPart, Streams, Target, Version,
    };

    const LINE: &str = "{\"role\":\"user\",\"content\":\"of another program\"}\n";

    fn header(key: &SessionKey) -> StreamHeader {
        let (mut meta, mut body) = (Body::new(), Body::new());
        meta.number("format", 1)
            .string("id", "01a1e14d-2382-722e-bd10-b9f468ff6bed")
            .string("key", key.as_str());
        body.object("meta", &meta);
        StreamHeader { id: "01a1e14d-2382-722e-bd10-b9f468ff6bed".into(), body }
    }

    fn say(streams: &dyn Streams, key: &SessionKey, text: &str) {
        let mut body = Body::new();
        body.string("role", "user").string("content", text);
        let how = AppendOptions::new(Durability::Flush);
        streams.append(&StreamId::live(key), &|| header(key), &[body], &how).unwrap();
    }

    fn write(path: &Path) {
        std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(LINE.as_bytes()).unwrap();
    }

    /// Lines that the caller of `replace` did not see are not thrown away.
    #[test]
    fn replace_after_a_write_of_another_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        let work = SessionKey::new("work").unwrap();
        say(&files, &work, "1");
        let at = StreamId::live(&work);
        let path = files.path(&at).unwrap();
        let replace = |meanwhile: &dyn Fn(), during: &dyn Fn()| {
            let writer = files.lease(&at, IfMissing::Refuse, Duration::ZERO).unwrap();
            meanwhile();
            let mut parts = std::iter::once_with(|| {
                during();
                Ok(StreamPart::Lines { of: at.clone(), upto: Some(1) })
            });
            writer.replace(Some(&header(&work).body), &mut parts, &[])
        };
        let before = std::fs::read_to_string(&path).unwrap();
        let refused = replace(&|| write(&path), &|| {}).unwrap_err();
        assert!(refused.is_conflict(), "before the parts are asked for: {refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{before}{LINE}"));
        let refused = replace(&|| {}, &|| write(&path)).unwrap_err();
        assert!(refused.is_conflict(), "while the parts are asked for: {refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{before}{LINE}{LINE}"));
        replace(&|| {}, &|| {}).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2, "nobody wrote meanwhile");
    }

    /// The same of an archived session, which is locked by another way.
    #[test]
    fn replace_of_an_archive_after_a_write_of_another_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        let work = SessionKey::new("work").unwrap();
        say(&files, &work, "1");
        let at = files.relocate(&StreamId::live(&work), Place::Archive, Duration::ZERO).unwrap();
        let path = dir.path().join("archive").join(format!("work.{}.jsonl", at.id));
        let writer = files.lease(&at, IfMissing::Refuse, Duration::ZERO).unwrap();
        write(&path);
        let mut parts = std::iter::once(Ok(StreamPart::Lines { of: at.clone(), upto: Some(1) }));
        let refused = writer.replace(Some(&header(&work).body), &mut parts, &[]).unwrap_err();
        assert!(refused.is_conflict(), "{refused}");
        assert!(std::fs::read_to_string(&path).unwrap().ends_with(LINE));
    }

    /// In a directory of another program, files that have the names of our own are its sessions.
    #[test]
    fn flat_directory_has_no_streams_of_other_spaces() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("archive")).unwrap();
        for name in ["memory.jsonl", "trusted.jsonl"] {
            std::fs::write(dir.path().join(name), LINE).unwrap();
        }
        let files = Files::open(dir.path()).unwrap();
        for space in [Space::Memory, Space::Ledger, Space::Runs] {
            assert!(!files.supports(space));
            let filter = manent_store::StreamFilter::new(space, Place::Live, Selector::All);
            assert_eq!(files.list(&filter).unwrap(), []);
            let target = Target::Name { space, place: Place::Live, name: "memory.jsonl" };
            assert!(files.open(target).unwrap_err().is_not_found());
            let changes = files.changes(space, &ChangeTracker::default(), &Cursor::default()).unwrap();
            assert_eq!(changes.streams, []);
        }
        let sessions = manent_store::StreamFilter::sessions(Place::Live, Selector::All);
        assert_eq!(files.list(&sessions).unwrap().len(), 2);
    }

    /// A name leads to a stream, never out of the directories of the store.
    #[test]
    fn name_with_a_path_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::open(dir.path()).unwrap();
        say(&files, &SessionKey::new("work").unwrap(), "1");
        std::fs::write(dir.path().join("memory.jsonl"), LINE).unwrap();
        for name in
            ["../memory.jsonl", "sessions/../../memory.jsonl", "/etc/hostname", "../sessions/work.jsonl"]
        {
            for place in Place::ALL {
                let target = Target::Name { space: Space::Sessions, place, name };
                assert!(files.open(target).unwrap_err().is_not_found(), "{name:?}");
                let which = manent_store::StreamFilter::sessions(place, Selector::Name(name));
                assert_eq!(files.list(&which).unwrap(), [], "{name:?}");
            }
        }
    }

    #[derive(Default)]
    struct ChangeTracker {
        versions: BTreeMap<(Place, String), Version>,
        cursor: Cursor,
    }

    impl KnownStreams for ChangeTracker {
        fn each(&self, take: &mut dyn FnMut(Place, &str, Version)) {
            self.versions.iter().for_each(|((place, name), version)| take(*place, name, *version));
        }

        fn version(&self, place: Place, name: &str) -> Option<Version> {
            self.versions.get(&(place, name.to_owned())).copied()
        }
    }

    impl ChangeTracker {
        /// Returns whether a live file is there, if the next answer tells of it.
        fn poll_file(&mut self, files: &Files, name: &str) -> Option<bool> {
            let Changes { streams, cursor, .. } = files.changes(Space::Sessions, self, &self.cursor).unwrap();
            self.cursor = cursor;
            let mut is_there = None;
            for change in streams {
                if (change.place, change.name.as_str()) == (Place::Live, name) {
                    is_there = Some(change.kind != ChangeKind::Gone);
                }
                match change.kind.state() {
                    Some(seen) => self.versions.insert((change.place, change.name), seen.version),
                    None => self.versions.remove(&(change.place, change.name)),
                };
            }
            is_there
        }
    }

    /// Changes by other processes and other programs are told as our own are.
    #[test]
    fn changes_of_other_programs_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let work = SessionKey::new("work").unwrap();
        let other = Files::open(dir.path()).unwrap();
        say(&other, &work, "1");
        let files = Files::open(dir.path()).unwrap();
        let mut tracker = ChangeTracker::default();
        let sessions = dir.path().join("sessions");
        assert_eq!(tracker.poll_file(&files, "work.jsonl"), Some(true), "the first look");
        tracker.poll_file(&files, "work.jsonl");
        say(&other, &work, "2");
        assert_eq!(tracker.poll_file(&files, "work.jsonl"), Some(true), "an append");
        let foreign = sessions.join("foreign.jsonl");
        std::fs::write(&foreign, LINE).unwrap();
        assert_eq!(tracker.poll_file(&files, "foreign.jsonl"), Some(true), "a file of another program");
        write(&foreign);
        assert_eq!(tracker.poll_file(&files, "foreign.jsonl"), Some(true), "appended to");
        std::fs::OpenOptions::new().write(true).open(&foreign).unwrap().set_len(3).unwrap();
        assert_eq!(tracker.poll_file(&files, "foreign.jsonl"), Some(true), "cut");
        std::fs::rename(&foreign, sessions.join("other.jsonl")).unwrap();
        assert_eq!(tracker.poll_file(&files, "other.jsonl"), Some(true), "renamed");
        assert!(
            !tracker.versions.contains_key(&(Place::Live, "foreign.jsonl".into())),
            "its old name is gone"
        );
        std::fs::remove_file(sessions.join("other.jsonl")).unwrap();
        assert_eq!(tracker.poll_file(&files, "other.jsonl"), Some(false), "removed");
        other.relocate(&StreamId::live(&work), Place::Archive, Duration::ZERO).unwrap();
        assert_eq!(tracker.poll_file(&files, "work.jsonl"), Some(false), "archived");
        assert_eq!(tracker.versions.keys().map(|(place, _)| *place).collect::<Vec<_>>(), [Place::Archive]);
    }
}
