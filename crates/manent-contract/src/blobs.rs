//! Checks that every [`Blobs`] must pass.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use manent_log::Durability;
use manent_store::{Blob, Blobs, Lock, Version};

use crate::subject::{LONG, let_others_run};

/// Makes an empty place for blobs, a new one each time.
pub type MakeBlobs<'a> = &'a dyn Fn() -> Arc<dyn Blobs>;

/// A check of blobs, and its name.
pub type BlobCheck = (&'static str, fn(MakeBlobs<'_>));

/// Every check of blobs.
pub const BLOB_CHECKS: &[BlobCheck] = crate::blobs_contract!(@list table);

const LOCK: &str = "contract.lock";

/// Makes a folder, which a lock does, and returns its lock.
#[track_caller]
fn folder(blobs: &dyn Blobs, name: &str) -> Lock {
    blobs.lock(name, LOCK, LONG).expect("locked").expect("nobody else holds it")
}

#[track_caller]
fn open(blobs: &dyn Blobs, name: &str) -> Box<dyn Blob> {
    blobs.open(name).expect("looked for").expect("a blob")
}

#[track_caller]
fn content(blob: &dyn Blob) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 1000];
    loop {
        match blob.read_at(&mut buffer, all.len() as u64).expect("read") {
            0 => break,
            n => all.extend_from_slice(&buffer[..n]),
        }
    }
    assert_eq!((blob.len(), blob.is_empty()), (all.len() as u64, all.is_empty()));
    all
}

/// Lists a folder without what locks leave in it.
#[track_caller]
fn names(blobs: &dyn Blobs, folder: &str) -> Vec<String> {
    let mut names = blobs.list(folder).expect("listed");
    names.retain(|name| name != LOCK);
    names.sort();
    names
}

/// A blob is read back as it was put, from any offset, and found under its name alone.
pub fn blob_is_read_back_as_it_was_put(make: MakeBlobs<'_>) {
    let blobs = make();
    let _lock = folder(&*blobs, "index");
    let large: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    for bytes in [&b""[..], b"x", &large] {
        blobs.put("index/blob", bytes).expect("put");
        blobs.sync("index").expect("synced");
        let blob = open(&*blobs, "index/blob");
        assert_eq!(content(&*blob), bytes);
        let mut buffer = [0; 10];
        for offset in [0, 1, 100, 299_995].into_iter().filter(|offset| *offset < bytes.len()) {
            let read = blob.read_at(&mut buffer, offset as u64).expect("read");
            assert!(read > 0 && buffer[..read] == bytes[offset..offset + read], "from {offset}");
        }
        for offset in [bytes.len() as u64, bytes.len() as u64 + 100, 1 << 40] {
            assert_eq!(blob.read_at(&mut buffer, offset).expect("read"), 0, "at or beyond the end");
        }
        assert_eq!(blob.read_at(&mut [], 0).expect("read"), 0, "nothing is asked for");
    }
    for missing in ["blob", "index", "index/blo", "index/blob2", "index/blob/x", "other/blob"] {
        if missing != "index" {
            assert!(blobs.stat(missing).ok().flatten().is_none(), "{missing:?} was not put");
        }
        assert!(blobs.open(missing).ok().flatten().is_none(), "{missing:?} was not put");
    }
}

/// `put` replaces the blob of a name; whoever has the old one open goes on reading that.
pub fn put_replaces_and_open_blobs_stay(make: MakeBlobs<'_>) {
    let blobs = make();
    let _lock = folder(&*blobs, "index");
    let mut opened: Vec<Box<dyn Blob>> = Vec::new();
    for n in 0..5 {
        blobs.put("index/blob", format!("blob {n}").as_bytes()).expect("put");
        opened.push(open(&*blobs, "index/blob"));
    }
    blobs.delete("index/blob").expect("deleted");
    for (n, blob) in opened.iter().enumerate() {
        assert_eq!(content(&**blob), format!("blob {n}").into_bytes());
    }
    let versions: Vec<Version> = opened.iter().map(|blob| blob.version()).collect();
    for (n, version) in versions.iter().enumerate() {
        assert!(!versions[..n].contains(version), "blob {n} has a version of its own: {versions:?}");
    }
}

/// `append` makes a blob and adds to it. A blob that is open stays what it was.
pub fn append_makes_and_extends_a_blob(make: MakeBlobs<'_>) {
    let blobs = make();
    let _lock = folder(&*blobs, "reports");
    let mut whole = Vec::new();
    for (n, durability) in [Durability::Sync, Durability::Group, Durability::Flush].into_iter().enumerate() {
        let before = blobs.open("reports/log").expect("looked for");
        assert_eq!(before.is_some(), n > 0);
        let line = format!("line {n}\n");
        blobs.append("reports/log", line.as_bytes(), durability).expect("appended");
        if let Some(before) = before {
            assert_eq!(content(&*before), whole, "it stays what it was when it was opened");
            let now = open(&*blobs, "reports/log").version();
            assert_ne!(before.version(), now, "what was appended to has another version");
        }
        whole.extend_from_slice(line.as_bytes());
        assert_eq!(content(&*open(&*blobs, "reports/log")), whole);
    }
    blobs.put("reports/log", b"anew\n").expect("put");
    blobs.append("reports/log", b"and on\n", Durability::Flush).expect("appended");
    assert_eq!(content(&*open(&*blobs, "reports/log")), b"anew\nand on\n");
}

/// A stat of a blob agrees with the open blob.
pub fn stat_agrees_with_the_open_blob(make: MakeBlobs<'_>) {
    let blobs = make();
    let _lock = folder(&*blobs, "index");
    assert_eq!(blobs.stat("index/blob").expect("looked for"), None);
    let mut last = 0;
    for text in ["one", "another", ""] {
        blobs.put("index/blob", text.as_bytes()).expect("put");
        let stat = blobs.stat("index/blob").expect("looked for").expect("a blob");
        let blob = open(&*blobs, "index/blob");
        assert_eq!((stat.version, stat.bytes), (blob.version(), blob.len()));
        assert_eq!(blobs.stat("index/blob").expect("looked for"), Some(stat), "nothing happened");
        assert!(stat.modified_ms > 0 && stat.modified_ms >= last, "{stat:?} after {last}");
        last = stat.modified_ms;
    }
}

/// A list gives the names in a folder: not those in other folders, nor in folders inside it.
pub fn list_gives_the_names_in_a_folder(make: MakeBlobs<'_>) {
    let blobs = make();
    assert_eq!(names(&*blobs, "index"), Vec::<String>::new(), "a folder that was not made");
    let folders = ["", "index", "index/inner", "reports"];
    let _locks = folders.map(|name| folder(&*blobs, name));
    for name in ["top", "index/a", "index/b.seg", "index/inner/c", "reports/a"] {
        blobs.put(name, name.as_bytes()).expect("put");
    }
    let listed = folders.map(|folder| names(&*blobs, folder));
    assert_eq!(listed, [vec!["top"], vec!["a", "b.seg"], vec!["c"], vec!["a"]]);
    blobs.delete("index/a").expect("deleted");
    blobs.append("index/d", b"x", Durability::Flush).expect("appended");
    assert_eq!(names(&*blobs, "index"), ["b.seg", "d"]);
    assert_eq!(content(&*open(&*blobs, "reports/a")), b"reports/a", "a name counts within its folder");
}

/// A deleted blob is gone; deleting what is not there does nothing.
pub fn delete_removes_a_blob_once(make: MakeBlobs<'_>) {
    let blobs = make();
    blobs.delete("index/blob").expect("neither folder nor blob is there");
    let _lock = folder(&*blobs, "index");
    blobs.put("index/blob", b"x").expect("put");
    for _ in 0..2 {
        blobs.delete("index/blob").expect("deleted");
        blobs.sync("index").expect("synced");
        assert!(blobs.open("index/blob").expect("looked for").is_none());
        assert_eq!(blobs.stat("index/blob").expect("looked for"), None);
        assert_eq!(names(&*blobs, "index"), Vec::<String>::new());
    }
    blobs.put("index/blob", b"y").expect("put");
    assert_eq!(content(&*open(&*blobs, "index/blob")), b"y");
}

/// A folder is made by its lock. Before that nothing can be put into it, and nobody can say whether to believe it.
pub fn folder_is_made_by_its_lock(make: MakeBlobs<'_>) {
    let blobs = make();
    assert!(!blobs.name("index").is_empty(), "a folder has a name for messages");
    assert_ne!(blobs.name("index"), blobs.name("reports"));
    let kind = |result: io::Result<()>| result.expect_err("no folder").kind();
    assert_eq!(kind(blobs.put("index/blob", b"x")), io::ErrorKind::NotFound);
    assert_eq!(kind(blobs.append("index/blob", b"x", Durability::Flush)), io::ErrorKind::NotFound);
    assert_eq!(kind(blobs.is_trustworthy("index").map(|_| ())), io::ErrorKind::NotFound);
    blobs.sync("index").expect("nothing to sync");
    assert!(blobs.open("index/blob").expect("looked for").is_none());
    drop(folder(&*blobs, "index"));
    assert!(blobs.is_trustworthy("index").expect("looked at"));
    blobs.put("index/blob", b"x").expect("put");
}

/// A lock has one holder, is waited for, and ends with its holder. Other names and folders have other locks.
pub fn blob_lock_has_one_holder(make: MakeBlobs<'_>) {
    let blobs = make();
    let held = folder(&*blobs, "index");
    for wait in [Duration::ZERO, Duration::from_millis(30)] {
        assert!(blobs.lock("index", LOCK, wait).expect("looked at").is_none(), "a second holder");
        assert!(!blobs.wait_for("index", LOCK, wait).expect("looked at"), "it is held");
    }
    drop(blobs.lock("index", "another.lock", Duration::ZERO).expect("looked at").expect("another name"));
    drop(blobs.lock("reports", LOCK, Duration::ZERO).expect("looked at").expect("another folder"));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _lock = folder(&*blobs, "index");
            assert!(done.load(Ordering::SeqCst), "two held the lock");
        });
        scope.spawn(|| {
            assert!(blobs.wait_for("index", LOCK, LONG).expect("looked at"));
            assert!(done.load(Ordering::SeqCst), "waited for, while it was held");
        });
        let_others_run();
        done.store(true, Ordering::SeqCst);
        drop(held);
    });
    for _ in 0..2 {
        assert!(blobs.wait_for("index", LOCK, Duration::ZERO).expect("looked at"), "free, and not taken");
    }
    assert!(blobs.wait_for("nowhere", LOCK, Duration::ZERO).expect("looked at"), "never held");
    assert!(blobs.is_trustworthy("nowhere").is_err(), "waiting makes no folder");
    drop(folder(&*blobs, "index"));
}

/// Whoever reads while others put sees one blob or another, never a part or a mixture.
pub fn readers_during_puts_see_whole_blobs(make: MakeBlobs<'_>) {
    let blobs = make();
    let _lock = folder(&*blobs, "index");
    let blob = |n: u8| vec![n; 5000 + usize::from(n)];
    blobs.put("index/blob", &blob(0)).expect("put");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let read = content(&*open(&*blobs, "index/blob"));
                assert_eq!(read, blob(read[0]), "one of the blobs that were put");
            }
        });
        for n in 1..100 {
            blobs.put("index/blob", &blob(n)).expect("put");
        }
        done.store(true, Ordering::SeqCst);
    });
}

/// Makes one test of each check of [`Blobs`](manent_store::Blobs). It takes an expression that can be called to make an
/// empty place for blobs: a function, or a closure that captures nothing.
#[macro_export]
macro_rules! blobs_contract {
    (@list $then:ident $($make:expr)?) => {
        $crate::blobs_contract! {
            @$then ($($make)?)
            blob_is_read_back_as_it_was_put
            put_replaces_and_open_blobs_stay
            append_makes_and_extends_a_blob
            stat_agrees_with_the_open_blob
            list_gives_the_names_in_a_folder
            delete_removes_a_blob_once
            folder_is_made_by_its_lock
            blob_lock_has_one_holder
            readers_during_puts_see_whole_blobs
        }
    };
    (@table () $($check:ident)*) => { &[$((stringify!($check), $check)),*] };
    (@tests ($make:expr) $($check:ident)*) => {
        $(
            #[test]
            fn $check() {
                $crate::$check(&$make);
            }
        )*
    };
    ($make:expr) => { $crate::blobs_contract! { @list tests $make } };
}
