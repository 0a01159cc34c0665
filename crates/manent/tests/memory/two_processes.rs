//! Two processes: all that one does, at every point of what the other does.

use std::sync::{Arc, Mutex};

use manent::{Error, Memory};
use manent_sim::{CrashKind, SimDisk};

use super::fact;
use super::scenes::{FILE, SECRET, files_with, find, foreign, native, open, told};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Add,
    Forget,
    Compact,
    Search,
}

const ACTS: [Act; 4] = [Act::Add, Act::Forget, Act::Compact, Act::Search];

/// The results that one of the two processes was given.
#[derive(Debug, Default)]
struct Told {
    added: Option<u64>,
    forgot: bool,
    compacted: bool,
    refused: bool,
}

fn act(act: Act, memory: &Memory, who: &str) -> Told {
    let mut told = Told::default();
    let done = match act {
        Act::Add => memory.add(&fact(&format!("alpha by {who}"))).map(|item| told.added = Some(item.id)),
        Act::Forget => memory.forget(&[1]).map(|_| told.forgot = true),
        Act::Compact => memory.compact().map(|_| told.compacted = true),
        Act::Search => find(memory, "alpha").map(|_| ()),
    };
    match done {
        Ok(()) => {}
        // Somebody else was there first, or stands still in the middle of writing the index; both are told by name.
        Err(Error::MemoryHeld { .. } | Error::NoItem { id: 1 } | Error::Index(_)) => told.refused = true,
        Err(e) => panic!("{act:?} by {who}: {e}"),
    }
    told
}

fn expect(disk: &SimDisk, all: [&Told; 2], what: &str) {
    let now = told(&open(disk)).unwrap();
    let mut ids: Vec<u64> = now.iter().map(|(id, _)| *id).collect();
    let (before, forgot) = (ids.len(), all.iter().any(|told| told.forgot));
    ids.dedup();
    assert_eq!(ids.len(), before, "{what}: an id twice: {now:?}");
    for told in all {
        assert!(told.added.is_none_or(|id| ids.contains(&id) && id > 6), "{what}: {told:?} of {now:?}");
    }
    assert_eq!(ids.contains(&1), !forgot, "{what}: {now:?}");
    assert!(ids.contains(&3) && ids.contains(&5) && !ids.contains(&2), "{what}: {now:?}");
    assert_eq!(find(&open(disk), "alpha").unwrap(), ids, "{what}");
}

#[test]
fn two_processes_lose_nothing_and_bring_nothing_back() {
    let mut refused = 0;
    for (scene, image) in [("native", native()), ("foreign", foreign())] {
        for (first, second) in ACTS.into_iter().flat_map(|first| ACTS.map(|second| (first, second))) {
            for operation in 0.. {
                let disk = image.copy(operation);
                let (memory, other) = (open(&disk), open(&disk.as_process(2)));
                if operation % 2 == 0 {
                    // Both have known it for long.
                    told(&other).unwrap();
                    find(&memory, "alpha").unwrap();
                }
                let visited = Arc::new(Mutex::new(None));
                let told = visited.clone();
                disk.visit_before(disk.op_count() + operation, move || {
                    *told.lock().unwrap() = Some(act(second, &other, "the second"));
                });
                let one = act(first, &memory, "the first");
                let Some(two) = visited.lock().unwrap().take() else { break };
                refused += u32::from(one.refused || two.refused);
                let what =
                    format!("{scene}: {second:?} at operation {operation} of {first:?}, {one:?}, {two:?}");
                expect(&disk, [&one, &two], &what);
                if one.compacted || two.compacted {
                    assert_eq!(files_with(&disk, SECRET), Vec::<std::path::PathBuf>::new(), "{what}");
                }
                disk.crash(CrashKind::Power);
                expect(&disk.restart(), [&one, &two], &format!("{what}, and a power cut"));
            }
        }
    }
    assert!(refused > 50, "refused {refused} times only: they never met");
}

/// A program that knows nothing of our lease, and writes in the middle of what we do.
#[test]
fn what_another_program_writes_in_the_middle_is_there_and_shares_no_number() {
    for (scene, image) in [("native", native()), ("foreign", foreign())] {
        for one in [Act::Add, Act::Forget, Act::Compact] {
            let (mut met, mut shared) = (0, 0);
            for operation in 0.. {
                let disk = image.copy(operation);
                let (memory, other) = (open(&disk), disk.clone());
                disk.visit_before(disk.op_count() + operation, move || {
                    // As they count: one more than the highest that they find.
                    let text = String::from_utf8_lossy(&other.peek(FILE).unwrap()).into_owned();
                    let id_of =
                        |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["id"].as_u64();
                    let id = text.lines().filter_map(id_of).max().unwrap() + 1;
                    let line = format!("{{\"id\":{id},\"kind\":\"fact\",\"content\":\"alpha theirs\"}}\n");
                    other.raw_append(FILE, line.as_bytes()).unwrap();
                });
                let done = match one {
                    Act::Add => memory.add(&fact("alpha ours")).map(drop),
                    Act::Forget => memory.forget(&[1]).map(drop),
                    _ => memory.compact().map(drop),
                };
                if disk.cancel_visit() {
                    break;
                }
                met += 1;
                let what = format!("{scene}: they write at operation {operation} of {one:?}");
                match done {
                    Ok(()) => {}
                    Err(Error::MemoryChanges { .. }) => assert_eq!(one, Act::Compact, "{what}"),
                    Err(e) => panic!("{what}: {e}"),
                }
                let now = told(&open(&disk)).unwrap();
                let theirs = now.iter().find(|(_, text)| text == "alpha theirs");
                let (id, _) = theirs.unwrap_or_else(|| panic!("{what}: lost: {now:?}"));
                assert!(now.iter().filter(|(id, _)| [3, 5].contains(id)).count() == 2, "{what}: {now:?}");
                // In the instant between our look and our write, nobody can tell.
                shared += usize::from(now.iter().filter(|(other, _)| other == id).count() > 1);
                assert!(open(&disk).add(&fact("alpha next")).unwrap().id > *id, "{what}");
            }
            assert!(met > 8 && shared <= 2, "{scene}, {one:?}: {shared} of {met} share a number");
        }
    }
}

/// Whoever holds a handle from before a compaction that died cleans up too.
#[test]
fn what_a_killed_compaction_leaves_goes_with_the_next_write_of_anybody() {
    let image = native();
    let mut left = 0;
    for operation in 0.. {
        let disk = image.copy(operation);
        let other = open(&disk.as_process(2));
        other.add(&fact("alpha before")).unwrap();
        // It dies alone: what it held is let go of, what it had written stays.
        let dying = open(&disk.as_process(3));
        disk.as_process(3)
            .add_fault(disk.op_count() + operation, manent_sim::Fault::Fail(manent_sim::Errno::Io));
        let done = dying.compact();
        if disk.faults_left() > 0 {
            done.unwrap();
            break;
        }
        disk.reset_faults();
        disk.poke("/store/memory.jsonl.new", "half of alpha qzsecret").unwrap();
        left += 1;
        other.forget(&[3]).unwrap();
        assert!(disk.peek("/store/memory.jsonl.new").is_none(), "operation {operation}");
    }
    assert!(left > 10);
}

/// A process that knows the words from before does not write them down again.
#[test]
fn a_search_by_somebody_who_knew_it_before_brings_no_word_back_to_the_disk() {
    for (scene, image) in [("native", native()), ("foreign", foreign())] {
        for before in 0..4 {
            let disk = image.copy(before);
            let (memory, other) = (open(&disk), open(&disk.as_process(2)));
            // It has read the secret, in its own copy of the index, saved or not.
            for n in 0..before {
                other.add(&fact(&format!("alpha before {n}"))).unwrap();
                find(&other, "alpha").unwrap();
            }
            memory.compact().unwrap();
            for n in 0..40 {
                find(&other, "alpha").unwrap();
                assert_eq!(
                    files_with(&disk, SECRET),
                    Vec::<std::path::PathBuf>::new(),
                    "{scene} {before} {n}"
                );
                memory.add(&fact(&format!("alpha after {n}"))).unwrap();
            }
            assert_eq!(find(&other, "after").unwrap().len(), 40);
        }
    }
}
