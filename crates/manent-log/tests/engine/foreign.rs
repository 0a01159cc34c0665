//! Other programs on the same file: what they write is folded in, what we write they can read.

use manent_log::frame::DamageReason;
use manent_log::{Durability, Error, Expect, FileKind, Log, LogEnd, Options};

use crate::support::{
    GrowingDisk, Moment, Rng, Scene, damages, drain, file_of, header_line, lines, native, plain_line, seqs,
    turn, turn_line,
};

/// Reads a file as other programs do: one object a line, those with `role` and `content` strings are messages,
/// anything else is passed over.
fn messages(file: &[u8]) -> Vec<(String, String)> {
    file.split(|b| *b == b'\n')
        .filter_map(|line| serde_json::from_slice::<serde_json::Value>(line).ok())
        .filter_map(|line| Some((line["role"].as_str()?.to_owned(), line["content"].as_str()?.to_owned())))
        .collect()
}

/// Another program appends between our appends, without asking: in its file and in ours.
#[test]
fn lines_that_another_program_appends_are_folded_in() {
    for (before, kind, mut next) in [
        (file_of(&[plain_line("one")]), FileKind::Foreign, 2),
        (native(2), FileKind::Native, 3),
        (file_of(&[plain_line("one"), turn_line(2, "two")]), FileKind::Adopted, 3),
    ] {
        let scene = Scene::with(&before);
        let mut expected: Vec<u8> = before.clone();
        let mut log = scene.open();
        assert_eq!(log.kind(), kind);
        let mut dice = Rng::new(7);
        for round in 0..40 {
            for _ in 0..dice.below(4) {
                let theirs = file_of(&[plain_line(&format!("theirs {round}"))]);
                scene.append_raw(&theirs);
                expected.extend(theirs);
                next += 1;
            }
            let text = format!("ours {round}");
            let receipt = log.append(&turn(&text), Durability::Flush, Expect::Seq(next)).unwrap();
            assert_eq!((receipt.seq, receipt.offset), (next, expected.len() as u64));
            expected.extend(file_of(&[turn_line(next, &text)]));
            next += 1;
        }
        drop(log);
        assert_eq!(scene.bytes(), expected, "no byte of anybody's was lost");
        let (got, end) = scene.read();
        let first = u64::from(kind != FileKind::Native);
        assert_eq!((seqs(&got), damages(&got), end), ((first..next).collect(), vec![], LogEnd::Clean));
        assert_eq!(scene.open().next_seq(), next, "the whole file is counted as it was while it grew");
    }
}

/// Whoever decided before the other program wrote is told so, and nothing is written.
#[test]
fn a_line_of_another_program_is_a_conflict_for_whoever_expected_its_number() {
    let scene = Scene::with(native(2));
    let mut log = scene.open();
    scene.append_raw(file_of(&[plain_line("theirs")]));
    let before = scene.bytes();
    let conflict = log.append(&turn("x"), Durability::Sync, Expect::Seq(3)).unwrap_err();
    assert!(matches!(conflict, Error::Conflict { next: 4, .. }), "{conflict}");
    assert_eq!(scene.bytes(), before);
}

/// The other program is in the middle of a line when we append: its bytes stay, ours begin on a line of their own.
#[test]
fn half_a_line_of_another_program_does_not_swallow_our_record() {
    for before in [native(2), file_of(&[plain_line("one"), plain_line("two")])] {
        let scene = Scene::with(&before);
        let mut log = scene.open();
        scene.append_raw(br#"{"role":"us"#);
        let receipt = log.append(&turn("ours"), Durability::Flush, Expect::Any).unwrap();
        assert_eq!(receipt.seq, 4, "the half line takes a number");
        // The rest of the line comes late: it is a line nobody can read, but ours is untouched.
        scene.append_raw(b"er\",\"content\":\"x\"}\n");
        assert_eq!(log.append(&turn("more"), Durability::Flush, Expect::Any).unwrap().seq, 6);
        drop(log);
        let (got, end) = scene.read();
        assert_eq!(lines(&got).last_chunk(), Some(&[&turn_line(4, "ours")[..], &turn_line(6, "more")]));
        assert_eq!((damages(&got).len(), end), (2, LogEnd::Clean));
        assert_eq!(scene.open().next_seq(), 7);
    }
}

/// The other program was in the middle of a line when we opened its file, and finished it before we appended.
#[test]
fn a_half_line_that_is_finished_after_we_opened_is_one_line() {
    for (before, next) in [
        (file_of(&[plain_line("one")]), 3),
        (file_of(&[plain_line("one"), turn_line(2, "two")]), 4),
        (Vec::new(), 2),
    ] {
        let line = plain_line("slowly");
        let scene = Scene::with([&before, &line[..12]].concat());
        let mut log = scene.open();
        scene.append_raw([&line[12..], b"\n"].concat());
        let receipt = log.append(&turn("ours"), Durability::Flush, Expect::Any).unwrap();
        assert_eq!(receipt.seq, next);
        let (got, end) = scene.read();
        assert_eq!((damages(&got), end), (vec![], LogEnd::Clean), "nothing is missing");
        assert_eq!(seqs(&got), (1..=next).collect::<Vec<_>>());
    }
}

/// The same while we hold the log: an append that did not happen (a conflict) saw the half line, the next sees it
/// whole.
#[test]
fn a_half_line_that_is_finished_between_two_appends_is_one_line() {
    for (before, first) in [(native(2), 0), (file_of(&[plain_line("one"), plain_line("two")]), 1)] {
        let scene = Scene::with(&before);
        let mut log = scene.open();
        let line = plain_line("slowly");
        scene.append_raw(&line[..12]);
        let conflict = log.append(&turn("x"), Durability::Flush, Expect::Seq(3)).unwrap_err();
        assert!(matches!(conflict, Error::Conflict { .. }), "{conflict}");
        scene.append_raw([&line[12..], b"\n"].concat());
        assert_eq!(log.append(&turn("ours"), Durability::Flush, Expect::Any).unwrap().seq, 4);
        let (got, end) = scene.read();
        assert_eq!((seqs(&got), damages(&got), end), ((first..=4).collect(), vec![], LogEnd::Clean));
    }
}

/// The other program appends in the moment between our last look and our write. Both lines are kept whole; that two
/// lines now claim one number is named; and from the next append on the numbers are right again.
#[test]
fn a_line_that_slips_in_before_our_write_costs_no_record_and_no_later_number() {
    let theirs = plain_line("theirs, of some length");
    for growth in [[&theirs[..], b"\n"].concat(), theirs[..20].to_vec()] {
        let scene = Scene::with(native(2));
        let disk = GrowingDisk::shared(&scene.path, Moment::BeforeAnAppend, growth.clone());
        let mut log = Log::open(&disk, &scene.path, &Options::default()).unwrap();
        for text in ["ours", "next", "last"] {
            log.append(&turn(text), Durability::Flush, Expect::Any).unwrap();
        }
        let (got, end) = scene.read();
        assert_eq!(end, LogEnd::Clean);
        let [.., ours, next, last] = lines(&got)[..] else { panic!("{got:?}") };
        assert!([(ours, "ours"), (next, "next"), (last, "last")].iter().all(|(line, text)| {
            serde_json::from_slice::<serde_json::Value>(line).unwrap()["content"] == *text
        }));
        let missing = damages(&got).into_iter().find(|d| d.reason == DamageReason::Missing);
        assert_eq!(missing, None, "no record is missing, so none may be reported");
    }
}

/// An unterminated but whole line at the end, to which the other program adds its newline and more after we opened.
#[test]
fn a_newline_that_another_program_adds_later_is_no_line() {
    let scene = Scene::with(plain_line("one"));
    let mut log = scene.open();
    scene.append_raw([b"\n", plain_line("two").as_slice(), b"\n"].concat());
    assert_eq!(log.append(&turn("ours"), Durability::Flush, Expect::Any).unwrap().seq, 3);
    let (got, _) = scene.read();
    assert_eq!((seqs(&got), damages(&got)), (vec![1, 2, 3], vec![]));
}

/// Another program reads the lines that we append to its file as its own; our header and marks do not disturb it.
#[test]
fn a_simple_reader_of_another_program_reads_all_turns() {
    let scene = Scene::with([plain_line("one"), b"\n".to_vec(), plain_line("two")].concat());
    scene.append("three");
    scene.append_raw(file_of(&[plain_line("four")]));
    scene.append("fi\nve \"5\"");
    let user = |text: &str| ("user".to_owned(), text.to_owned());
    assert_eq!(messages(&scene.bytes()), ["one", "two", "three", "four", "fi\nve \"5\""].map(user));

    let native = Scene::new();
    native.append("one");
    native.append_raw(file_of(&[plain_line("two")]));
    native.append("three");
    assert_eq!(messages(&native.bytes()), ["one", "two", "three"].map(user), "the header is no message");
}

/// A program that numbers its own lines with `seq`: its lines stay readable after we appended.
#[test]
fn another_programs_own_seq_members_stay_readable_after_we_append() {
    let theirs: Vec<Vec<u8>> = (1..=4)
        .map(|n| format!(r#"{{"role":"user","seq":{},"content":"{n}","crc":null}}"#, n * 10).into_bytes())
        .collect();
    let scene = Scene::with(file_of(&theirs));
    assert_eq!(scene.append("ours").seq, 5);
    let (got, end) = scene.read();
    assert_eq!((seqs(&got), damages(&got), end), (vec![1, 2, 3, 4, 5], vec![], LogEnd::Clean));
    assert_eq!(scene.open().kind(), FileKind::Adopted);
    scene.append_raw(file_of(&theirs));
    assert_eq!(scene.append("ours").seq, 10);
    assert_eq!((damages(&scene.read().0), scene.torn_copies()), (vec![], vec![]));
}

/// The same where `seq` is the first member: the lines begin as ours do, but are whole and were never ours.
#[test]
fn another_programs_lines_that_begin_with_seq_stay_readable_after_we_append() {
    let theirs: Vec<Vec<u8>> =
        (1..=4).map(|n| format!(r#"{{"seq":{n},"role":"user","content":"{n}"}}"#).into_bytes()).collect();
    let scene = Scene::with(file_of(&theirs));
    assert_eq!(seqs(&scene.read().0), [1, 2, 3, 4], "before");
    assert_eq!(scene.append("ours").seq, 5);
    let (got, _) = scene.read();
    assert_eq!(
        (seqs(&got), damages(&got)),
        (vec![1, 2, 3, 4, 5], vec![]),
        "our append made its lines unreadable"
    );
}

/// And what that program appends afterwards is not cut off as a torn record of ours.
#[test]
fn another_programs_lines_that_begin_with_seq_are_never_cut() {
    let line = |n: u64| format!(r#"{{"seq":{n},"role":"user","content":"{n}"}}"#).into_bytes();
    let scene = Scene::with(file_of(&[line(1), line(2)]));
    scene.append("ours");
    scene.append_raw(file_of(&[line(4)]));
    let before = scene.bytes();
    drop(scene.open());
    assert_eq!(scene.bytes().len(), before.len(), "a whole line of another program's was cut off its file");
    assert_eq!(scene.torn_copies(), []);
}

/// A reader that follows another program's file sees us join it.
#[test]
fn a_follower_sees_us_join_another_programs_file() {
    let scene = Scene::with(file_of(&[plain_line("one")]));
    let mut reader = scene.reader();
    assert_eq!(seqs(&drain(&mut reader)), [1]);
    assert_eq!(reader.kind(), Some(FileKind::Foreign));
    scene.append("two");
    scene.append_raw(file_of(&[plain_line("three")]));
    let got = drain(&mut reader);
    assert_eq!((seqs(&got), damages(&got)), (vec![2, 3], vec![]));
    assert_eq!(reader.kind(), Some(FileKind::Adopted));
}

/// A header is ours to write only into a file that nobody began.
#[test]
fn no_header_is_ever_added_to_a_file_with_lines() {
    for before in [file_of(&[plain_line("one")]), b"{}\n".to_vec(), b"{\"meta\":{}}".to_vec()] {
        let scene = Scene::with(&before);
        scene.append("ours");
        let header = header_line();
        assert!(!scene.bytes().windows(header.len()).any(|w| w == header));
        assert!(scene.bytes().starts_with(&before));
    }
}
