//! `verify` of the engine and a second verifier in Python, which follows docs/FORMAT.md alone, must agree.
//!
//! A file kept for twenty years is read by a program nobody has written yet: two readers of one document must agree on
//! every file, however it was hurt. Deep nesting, half surrogate pairs in names and huge integers are left out, for
//! the reasons given in `python_classify.rs`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use manent_log::{Error, RealDisk, TailState, acknowledge_gaps, verify};
use serde_json::{Value, json};

use crate::support::{Rng, Scene, file_of, header_line, native_lines, plain_line, record, turn_line};

const VARIANTS: usize = 1_500;
/// A line of so many bytes is too long.
const TOO_LONG_BYTES: usize = 64 << 20;

/// The lines of whole files, one of each kind: native, a fork, native with another program's lines, adopted, adopted
/// from a program with a `seq` of its own, foreign, and foreign with either of our marks.
fn whole_files() -> Vec<Vec<Vec<u8>>> {
    let turns = |from: u64, to: u64| (from..=to).map(|seq| turn_line(seq, &format!("turn {seq}")));
    let plain = |count: usize| (1..=count).map(|n| plain_line(&format!("line {n}")));
    let fork = record(0, r#""meta":{"format":1,"id":"x","key":"telegram:alice","parent":{"upto":3}}"#);
    let own_seq = |n: u64| format!(r#"{{"seq":{n},"text":"theirs"}}"#).into_bytes();
    vec![
        native_lines(6),
        std::iter::once(fork).chain(turns(4, 9)).collect(),
        [native_lines(2), plain(2).collect(), turns(5, 6).collect()].concat(),
        plain(3).chain(turns(4, 6)).collect(),
        (1..=3).map(own_seq).chain(turns(4, 5)).chain(plain(1)).collect(),
        plain(6).collect(),
        (1..=3).map(own_seq).chain([br#"{"text":"x","crc":"00000000"}"#.to_vec()]).chain(plain(2)).collect(),
    ]
}

/// Flips bits, or loses, adds or wipes bytes: what disks, file systems and transfers do.
fn hurt_bytes(mut bytes: Vec<u8>, dice: &mut Rng) -> Vec<u8> {
    let at = dice.below(bytes.len() + 1);
    let to = (at + 1 + dice.below(150)).min(bytes.len()).max(at);
    match dice.below(9) {
        0..=2 if !bytes.is_empty() => {
            for _ in 0..*dice.pick(&[1, 1, 1, 2, 5]) {
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
            }
        }
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(..at)),
        5 => drop(bytes.drain(at..to)),
        6 => bytes[at..to].fill(0),
        7 => drop(bytes.splice(at..at, vec![0; 1 + dice.below(40)])),
        _ => bytes.insert(at, *dice.pick(b"\0\n\xff \r}{,\"x")),
    }
    bytes
}

/// Removes, repeats, moves, glues and adds lines: what people, editors and other programs do.
fn hurt_lines(bytes: &[u8], dice: &mut Rng) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let (at, other) = (dice.below(lines.len()), dice.below(lines.len()));
    match dice.below(10) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(*dice.pick(&[at, other]), lines[at].clone()),
        2 => lines.swap(at, other),
        3 if at + 1 < lines.len() => {
            let next = lines.remove(at + 1);
            let glue = *dice.pick(&[b"" as &[u8], b"", b" ", b"\0", b"x", b"\r", b"\xef\xbb\xbf", b"{}"]);
            lines[at].extend([glue, &next].concat());
        }
        4 => lines.insert(at, dice.pick(GARBAGE).to_vec()),
        5 => lines.insert(at, dice.pick(FOREIGN).to_vec()),
        6 => lines.insert(at, dice.pick(&odd_records()).clone()),
        7 => lines.insert(
            at,
            dice.pick(&[b"" as &[u8], b" ", b"\t\r", b"\xef\xbb\xbf", b"\xef\xbb\xbf \r"]).to_vec(),
        ),
        8 => {
            let text = if dice.below(2) == 0 { &FOREIGN[0] } else { dice.pick(FOREIGN) };
            lines[at].extend_from_slice(text);
        }
        _ => {
            let before = *dice.pick(&[b"" as &[u8], b"\xef\xbb\xbf", b" \t", b"\xef\xbb\xbf "]);
            let after = *dice.pick(&[b"\r" as &[u8], b" ", b""]);
            let (from, to) = (at.min(other), at.max(other));
            for line in lines[from..=to].iter_mut().filter(|line| !line.is_empty()) {
                *line = [before, line, after].concat();
            }
        }
    }
    lines.join(&b'\n')
}

/// Whole records that no writer would put there, and lines that are nearly records.
fn odd_records() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        [0, 1, 2, 5, 8, (1 << 53) - 1].iter().map(|seq| turn_line(*seq, "moved")).collect();
    all.push(header_line());
    all.push(record(0, r#""meta":{"parent":{"upto":6}}"#));
    all.push(record(3, r#""not":json"#));
    all.push(record(4, r#""a":{"b":1,"crc":"00000000"}"#));
    all.push(record(5, r#""kind":"gap","offset":0,"length":0,"hash":"crc32c:00000000""#));
    all.push(record(1 << 53, r#""a":1"#));
    all.push([b"{\"a\":", turn_line(5, "inside").as_slice(), b"}"].concat());
    all.push([b"{\"seq\":1,\"a\":", turn_line(5, "inside").as_slice(), b",\"b\":1}"].concat());
    all.push([b"{\"a\":", turn_line(5, "inside").as_slice(), b",\"crc\":\"00000000\"}"].concat());
    all
}

/// A file hurt one to three times, some of them spliced with another.
fn hurt(mut bytes: Vec<u8>, wholes: &[Vec<u8>], dice: &mut Rng) -> Vec<u8> {
    for _ in 0..*dice.pick(&[1, 1, 2, 3]) {
        bytes = match dice.below(12) {
            0 => {
                let other = dice.pick(wholes);
                let (cut, from) = (dice.below(bytes.len() + 1), dice.below(other.len() + 1));
                [&bytes[..cut], &other[from..]].concat()
            }
            1..=5 => hurt_bytes(bytes, dice),
            _ => hurt_lines(&bytes, dice),
        };
    }
    bytes
}

/// Returns the file after its damage was acknowledged; unchanged if the engine will not write to it.
fn acknowledged(bytes: Vec<u8>) -> Vec<u8> {
    let scene = Scene::with(&bytes);
    let Ok(mut log) = scene.try_open() else { return bytes };
    match acknowledge_gaps(&mut log, "2026-11-15T18:07:00.123Z") {
        Ok(_) | Err(Error::Full { .. }) => scene.bytes(),
        Err(e) => panic!("{e}"),
    }
}

/// Files of which hardly anything was written, or that are nobody's log.
fn beginnings(dice: &mut Rng) -> Vec<u8> {
    let header = header_line();
    let before =
        *dice.pick(&[b"" as &[u8], b"", b"", b"\n", b" ", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b"]);
    let after =
        *dice.pick(&[b"" as &[u8], b"\n", b"\0", b"\0\0\0\n", b"\0x", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0x"]);
    let last = match dice.below(4) {
        0 => *dice.pick(GARBAGE),
        1 => *dice.pick(FOREIGN),
        _ => b"",
    };
    [before, &header[..dice.below(20)], after, last].concat()
}

/// Makes files with lines around the length at which a line becomes too long.
fn too_long() -> Vec<Vec<u8>> {
    let [first, last] = [turn_line(1, "first"), turn_line(2, "last")].map(|line| file_of(&[line]));
    let header = file_of(&[header_line()]);
    let filled = |byte: u8, count: usize| vec![byte; count];
    vec![
        [header.clone(), first.clone(), filled(0, TOO_LONG_BYTES), last.clone()].concat(),
        [header.clone(), first.clone(), filled(0, TOO_LONG_BYTES), b"\n".to_vec(), last.clone()].concat(),
        [header, first, filled(b'x', TOO_LONG_BYTES), b"\n".to_vec(), last].concat(),
    ]
}

/// The report as the second verifier writes it.
fn engine_says(path: &Path) -> Value {
    let report = match verify(&RealDisk::shared(), path) {
        Ok(report) => report,
        Err(Error::NotALog { .. }) => return json!({ "error": "not a log" }),
        Err(e) => panic!("{}: {e}", path.display()),
    };
    let mut damage: Vec<Value> = report
        .damage
        .iter()
        .map(|found| {
            let (damage, acknowledged) = (found.damage, found.acknowledged);
            json!({ "offset": damage.offset, "length": damage.length, "reason": damage.reason.word(),
                "acknowledged": acknowledged })
        })
        .collect();
    let tail = match report.tail {
        TailState::Clean => "clean",
        TailState::Torn(torn) | TailState::InFlight(torn) => {
            let (offset, length) = (torn.offset, torn.length);
            damage
                .push(json!({ "offset": offset, "length": length, "reason": "torn", "acknowledged": false }));
            "torn"
        }
    };
    json!({ "records": report.records, "unverified": report.unverified, "damage": damage, "tail": tail })
}

/// Asks the verifier in Python about all files at once.
fn second_verifier_says(paths: &[PathBuf]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/format/verify.py");
    let mut python = Command::new("python3")
        .arg("-B")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("python3 must run the second verifier: {e}"));
    let mut stdin = python.stdin.take().unwrap();
    let input = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n");
    let feeder = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = python.wait_with_output().unwrap();
    feeder.join().unwrap().unwrap();
    assert!(output.status.success());
    output.stdout.split_inclusive(|b| *b == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Writes every damaged file, each of them the same in every run.
fn damaged_files(dir: &Path) -> Vec<PathBuf> {
    let mut dice = Rng::new(2026);
    let wholes: Vec<Vec<u8>> = whole_files().iter().map(|lines| file_of(lines)).collect();
    let mut paths = Vec::new();
    let mut keep = |bytes: Vec<u8>| {
        let path = dir.join(format!("{}.jsonl", paths.len()));
        std::fs::write(&path, bytes).unwrap();
        paths.push(path);
    };
    for whole in &wholes {
        keep(whole.clone());
    }
    for n in 0..VARIANTS {
        let mut bytes = hurt(dice.pick(&wholes).clone(), &wholes, &mut dice);
        match n % 20 {
            0 | 10 => bytes = beginnings(&mut dice),
            1 => bytes = acknowledged(bytes),
            2 => bytes = hurt(acknowledged(bytes), &wholes, &mut dice),
            _ => {}
        }
        keep(bytes);
    }
    too_long().into_iter().for_each(&mut keep);
    paths
}

/// If the engine and the document part ways, a file that one reader calls sound another calls damaged.
#[test]
fn a_second_verifier_written_from_the_format_agrees_on_every_damaged_file() {
    let dir = tempfile::tempdir().unwrap();
    let paths = damaged_files(dir.path());
    let ours: Vec<Value> = paths.iter().map(|path| engine_says(path)).collect();
    let theirs = second_verifier_says(&paths);
    assert_eq!(ours.len(), theirs.len());
    let differ: Vec<String> = (0..paths.len())
        .filter(|n| ours[*n] != theirs[*n])
        .map(|n| {
            let bytes = std::fs::read(&paths[n]).unwrap();
            let shown = bytes[..bytes.len().min(4_000)].escape_ascii();
            format!("{shown}\nengine: {}\nsecond: {}", ours[n], theirs[n])
        })
        .collect();
    assert!(differ.is_empty(), "{} of {}:\n{}", differ.len(), paths.len(), differ.join("\n\n"));

    // The files are worth nothing if they miss a way to be damaged.
    let report = Value::from(ours).to_string();
    for word in REASONS {
        let count = report.matches(&format!(r#""reason":"{word}""#)).count();
        assert!(count >= 10, "{word} only {count} times");
    }
    for word in
        [r#""acknowledged":true"#, r#""tail":"clean""#, r#""tail":"torn""#, r#""damage":[]"#, "not a log"]
    {
        assert!(report.matches(word).count() >= 10, "hardly any {word}");
    }
    assert!(report.contains("too_long"));
}

const REASONS: [&str; 10] = [
    "checksum",
    "half_marked",
    "nul",
    "not_utf8",
    "not_json",
    "not_object",
    "missing",
    "no_header",
    "out_of_order",
    "torn",
];

const GARBAGE: &[&[u8]] = &[
    b"garbage",
    b"{",
    b"{\"a\":1",
    b"[1,2]",
    b"\"text\"",
    b"null",
    b"\0\0\0",
    b"\xff\xfe",
    b"\xc2\xa0",
    b"{\"a\":NaN}",
    b"{\"a\":1}{\"b\":2}",
    b"{\"seq\":",
    b"{\"seq\":0,",
    b"{\"seq\":5,\"a\":1",
    b",\"crc\":\"01234567\"}",
    b"{\"seq\":3,\"a\":1,\"crc\":\"01234567\"}",
    b"{\"seq\":03,\"crc\":\"01234567\"}",
    b"{\"a\":\"\x01\"}",
    b"\xef\xbb\xbf\xef\xbb\xbf{\"a\":1}",
    b" \xef\xbb\xbf{\"a\":1}",
    b"\x0b",
];

const FOREIGN: &[&[u8]] = &[
    b"{\"role\":\"user\",\"content\":\"another program's\"}",
    b"{}",
    b"{\"seq\":9}",
    b"{\"crc\":\"0\"}",
    b"{\"s\\u0065q\":1}",
    b"{\"seq\" :2,\"crc\":\"00000000\"}",
    b"{\"a\":1,\"crc\":\"12345678\"}",
    b"{\"seq\":2,\"a\":1,\"crd\":\"12345678\"}",
    b"{\"seq\":2,\"a\":1,\"crc\":\"ABCDEF01\"}",
    b"{\"a\":1, \"crc\":\"12345678\"}",
    b"{\"x\":{\"seq\":1,\"crc\":\"00000000\"}}",
    b"{\"kind\":\"gap\",\"offset\":0,\"length\":0,\"hash\":\"crc32c:00000000\"}",
    b"  {\"b\":2}\t\r",
    b"\xef\xbb\xbf {\"b\":2} ",
    b"{\"a\":1,\"a\":1e400}",
];
