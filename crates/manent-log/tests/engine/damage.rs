//! Hostile bytes (faults 37 to 41, 47 to 52, 54): every damage is named with its place, and hides nothing else.

use std::ops::Range;

use manent_log::frame::{DamageReason, RECORD_BYTES_MAX};
use manent_log::{
    Body, BodyError, Damage, Durability, Expect, FileKind, LogEnd, TailState, VerifyReport, acknowledge_gaps,
};

use crate::support::{
    ReadItem, Scene, damages, file_of, header_line, lines, native, native_lines, plain_line, record, seqs,
    turn_line,
};

/// A native file whose bytes turn into newlines (`J`, `*`), NULs (blanks) and broken UTF-8 when one bit flips.
fn corpus() -> Vec<Vec<u8>> {
    vec![
        header_line(),
        turn_line(1, "J * plain words"),
        record(2, r#""role":"assistant","model":"m","usage":{"input":12,"output":40},"content":"""#),
        record(3, r#""role":"tool","tool_call_id":"c1","content":"{\"seq\":9,\"crc\":\"00000000\"}""#),
        turn_line(4, "größer 👋 \u{2028}"),
        record(5, r#""kind":"unknown","deep":[[[{"a":[1e400,-0]}]]],"content":"\u0000""#),
        record(6, r#""role":"user","content":"\\\"\\""#),
        turn_line(7, "last words"),
    ]
}

/// The range of each line, its newline included.
fn spans(all: &[Vec<u8>]) -> Vec<Range<u64>> {
    let mut at = 0;
    all.iter()
        .map(|line| {
            let start = at;
            at += line.len() as u64 + 1;
            start..at
        })
        .collect()
}

/// Everything a report names, the torn end included.
fn named(report: &VerifyReport) -> Vec<Damage> {
    let mut all: Vec<Damage> = report.damage.iter().map(|found| found.damage).collect();
    if let TailState::Torn(torn) = report.tail {
        all.push(torn);
    }
    all
}

/// Flips every bit of the lines in `hurt`; each flip must be named inside its line, and all other lines be read.
fn flip_every_bit(all: &[Vec<u8>], hurt: Range<usize>) {
    let file = file_of(all);
    let scene = Scene::with(&file);
    for (nth, span) in spans(all).into_iter().enumerate().skip(hurt.start).take(hurt.len()) {
        for at in span.clone() {
            let newline = at + 1 == span.end;
            for bit in 0..8 {
                let case = format!("bit {bit} of byte {at} in line {nth}");
                scene.poke(at, &[file[at as usize] ^ (1 << bit)]);
                let report = scene.verify();
                assert!(!report.is_sound(), "{case} is not named");
                assert!(named(&report).iter().any(|d| span.contains(&d.offset)), "{case}: {report:?}");
                let got = scene.read().0;
                let others: Vec<&[u8]> = all
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| newline || *n != nth)
                    .map(|(_, l)| &l[..])
                    .collect();
                assert_eq!(lines(&got), others, "{case}");
            }
            scene.poke(at, &[file[at as usize]]);
        }
    }
    assert_eq!(scene.bytes(), file);
}

/// Fault 37. Bits rot. Each single one is found.
#[test]
fn every_flipped_bit_is_named_in_its_line_and_hides_no_other_record() {
    let all = corpus();
    assert!(Scene::with(file_of(&all)).verify().is_sound());
    flip_every_bit(&all, 0..all.len());
}

/// Fault 37 in another program's file: its lines carry no checksum, but ours among them do.
#[test]
fn every_flipped_bit_of_our_records_is_named_in_another_programs_file_too() {
    let all = [plain_line("one"), turn_line(2, "J * two"), record(3, r#""kind":"x""#), turn_line(4, "four")];
    flip_every_bit(&all, 1..4);
}

/// Fault 38. A file cut at any byte is read up to there, and nothing is invented.
#[test]
fn a_file_cut_at_any_byte_gives_the_lines_before_the_cut() {
    let all = corpus();
    let (file, spans) = (file_of(&all), spans(&all));
    for cut in 0..=file.len() as u64 {
        let scene = Scene::with(&file[..cut as usize]);
        let whole: Vec<&[u8]> =
            all.iter().zip(&spans).filter(|(_, s)| s.end - 1 <= cut).map(|(l, _)| &l[..]).collect();
        let at_border = cut == 0 || spans.iter().any(|s| s.end == cut || s.end - 1 == cut);
        let (got, end) = scene.read();
        assert_eq!((lines(&got), damages(&got)), (whole.clone(), vec![]), "cut at {cut}");
        assert_eq!(end == LogEnd::Clean, at_border, "cut at {cut}: {end:?}");
        assert_eq!(scene.verify().is_sound(), at_border, "cut at {cut}");
        let back = scene.read_back();
        assert!(lines(&back).into_iter().rev().eq(whole), "cut at {cut}, backwards");
    }
}

/// Fault 39. A line taken out leaves a hole in the numbers. (The last one does not: that is the catalogue's to see.)
#[test]
fn every_deleted_line_is_named() {
    let all = corpus();
    for nth in 0..all.len() - 1 {
        let mut left = all.clone();
        left.remove(nth);
        let scene = Scene::with(file_of(&left));
        let place = spans(&left)[nth].start;
        let (got, end) = scene.read();
        assert_eq!((lines(&got).len(), end), (left.len(), LogEnd::Clean));
        let reason = if nth == 0 { DamageReason::NoHeader } else { DamageReason::Missing };
        let expected = Damage { offset: place, length: 0, reason, lines: 0, seq: nth as u64 };
        assert_eq!(damages(&got), [expected]);
        assert!(!scene.verify().is_sound());
    }
}

/// Fault 39. A line that stands there twice, anywhere.
#[test]
fn every_repeated_line_is_named() {
    let all = corpus();
    for nth in 0..all.len() {
        for place in 0..=all.len() {
            let mut more = all.clone();
            more.insert(place, all[nth].clone());
            let scene = Scene::with(file_of(&more));
            assert!(!scene.verify().is_sound(), "line {nth} again at {place}");
            assert_eq!(lines(&scene.read().0), more, "line {nth} again at {place}: both are read");
        }
    }
}

/// Faults 8, 39. Nobody knows how many records a gap swallowed, so behind one any higher number is right; but a number
/// that was there before is not.
#[test]
fn a_repeated_line_is_named_also_behind_a_gap() {
    let all = native_lines(6);
    let behind_a_gap = |next: usize| {
        let file = file_of(&[&all[..4], &[b"garbage".to_vec(), all[next].clone()]].concat());
        damages(&Scene::with(file).read().0).iter().map(|d| d.reason).collect::<Vec<_>>()
    };
    for next in [5, 6] {
        assert_eq!(behind_a_gap(next), [DamageReason::NotJson], "{next} follows");
    }
    // Nothing was swallowed: garbage came between, as another program's debug output does.
    assert_eq!(behind_a_gap(4), [DamageReason::NotJson]);
    for next in 0..=3 {
        assert_eq!(
            behind_a_gap(next),
            [DamageReason::NotJson, DamageReason::OutOfOrder],
            "{next} was there before"
        );
    }
}

/// Fault 39. Two lines that changed places.
#[test]
fn every_swapped_pair_of_lines_is_named() {
    let all = corpus();
    for a in 0..all.len() {
        for b in a + 1..all.len() {
            let mut swapped = all.clone();
            swapped.swap(a, b);
            let scene = Scene::with(file_of(&swapped));
            let report = scene.verify();
            assert!(!report.is_sound(), "lines {a} and {b}");
            assert!(named(&report).iter().any(|d| d.offset >= spans(&swapped)[a].start), "lines {a} and {b}");
            assert_eq!(lines(&scene.read().0), swapped, "lines {a} and {b}");
        }
    }
}

/// Fault 40. A record of another session, valid in itself, put in anywhere. Only where it continues the file exactly
/// can nobody see it: that takes the hash chain.
#[test]
fn a_record_of_another_session_breaks_the_numbers() {
    let all = native_lines(5);
    for place in 0..=all.len() {
        for seq in 0..9 {
            let mut mixed = all.clone();
            mixed.insert(place, turn_line(seq, "of another session"));
            let scene = Scene::with(file_of(&mixed));
            let continues = place == all.len() && seq == all.len() as u64;
            assert_eq!(scene.verify().is_sound(), continues, "number {seq} at line {place}");
            assert_eq!(lines(&scene.read().0), mixed);
        }
    }
}

/// Fault 41. The head of one record and the tail of another: valid JSON, wrong checksum. A gap, and never a record.
#[test]
fn the_head_of_one_record_with_the_tail_of_another_is_no_record() {
    let all = native_lines(4);
    let (a, b) = (&all[2], turn_line(2, "another turn altogether, and a longer one"));
    let mut cuts = 0;
    for i in (1..a.len()).step_by(3) {
        for j in (1..b.len()).step_by(4) {
            let spliced = [&a[..i], &b[j..]].concat();
            if spliced == *a || spliced == b {
                continue;
            }
            let mut hurt = all.clone();
            hurt[2] = spliced;
            let scene = Scene::with(file_of(&hurt));
            let (got, end) = scene.read();
            cuts += 1;
            if i < br#"{"seq":"#.len() {
                // So short a head with a short tail can be anybody's object, as `{}` is: read, but never verified.
                let verified = |g: &&ReadItem| matches!(g, ReadItem::Entry { verified: true, .. });
                assert_eq!(got.iter().filter(verified).count(), 4, "{i} and {j}");
                continue;
            }
            assert_eq!((seqs(&got), end), (vec![0, 1, 3, 4], LogEnd::Clean), "{i} and {j}");
            let [gap] = damages(&got)[..] else { panic!("{i} and {j}: {got:?}") };
            assert_eq!((gap.offset, gap.length), (spans(&hurt)[2].start, hurt[2].len() as u64 + 1));
        }
    }
    assert!(cuts > 900, "only {cuts} splices");
}

/// A line over the limit is too long from wherever one reads, also if its checksum holds and its end lies in sight:
/// what a reader gives, recovery must not cut.
#[test]
fn a_line_over_the_limit_is_judged_alike_from_both_sides() {
    let empty = turn_line(2, "").len();
    for over in [150_000, 1] {
        let long = turn_line(2, &"x".repeat(RECORD_BYTES_MAX - 1 - empty + over));
        let scene = Scene::with(file_of(&[header_line(), turn_line(1, "a"), long, turn_line(3, "b")]));
        let (forward, mut back) = (seqs(&scene.read().0), seqs(&scene.read_back()));
        back.reverse();
        assert_eq!((forward, back), (vec![0, 1, 3], vec![0, 1, 3]), "{over} bytes over the limit");
    }
}

/// Faults 47, 48, 51. Lines that are not UTF-8 or not JSON, between records: a gap of that line only.
#[test]
fn a_line_that_no_json_reader_would_take_is_a_gap_of_that_line() {
    for (line, reason) in [
        (&b"{\"role\":\"user\",\"content\":\"\xff\"}"[..], DamageReason::NotUtf8),
        (b"{\"role\":\"user\",\"content\":\"\xf0\x9f\x91\"}", DamageReason::NotUtf8),
        (b"{\"role\":\"user\",\"content\":\"\xed\xa0\x80\"}", DamageReason::NotUtf8),
        (b"{\"role\":\"user\",\"content\":\"\x01\"}", DamageReason::NotJson),
        (b"{\"role\":\"user\",\"content\":\"\x1b[2J\"}", DamageReason::NotJson),
        (b"{\"role\":\"user\",\"content\":\"\0\"}", DamageReason::Nul),
        (b"{\"role\":\"user\",\"score\":NaN}", DamageReason::NotJson),
        (b"{\"role\":\"user\",\"score\":-Infinity}", DamageReason::NotJson),
        (b"\"words\"", DamageReason::NotObject),
    ] {
        let mut all = native_lines(4);
        all[2] = line.to_vec();
        let scene = Scene::with(file_of(&all));
        let got = scene.read().0;
        assert_eq!(seqs(&got), [0, 1, 3, 4], "{reason}");
        let span = &spans(&all)[2];
        let expected = Damage { offset: span.start, length: span.end - span.start, reason, lines: 1, seq: 2 };
        assert_eq!(damages(&got), [expected]);
    }
}

/// Faults 48, 49, 51. What other readers would refuse or change is refused before it is a record.
#[test]
fn what_other_readers_would_change_never_becomes_a_record() {
    let parse = |json: &[u8]| Body::parse(json).unwrap_err();
    assert!(matches!(parse(br#"{"content":"\ud800"}"#), BodyError::LoneSurrogate));
    assert!(matches!(parse(b"{\"content\":\"\x07\"}"), BodyError::NotAnObject { .. }));
    assert!(matches!(parse(b"{\"content\":\"\xff\"}"), BodyError::NotUtf8 { .. }));
    assert!(matches!(parse(br#"{"content":NaN}"#), BodyError::NotAnObject { .. }));
    assert!(matches!(parse(br#"{"a":1,"a":1}"#), BodyError::DuplicateMember { .. }));
    // Another program's line with half a surrogate pair is its own: kept as it is.
    let foreign = br#"{"role":"user","content":"\ud800"}"#.to_vec();
    let scene = Scene::with(file_of(std::slice::from_ref(&foreign)));
    scene.append("ours");
    assert_eq!(lines(&scene.read().0)[0], foreign);
}

/// Faults 48, 54. Line separators, escaped NULs and everything else that text may hold stay inside their record.
#[test]
fn separators_and_control_characters_in_text_split_no_line() {
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{0}e\r\nf\u{b}g\u{c}h\u{7f}i\u{feff}j\u{1b}[0m";
    let scene = Scene::new();
    assert_eq!((scene.append(text).seq, scene.append("after").seq), (1, 2));
    let got = scene.read().0;
    assert_eq!((seqs(&got), damages(&got)), (vec![0, 1, 2], vec![]));
    let line: serde_json::Value = serde_json::from_slice(lines(&got)[1]).unwrap();
    assert_eq!(line["content"], text);
    assert_eq!(
        scene.bytes().iter().filter(|b| **b < b' ').count(),
        3,
        "three newlines and no control byte else"
    );
}

/// Fault 52. A byte-order mark, carriage returns, blank lines and blanks around lines are read, and not spread.
#[test]
fn what_an_editor_leaves_around_lines_is_read() {
    let all = native_lines(3);
    let join = |between: &[u8], after: &[u8]| -> Vec<u8> {
        all.iter().flat_map(|line| [between, line, after, b"\n"].concat()).collect()
    };
    for before in [
        [b"\xef\xbb\xbf", &native(3)[..]].concat(),
        join(b"", b"\r"),
        join(b"\n\r\n", b""),
        join(b"  \t", b"  \t"),
        join(b"\xef\xbb\xbf", b""),
        [b"\n\n", &native(3)[..], b"\n \n\t"].concat(),
    ] {
        let scene = Scene::with(&before);
        let got = scene.read().0;
        assert_eq!((lines(&got), damages(&got)), (all.iter().map(|l| &l[..]).collect(), vec![]));
        assert!(scene.verify().is_sound());
        assert_eq!(scene.open().set_aside(), None, "blanks are nobody's damage");
        assert_eq!(scene.append("next").seq, 4);
        assert_eq!(seqs(&scene.read().0), [0, 1, 2, 3, 4]);
        let after = scene.bytes();
        assert!(after.starts_with(&before), "no byte of it was changed");
        let next = file_of(&[turn_line(4, "next")]);
        assert!(after.ends_with(&[b"\n", &next[..]].concat()), "and our line is plain");
    }
}

/// A file with three kinds of damage: a gap, a missing line and a repeated one.
fn damaged() -> Vec<u8> {
    let mut all = native_lines(8);
    all[2][40] ^= 1;
    all.remove(4);
    all.insert(6, all[5].clone());
    file_of(&all)
}

/// `repair` writes down what a person has seen: then `verify` is quiet, and a second `repair` has nothing to say.
#[test]
fn acknowledged_damage_is_still_listed_but_no_alarm_and_acknowledged_once() {
    let before = damaged();
    let scene = Scene::with(&before);
    let alarm = scene.verify();
    assert_eq!(alarm.damage.len(), 3, "{alarm:?}");
    assert!(alarm.damage.iter().all(|found| !found.acknowledged));

    let done = acknowledge_gaps(&mut scene.open(), "2026-11-15T18:07:00Z").unwrap();
    assert_eq!(done, named(&alarm));
    let report = scene.verify();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(named(&report), done, "listed as before");
    assert_eq!(report.records, alarm.records + 3);

    let once = scene.bytes();
    assert!(once.starts_with(&before), "a gap stays where it is");
    assert_eq!(acknowledge_gaps(&mut scene.open(), "2026-11-15T19:00:00Z").unwrap(), []);
    assert_eq!(scene.bytes(), once);
}

/// Damage that changed since somebody looked is new damage.
#[test]
fn acknowledged_damage_that_changes_is_an_alarm_again() {
    let scene = Scene::with(damaged());
    acknowledge_gaps(&mut scene.open(), "t").unwrap();
    let gap = scene.verify().damage[0].damage;
    scene.poke(gap.offset + 50, b"~");
    let report = scene.verify();
    assert!(!report.is_sound());
    let acknowledged: Vec<bool> = report.damage.iter().map(|found| found.acknowledged).collect();
    assert_eq!(acknowledged, [false, true, true]);
    assert_eq!(acknowledge_gaps(&mut scene.open(), "t").unwrap(), [gap], "and can be acknowledged again");
    assert!(scene.verify().is_sound());
}

/// Only a record that verifies acknowledges: another program's line that says so does not.
#[test]
fn a_line_without_checksum_acknowledges_nothing() {
    let scene = Scene::with(damaged());
    acknowledge_gaps(&mut scene.open(), "t").unwrap();
    let acknowledged = scene.bytes();
    let start = damaged().len();
    let mut forged = damaged();
    for line in acknowledged[start..].split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let mut value: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line).unwrap();
        value.remove("seq");
        value.remove("crc");
        forged.extend(serde_json::to_vec(&value).unwrap());
        forged.push(b'\n');
    }
    let report = Scene::with(&forged).verify();
    assert_eq!(report.unverified, 3);
    assert!(report.damage.iter().all(|found| !found.acknowledged), "{report:?}");
}

/// `repair` of another program's file that ends in half a line: opening leaves it, so acknowledging has to settle it.
#[test]
fn another_programs_torn_last_line_can_be_acknowledged() {
    let scene = Scene::with(
        [file_of(&[plain_line("one"), turn_line(2, "two")]), b"{\"role\":\"us".to_vec()].concat(),
    );
    assert!(!scene.verify().is_sound());
    acknowledge_gaps(&mut scene.open(), "t").unwrap();
    acknowledge_gaps(&mut scene.open(), "t").unwrap();
    assert!(scene.verify().is_sound(), "{:?}", scene.verify());
}

/// A report counts what can be read, and says whose file it is.
#[test]
fn a_report_counts_records_and_lines_of_others() {
    let mixed = [header_line(), turn_line(1, "a"), plain_line("b"), turn_line(3, "c")];
    let report = Scene::with(file_of(&mixed)).verify();
    assert_eq!((report.records, report.unverified, report.kind), (3, 1, Some(FileKind::Native)));
    let report = Scene::with(file_of(&[plain_line("a"), plain_line("b")])).verify();
    assert_eq!((report.records, report.unverified, report.kind), (2, 2, Some(FileKind::Foreign)));
    assert!(report.is_sound());
    let report = Scene::with(b"").verify();
    assert_eq!((report.records, report.kind, report.tail), (0, None, TailState::Clean));
}

/// While a writer holds the file, a bad end may be its record on the way: no alarm, but said.
#[test]
fn a_torn_end_under_a_writer_is_in_flight() {
    let scene = Scene::with(native(3));
    let log = scene.open();
    scene.append_raw(&turn_line(4, "on its way")[..30]);
    let report = scene.verify();
    assert!(
        matches!(report.tail, TailState::InFlight(d) if d.offset == native(3).len() as u64),
        "{report:?}"
    );
    assert!(report.is_sound());
    drop(log);
    assert!(matches!(scene.verify().tail, TailState::Torn(_)));
}

/// One bad line hides no other, also where its first bytes happen to be those of another format.
#[test]
fn a_log_whose_first_bytes_are_those_of_another_format_is_still_read() {
    for first in [&b"\xff\xfe"[..], b"\x1f\x8b", b"\x28\xb5\x2f\xfd"] {
        let mut bytes = native(3);
        bytes[..first.len()].copy_from_slice(first);
        let scene = Scene::with(&bytes);
        let (got, end) = scene.read();
        assert_eq!((seqs(&got), damages(&got).len(), end), (vec![1, 2, 3], 1, LogEnd::Clean));
    }
}

/// Only a record that is a gap record itself acknowledges: one that merely holds such words must not silence an alarm.
#[test]
fn a_record_that_only_mentions_a_gap_acknowledges_nothing() {
    let scene = Scene::with([native(1), b"garbage\n".to_vec(), file_of(&[turn_line(3, "three")])].concat());
    let place = scene.verify().damage[0].damage;
    let hash = format!("crc32c:{:08x}", crc32c::crc32c(b"garbage\n"));
    for (kind, sound) in [(r#""role":"user","m":{"kind":"gap"}"#, false), (r#""kind":"gap""#, true)] {
        let place = format!(r#""offset":{},"length":{},"hash":"{hash}""#, place.offset, place.length);
        let body = Body::parse(format!("{{{kind},{place}}}").as_bytes()).unwrap();
        scene.open().append(&body, Durability::Flush, Expect::Any).unwrap();
        assert_eq!(scene.verify().is_sound(), sound, "{kind}");
    }
}
