//! The operations, and the cases on which they are tried.

use manent::{Error, Place, Store, StreamStat};

use super::scenes::{self, Image, Scene, key};
use super::state::{self, Seen, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Archive,
    Unarchive,
    Delete,
    Restore,
    Purge,
    PurgeWithForks,
    /// Up to this record.
    Fork(Option<u64>),
}

impl Op {
    /// Does it to the session that was found.
    pub(crate) fn run(self, store: &Store, target: &StreamStat) -> Result<(), Error> {
        let at = &target.id;
        match self {
            Op::Archive => store.archive(at, &mut |_, _| {}).map(drop),
            Op::Unarchive => store.unarchive(at).map(drop),
            Op::Delete => store.delete(at).map(drop),
            Op::Restore => store.restore(target).map(drop),
            Op::Purge => store.purge(std::slice::from_ref(at), false).map(drop),
            Op::PurgeWithForks => store.purge(std::slice::from_ref(at), true).map(drop),
            Op::Fork(upto) => store.fork(at, upto, &key(FORK)).map(drop),
        }
    }

    /// Does it again after it was interrupted, as somebody would who looks first what is there.
    pub(crate) fn repeat(self, store: &Store, target: &[(u64, String)]) -> Result<Again, String> {
        let all = State::of(store)?;
        let Some(found) = all.0.iter().find(|seen| seen.records == target && seen.key().as_str() != FORK)
        else {
            return Ok(Again::NotNeeded);
        };
        let done = match self {
            Op::Delete => found.place() == Place::Trash,
            Op::Restore => found.place() != Place::Trash,
            Op::Fork(_) => all.0.iter().any(|seen| seen.key().as_str() == FORK),
            Op::Unarchive => found.place() == Place::Live,
            // Also what is archived already: it may not be packed.
            Op::Archive | Op::Purge | Op::PurgeWithForks => false,
        };
        if done {
            return Ok(Again::NotNeeded);
        }
        self.run(store, &found.listed).map(|()| Again::Done).map_err(|e| e.to_string())
    }
}

/// The outcome of a second attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    Done,
    /// The first attempt had done it, as far as can be seen. That was never acknowledged, so a power cut may still undo
    /// it.
    NotNeeded,
}

/// An operation on a session of a scene.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) image: Image,
    pub(crate) op: Op,
    pub(crate) target: Seen,
    pub(crate) old: State,
    pub(crate) new: State,
    /// Counts the disk operations it takes.
    pub(crate) operations: u64,
}

impl Case {
    /// `text` is what only the session says that is meant.
    pub(crate) fn new(name: &str, scene: &Scene, op: Op, place: Place, session: &str, text: &str) -> Case {
        let image = scene.image();
        let name = format!("{op:?} {name}");
        let disk = image.disk(0);
        let store = state::open(&disk, image.home).unwrap();
        let old = State::of(&store).unwrap();
        let meant = |seen: &&Seen| seen.place() == place && seen.key().as_str() == session && seen.says(text);
        let target = old.0.iter().find(meant).unwrap_or_else(|| panic!("{name}: {}", old.text())).clone();
        let before = disk.op_count();
        let store = state::open(&disk, image.home).unwrap();
        op.run(&store, &target.listed).unwrap_or_else(|e| panic!("{name}: {e}"));
        let operations = disk.op_count() - before;
        let new = State::of(&store).unwrap();
        assert_ne!(old, new, "{name} changes something");
        state::nothing_hidden(&disk, &new).unwrap_or_else(|e| panic!("{name}: {e}"));
        if op == Op::Delete {
            let comes_back = |seen: &Seen| seen.records == target.records && seen.listed.from == place;
            assert!(new.0.iter().any(comes_back), "{name}: it can be brought back to where it was");
        }
        Case { name, image, op, target, old, new, operations }
    }

    /// Returns true if the operation may leave this state when it is interrupted.
    pub(crate) fn allows(&self, now: &State) -> bool {
        match self.op {
            // One session after the other, forks first.
            Op::PurgeWithForks => self.old.holds(now) && now.holds(&self.new),
            _ => *now == self.old || *now == self.new,
        }
    }
}

/// The cases of an operation.
pub(crate) fn cases(op: Op) -> Vec<Case> {
    use Place::{Archive, Live, Trash};
    let case = |name, scene: &Scene, place, session, text| Case::new(name, scene, op, place, session, text);
    match op {
        Op::Archive => live(op),
        Op::Unarchive => archived(op),
        Op::Delete => live(op).into_iter().chain(archived(op)).collect(),
        Op::Restore => thrown_away(op),
        Op::Purge => live(op).into_iter().chain(archived(op)).chain(thrown_away(op)).collect(),
        Op::Fork(_) => vec![
            case("live", &scenes::plain(), Live, "work", "work 1"),
            case("torn", &scenes::torn(), Live, "work", "work 1"),
            case("a fork", &scenes::forks(), Live, "f-live", "f-live a"),
            case("archived", scenes::plain().archive("work"), Archive, "work", "work 1"),
            case("deleted", scenes::plain().trash(Live, "work"), Trash, "work", "work 1"),
            case("another program's", &Scene::flat(), Live, "alice", "alice 1"),
            case("another program's, marked", &Scene::flat(), Archive, "bob", "bob 1"),
        ],
        Op::PurgeWithForks => vec![
            case("a parent", &scenes::forks(), Live, "work", "secret 4"),
            case("a parent, archived", scenes::forks().archive("work"), Archive, "work", "secret 4"),
            case("a fork that has one", &scenes::forks(), Live, "f-live", "f-live a"),
        ],
    }
}

/// Sessions that are live.
fn live(op: Op) -> Vec<Case> {
    use Place::Live;
    let case = |name, scene: &Scene, place, session, text| Case::new(name, scene, op, place, session, text);
    vec![
        case("live", &scenes::plain(), Live, "work", "work 1"),
        case("torn", &scenes::torn(), Live, "work", "work 1"),
        case("with an older one", &scenes::older(), Live, "work", "work 1"),
        case("with some in the trash", &scenes::trashed(), Live, "work", "work 1"),
        case("a parent", &scenes::forks(), Live, "work", "secret 4"),
        case("a fork", &scenes::forks(), Live, "f-live", "f-live a"),
        case("another program's", &Scene::flat(), Live, "alice", "alice 1"),
        case("another program's, of its own name", &Scene::flat(), Live, "telegram:carol", "carol 1"),
    ]
}

/// Sessions that are archived.
fn archived(op: Op) -> Vec<Case> {
    use Place::Archive;
    let case = |name, scene: &Scene, place, session, text| Case::new(name, scene, op, place, session, text);
    let alice = Scene::flat();
    alice.archive("alice");
    vec![
        case("archived", scenes::plain().archive("work"), Archive, "work", "work 1"),
        case("archived, torn", scenes::torn().archive("work"), Archive, "work", "work 1"),
        case("the older one", scenes::older().archive("work"), Archive, "work", "older 1"),
        case("archived, not packed", scenes::plain().archive_plain("work"), Archive, "work", "work 1"),
        case("archived twice over", scenes::plain().archive_both("work"), Archive, "work", "work 1"),
        case("an archived parent", scenes::forks().archive("work"), Archive, "work", "secret 4"),
        case("an archived fork", &scenes::forks(), Archive, "f-arch", "f-arch a"),
        case("an archived fork, not packed", &scenes::forks(), Archive, "f-plain", "f-plain a"),
        case("another program's, archived", &alice, Archive, "alice", "alice 1"),
        case("another program's, marked", &Scene::flat(), Archive, "bob", "bob 1"),
    ]
}

/// Sessions in the trash.
fn thrown_away(op: Op) -> Vec<Case> {
    use Place::{Archive, Live, Trash};
    let case = |name, scene: &Scene, place, session, text| Case::new(name, scene, op, place, session, text);
    let torn = scenes::torn();
    torn.archive("work").trash(Archive, "work");
    let (alice, bob) = (Scene::flat(), Scene::flat());
    alice.trash(Live, "alice");
    bob.trash(Archive, "bob");
    let both = scenes::trashed();
    both.archive("work");
    vec![
        case("deleted", scenes::plain().trash(Live, "work"), Trash, "work", "work 1"),
        case("deleted, torn", scenes::torn().trash(Live, "work"), Trash, "work", "work 1"),
        case("deleted from the archive, torn", &torn, Trash, "work", "work 1"),
        case("one of several", &both, Trash, "work", "gone 1"),
        case("one of several, packed", &both, Trash, "work", "lost 1"),
        case("a deleted parent", scenes::forks().trash(Live, "work"), Trash, "work", "secret 4"),
        case("a deleted fork", &scenes::forks(), Trash, "f-trash", "f-trash a"),
        case("another program's, deleted", &alice, Trash, "alice", "alice 1"),
        case("another program's, marked, deleted", &bob, Trash, "bob", "bob 1"),
    ]
}

pub(crate) const FORK: &str = "branch";
