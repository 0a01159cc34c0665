//! A check of the whole store while another process moves its sessions: every session is checked, wherever it goes, and
//! none that is merely elsewhere by now is an error or counts as damaged.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use manent::log::Disk;
use manent::{Place, Store, Verified};
use manent_sim::SimDisk;

use super::ops::Op;
use super::scenes::{self, Image, key};
use super::state;

/// A change that another process makes meanwhile.
#[derive(Debug, Clone, Copy)]
enum Move {
    /// To the session of this key, wherever it is.
    Op(Op, &'static str),
    /// Renames a file, as another program does.
    Rename(&'static str, &'static str),
}

impl Move {
    fn run(self, disk: &SimDisk, store: &Store) {
        match self {
            Move::Rename(from, to) => disk.rename(Path::new(from), Path::new(to)).unwrap(),
            Move::Op(op, name) => {
                let found = Place::ALL.into_iter().find_map(|place| store.find_in(place, &key(name)).ok());
                let found = found.unwrap_or_else(|| panic!("{name} is nowhere"));
                op.run(store, &found).unwrap_or_else(|e| panic!("{self:?}: {e}"));
            }
        }
    }
}

/// Runs each move before the disk operation of the check that is as far behind the one before it as the number says.
fn move_at(disk: &SimDisk, operation: u64, moves: &[(u64, Move)], other: Arc<Store>) {
    let Some(((distance, first), rest)) = moves.split_first() else { return };
    let (at, first, rest) = (operation + distance, *first, rest.to_vec());
    let theirs = disk.clone();
    disk.visit_before(at, move || {
        let operation = theirs.op_count();
        first.run(&theirs.as_process(OTHER), &other);
        let passed = theirs.op_count() - operation;
        move_at(&theirs, at + passed, &rest, other);
    });
}

/// Everything that a check says: the sessions that are sound, and the names of those that were removed.
fn check(store: &Store, case: &str) -> (BTreeSet<String>, Vec<String>) {
    let (mut sound, mut removed) = (BTreeSet::new(), Vec::new());
    let mut all = store.verify_all();
    while let Some(verified) = all.next(&mut |_, _| {}) {
        let Verified { listed, outcome } = verified.unwrap_or_else(|e| panic!("{case}: a place: {e}"));
        let at = listed.id;
        let name = if at.id.is_empty() { at.key.to_string() } else { at.id };
        match outcome {
            Ok(Some(report)) => {
                assert!(report.is_sound(), "{case}: {} is not sound: {report:?}", at.key);
                sound.insert(name);
            }
            Ok(None) => removed.push(at.key.to_string()),
            Err(e) => panic!("{case}: {} at {:?}: {e}", at.key, at.place),
        }
    }
    (sound, removed)
}

fn everything(store: &Store) -> BTreeSet<String> {
    let all = Place::ALL.into_iter().flat_map(|place| store.list(place).unwrap());
    let name = |at: manent::StreamId| if at.id.is_empty() { at.key.to_string() } else { at.id };
    all.map(|listed| name(listed.id)).collect()
}

/// Puts the moves between any two disk operations of a check.
fn try_moves(image: &Image, moves: &[Move], may_be_removed: &[&str]) {
    let distances: &[u64] = if moves.len() > 1 { &[1, 6, 30] } else { &[0] };
    for distance in distances {
        for operation in 0.. {
            let disk = image.disk(1);
            let store = state::open(&disk, image.home).unwrap();
            let other = Arc::new(state::open(&disk.as_process(OTHER), image.home).unwrap());
            let moves: Vec<(u64, Move)> =
                moves.iter().enumerate().map(|(n, act)| (if n == 0 { 0 } else { *distance }, *act)).collect();
            let case = format!("{moves:?} from disk operation {operation} on");
            move_at(&disk, disk.op_count() + operation, &moves, other);
            let (sound, removed) = check(&store, &case);
            let none_came = disk.cancel_visit();
            let there = everything(&state::open(&disk, image.home).unwrap());
            assert!(there.is_subset(&sound), "{case}: {there:?} are there, {sound:?} were checked");
            let expected = removed.iter().all(|name| may_be_removed.contains(&name.as_str()));
            assert!(expected, "{case}: {removed:?} were removed");
            if none_came {
                assert!(operation > 10, "a check takes more than {operation} disk operations");
                break;
            }
        }
    }
}

#[test]
fn verifying_a_store_follows_sessions_that_are_moved_meanwhile() {
    let image = scenes::forks().image();
    for moves in [
        &[Move::Op(Op::Archive, "work")][..],
        &[Move::Op(Op::Delete, "work")],
        &[Move::Op(Op::Unarchive, "f-arch")],
        &[Move::Op(Op::Delete, "f-arch")],
        &[Move::Op(Op::Archive, "f-plain")],
        &[Move::Op(Op::Restore, "f-trash")],
        &[Move::Op(Op::Archive, "work"), Move::Op(Op::Unarchive, "work")],
        &[Move::Op(Op::Restore, "f-trash"), Move::Op(Op::Delete, "f-trash")],
        &[Move::Op(Op::Unarchive, "f-arch"), Move::Op(Op::Archive, "f-arch")],
        &[Move::Op(Op::Unarchive, "f-arch"), Move::Op(Op::Delete, "f-arch"), Move::Op(Op::Restore, "f-arch")],
    ] {
        try_moves(&image, moves, &[]);
    }
}

#[test]
fn verifying_a_store_takes_a_purge_for_no_damage() {
    let image = scenes::forks().image();
    try_moves(&image, &[Move::Op(Op::Purge, "work")], &["work"]);
    try_moves(&image, &[Move::Op(Op::Purge, "f-trash")], &["f-trash"]);
}

/// Another program's file has no id by which it could be found again: under another name it is another session.
#[test]
fn verifying_a_directory_of_another_program_takes_a_rename_for_no_damage() {
    let image = scenes::Scene::flat().image();
    let renames = [
        Move::Rename("/flat/alice.jsonl", "/flat/bob.jsonl"),
        Move::Rename("/flat/alice.jsonl", "/flat/alice.jsonl.archived"),
        Move::Rename("/flat/bob.jsonl.archived", "/flat/bob.jsonl"),
    ];
    for rename in renames {
        try_moves(&image, &[rename], &["alice", "bob"]);
    }
}

/// The process that moves sessions.
const OTHER: u32 = 2000;
