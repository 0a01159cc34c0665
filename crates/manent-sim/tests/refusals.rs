//! Refusals: file systems that are not written to, and records that get no receipt.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

use std::path::Path;
use std::sync::Arc;

use manent_log::fs::{Disk, FileSystem};
use manent_log::{
    Body, Durability, Error, Expect, FileSystemTrust, Log, LogItem, Options, Reader, SharedLog,
};
use manent_sim::{CrashKind, Errno, Fault, SimDisk};

const LOG: &str = "/store/log.jsonl";

fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.poke_dir("/store").unwrap();
    disk
}

fn shared(disk: &SimDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

fn options(trust: FileSystemTrust) -> Options {
    let (mut header, mut meta) = (Body::new(), Body::new());
    meta.number("format", manent_log::FORMAT);
    header.object("meta", &meta);
    Options { header: Some(header), trust, ..Options::default() }
}

fn turn(text: &str) -> Body {
    let mut body = Body::new();
    body.string("role", "user").string("content", text);
    body
}

/// On NFS an append is emulated with a race, and a lock may be local only: two machines would overwrite each other.
#[test]
fn a_network_or_unknown_file_system_is_refused_before_anything_is_created() {
    for file_system in [FileSystem::Network("NFS"), FileSystem::Unknown(0x1234)] {
        let disk = disk();
        disk.set_file_system(file_system);
        let refused = Log::open(&shared(&disk), Path::new(LOG), &options(FileSystemTrust::LocalOnly));
        assert!(matches!(refused, Err(Error::UnsafeFileSystem { .. })), "{refused:?}");
        assert!(disk.paths().is_empty(), "nothing may be left behind");
        let mut log =
            Log::open(&shared(&disk), Path::new(LOG), &options(FileSystemTrust::AnyFileSystem)).unwrap();
        assert!(log.append(&turn("insisted"), Durability::Sync, Expect::Any).is_ok());
    }
}

/// A sync that fails for the leader fails for everyone in its batch, and no later append may succeed: the kernel
/// reports the error once and then calls the lost pages clean.
#[test]
fn a_failed_sync_gives_no_receipt_to_any_thread_and_ends_the_handle() {
    for operation in 8..40 {
        let disk = disk();
        let log = Log::open(&shared(&disk), Path::new(LOG), &options(FileSystemTrust::LocalOnly)).unwrap();
        let log = SharedLog::new(log);
        disk.add_fault(disk.op_count() + operation, Fault::Fail(Errno::Io));
        let acknowledged: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|t| {
                    let log = &log;
                    scope.spawn(move || {
                        let tries = (0..10).map(|n| log.append(turn(&format!("{t} {n}")), Durability::Group));
                        tries.filter_map(Result::ok).map(|receipt| receipt.seq).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let log = log.into_inner();
        assert!(
            log.poisoned().is_some() || acknowledged.len() >= 54,
            "one batch at most fails without poison"
        );
        drop(log);
        disk.crash(CrashKind::Power);
        let disk = disk.restart();
        let mut kept = Vec::new();
        if let Ok(mut reader) = Reader::open(&shared(&disk), Path::new(LOG)) {
            while let Some(item) = reader.next().unwrap() {
                if let LogItem::Entry(entry) = item {
                    kept.push(entry.seq);
                }
            }
        }
        for seq in &acknowledged {
            assert!(
                kept.contains(seq),
                "record {seq} had a receipt and is gone (fault at operation {operation})"
            );
        }
    }
}
