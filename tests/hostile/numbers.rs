//! Sequence numbers that no writer of ours would give: they are data from a file, and a file can say anything.

use crate::support::{TestEnvironment, records};

/// The largest number that every JSON reader keeps exactly, and the last one a record may have.
const SEQ_MAX: u64 = (1 << 53) - 1;

const COMMANDS: [&[&str]; 6] = [
    &["show", "a"],
    &["show", "a", "--tail", "1"],
    &["show", "a", "--from", "5"],
    &["verify", "a"],
    &["repair", "a"],
    &["append", "a", "x"],
];

/// Runs every command on the file: each may refuse, none may die, and none may hide the other session.
#[track_caller]
fn assert_survived(case: &str, bytes: &[u8]) {
    let env = TestEnvironment::new();
    env.append("b", "still here");
    for args in COMMANDS {
        env.plant("a", bytes);
        let output = env.manent(args);
        let ended = output.code().is_some_and(|code| matches!(code, 0 | 1 | 3));
        assert!(ended && !output.stderr().contains("panicked"), "{case}: {args:?}: {output}");
    }
    env.plant("a", bytes);
    let listed = env.manent(&["sessions"]);
    listed.assert_code(0);
    assert!(listed.stdout().contains("still here"), "{case}: one bad file hides no session: {listed}");
}

/// A fork's header says after which number its own begin. Found by these tests: near the end of the range the sum
/// overflowed, and one such file made `sessions` of the whole store fail.
#[test]
fn a_header_with_an_absurd_first_number_kills_nobody() {
    let plain = records::plain("x");
    for upto in [SEQ_MAX - 1, SEQ_MAX, SEQ_MAX + 1, u64::MAX - 1, u64::MAX] {
        let parent = format!(r#""format":1,"parent":{{"id":"p","key":"k","upto":{upto}}}"#);
        let header = records::header_with("a", &parent);
        let tails: [&[&str]; 4] = [&[], &[&plain, &plain], &["{torn"], &[&plain, "{hurt", &plain]];
        for tail in tails {
            let lines = [&[&*header], tail].concat();
            assert_survived(&format!("upto {upto}, then {tail:?}"), &records::file(&lines));
        }
    }
    for parent in [r#"{"upto":-1}"#, r#"{"upto":1e99}"#, r#"{"upto":"7"}"#, "[]", "null", "7"] {
        let header = records::header_with("a", &format!(r#""format":1,"parent":{parent}"#));
        assert_survived(parent, &records::file(&[&header, &records::turn(1, "one")]));
    }
}

#[test]
fn records_with_absurd_numbers_kill_nobody() {
    for seq in [
        "9007199254740990",
        "9007199254740991",
        "9007199254740992",
        "18446744073709551615",
        "99999999999999999999",
    ] {
        let record = records::sealed(&format!(r#""seq":{seq},"role":"user","content":"x""#));
        let lines = [records::header("a"), records::turn(1, "one"), record, records::plain("behind")];
        assert_survived(seq, &records::file(&lines));
    }
}

/// Found by these tests: the message spoke of a record of 9007199254740992 bytes.
#[test]
fn a_session_without_numbers_left_says_so() {
    let env = TestEnvironment::new();
    let bytes = records::file(&[records::header("a"), records::turn(SEQ_MAX, "the last")]);
    env.plant("a", &bytes);
    let output = env.manent(&["append", "a", "one more"]);
    output.assert_fails(1, &["a"]);
    assert!(!output.stderr().contains("bytes"), "the record is not too long, its number is: {output}");
    assert_eq!(env.bytes("a"), bytes);
}
