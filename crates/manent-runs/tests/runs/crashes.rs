//! A crash, a power cut or an error at every disk operation while runs are recorded.
//!
//! Every run has a skill of its own, so that a list of skills tells what is lost and what is there twice. Whoever heard
//! nothing tries again, as programs do: by the same key, or with what he had begun.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use manent::{Durability, Files, Space, Store, StoreOptions, StreamId};
use manent_runs::{NewEntry, NewRun, NewVerdict, RunEnd, RunName, Runs, StartedRun, Status};
use manent_sim::{CrashKind, Errno, Fault, SimDisk};

use super::{all, key};

const HOME: &str = "/home/store";
const FILE: &str = "/home/store/runs/a.jsonl";

fn try_store(disk: &SimDisk) -> manent::Result<Store> {
    let files = Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO);
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Ok(Store::on_files(files, options))
}

fn try_open(disk: &SimDisk) -> manent_runs::Result<Runs> {
    Runs::open(&try_store(disk)?)
}

fn open(disk: &SimDisk) -> Runs {
    try_open(disk).unwrap()
}

/// The entries that were acknowledged, by skill.
#[derive(Debug, Clone, Default)]
struct Acks {
    /// The runs that must be there. With the status `Unknown` a run was begun, and may have ended meanwhile.
    there: BTreeMap<String, Status>,
    /// The runs that were tried, and may be there.
    tried: Vec<String>,
}

/// The steps of a program, one behind the other, until something fails.
const STEPS: usize = 7;

impl Acks {
    fn begin(&mut self, runs: &Runs, skill: &str, by_key: &str) -> manent_runs::Result<StartedRun> {
        self.tried.push(skill.to_owned());
        let run = NewRun { skill: skill.to_owned(), idempotency_key: by_key.to_owned(), ..NewRun::default() };
        let started = runs.begin(&key("a"), run)?;
        self.there.entry(skill.to_owned()).or_insert(Status::Unknown);
        Ok(started)
    }

    fn finish(&mut self, runs: &Runs, started: &StartedRun, skill: &str) -> manent_runs::Result<()> {
        runs.finish(started, &RunEnd { status: Status::Success, ..RunEnd::default() })?;
        self.there.insert(skill.to_owned(), Status::Success);
        Ok(())
    }

    fn record(&mut self, runs: &Runs, entries: &[(&str, &str)]) -> manent_runs::Result<()> {
        let parse = |(skill, by_key): &(&str, &str)| {
            let json =
                format!(r#"{{"skill":"{skill}","idempotency_key":"{by_key}","final_status":"failed"}}"#);
            NewEntry::parse(json.as_bytes()).unwrap()
        };
        self.tried.extend(entries.iter().map(|(skill, _)| (*skill).to_owned()));
        let entries_parsed: Vec<NewEntry> = entries.iter().map(parse).collect();
        let receipts = runs.record(&key("a"), &entries_parsed, Durability::Sync)?;
        assert_eq!(receipts.len(), entries.len());
        for ((skill, _), receipt) in entries.iter().zip(receipts) {
            // In another program's file nothing is promised of what another process recorded.
            if receipt.receipt.durability == Durability::Sync {
                self.there.insert((*skill).to_owned(), Status::Failure);
            }
        }
        Ok(())
    }

    fn steps(&mut self, runs: &Runs) -> manent_runs::Result<()> {
        self.record(runs, &[("keyed", "k1")])?;
        self.record(runs, &[("free", "")])?;
        let begun = self.begin(runs, "begun", "")?;
        self.record(runs, &[("keyed", "k1"), ("keyed too", "k2"), ("free too", "")])?;
        self.finish(runs, &begun, "begun")?;
        let job = self.begin(runs, "job", "k3")?;
        self.finish(runs, &job, "job")
    }

    /// Tries everything again that has a key, as a program does that got no receipt.
    fn again(&mut self, runs: &Runs) -> manent_runs::Result<()> {
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

/// The process that tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    TheSame,
    Another,
}

#[test]
fn no_error_of_the_disk_loses_a_run_that_was_acknowledged_or_shows_one_twice() {
    for (scene, image, acks) in scenes() {
        let by_whom = [By::TheSame, By::Another];
        for (errno, by) in [Errno::Io, Errno::NoSpace].into_iter().flat_map(|e| by_whom.map(|by| (e, by))) {
            for operation in 0.. {
                let what = format!("{scene}: {errno:?} at operation {operation}, tried again by {by:?}");
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
                // The same program tries again, and knows what it was told; then another one. Or that at once.
                if let Some(runs) = opened.as_ref().ok().filter(|_| by == By::TheSame) {
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

/// A program that knows of no lease appends the same run, as a line of its own, between any two operations of ours. In
/// the moment between our look and our append that is found out: what it wrote before us is not written again. Between
/// the last look at the length of the file and the write itself nobody can find out; then it is there twice, and read
/// once.
#[test]
fn a_run_that_a_stranger_wrote_in_between_is_not_recorded_behind_it() {
    let (_, image, _) = scenes().into_iter().nth(1).unwrap();
    let (mut before, mut between, mut behind) = (0, 0, 0);
    for operation in 0.. {
        let disk = image.copy(operation);
        let runs = open(&disk);
        let stranger = disk.clone();
        disk.visit_before(disk.op_count() + operation, move || {
            let line = "{\"skill\":\"theirs\",\"idempotency_key\":\"k9\",\"final_status\":\"failed\"}\n";
            stranger.raw_append(FILE, line.as_bytes()).unwrap();
        });
        let entry = NewEntry::parse(br#"{"skill":"ours","idempotency_key":"k9"}"#).unwrap();
        let recorded = runs.record(&key("a"), &[entry], Durability::Sync);
        if disk.cancel_visit() {
            assert!(!recorded.unwrap()[0].repeated);
            break;
        }
        let what = format!("a stranger before operation {operation}");
        let recorded = recorded.unwrap_or_else(|e| panic!("{what}: {e}")).remove(0);
        let file = String::from_utf8(disk.peek(FILE).unwrap()).unwrap();
        let of_key: Vec<&str> = file.lines().filter(|line| line.contains("\"k9\"")).collect();
        assert_eq!(recorded.repeated, of_key.len() == 1, "{what}: {of_key:?}");
        match (of_key[0].contains("theirs"), of_key.len()) {
            (true, 1) => before += 1,
            (true, _) => between += 1,
            (false, _) => behind += 1,
        }
        let told = all(&runs, "a").into_iter().filter(|(skill, _)| skill == "ours" || skill == "theirs");
        assert_eq!(told.count(), 1, "{what}: it is one run");
    }
    assert!(before > 3 && behind > 0, "{before} before us, {behind} behind us");
    assert!(between <= 2, "{between}: only what stands between the last look and the write is too late");
}

/// Runs of a session go with the session, or are there with it.
#[test]
fn no_crash_of_a_purge_leaves_runs_of_a_session_that_is_gone() {
    let image = SimDisk::new(0);
    image.poke_dir("/home").unwrap();
    let store = try_store(&image).unwrap();
    store.append(&key("a"), manent::turn("user", "hello")).unwrap();
    store.append(&key("b"), manent::turn("user", "hello")).unwrap();
    Acks::default().steps(&Runs::open(&store).unwrap()).unwrap();
    image.raw_append(FILE, b"{\"seq\":99,\"torn").unwrap();
    for operation in 0.. {
        for fault in [Fault::CrashKill, Fault::CrashPower, Fault::Fail(Errno::Io)] {
            let disk = image.copy(operation);
            disk.add_fault(disk.op_count() + operation, fault);
            let purge = |store: Store| -> manent::Result<manent::Purged> {
                let sessions: Vec<_> = store.live(&key("a"))?.into_iter().map(|at| at.id).collect();
                store.purge(&sessions, false)
            };
            let purged = try_store(&disk).and_then(purge);
            if disk.faults_left() > 0 {
                let purged = purged.unwrap();
                assert_eq!(
                    (purged.removed.len(), purged.companions),
                    (1, vec![StreamId::live_in(Space::Runs, &key("a"))])
                );
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

/// Verdicts that are given one behind the other: on a run that failed, and on one that never ended.
const VERDICTS: [(&str, Option<bool>); 7] = [
    ("failed", Some(true)),
    ("open", Some(false)),
    ("failed", Some(true)),
    ("open", None),
    ("failed", Some(false)),
    ("open", Some(true)),
    ("open", Some(true)),
];

/// Returns the status of a run after a verdict.
fn judged(skill: &str, verified: Option<bool>) -> Status {
    match (verified, skill) {
        (Some(true), _) => Status::Success,
        (Some(false), _) | (None, "failed") => Status::Failure,
        (None, _) => Status::Unknown,
    }
}

/// Gives the verdicts from the `nth` on; how many were acknowledged.
fn give(runs: &Runs, nth: usize) -> (usize, manent_runs::Result<()>) {
    for (done, (skill, verified)) in VERDICTS.iter().enumerate().skip(nth) {
        let run = RunName::Id((*skill).to_owned());
        let verdict = NewVerdict { run, attempt: None, verified: *verified, note: String::new() };
        if let Err(e) = runs.judge(&key("a"), &verdict) {
            return (done, Err(e));
        }
    }
    (VERDICTS.len(), Ok(()))
}

/// Every verdict that was acknowledged is there; one that was on its way is there or not.
fn check_verdicts(runs: &Runs, acknowledged: usize, what: &str) {
    let after = |count: usize, skill: &str| {
        let said = VERDICTS[..count].iter().rev().find(|(of, _)| *of == skill);
        judged(skill, said.and_then(|(_, verified)| *verified))
    };
    let now: BTreeMap<String, Status> = all(runs, "a").into_iter().collect();
    let may_be = |count: usize| ["failed", "open"].iter().all(|skill| now[*skill] == after(count, skill));
    let next = (acknowledged + 1).min(VERDICTS.len());
    assert!(may_be(acknowledged) || may_be(next), "{what}: after {acknowledged} verdicts: {now:?}");
}

fn to_be_judged() -> SimDisk {
    let image = SimDisk::new(0);
    image.poke_dir("/home").unwrap();
    let lines = [
        r#"{"kind":"run","run_id":"failed","skill":"failed","final_status":"failed","attempts":[{},{}]}"#,
        r#"{"kind":"run-start","run_id":"open","skill":"open"}"#,
    ];
    let entries = lines.map(|line| NewEntry::parse(line.as_bytes()).unwrap());
    open(&image).record(&key("a"), &entries, Durability::Sync).unwrap();
    image
}

#[test]
fn no_crash_and_no_error_loses_a_verdict_that_was_acknowledged() {
    let image = to_be_judged();
    for operation in 0.. {
        let mut struck = false;
        for fault in
            [Fault::CrashKill, Fault::CrashPower, Fault::Fail(Errno::Io), Fault::Fail(Errno::NoSpace)]
        {
            for seed in 0..seeds() {
                let what = format!("{fault:?} at operation {operation}, seed {seed}");
                let disk = image.copy(operation * 1_000_003 + seed);
                disk.add_fault(disk.op_count() + operation, fault);
                let runs = open_or_none(&disk);
                let (mut done, gave) = runs.as_ref().map_or((0, Ok(())), |runs| give(runs, 0));
                if disk.faults_left() > 0 {
                    gave.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                    continue;
                }
                struck = true;
                let disk = if disk.crashed().is_some() { disk.restart() } else { disk };
                disk.reset_faults();
                if let (Some(runs), Fault::Fail(_)) = (&runs, fault) {
                    // The same program goes on, and does not believe what it wrote when a sync failed.
                    check_verdicts(runs, done, &what);
                    let (more, gave) = give(runs, done);
                    gave.unwrap_or_else(|e| panic!("{what}: the same program can no more: {e}"));
                    done = more;
                }
                check_verdicts(&open(&disk), done, &what);
                disk.crash(CrashKind::Power);
                let disk = disk.restart();
                check_verdicts(&open(&disk), done, &format!("{what}, and a power cut"));
                let (done, gave) = give(&open(&disk), done);
                gave.unwrap_or_else(|e| panic!("{what}: no more is taken: {e}"));
                assert_eq!(done, VERDICTS.len());
                check_verdicts(&open(&disk), done, &format!("{what}, in the end"));
            }
        }
        if !struck {
            assert!(operation > 30, "only {operation} operations");
            break;
        }
    }
}

fn open_or_none(disk: &SimDisk) -> Option<Runs> {
    try_open(disk).ok()
}

/// All that another process says, between any two operations of this one.
#[test]
fn two_processes_that_judge_the_same_run_both_have_their_say() {
    let image = to_be_judged();
    for operation in 0.. {
        let disk = image.copy(operation);
        let other = disk.as_process(77);
        let said = Arc::new(std::sync::Mutex::new(0));
        let saying = said.clone();
        disk.visit_before(disk.op_count() + operation, move || {
            // The log may be held, and then the other one is told so.
            *saying.lock().unwrap() = give(&open(&other), 0).0;
        });
        let (done, gave) = give(&open(&disk), 0);
        let visited = !disk.cancel_visit();
        gave.unwrap_or_else(|e| panic!("visited before operation {operation}: {e}"));
        check_verdicts(&open(&disk), done, &format!("visited before operation {operation}"));
        let file = String::from_utf8(disk.peek(FILE).unwrap()).unwrap();
        let verdicts = file.lines().filter(|line| line.contains("run-verdict")).count();
        // Two of seven say what was said last; a visitor may say all of it once more, in between.
        assert!((5..=5 + *said.lock().unwrap()).contains(&verdicts), "{verdicts} verdicts: {file}");
        if !visited {
            break;
        }
    }
}
