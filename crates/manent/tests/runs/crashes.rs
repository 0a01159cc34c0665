//! A crash, a power cut or an error at every disk operation while runs are recorded.
//!
//! Every run has a skill of its own, so that a list of skills tells what is lost and what is there twice. Whoever heard
//! nothing tries again, as programs do: by the same key, or with what he had begun.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use manent::runs::{Ended, NewEntry, NewRun, Runs, Started, Status};
use manent::{Durability, Files, Store, StoreOptions};
use manent_sim::{CrashKind, Errno, Fault, SimDisk};

use super::{all, key};

const HOME: &str = "/home/store";
const FILE: &str = "/home/store/runs/a.jsonl";

fn try_store(disk: &SimDisk) -> manent::Result<Store> {
    let files = Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO);
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Ok(Store::on(Arc::new(files), options))
}

fn try_open(disk: &SimDisk) -> manent::Result<Runs> {
    try_store(disk)?.runs()
}

fn open(disk: &SimDisk) -> Runs {
    try_open(disk).unwrap()
}

/// What was acknowledged, by skill.
#[derive(Debug, Clone, Default)]
struct Acks {
    /// What must be there. With the status `Unknown` it was begun, and may have ended meanwhile.
    there: BTreeMap<String, Status>,
    /// What was tried, and may be there.
    tried: Vec<String>,
}

/// What a program does, one behind the other, until something fails.
const STEPS: usize = 7;

impl Acks {
    fn begin(&mut self, runs: &Runs, skill: &str, by_key: &str) -> manent::Result<Started> {
        self.tried.push(skill.to_owned());
        let run = NewRun { skill: skill.to_owned(), idempotency_key: by_key.to_owned(), ..NewRun::default() };
        let started = runs.begin(&key("a"), run)?;
        self.there.entry(skill.to_owned()).or_insert(Status::Unknown);
        Ok(started)
    }

    fn finish(&mut self, runs: &Runs, started: &Started, skill: &str) -> manent::Result<()> {
        runs.finish(started, &Ended { status: Status::Success, ..Ended::default() })?;
        self.there.insert(skill.to_owned(), Status::Success);
        Ok(())
    }

    fn record(&mut self, runs: &Runs, entries: &[(&str, &str)]) -> manent::Result<()> {
        let parse = |(skill, by_key): &(&str, &str)| {
            let json =
                format!(r#"{{"skill":"{skill}","idempotency_key":"{by_key}","final_status":"failed"}}"#);
            NewEntry::parse(json.as_bytes()).unwrap()
        };
        self.tried.extend(entries.iter().map(|(skill, _)| (*skill).to_owned()));
        let entries_parsed: Vec<NewEntry> = entries.iter().map(parse).collect();
        let receipts = runs.record(&key("a"), &entries_parsed, Durability::Sync)?;
        assert_eq!(receipts.len(), entries.len());
        for (skill, _) in entries {
            self.there.insert((*skill).to_owned(), Status::Failure);
        }
        Ok(())
    }

    fn steps(&mut self, runs: &Runs) -> manent::Result<()> {
        self.record(runs, &[("keyed", "k1")])?;
        self.record(runs, &[("free", "")])?;
        let begun = self.begin(runs, "begun", "")?;
        self.record(runs, &[("keyed", "k1"), ("keyed too", "k2"), ("free too", "")])?;
        self.finish(runs, &begun, "begun")?;
        let job = self.begin(runs, "job", "k3")?;
        self.finish(runs, &job, "job")
    }

    /// What a program does that heard no receipt: it tries again what has a key.
    fn again(&mut self, runs: &Runs) -> manent::Result<()> {
        self.record(runs, &[("keyed", "k1")])?;
        self.record(runs, &[("keyed too", "k2"), ("keyed", "k1")])?;
        let job = self.begin(runs, "job", "k3")?;
        self.finish(runs, &job, "job")
    }

    fn check(&self, runs: &Runs, what: &str) {
        let now = all(runs, "a");
        let mut told = BTreeMap::new();
        for (skill, status) in &now {
            assert!(told.insert(skill.clone(), *status).is_none(), "{what}: {skill} is there twice: {now:?}");
            let known = self.there.contains_key(skill) || self.tried.contains(skill);
            assert!(known, "{what}: nobody recorded {skill}: {now:?}");
        }
        for (skill, status) in &self.there {
            let found = told.get(skill).unwrap_or_else(|| panic!("{what}: {skill} is lost: {now:?}"));
            assert!(found == status || *status == Status::Unknown, "{what}: {skill} became {found:?}");
        }
    }

    fn go_on(&mut self, disk: &SimDisk, what: &str) {
        let runs = open(disk);
        self.check(&runs, what);
        self.again(&runs).unwrap_or_else(|e| panic!("{what}: no more is taken: {e}"));
        self.check(&runs, what);
        disk.crash(CrashKind::Power);
        let disk = disk.restart();
        self.check(&open(&disk), &format!("{what}, and a power cut in the end"));
    }
}

/// A store that was never written, one with runs in it, and one with a file that another program began.
fn scenes() -> [(&'static str, SimDisk, Acks); 3] {
    let new = SimDisk::new(0);
    new.poke_dir("/home").unwrap();
    let native = new.copy(0);
    let mut acks = Acks::default();
    let runs = open(&native);
    acks.record(&runs, &[("old", "k0"), ("older", "")]).unwrap();
    acks.begin(&runs, "open", "").unwrap();
    let foreign = new.copy(0);
    foreign
        .poke(FILE, "{\"skill\":\"theirs\",\"final_status\":\"failed\"}\n{\"skill\":\"other\"}\n")
        .unwrap();
    let mut theirs = Acks::default();
    theirs.there.insert("theirs".to_owned(), Status::Failure);
    theirs.there.insert("other".to_owned(), Status::Unknown);
    [("new", new, Acks::default()), ("native", native, acks), ("foreign", foreign, theirs)]
}

fn seeds() -> u64 {
    manent_sim::seeds::number("MANENT_CRASH_SEEDS").unwrap().unwrap_or(1)
}

#[test]
fn no_crash_loses_a_run_that_was_acknowledged_or_shows_one_twice() {
    let mut tried = 0;
    for (scene, image, acks) in scenes() {
        for operation in 0.. {
            let mut went_on = false;
            for nth in 0..2 * seeds() {
                let fault = if nth % 2 == 0 { Fault::CrashKill } else { Fault::CrashPower };
                let what = format!("{scene}: {fault:?} at operation {operation}, seed {nth}");
                let mut acks = acks.clone();
                let disk = image.copy(operation * 1_000_003 + nth);
                disk.add_fault(disk.op_count() + operation, fault);
                let done = try_open(&disk).and_then(|runs| acks.steps(&runs));
                tried += 1;
                if disk.crashed().is_none() {
                    done.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                    continue;
                }
                went_on = true;
                let disk = disk.restart();
                disk.reset_faults();
                acks.go_on(&disk, &what);
            }
            if !went_on {
                assert!(operation > 10 * STEPS as u64 / 2, "{scene}: only {operation} operations");
                break;
            }
        }
    }
    eprintln!("{tried} crashes");
}

#[test]
fn no_error_of_the_disk_loses_a_run_that_was_acknowledged_or_shows_one_twice() {
    for (scene, image, acks) in scenes() {
        for errno in [Errno::Io, Errno::NoSpace] {
            for operation in 0.. {
                let what = format!("{scene}: {errno:?} at operation {operation}");
                let mut acks = acks.clone();
                let disk = image.copy(operation);
                disk.add_fault(disk.op_count() + operation, Fault::Fail(errno));
                let opened = try_open(&disk);
                let done = opened.as_ref().map_err(ToString::to_string);
                let done = done.and_then(|runs| acks.steps(runs).map_err(|e| e.to_string()));
                if disk.faults_left() > 0 {
                    done.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                    break;
                }
                disk.reset_faults();
                // The same program tries again, and knows what it was told; then another one.
                if let Ok(runs) = &opened {
                    acks.check(runs, &what);
                    acks.again(runs).unwrap_or_else(|e| panic!("{what}: the same program can no more: {e}"));
                    acks.check(runs, &what);
                }
                acks.go_on(&disk, &what);
            }
        }
    }
}

#[test]
fn a_disk_that_fills_up_loses_no_run_that_was_acknowledged() {
    for (scene, image, acks) in scenes() {
        let used: usize = image.paths().iter().filter_map(|path| image.peek(path)).map(|b| b.len()).sum();
        for room in (0..3000).step_by(37) {
            let what = format!("{scene}: {room} bytes left");
            let mut acks = acks.clone();
            let disk = image.copy(room);
            disk.set_capacity(Some(used as u64 + room));
            let runs = open(&disk);
            let _ = acks.steps(&runs);
            acks.check(&runs, &what);
            disk.set_capacity(None);
            acks.again(&runs).unwrap_or_else(|e| panic!("{what}: the same program can no more: {e}"));
            acks.go_on(&disk, &what);
        }
    }
}

/// All that another process does with the same keys, between any two operations of this one.
#[test]
fn two_processes_with_the_same_keys_record_each_run_once() {
    let (_, image, acks) = scenes().into_iter().nth(1).unwrap();
    for operation in 0.. {
        let mut acks = acks.clone();
        let disk = image.copy(operation);
        let other = disk.as_process(77);
        disk.visit_before(disk.op_count() + operation, move || {
            // The log may be held, and then the other one is told so.
            let _ = Acks::default().again(&open(&other));
        });
        let runs = open(&disk);
        let done = acks.steps(&runs);
        let visited = !disk.cancel_visit();
        let what = format!("visited before operation {operation}");
        done.unwrap_or_else(|e| panic!("{what}: {e}"));
        acks.tried.push("job".to_owned());
        acks.check(&runs, &what);
        let file = String::from_utf8(disk.peek(FILE).unwrap()).unwrap();
        for name in [r#""kind":"run","run_id":"#, r#""idempotency_key":"k1""#] {
            let lines =
                file.lines().filter(|line| line.contains(name) && line.contains(r#""skill":"keyed""#));
            assert_eq!(lines.count(), 1, "{what}: {file}");
        }
        if !visited {
            break;
        }
    }
}

/// What was said to a skill goes with the session in which it was said, or is there with it.
#[test]
fn no_crash_of_a_purge_leaves_runs_of_a_session_that_is_gone() {
    let image = SimDisk::new(0);
    image.poke_dir("/home").unwrap();
    let store = try_store(&image).unwrap();
    store.append(&key("a"), manent::turn("user", "hello")).unwrap();
    store.append(&key("b"), manent::turn("user", "hello")).unwrap();
    Acks::default().steps(&store.runs().unwrap()).unwrap();
    image.raw_append(FILE, b"{\"seq\":99,\"torn").unwrap();
    for operation in 0.. {
        for fault in [Fault::CrashKill, Fault::CrashPower, Fault::Fail(Errno::Io)] {
            let disk = image.copy(operation);
            disk.add_fault(disk.op_count() + operation, fault);
            let purge = |store: Store| -> manent::Result<manent::Purged> {
                let sessions: Vec<_> = store.live(&key("a"))?.into_iter().map(|at| at.address).collect();
                store.purge(&sessions, false)
            };
            let purged = try_store(&disk).and_then(purge);
            if disk.faults_left() > 0 {
                let purged = purged.unwrap();
                assert_eq!((purged.removed.len(), purged.runs), (1, vec![key("a")]));
                return;
            }
            let disk = disk.restart();
            disk.reset_faults();
            let what = format!("{fault:?} at operation {operation}");
            let there = || {
                let of_a = |path: &std::path::PathBuf| path.to_string_lossy().contains("runs/a.jsonl");
                disk.paths().into_iter().filter(of_a).collect::<Vec<_>>()
            };
            let store = try_store(&disk).unwrap();
            if store.live(&key("a")).unwrap().is_none() {
                assert!(there().is_empty(), "{what}: {:?}", there());
            } else {
                purge(store.clone()).unwrap_or_else(|e| panic!("{what}: it cannot be purged again: {e}"));
                assert!(there().is_empty(), "{what}: {:?}", there());
            }
            assert!(store.live(&key("b")).unwrap().is_some());
        }
    }
}
