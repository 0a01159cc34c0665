//! `manent show` as the beginning of a pipe: every byte can be trusted, and a reader that has enough may leave.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::support::{HANG, TestEnvironment, environment, records};

/// Enough to fill every buffer between two processes several times.
fn big() -> TestEnvironment {
    let env = TestEnvironment::new();
    let text = "x".repeat(1000);
    let lines: String = (0..2000).map(|_| records::plain(&text) + "\n").collect();
    env.manent_given(&["append", "big", "--jsonl", "--durability", "flush"], lines).assert_code(0);
    env
}

#[test]
fn a_closed_pipe_is_quiet() {
    let env = big();
    for args in [&["show", "big"][..], &["show", "big", "--json"], &["show", "big", "--raw"]] {
        let mut command = env.command(args);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(first.len() > 5, "{first:?}");
        let status = environment::wait(&mut child, HANG).expect("it notices that nobody listens");
        let errors = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert_eq!((status.code(), errors.as_str()), (Some(0), ""), "{args:?} | head -1");
    }
}

#[test]
fn a_full_disk_under_standard_output_is_an_error_and_not_silence() {
    let env = big();
    for args in [&["show", "big"][..], &["sessions"], &["verify"]] {
        let mut command = env.command(args);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let status = environment::wait(&mut child, HANG).unwrap();
        let errors = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert_eq!(status.code(), Some(1), "{args:?}: {errors}");
        assert!(errors.contains("No space left on device"), "{args:?}: {errors}");
    }
}

/// Acceptance list 50 (numbers keep their digits) and 54 (only a newline ends a line), through a whole round trip.
#[test]
fn show_json_piped_into_append_makes_an_identical_copy() {
    let env = TestEnvironment::new();
    let given = [
        r#"{"role":"user","n":18446744073709551616,"m":1e400,"z":-0,"d":0.100000000000000005551,"content":""}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"c","arguments":{"a":1,"a":2}}],"usage":{"input":1},"content":"t"}"#,
        r#"{"kind":"future","deep":{"crc":"00000000"},"list":[ 1,  2 ]}"#,
        "{\"role\":\"user\",\"content\":\"one\u{2028}line\u{2029}still\u{85}\"}",
        r#"{"role":"user","content":"\u0000\u001b[31m\"\\\/ \ud83d\ude00"}"#,
        r#"{"ts":"2001-01-01T00:00:00.000Z","role":"tool","tool_call_id":"c","content":"x","late":true}"#,
    ];
    env.manent_given(&["append", "old", "--jsonl"], given.join("\n")).assert_code(0);

    let shown = env.manent(&["show", "old", "--json"]);
    shown.assert_code(0);
    env.append("new", "something before, so that the numbers differ");
    let copied = env.manent_given(&["append", "new", "--jsonl"], &shown.stdout_bytes);
    copied.assert_code(0);

    let (old, new) = (env.records("old"), env.records("new"));
    assert_eq!(old.len(), given.len());
    assert_eq!(new.len(), given.len() + 1);
    for (before, after) in old.iter().zip(&new[1..]) {
        assert_ne!(before, after, "another number, another checksum");
        assert_eq!(records::body(before), records::body(after));
    }
    let digits = r#""n":18446744073709551616,"m":1e400,"z":-0,"d":0.100000000000000005551,"#;
    assert!(new[1].contains(digits), "{}", new[1]);
    env.assert_clean("new");
}

#[test]
fn raw_text_leaves_as_it_came() {
    let env = TestEnvironment::new();
    let texts = ["plain", "two\nlines\n", "\u{1b}[31mred\u{1b}[0m \r\u{7}", "\u{2028}\u{202e}\u{e0041}", ""];
    for text in texts {
        env.manent_given(&["append", "a"], format!("{text}\n")).assert_code(0);
    }
    let output = env.manent(&["show", "a", "--raw"]);
    assert_eq!(output.stdout(), texts.map(|text| format!("{text}\n")).concat());
}

#[test]
fn tail_and_from_find_the_same_turns_as_counting_them() {
    let env = TestEnvironment::new();
    let lines: String = (1..=300)
        .map(|n| match n % 5 {
            0 => format!(r#"{{"kind":"note","n":{n}}}"#) + "\n",
            _ => records::plain(&format!("{n} {}", "x".repeat(2000))) + "\n",
        })
        .collect();
    env.manent_given(&["append", "a", "--jsonl", "--durability", "flush"], lines).assert_code(0);
    let all = env.records("a");
    let part = |args: &[&str]| -> Vec<String> {
        let args = [&["show", "a", "--json"], args].concat();
        env.manent(&args).stdout().lines().map(str::to_owned).collect()
    };
    for from in [0, 1, 2, 17, 150, 299, 300, 301, 5000] {
        assert_eq!(
            part(&["--from", &from.to_string()]),
            all[all.len().min(from.max(1) - 1)..],
            "from {from}"
        );
    }
    for tail in [0, 1, 2, 4, 5, 100, 240, 1000] {
        let shown = part(&["--tail", &tail.to_string()]);
        let turns = |lines: &[String]| lines.iter().filter(|l| l.contains(r#""role":"#)).count();
        assert_eq!(turns(&shown), tail.min(240), "tail {tail}");
        assert!(all.ends_with(&shown), "tail {tail}: the last ones, with what stands between them");
    }
}
