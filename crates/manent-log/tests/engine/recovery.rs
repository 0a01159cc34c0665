//! What opening a log does to what a crash left: one test a case of `docs/RECOVERY.md`.
//!
//! The rule behind all of them: no line that can be read is ever cut, no byte is cut before a copy of it is safe, and
//! the next record gets the next number.

use std::path::Path;

use manent_log::frame::DamageReason;
use manent_log::{Damage, Durability, Error, Expect, FileKind, Log, LogEnd, Options, RealDisk, TailState};

use crate::reading::{Owner, random_file};
use crate::support::{
    Rng, Scene, at_once, damages, drain, file_of, header_line, lines, mode_of, native, native_lines,
    plain_line, record, seqs, turn, turn_line,
};

/// A crash left `good` and then `torn`. Opening must cut exactly `torn`, keep a copy, and go on with `next`.
fn assert_cut(good: &[u8], torn: &[u8], next: u64) {
    let scene = Scene::with([good, torn].concat());
    let case = format!("{} torn bytes behind {}", torn.len(), good.len());
    let before = scene.verify();
    assert!(matches!(before.tail, TailState::Torn(t) if t.offset == good.len() as u64), "{case}: {before:?}");

    let mut log = scene.open();
    let aside = log.set_aside().unwrap_or_else(|| panic!("{case}: nothing was set aside")).clone();
    assert_eq!((aside.offset, aside.length), (good.len() as u64, torn.len() as u64), "{case}");
    assert_eq!(aside.copy.file_name().unwrap(), &*format!("chat.jsonl.torn-{}-0", good.len()), "{case}");
    assert_eq!(std::fs::read(&aside.copy).unwrap(), torn, "{case}: the copy is what was cut");
    assert_eq!(mode_of(&aside.copy), 0o600, "{case}: a torn turn is as private as a whole one");
    assert_eq!(scene.bytes(), good, "{case}: only the torn end is cut");
    assert_eq!(log.next_seq(), next, "{case}");

    let receipt = log.append(&turn("next"), Durability::Flush, Expect::Seq(next)).unwrap();
    drop(log);
    let mut expected = good.to_vec();
    if !good.is_empty() && !good.ends_with(b"\n") {
        expected.push(b'\n');
    }
    if good.is_empty() {
        expected.extend(file_of(&[header_line()]));
    }
    assert_eq!(receipt.offset, expected.len() as u64, "{case}");
    expected.extend(file_of(&[turn_line(next, "next")]));
    assert_eq!(scene.bytes(), expected, "{case}");
    assert_eq!(scene.torn_copies().len(), 1, "{case}");
}

/// Opening must change nothing and the next record must come behind everything, with the number `next`.
fn assert_kept(before: &[u8], kind: FileKind, next: u64) -> Scene {
    let scene = Scene::with(before);
    let mut log = scene.open();
    assert_eq!(log.set_aside(), None);
    assert_eq!(log.kind(), kind);
    assert_eq!(scene.bytes(), before, "opening changes no byte");
    log.append(&turn("next"), Durability::Flush, Expect::Seq(next)).unwrap();
    let newline: &[u8] = if before.ends_with(b"\n") { b"" } else { b"\n" };
    assert_eq!(scene.bytes(), [before, newline, &turn_line(next, "next"), b"\n"].concat());
    assert_eq!(scene.torn_copies(), []);
    scene
}

/// Damage that is not in the bytes of a line, but in how the lines are numbered.
fn in_the_numbers(damage: &Damage) -> bool {
    matches!(damage.reason, DamageReason::Missing | DamageReason::OutOfOrder | DamageReason::NoHeader)
}

/// R1. The process died between creating the file and its first write.
#[test]
fn r1_an_empty_file_becomes_a_log_with_header_and_first_record() {
    let scene = Scene::with(b"");
    let (got, end) = scene.read();
    assert_eq!((got, end), (vec![], LogEnd::Clean), "a reader finds nothing and nothing wrong");
    assert!(scene.verify().is_sound());
    let without_header = Log::open(&RealDisk::shared(), &scene.path, &Options::default());
    assert!(
        matches!(without_header, Err(Error::NotFound { .. })),
        "without a header it is as good as missing"
    );

    assert_eq!(scene.append("first").seq, 1);
    assert_eq!(scene.bytes(), file_of(&[header_line(), turn_line(1, "first")]));
    assert_eq!(scene.torn_copies(), []);
}

/// R2. The very first write was torn inside the header, at any byte.
#[test]
fn r2_a_torn_header_is_set_aside_and_written_again() {
    let header = header_line();
    at_once(&(1..header.len()).collect::<Vec<_>>(), |cut| assert_cut(b"", &header[..*cut], 1));
}

/// R2. Power went between the growth of the new file and its data: nothing but NULs, or NULs behind the first bytes.
#[test]
fn r2_a_new_file_of_nothing_but_nuls_is_set_aside_and_begun_again() {
    at_once(&[1, 17, 512, 4096, 8192, 300_000], |len| assert_cut(b"", &vec![0; *len], 1));
    let header = header_line();
    // The first page was lost, the second one arrived.
    assert_cut(b"", &[&[0; 4096], &header[30..], b"\n", &turn_line(1, "x"), b"\n"].concat()[..4200], 1);
    at_once(&[9, 40, header.len() - 1], |cut| assert_cut(b"", &[&header[..*cut], &[0; 4096]].concat(), 1));
}

/// R2. The same, where fewer bytes of the header arrived than tell it from any other object.
#[test]
fn r2_the_first_bytes_of_a_header_and_then_nuls_are_set_aside() {
    let header = header_line();
    at_once(&[1, 2, 7, 8], |cut| assert_cut(b"", &[&header[..*cut], &[0; 4096]].concat(), 1));
}

/// R3. Nothing happened.
#[test]
fn r3_a_clean_end_is_left_as_it_is() {
    for count in [0, 1, 2, 9] {
        assert_kept(&native(count), FileKind::Native, count + 1);
    }
}

/// R4. The crash (or an editor) took only the newline of the last record.
#[test]
fn r4_a_last_record_without_newline_is_kept_and_gets_it_with_the_next() {
    for count in [0, 1, 5] {
        let mut before = native(count);
        before.pop();
        let scene = assert_kept(&before, FileKind::Native, count + 1);
        assert!(scene.verify().is_sound());
        assert_eq!(seqs(&scene.read().0), (0..=count + 1).collect::<Vec<_>>());
    }
}

/// R5. The write of a record was torn, at any byte of it.
#[test]
fn r5_half_a_record_at_the_end_is_set_aside_and_its_number_used_again() {
    let (good, last) = (native(3), turn_line(4, "the last words, cut off"));
    at_once(&(1..last.len()).collect::<Vec<_>>(), |cut| assert_cut(&good, &last[..*cut], 4));
}

/// R5. The first record under a header that arrived whole was torn; also in a fork, whose numbers begin later.
#[test]
fn r5_half_a_first_record_leaves_the_header() {
    let first = turn_line(1, "first");
    assert_cut(&native(0), &first[..20], 1);
    let fork = file_of(&[record(0, r#""meta":{"format":1,"parent":{"id":"p","upto":41}}"#)]);
    assert_cut(&fork, &turn_line(42, "first")[..30], 42);
}

/// R6 (fault 6). Power went between the growth of the file and its data: NULs behind the last record.
#[test]
fn r6_a_tail_of_nuls_is_set_aside() {
    let good = native(3);
    let record_bytes = turn_line(4, "turn 4").len() + 1;
    let sizes = [1, 2, 7, 8, 511, 512, 4095, 4096, 8192, record_bytes, record_bytes * 3, record_bytes * 64];
    at_once(&sizes, |len| assert_cut(&good, &vec![0; *len], 4));
    // The newline of the last record lay in the lost page too, or a page came whole behind a lost one.
    let mut unterminated = good.clone();
    unterminated.pop();
    assert_cut(&unterminated, &[0; 100], 4);
    let last = turn_line(4, "turn 4");
    assert_cut(&good, &[&[0; 40], &last[40..], b"\n"].concat(), 4);
    assert_cut(&good, &[&last[..40], &[0; 4096]].concat(), 4);
}

/// R7. Whole lines that are no records, at the end: an old program's debris, a torn batch with newlines in it.
#[test]
fn r7_lines_of_garbage_at_the_end_are_set_aside_together() {
    let good = native(3);
    let mut hurt = turn_line(4, "turn 4");
    hurt[30] ^= 1;
    for torn in [
        b"garbage\n".to_vec(),
        b"garbage\nmore\n\nof it".to_vec(),
        b"[1,2]\n".to_vec(),
        b"\xff\xfe\n".to_vec(),
        b"{\"seq\":4,\"role\":\"user\"}\n".to_vec(),
        file_of(&[hurt.clone(), hurt]),
    ] {
        assert_cut(&good, &torn, 4);
    }
}

/// R8 (faults 7, 8). Damage with whole records behind it is a gap: it stays, is named, and hides nothing.
#[test]
fn r8_damage_in_the_middle_is_left_in_place_and_hides_no_record() {
    let all = native_lines(6);
    let half = &all[3][..25];
    for (middle, reason) in [
        (vec![0; 4096], DamageReason::Nul),
        (b"garbage".to_vec(), DamageReason::NotJson),
        (half.to_vec(), DamageReason::NotJson),
        (b"\xff\xff".to_vec(), DamageReason::NotUtf8),
        ([half, b"\n", &[0; 10]].concat(), DamageReason::NotJson),
    ] {
        let before = [file_of(&all[..3]), middle.clone(), b"\n".to_vec(), file_of(&all[4..])].concat();
        let scene = assert_kept(&before, FileKind::Native, 7);
        let (got, end) = scene.read();
        assert_eq!((seqs(&got), end), (vec![0, 1, 2, 4, 5, 6, 7], LogEnd::Clean), "{reason}");
        let [gap] = damages(&got)[..] else { panic!("{reason}: one gap, not {got:?}") };
        assert_eq!((gap.offset, gap.length), (file_of(&all[..3]).len() as u64, middle.len() as u64 + 1));
        assert_eq!((gap.reason, gap.seq), (reason, 3));
        assert!(!scene.verify().is_sound());
    }
}

/// R9 (fault 9). A torn record to which a writer that did not look glued a whole one.
#[test]
fn r9_a_whole_record_glued_to_half_a_one_is_kept() {
    let (good, torn, whole) = (native(3), turn_line(4, "lost"), turn_line(5, "kept"));
    for cut in 1..torn.len() {
        let before = [&good, &torn[..cut], &whole, b"\n"].concat();
        let scene = Scene::with(&before);
        let log = scene.open();
        assert_eq!((log.next_seq(), log.set_aside()), (6, None), "cut at {cut}");
        assert_eq!(scene.bytes(), before, "cut at {cut}");
        let (got, end) = scene.read();
        assert_eq!((seqs(&got), end), (vec![0, 1, 2, 3, 5], LogEnd::Clean), "cut at {cut}");
        let [gap] = damages(&got)[..] else { panic!("cut at {cut}: {got:?}") };
        assert_eq!((gap.offset, gap.length), (good.len() as u64, cut as u64));
    }
    assert_kept(&[&good, &torn[..50], &whole, b"\n"].concat(), FileKind::Native, 6);
}

/// R9. The same in another program's file, where the glued record is the only one of ours.
#[test]
fn r9_a_record_glued_to_another_programs_fragment_keeps_its_number_to_itself() {
    let glued = [br#"{"role":"user","con"#.as_slice(), &turn_line(3, "ours")].concat();
    let behind = [&turn_line(2, "ours")[..], &plain_line("three")].concat();
    for (line, before) in [(glued, vec![1, 3, 4]), (behind, vec![1, 2, 3, 4])] {
        let scene = Scene::with(file_of(&[plain_line("one"), line, plain_line("four")]));
        assert_eq!(seqs(&scene.read().0), before);
        assert_eq!(scene.append("five").seq, 5, "a number that was given is never given again");
        assert_eq!(seqs(&scene.read().0), [before, vec![5]].concat());
    }
}

/// R10 (fault 10). Two or three records without a newline between them.
#[test]
fn r10_records_without_newlines_between_them_are_all_kept() {
    let [a, b, c] = [turn_line(4, "a"), turn_line(5, "b"), turn_line(6, "c")];
    let scene = assert_kept(&[native(3), a.clone(), b.clone(), b"\n".to_vec()].concat(), FileKind::Native, 6);
    assert!(scene.verify().is_sound(), "nothing is lost, so nothing is reported");
    let scene = assert_kept(&[native(3), a, b, c].concat(), FileKind::Native, 7);
    assert!(scene.verify().is_sound());
    assert_eq!(seqs(&scene.read().0), (0..=7).collect::<Vec<_>>());
    // The header too may have lost its newline.
    assert_kept(&[header_line(), turn_line(1, "x")].concat(), FileKind::Native, 2);
}

/// R11. A record whose newline was lost and overwritten: junk behind it on the same line.
#[test]
fn r11_junk_behind_a_record_on_its_line_is_cut_without_the_record() {
    let mut good = native(3);
    good.pop();
    for junk in [b"x".to_vec(), b"\0\0\0\0".to_vec(), b"}\n".to_vec(), turn_line(4, "half")[..33].to_vec()] {
        assert_cut(&good, &junk, 4);
    }
}

/// R12. Another program's file whose last line has no newline.
#[test]
fn r12_another_programs_last_line_gets_its_newline_and_the_file_no_header() {
    let before = [file_of(&[plain_line("one")]), plain_line("two")].concat();
    let scene = assert_kept(&before, FileKind::Foreign, 3);
    let (got, end) = scene.read();
    assert_eq!((seqs(&got), damages(&got), end), (vec![1, 2, 3], vec![], LogEnd::Clean));
    assert_eq!(scene.open().kind(), FileKind::Adopted);
    assert!(scene.verify().is_sound());
}

/// R13. Another program's file that ends in half a line: it may be writing it now. Never cut; it takes a number.
#[test]
fn r13_another_programs_torn_line_is_kept_and_takes_a_number() {
    let line = plain_line("two");
    for cut in 2..line.len() {
        let before = [file_of(&[plain_line("one")]), line[..cut].to_vec()].concat();
        let scene = assert_kept(&before, FileKind::Foreign, 3);
        let (got, end) = scene.read();
        assert_eq!((seqs(&got), end), (vec![1, 3], LogEnd::Clean), "cut at {cut}");
        let [gap] = damages(&got)[..] else { panic!("cut at {cut}: {got:?}") };
        assert_eq!((gap.seq, gap.lines), (2, 1), "cut at {cut}");
    }
    // Nothing else in the file.
    assert_kept(&line[..12], FileKind::Foreign, 2);
}

/// R14. We died while appending to another program's file: what begins as our records do is ours to cut.
#[test]
fn r14_our_torn_record_in_another_programs_file_is_set_aside() {
    let good = file_of(&[plain_line("one"), turn_line(2, "two"), plain_line("three")]);
    let torn = turn_line(4, "four");
    let ours = br#"{"seq":"#.len();
    at_once(&(ours..torn.len()).collect::<Vec<_>>(), |cut| assert_cut(&good, &torn[..*cut], 4));
    // Fewer bytes could as well be the other program's: they stay, as in R15.
    for cut in 1..ours {
        assert_kept(&[&good, &torn[..cut]].concat(), FileKind::Adopted, 5);
    }
}

/// R15. The other program died, or is writing now, in a file that we have appended to.
#[test]
fn r15_the_other_programs_torn_line_is_kept_in_an_adopted_file() {
    let good = file_of(&[plain_line("one"), turn_line(2, "two")]);
    for fragment in [&br#"{"role":"assist"#[..], b"\0\0\0\0\0\0\0\0", b"garbage\n", b"{"] {
        let scene = assert_kept(&[&good, fragment].concat(), FileKind::Adopted, 4);
        assert_eq!(seqs(&scene.read().0), [1, 2, 4]);
    }
}

/// R16. An earlier recovery died while it copied the torn bytes: its half a copy is not trusted, and not touched.
#[test]
fn r16_half_a_copy_of_an_interrupted_recovery_is_left_and_a_whole_one_made() {
    let (good, torn) = (native(3), &turn_line(4, "torn")[..40]);
    for half in [&torn[..0], &torn[..17], &[0; 40], &[torn, b"more"].concat()] {
        let scene = Scene::with([&good, torn].concat());
        let first = scene.dir().join(format!("chat.jsonl.torn-{}-0", good.len()));
        std::fs::write(&first, half).unwrap();
        let aside = scene.open().set_aside().unwrap().clone();
        assert_eq!(aside.copy.file_name().unwrap(), &*format!("chat.jsonl.torn-{}-1", good.len()));
        assert_eq!(std::fs::read(&aside.copy).unwrap(), torn);
        assert_eq!(std::fs::read(&first).unwrap(), half);
        assert_eq!(scene.bytes(), good);
    }
}

/// R17. An earlier recovery died between the copy and the cut. Its copy looks whole, but if its sync failed it may be
/// in the cache alone, and a second sync would not tell: so a new one is made. The simulator found that.
#[test]
fn r17_a_whole_copy_of_an_interrupted_recovery_is_not_trusted() {
    let (good, torn) = (native(3), &turn_line(4, "torn")[..40]);
    let scene = Scene::with([&good, torn].concat());
    let copy = scene.open().set_aside().unwrap().copy.clone();
    scene.append_raw(torn);
    let again = scene.open().set_aside().unwrap().copy.clone();
    assert_ne!(again, copy);
    assert_eq!(
        (std::fs::read(&copy).unwrap(), std::fs::read(&again).unwrap()),
        (torn.to_vec(), torn.to_vec())
    );
    assert_eq!(scene.bytes(), good);
    assert_eq!(scene.open().set_aside(), None, "the third time there is nothing to do");
}

/// R17. A trap in the copy's place: a symbolic link is neither followed nor overwritten.
#[test]
fn r17_a_link_planted_where_the_copy_goes_is_not_followed() {
    let (good, torn) = (native(3), &turn_line(4, "torn")[..40]);
    let scene = Scene::with([&good, torn].concat());
    let victim = scene.dir().join("victim");
    std::fs::write(&victim, torn).unwrap();
    let trap = scene.dir().join(format!("chat.jsonl.torn-{}-0", good.len()));
    std::os::unix::fs::symlink(&victim, &trap).unwrap();
    let copy = scene.open().set_aside().unwrap().copy.clone();
    assert_eq!(copy.file_name().unwrap(), &*format!("chat.jsonl.torn-{}-1", good.len()));
    assert!(trap.is_symlink());
    assert_eq!(std::fs::read(&victim).unwrap(), torn);
}

/// R18 (fault 42). The tail is longer than any record may be: a hole, and 70 MiB of text.
#[test]
fn r18_a_tail_over_the_record_limit_is_set_aside_too() {
    let good = native(3);
    let tail_bytes = 70 << 20;
    for fill in [0, b'a'] {
        let scene = Scene::with(&good);
        if fill == 0 {
            scene.set_len(good.len() as u64 + tail_bytes);
        } else {
            scene.append_raw(vec![fill; tail_bytes as usize]);
        }
        let (got, end) = scene.read();
        assert_eq!(seqs(&got), [0, 1, 2, 3]);
        let LogEnd::Torn(torn) = end else { panic!("{end:?}") };
        assert_eq!((torn.offset, torn.length), (good.len() as u64, tail_bytes));
        let aside = scene.open().set_aside().unwrap().clone();
        assert_eq!((aside.offset, aside.length), (good.len() as u64, tail_bytes));
        let copy = std::fs::read(&aside.copy).unwrap();
        assert!(copy.len() as u64 == tail_bytes && copy.iter().all(|b| *b == fill), "every byte is kept");
        assert_eq!(scene.append("next").seq, 4);
        assert_eq!(scene.bytes(), [good.clone(), file_of(&[turn_line(4, "next")])].concat());
    }
}

/// R18. A record behind a hole that is longer than any record may be: a forward reader finds it, so opening the log
/// must not cut it.
#[test]
fn r18_a_record_glued_behind_a_huge_hole_is_not_cut() {
    let good = native(3);
    let scene = Scene::with(&good);
    scene.set_len(good.len() as u64 + (70 << 20));
    scene.append_raw(file_of(&[turn_line(4, "behind the hole")]));
    let len = scene.len();
    assert_eq!(seqs(&scene.read().0), [0, 1, 2, 3, 4]);
    let log = scene.open();
    assert_eq!((log.next_seq(), log.set_aside(), scene.len()), (5, None, len));
    drop(log);
    assert_eq!(seqs(&scene.read_back()), [4, 3, 2, 1, 0]);
}

/// R18. A hole in another program's file: its lines carry no numbers, so opening must count them as reading does.
#[test]
fn r18_a_huge_hole_in_another_programs_file_is_counted_alike_by_readers_and_recovery() {
    let scene = Scene::with(file_of(&[plain_line("one")]));
    scene.set_len(scene.len() + (70 << 20));
    scene.append_raw([b"\n".to_vec(), file_of(&[plain_line("behind")])].concat());
    let mut reader = scene.reader();
    drain(&mut reader);
    let next = reader.next_seq().unwrap();
    assert_eq!(scene.append("ours").seq, next);
    assert!(!damages(&scene.read().0).iter().any(in_the_numbers), "nothing is out of order");
}

/// R19. A batch is not atomic: a crash in it leaves its first records, and the half one goes.
#[test]
fn r19_a_torn_batch_keeps_its_whole_records() {
    let batch = file_of(&[turn_line(4, "a"), turn_line(5, "b"), turn_line(6, "c")]);
    let first = turn_line(4, "a").len() + 1;
    let second = first + turn_line(5, "b").len() + 1;
    for cut in [first + 1, first + 30, second - 2] {
        assert_cut(&[&native(3), &batch[..first]].concat(), &batch[first..cut], 5);
    }
    assert_cut(&[&native(3), &batch[..second]].concat(), &batch[second..second + 30], 6);
}

/// R20 (fault 53). What is nobody's log is refused and stays as it is, also where it begins with the first byte of a
/// header, with an empty line or with NULs.
#[test]
fn r20_a_file_that_is_no_log_is_never_cut() {
    let mut failed = Vec::new();
    for (what, bytes) in [
        ("text", &b"hello\nworld\n"[..]),
        ("pretty-printed JSON", b"{\n  \"name\": \"x\",\n  \"private\": true\n}\n"),
        ("text behind an empty line", b"\n#!/bin/sh\nrm -r build\n"),
        ("a film", b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom\0\0\x01\x02moov"),
        ("UTF-16", b"\xff\xfe{\0\"\0a\0\"\0"),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\0"),
        ("zstd", b"\x28\xb5\x2f\xfd\0\0\0"),
        ("SQLite", b"SQLite format 3\0\x10\0\x01\x01"),
    ] {
        let scene = Scene::with(bytes);
        // What begins as an object might be a log of which nothing can be read: it may be opened, never cut.
        let refused = bytes[0] == b'{' || matches!(scene.try_open(), Err(Error::NotALog { .. }));
        drop(scene.try_open());
        let untouched = scene.bytes() == bytes && scene.names() == ["chat.jsonl"];
        if !(refused && untouched) {
            failed.push(format!("{what}: refused {refused}, untouched {untouched}"));
        }
    }
    assert_eq!(failed, [] as [&str; 0]);
}

/// All cases. On a file as years leave it, what opening counts is what reading counts: the new record follows the old
/// ones, and everything that could be read can still be read.
#[test]
fn on_any_file_the_next_record_follows_what_a_reader_counted() {
    let mut dice = Rng::new(6);
    let files: Vec<(Owner, Vec<u8>)> = (0..400)
        .map(|_| {
            let whose = *dice.pick(&[Owner::Native, Owner::Adopted, Owner::Foreign]);
            (whose, random_file(&mut dice, whose))
        })
        .collect();
    at_once(&files, |(whose, file)| {
        let text = String::from_utf8_lossy(file);
        let scene = Scene::with(file);
        let given = scene.read().0;
        let receipt = scene.append("the next");
        let (after, end) = scene.read();
        let mut expected = lines(&given);
        let ours = turn_line(receipt.seq, "the next");
        expected.push(&ours);
        assert_eq!((lines(&after), end), (expected, LogEnd::Clean), "{whose:?}:\n{text}");
        let in_numbers = damages(&after).into_iter().find(in_the_numbers);
        assert_eq!(in_numbers, None, "{whose:?}, {receipt:?}:\n{text}");
    });
}

/// All cases. Recovering twice is recovering once, and what was read before is read after.
#[test]
fn recovery_never_takes_back_what_a_reader_was_given() {
    let whole = native(5);
    let mut hurt = whole.clone();
    hurt[150] ^= 4;
    let cuts: Vec<usize> = (0..whole.len()).step_by(7).collect();
    at_once(&cuts, |&cut| {
        for before in [&whole[..cut], &hurt[..cut], &[&whole[..cut], &[0; 9]].concat()] {
            let scene = Scene::with(before);
            let (given, _) = scene.read();
            drop(scene.open());
            let once = scene.bytes();
            assert!(before.starts_with(&once), "cut at {cut}: recovery only cuts");
            drop(scene.open());
            assert_eq!(scene.bytes(), once, "cut at {cut}");
            assert_eq!(scene.read().0, given, "cut at {cut}");
        }
    });
}

/// A case without a test is a guess, and a test without its case is a riddle: table and tests name each other.
#[test]
fn the_table_of_cases_and_these_tests_name_each_other() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/RECOVERY.md");
    let table = std::fs::read_to_string(table).unwrap();
    let tests: Vec<&str> = include_str!("recovery.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("fn r")?.split('(').next())
        .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))
        .collect();
    let named: Vec<&str> = table
        .split('`')
        .filter_map(|word| word.strip_prefix('r'))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('_'))
        .collect();
    assert_eq!(named, tests);
    let case_of = |test: &str| test.split('_').next().unwrap().parse::<usize>().unwrap();
    let mut cases: Vec<usize> = tests.iter().map(|test| case_of(test)).collect();
    cases.dedup();
    assert_eq!(cases, (1..=cases.len()).collect::<Vec<_>>(), "every case has a test");
    for row in table.lines().filter(|line| line.starts_with("| R")) {
        let case = row.split('|').nth(1).unwrap().trim();
        assert!(row.contains(&format!("`{}_", case.to_lowercase())), "{case} names its own tests");
    }
}

/// R20. The same where nothing but one line stands in the file, longer than any record.
#[test]
fn r20_a_file_of_one_line_over_the_limit_is_never_cut() {
    let long = [br#"{"a":""#, &vec![b'x'; 64 << 20][..], br#""}"#].concat();
    let scene = Scene::with(&long);
    drop(scene.try_open());
    assert_eq!((scene.len(), scene.torn_copies().len()), (long.len() as u64, 0));
}
