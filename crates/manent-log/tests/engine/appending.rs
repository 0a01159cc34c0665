//! Appending: limits, numbers, receipts, and bytes that come back as they were given.

use manent_log::frame::{self, RECORD_BYTES_MAX};
use manent_log::{Body, Durability, Error, Expect, Log, LogEnd, Options, Reader, RealDisk};

use crate::support::{
    ReadItem, RunAs, Scene, damages, drain, file_of, header_line, lines, mode_of, native, plain_line, record,
    seqs, spawn_child, turn, turn_line, wait_until_ready,
};

/// The body of a record that is on disk, as it was given.
fn body_at(scene: &Scene, nth: usize) -> String {
    let got = scene.read().0;
    String::from_utf8(frame::body_of(lines(&got)[nth]).to_vec()).unwrap()
}

/// Header and first record are one write, so that no session is ever an empty shell: as long as nothing was
/// appended there is nothing in the file.
#[test]
fn no_log_ever_has_a_header_and_nothing_else() {
    let scene = Scene::new();
    let mut log = scene.open();
    assert_eq!(scene.bytes(), b"");
    let conflict = log.append(&turn("x"), Durability::Sync, Expect::Seq(9)).unwrap_err();
    assert!(matches!(conflict, Error::Conflict { expected: 9, next: 1, .. }), "{conflict}");
    assert_eq!(scene.bytes(), b"", "a refused first append writes no header");
    assert_eq!(log.append_batch(&[], Durability::Sync, Expect::Any).unwrap(), []);
    assert_eq!(scene.bytes(), b"", "nor does one of nothing");
    log.append(&turn("x"), Durability::Sync, Expect::Seq(1)).unwrap();
    assert_eq!(scene.bytes(), file_of(&[header_line(), turn_line(1, "x")]));
}

/// Fault 43. A record over the limit is refused before a byte of it, or of its batch, is written.
#[test]
fn a_record_over_the_limit_is_refused_before_any_byte_is_written() {
    let scene = Scene::with(native(2));
    let before = scene.bytes();
    let mut log = scene.open();
    let huge = turn(&"x".repeat(RECORD_BYTES_MAX));
    for batch in [vec![huge.clone()], vec![turn("small"), huge]] {
        let refused = log.append_batch(&batch, Durability::Sync, Expect::Any).unwrap_err();
        assert!(
            matches!(refused, Error::TooLarge { max, .. } if max == RECORD_BYTES_MAX as u64),
            "{refused}"
        );
        assert_eq!(scene.bytes(), before);
    }
    assert_eq!(log.append(&turn("small"), Durability::Sync, Expect::Any).unwrap().seq, 3);
}

/// The largest record that is taken is given back, forwards and backwards, and is not cut as too long.
#[test]
fn the_largest_record_that_is_taken_can_be_read() {
    let scene = Scene::new();
    let mut log = scene.open();
    // The members of a record stand between `{"seq":`, at most 16 digits, a comma, and the crc with its newline.
    let room = RECORD_BYTES_MAX - turn("").as_bytes().len() - (7 + 16 + 1 + 18 + 1);
    let over = turn(&"x".repeat(room + 16));
    assert!(matches!(log.append(&over, Durability::Flush, Expect::Any), Err(Error::TooLarge { .. })));
    let largest = turn(&"x".repeat(room));
    log.append(&largest, Durability::Flush, Expect::Any).unwrap();
    drop(log);
    assert!(scene.len() > RECORD_BYTES_MAX as u64);
    let log = scene.open();
    assert_eq!((log.set_aside(), log.next_seq()), (None, 2));
    let (got, end) = scene.read();
    assert_eq!((seqs(&got), end), (vec![0, 1], LogEnd::Clean));
    assert!(frame::body_of(lines(&got)[1]) == largest.as_bytes());
    assert_eq!(seqs(&scene.read_back()), [1, 0]);
}

/// `--expect-seq`: whoever decided on an old state writes nothing.
#[test]
fn an_append_that_expected_another_number_writes_nothing() {
    let scene = Scene::with(native(3));
    let before = scene.bytes();
    let mut log = scene.open();
    for expected in [0, 1, 3, 5, u64::MAX] {
        let conflict = log.append(&turn("x"), Durability::Flush, Expect::Seq(expected)).unwrap_err();
        assert!(matches!(conflict, Error::Conflict { next: 4, .. }), "{conflict}");
        assert_eq!(scene.bytes(), before);
    }
    assert_eq!(log.append(&turn("x"), Durability::Flush, Expect::Seq(4)).unwrap().seq, 4);
}

/// A receipt's offset is where its line begins: an index built from receipts must find the records.
#[test]
fn each_receipt_of_a_batch_says_where_its_record_stands() {
    let mut unterminated = native(2);
    unterminated.pop();
    for (before, first) in [(b"".to_vec(), 1), (native(2), 3), (unterminated, 3)] {
        let scene = Scene::with(before);
        let bodies: Vec<Body> = (0..20).map(|n| turn(&"z".repeat(n * 7))).collect();
        let mut log = scene.open();
        let mut receipts = log.append_batch(&bodies, Durability::Group, Expect::Seq(first)).unwrap();
        receipts.push(log.append(&turn("alone"), Durability::Sync, Expect::Any).unwrap());
        let file = scene.bytes();
        for (nth, receipt) in receipts.iter().enumerate() {
            assert_eq!(receipt.seq, first + nth as u64);
            let line = file[receipt.offset as usize..].split(|b| *b == b'\n').next().unwrap();
            assert_eq!(frame::verify(line), Some(receipt.seq));
            if let Some(body) = bodies.get(nth) {
                assert_eq!(frame::body_of(line), body.as_bytes());
                assert_eq!(receipt.durability, Durability::Group);
            }
        }
        assert_eq!(seqs(&scene.read().0), (0..first + 21).collect::<Vec<_>>());
    }
}

/// Faults 44, 46, 50. Values come back byte for byte: depth, digits, signs and repeated keys inside them.
#[test]
fn values_come_back_byte_for_byte() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_objects = format!("{}1{}", r#"{"a":"#.repeat(50_000), "}".repeat(50_000));
    let digits = "0.1000000000000000055511151231257827021181";
    let scene = Scene::new();
    let mut log = scene.open();
    let mut given = Vec::new();
    for value in [
        &*deep,
        &deep_objects,
        digits,
        "1e400",
        "-1E-400",
        "18446744073709551616",
        "-0",
        "-0.0",
        "1.0",
        r#"{"k":1,"k":2,"k":{"k":3,"k":4}}"#,
        r#""\u0000 \/ \u00e9 \ud83d\ude00 é""#,
        r#"{ "a" : [ 1 , 2 ] }"#,
        r#"{"seq":7,"crc":"x"}"#,
    ] {
        let mut body = Body::new();
        body.string("kind", "x").json("v", serde_json::from_str(value).unwrap());
        let parsed = Body::parse(format!(r#"{{"kind":"x","v":{value}}}"#).as_bytes()).unwrap();
        assert_eq!(body, parsed, "both ways to a body keep the bytes");
        assert!(body.as_str().ends_with(value));
        log.append(&body, Durability::Flush, Expect::Any).unwrap();
        given.push(body);
    }
    drop(log);
    for (nth, body) in given.iter().enumerate() {
        assert!(body_at(&scene, nth + 1) == body.as_str());
    }
    assert!(scene.verify().is_sound());
}

/// A tool's output may hold lines of a log. If the record that holds them is torn right behind one of them, that one
/// must not rise as a record that nobody ever wrote.
#[test]
fn a_record_inside_a_torn_record_is_never_taken_for_one() {
    let inner = String::from_utf8(turn_line(2, "inner")).unwrap();
    let wrapped =
        format!(r#"{{"kind":"x","a":{inner},"b":[{inner},{{"c":{inner}}}],"content":"{}"}}"#, "tail");
    let mut quoted = turn(&format!("{inner}\n{inner}"));
    quoted.json("raw", serde_json::from_str(&format!("[{inner}]")).unwrap());
    for body in [Body::parse(wrapped.as_bytes()).unwrap(), quoted] {
        let scene = Scene::with(native(1));
        let receipt = scene.open().append(&body, Durability::Flush, Expect::Any).unwrap();
        let whole = scene.bytes();
        for cut in receipt.offset as usize..whole.len() - 1 {
            scene.set_len(cut as u64);
            let (got, end) = scene.read();
            assert_eq!(seqs(&got), [0, 1], "cut at {cut}: {end:?}");
            assert_eq!(damages(&got), []);
            scene.append_raw(&whole[cut..]);
        }
        assert_eq!(seqs(&scene.read().0), [0, 1, 2]);
        // Torn and then glued to what came after: only what came after is a record.
        let next = turn_line(3, "next");
        for cut in (receipt.offset as usize..whole.len() - 1).step_by(3) {
            scene.write([&whole[..cut], &next, b"\n"].concat());
            assert_eq!(seqs(&scene.read().0), [0, 1, 3], "cut at {cut}");
        }
    }
}

/// Fault 55. A file of a newer format, or one that requires what we do not know, is read but not written.
#[test]
fn a_newer_log_is_read_but_not_written() {
    for (meta, named) in [
        (r#""meta":{"format":2}"#, "format 2"),
        (r#""meta":{"format":1,"requires":["x"]}"#, "\"x\""),
        (r#""meta":{"format":1,"requires":"new shape"}"#, "feature"),
        (r#""meta":{}"#, "format 0"),
    ] {
        let mut torn = file_of(&[record(0, meta), turn_line(1, "a")]);
        torn.extend_from_slice(b"half of somethi");
        let scene = Scene::with(&torn);
        let refused = scene.try_open().unwrap_err();
        assert!(matches!(refused, Error::Newer { .. }) && refused.to_string().contains(named), "{refused}");
        assert_eq!(scene.bytes(), torn, "not even its torn end is cut");
        assert_eq!(scene.names(), ["chat.jsonl"]);
        assert_eq!(seqs(&scene.read().0), [0, 1]);
    }
}

/// A fork goes on with the numbers of its parent, from its first record and after every reopening.
#[test]
fn a_fork_goes_on_with_its_parents_numbers() {
    let scene = Scene::new();
    let mut header = Body::new();
    header.json(
        "meta",
        serde_json::from_str(r#"{"format":1,"parent":{"id":"p","key":"k","upto":41,"crc":"9f3a1c22"}}"#)
            .unwrap(),
    );
    let options = Options { header: Some(header), ..Options::default() };
    let mut log = Log::open(&RealDisk::shared(), &scene.path, &options).unwrap();
    assert_eq!(log.next_seq(), 42);
    assert_eq!(log.append(&turn("a"), Durability::Flush, Expect::Seq(42)).unwrap().seq, 42);
    drop(log);
    assert_eq!(scene.append("b").seq, 43);
    assert_eq!(seqs(&scene.read().0), [0, 42, 43]);
    assert!(scene.verify().is_sound());
    scene.set_len(scene.bytes().split_inclusive(|b| *b == b'\n').next().unwrap().len() as u64);
    assert_eq!(scene.open().next_seq(), 42, "also when only its header is left");
}

/// A reopened log goes on where it was, whatever wrote its last line.
#[test]
fn numbers_go_on_after_reopening() {
    let scene = Scene::new();
    for seq in 1..30 {
        assert_eq!(scene.append("x").seq, seq);
    }
    scene.append_raw(file_of(&[plain_line("theirs")]));
    assert_eq!(scene.append("x").seq, 31);
    assert_eq!(seqs(&scene.read().0), (0..=31).collect::<Vec<_>>());
}

/// `seq` and `crc` belong to the engine: a body cannot bring its own, under any spelling.
#[test]
fn a_body_cannot_bring_its_own_number_or_checksum() {
    let scene = Scene::new();
    let mut log = scene.open();
    let mut built = Body::new();
    built.number("seq", 9).string("crc", "00000000").string("role", "user").string("content", "");
    let parsed = Body::parse(br#"{"\u0073eq":9,"cr\u0063":"00000000","role":"user","content":""}"#).unwrap();
    for body in [built, parsed] {
        assert_eq!(body.as_str(), r#""role":"user","content":"""#);
        log.append(&body, Durability::Flush, Expect::Any).unwrap();
    }
    log.append(&Body::new(), Durability::Flush, Expect::Any).unwrap();
    assert_eq!(seqs(&scene.read().0), [0, 1, 2, 3]);
}

/// The file became shorter while it was held: acknowledged records are gone, so this handle stops for good.
#[test]
fn a_log_that_shrank_under_its_writer_is_not_written_any_more() {
    let scene = Scene::with(native(3));
    let mut log = scene.open();
    scene.set_len(native(2).len() as u64);
    let shrunk = log.append(&turn("x"), Durability::Flush, Expect::Any).unwrap_err();
    assert!(matches!(shrunk, Error::Shrunk { .. }), "{shrunk}");
    let poisoned = log.append(&turn("x"), Durability::Flush, Expect::Any).unwrap_err();
    assert!(matches!(poisoned, Error::Poisoned { .. }), "{poisoned}");
    assert_eq!(scene.bytes(), native(2));
    drop(log);
    assert_eq!(scene.append("x").seq, 3, "opened again, it was checked");
}

/// A missing log is made only for whoever brings a header; a missing directory is never made here.
#[test]
fn a_missing_log_is_not_made_by_accident() {
    let scene = Scene::new();
    let missing = Log::open(&RealDisk::shared(), &scene.path, &Options::default()).unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    let nowhere = scene.dir().join("no such directory/chat.jsonl");
    let missing = Log::open(&RealDisk::shared(), &nowhere, &crate::support::with_header()).unwrap_err();
    assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
    assert!(matches!(Reader::open(&RealDisk::shared(), &scene.path), Err(Error::NotFound { .. })));
    assert_eq!(scene.names(), [] as [&str; 0]);
}

/// Fault 59. A transcript is private whatever the umask: also one that takes the owner's own rights away.
#[test]
fn a_log_is_private_whatever_the_umask() {
    for umask in ["000", "777", "022"] {
        let scene = Scene::new();
        let mut child = spawn_child("write", &scene.path, umask, RunAs::Us).unwrap();
        assert!(wait_until_ready(&mut child), "the child under umask {umask} failed");
        assert!(child.wait().unwrap().success());
        assert_eq!(mode_of(&scene.path), 0o600, "umask {umask}");
        assert_eq!(seqs(&drain(&mut scene.reader())), [0, 1]);

        // The copy of a torn end holds the same words.
        scene.append_raw(b"{\"seq\":2,\"role\":\"us");
        let mut child = spawn_child("write", &scene.path, umask, RunAs::Us).unwrap();
        assert!(wait_until_ready(&mut child) && child.wait().unwrap().success());
        let [(copy, _)] = &scene.torn_copies()[..] else { panic!("one copy") };
        assert_eq!(mode_of(&scene.dir().join(copy)), 0o600, "umask {umask}");
    }
}

/// The offset and bytes that a reader gives are those of the file.
#[test]
fn entries_stand_where_they_say() {
    let scene = Scene::new();
    for n in 0..50 {
        scene.append(&"w".repeat(n * 11));
    }
    let file = scene.bytes();
    for got in scene.read().0 {
        let ReadItem::Entry { offset, bytes, .. } = got else { panic!("{got:?}") };
        assert_eq!(&file[offset as usize..][..bytes.len()], bytes);
    }
}
