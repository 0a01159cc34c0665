//! Lines that are gone, doubled, moved, glued, half there or replaced by nothing: what power cuts, other programs and
//! editors leave behind.

use serde_json::json;

use crate::support::{TestEnvironment, records};

/// The lines of a session of so many turns, the header first.
fn lines(turns: u64) -> Vec<String> {
    let turn = |seq| records::turn(seq, &format!("turn {seq}"));
    std::iter::once(records::header("a")).chain((1..=turns).map(turn)).collect()
}

/// Returns the reasons that `verify` gives for these bytes, in order, and the records that can still be read.
#[track_caller]
fn damage_in(bytes: impl AsRef<[u8]>) -> (Vec<String>, Vec<u64>) {
    let env = TestEnvironment::new();
    env.plant("a", bytes);
    let (report, code) = env.verify("a");
    let found = report["damage"].as_array().unwrap();
    assert_eq!(code, if found.is_empty() { 0 } else { 3 }, "{report}");
    let shown = env.manent(&["show", "a", "--json"]);
    shown.assert_code(0);
    assert_eq!(shown.stderr().lines().count(), found.len(), "a reader names each place too: {shown}");
    let seq = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap();
    let reasons = found.iter().map(|place| place["reason"].as_str().unwrap().to_owned()).collect();
    (reasons, shown.stdout().lines().map(seq).collect())
}

/// Damage that is acknowledged is still listed and no longer an alarm, and nothing was rewritten.
#[track_caller]
fn assert_repairable(bytes: &[u8]) {
    let env = TestEnvironment::new();
    env.plant("a", bytes);
    let before = env.records("a");
    env.manent(&["repair", "a"]).assert_code(0);
    let (report, code) = env.verify("a");
    assert_eq!(code, 0, "{report}");
    assert!(report["damage"].as_array().unwrap().iter().all(|place| place["acknowledged"] == json!(true)));
    let after = env.bytes("a");
    assert!(after.starts_with(bytes) || !env.torn_copies("a").is_empty(), "nothing is rewritten");
    assert!(env.records("a").starts_with(&before));
    env.manent(&["repair", "a"]).assert_code(0);
    assert_eq!(env.bytes("a"), after, "twice is once");
}

/// Acceptance list 39.
#[test]
fn a_line_that_is_gone_doubled_or_moved_breaks_the_numbers_and_is_reported() {
    let all = lines(5);
    let without = |n: usize| {
        all.iter().enumerate().filter(|(at, _)| *at != n).map(|(_, line)| line).collect::<Vec<_>>()
    };
    assert_eq!(damage_in(records::file(&without(3))), (vec!["missing".into()], vec![1, 2, 4, 5]));
    assert_eq!(damage_in(records::file(&without(0))).0, ["no_header"]);
    let doubled = [&all[..3], &all[2..]].concat();
    assert_eq!(damage_in(records::file(&doubled)).0, ["out_of_order"]);
    let mut swapped = all.clone();
    swapped.swap(2, 3);
    let (reasons, seqs) = damage_in(records::file(&swapped));
    assert!(!reasons.is_empty() && seqs.len() == 5, "{reasons:?} {seqs:?}");
    for bytes in [records::file(&without(3)), records::file(&doubled), records::file(&swapped)] {
        assert_repairable(&bytes);
    }
}

/// Acceptance list 40.
#[test]
fn a_record_of_another_session_breaks_the_numbers_and_is_reported() {
    let mut all = lines(5);
    all.insert(3, records::turn(17, "of another session"));
    let (reasons, seqs) = damage_in(records::file(&all));
    assert!(!reasons.is_empty(), "the break is reported");
    assert!([1, 2, 3, 4, 5].iter().all(|seq| seqs.contains(seq)), "and hides nothing: {seqs:?}");
    assert_repairable(&records::file(&all));
}

/// Acceptance list 41: the head of one record and the tail of another can be valid JSON.
#[test]
fn a_splice_of_two_records_is_no_record() {
    let all = lines(4);
    let (head, tail) = (&all[1], &all[2]);
    let cut = head.find(r#","content""#).unwrap();
    let splice = format!("{}{}", &head[..cut], &tail[tail.find(r#","content""#).unwrap()..]);
    assert!(serde_json::from_str::<serde_json::Value>(&splice).is_ok(), "{splice}");
    let spliced = records::file(&[&all[0], &splice, &all[3], &all[4]]);
    assert_eq!(damage_in(&spliced), (vec!["checksum".into()], vec![3, 4]));
    assert_repairable(&spliced);
}

/// Acceptance list 6.
#[test]
fn a_tail_of_nuls_is_torn_and_set_aside() {
    let good = records::file(&lines(2));
    let record = records::turn(3, "turn 3").len() + 1;
    for nuls in [1, 17, record, 3 * record, 4096, 8192] {
        let env = TestEnvironment::new();
        env.plant("a", [&*good, &*vec![0; nuls]].concat());
        let (report, code) = env.verify("a");
        assert_eq!((code, &report["tail"]), (3, &json!("torn")), "{nuls}: {report}");
        assert_eq!(env.append("a", "turn 3"), 3);
        assert_eq!(env.torn_copies("a"), [vec![0; nuls]]);
        env.assert_clean("a");
    }
}

/// Acceptance list 7.
#[test]
fn a_hole_of_nuls_between_records_is_a_gap_and_the_rest_is_kept() {
    let all = lines(4);
    for nuls in [1, 4096, 100_000] {
        let mut bytes = records::file(&all[..3]);
        bytes.extend(vec![0; nuls]);
        bytes.extend(records::file(&all[4..]));
        assert_eq!(damage_in(&bytes), (vec!["nul".into()], vec![1, 2, 4]), "{nuls}");
        assert_repairable(&bytes);
    }
}

/// Acceptance list 8: a writer that retries after a torn line leaves it in the middle.
#[test]
fn half_a_record_before_whole_ones_is_a_gap() {
    let mut all = lines(3);
    all[2].truncate(40);
    let bytes = records::file(&all);
    assert_eq!(damage_in(&bytes), (vec!["not_json".into()], vec![1, 3]));
    assert_repairable(&bytes);
}

/// Acceptance list 9: half a record, and a whole one on the same line.
#[test]
fn a_whole_record_glued_to_half_of_one_is_read() {
    let all = lines(3);
    let glued = format!("{}{}", &all[2][..40], all[3]);
    let bytes = records::file(&[&all[0], &all[1], &glued]);
    let (reasons, seqs) = damage_in(&bytes);
    assert_eq!((reasons.len(), seqs), (1, vec![1, 3]));
    assert_repairable(&bytes);
}

/// Acceptance list 10.
#[test]
fn two_records_without_a_newline_between_them_are_both_read() {
    let all = lines(3);
    let bytes = records::file(&[&all[0], &format!("{}{}", all[1], all[2]), &all[3]]);
    assert_eq!(damage_in(&bytes).1, [1, 2, 3]);
}

/// Acceptance list 11.
#[test]
fn a_last_record_without_its_newline_is_read_and_completed_by_the_next_append() {
    let mut bytes = records::file(&lines(2));
    bytes.pop();
    assert_eq!(damage_in(&bytes), (vec![], vec![1, 2]));
    let env = TestEnvironment::new();
    env.plant("a", &bytes);
    assert_eq!(env.append("a", "three"), 3);
    assert!(env.bytes("a").starts_with(&[&*bytes, b"\n{\"seq\":3,"].concat()));
    assert_eq!(env.torn_copies("a").len(), 0);
    env.assert_clean("a");
}

/// Acceptance list 47 and 48: bytes that are no text hurt the record they stand in, and no other.
#[test]
fn invalid_text_is_a_gap_of_one_record() {
    let all = lines(3);
    let hurts: [(&str, &[u8]); 5] = [
        ("invalid UTF-8", b"\xff\xfe"),
        ("a cut character", b"\xe2\x82"),
        ("a surrogate in UTF-8", b"\xed\xa0\x80"),
        ("a raw control character", b"\x01"),
        ("a raw NUL", b"\0"),
    ];
    for (what, hurt) in hurts {
        let line = all[2].as_bytes();
        let at = line.windows(4).position(|w| w == b"turn").unwrap();
        let bad = [&line[..at], hurt, &line[at..]].concat();
        let bytes = records::file(&[all[0].as_bytes(), all[1].as_bytes(), &bad, all[3].as_bytes()]);
        let (reasons, seqs) = damage_in(&bytes);
        assert_eq!((reasons.len(), seqs), (1, vec![1, 3]), "{what}");
        assert_repairable(&bytes);
    }
}

/// Many kinds of damage in one file: each is named, and each record that is whole is read.
#[test]
fn several_damaged_places_are_all_named() {
    let mut all = lines(9);
    all[2].truncate(30);
    all[4].replace_range(20..21, "?");
    all.remove(6);
    let mut bytes = records::file(&all);
    bytes.extend_from_slice(b"{\"seq\":10,\"ro");
    assert_eq!(damage_in(&bytes).1, [1, 3, 5, 7, 8, 9]);
    assert_repairable(&bytes);
}
