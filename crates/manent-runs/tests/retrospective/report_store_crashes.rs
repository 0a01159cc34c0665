//! A crash, a power cut, an error, a full disk or another process at every disk operation while a report is kept, and
//! while runs are purged.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use manent::{Body, Durability, Files, SessionKey, Store, StoreOptions, turn};
use manent_runs::Runs;
use manent_runs::retrospective::{Reports, ScheduleOutcome};
use manent_sim::{CrashKind, Errno, Fault, SimDisk};
use serde_json::json;

use crate::report_store::at;
use crate::world::{DAY_MS, NOW_MS};

const HOME: &str = "/home/store";
const PAGE: &str = "/home/store/retro/latest.html";
const DATA: &str = "/home/store/retro/latest.json";

fn store(disk: &SimDisk) -> manent::Result<Store> {
    let files = Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO);
    Ok(Store::on_files(files, StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() }))
}

fn reports(disk: &SimDisk) -> manent_runs::Result<Reports> {
    Reports::open(&store(disk)?)
}

fn look(disk: &SimDisk) -> manent_runs::Result<ScheduleOutcome> {
    reports(disk)?.make_if_due(&at(NOW_MS + DAY_MS), &mut |_| None)
}

fn run(store: &Store, session: &str, skill: &str, count: usize) {
    let entry = |n: usize| {
        let time = NOW_MS - DAY_MS + n as i64;
        let id = format!("{skill}-{n}");
        json!({"kind": "run", "run_id": id, "timestamp": time.to_string(), "skill": skill, "final_status": "failed"})
    };
    let bodies: Vec<Body> =
        (0..count).map(|n| Body::parse(entry(n).to_string().as_bytes()).unwrap()).collect();
    Runs::open(store).unwrap().append(&SessionKey::new(session).unwrap(), &bodies, Durability::Sync).unwrap();
}

/// A store in which a report is due for the first time, and one in which there is an older one.
fn scenes() -> [(&'static str, SimDisk); 2] {
    let first = SimDisk::new(0);
    first.poke_dir("/home").unwrap();
    let runs = store(&first).unwrap();
    runs.append(&SessionKey::new("a").unwrap(), turn("user", "hello")).unwrap();
    run(&runs, "a", "undisclosed", 6);
    let again = first.copy(0);
    let kept = reports(&again).unwrap();
    assert!(matches!(kept.make_if_due(&at(NOW_MS), &mut |_| None).unwrap(), ScheduleOutcome::Made(_)));
    run(&store(&again).unwrap(), "b", "fix", 6);
    [("first", first), ("again", again)]
}

/// The old report or the new one, whole; the next look makes good what is missing.
struct Expected {
    old: [Option<Vec<u8>>; 2],
    new: [Option<Vec<u8>>; 2],
}

impl Expected {
    fn of(image: &SimDisk) -> Expected {
        let files = |disk: &SimDisk| [PAGE, DATA].map(|path| disk.peek(path));
        let done = image.copy(0);
        assert!(matches!(look(&done).unwrap(), ScheduleOutcome::Made(_)));
        let new = files(&done);
        assert!(new.iter().all(Option::is_some));
        Expected { old: files(image), new }
    }

    fn check(&self, disk: &SimDisk, what: &str) {
        for (nth, path) in [PAGE, DATA].iter().enumerate() {
            let found = disk.peek(path);
            assert!(
                found == self.old[nth] || found == self.new[nth],
                "{what}: {path} is neither old nor new"
            );
        }
    }

    fn go_on(&self, disk: &SimDisk, what: &str) {
        self.check(disk, what);
        let looked = look(disk).unwrap_or_else(|e| panic!("{what}: no more is made: {e}"));
        assert!(
            matches!(looked, ScheduleOutcome::Made(_) | ScheduleOutcome::NotYet(_)),
            "{what}: {looked:?}"
        );
        assert!([PAGE, DATA].map(|path| disk.peek(path)) == self.new, "{what}: it is not made good");
        if matches!(looked, ScheduleOutcome::Made(_)) {
            assert_eq!(kept_names(disk), [PAGE, DATA], "{what}: something was left behind");
            disk.crash(CrashKind::Power);
            self.check(&disk.restart(), &format!("{what}, and a power cut in the end"));
        }
    }
}

fn kept_names(disk: &SimDisk) -> Vec<String> {
    let dir = Path::new(HOME).join("retro");
    let mut names: Vec<String> = disk
        .paths()
        .iter()
        .filter(|path| path.parent() == Some(&dir))
        .map(|path| path.display().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn no_crash_leaves_half_a_report() {
    for (scene, image) in scenes() {
        let expected = Expected::of(&image);
        for operation in 0.. {
            let mut went_on = false;
            for (nth, fault) in
                [Fault::CrashKill, Fault::CrashPower, Fault::CrashPower].into_iter().enumerate()
            {
                let what = format!("{scene}: {fault:?} at operation {operation}, seed {nth}");
                let disk = image.copy(operation * 1_000_003 + nth as u64);
                disk.add_fault(disk.op_count() + operation, fault);
                let done = look(&disk);
                if disk.crashed().is_none() {
                    done.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                    continue;
                }
                went_on = true;
                let disk = disk.restart();
                disk.reset_faults();
                expected.go_on(&disk, &what);
            }
            if !went_on {
                assert!(operation > 30, "{scene}: only {operation} operations");
                break;
            }
        }
    }
}

#[test]
fn no_error_of_the_disk_leaves_half_a_report() {
    for (scene, image) in scenes() {
        let expected = Expected::of(&image);
        for errno in [Errno::Io, Errno::NoSpace, Errno::ReadOnly] {
            for operation in 0.. {
                let what = format!("{scene}: {errno:?} at operation {operation}");
                let disk = image.copy(operation);
                disk.add_fault(disk.op_count() + operation, Fault::Fail(errno));
                let done = look(&disk);
                if disk.faults_left() > 0 {
                    done.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                    break;
                }
                disk.reset_faults();
                // A log that could not be read makes another report, which says so.
                if done.as_ref().is_ok_and(|looked| matches!(looked, ScheduleOutcome::Made(_)))
                    && disk.peek(DATA) != expected.new[1]
                {
                    let text = String::from_utf8(disk.peek(DATA).unwrap()).unwrap();
                    assert!(text.contains("not read") || text.contains("cannot be read"), "{what}: {text}");
                    continue;
                }
                expected.go_on(&disk, &what);
            }
        }
    }
}

#[test]
fn a_full_disk_keeps_the_report_that_was_there() {
    for (scene, image) in scenes() {
        let expected = Expected::of(&image);
        let used: usize = image.paths().iter().filter_map(|path| image.peek(path)).map(|b| b.len()).sum();
        for room in (0..60_000).step_by(997) {
            let disk = image.copy(room);
            disk.set_capacity(Some(used as u64 + room));
            let done = look(&disk);
            let what = format!("{scene}: {room} bytes left");
            if done.is_err() {
                let left = kept_names(&disk);
                assert!(left.iter().all(|name| [PAGE, DATA].contains(&name.as_str())), "{what}: {left:?}");
            }
            disk.set_capacity(None);
            expected.go_on(&disk, &what);
        }
    }
}

/// Another process that looks too, before any operation of this one.
#[test]
fn a_visitor_at_any_moment_changes_nothing() {
    for (scene, image) in scenes() {
        let expected = Expected::of(&image);
        for operation in 0.. {
            let disk = image.copy(operation);
            let other = disk.as_process(77);
            disk.visit_before(disk.op_count() + operation, move || {
                let _ = look(&other);
            });
            let done = look(&disk);
            let visited = !disk.cancel_visit();
            let what = format!("{scene}: visited before operation {operation}");
            done.unwrap_or_else(|e| panic!("{what}: {e}"));
            expected.go_on(&disk, &what);
            if !visited {
                break;
            }
        }
    }
}

/// Runs that were purged are told of nowhere: whenever the purge comes, and whatever becomes of it.
#[test]
fn no_report_tells_of_runs_that_are_gone() {
    let purge = |disk: &SimDisk| {
        let store = store(disk)?;
        let at = store.live(&SessionKey::new("a").unwrap())?;
        at.map_or(Ok(()), |at| store.purge(&[at.id], false).map(drop))
    };
    let check = |disk: &SimDisk, what: &str| {
        let gone = disk.peek("/home/store/runs/a.jsonl").is_none();
        for path in kept_names(disk) {
            let bytes = disk.peek(&path).unwrap();
            let tells = String::from_utf8_lossy(&bytes).contains("undisclosed");
            assert!(!gone || !tells, "{what}: {path} tells of what is gone");
        }
    };
    for (scene, image) in scenes() {
        for operation in 0.. {
            let disk = image.copy(operation);
            let other = disk.as_process(77);
            disk.visit_before(disk.op_count() + operation, move || {
                let _ = purge(&other);
            });
            let _ = look(&disk);
            let visited = !disk.cancel_visit();
            check(&disk, &format!("{scene}: purged before operation {operation}"));
            if !visited {
                break;
            }
        }
        // And the purge itself is cut off, with a report there.
        let made = image.copy(0);
        look(&made).unwrap();
        for operation in 0.. {
            let mut went_on = false;
            for (nth, fault) in [Fault::CrashKill, Fault::CrashPower].into_iter().enumerate() {
                let what = format!("{scene}: {fault:?} at operation {operation} of a purge");
                let disk = made.copy(operation * 1_000_003 + nth as u64);
                disk.add_fault(disk.op_count() + operation, fault);
                let _ = purge(&disk);
                if disk.crashed().is_some() {
                    went_on = true;
                    let disk = disk.restart();
                    disk.reset_faults();
                    check(&disk, &what);
                    purge(&disk).unwrap_or_else(|e| panic!("{what}: it cannot be finished: {e}"));
                    check(&disk, &what);
                }
            }
            if !went_on {
                break;
            }
        }
    }
}
