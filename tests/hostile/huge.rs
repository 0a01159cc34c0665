//! Lines that do not fit: memory stays bounded whatever stands in the file, and nothing too long is ever written.

use std::io::{Seek, SeekFrom, Write};

use crate::support::{Output, TestEnvironment, machine, records};

/// Address space for a command: five times the largest record, and less than the line it meets.
const MEMORY: &str = "--as=335544320";
const LINE_BYTES: u64 = 400 << 20;

/// Runs a command that may not use more memory than [`MEMORY`].
fn bounded(env: &TestEnvironment, args: &[&str]) -> Output {
    let output = env.manent_under(&["prlimit", MEMORY], args);
    assert!(output.signal().is_none(), "{args:?} died for want of memory: {output}");
    output
}

/// Plants two turns, a line of garbage of 400 MB, and what comes behind it.
fn plant_huge(env: &TestEnvironment, garbage: Option<u8>, behind: &[u8]) -> u64 {
    let start = records::session("a", &["one", "two"]);
    let path = env.plant("a", &start);
    let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    match garbage {
        // A hole: what a file system leaves that grew a file and lost its data.
        None => drop(file.seek(SeekFrom::End(LINE_BYTES.cast_signed())).unwrap()),
        Some(byte) => {
            let block = vec![byte; 1 << 20];
            for _ in 0..LINE_BYTES >> 20 {
                file.write_all(&block).unwrap();
            }
        }
    }
    file.write_all(behind).unwrap();
    file.set_len(start.len() as u64 + LINE_BYTES + behind.len() as u64).unwrap();
    start.len() as u64
}

/// Acceptance list 42, as a gap.
#[test]
fn a_huge_line_before_valid_records_is_a_gap_and_takes_no_memory() {
    if !machine::has("prlimit") {
        return machine::skip("a_huge_line_before_valid_records", "there is no prlimit");
    }
    for garbage in [Some(b'x'), None] {
        let env = TestEnvironment::in_memory();
        let behind = format!("\n{}\n", records::turn(4, "behind it"));
        let at = plant_huge(&env, garbage, behind.as_bytes());
        let output = bounded(&env, &["verify", "a", "--json"]);
        output.assert_code(3);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout_bytes).unwrap();
        assert_eq!(report["records"], 3, "{report}");
        let damage = report["damage"].as_array().unwrap();
        assert_eq!(damage.len(), 1, "{report}");
        assert_eq!(damage[0]["offset"], at, "{report}");
        // With or without its newline: behind a hole a newline is a blank line of its own.
        assert!((LINE_BYTES..=LINE_BYTES + 1).contains(&damage[0]["length"].as_u64().unwrap()), "{report}");

        let shown = bounded(&env, &["show", "a", "--raw"]);
        assert_eq!(shown.stdout(), "one\ntwo\nbehind it\n");
        assert_eq!(bounded(&env, &["show", "a", "--raw", "--tail", "2"]).stdout(), "two\nbehind it\n");
        assert_eq!(bounded(&env, &["append", "a", "next"]).stdout(), "a 5\n");
        bounded(&env, &["repair", "a"]).assert_code(0);
        bounded(&env, &["verify", "a"]).assert_code(0);
    }
}

/// Acceptance list 42, as a torn end.
#[test]
fn a_huge_line_at_the_end_is_torn_and_takes_no_memory() {
    if !machine::has("prlimit") {
        return machine::skip("a_huge_line_at_the_end", "there is no prlimit");
    }
    for garbage in [Some(b'{'), None] {
        let env = TestEnvironment::in_memory();
        let at = plant_huge(&env, garbage, b"");
        let output = bounded(&env, &["verify", "a", "--json"]);
        output.assert_code(3);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout_bytes).unwrap();
        assert_eq!((&report["records"], &report["tail"]), (&2.into(), &"torn".into()), "{report}");
        assert_eq!(bounded(&env, &["show", "a", "--raw"]).stdout(), "one\ntwo\n");
        assert_eq!(bounded(&env, &["show", "a", "--raw", "--tail", "1"]).stdout(), "two\n");
        bounded(&env, &["sessions"]).assert_code(0);

        assert_eq!(bounded(&env, &["append", "a", "three"]).stdout(), "a 3\n");
        let copy = env.sessions().join(format!("a.jsonl.torn-{at}-0"));
        assert_eq!(copy.metadata().unwrap().len(), LINE_BYTES, "every byte of it is kept");
        env.assert_clean("a");
    }
}

/// Acceptance list 21 and 71, in the small: memory is that of a record, not of the session.
#[test]
fn a_long_session_is_read_checked_and_resumed_in_little_memory() {
    if !machine::has("prlimit") {
        return machine::skip("a_long_session_is_read_checked_and_resumed", "there is no prlimit");
    }
    let env = TestEnvironment::in_memory();
    let line = records::plain(&"x".repeat(1000)) + "\n";
    let args = ["append", "a", "--jsonl", "--durability", "flush", "-q"];
    env.manent_given(&args, line.repeat(100_000)).assert_code(0);
    assert!(env.log("a").metadata().unwrap().len() > 100_000_000);
    // Everything counts here, the program itself and its libraries too.
    let little = ["prlimit", "--as=50331648"];
    let run = |args: &[&str]| {
        let output = env.manent_under(&little, args);
        assert_eq!(output.code(), Some(0), "{args:?}: {}", output.stderr());
        output.stdout()
    };
    assert_eq!(run(&["verify", "a"]), "ok       a  100000 records\n");
    assert_eq!(run(&["show", "a", "--json"]).lines().count(), 100_000);
    assert_eq!(run(&["show", "a", "--json", "--tail", "2"]).lines().count(), 2);
    assert_eq!(run(&["show", "a", "--json", "--from", "99990"]).lines().count(), 11);
    assert!(run(&["sessions"]).contains("100000"));
    assert_eq!(run(&["append", "a", "next"]), "a 100001\n");
}

/// Another program's file of millions of tiny turns: what is kept of each while it is indexed must not add up.
#[test]
fn millions_of_tiny_lines_are_listed_and_searched_in_less_than_100_mib() {
    let env = TestEnvironment::in_memory();
    env.make_directories();
    let mut file = std::fs::File::create(env.log("tiny")).unwrap();
    let block = "{\"role\":\"user\",\"content\":\"a\"}\n".repeat(10_000);
    for _ in 0..TINY_LINES / 10_000 {
        file.write_all(block.as_bytes()).unwrap();
    }
    drop(file);
    for (args, said) in [(&["sessions"][..], "2000000"), (&["search", "a"], "tiny")] {
        let _ = std::fs::remove_dir_all(env.index());
        let (output, peak_kib) = peak_of(&env, args);
        output.assert_code(0);
        assert!(output.stdout().replace(',', "").contains(said), "{output}");
        assert!(peak_kib < 100 << 10, "{args:?} took {} MiB", peak_kib >> 10);
    }
}

const TINY_LINES: usize = 2_000_000;

/// Runs a command, and gives how much memory it had at most, in KiB.
fn peak_of(env: &TestEnvironment, args: &[&str]) -> (Output, u64) {
    let log = env.root().join("peak");
    let script = "\"$@\" & pid=$!; \
        while peak=$(grep VmHWM /proc/$pid/status 2> /dev/null); do echo \"$peak\" >> \"$PEAK\"; sleep 0.01; done; \
        wait $pid";
    let _ = std::fs::remove_file(&log);
    let mut command = env.command_under(&["sh", "-c", script, "sh"], args);
    command.env("PEAK", &log);
    let output = env.output(command, b"");
    let seen = std::fs::read_to_string(&log).unwrap();
    let kib = seen.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).max();
    (output, kib.expect("the system tells how much memory a process has"))
}

/// Acceptance list 43.
#[test]
fn a_record_over_the_limit_is_refused_before_a_byte_is_written() {
    let env = TestEnvironment::in_memory();
    env.append("a", "one");
    let before = env.bytes("a");
    let max = 64 << 20;
    let text = "x".repeat(max);
    env.manent_given(&["append", "a"], &text).assert_fails(1, &["over the limit of 67108864", "files"]);
    env.manent_given(&["append", "a"], format!("{text}y")).assert_fails(1, &["over the limit"]);
    env.manent_given(&["append", "a", "--jsonl"], records::plain(&text)).assert_fails(1, &["over the limit"]);
    // It fits as it comes, and not as it would be stored.
    let quotes = "\"".repeat(max / 2);
    env.manent_given(&["append", "a"], quotes).assert_fails(1, &["over the limit"]);
    assert_eq!(env.bytes("a"), before);
    // In a stream the good ones before it are kept.
    let lines = [records::plain("two"), records::plain(&text), records::plain("four")].join("\n");
    let output = env.manent_given(&["append", "a", "--jsonl"], lines);
    output.assert_fails(1, &["over the limit"]);
    assert_eq!(output.stdout(), "a 2\n");
    // Just under the limit it is a record like any other.
    let fits = "x".repeat(max - 200);
    assert_eq!(env.manent_given(&["append", "a"], fits).stdout(), "a 3\n");
    env.assert_clean("a");
}
