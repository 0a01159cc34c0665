//! Files of other programs: they open as they are, and those programs can go on with what we made of them.

use manent::Error;
use manent::memory::{Filter, Kind, SourceKind};

use super::{fact, file, files_with, found, ids, open, with_file};

const THEIRS: &str = r#"{"meta":{"version":1,"app":"another"}}
{"id":1,"kind":"fact","content":"the cat is called Minka","tags":["home"],"ts":"2026-01-01T10:00:00Z"}
{"id":2,"kind":"pref","content":"likes zebrastripes","tags":[]}
{"id":3,"kind":"context","content":"moving to Lyon"}
{"id":4,"kind":"daily","content":"rain"}
{"id":5,"kind":"forget","target":2}
"#;

/// Reads the file as another program does: every line that is JSON, the id of each, and the forgotten ids.
fn as_they_read(text: &str) -> (Vec<u64>, u64) {
    let (mut items, mut highest) = (Vec::new(), 0);
    for line in text.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("every line is JSON");
        let Some(id) = value["id"].as_u64() else { continue };
        highest = highest.max(id);
        match value["kind"].as_str() {
            Some("forget") => {
                let target = value["target"].as_u64().expect("a tombstone has a target");
                items.retain(|id| *id != target);
            }
            Some("fact" | "pref" | "context" | "daily") => {
                assert!(value["content"].is_string(), "{line}");
                items.push(id);
            }
            _ => {}
        }
    }
    (items, highest + 1)
}

#[test]
fn another_programs_memory_opens_as_it_is_and_is_read_by_it_afterwards() {
    let (dir, memory) = with_file(THEIRS);
    assert_eq!(ids(&memory), [4, 3, 1], "one time for all, so by id");
    assert_eq!(file(&memory), THEIRS, "reading writes nothing");
    let items = memory.items(&Filter { tags: vec!["home".into()], ..Filter::default() }).unwrap();
    assert_eq!(
        (items.len(), items[0].kind, &items[0].source.who),
        (1, Kind::Fact, &SourceKind::Other(String::new()))
    );
    assert_eq!(memory.add(&fact("the dog is called Rex")).unwrap().id, 6);
    memory.forget(&[3]).unwrap();
    let text = file(&memory);
    assert!(text.starts_with(THEIRS), "their lines stay what they are");
    assert_eq!(as_they_read(&text), (vec![1, 4, 6], 8));
    let compacted = memory.compact().unwrap();
    assert_eq!(compacted.dropped, 2);
    let text = file(&memory);
    assert_eq!(as_they_read(&text), (vec![1, 4, 6], 8), "{text}");
    assert!(text.starts_with(THEIRS.lines().next().unwrap()) && !text.contains("\"crc\""), "{text}");
    assert_eq!(files_with(dir.path(), "zebrastripes"), Vec::<String>::new());
    // They go on with the number that they compute, and so do we.
    std::fs::write(memory.path(), text + "{\"id\":8,\"kind\":\"fact\",\"content\":\"theirs again\"}\n")
        .unwrap();
    assert_eq!(memory.add(&fact("ours again")).unwrap().id, 9);
    let mut all = ids(&memory);
    all.sort_unstable();
    assert_eq!(all, [1, 4, 6, 8, 9]);
    assert!(memory.damage().unwrap().is_empty());
}

#[test]
fn a_number_is_not_given_again_after_the_highest_was_forgotten_and_compacted_away() {
    // Tombstones without an id, and an id that nobody could have counted to.
    for odd in ["", "{\"id\":9223372036854775808,\"kind\":\"fact\",\"content\":\"odd\"}\n"] {
        let text = format!(
            "{{\"meta\":{{}}}}\n{{\"id\":1,\"kind\":\"fact\",\"content\":\"a\"}}\n{odd}\
             {{\"id\":7,\"kind\":\"fact\",\"content\":\"b\"}}\n{{\"kind\":\"forget\",\"target\":7}}\n"
        );
        let (dir, memory) = with_file(text);
        assert_eq!(memory.compact().unwrap().dropped, 1);
        let (_, next) = as_they_read(&file(&memory));
        assert!(next >= 8, "{}", file(&memory));
        assert_eq!(open(dir.path()).add(&fact("c")).unwrap().id, 8, "{}", file(&memory));
    }
}

#[test]
fn a_program_that_appends_to_our_file_never_meets_our_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    memory.add(&fact("one")).unwrap();
    let theirs = |id: u64| {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().append(true).open(memory.path()).unwrap();
        writeln!(file, "{{\"id\":{id},\"kind\":\"fact\",\"content\":\"theirs {id}\"}}").unwrap();
    };
    theirs(50);
    assert_eq!(memory.add(&fact("two")).unwrap().id, 51);
    let mut hold = memory.writer(std::time::Duration::ZERO).unwrap();
    assert_eq!(hold.add(&fact("three")).unwrap().id, 52);
    // They know nothing of a lease.
    theirs(53);
    assert_eq!(hold.add(&fact("four")).unwrap().id, 54);
    hold.forget(&[53]).unwrap();
    theirs(56);
    hold.forget(&[1, 52]).unwrap();
    drop(hold);
    assert_eq!(open(dir.path()).add(&fact("five")).unwrap().id, 59);
    let mut all = ids(&memory);
    all.sort_unstable();
    assert_eq!(all, [50, 51, 54, 56, 59]);
    assert_eq!(memory.counts().unwrap().double_ids, 0);
    assert_eq!(memory.compact().unwrap().dropped, 3);
    all = ids(&memory);
    all.sort_unstable();
    assert_eq!(all, [50, 51, 54, 56, 59]);
    assert!(as_they_read(&file(&memory)).1 >= 60);
}

#[test]
fn a_line_that_can_be_no_record_of_ours_survives_compacting_our_file() {
    let dir = tempfile::tempdir().unwrap();
    let memory = open(dir.path());
    memory.add(&fact("one")).unwrap();
    memory.add(&fact("two")).unwrap();
    let odd = [
        r#"{"id":3,"kind":"fact","content":"half \ud800 a pair"}"#,
        r#"{"id":4,"kind":"fact","content":"twice","content":"the same name"}"#,
    ];
    let text = format!("{}{}\n{}\n", file(&memory), odd[0], odd[1]);
    std::fs::write(memory.path(), text).unwrap();
    memory.forget(&[1]).unwrap();
    let before = memory.items(&Filter::default()).unwrap();
    assert_eq!(memory.compact().unwrap().dropped, 1);
    let after = memory.items(&Filter::default()).unwrap();
    let told = |items: &[manent::memory::Item]| -> Vec<(u64, String)> {
        items.iter().map(|item| (item.id, item.content.clone())).collect()
    };
    assert_eq!(told(&before).len(), 3);
    assert_eq!(told(&before), told(&after));
    assert!(odd.iter().all(|line| file(&memory).contains(line)), "{}", file(&memory));
    assert!(memory.verify().unwrap().unwrap().is_sound());
    assert_eq!(memory.add(&fact("more")).unwrap().id, 6);
}

#[test]
fn tombstones_act_on_what_stands_before_them_and_on_nothing_else() {
    let (_dir, memory) = with_file(
        r#"{"id":9,"kind":"forget","target":3}
{"id":3,"kind":"fact","content":"came later"}
{"id":10,"kind":"forget","target":77}
{"id":4,"kind":"fact","content":"x"}
{"id":11,"kind":"forget","target":4}
{"id":12,"kind":"forget","target":4}
"#,
    );
    assert_eq!(ids(&memory), [3]);
    let counts = memory.counts().unwrap();
    assert_eq!((counts.active, counts.forgotten, counts.unknown), (1, 1, 0));
    let before = file(&memory);
    assert!(matches!(memory.forget(&[4]), Err(Error::NoItem { id: 4 })));
    assert!(matches!(memory.forget(&[3, 99]), Err(Error::NoItem { id: 99 })));
    assert_eq!(file(&memory), before, "nothing was written");
    memory.compact().unwrap();
    assert_eq!(ids(&memory), [3], "also in the new file");
    assert_eq!(memory.add(&fact("next")).unwrap().id, 13);
}

#[test]
fn ids_given_twice_are_listed_twice_and_forgotten_together() {
    let (_dir, memory) = with_file(
        r#"{"id":1,"kind":"fact","content":"apple one"}
{"id":1,"kind":"pref","content":"apple two"}
{"id":2,"kind":"fact","content":"apple three"}
{"id":2,"kind":"fact","content":"apple four"}
{"id":2,"kind":"fact","content":"apple five"}
"#,
    );
    assert_eq!(memory.counts().unwrap().double_ids, 2);
    assert_eq!(memory.get(1).unwrap().len(), 2);
    assert_eq!(found(&memory, "apple"), [1, 1, 2, 2, 2]);
    assert_eq!(memory.history(2).unwrap().len(), 3);
    memory.forget(&[2]).unwrap();
    assert_eq!(ids(&memory), [1, 1]);
    assert_eq!(found(&memory, "apple"), [1, 1]);
    let counts = memory.counts().unwrap();
    assert_eq!((counts.active, counts.forgotten, counts.double_ids), (2, 3, 1));
    // One that replaces an id hides all that have it.
    memory.add(&fact("pear").replacing(1)).unwrap();
    assert_eq!(memory.counts().unwrap().replaced, 2);
    assert_eq!(found(&memory, "apple"), Vec::<u64>::new());
    assert_eq!(memory.compact().unwrap().dropped, 3);
    assert_eq!(memory.counts().unwrap().replaced, 2);
    memory.forget(&[4]).unwrap();
    assert_eq!(ids(&memory), [1, 1]);
}

#[test]
fn kinds_of_a_newer_version_are_kept_with_their_tombstones_and_are_not_active() {
    let skill = r#"{"id":2,"kind":"skill","content":"juggling"}"#;
    let both = r#"{"id":3,"kind":"skill","content":"singing"}"#;
    let (_dir, memory) = with_file(format!(
        "{{\"id\":1,\"kind\":\"fact\",\"content\":\"x\"}}\n{skill}\n{both}\n\
         {{\"id\":3,\"kind\":\"fact\",\"content\":\"the same number\"}}\n\
         {{\"id\":4,\"kind\":\"forget\",\"target\":2}}\n\
         {{\"id\":5,\"kind\":\"forget\",\"target\":3}}\n{{\"id\":6,\"kind\":\"forget\",\"target\":1}}\n\
         {{\"id\":7,\"kind\":\"pref\",\"content\":\"y\"}}\n"
    ));
    assert_eq!(ids(&memory), [7]);
    assert_eq!(memory.counts().unwrap().unknown, 2);
    assert_eq!(found(&memory, "juggling"), Vec::<u64>::new());
    assert!(memory.select("juggling singing", 10_000).unwrap().ids == [7]);
    assert!(matches!(memory.forget(&[2]), Err(Error::NoItem { id: 2 })));
    assert_eq!(memory.compact().unwrap().dropped, 2);
    let text = file(&memory);
    assert!(text.contains(skill) && text.contains(both), "{text}");
    assert!(text.contains("\"target\":2}") && text.contains("\"target\":3}"), "{text}");
    assert!(!text.contains("\"target\":1}") && !text.contains("the same number"), "{text}");
    assert_eq!(memory.counts().unwrap().unknown, 2);
}

#[test]
fn times_are_compared_as_times() {
    let (_dir, memory) = with_file(
        r#"{"id":1,"kind":"fact","content":"a","ts":"2026-11-16T01:00:00+09:00"}
{"id":2,"kind":"fact","content":"b","ts":"2026-11-15T23:00:00Z"}
{"id":3,"kind":"fact","content":"c","ts":"2026-11-15T16:30:00.5Z"}
{"id":4,"kind":"fact","content":"d","ts":1794780000}
{"id":5,"kind":"fact","content":"e","ts":1794780000250}
{"id":6,"kind":"fact","content":"f","ts":1794780000.125}
{"id":7,"kind":"fact","content":"g"}
{"id":8,"kind":"fact","content":"h","ts":"2026-11-15T23:00:00.000Z"}
{"id":9,"kind":"fact","content":"i","ts":-9223372036854775808}
{"id":10,"kind":"fact","content":"j","ts":"-9223372036854775808"}
"#,
    );
    // 1794780000 is 2026-11-15T22:00:00Z; 7 does not say, and counts as the one before it.
    assert_eq!(ids(&memory), [8, 2, 5, 7, 6, 4, 3, 1, 10, 9]);
    let since = |since_ms, until_ms| {
        let filter = Filter { since_ms: Some(since_ms), until_ms: Some(until_ms), ..Filter::default() };
        memory.items(&filter).unwrap().iter().map(|item| item.id).collect::<Vec<_>>()
    };
    assert_eq!(since(1_794_780_000_000, 1_794_780_000_250), [7, 6, 4]);
}
