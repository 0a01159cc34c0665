//! Many at once: threads with stores of their own, and other processes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use manent::{Error, Memory, Store, StoreOptions};

use manent_sim::seeds::in_time;

use super::{fact, found, home, ids, open};

/// A memory that waits for others as long as it takes.
fn patient(home: &Path) -> Memory {
    let options = StoreOptions { wait: Duration::from_mins(2), ..StoreOptions::default() };
    Store::open_with(home, options).unwrap().memory().unwrap()
}

/// The results that all threads together were given.
#[derive(Default)]
struct Told {
    added: Mutex<BTreeSet<u64>>,
    forgotten: Mutex<BTreeSet<u64>>,
}

fn work(memory: &Memory, told: &Told, thread: usize) {
    let mut last = 0;
    for round in 0..30 {
        let word = format!("t{thread}r{round}");
        let id = memory.add(&fact(&format!("common {word}"))).unwrap().id;
        assert!(id > last, "{id} after {last}");
        last = id;
        assert!(told.added.lock().unwrap().insert(id), "{id} was given twice");
        assert_eq!(found(memory, &word), [id], "just added");
        if round % 3 == 0 {
            memory.forget(&[id]).unwrap();
            told.forgotten.lock().unwrap().insert(id);
            assert_eq!(found(memory, &word), Vec::<u64>::new(), "just forgotten");
            assert!(memory.get(id).unwrap().is_empty());
        }
        if (round + thread).is_multiple_of(10) {
            memory.compact().unwrap();
        }
        let gone = told.forgotten.lock().unwrap().clone();
        assert!(ids(memory).iter().all(|id| !gone.contains(id)), "what was forgotten before is listed");
    }
}

#[test]
fn threads_that_add_forget_compact_and_search_at_once_lose_and_double_nothing() {
    in_time(|| {
        let dir = home();
        let told = Told::default();
        // Two of them share a store, the others have their own.
        let shared = patient(dir.path());
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (told, shared, path) = (&told, &shared, dir.path());
                scope.spawn(move || {
                    let memory = if thread < 2 { shared.clone() } else { patient(path) };
                    work(&memory, told, thread);
                });
            }
        });
        let (added, forgotten) = (told.added.into_inner().unwrap(), told.forgotten.into_inner().unwrap());
        assert_eq!((added.len(), forgotten.len()), (180, 60));
        let there: BTreeSet<u64> = added.difference(&forgotten).copied().collect();
        for memory in [&shared, &open(dir.path())] {
            let listed = ids(memory);
            assert_eq!(listed.len(), there.len(), "none is there twice");
            assert_eq!(listed.into_iter().collect::<BTreeSet<u64>>(), there);
            assert_eq!(found(memory, "common"), there.iter().copied().collect::<Vec<u64>>());
        }
        assert!(open(dir.path()).verify().unwrap().unwrap().is_sound());
    })
    .unwrap();
}

const CHILD: &str = "MANENT_MEMORY_CHILD";

/// Another process, which does what `does` says and tells of it line by line.
fn child(home: &Path, does: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["threads::does_what_its_parent_asks_for", "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{does} {}", home.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stdout.take().unwrap());
    (child, told)
}

/// The next thing that the other process tells.
fn next(told: &mut BufReader<std::process::ChildStdout>) -> Option<String> {
    for line in told.lines() {
        if let Some((_, what)) = line.ok()?.split_once("told: ") {
            return Some(what.to_owned());
        }
    }
    None
}

fn tell(what: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "told: {what}").unwrap();
    out.flush().unwrap();
}

/// Run by the other tests in processes of their own; here, where nobody asks, there is nothing to do.
#[test]
fn does_what_its_parent_asks_for() {
    let Ok(asked) = std::env::var(CHILD) else {
        assert!(std::env::var_os(CHILD).is_none());
        return;
    };
    let (does, home) = asked.split_once(' ').unwrap();
    let memory = patient(Path::new(home));
    if does == "hold" {
        let _hold = memory.writer(Duration::ZERO).unwrap();
        tell("held");
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    for round in 0..200 {
        let id = memory.add(&fact(&format!("common {does} {round}"))).unwrap().id;
        tell(&id.to_string());
        if round % 16 == 0 {
            memory.forget(&[id]).unwrap();
            tell(&format!("-{id}"));
            memory.compact().unwrap();
        }
    }
}

#[test]
fn a_second_process_is_told_who_holds_the_memory_and_let_in_when_that_one_dies() {
    in_time(|| {
        let dir = home();
        let memory = open(dir.path());
        memory.add(&fact("one")).unwrap();
        let (mut child, mut told) = child(dir.path(), "hold");
        assert_eq!(next(&mut told).as_deref(), Some("held"));
        let refused = memory.writer(Duration::ZERO).expect_err("held");
        let named = format!("memory is held by another manent process (pid {})", child.id());
        assert!(refused.to_string().starts_with(&named), "{refused}");
        assert!(matches!(memory.add(&fact("two")), Err(Error::MemoryHeld { .. })));
        assert!(matches!(memory.forget(&[1]), Err(Error::MemoryHeld { .. })));
        assert!(matches!(memory.compact(), Err(Error::MemoryHeld { .. })));
        assert_eq!(ids(&memory), [1], "reading needs nobody's leave");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(memory.writer(Duration::ZERO).unwrap().add(&fact("two")).unwrap().id, 2);
    })
    .unwrap();
}

#[test]
fn processes_that_are_killed_at_any_time_keep_what_they_told_of() {
    in_time(|| {
        let dir = home();
        let mut told = BTreeSet::new();
        let mut gone = BTreeSet::new();
        for nth in 0..6 {
            let mut others: Vec<_> = (0..3).map(|n| child(dir.path(), &format!("p{nth}x{n}"))).collect();
            for (child, out) in &mut others {
                for _ in 0..nth * 3 + 2 {
                    note(next(out), &mut told, &mut gone);
                }
                child.kill().unwrap();
                while let Some(line) = next(out) {
                    note(Some(line), &mut told, &mut gone);
                }
                child.wait().unwrap();
            }
            let memory = open(dir.path());
            let listed: BTreeSet<u64> = ids(&memory).into_iter().collect();
            // What they did in the moment in which they died, nobody was told.
            let lost: Vec<_> = told.difference(&gone).filter(|id| !listed.contains(id)).collect();
            assert!(lost.len() <= 3, "more than one a process: {lost:?}");
            for id in &lost {
                assert!(memory.get(**id).unwrap().is_empty(), "forgotten as it died, or lost");
            }
            assert!(gone.iter().all(|id| !listed.contains(id)), "what was forgotten is back");
            gone.extend(lost.into_iter().copied().collect::<Vec<_>>());
            let next = memory.add(&fact("by the parent")).unwrap().id;
            assert!(told.iter().all(|id| *id < next), "{next} was given again");
            told.insert(next);
        }
        assert!(told.len() > 60, "{} only", told.len());
    })
    .unwrap();
}

fn note(line: Option<String>, told: &mut BTreeSet<u64>, gone: &mut BTreeSet<u64>) {
    let line = line.expect("it tells of each");
    match line.strip_prefix('-') {
        Some(id) => gone.insert(id.parse().unwrap()),
        None => told.insert(line.parse().unwrap()),
    };
}
