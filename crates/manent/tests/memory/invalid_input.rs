//! Files and items as nobody would make them on purpose.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use manent::log::{Body, frame};
use manent::memory::{Filter, Kind, NewItem, Source, SourceKind};
use manent::{Error, Query};

use super::{fact, file, found, home, ids, open, with_file};

#[test]
fn a_kind_that_is_none_is_refused_by_name_and_so_is_an_empty_text() {
    let error = "opinion".parse::<Kind>().expect_err("no kind");
    assert_eq!(
        error.to_string(),
        "\"opinion\" is no kind of memory; there are fact, pref, context and daily"
    );
    let dir = home();
    let memory = open(dir.path());
    for bad in [
        fact(""),
        fact(" \t\n\u{a0}"),
        fact("x").tag("two\nlines"),
        fact("x").tag("\u{0}"),
        fact("x").tag(" "),
        fact("x").tag("y".repeat(101)),
        fact("x").from(Source::by(SourceKind::Other("somebody".into()))),
        fact("x").replacing(1),
    ] {
        let error = memory.add(&bad).expect_err("refused").to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
    }
    assert!(ids(&memory).is_empty());
    assert!(matches!(memory.forget(&[1]), Err(Error::NoItem { id: 1 })));
    assert_eq!(memory.add(&fact("x").tag("y".repeat(100))).unwrap().id, 1);
}

#[test]
fn ids_that_are_no_ids_hide_nothing_and_use_nothing_up() {
    let lines = [
        r#"{"id":1,"kind":"fact","content":"one"}"#,
        r#"{"id":9223372036854775808,"kind":"fact","content":"two to the 63"}"#,
        r#"{"id":18446744073709551615,"kind":"fact","content":"the last"}"#,
        r#"{"id":18446744073709551616,"kind":"fact","content":"beyond"}"#,
        r#"{"id":-1,"kind":"fact","content":"negative"}"#,
        r#"{"id":2.5,"kind":"fact","content":"fractional"}"#,
        r#"{"id":2e3,"kind":"fact","content":"with an exponent"}"#,
        r#"{"id":"3","kind":"fact","content":"a string"}"#,
        r#"{"id":null,"kind":"fact","content":"null"}"#,
        r#"{"id":[4],"kind":"fact","content":"a list"}"#,
        r#"{"kind":"fact","content":"none"}"#,
        r#"{"id":6,"content":"no kind"}"#,
        r#"{"id":7,"kind":5,"content":"a number for a kind"}"#,
        r#"{"id":8,"kind":"forget","target":"1"}"#,
        r#"{"id":9,"kind":"forget","target":1.0}"#,
        r#"{"id":10,"kind":"forget"}"#,
        r#"{"id":0,"kind":"fact","content":"zero"}"#,
    ];
    let (_dir, memory) = with_file(lines.join("\n") + "\n");
    let mut listed = ids(&memory);
    listed.sort_unstable();
    assert_eq!(listed, [0, 1, 1 << 63, u64::MAX]);
    assert_eq!(memory.add(&fact("next")).unwrap().id, 11);
    memory.forget(&[1 << 63, 0]).unwrap();
    assert_eq!(memory.compact().unwrap().dropped, 2);
    let text = file(&memory);
    assert!(
        lines.iter().filter(|line| !line.contains("63") && !line.contains("zero")).all(|l| text.contains(l))
    );
    listed = ids(&memory);
    listed.sort_unstable();
    assert_eq!(listed, [1, 11, u64::MAX]);
    memory.forget(&[u64::MAX]).unwrap();
    assert_eq!(memory.add(&fact("and on")).unwrap().id, 15);
}

#[test]
fn when_all_numbers_are_used_up_that_is_said_and_nothing_is_written() {
    let last = (1_u64 << 53) - 1;
    let (_dir, memory) = with_file(format!("{{\"id\":{last},\"kind\":\"fact\",\"content\":\"the last\"}}\n"));
    let before = file(&memory);
    for error in [memory.add(&fact("x")).expect_err("full"), memory.forget(&[last]).expect_err("full")] {
        assert!(error.to_string().contains("has given out its last number"), "{error}");
    }
    assert_eq!(file(&memory), before);
}

#[test]
fn nul_bytes_half_pairs_and_deep_nests_in_another_programs_lines_harm_nothing() {
    let deep = 100_000;
    let nested = "[".repeat(deep) + &"]".repeat(deep);
    let object = "{\"a\":".repeat(deep) + "1" + &"}".repeat(deep);
    let text = format!(
        "{{\"id\":1,\"kind\":\"fact\",\"content\":\"plum one\"}}\n\
         {{\"id\":2,\"kind\":\"fact\",\"content\":\"plum nul \0 raw\"}}\n\
         {{\"id\":3,\"kind\":\"fact\",\"content\":\"plum nul \\u0000 escaped\"}}\n\
         {{\"id\":4,\"kind\":\"fact\",\"content\":\"plum half \\ud83d of a pair\"}}\n\
         {{\"id\":5,\"kind\":\"fact\",\"tags\":{nested},\"content\":\"plum tags\"}}\n\
         {{\"id\":6,\"kind\":\"fact\",\"source\":{object},\"content\":\"plum source\"}}\n\
         {{\"id\":7,\"kind\":\"fact\",\"content\":{object}}}\n\
         {{\"id\":8,\"kind\":\"fact\",\"tags\":[\"two\\nlines\",7,\"\"],\"content\":\"plum tagged\"}}\n\
         {{\"id\":9,\"kind\":\"fact\",\"tags\":\"alone\",\"source\":\"user\",\"content\":\"plum last\"}}\n"
    );
    let (_dir, memory) = with_file(text);
    assert_eq!(ids(&memory), [9, 8, 7, 6, 5, 4, 3, 1]);
    assert_eq!(memory.damage().unwrap().len(), 1, "the raw NUL is named");
    assert_eq!(memory.get(8).unwrap()[0].tags, ["two\nlines", ""]);
    let last = memory.get(9).unwrap().remove(0);
    assert_eq!((last.tags, last.source.who), (vec!["alone".to_owned()], SourceKind::User));
    let plums = found(&memory, "plum");
    assert!(plums.contains(&5) && plums.contains(&6) && plums.contains(&3), "{plums:?}");
    assert_eq!(memory.select("plum", 10_000_000).unwrap().ids.len(), 8);
    memory.history(6).unwrap();
    memory.audit().unwrap();
    memory.forget(&[1]).unwrap();
    let damaged = memory.compact().unwrap().damaged.expect("the raw NUL is set aside");
    assert!(String::from_utf8_lossy(&std::fs::read(damaged).unwrap()).contains("plum nul \0 raw"));
    assert_eq!(ids(&memory), [9, 8, 7, 6, 5, 4, 3]);
    assert!(memory.damage().unwrap().is_empty());
}

#[test]
fn a_line_that_another_program_has_not_finished_is_not_lost_by_compacting() {
    let half = r#"{"id":3,"kind":"fact","content":"half a li"#;
    let lines =
        "{\"id\":1,\"kind\":\"fact\",\"content\":\"a\"}\n{\"id\":2,\"kind\":\"forget\",\"target\":1}\n";
    let (_dir, memory) = with_file(format!("{lines}{half}"));
    let damaged = memory.compact().unwrap().damaged.expect("set aside");
    assert_eq!(std::fs::read_to_string(damaged).unwrap(), half);
    assert!(memory.add(&fact("x")).unwrap().id > 3);
}

#[test]
fn a_clock_that_jumps_back_changes_the_order_and_nothing_else() {
    let mut lines = Vec::new();
    let times = ["2030-01-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z"];
    for (ts, id) in times.iter().zip(1..) {
        let mut body = Body::new();
        body.string("ts", ts).string("kind", "fact").number("id", id);
        body.string("content", &format!("cherry {id}"));
        lines.extend(frame::line(id, &body));
    }
    let (dir, memory) = with_file(lines);
    assert_eq!(ids(&memory), [1, 3, 2]);
    let added = memory.add(&fact("cherry now")).unwrap();
    assert_eq!(added.id, 4);
    assert_eq!(ids(&open(dir.path())), [1, 4, 3, 2]);
    assert_eq!(found(&memory, "cherry"), [1, 2, 3, 4]);
    memory.forget(&[1]).unwrap();
    memory.compact().unwrap();
    assert_eq!(ids(&memory), [4, 3, 2]);
    assert!(added.ts.ends_with('Z') && added.ts.len() == 24, "UTC: {}", added.ts);
}

#[test]
fn sixty_megabytes_are_remembered_found_and_forgotten() {
    let dir = home();
    let memory = open(dir.path());
    let text = format!("{} mango {}", "word ".repeat(6_000_000), "word ".repeat(6_000_000));
    assert!(text.len() > 60_000_000);
    assert_eq!(memory.add(&fact(&text)).unwrap().content.len(), text.len());
    assert_eq!(found(&memory, "mango"), [1]);
    assert_eq!(memory.get(1).unwrap()[0].content, text);
    assert_eq!(memory.select("mango", 2000).unwrap().left_out, 1);
    let too_long = fact(&"x".repeat(70_000_000));
    assert!(memory.add(&too_long).is_err(), "more than a line can hold");
    assert_eq!(memory.add(&fact("small")).unwrap().id, 2);
    memory.forget(&[1]).unwrap();
    let compacted = memory.compact().unwrap();
    assert!(compacted.bytes_before > 60_000_000 && compacted.bytes_after < 1000, "{compacted:?}");
    assert_eq!(ids(&memory), [2]);
}

#[test]
fn an_empty_file_is_an_empty_memory() {
    for bytes in ["", "\n", " \r\n\n"] {
        let (_dir, memory) = with_file(bytes);
        assert!(ids(&memory).is_empty(), "{bytes:?}");
        assert!(found(&memory, "x").is_empty());
        assert_eq!(memory.compact().unwrap().dropped, 0);
        assert_eq!(memory.add(&fact("x")).unwrap().id, 1, "{bytes:?}");
        assert_eq!(ids(&memory), [1]);
    }
}

#[test]
fn what_is_no_memory_is_refused_and_left_alone() {
    for junk in
        [&b"\x00\x01\x02\xff\xfe junk"[..], b"SQLite format 3\0", b"\x1f\x8b\x08\0\0\0", b"not json at all\n"]
    {
        let (_dir, memory) = with_file(junk);
        let _ = memory.items(&Filter::default());
        let _ = memory.search(&Query::parse("x", 0).unwrap(), 3);
        assert!(memory.add(&fact("x")).is_err(), "{junk:?} was written to");
        assert_eq!(std::fs::read(memory.path()).unwrap(), junk, "it is what it was");
        assert!(memory.compact().is_err() || std::fs::read(memory.path()).unwrap() == junk);
    }
}

#[test]
fn links_directories_and_pipes_in_its_place_are_refused_at_once() {
    let target = home();
    let precious = target.path().join("precious");
    std::fs::write(&precious, "{\"id\":1,\"kind\":\"fact\",\"content\":\"not ours\"}\n").unwrap();
    let before = std::fs::read(&precious).unwrap();
    for shape in ["link", "dangling", "directory", "pipe"] {
        let dir = home();
        let memory = open(dir.path());
        match shape {
            "link" => std::os::unix::fs::symlink(&precious, memory.path()).unwrap(),
            "dangling" => std::os::unix::fs::symlink(target.path().join("nothing"), memory.path()).unwrap(),
            "directory" => std::fs::create_dir(memory.path()).unwrap(),
            _ => assert!(std::process::Command::new("mkfifo").arg(memory.path()).status().unwrap().success()),
        }
        assert!(memory.items(&Filter::default()).is_err(), "{shape} was read");
        assert!(memory.search(&Query::parse("x", 0).unwrap(), 3).is_err(), "{shape} was searched");
        assert!(memory.add(&fact("x")).is_err() && memory.forget(&[1]).is_err(), "{shape} was written");
        assert!(memory.compact().is_err() && memory.select("x", 1000).is_err(), "{shape} was used");
        assert!(!target.path().join("nothing").exists(), "something was made behind a link");
    }
    assert_eq!(std::fs::read(&precious).unwrap(), before);
}

#[test]
fn a_file_that_may_only_be_read_is_read() {
    let dir = home();
    let memory = open(dir.path());
    memory.add(&fact("papaya")).unwrap();
    std::fs::set_permissions(memory.path(), std::fs::Permissions::from_mode(0o400)).unwrap();
    let other = open(dir.path());
    assert_eq!(ids(&other), [1]);
    assert_eq!(found(&other, "papaya"), [1]);
    match other.writer(Duration::ZERO) {
        // Nothing stops root.
        Ok(hold) => drop(hold),
        Err(e) => assert!(e.to_string().contains("memory.jsonl"), "{e}"),
    }
    assert_eq!(ids(&other), [1]);
}

#[test]
fn filters_choose_by_kind_tag_who_session_and_time() {
    let dir = home();
    let memory = open(dir.path());
    let model = Source { session: Some("work".into()), ..Source::by(SourceKind::Model) };
    let first = memory.add(&fact("a").tag("x").tag("y")).unwrap();
    memory.add(&NewItem::new(Kind::Pref, "b").tag("x").from(model)).unwrap();
    memory.add(&NewItem::new(Kind::Daily, "c").from(Source::by(SourceKind::Import))).unwrap();
    let chosen = |filter: Filter| -> Vec<u64> {
        let mut ids: Vec<u64> = memory.items(&filter).unwrap().iter().map(|item| item.id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(chosen(Filter { kinds: vec![Kind::Pref, Kind::Daily], ..Filter::default() }), [2, 3]);
    assert_eq!(chosen(Filter { tags: vec!["x".into()], ..Filter::default() }), [1, 2]);
    assert_eq!(chosen(Filter { tags: vec!["x".into(), "y".into()], ..Filter::default() }), [1]);
    assert_eq!(
        chosen(Filter { who: vec![SourceKind::Model, SourceKind::Import], ..Filter::default() }),
        [2, 3]
    );
    assert_eq!(chosen(Filter { session: Some("work".into()), ..Filter::default() }), [2]);
    assert_eq!(chosen(Filter { until_ms: Some(first.at_ms), ..Filter::default() }), Vec::<u64>::new());
    assert_eq!(chosen(Filter { since_ms: Some(first.at_ms), ..Filter::default() }), [1, 2, 3]);
}
