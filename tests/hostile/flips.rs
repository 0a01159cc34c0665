//! One bit wrong, one byte too few: a sample of what the engine's tests do exhaustively, through the real binary.

use crate::support::{TestEnvironment, records};

fn sample() -> Vec<u8> {
    records::session("a", &["the first", "the second, somewhat longer", "3"])
}

/// The offset of the line in which a byte stands, and how many lines stand before it.
fn line_of(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = &bytes[..at];
    let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    (start, before.split(|b| *b == b'\n').count() - 1)
}

/// Acceptance list 37.
#[test]
fn a_flipped_bit_is_named_with_its_place_and_hides_no_other_record() {
    let good = sample();
    let lines: Vec<&str> = std::str::from_utf8(&good).unwrap().lines().collect();
    let env = TestEnvironment::new();
    for bit in (0..good.len() * 8).step_by(7) {
        let (at, case) = (bit / 8, format!("bit {} of byte {}", bit % 8, bit / 8));
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (bit % 8);
        env.plant("a", &bytes);
        let (report, code) = env.verify("a");
        assert_eq!(code, 3, "{case} is damage: {report}");
        let (start, number) = line_of(&good, at);
        let damage = report["damage"].as_array().unwrap();
        let named = damage.iter().any(|found| {
            let (offset, length) = (found["offset"].as_u64().unwrap(), found["length"].as_u64().unwrap());
            (offset..offset + length).contains(&(at as u64)) && offset >= start as u64
        });
        assert!(named, "{case}: {report}");

        // The other records are all there; at a lost newline so are the two around it.
        let shown = env.manent(&["show", "a", "--json"]);
        shown.assert_code(0);
        let (shown, said) = (shown.stdout(), shown.stderr());
        assert!(said.starts_with("warning: a: "), "{case}: {said}");
        for (other, line) in lines.iter().enumerate().skip(1) {
            let hurt = other == number && good[at] != b'\n';
            assert_eq!(shown.contains(line), !hurt, "{case}, record {other}: {shown}");
        }
    }
}

/// Acceptance list 38.
#[test]
fn a_file_cut_anywhere_reads_as_the_records_before_the_cut() {
    let good = sample();
    let lines: Vec<&str> = std::str::from_utf8(&good).unwrap().lines().collect();
    let env = TestEnvironment::new();
    // Each step of the walk meets every part of a line; the ends of lines are met in any case.
    let borders = good.iter().enumerate().filter(|(_, b)| **b == b'\n').flat_map(|(at, _)| [at, at + 1]);
    let mut cuts: Vec<usize> = (1..good.len()).step_by(8).chain(borders).collect();
    cuts.sort_unstable();
    cuts.dedup();
    for cut in cuts {
        env.plant("a", &good[..cut]);
        let (_, whole) = line_of(&good, cut);
        // The last newline may be missing; then all of its record must be there.
        let whole = whole + usize::from(good[cut..].first() == Some(&b'\n'));
        let shown = env.manent(&["show", "a", "--json"]);
        shown.assert_code(0);
        let expected: Vec<&str> = lines.iter().take(whole).skip(1).copied().collect();
        assert_eq!(shown.stdout().lines().collect::<Vec<_>>(), expected, "cut at {cut}");
        let border = good[cut - 1] == b'\n' || good[cut..].first() == Some(&b'\n');
        let (report, code) = env.verify("a");
        assert_eq!(code, if border { 0 } else { 3 }, "cut at {cut}: {report}");
        assert_eq!(report["tail"], if border { "clean" } else { "torn" }, "cut at {cut}");

        assert_eq!(env.append("a", "next"), whole.max(1) as u64, "cut at {cut}");
        env.assert_clean("a");
        for copy in env.sessions().read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            std::fs::remove_file(copy).unwrap();
        }
    }
}
