//! Queries that somebody pasted, a program made up, or a vandal tried. Each is answered or refused in words, in little
//! time, and nothing but words is ever looked for.

use std::time::Instant;

use crate::support::{HANG, TestEnvironment};

/// Text that means something to a shell, to a regular expression, to a database or to us.
const JUNK: [&str; 44] = [
    "\"",
    "\"\"",
    "\"\"\"",
    "\"needle",
    "needle\"",
    "\"needle\" \"",
    "'needle'",
    "-",
    "--",
    "-\"",
    "-\"\"",
    "- needle",
    "--needle",
    "-- -- needle",
    "*",
    "**",
    "needle**",
    "*needle",
    "ne*dle",
    "\"*\"",
    "\"needle*\"*",
    "OR",
    "OR OR OR",
    "needle OR",
    "OR needle",
    "needle AND OR needle",
    "role:",
    "role:,",
    "role: needle",
    "session:@",
    "session:*",
    "session:\"",
    "since: needle",
    ".*",
    "(a+)+$",
    "[",
    "\\",
    "needle\\",
    "' OR 1=1 --",
    "$(touch /tmp/manent-was-here)",
    "%s%n",
    "\u{202e}needle",
    "\u{1b}[2Jneedle\u{7}",
    "ﬁ \u{301} 日本語 👩\u{200d}👧 \u{0}",
];

fn haystack() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.append("work", "a needle in a haystack");
    env.append("work", "the and of it");
    env
}

/// Whoever pastes something gets an answer or a reason, never a crash, and no character that drives the terminal.
#[test]
fn junk_is_answered_or_refused() {
    let env = haystack();
    for junk in JUNK {
        // A NUL cannot be typed.
        let junk = junk.replace('\0', " ");
        for args in [&["search", "--", &junk][..], &["search", "--json", "--", &junk]] {
            let output = env.manent(args);
            assert!(matches!(output.code(), Some(0 | 2 | 4)), "{junk:?}: {output}");
            assert!(!output.stderr().contains("panicked"), "{junk:?}: {output}");
            let said = [output.stdout(), output.stderr()].concat();
            assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{junk:?}: {said:?}");
            if output.code() == Some(2) {
                assert!(output.stderr().starts_with("error: "), "{junk:?}: {output}");
            }
        }
    }
    for found in
        ["\"needle", "needle\"", "--needle", "needle OR", "OR needle", "(needle)", "needle\\", "NEEDLE!"]
    {
        env.manent(&["search", "-q", "--", found]).assert_code(0);
    }
}

/// Words that are in every text are words like any other if they are asked for.
#[test]
fn stop_words_alone_are_looked_for() {
    let env = haystack();
    let output = env.manent(&["search", "the", "and", "of"]);
    output.assert_code(0);
    assert!(output.stdout().contains("#2"), "{output}");
    env.manent(&["search", "what", "is", "the"]).assert_code(0);
}

/// Only what to leave out is no question.
#[test]
fn a_question_that_only_excludes_is_refused() {
    let env = haystack();
    for query in ["-x", "-\"a b\"", "-x -y"] {
        env.manent(&["search", "--", query]).assert_fails(2, &["only says what to leave out"]);
    }
    // Without --, it looks like an option, and clap says what to do.
    let output = env.manent(&["search", "-x"]);
    output.assert_code(2);
    assert!(output.stderr().contains("-- -x"), "{output}");
}

/// However long it is, it is refused before it is looked for.
#[test]
fn a_query_that_is_too_long_is_refused_at_once() {
    let env = haystack();
    let begun = Instant::now();
    for word in ["x", "needle ", "\"", "(", "a* ", "-b ", "role:x ", "ß", "日"] {
        // One argument can have 128 KiB; several make a megabyte.
        let part = word.repeat(100_000 / word.len());
        let mut args = vec!["search", "--"];
        args.resize(12, part.as_str());
        let output = env.manent(&args);
        output.assert_fails(2, &["the query has", "bytes, and at most 4096 are read"]);
        assert!(output.stderr_bytes.len() < 1000, "and not repeated");
    }
    assert!(begun.elapsed() < HANG, "none of them hangs");
    let many =
        vec!["w1"; 70].iter().enumerate().map(|(n, w)| format!("{w}{n}")).collect::<Vec<_>>().join(" ");
    env.manent(&["search", &many]).assert_fails(2, &["more than 64 words and filters"]);
    // As many as there may be, each a beginning of every word.
    let wide = (0..60).map(|n| format!("{}*", char::from(b'a' + n % 26))).collect::<Vec<_>>().join(" OR ");
    env.manent(&["search", "-q", &wide]).assert_code(0);
}

/// A query that is not text is refused.
#[test]
fn a_query_that_is_no_text_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let env = haystack();
    let args = [OsStr::new("search"), OsStr::from_bytes(b"need\xffle")];
    let output = env.manent(&args);
    output.assert_code(2);
    assert!(output.stderr().starts_with("error: invalid UTF-8"), "{output}");
}

/// Numbers at the edge of what can be counted.
#[test]
fn huge_and_tiny_limits_are_taken_as_they_are() {
    let env = haystack();
    for limit in ["1", "1000000", "18446744073709551615"] {
        env.manent(&["search", "-q", "needle", "--limit", limit]).assert_code(0);
    }
    let none = env.manent(&["search", "needle", "--limit", "0"]);
    none.assert_code(0);
    assert!(none.stdout_bytes.is_empty() && none.stderr().contains("0 of 1"), "{none}");
    env.manent(&["search", "needle", "--limit", "-1"]).assert_code(2);
    for days in ["0", "3661", "-1", "x"] {
        env.manent(&["stats", "--days", days]).assert_code(2);
    }
    env.manent(&["stats", "--days", "3660"]).assert_code(0);
    for time in ["0d", "99999999999999d", "-1", "1970-01-01", "9999-12-31", "0000-00-00"] {
        for option in ["--since", "--until"] {
            let output = env.manent(&["search", "-q", "needle", &format!("{option}={time}")]);
            assert!(matches!(output.code(), Some(0 | 2 | 4)), "{option} {time}: {output}");
        }
    }
}

/// Records with times that no calendar knows, and roles that are no roles, are found and counted all the same.
#[test]
fn odd_records_are_found_and_counted() {
    let env = TestEnvironment::new();
    let odd = [
        r#"{"role":"user","ts":"yesterday","content":"needle 1"}"#,
        r#"{"role":"user","ts":"-9999-01-01T00:00:00Z","content":"needle 2"}"#,
        r#"{"role":"user","ts":"9999-12-30T23:59:59Z","content":"needle 3"}"#,
        r#"{"role":"","ts":"","content":"needle 4"}"#,
        r#"{"role":"a\tb\nc","ts":"2026-01-01T00:00:00Z","content":"needle 5"}"#,
        r#"{"role":"USER","ts":"2026-01-01T00:00:00+14:00","content":"needle\u0000 6"}"#,
    ];
    env.manent_given(&["append", "odd", "--jsonl"], odd.join("\n")).assert_code(0);
    let output = env.manent(&["search", "needle"]);
    output.assert_code(0);
    assert_eq!(output.stdout().matches("needle").count(), odd.len() + 1, "and a title: {output}");
    for args in [&["stats"][..], &["stats", "--json"], &["sessions"], &["doctor"]] {
        let output = env.manent(args);
        output.assert_code(0);
        assert!(!output.stdout().contains(|c: char| c.is_control() && c != '\n'), "{output}");
    }
}
