//! A crash, a power cut or an error at every disk operation of a step; models that die.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use manent::consolidate::{ExtractorError, Rules, Step};
use manent::memory::{Filter, Kind, NewItem, Source, SourceKind};
use manent::{Files, Store, StoreOptions};
use manent_sim::{Errno, Fault, SimDisk};

use super::{Model, at, contents, dailies, expect_grounded, home, look, look_at, open, say};

const HOME: &str = "/store";

fn try_open(disk: &SimDisk) -> manent::Result<Store> {
    let files = Files::open_on(Arc::new(disk.clone()), HOME.into())?.waiting_for_movers(Duration::ZERO);
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Ok(Store::on_files(files, options))
}

/// Some passages: things to learn, one that contradicts another of the same passage, one that contradicts what a model
/// put there, one that contradicts what a person did.
fn scene() -> SimDisk {
    let disk = SimDisk::new(0);
    let store = try_open(&disk).unwrap();
    let memory = store.memory().unwrap();
    let by_model = Source { quote: Some("I work at Acme".into()), ..Source::by(SourceKind::Model) };
    memory.add(&NewItem::new(Kind::Fact, "I work at Acme").from(by_model)).unwrap();
    memory.add(&NewItem::new(Kind::Fact, "My name is Anna")).unwrap();
    for (role, text) in [
        ("user", "I live in Lyon. I own a boat."),
        ("assistant", "Nice."),
        ("user", "I live in Oslo. I live in Berlin. I work at Umbrella."),
        ("assistant", "Ah."),
        ("user", "My name is Berta. I play the cello."),
    ] {
        say(&store, "work", role, text);
    }
    disk
}

fn model<'a>() -> Model<'a> {
    Model { max: 60, ..Model::honest() }
}

/// All that was written, active or not, and all that waits.
fn told(store: &Store) -> Vec<String> {
    let mut told = Vec::new();
    for (memory, file) in [(store.memory().unwrap(), "memory"), (store.inbox().unwrap(), "inbox")] {
        for replaced in [false, true] {
            let items = memory.items(&Filter { replaced, ..Filter::default() }).unwrap();
            told.extend(items.iter().map(|item| {
                let turns = item.source.seqs;
                format!("{file} {} replaced: {replaced} {turns:?} {}", item.kind, item.content)
            }));
        }
    }
    told.sort();
    told
}

fn run(store: &Store) -> manent::Result<()> {
    let at = store.find(&super::key("work"))?.id;
    look_at(store, &at, &mut model(), Rules::default()).map(drop)
}

/// Whatever happened, it comes to the same end.
fn expect_end(disk: &SimDisk, wanted: &[String], what: &str) {
    let store = try_open(disk).unwrap();
    run(&store).unwrap_or_else(|e| panic!("{what}: it does not go on: {e}"));
    assert_eq!(told(&store), wanted, "{what}");
    let text = String::from_utf8(disk.peek("/store/memory.jsonl").unwrap()).unwrap();
    let id_of = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?["id"].as_u64();
    let mut ids: Vec<u64> = text.lines().filter_map(id_of).collect();
    let all = ids.len();
    ids.dedup();
    assert!(ids.is_sorted() && ids.len() == all, "{what}: a number was given twice: {ids:?}");
    let consolidation = store.consolidation().unwrap();
    consolidation.repair().unwrap();
    let report = consolidation.verify().unwrap().unwrap();
    assert!(report.is_sound(), "{what}: {report:?}");
    assert_eq!(consolidation.cursor(&at(&store, "work")).unwrap(), 5, "{what}");
    let mut model = model();
    assert!(look(&store, "work", &mut model).is_empty() && model.asked() == 0, "{what}");
}

fn uncrashed(image: &SimDisk) -> Vec<String> {
    let disk = image.copy(1);
    let store = try_open(&disk).unwrap();
    run(&store).unwrap();
    let wanted = told(&store);
    let has = |text: &str| wanted.iter().filter(|line| line.contains(text)).count();
    assert!(has(" daily ") >= 2 && has("Berta") == 2 && has("inbox") == 1, "{wanted:#?}");
    assert!(has("replaced: true") == 3 && has("I live in Lyon") >= 1, "{wanted:#?}");
    wanted
}

/// A fault in an operation that changes nothing shows in the next one that does: a few of them are enough.
fn struck_a_change(disk: &SimDisk, operation: u64) -> bool {
    disk.struck_a_change() || operation.is_multiple_of(16)
}

#[test]
fn a_crash_or_a_power_cut_anywhere_comes_to_the_same_end() {
    let image = scene();
    let wanted = uncrashed(&image);
    let (mut tried, mut looked) = (0, 0);
    for operation in 0.. {
        let mut went_on = false;
        for fault in [Fault::CrashKill, Fault::CrashPower] {
            let disk = image.copy(operation);
            disk.add_fault(disk.op_count() + operation, fault);
            let done = try_open(&disk).and_then(|store| run(&store));
            if disk.crashed().is_none() {
                done.unwrap();
                continue;
            }
            (went_on, tried) = (true, tried + 1);
            if struck_a_change(&disk, operation) {
                let disk = disk.restart();
                disk.reset_faults();
                expect_end(&disk, &wanted, &format!("{fault:?} at operation {operation}"));
                looked += 1;
            }
        }
        if !went_on {
            break;
        }
    }
    eprintln!("{tried} crashes, {looked} looked at");
    assert!(looked > 50, "{looked} crashes only");
}

#[test]
fn a_second_crash_while_the_first_is_mended_comes_to_the_same_end() {
    let image = scene();
    let wanted = uncrashed(&image);
    let mut tried = 0;
    for first in (0..).step_by(11) {
        let broken = image.copy(first);
        broken.add_fault(broken.op_count() + first, Fault::CrashPower);
        let _ = try_open(&broken).and_then(|store| run(&store));
        if broken.crashed().is_none() {
            break;
        }
        for second in (first % 53..).step_by(53) {
            let disk = broken.restart().copy(first * 1009 + second);
            let fault = if second % 2 == 0 { Fault::CrashPower } else { Fault::CrashKill };
            disk.add_fault(disk.op_count() + second, fault);
            let _ = try_open(&disk).and_then(|store| run(&store));
            if disk.crashed().is_none() {
                break;
            }
            let disk = disk.restart();
            disk.reset_faults();
            expect_end(&disk, &wanted, &format!("crashes at {first} and then at {second}"));
            tried += 1;
        }
    }
    assert!(tried > 30, "{tried} second crashes only");
}

#[test]
fn an_error_anywhere_comes_to_the_same_end_in_the_same_process_and_in_another() {
    let image = scene();
    let wanted = uncrashed(&image);
    for errno in [Errno::Io, Errno::NoSpace] {
        for operation in 0.. {
            let what = format!("{errno:?} at operation {operation}");
            let disk = image.copy(operation);
            disk.add_fault(disk.op_count() + operation, Fault::Fail(errno));
            let store = try_open(&disk);
            let done = store.as_ref().map_err(ToString::to_string);
            let done = done.and_then(|store| run(store).map_err(|e| e.to_string()));
            if disk.faults_left() > 0 {
                done.unwrap_or_else(|e| panic!("{what}: nothing was wrong, and yet: {e}"));
                break;
            }
            if !struck_a_change(&disk, operation) {
                continue;
            }
            disk.reset_faults();
            if let Ok(store) = &store
                && operation % 2 == 0
            {
                run(store).unwrap_or_else(|e| panic!("{what}: the same process can no more: {e}"));
                assert_eq!(told(store), wanted, "{what}, by the same process");
            }
            drop(store);
            expect_end(&disk, &wanted, &what);
        }
    }
}

/// Turns that were said while a step was cut off are no part of it.
#[test]
fn what_is_said_after_a_crash_is_a_passage_of_its_own() {
    let image = scene();
    for operation in (0..).step_by(5) {
        let disk = image.copy(operation);
        disk.add_fault(disk.op_count() + operation, Fault::CrashPower);
        let _ = try_open(&disk).and_then(|store| run(&store));
        let crashed = disk.crashed().is_some();
        let disk = disk.restart();
        disk.reset_faults();
        let store = try_open(&disk).unwrap();
        say(&store, "work", "user", "I fear spiders.");
        run(&store).unwrap();
        let what = format!("cut at operation {operation}");
        let told = told(&store);
        let times = |text: &str| told.iter().filter(|line| line.contains(text)).count();
        let facts =
            |text: &str| told.iter().filter(|line| line.contains(text) && !line.contains(" daily ")).count();
        for text in
            ["I own a boat", "I work at Umbrella", "My name is Berta", "I play the cello", "I fear spiders"]
        {
            assert_eq!(facts(text), 1, "{what}: {text}: {told:#?}");
        }
        let mut turns: Vec<(u64, u64)> = dailies(&store).iter().filter_map(|item| item.source.seqs).collect();
        turns.sort_unstable();
        assert!(turns.windows(2).all(|two| two[0].1 < two[1].0), "{what}: told twice: {turns:?}");
        assert!(times("spiders") >= 1 && turns.last().unwrap().1 == 6, "{what}: {turns:?}");
        if !crashed {
            break;
        }
    }
}

/// The n-th answer never comes: the process dies, or the model does.
#[test]
fn a_model_that_dies_at_any_call_holds_nothing_and_loses_nothing() {
    for how in ["panic", "unavailable", "refused"] {
        for nth in 0..6 {
            let dir = home();
            let store = open(dir.path());
            say(&store, "work", "user", "I live in Lyon. I own a boat.");
            say(&store, "work", "assistant", &"Nice. ".repeat(30));
            say(&store, "work", "user", "I play the cello.");
            let at = at(&store, "work");
            let calls = std::cell::Cell::new(0);
            let answer = |text: String| {
                calls.set(calls.get() + 1);
                match how {
                    _ if calls.get() != nth + 1 => Ok(text),
                    "panic" => panic!("the model died"),
                    "unavailable" => Err(ExtractorError::Unavailable("gone".into())),
                    _ => Err(ExtractorError::Refused("no".into())),
                }
            };
            let mut model = Model { max: 60, ..Model::honest() };
            model.daily = Box::new(|_| answer(String::new()));
            model.facts = Box::new(|evidence| answer(super::all_said(evidence)));
            let mut steps = 0;
            loop {
                let step = catch_unwind(AssertUnwindSafe(|| {
                    let mut by =
                        store.consolidation().unwrap().consolidator(Duration::ZERO).expect("it is free");
                    by.step(&at, &mut model, &Rules::default()).unwrap()
                }));
                if matches!(step, Ok(Step::UpToDate)) {
                    break;
                }
                steps += 1;
                assert!(steps < 10, "{how} at call {nth}");
            }
            assert_eq!(contents(&store), ["I live in Lyon.", "I own a boat.", "I play the cello."]);
            assert_eq!(dailies(&store).len(), 2, "{how} at call {nth}");
            expect_grounded(&store);
        }
    }
}
