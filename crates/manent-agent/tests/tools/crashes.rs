//! A disk that refuses, and a power cut: there is the old file or the new one, never anything else.

use std::path::PathBuf;
use std::sync::Arc;

use manent::log::fs::Disk;
use manent::{InMemory, SessionKey, Store, StoreOptions};
use manent_agent::tools::{ToolContext, Tools};
use manent_sim::{Errno, Fault, SimDisk};
use serde_json::json;

use super::call;

const OLD: &[u8] = b"the old content\n";
const NEW: &str = "the new content, which is longer than the old one\n";

fn disk(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    disk.poke_dir("/work").unwrap();
    disk.poke("/work/a.txt", OLD).unwrap();
    disk
}

fn tools(disk: &SimDisk) -> Option<Tools> {
    let store = Store::on(Arc::new(InMemory::default()), None, StoreOptions::default());
    let surroundings = ToolContext {
        disk: Arc::new(disk.clone()) as Arc<dyn Disk>,
        workspace: PathBuf::from("/work"),
        hidden: Vec::new(),
        keeper: Arc::new(store.clone()),
        store,
        session: SessionKey::new("s").unwrap(),
        shell: None,
    };
    Tools::new(surroundings).ok()
}

/// Returns true if the write succeeded.
fn write(disk: &SimDisk, path: &str) -> Option<bool> {
    let prepared = tools(disk)?.prepare(&call("write_file", &json!({"path": path, "content": NEW}))).ok()?;
    Some(!prepared.run(&|| false).failed)
}

/// Returns the number of operations of a write.
fn operations() -> u64 {
    let disk = disk(1);
    assert_eq!(write(&disk, "a.txt"), Some(true));
    assert_eq!(disk.peek("/work/a.txt").unwrap(), NEW.as_bytes());
    disk.op_count()
}

#[test]
fn whatever_the_disk_refuses_the_old_file_is_intact_or_the_new_one_is_there() {
    for operation in 0..operations() {
        for fault in [Fault::Fail(Errno::NoSpace), Fault::Fail(Errno::Io), Fault::PartialThenFail] {
            let disk = disk(operation);
            disk.add_fault(operation, fault);
            let told = write(&disk, "a.txt");
            let content = disk.peek("/work/a.txt").unwrap();
            assert!(content == OLD || content == NEW.as_bytes(), "{operation} {fault:?}");
            if told == Some(true) {
                assert_eq!(content, NEW.as_bytes(), "{operation} {fault:?}: what was told is so");
            }
            let left =
                disk.paths().into_iter().filter(|path| path.to_string_lossy().contains(".tmp")).count();
            assert_eq!(left, 0, "{operation} {fault:?}: nothing is left behind");
        }
    }
}

#[test]
fn a_full_disk_is_told_and_changes_nothing() {
    let disk = disk(1);
    disk.set_capacity(Some(OLD.len() as u64 + 10));
    let prepared = tools(&disk).unwrap();
    let prepared = prepared.prepare(&call("write_file", &json!({"path": "a.txt", "content": NEW}))).unwrap();
    let done = prepared.run(&|| false);
    assert!(done.failed);
    super::has(&done.content, "the file is as it was");
    assert_eq!(disk.peek("/work/a.txt").unwrap(), OLD);
}

#[test]
fn a_power_cut_at_any_moment_leaves_the_old_file_or_the_new_one() {
    for operation in 0..operations() {
        for seed in 0..20 {
            for fault in [Fault::CrashPower, Fault::CrashKill] {
                let disk = disk(seed);
                disk.add_fault(operation, fault);
                let told = write(&disk, "a.txt");
                let content = disk.restart().peek("/work/a.txt").unwrap();
                assert!(content == OLD || content == NEW.as_bytes(), "{operation} {seed} {fault:?}");
                assert_ne!(told, Some(true), "a dead process tells nothing");
            }
        }
    }
    let disk = disk(1);
    assert_eq!(write(&disk, "deep/er/new.txt"), Some(true));
    disk.crash(manent_sim::CrashKind::Power);
    assert_eq!(disk.restart().peek("/work/deep/er/new.txt").unwrap(), NEW.as_bytes(), "told means kept");
}
