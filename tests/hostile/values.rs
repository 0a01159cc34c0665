//! Values that break parsers: deep, wide, long, unknown, and with digits that do not fit.

use crate::support::{TestEnvironment, records};

/// Runs every command that reads a session; none may fail, hang or die.
#[track_caller]
fn assert_readable(env: &TestEnvironment, key: &str) {
    for args in [
        &["show", key][..],
        &["show", key, "--json"],
        &["show", key, "--raw"],
        &["show", key, "--tail", "1"],
        &["show", key, "--from", "1"],
        &["sessions"],
        &["verify", key],
        &["repair", key],
    ] {
        let output = env.manent(args);
        assert_eq!(output.code(), Some(0), "{args:?}: {}", output.stderr());
        assert!(!output.stdout_bytes.is_empty(), "{args:?}");
    }
}

/// Acceptance list 44.
#[test]
fn nesting_of_any_depth_is_kept_and_overflows_no_stack() {
    let depth = 100_000;
    let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    let env = TestEnvironment::new();
    let given = [
        format!(r#"{{"role":"user","x":{deep},"content":"deep"}}"#),
        format!(r#"{{"role":"assistant","tool_calls":{objects},"content":"deep"}}"#),
        format!(r#"{{"kind":"title","title":{deep}}}"#),
        format!(r#"{{"kind":"gap","offset":{objects},"length":{deep}}}"#),
    ];
    env.manent_given(&["append", "a", "--jsonl"], given.join("\n")).assert_code(0);
    assert_readable(&env, "a");
    let kept = env.records("a");
    for (n, value) in [&deep, &objects, &deep, &objects].iter().enumerate() {
        assert!(kept[n].contains(value.as_str()), "record {n} is kept byte for byte");
    }
    // The same as another program's lines, and in a header.
    env.plant(
        "b",
        records::file(&[format!(r#"{{"role":{objects},"content":{deep}}}"#), deep.clone(), given[0].clone()]),
    );
    for args in [&["show", "b"][..], &["show", "b", "--raw"], &["sessions"], &["append", "b", "x"]] {
        assert_eq!(env.manent(args).code(), Some(0), "{args:?}");
    }
    env.plant(
        "c",
        records::file(&[
            records::header_with("c", &format!(r#""format":1,"x":{deep}"#)),
            records::turn(1, "x"),
        ]),
    );
    assert_readable(&env, "c");
    env.append("c", "more");
}

/// Acceptance list 45: wide values cost time in proportion, not its square.
#[test]
fn a_million_members_and_ten_million_items_are_taken_in_reasonable_time() {
    let env = TestEnvironment::in_memory();
    let members: Vec<String> = (0..1_000_000).map(|n| format!(r#""k{n}":{n}"#)).collect();
    let wide = format!(r#"{{"role":"user",{},"content":"wide"}}"#, members.join(","));
    let items = format!(r#"{{"role":"user","x":[{}0],"content":"long"}}"#, "0,".repeat(10_000_000));
    let began = std::time::Instant::now();
    for line in [&wide, &items] {
        env.manent_given(&["append", "a", "--jsonl", "--durability", "flush"], line).assert_code(0);
    }
    assert_readable(&env, "a");
    let kept = env.records("a");
    assert!(kept[0].contains(&members.join(",")) && kept[1].len() > 20_000_000);
    // A duplicate among a million is still found.
    let double = wide.replacen(r#""k999999":"#, r#""k1":"#, 1);
    env.manent_given(&["append", "a", "--jsonl"], double).assert_fails(1, &["\"k1\" twice"]);
    assert!(began.elapsed().as_secs() < 50, "{:?}", began.elapsed());
}

/// A line of ten megabytes is a record like any other.
#[test]
fn ten_megabytes_of_text_come_back_as_they_went() {
    let env = TestEnvironment::in_memory();
    let text: String = (0..1_000_000_u32)
        .map(|n| char::from(b' ' + (n % 95) as u8))
        .chain("é\n\u{1b}".chars())
        .cycle()
        .take(10 << 20)
        .collect();
    env.manent_given(&["append", "a"], format!("{text}\n")).assert_code(0);
    let output = env.manent(&["show", "a", "--raw"]);
    assert!(output.stdout() == format!("{text}\n"));
    env.assert_clean("a");
}

/// Acceptance list 50.
#[test]
fn numbers_keep_every_digit() {
    let env = TestEnvironment::new();
    let numbers = [
        "18446744073709551616",
        "-9223372036854775809",
        "1e400",
        "-1E-400",
        "-0",
        "-0.0",
        "0.1000000000000000055511151231257827021181",
        "1.0",
        "1E+2",
        "123456789012345678901234567890",
    ];
    for number in numbers {
        let line = format!(r#"{{"role":"user","n":{number},"m":[{number}],"content":"x"}}"#);
        env.manent_given(&["append", "a", "--jsonl", "--durability", "flush"], line).assert_code(0);
        let last = env.records("a").pop().unwrap();
        assert!(last.contains(&format!(r#""n":{number},"m":[{number}],"content""#)), "{last}");
    }
    env.assert_clean("a");
}

/// Acceptance list 46: inside a value, members of one name are the writer's business.
#[test]
fn duplicate_members_inside_a_value_are_kept() {
    let env = TestEnvironment::new();
    let line = r#"{"role":"user","x":{"a":1,"a":2,"seq":7,"crc":"00000000"},"content":""}"#;
    env.manent_given(&["append", "a", "--jsonl"], line).assert_code(0);
    let kept = env.records("a").remove(0);
    assert!(kept.contains(r#""x":{"a":1,"a":2,"seq":7,"crc":"00000000""#), "{kept}");
    let value: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(value["x"]["crc"], "00000000");
    env.assert_clean("a");
}

/// Acceptance list 48: an escaped NUL is text.
#[test]
fn escaped_control_characters_are_kept() {
    let env = TestEnvironment::new();
    env.manent_given(&["append", "a", "--jsonl"], r#"{"role":"user","content":"\u0000\u0001\u007f\b"}"#)
        .assert_code(0);
    assert_eq!(env.manent(&["show", "a", "--raw"]).stdout(), "\0\u{1}\u{7f}\u{8}\n");
    assert!(env.manent(&["show", "a"]).stdout().contains(r"\u{0}\u{1}\u{7f}\u{8}"));
    env.assert_clean("a");
}

/// Acceptance list 54.
#[test]
fn only_a_newline_ends_a_line() {
    let env = TestEnvironment::new();
    let text = "one\u{2028}two\u{2029}three\u{85}four\u{b}five\u{c}six\rseven";
    env.manent(&["append", "a", text]).assert_code(0);
    assert_eq!(env.bytes("a").split_inclusive(|b| *b == b'\n').count(), 2, "header and record");
    assert_eq!(env.records("a").len(), 1);
    assert_eq!(env.manent(&["show", "a", "--raw"]).stdout(), format!("{text}\n"));
    env.assert_clean("a");
}

/// Acceptance list 55 and 70.
#[test]
fn what_this_version_does_not_know_is_kept_and_shown_and_a_newer_format_is_not_written_to() {
    let env = TestEnvironment::new();
    let unknown = r#"{"kind":"hologram","x":[1,2],"content":"?","parts":[{"blob":"b3:00"}]}"#;
    env.manent_given(&["append", "a", "--jsonl"], unknown).assert_code(0);
    let shown = env.manent(&["show", "a"]).stdout();
    assert!(shown.contains("    1  hologram") && shown.contains(r#""parts":[{"blob":"b3:00"}]"#), "{shown}");

    for (members, needs) in [
        (r#""format":2"#, "format 2"),
        (r#""format":1,"requires":["telepathy"]"#, "the feature \"telepathy\""),
    ] {
        let bytes = records::file(&[records::header_with("b", members), records::turn(1, "from the future")]);
        env.plant("b", &bytes);
        assert!(env.manent(&["show", "b"]).stdout().contains("from the future"));
        env.manent(&["verify", "b"]).assert_code(0);
        env.manent(&["append", "b", "x"]).assert_fails(1, &[needs, "it can be read, upgrade to write"]);
        // Not even a torn end is ours to cut.
        let torn = [&*bytes, b"{\"seq\":2,\"ro"].concat();
        env.plant("b", &torn);
        env.manent(&["repair", "b"]).assert_fails(1, &[needs]);
        assert_eq!(env.bytes("b"), torn);
    }
}
