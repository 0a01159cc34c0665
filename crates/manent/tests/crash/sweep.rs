//! A crash, or an error, at every disk operation of every case; and a second crash in the repetition.

use std::path::PathBuf;

use manent::{Place, Store};
use manent_sim::{CrashKind, Errno, Fault, Rng, SimDisk};

use super::number;
use super::ops::{Again, Case, Op, cases};
use super::scenes;
use super::state::{self, State};

/// One try: the case, and what is to go wrong where.
struct Try<'a> {
    case: &'a Case,
    disk: SimDisk,
    seed: u64,
    what: String,
}

impl Try<'_> {
    fn store(&self) -> Store {
        state::open(&self.disk, self.case.image.home).unwrap_or_else(|e| self.fail(&e.to_string()))
    }

    /// Looks what is there, and insists that it is the old or the new. In neither is there any damage.
    fn check(&self, when: &str) -> State {
        let now = State::of(&self.store()).unwrap_or_else(|what| self.fail(&format!("{when}: {what}")));
        if !self.case.allows(&now) {
            let (old, new) = (self.case.old.text(), self.case.new.text());
            self.fail(&format!("{when}:\n{}is neither\n{old}nor\n{new}", now.text()));
        }
        if !matches!(self.case.op, Op::Purge | Op::PurgeWithForks) {
            for copy in self.case.image.torn_copies() {
                let torn = self.disk.paths().into_iter().filter(|p| p.to_str().unwrap().contains(".torn-"));
                if !torn.into_iter().any(|path| self.disk.peek(path).as_ref() == Some(&copy)) {
                    self.fail(&format!("{when}: what was set aside is gone"));
                }
            }
        }
        now
    }

    /// Does it again to the end, and insists on the new state, also after a power cut.
    fn finish(&mut self, store: &Store) {
        let again = self.case.op.repeat(store, &self.case.target.records);
        let again = again.unwrap_or_else(|e| self.fail(&format!("doing it again: {e}")));
        for (when, cut) in [("in the end", false), ("after a power cut in the end", true)] {
            let now = self.check(when);
            if again == Again::NotNeeded && cut {
                // Which of the two it is, is all the same.
                return;
            }
            if now != self.case.new {
                self.fail(&format!("{when}:\n{}is not\n{}", now.text(), self.case.new.text()));
            }
            if cut {
                State::verified(&self.store()).unwrap_or_else(|what| self.fail(&format!("{when}: {what}")));
            }
            state::nothing_hidden(&self.disk, &now).unwrap_or_else(|e| self.fail(&format!("{when}: {e}")));
            self.nothing_purged_is_left(when);
            self.torn_copies_went_along(when);
            self.disk.crash(CrashKind::Power);
            self.disk = self.disk.restart();
        }
    }

    /// Contents set aside from a purged session go with it, and so does what the purge itself wrote.
    fn nothing_purged_is_left(&self, when: &str) {
        if !matches!(self.case.op, Op::Purge | Op::PurgeWithForks) {
            return;
        }
        for path in self.disk.paths() {
            let name = path.to_str().unwrap();
            let text = String::from_utf8_lossy(&self.disk.peek(&path).unwrap()).into_owned();
            let secret = self.case.target.says("secret 4") && text.contains("secret 4");
            if text.contains("torn once") || text.contains("torn twice") || secret {
                self.fail(&format!("{when}: a part of what was purged is in {name}"));
            }
        }
    }

    /// Contents set aside lie where their session lies, or they would be taken for those of the next session of that
    /// key.
    fn torn_copies_went_along(&self, when: &str) {
        let torn = |path: &PathBuf| path.to_str().unwrap().contains("/sessions/work.jsonl.torn-");
        let left_live =
            self.case.target.place() == Place::Live && matches!(self.case.op, Op::Archive | Op::Delete);
        if left_live && self.disk.paths().iter().any(torn) {
            self.fail(&format!("{when}: what was set aside stayed behind"));
        }
    }

    fn fail(&self, why: &str) -> ! {
        let trace = self.disk.trace();
        let last = trace[trace.len().saturating_sub(120)..].join("\n  ");
        panic!("{}, seed {}, {}: {why}\nthe last operations:\n  {last}", self.case.name, self.seed, self.what)
    }
}

/// Returns true if the last operation changes the disk.
fn changes_something(disk: &SimDisk) -> bool {
    disk.trace().iter().rfind(|line| line.starts_with('#')).is_some_and(|line| is_change(line))
}

/// Returns true if the failed operation changes the disk.
fn struck_a_change(disk: &SimDisk) -> bool {
    disk.trace().iter().rfind(|line| line.ends_with(")]")).is_some_and(|line| is_change(line))
}

fn is_change(line: &str) -> bool {
    let changing =
        ["append", "set_len", "sync", "sync_dir", "rename", "rename_new", "remove", "create_dir_all"];
    let verb = line.split(' ').nth(3).unwrap_or_default();
    changing.contains(&verb) || line.contains("CreateNew")
}

fn crash(rng: &mut Rng) -> Fault {
    if rng.chance(1, 3) { Fault::CrashKill } else { Fault::CrashPower }
}

/// The kind of disk operation that a crash came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Struck {
    /// None: it was over before.
    Nothing,
    /// One that changes nothing.
    ALook,
    AChange,
}

/// Crashes at one disk operation, looks, repeats (and in half of the tries crashes in that too).
fn crash_at(case: &Case, operation: u64, fault: Fault, seed: u64) -> Struck {
    let mut rng = Rng::new(seed);
    let disk = case.image.disk(seed);
    let mut this = Try { case, disk, seed, what: format!("{fault:?} at disk operation {operation}") };
    this.disk.add_fault(this.disk.op_count() + operation, fault);
    let done =
        state::open(&this.disk, case.image.home).and_then(|store| case.op.run(&store, &case.target.listed));
    if this.disk.crashed().is_none() {
        // It came to its end before that operation; how many it takes depends on the order of lists.
        done.unwrap_or_else(|e| this.fail(&e.to_string()));
        return Struck::Nothing;
    }
    let struck = if changes_something(&this.disk) { Struck::AChange } else { Struck::ALook };
    // A crash in an operation that changes nothing is one before the next that does: a few of them are enough.
    if struck == Struck::ALook && !operation.is_multiple_of(8) {
        return struck;
    }
    this.disk = this.disk.restart();
    this.check("after the crash");
    if rng.chance(1, 2) {
        let again = this.disk.op_count() + rng.below(case.operations * 3);
        let fault = crash(&mut rng);
        this.what = format!("{}, then {fault:?} at {again}", this.what);
        this.disk.add_fault(again, fault);
        let opened = state::open(&this.disk, case.image.home).map_err(|e| e.to_string());
        let done = opened.and_then(|store| case.op.repeat(&store, &case.target.records));
        this.disk.reset_faults();
        if this.disk.crashed().is_some() {
            this.disk = this.disk.restart();
        } else {
            done.map_or_else(|e| this.fail(&format!("doing it again: {e}")), drop);
        }
        this.check("after the second crash");
    }
    let store = this.store();
    this.finish(&store);
    struck
}

/// Lets one disk operation fail, looks, and does it again with the same store.
fn fail_at(case: &Case, operation: u64, errno: Errno, seed: u64) -> bool {
    let disk = case.image.disk(seed);
    let mut this = Try { case, disk, seed, what: format!("{errno:?} at disk operation {operation}") };
    this.disk.add_fault(this.disk.op_count() + operation, Fault::Fail(errno));
    let opened = state::open(&this.disk, case.image.home);
    let done = opened.as_ref().ok().map(|store| case.op.run(store, &case.target.listed));
    let struck = this.disk.faults_left() == 0;
    this.disk.reset_faults();
    let changing = struck_a_change(&this.disk);
    if errno == Errno::NoSpace && !changing {
        return struck;
    }
    let now = this.check("after the error");
    if matches!(done, Some(Ok(()))) && now != case.new {
        this.fail("it said that it was done");
    }
    // Where nothing was to be changed, the repetition is mostly what it would have been anyway.
    if !changing && !operation.is_multiple_of(4) {
        return struck;
    }
    if seed.is_multiple_of(2) {
        this.disk.drop_caches();
    }
    let store = opened.unwrap_or_else(|_| this.store());
    this.finish(&store);
    struck
}

/// Tries every disk operation of every case, with some seeds each.
fn crash_everywhere(cases: &[Case], tries: u64) {
    for case in cases {
        for operation in 0.. {
            let mut struck = Struck::Nothing;
            for nth in 0..tries * number("MANENT_CRASH_SEEDS").unwrap_or(1) {
                let fault = if nth % 4 == 1 { Fault::CrashKill } else { Fault::CrashPower };
                struck = struck.max(crash_at(case, operation, fault, operation * 1_000_003 + nth));
                if struck == Struck::ALook {
                    break;
                }
            }
            if struck == Struck::Nothing {
                assert!(operation > 10, "{} takes more than {operation} disk operations", case.name);
                break;
            }
        }
    }
}

fn fail_everywhere(cases: &[Case]) {
    // With its forks, a parent takes hundreds of operations, nearly all of them the same wherever it is.
    let again = |case: &Case| case.op == Op::Purge && case.name.contains("ed parent");
    for case in cases.iter().filter(|case| !again(case)) {
        for operation in 0.. {
            let struck = fail_at(case, operation, Errno::Io, operation);
            // Where the disk can be full.
            let full = case.operations > operation && fail_at(case, operation, Errno::NoSpace, operation);
            if !struck && !full {
                break;
            }
        }
    }
}

macro_rules! sweeps {
    ($($crash:ident $fail:ident: $op:expr, $tries:expr;)*) => {$(
        #[test]
        fn $crash() {
            crash_everywhere(&cases($op), $tries);
        }

        #[test]
        fn $fail() {
            fail_everywhere(&cases($op));
        }
    )*};
}

sweeps! {
    archive_survives_a_crash_anywhere archive_survives_an_error_anywhere: Op::Archive, 8;
    unarchive_survives_a_crash_anywhere unarchive_survives_an_error_anywhere: Op::Unarchive, 8;
    delete_survives_a_crash_anywhere delete_survives_an_error_anywhere: Op::Delete, 8;
    restore_survives_a_crash_anywhere restore_survives_an_error_anywhere: Op::Restore, 8;
    purge_survives_a_crash_anywhere purge_survives_an_error_anywhere: Op::Purge, 4;
    purge_with_forks_survives_a_crash_anywhere purge_with_forks_survives_an_error_anywhere: Op::PurgeWithForks, 4;
    fork_survives_a_crash_anywhere fork_survives_an_error_anywhere: Op::Fork(None), 6;
    early_fork_survives_a_crash_anywhere early_fork_survives_an_error_anywhere: Op::Fork(Some(1)), 6;
}

/// A kill leaves what a power cut can still take back, so each is tried after the other, everywhere.
#[test]
fn a_power_cut_in_the_repetition_after_a_kill_loses_nothing() {
    use manent::Place::{Archive, Live};
    let cases = [
        Case::new("again", &scenes::plain(), Op::Archive, Live, "work", "work 1"),
        Case::new("again", scenes::plain().archive("work"), Op::Unarchive, Archive, "work", "work 1"),
    ];
    for case in &cases {
        let (operations, seeds) = (case.operations, 24 * number("MANENT_CRASH_SEEDS").unwrap_or(1));
        for (first, then) in (0..operations).flat_map(|first| (0..operations).map(move |then| (first, then)))
        {
            for seed in 0..seeds {
                let what = format!("killed at {first}, then without power at {then}");
                let mut this = Try { case, disk: case.image.disk(seed), seed, what };
                this.disk.add_fault(this.disk.op_count() + first, Fault::CrashKill);
                let store = state::open(&this.disk, case.image.home);
                let _ = store.and_then(|store| case.op.run(&store, &case.target.listed));
                if !changes_something(&this.disk) {
                    break;
                }
                this.disk = this.disk.restart();
                let store = this.store();
                let now = State::of(&store).unwrap();
                let Some(found) = now.0.iter().find(|seen| seen.records == case.target.records) else {
                    continue;
                };
                this.disk.add_fault(this.disk.op_count() + then, Fault::CrashPower);
                let _ = case.op.run(&store, &found.listed);
                this.disk.reset_faults();
                if this.disk.crashed().is_none() || !changes_something(&this.disk) {
                    break;
                }
                this.disk = this.disk.restart();
                this.check("after the power cut");
            }
        }
    }
}

/// A fork rests on records of its parent that nobody made durable yet.
#[test]
fn a_fork_makes_durable_what_it_shares() {
    use manent::{Durability, Expect};
    for seed in 0..50 {
        let image = scenes::plain().image();
        let disk = image.disk(seed);
        let store = state::open(&disk, image.home).unwrap();
        let (work, branch) = (scenes::key("work"), scenes::key("branch"));
        let said = manent::turn("user", "not synced").into();
        store.append_with(&work, &[said], Durability::Flush, Expect::Any).unwrap();
        let at = store.live(&work).unwrap().unwrap().id;
        store.fork(&at, None, &branch).unwrap();
        disk.crash(CrashKind::Power);
        let now = State::verified(&state::open(&disk.restart(), image.home).unwrap()).unwrap();
        let whole =
            |seen: &state::Seen| *seen.key() == branch && seen.says("work 1") && seen.says("not synced");
        assert!(now.0.iter().any(whole), "seed {seed}:\n{}", now.text());
    }
}

#[test]
fn a_long_session_survives_a_crash_anywhere() {
    use manent::Place::{Archive, Live};
    let scene = scenes::big();
    let archive = Case::new("long", &scene, Op::Archive, Live, "work", "");
    scene.archive("work");
    let unarchive = Case::new("long", &scene, Op::Unarchive, Archive, "work", "");
    crash_everywhere(&[archive, unarchive], 1);
}

/// A file of another program, under a name that we would have encoded: a disk that does not say that it is there must
/// not make us begin another.
#[test]
fn an_error_in_an_append_begins_no_second_session() {
    let image = scenes::Scene::flat().image();
    for operation in 0.. {
        let disk = image.disk(operation);
        disk.add_fault(disk.op_count() + operation, Fault::Fail(Errno::Io));
        let key = scenes::key("telegram:carol");
        let said = manent::turn("user", "appended");
        let _ = state::open(&disk, image.home).and_then(|store| store.append(&key, said));
        if disk.faults_left() > 0 {
            break;
        }
        let now = State::of(&state::open(&disk, image.home).unwrap()).unwrap();
        let carols: Vec<_> = now.0.iter().filter(|seen| *seen.key() == key).collect();
        let whole = carols.iter().all(|seen| seen.says("carol 1") && seen.says("carol 3"));
        assert!(carols.len() == 1 && whole, "EIO at {operation}:\n{}", now.text());
        state::nothing_hidden(&disk, &now).unwrap();
    }
}
