//! `manent append`: what goes in, what is refused, and what is kept when something goes wrong half-way.

use std::time::Duration;

use crate::support::{Stream, TestEnvironment, records};

fn contents(env: &TestEnvironment, key: &str) -> Vec<String> {
    let content = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap()["content"].clone();
    env.records(key).iter().map(|line| content(line).as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn text_comes_from_the_command_line_or_from_standard_input() {
    let env = TestEnvironment::new();
    env.manent(&["append", "a", "typed"]).assert_code(0);
    env.manent_given(&["append", "a"], "piped\n").assert_code(0);
    env.manent_given(&["append", "a", "-"], "piped to a dash").assert_code(0);
    env.manent_given(&["append", "a", "--role", "tool"], "two lines\nand a blank one\n\n").assert_code(0);
    env.manent_given(&["append", "a"], "").assert_code(0);
    env.manent(&["append", "a", "--", "--not-a-flag"]).assert_code(0);
    let said = ["typed", "piped", "piped to a dash", "two lines\nand a blank one\n", "", "--not-a-flag"];
    assert_eq!(contents(&env, "a"), said, "exactly one newline, the one that echo adds, is taken off");
    assert!(env.records("a")[3].contains(r#""role":"tool""#));
}

#[test]
fn text_that_is_not_utf8_is_refused_and_leaves_no_session() {
    let env = TestEnvironment::new();
    let output = env.manent_given(&["append", "a"], b"caf\xe9");
    output.assert_fails(1, &["not UTF-8", "byte 3", "iconv"]);
    assert_eq!(env.file_names(), [""; 0]);
}

#[test]
fn a_receipt_comes_as_soon_as_its_record_is_kept_and_waits_for_no_other() {
    let env = TestEnvironment::new();
    let mut writer = Stream::start(&env, &["append", "a", "--jsonl", "--json"]);
    for seq in 1..=5_u64 {
        writer.send(&records::plain(&format!("turn {seq}")));
        let receipt: serde_json::Value = serde_json::from_str(&writer.line()).unwrap();
        assert_eq!(receipt["seq"], seq);
        assert_eq!(receipt["durability"], "sync");
        // The receipt is no promise about later: the record is in the file now, where the receipt says.
        let bytes = env.bytes("a");
        let offset = receipt["offset"].as_u64().unwrap() as usize;
        assert!(bytes[offset..].starts_with(format!(r#"{{"seq":{seq},"#).as_bytes()));
        assert!(bytes.ends_with(b"\"}\n"));
    }
    assert!(writer.is_silent_for(Duration::from_millis(50)), "one receipt a record");
    // Half a line is not a record yet.
    writer.send_bytes(br#"{"role":"user","#);
    assert!(writer.is_silent_for(Duration::from_millis(50)));
    writer.send_bytes(b"\"content\":\"late\"}\n");
    assert!(writer.line().contains(r#""seq":6"#));
    let (status, rest, errors) = writer.finish();
    assert!(status.success() && rest.is_empty() && errors.is_empty(), "{status:?} {rest:?} {errors:?}");
}

#[test]
fn the_last_line_needs_no_newline() {
    let env = TestEnvironment::new();
    let input = format!("{}\n{}", records::plain("one"), records::plain("two"));
    env.manent_given(&["append", "a", "--jsonl"], input).assert_code(0);
    assert_eq!(contents(&env, "a"), ["one", "two"]);
}

/// Acceptance list 46, 49, 51, and the rules of `append --jsonl`.
#[test]
fn lines_that_other_readers_would_change_or_misread_are_refused_by_name() {
    let refused = [
        (r#"{"role":"user","meta":{},"content":"x"}"#, "\"meta\""),
        (r#"{"role":"user","role":"tool","content":"x"}"#, "\"role\" twice"),
        (r#"{"role":"user","content":"x","\u0063ontent":"y"}"#, "\"content\" twice"),
        (r#"{"content":"x"}"#, "needs \"role\""),
        (r#"{"role":7,"content":"x"}"#, "needs \"role\""),
        (r#"{"role":"user","content":["x"]}"#, "\"content\" must be a string"),
        (r#"{"role":"user","content":"\ud800"}"#, "surrogate pair"),
        (r#"{"role":"user","x":{"y":["\udfff"]},"content":""}"#, "surrogate pair"),
        (r#"{"role":"user","n":NaN,"content":"x"}"#, "one JSON object"),
        (r#"{"role":"user","n":Infinity,"content":"x"}"#, "one JSON object"),
        (r#"{"role":"user","n":-Infinity,"content":"x"}"#, "one JSON object"),
        (r#"["role","user"]"#, "one JSON object"),
        (r#"{"role":"user","content":"x"} {"role":"user"}"#, "one JSON object"),
        (r#"{"role":"user","content":"x""#, "one JSON object"),
        ("nonsense", "one JSON object"),
        ("{\"role\":\"user\",\"content\":\"raw \u{1} control\"}", "one JSON object"),
    ];
    let env = TestEnvironment::new();
    env.append("a", "before");
    let before = env.bytes("a");
    for (line, word) in refused {
        let output = env.manent_given(&["append", "a", "--jsonl"], line);
        output.assert_fails(1, &["line 1 of standard input", word]);
        assert_eq!(env.bytes("a"), before, "{line} left something");
    }
    let output = env.manent_given(&["append", "a", "--jsonl"], b"{\"role\":\"user\",\"content\":\"\xff\"}");
    output.assert_fails(1, &["line 1 of standard input", "UTF-8"]);
    assert_eq!(env.bytes("a"), before);
}

#[test]
fn a_bad_line_keeps_the_good_ones_before_it_and_takes_none_after_it() {
    let env = TestEnvironment::new();
    let lines =
        [&records::plain("one"), &records::plain("two"), "{broken", &records::plain("three")].join("\n");
    let output = env.manent_given(&["append", "a", "--jsonl"], lines);
    output.assert_fails(1, &["line 3 of standard input"]);
    assert_eq!(output.stdout(), "a 1\na 2\n", "what was kept has its receipt");
    assert_eq!(contents(&env, "a"), ["one", "two"]);
    env.assert_clean("a");
}

/// Found by these tests: a first append that is refused left an empty file, which `sessions` listed and `show` showed.
#[test]
fn an_append_that_is_refused_leaves_no_empty_session_behind() {
    let env = TestEnvironment::new();
    env.make_directories();
    env.manent(&["append", "conflict", "x", "--expect-seq", "5"]).assert_code(6);
    env.manent_given(&["append", "bad-line", "--jsonl"], "{broken\n").assert_code(1);
    env.manent_given(&["append", "no-line", "--jsonl"], "").assert_code(0);
    assert_eq!(
        env.manent(&["sessions", "--json"]).stdout(),
        "",
        "nothing was appended, so there is no session"
    );
    for key in ["conflict", "bad-line", "no-line"] {
        env.manent(&["show", key]).assert_code(4);
    }
}

#[test]
fn expect_seq_1_means_that_the_session_must_be_new() {
    let env = TestEnvironment::new();
    env.manent(&["append", "a", "x", "--expect-seq", "1"]).assert_code(0);
    env.manent(&["append", "a", "x", "--expect-seq", "1"]).assert_code(6);
    // In a stream the first record is meant.
    let two = format!("{}\n{}\n", records::plain("two"), records::plain("three"));
    env.manent_given(&["append", "a", "--jsonl", "--expect-seq", "2"], &two).assert_code(0);
    env.manent_given(&["append", "a", "--jsonl", "--expect-seq", "2"], &two).assert_code(6);
    assert_eq!(contents(&env, "a"), ["x", "two", "three"]);
}

#[test]
fn each_durability_gives_a_receipt_that_says_so() {
    let env = TestEnvironment::new();
    for level in ["sync", "group", "flush"] {
        let output = env.manent(&["append", "a", "x", "--json", "--durability", level]);
        let receipt: serde_json::Value = serde_json::from_slice(&output.stdout_bytes).unwrap();
        assert_eq!(receipt["durability"], level);
    }
    let ids: Vec<_> = ["id", "session"]
        .map(|field| {
            let output = env.manent(&["append", "a", "x", "--json"]);
            serde_json::from_slice::<serde_json::Value>(&output.stdout_bytes).unwrap()[field].clone()
        })
        .into();
    assert!(
        String::from_utf8(env.bytes("a")).unwrap().contains(ids[0].as_str().unwrap()),
        "the id of the header"
    );
    assert_eq!(ids[1], "a");
}

/// Acceptance list 24: clocks jump; numbers do not.
#[test]
fn records_keep_their_order_whatever_their_clocks_said() {
    let env = TestEnvironment::new();
    let times =
        ["2026-01-02T00:00:00.000Z", "1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "no time"];
    let lines: String =
        times.iter().map(|ts| format!(r#"{{"ts":"{ts}","role":"user","content":"{ts}"}}"#) + "\n").collect();
    env.manent_given(&["append", "a", "--jsonl"], lines).assert_code(0);
    env.append("a", "now");
    assert_eq!(contents(&env, "a")[..4], times);
    for args in [&["show", "a", "--tail", "3"][..], &["show", "a", "--from", "3"]] {
        let shown = env.manent(args).stdout();
        let places = [times[2], times[3], "now"].map(|text| shown.find(&format!("\n{text}\n")));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{shown}");
    }
    env.manent(&["sessions"]).assert_code(0);
    env.assert_clean("a");
}

/// A program that reads one receipt and goes away must not be told that all is done when it is not.
#[test]
fn a_receipt_that_nobody_reads_never_makes_success_of_records_that_were_dropped() {
    let env = TestEnvironment::new();
    let mut command = env.command(&["append", "a", "--jsonl", "--durability", "flush"]);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut send = |text: &str| drop(std::io::Write::write_all(&mut stdin, format!("{text}\n").as_bytes()));
    send(&records::plain("one"));
    std::io::BufRead::read_line(&mut stdout, &mut String::new()).unwrap();
    drop(stdout);
    for text in ["two", "three", "four"] {
        send(&records::plain(text));
        std::thread::sleep(Duration::from_millis(30));
    }
    drop(stdin);
    let status = crate::support::environment::wait(&mut child, crate::support::HANG).unwrap();
    let kept = contents(&env, "a");
    assert!(!status.success() || kept.len() == 4, "exit 0, but only {kept:?} of four records were kept");
}

/// An id names the session that has it, for `append` as for every other command.
#[test]
fn a_session_is_appended_to_by_its_id_and_an_archived_one_is_not() {
    let env = TestEnvironment::new();
    env.append("work", "one");
    let id = env.id_in("live", "work");
    env.manent(&["append", &format!("@{}", &id[..13]), "two"]).assert_code(0);
    assert_eq!(env.said("work"), ["one", "two"]);
    env.done(&["archive", "work"]);
    env.manent(&["append", &format!("@{id}"), "three"])
        .assert_fails(1, &["is archived", "`manent unarchive`"]);
    assert_eq!(env.file_names(), [""; 0], "no session is begun under the name of an id");
    assert_eq!(env.append("@alice", "a nickname is a key"), 1);
    env.manent(&["show", "@01a"]).assert_fails(4, &["at least 8 characters"]);
}
