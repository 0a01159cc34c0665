//! Two processes: all that one does, put between any two disk operations of what the other does.
//!
//! Whatever comes of it must be what comes of doing one after the other, in one order or the other; where one of them
//! was refused because of the other, what comes of the other alone.

use std::sync::{Arc, Mutex};

use manent::{Error, Place, Store, StreamStat, turn};
use manent_sim::SimDisk;

use super::ops::Op;
use super::scenes::{Image, Scene, key};
use super::state::{self, Seen, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Op(Op),
    /// The same by somebody who looks first where the session is by now.
    Late(Op),
    /// Through the open files that a store keeps.
    Append,
    Read,
    /// Reads a fork of the session.
    ReadFork,
    AppendToFork,
    /// Something to a fork of the session, wherever that is.
    ToFork(&'static str, Op),
}

/// The outcome: the text that was read, or the error.
type Outcome = Result<Vec<(u64, String)>, String>;

impl Act {
    fn run(self, store: &Store, target: &StreamStat, who: &str) -> Outcome {
        let done = match self {
            Act::Op(op) => op.run(store, target).map(|()| Vec::new()),
            Act::Late(op) => match store.find_id(&target.id.id) {
                Ok(found) => op.run(store, &found).map(|()| Vec::new()),
                Err(e) => Err(e),
            },
            Act::Append => {
                store.append(&target.id.key, turn("user", format!("by {who}"))).map(|_| Vec::new())
            }
            Act::Read => whole(store, target),
            Act::ReadFork => match store.find_in(Place::Live, &key(CHILD)) {
                Ok(fork) => whole(store, &fork),
                Err(e) => Err(e),
            },
            Act::AppendToFork => {
                store.append(&key(CHILD), turn("user", format!("by {who}"))).map(|_| Vec::new())
            }
            Act::ToFork(name, op) => match any_place(store, name) {
                Ok(fork) => op.run(store, &fork).map(|()| Vec::new()),
                Err(e) => Err(e),
            },
        };
        match done {
            // It is where it was to be.
            Err(Error::NotPacked { source, .. }) if refused(&source) => Ok(Vec::new()),
            Err(e) if refused(&e) => Err(e.to_string()),
            Err(e) => panic!("{self:?} by {who}: {e:?}"),
            Ok(read) => Ok(read),
        }
    }
}

fn any_place(store: &Store, name: &str) -> Result<StreamStat, Error> {
    match store.find(&key(name)) {
        Err(e) if e.is_not_found() => store.find_in(Place::Trash, &key(name)),
        found => found,
    }
}

fn whole(store: &Store, at: &StreamStat) -> Result<Vec<(u64, String)>, Error> {
    let (records, damage) = state::read(store, &at.id)?;
    assert_eq!(damage, 0, "damage where there is none: {records:?}");
    Ok(records)
}

/// Errors that say that somebody else was faster, or is at it.
pub(crate) fn refused(e: &Error) -> bool {
    use manent::backend::Error as Store;
    use manent::log::Error as Log;
    let other = |e: &Store| matches!(e, Store::Busy { .. } | Store::InTheWay { .. } | Store::NotLive { .. });
    let log = |e: &Store| matches!(e.log(), Some(Log::Held { .. } | Log::Gone { .. }));
    e.is_not_found() || e.store().is_some_and(|e| other(e) || log(e))
}

/// Two stores on one disk, with the session that both are after.
struct Two {
    disk: SimDisk,
    a: Store,
    b: Store,
    target: StreamStat,
}

impl Two {
    fn new(image: &Image, place: Place, seed: u64) -> Two {
        let disk = image.disk(seed);
        let a = state::open(&disk, image.home).unwrap();
        let b = state::open(&disk.as_process(2000), image.home).unwrap();
        // So that both keep the file open, as they would after a while.
        for (store, text) in [(&a, "warm a"), (&b, "warm b")] {
            for name in [TARGET, CHILD] {
                if store.exists(&key(name)).unwrap() {
                    store.append(&key(name), turn("user", text)).unwrap();
                }
            }
        }
        let target = a.find_in(place, &key(TARGET)).unwrap();
        Two { disk, a, b, target }
    }

    fn state(&self) -> State {
        let state = State::of(&self.a).unwrap_or_else(|what| panic!("{what}"));
        assert!(state.0.iter().all(|seen| seen.damage == 0), "{}", state.text());
        state::nothing_hidden(&self.disk, &state).unwrap_or_else(|what| panic!("{what}"));
        state
    }

    /// Both go on as if nothing had been.
    fn go_on(&self) {
        for round in 0..2 {
            for (store, who) in [(&self.a, "a"), (&self.b, "b")] {
                let text = format!("{who} goes on {round}");
                store.append(&key(TARGET), turn("user", &text)).unwrap_or_else(|e| panic!("{who}: {e}"));
                let last = store.load(&key(TARGET)).unwrap().turns().last().unwrap().content.to_owned();
                assert_eq!(last, text);
            }
        }
        self.state();
    }
}

/// The permitted outcomes of two acts, by whether each of them was refused.
struct Allowed {
    serial: Vec<(Outcome, Outcome, State)>,
    nothing: State,
    only_a: (Outcome, State),
    only_b: (Outcome, State),
}

impl Allowed {
    fn new(image: &Image, place: Place, a: Act, b: Act) -> Allowed {
        let alone = |act: Act, who: &str| {
            let two = Two::new(image, place, 1);
            let outcome = act.run(if who == "a" { &two.a } else { &two.b }, &two.target, who);
            (outcome, two.state())
        };
        let one_by_one = |a_first: bool| {
            let two = Two::new(image, place, 1);
            if a_first {
                let first = a.run(&two.a, &two.target, "a");
                (first, b.run(&two.b, &two.target, "b"), two.state())
            } else {
                let first = b.run(&two.b, &two.target, "b");
                (a.run(&two.a, &two.target, "a"), first, two.state())
            }
        };
        Allowed {
            serial: vec![one_by_one(true), one_by_one(false)],
            nothing: Two::new(image, place, 1).state(),
            only_a: alone(a, "a"),
            only_b: alone(b, "b"),
        }
    }

    fn holds(&self, a: &Outcome, b: &Outcome, now: &State) -> bool {
        let same = |one: &Outcome, other: &Outcome| one == other || one.is_err() && other.is_err();
        let serial = self.serial.iter().any(|(x, y, state)| same(x, a) && same(y, b) && state == now);
        serial
            || match (a, b) {
                (Ok(_), Err(_)) => self.only_a.0 == *a && self.only_a.1 == *now,
                (Err(_), Ok(_)) => self.only_b.0 == *b && self.only_b.1 == *now,
                (Err(_), Err(_)) => self.nothing == *now,
                (Ok(_), Ok(_)) => false,
            }
    }

    fn text(&self) -> String {
        let serial = self.serial.iter().map(|(a, b, state)| format!("{a:?} {b:?}\n{}", state.text()));
        serial.collect::<Vec<_>>().join("or\n")
    }
}

fn try_pair(image: &Image, place: Place, a: Act, b: Act) {
    let allowed = Allowed::new(image, place, a, b);
    for operation in 0.. {
        let two = Two::new(image, place, 1);
        let done_by_b: Arc<Mutex<Option<Outcome>>> = Arc::default();
        let (theirs, target, outcome) = (two.b.clone(), two.target.clone(), done_by_b.clone());
        two.disk.visit_before(two.disk.op_count() + operation, move || {
            let done = b.run(&theirs, &target, "b");
            *outcome.lock().unwrap() = Some(done);
        });
        let done_by_a = a.run(&two.a, &two.target, "a");
        if two.disk.cancel_visit() {
            assert!(operation > 1, "{a:?} takes more than {operation} disk operations");
            return;
        }
        let done_by_b = done_by_b.lock().unwrap().take().unwrap();
        let now = two.state();
        assert!(
            allowed.holds(&done_by_a, &done_by_b, &now),
            "{a:?} with {b:?} before its disk operation {operation}: {done_by_a:?} {done_by_b:?}\n{}is none of\n{}",
            now.text(),
            allowed.text(),
        );
        if operation.is_multiple_of(4) {
            two.go_on();
        }
    }
}

fn family() -> Scene {
    let scene = Scene::new();
    scene.say(TARGET, &["work 1", "work 2"]).fork(Place::Live, TARGET, 1, CHILD).say(CHILD, &["child 2"]);
    scene.fork(Place::Live, TARGET, 2, AWAY).say(AWAY, &["away 3"]).archive(AWAY);
    scene.fork(Place::Live, TARGET, 2, GONE).say(GONE, &["gone 3"]).trash(Place::Live, GONE);
    scene
}

const READS: [Act; 3] = [Act::Append, Act::Read, Act::ReadFork];

fn try_all(scene: &Scene, place: Place, ops: &[Op]) {
    let image = scene.image();
    let acts: Vec<Act> = ops.iter().map(|op| Act::Op(*op)).chain(READS).collect();
    for a in &acts {
        for b in &acts {
            try_pair(&image, place, *a, *b);
        }
    }
}

#[test]
fn two_processes_at_a_live_session_lose_and_mix_nothing() {
    try_all(&family(), Place::Live, &[Op::Archive, Op::Delete, Op::Fork(None), Op::Purge]);
}

#[test]
fn two_processes_at_an_archived_session_lose_and_mix_nothing() {
    let scene = family();
    scene.archive(TARGET);
    let ops = [Op::Archive, Op::Unarchive, Op::Delete, Op::Fork(Some(2)), Op::Purge];
    try_all(&scene, Place::Archive, &ops);
}

#[test]
fn two_processes_at_a_deleted_session_lose_and_mix_nothing() {
    let (live, archived) = (family(), family());
    live.trash(Place::Live, TARGET);
    archived.archive(TARGET).trash(Place::Archive, TARGET);
    for scene in [live, archived] {
        try_all(&scene, Place::Trash, &[Op::Restore, Op::Fork(None), Op::Purge]);
    }
}

#[test]
fn two_processes_at_another_programs_session_lose_and_mix_nothing() {
    let scene = Scene::flat();
    let image = |scene: &Scene| scene.image();
    let acts = [Op::Archive, Op::Delete, Op::Purge].map(Act::Op);
    let try_carol = |image: &Image, place, acts: &[Act]| {
        for a in acts.iter().chain(&READS[..2]) {
            for b in acts.iter().chain(&READS[..2]) {
                try_pair(image, place, *a, *b);
            }
        }
    };
    try_carol(&image(&scene), Place::Live, &acts);
    scene.archive(TARGET);
    try_carol(&image(&scene), Place::Archive, &[Op::Unarchive, Op::Delete].map(Act::Op));
}

/// A purge gives forks a copy of what they share; meanwhile somebody writes to one, or moves it out of sight.
#[test]
fn forks_that_are_written_or_moved_while_their_parent_is_purged_lose_nothing() {
    let to_forks = [
        Act::AppendToFork,
        Act::ToFork(CHILD, Op::Archive),
        Act::ToFork(CHILD, Op::Delete),
        Act::ToFork(CHILD, Op::Fork(None)),
        Act::ToFork(AWAY, Op::Unarchive),
        Act::ToFork(AWAY, Op::Delete),
        Act::ToFork(GONE, Op::Restore),
    ];
    let image = family().image();
    for act in to_forks {
        try_pair(&image, Place::Live, Act::Op(Op::Purge), act);
        try_pair(&image, Place::Live, act, Act::Op(Op::Purge));
    }
}

/// Operations of several steps, with others that come upon the session between two of them.
#[test]
fn whoever_comes_upon_a_session_that_is_on_its_way_loses_and_mixes_nothing() {
    let ops = [Op::Archive, Op::Unarchive, Op::Delete, Op::Purge, Op::Fork(None)];
    let try_with = |scene: &Scene, place: Place, on_its_way: &[Op]| {
        let image = scene.image();
        for a in on_its_way {
            for b in ops {
                try_pair(&image, place, Act::Op(*a), Act::Late(b));
            }
        }
    };
    let scene = family();
    try_with(&scene, Place::Live, &[Op::Archive]);
    scene.archive_plain(TARGET);
    try_with(&scene, Place::Archive, &[Op::Archive, Op::Delete]);
    let packed = family();
    packed.archive(TARGET);
    try_with(&packed, Place::Archive, &[Op::Unarchive]);
}

/// A packed file that is not what it was made of is noticed before the plain one goes.
#[test]
fn a_disk_that_writes_other_bytes_costs_no_session() {
    let image = family().image();
    let mut flipped = 0;
    for operation in 0.. {
        let two = Two::new(&image, Place::Live, 1);
        let before = two.state();
        let (disk, hit) = (two.disk.clone(), Arc::new(Mutex::new(false)));
        let seen = hit.clone();
        two.disk.visit_before(two.disk.op_count() + operation, move || {
            let trace = disk.trace();
            let last = trace.last().unwrap();
            let written = disk.paths().into_iter().find(|path| path.extension().is_some_and(|e| e == "tmp"));
            if let Some(path) = written.filter(|_| last.contains(" sync /store/archive/.")) {
                let mut bytes = disk.peek(&path).unwrap();
                bytes[20] ^= 1;
                disk.poke(path, bytes).unwrap();
                *seen.lock().unwrap() = true;
            }
        });
        let done = two.a.archive(&two.target.id, &mut |_, _| {});
        if two.disk.cancel_visit() {
            break;
        }
        if *hit.lock().unwrap() {
            flipped += 1;
            assert!(matches!(done, Err(Error::NotPacked { .. })), "{done:?}");
        }
        let now = two.state();
        let whole = now.0.iter().filter(|seen| seen.key() == &key(TARGET)).map(|seen| &seen.records);
        let was = before.0.iter().filter(|seen| seen.key() == &key(TARGET)).map(|seen| &seen.records);
        assert!(whole.eq(was), "{}", now.text());
    }
    assert_eq!(flipped, 1, "the packed file is synced once");
}

/// Another program, which knows no lease, still has the file open while it is packed.
#[test]
fn what_is_written_around_the_lease_while_a_session_is_packed_is_not_lost() {
    let image = family().image();
    let mut written = 0;
    for operation in 0.. {
        let two = Two::new(&image, Place::Live, 1);
        let (disk, said) = (two.disk.clone(), Arc::new(Mutex::new(false)));
        let told = said.clone();
        two.disk.visit_before(two.disk.op_count() + operation, move || {
            let packing = |path: &std::path::PathBuf| {
                let name = path.to_str().unwrap();
                name.contains("/archive/telegram")
                    && !disk.paths().contains(&path.with_extension("jsonl.zst"))
            };
            let plain =
                disk.paths().into_iter().find(|p| packing(p) && p.extension().is_some_and(|e| e == "jsonl"));
            // After its last look at the length, nobody can help.
            let last_look = disk.trace().last().unwrap().contains(" state ");
            if let Some(path) = plain.filter(|_| !last_look) {
                disk.raw_append(path, b"{\"role\":\"user\",\"content\":\"around\"}\n").unwrap();
                *told.lock().unwrap() = true;
            }
        });
        let done = two.a.archive(&two.target.id, &mut |_, _| {});
        if two.disk.cancel_visit() {
            break;
        }
        let said = *said.lock().unwrap();
        written += u64::from(said);
        let now = two.state();
        assert_eq!(
            now.0.iter().any(|seen| seen.says("around")),
            said,
            "{operation} {done:?}\n{}",
            now.text()
        );
    }
    assert!(written > 5, "{written}");
}

/// Another process takes the session for itself in the middle, and writes when the operation is over.
#[test]
fn whoever_holds_a_session_keeps_what_they_write() {
    let image = family().image();
    for op in [Op::Archive, Op::Delete, Op::Fork(None), Op::Purge] {
        for operation in 0.. {
            let two = Two::new(&image, Place::Live, 1);
            let held = Arc::new(Mutex::new(None));
            let (theirs, slot) = (two.b.clone(), held.clone());
            two.disk.visit_before(two.disk.op_count() + operation, move || {
                *slot.lock().unwrap() = theirs.existing_session(&key(TARGET)).ok();
            });
            let done = Act::Op(op).run(&two.a, &two.target, "a");
            if two.disk.cancel_visit() {
                break;
            }
            let mut said = 0;
            if let Some(session) = held.lock().unwrap().as_mut() {
                session.append(turn("user", "held")).unwrap_or_else(|e| panic!("{op:?} {operation}: {e}"));
                said = 1;
                assert!(
                    done.is_err() || matches!(op, Op::Fork(_)),
                    "{op:?} at {operation} went on under a writer"
                );
            }
            *held.lock().unwrap() = None;
            let now = two.state();
            let there = now.0.iter().filter(|seen| seen.says("held")).count();
            assert_eq!(there, said, "{op:?} at {operation}:\n{}", now.text());
            two.go_on();
        }
    }
}

/// An operation fails in the middle; another process, which knew the sessions before, appends; the power fails.
#[test]
fn what_a_bystander_appends_after_an_error_survives_a_power_cut() {
    let archived = family();
    archived.archive(TARGET);
    let cases = [
        (family(), Place::Live, Op::Purge),
        (family(), Place::Live, Op::Archive),
        (family(), Place::Live, Op::Fork(None)),
        (archived, Place::Archive, Op::Unarchive),
    ];
    for (scene, place, op) in &cases {
        let image = scene.image();
        for nth in 0.. {
            let operation = nth / 3;
            let two = Two::new(&image, *place, nth);
            two.disk
                .add_fault(two.disk.op_count() + operation, manent_sim::Fault::Fail(manent_sim::Errno::Io));
            let _ = op.run(&two.a, &two.target);
            if two.disk.faults_left() > 0 {
                break;
            }
            for name in [TARGET, CHILD] {
                two.b.append(&key(name), turn("user", format!("{name} after"))).unwrap();
            }
            two.disk.crash(manent_sim::CrashKind::Power);
            let disk = two.disk.restart();
            let now = State::of(&state::open(&disk, image.home).unwrap()).unwrap();
            for name in [TARGET, CHILD] {
                let says = |seen: &&Seen| seen.key() == &key(name) && seen.says(&format!("{name} after"));
                let there = now.0.iter().filter(says).count();
                assert_eq!(there, 1, "{op:?}, EIO at {operation}: {name}\n{}", now.text());
            }
        }
    }
}

const TARGET: &str = "telegram:carol";
const CHILD: &str = "child";
const AWAY: &str = "put away";
const GONE: &str = "thrown away";
