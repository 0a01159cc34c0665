//! Reading forwards, backwards, from the end, from a number, and along as the file grows.

use manent_log::{
    Durability, Entry, Expect, FileChange, FileKind, LogEnd, LogItem, Reader, RealDisk, verify,
};

use crate::support::{
    GrowingDisk, Moment, ReadItem, Rng, Scene, damages, drain, file_of, header_line, lines, native,
    native_lines, plain_line, record, seqs, turn, turn_line,
};

/// Owner file [`random_file`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Native,
    Adopted,
    Foreign,
}

/// A file as years leave it: records, lines of other programs, damage, blank lines, lost newlines. The numbers are
/// right: whatever takes a line takes a number.
pub(crate) fn random_file(dice: &mut Rng, whose: Owner) -> Vec<u8> {
    let mut out = Vec::new();
    let mut seq = 1;
    match whose {
        Owner::Native => out.extend(file_of(&[header_line()])),
        Owner::Adopted => {
            out.extend(file_of(&[plain_line("first"), turn_line(2, "second")]));
            seq = 3;
        }
        Owner::Foreign => {
            out.extend(file_of(&[plain_line("first")]));
            seq = 2;
        }
    }
    for _ in 0..dice.below(14) {
        let text = "x".repeat(dice.below(60));
        let mut glued = false;
        match dice.below(12) {
            0 => out.extend(*dice.pick(&[&b""[..], b"  ", b"\r", b"\t "])),
            1 => {
                out.extend(*dice.pick(&[
                    &b"garbage"[..],
                    b"\0\0\0\0",
                    b"\xff\xfd",
                    b"[1]",
                    b"{\"role\":\"us",
                ]));
                seq += 1;
            }
            2 if whose != Owner::Foreign => {
                let mut hurt = turn_line(seq, &text);
                let at = dice.below(hurt.len());
                hurt[at] = b'~';
                out.extend(hurt);
                seq += 1;
            }
            3 | 4 => {
                out.extend(plain_line(&text));
                seq += 1;
            }
            5 => {
                out.extend([b" ", plain_line(&text).as_slice(), b" \r"].concat());
                seq += 1;
            }
            _ if whose == Owner::Foreign => {
                out.extend(plain_line(&text));
                seq += 1;
            }
            what => {
                out.extend(turn_line(seq, &text));
                seq += 1;
                glued = what == 6;
            }
        }
        if !glued {
            out.push(b'\n');
        }
    }
    match dice.below(4) {
        0 => drop(out.pop()),
        1 => out.extend(&turn_line(seq, "torn")[..7 + dice.below(50)]),
        _ => {}
    }
    out
}

/// Returns the items from the `nth` entry on: entries and damage behind it.
fn from_entry(all: &[ReadItem], nth: usize) -> &[ReadItem] {
    let at = all.iter().enumerate().filter(|(_, g)| g.is_entry()).nth(nth).map_or(all.len(), |(at, _)| at);
    &all[at..]
}

/// A page that shows the newest turns first must show the same turns as one that shows the oldest first.
#[test]
fn backwards_gives_what_forwards_gives_in_reverse() {
    let mut dice = Rng::new(1);
    for round in 0..600 {
        let whose = *dice.pick(&[Owner::Native, Owner::Adopted, Owner::Foreign]);
        let scene = Scene::with(random_file(&mut dice, whose));
        let (mut forward, _) = scene.read();
        forward.reverse();
        let text = String::from_utf8_lossy(&scene.bytes()).into_owned();
        assert_eq!(scene.read_back(), forward, "round {round}, {whose:?}:\n{text}");
    }
}

/// The same where numbers are wrong too: lines removed, repeated and moved. Backwards names no break, since it
/// cannot know; but every line it gives must be one that forwards gives.
#[test]
fn backwards_gives_the_same_lines_also_where_numbers_are_wrong() {
    let mut dice = Rng::new(2);
    for round in 0..300 {
        let whose = *dice.pick(&[Owner::Native, Owner::Adopted]);
        let file = random_file(&mut dice, whose);
        let mut split: Vec<&[u8]> = file.split_inclusive(|b| *b == b'\n').collect();
        for _ in 0..=dice.below(3) {
            let (a, b) = (dice.below(split.len()), dice.below(split.len()));
            match dice.below(3) {
                0 if split.len() > 1 => drop(split.remove(a)),
                1 => split.insert(a, split[b]),
                _ => split.swap(a, b),
            }
        }
        let scene = Scene::with(split.concat());
        let (forward, back) = (scene.read().0, scene.read_back());
        let mut lines_back = lines(&back);
        lines_back.reverse();
        assert_eq!(lines_back, lines(&forward), "round {round}");
    }
}

/// A line of another program's behind a record whose newline was lost: given without the blanks around it, as any
/// line is, and so from wherever one reads.
#[test]
fn blanks_around_a_line_that_was_glued_to_a_record_are_not_part_of_it() {
    let theirs = plain_line("theirs");
    let scene = Scene::with(
        [&native(2)[..], &turn_line(3, "x"), b" \t", &theirs, b" \r\n", &turn_line(5, "y")].concat(),
    );
    let (got, _) = scene.read();
    assert_eq!((seqs(&got), damages(&got)), (vec![0, 1, 2, 3, 4, 5], vec![]));
    assert_eq!(lines(&got)[4], theirs);
}

/// `show --tail N` must show the last N, whatever stands between them.
#[test]
fn the_last_n_are_the_last_n_for_every_n() {
    let mut dice = Rng::new(3);
    for round in 0..120 {
        let whose = *dice.pick(&[Owner::Native, Owner::Adopted, Owner::Foreign]);
        let scene = Scene::with(random_file(&mut dice, whose));
        let (forward, end) = scene.read();
        let count = forward.iter().filter(|g| g.is_entry()).count();
        for wanted in 0..=count + 2 {
            let mut reader =
                Reader::open_tail(&RealDisk::shared(), &scene.path, wanted as u64, |_| true).unwrap();
            let expected = if wanted > count { &forward[..] } else { from_entry(&forward, count - wanted) };
            assert_eq!(drain(&mut reader), expected, "round {round}, {whose:?}, the last {wanted}");
            assert_eq!(reader.end(), end, "round {round}, the last {wanted}");
        }
    }
}

/// The last three answers, not the last three lines: what is not wanted between them is given but not counted.
#[test]
fn the_last_n_of_a_kind_are_found_behind_others() {
    let mut all = vec![header_line()];
    for seq in 1..=40 {
        let role = if seq % 4 == 0 { "assistant" } else { "tool" };
        all.push(record(seq, &format!(r#""role":"{role}","content":"{seq}""#)));
    }
    let scene = Scene::with(file_of(&all));
    let answers = |line: &[u8]| String::from_utf8_lossy(line).contains("assistant");
    for wanted in 1..=10 {
        let mut reader = Reader::open_tail(&RealDisk::shared(), &scene.path, wanted, answers).unwrap();
        assert_eq!(seqs(&drain(&mut reader)), (44 - wanted * 4..=40).collect::<Vec<_>>(), "{wanted}");
    }
}

/// `show --from SEQ` must begin with that turn, in every file.
#[test]
fn reading_from_a_number_begins_with_it_for_every_number() {
    let mut dice = Rng::new(4);
    for round in 0..120 {
        let whose = *dice.pick(&[Owner::Native, Owner::Adopted, Owner::Foreign]);
        let scene = Scene::with(random_file(&mut dice, whose));
        let (forward, end) = scene.read();
        for seq in 0..=seqs(&forward).last().map_or(0, |s| s + 2) {
            let before = seqs(&forward).iter().filter(|s| **s < seq).count();
            let mut reader = Reader::open_from(&RealDisk::shared(), &scene.path, seq).unwrap();
            assert_eq!(
                drain(&mut reader),
                from_entry(&forward, before),
                "round {round}, {whose:?}, from {seq}"
            );
            assert_eq!(reader.end(), end, "round {round}, from {seq}");
        }
    }
}

/// The same in a file of 5 MB, where the place is found by halving: records of all sizes, lines of others, gaps.
#[test]
fn reading_from_a_number_begins_with_it_in_a_large_file() {
    let mut dice = Rng::new(5);
    let (mut file, mut expected) = (file_of(&[header_line()]), vec![(0, 0)]);
    let mut seq = 1;
    while file.len() < 5 << 20 {
        let offset = file.len() as u64;
        let text = "y".repeat(if dice.below(50) == 0 { 300_000 } else { dice.below(4_000) });
        match dice.below(40) {
            0 => file.extend(*dice.pick(&[&b"garbage"[..], b"\0\0\0"])),
            1..=3 => {
                expected.push((seq, offset));
                file.extend(plain_line(&text));
            }
            _ => {
                expected.push((seq, offset));
                file.extend(turn_line(seq, &text));
            }
        }
        file.push(b'\n');
        seq += 1;
    }
    let scene = Scene::with(&file);
    for from in 0..=seq + 1 {
        let mut reader = Reader::open_from(&RealDisk::shared(), &scene.path, from).unwrap();
        let found = match reader.next().unwrap() {
            Some(LogItem::Entry(Entry { seq, offset, .. })) => Some((seq, offset)),
            None => None,
            Some(other) => panic!("from {from}: {other:?}"),
        };
        assert_eq!(found, expected.iter().copied().find(|(seq, _)| *seq >= from), "from {from}");
    }
}

/// `show -f`: a reader at the end goes on when the file grows, from its birth on.
#[test]
fn a_follower_sees_every_record_once_as_the_file_grows() {
    let scene = Scene::with(b"");
    let mut reader = scene.reader();
    assert_eq!((drain(&mut reader), reader.change().unwrap()), (vec![], FileChange::None));
    let mut log = scene.open();
    let mut seen = Vec::new();
    for round in 0..20 {
        log.append(&turn(&format!("{round}")), Durability::Flush, Expect::Any).unwrap();
        assert_eq!(reader.change().unwrap(), FileChange::Grew);
        seen.extend(drain(&mut reader));
        assert_eq!(reader.change().unwrap(), FileChange::None);
        assert_eq!((reader.position(), reader.next_seq()), (scene.len(), Some(round + 2)));
    }
    assert_eq!(seen, scene.read().0);
}

/// A line that is being written is not shown, byte by byte, until it is whole; then once.
#[test]
fn a_follower_waits_for_a_line_that_is_being_written() {
    for line in [turn_line(4, "slowly"), plain_line("slowly")] {
        let scene = Scene::with(native(3));
        let mut reader = scene.reader();
        assert_eq!(seqs(&drain(&mut reader)), [0, 1, 2, 3]);
        let mut given = Vec::new();
        for (at, byte) in line.iter().chain(b"\n").enumerate() {
            scene.append_raw([*byte]);
            assert_eq!(reader.change().unwrap(), FileChange::Grew, "byte {at}");
            let now = drain(&mut reader);
            assert_eq!(now.is_empty(), at + 1 != line.len(), "byte {at}: {now:?}");
            if at + 1 < line.len() {
                assert!(matches!(reader.end(), LogEnd::Torn(_)), "byte {at}");
            }
            given.extend(now);
        }
        assert_eq!((seqs(&given), lines(&given)), (vec![4], vec![&line[..]]));
        assert_eq!(reader.end(), LogEnd::Clean);
    }
}

/// The header and the first record arrive byte by byte: the file is not yet anybody's.
#[test]
fn a_follower_of_a_file_that_is_being_born_waits_for_it() {
    let scene = Scene::with(b"");
    let mut reader = scene.reader();
    let mut given = Vec::new();
    for byte in file_of(&[header_line(), turn_line(1, "first")]) {
        scene.append_raw([byte]);
        given.extend(drain(&mut reader));
    }
    assert_eq!((seqs(&given), damages(&given)), (vec![0, 1], vec![]));
}

/// Fault 33. The writer goes on at the very moment at which the reader has met the end in the middle of a record: the
/// two halves are one record, not damage.
#[test]
fn a_record_that_is_finished_while_it_is_read_is_not_taken_for_damage() {
    let (line, next) = (turn_line(4, "in two writes"), turn_line(5, "the next"));
    let rest = file_of(&[line.clone(), next]);
    for cut in [1, 7, 30, line.len() - 1, line.len()] {
        let scene = Scene::with([native(3), rest[..cut].to_vec()].concat());
        let disk = GrowingDisk::shared(&scene.path, Moment::AtTheEnd, rest[cut..].to_vec());
        let mut reader = Reader::open(&disk, &scene.path).unwrap();
        let got = [drain(&mut reader), drain(&mut reader)].concat();
        assert_eq!((seqs(&got), damages(&got)), (vec![0, 1, 2, 3, 4, 5], vec![]), "cut at {cut}");

        let scene = Scene::with([native(3), rest[..cut].to_vec()].concat());
        let disk = GrowingDisk::shared(&scene.path, Moment::AtTheEnd, rest[cut..].to_vec());
        let report = verify(&disk, &scene.path).unwrap();
        assert_eq!(report.damage, [], "cut at {cut}: a false alarm");
    }
}

/// The same with the header: the file is ours from its first byte, and a fork's numbers are known.
#[test]
fn a_header_that_is_finished_while_it_is_read_is_a_header() {
    let fork = record(0, r#""meta":{"format":1,"parent":{"id":"p","upto":41}}"#);
    let file = file_of(&[fork.clone(), turn_line(42, "a")]);
    for cut in [1, 9, 30, fork.len() - 1] {
        let scene = Scene::with(&file[..cut]);
        let disk = GrowingDisk::shared(&scene.path, Moment::AtTheEnd, file[cut..].to_vec());
        let mut reader = Reader::open(&disk, &scene.path).unwrap();
        let got = [drain(&mut reader), drain(&mut reader)].concat();
        assert_eq!((seqs(&got), damages(&got)), (vec![0, 42], vec![]), "cut at {cut}");
        assert_eq!(reader.kind(), Some(FileKind::Native));
    }
}

/// A torn end that a writer cuts and writes over, shorter or longer than before.
#[test]
fn a_follower_goes_on_where_a_torn_end_was_cut_and_written_over() {
    for text in ["a", &"b".repeat(200)] {
        let scene = Scene::with(native(3));
        let mut reader = scene.reader();
        drain(&mut reader);
        scene.append_raw([0; 150]);
        assert_eq!(drain(&mut reader), []);
        assert!(matches!(reader.end(), LogEnd::Torn(_)));
        scene.append(text);
        assert_eq!(reader.change().unwrap(), FileChange::Grew);
        assert_eq!(lines(&drain(&mut reader)), [turn_line(4, text)]);
        assert_eq!((reader.end(), reader.change().unwrap()), (LogEnd::Clean, FileChange::None));
    }
}

/// The same where the new record is exactly as long as the torn bytes: what a program writes again after a power
/// cut that left NULs in the place of its record.
#[test]
fn a_follower_notices_a_torn_end_that_was_replaced_by_a_record_of_the_same_length() {
    let scene = Scene::with(native(3));
    let again = turn_line(4, "the same words");
    scene.append_raw(vec![0; again.len() + 1]);
    let mut reader = scene.reader();
    assert_eq!(seqs(&drain(&mut reader)), [0, 1, 2, 3]);
    scene.append("the same words");
    assert_eq!(reader.change().unwrap(), FileChange::Grew, "the record would stay unseen until the next one");
    assert_eq!(lines(&drain(&mut reader)), [again]);
}

/// Fault 25. A file that shrinks below what was read lost records; a follower says so and does not die.
#[test]
fn a_follower_says_that_the_file_was_truncated() {
    let scene = Scene::with(native(5));
    let mut reader = scene.reader();
    drain(&mut reader);
    scene.set_len(native(5).len() as u64 - 1);
    assert_eq!(reader.change().unwrap(), FileChange::Truncated, "by one byte");
    scene.set_len(native(3).len() as u64);
    assert_eq!(reader.change().unwrap(), FileChange::Truncated);
    assert_eq!(drain(&mut reader), [], "and gives nothing it has no right to");
    scene.set_len(0);
    assert_eq!(reader.change().unwrap(), FileChange::Truncated);
}

/// Fault 25. Renamed away, replaced by another file, or deleted: the old file will never grow again.
#[test]
fn a_follower_says_that_the_file_was_replaced() {
    let replaced = |how: fn(&Scene)| {
        let scene = Scene::with(native(3));
        let mut reader = scene.reader();
        drain(&mut reader);
        assert_eq!(reader.change().unwrap(), FileChange::None);
        how(&scene);
        assert_eq!(reader.change().unwrap(), FileChange::Replaced);
    };
    replaced(|scene| std::fs::remove_file(&scene.path).unwrap());
    replaced(|scene| std::fs::rename(&scene.path, scene.dir().join("moved")).unwrap());
    replaced(|scene| {
        let other = scene.dir().join("other");
        std::fs::write(&other, native(3)).unwrap();
        std::fs::rename(&other, &scene.path).unwrap();
    });
}

/// A reader that was opened in the middle follows as well as one from the beginning.
#[test]
fn a_follower_from_the_tail_goes_on_too() {
    for wanted in [0, 2] {
        let scene = Scene::with(file_of(&native_lines(6)));
        let mut reader = Reader::open_tail(&RealDisk::shared(), &scene.path, wanted, |_| true).unwrap();
        let mut got = drain(&mut reader);
        scene.append("seven");
        got.extend(drain(&mut reader));
        assert_eq!((seqs(&got), damages(&got)), ((7 - wanted..=7).collect(), vec![]));
    }
    let scene = Scene::with(native(6));
    let mut reader = Reader::open_from(&RealDisk::shared(), &scene.path, 8).unwrap();
    assert_eq!(drain(&mut reader), []);
    scene.append("seven");
    scene.append("eight");
    assert_eq!(seqs(&drain(&mut reader)).last(), Some(&8));
}

/// A fork's file begins with another number; nothing is missing there.
#[test]
fn a_forks_first_number_is_no_break() {
    let fork = record(0, r#""meta":{"format":1,"parent":{"id":"p","key":"k","upto":41,"crc":"00000000" }}"#);
    let scene = Scene::with(file_of(&[fork, turn_line(42, "a"), turn_line(43, "b")]));
    let (got, end) = scene.read();
    assert_eq!((seqs(&got), damages(&got), end), (vec![0, 42, 43], vec![], LogEnd::Clean));
    assert_eq!(seqs(&scene.read_back()), [43, 42, 0]);
    let mut reader = Reader::open_from(&RealDisk::shared(), &scene.path, 43).unwrap();
    assert_eq!(seqs(&drain(&mut reader)), [43]);
}
