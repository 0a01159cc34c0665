//! One line, judged in all three kinds of file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manent_log::frame::{self, Class, FileKind};

fuzz_target!(|data: &[u8]| {
    judge(data);
    // A random line never has a right checksum. The same line with one is judged too.
    if let Some(sealed) = seal(data) {
        assert!(frame::verify(&sealed).is_some(), "a line that was sealed as the format says is no record");
        judge(&sealed);
    }
});

fn judge(line: &[u8]) {
    use FileKind::{Adopted, Foreign, Native};
    let [native, adopted, foreign] = [Native, Adopted, Foreign].map(|kind| frame::classify(line, kind));
    let verified = frame::verify(line);
    for class in [native, adopted, foreign] {
        if let Some(seq) = verified {
            assert_eq!(class, Class::Record { seq }, "a line that verifies is a record everywhere");
        }
    }
    if let Class::Record { seq } = native {
        assert!(seq <= frame::SEQ_MAX);
        assert_eq!([adopted, foreign], [native, native], "a record is one everywhere");
        // What surrounds it must be the blanks that are trimmed, and what is left must verify by itself.
        let inner = trimmed(line);
        assert_eq!(frame::verify(inner), Some(seq), "a record whose own bytes do not verify");
        let body = frame::body_of(inner);
        let head = format!(r#"{{"seq":{seq}"#).into_bytes();
        let end = &inner[inner.len() - 18..];
        let rebuilt = [&head[..], b",", body, end].concat();
        let without_members = body.is_empty() && [&head, end].concat() == inner;
        assert!(rebuilt == inner || without_members, "number, body and checksum are the whole record");
    }
    // The columns of the table only ever grow more lenient from left to right.
    if adopted == Class::Foreign {
        assert_eq!(foreign, Class::Foreign);
    }
    if native == Class::Foreign {
        assert_eq!([adopted, foreign], [native, native]);
    }
    assert_eq!(native == Class::Blank, foreign == Class::Blank);
    assert_eq!(native == Class::Blank, trimmed(line).is_empty());
}

/// Puts the beginning and the end of a record around bytes that have no newline: the first byte chooses how.
fn seal(data: &[u8]) -> Option<Vec<u8>> {
    let (&how, rest) = data.split_first()?;
    let seq = u64::from(how) * 7_919;
    let mut line = format!(r#"{{"seq":{seq},"#).into_bytes();
    line.extend(rest.iter().filter(|b| **b != b'\n'));
    let crc = crc32c::crc32c(&line);
    line.extend(format!(r#","crc":"{crc:08x}"}}"#).into_bytes());
    Some(line)
}

/// The trimming that the format describes, written a second time.
fn trimmed(line: &[u8]) -> &[u8] {
    let mut line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    while let [b' ' | b'\t' | b'\r', rest @ ..] = line {
        line = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r'] = line {
        line = rest;
    }
    line
}
