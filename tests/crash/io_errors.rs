//! System calls that fail, injected by strace into the real binary: each failure is told, none is called success,
//! and what was there before stays as it was.

use crate::support::{Output, TestEnvironment, machine, records, strace};

/// A session of two turns, and strace where there is one.
fn scene(test: &str) -> Option<TestEnvironment> {
    if !machine::can_trace() {
        machine::skip(test, "strace cannot trace here");
        return None;
    }
    let env = TestEnvironment::new();
    env.plant("a", records::session("a", &["one", "two"]));
    Some(env)
}

/// Runs `manent ARGS` while the calls of this name that touch `path` fail as `how` says.
fn failing(env: &TestEnvironment, path: &std::path::Path, call: &str, how: &str, args: &[&str]) -> Output {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{how}"));
    let path = path.to_string_lossy();
    let (output, log) = strace::traced(env, &["-P", &path, "-e", &trace, "-e", &inject], args);
    assert!(log.contains("INJECTED"), "the fault was not reached: {log}\n{output}");
    output
}

/// Acceptance list 12.
#[test]
fn a_failed_write_is_an_error_and_leaves_the_session_as_it_was() {
    let Some(env) = scene("a_failed_write_is_an_error") else { return };
    let before = env.bytes("a");
    for (error, words) in
        [("EIO", "Input/output error"), ("EROFS", "Read-only file system"), ("EPERM", "permitted")]
    {
        let how = format!("error={error}");
        let output = failing(&env, &env.log("a"), "write", &how, &["append", "a", "three"]);
        output.assert_fails(1, &["cannot append to", "a.jsonl", words]);
        assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
        assert_eq!(env.bytes("a"), before, "{error}");
    }
    assert_eq!(env.append("a", "three"), 3, "and it works again when the disk does");
}

/// Acceptance list 12, in a stream: what was acknowledged before the fault stays.
#[test]
fn a_write_that_fails_in_the_middle_of_a_stream_keeps_what_was_acknowledged() {
    let Some(env) = scene("a_write_that_fails_in_the_middle_of_a_stream") else { return };
    let log = env.log("a").to_string_lossy().into_owned();
    let trace_log = env.root().join("strace.log").to_string_lossy().into_owned();
    let wrapper = ["strace", "-f", "-qq", "-o", &trace_log, "-P", &log, "-e", "trace=write"];
    let wrapper = [&wrapper[..], &["-e", "inject=write:error=EIO:when=3"]].concat();
    let command = env.command_under(&wrapper, &["append", "a", "--jsonl", "--durability", "flush"]);
    // A record longer than the buffer between them is a write of its own.
    let big = "x".repeat(300_000);
    let lines: String = (3..=7).map(|n| records::plain(&format!("{n} {big}")) + "\n").collect();
    let output = env.output(command, lines.as_bytes());
    output.assert_fails(1, &["cannot append to", "Input/output error"]);
    assert_eq!(output.stdout(), "a 3\na 4\n");
    let kept = env.records("a");
    assert_eq!(kept.len(), 4, "two from before, two acknowledged");
    assert!(kept[3].contains("\"4 xxx"));
    env.assert_clean("a");
}

/// Acceptance list 16, as far as an injected error shows it; the real full disk is in `limits.rs`.
#[test]
fn a_full_disk_is_named_with_what_was_needed_and_what_is_free() {
    let Some(env) = scene("a_full_disk_is_named") else { return };
    let before = env.bytes("a");
    for error in ["ENOSPC", "EDQUOT"] {
        let how = format!("error={error}");
        let output = failing(&env, &env.log("a"), "write", &how, &["append", "a", "three"]);
        output.assert_fails(1, &["no space for", "a.jsonl", "bytes free", "free some space"]);
        assert_eq!(env.bytes("a"), before);
    }
}

/// Acceptance list 13: the write fails half-way (a limit on file sizes is a real short write), and taking it back
/// fails too. What is left is torn, and known to be.
#[test]
fn a_half_written_record_that_cannot_be_taken_back_is_torn_and_not_read() {
    let Some(env) = scene("a_half_written_record_that_cannot_be_taken_back") else { return };
    if !machine::has("prlimit") {
        return machine::skip("a_half_written_record_that_cannot_be_taken_back", "there is no prlimit");
    }
    let before = env.bytes("a");
    let limit = format!("--fsize={}", before.len() + 25);
    let (log, trace_log) = (env.log("a"), env.root().join("strace.log"));
    let (log, trace_log) = (log.to_string_lossy(), trace_log.to_string_lossy());
    // strace writes its own log and must not be limited: the limit is inside.
    let wrapper = ["strace", "-f", "-qq", "-o", &trace_log, "-P", &log, "-e", "trace=ftruncate"];
    let wrapper = [&wrapper[..], &["-e", "inject=ftruncate:error=EIO", "prlimit", &limit]].concat();
    let output = env.manent_under(&wrapper, &["append", "a", "three"]);
    output.assert_fails(7, &["unknown whether", "a.jsonl", "could not be taken back", "--key"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
    assert_eq!(env.bytes("a").len(), before.len() + 25, "the fault was reached");

    assert_eq!(env.records("a").len(), 2, "a reader stops before it");
    let (report, code) = env.verify("a");
    assert_eq!((code, &report["tail"]), (3, &"torn".into()), "{report}");
    let torn = env.bytes("a")[before.len()..].to_vec();
    assert_eq!(env.append("a", "three"), 3);
    assert_eq!(env.torn_copies("a"), [torn]);
    env.assert_clean("a");
}

/// Acceptance list 14: after a failed sync nobody knows what is on the disk, and nobody is told that it is there.
#[test]
fn a_failed_sync_gives_no_receipt_now_or_later() {
    let Some(env) = scene("a_failed_sync_gives_no_receipt") else { return };
    let output = failing(&env, &env.log("a"), "fdatasync", "error=EIO:when=1", &["append", "a", "three"]);
    output.assert_fails(7, &["unknown whether", "a.jsonl", "a sync failed", "Input/output error", "--key"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
    assert_eq!(env.records("a").len(), 3, "it can be read, and nothing is cut");
    env.assert_clean("a");

    // Only the first sync fails, and every later one would succeed: the handle must not go on all the same.
    let log = env.log("a").to_string_lossy().into_owned();
    let trace_log = env.root().join("strace.log").to_string_lossy().into_owned();
    let wrapper = ["strace", "-f", "-qq", "-o", &trace_log, "-P", &log, "-e", "trace=fdatasync"];
    let wrapper = [&wrapper[..], &["-e", "inject=fdatasync:error=EIO:when=1"]].concat();
    let command = env.command_under(&wrapper, &["append", "a", "--jsonl"]);
    let big = "x".repeat(300_000);
    let lines: String = (0..3).map(|n| records::plain(&format!("{n} {big}")) + "\n").collect();
    let output = env.output(command, lines.as_bytes());
    output.assert_fails(7, &["a sync failed"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt for this record or any after it: {output}");
    env.assert_clean("a");
}

/// Acceptance list 14 and 23: the name of a new session is part of what a receipt promises.
#[test]
fn a_directory_that_cannot_be_synced_gives_no_receipt() {
    let Some(env) = scene("a_directory_that_cannot_be_synced") else { return };
    let output = failing(&env, &env.sessions(), "fsync", "error=EIO", &["append", "new", "x"]);
    output.assert_fails(7, &["the directory could not be synced", "sessions", "Input/output error"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");

    let fresh = TestEnvironment::new();
    let output = failing(&fresh, fresh.root(), "fsync", "error=EIO", &["append", "a", "x"]);
    output.assert_fails(1, &["cannot create", "Input/output error"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
    assert_eq!(fresh.append("a", "x"), 1);
}

/// Acceptance list 19: a signal that interrupts a call is no error and leaves no trace in the bytes.
#[test]
fn interrupted_calls_are_made_again() {
    let Some(env) = scene("interrupted_calls_are_made_again") else { return };
    let cases = [
        ("write", "1..3"),
        ("pread64", "1..3"),
        ("pread64", "2..2"),
        ("fdatasync", "1..2"),
        ("ftruncate", "1..1"),
    ];
    for (n, (call, when)) in (3_u64..).zip(cases) {
        // A torn end gives every call something to do.
        let mut bytes = env.bytes("a");
        bytes.extend(&records::turn(n, "torn").as_bytes()[..40]);
        env.plant("a", &bytes);
        let how = format!("error=EINTR:when={when}");
        let output = failing(&env, &env.log("a"), call, &how, &["append", "a", "again", "-q"]);
        output.assert_code(0);
        assert_eq!(output.stdout(), format!("a {n}\n"), "{call}");
        assert!(env.records("a").last().unwrap().contains(r#""content":"again""#), "{call}");
    }
    env.assert_clean("a");
}

/// A record that was refused was readable, and a retry doubled it.
#[test]
fn append_with_a_key_is_tried_again_after_a_failed_sync_and_is_there_once() {
    let Some(env) = scene("append_with_a_key_is_tried_again") else { return };
    let args = ["append", "a", "three", "--key", "k-3", "--json"];
    let output = failing(&env, &env.log("a"), "fdatasync", "error=EIO:when=1", &args);
    output.assert_fails(7, &["unknown whether", "may be there", "--key"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
    let before = env.bytes("a");

    // The retry writes the same bytes again, and not at the end, before it syncs and says so.
    let (output, log) = strace::traced(&env, &["-e", "trace=openat,pwrite64,fdatasync"], &args);
    output.assert_code(0);
    assert!(output.stdout().contains(r#""seq":3"#) && output.stdout().contains(r#""durability":"sync""#));
    let at = |call: &str| log.find(call).unwrap_or_else(|| panic!("no {call}: {log}"));
    let opened = log.lines().rfind(|line| line.contains("a.jsonl\"")).unwrap();
    assert!(opened.contains("O_RDWR") && !opened.contains("O_APPEND"), "{opened}");
    assert!(at("pwrite64(") < at("fdatasync("), "{log}");
    assert_eq!(env.bytes("a"), before);
    assert_eq!(env.records("a").len(), 3);

    // One that is refused in the retry itself is unknown still.
    let output = failing(&env, &env.log("a"), "pwrite64", "error=EIO", &args);
    output.assert_fails(7, &["could not be written again", "Input/output error"]);
    env.manent(&args).assert_code(0);
    assert_eq!(env.bytes("a"), before);
}

/// A retry of `run record` in a new process said that the entry is synced, and had written nothing.
#[test]
fn run_record_is_tried_again_after_a_failed_sync_and_written_before_it_is_called_synced() {
    let Some(env) = scene("run_record_is_tried_again") else { return };
    let entry = r#"{"skill":"lint","idempotency_key":"k","final_status":"success"}"#;
    let args = ["run", "record", "a", entry, "--json"];
    let file = env.home().join("runs/a.jsonl");
    failing(&env, &file, "fdatasync", "error=EIO:when=1", &args).assert_fails(7, &["unknown whether"]);
    let before = std::fs::read(&file).unwrap();
    let (output, log) = strace::traced(&env, &["-e", "trace=pwrite64,fdatasync"], &args);
    output.assert_code(0);
    for words in [r#""durability":"sync""#, r#""repeated":true"#] {
        assert!(output.stdout().contains(words), "{output}");
    }
    let (written, synced) = (log.find("pwrite64("), log.find("fdatasync("));
    assert!(written.is_some() && written < synced, "{log}");
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn title_and_memory_add_try_again_by_themselves_when_a_sync_fails() {
    let Some(env) = scene("title_and_memory_add_try_again") else { return };
    let once = "error=EIO:when=1";
    failing(&env, &env.log("a"), "fdatasync", once, &["title", "a", "A name"]).assert_code(0);
    let titles = |env: &TestEnvironment| {
        env.records("a").iter().filter(|line| line.contains(r#""kind":"title""#)).count()
    };
    assert_eq!(titles(&env), 1);
    // The same title given again is another record: no key is made of what it says.
    env.manent(&["title", "a", "A name"]).assert_code(0);
    assert_eq!(titles(&env), 2);
    let all = failing(&env, &env.log("a"), "fdatasync", "error=EIO", &["title", "a", "Another"]);
    all.assert_fails(7, &["unknown whether"]);

    env.manent(&["memory", "add", "tea"]).assert_code(0);
    let file = env.home().join("memory.jsonl");
    let output = failing(&env, &file, "fdatasync", once, &["memory", "add", "coffee"]);
    output.assert_code(0);
    assert!(output.stdout().contains("remembered 2"), "{output}");
    env.manent(&["memory", "add", "coffee"]).assert_code(0);
    let lines = std::fs::read_to_string(&file).unwrap();
    assert_eq!(lines.matches(r#""content":"coffee""#).count(), 2, "one for each time it was added: {lines}");
    let output = failing(&env, &file, "fdatasync", "error=EIO", &["memory", "add", "milk"]);
    output.assert_fails(7, &["unknown whether"]);
}

/// In another program's file nothing is written but at its end.
#[test]
fn append_with_a_key_to_another_programs_file_stays_unknown() {
    let Some(env) = scene("append_with_a_key_to_another_programs_file") else { return };
    env.plant("theirs", b"{\"role\":\"user\",\"content\":\"hi\"}\n");
    let args = ["append", "theirs", "ours", "--key", "k"];
    failing(&env, &env.log("theirs"), "fdatasync", "error=EIO", &args).assert_fails(7, &["unknown whether"]);
    let before = env.bytes("theirs");
    let output = env.manent(&args);
    output.assert_fails(7, &["can be read there", "another program's file"]);
    assert!(output.stdout_bytes.is_empty() && env.bytes("theirs") == before, "{output}");
}

/// A lock that is refused left an empty file where a session was to begin.
#[test]
fn a_lock_that_fails_on_a_new_key_leaves_no_file() {
    let Some(env) = scene("a_lock_that_fails_on_a_new_key") else { return };
    let names = env.file_names();
    // The name under which a new log is locked, before it gets its own.
    let temporary = env.log("new").with_file_name(".new-0.tmp");
    let output = failing(&env, &temporary, "flock", "error=ENOLCK", &["append", "new", "x"]);
    output.assert_fails(1, &["cannot lock", "new.jsonl", "No locks available"]);
    assert_eq!(env.file_names(), names);
    assert_eq!(env.append("new", "x"), 1);
}

#[test]
fn a_lock_that_fails_is_an_error_and_nothing_is_written() {
    let Some(env) = scene("a_lock_that_fails") else { return };
    let before = env.bytes("a");
    let output = failing(&env, &env.log("a"), "flock", "error=ENOLCK", &["append", "a", "three"]);
    output.assert_fails(1, &["cannot lock", "a.jsonl", "No locks available"]);
    assert_eq!(env.bytes("a"), before);
}

/// A disk that cannot be read is not an empty session.
#[test]
fn a_failed_read_is_an_error_and_not_an_end() {
    let Some(env) = scene("a_failed_read_is_an_error") else { return };
    let before = env.bytes("a");
    for args in [
        &["show", "a"][..],
        &["verify", "a"],
        &["append", "a", "x"],
        &["repair", "a"],
        &["show", "a", "--tail", "1"],
    ] {
        for nth in 1..=2 {
            let how = format!("error=EIO:when={nth}");
            let output = failing(&env, &env.log("a"), "pread64", &how, args);
            output.assert_fails(1, &["cannot read", "a.jsonl", "Input/output error"]);
            assert!(output.stdout_bytes.is_empty(), "{args:?}: {output}");
        }
    }
    let output = failing(&env, &env.log("a"), "pread64", "error=EIO", &["sessions"]);
    assert!(output.stderr().contains("a.jsonl: Input/output error"), "{output}");
    assert_eq!(env.bytes("a"), before);
}

/// Torn bytes are copied before they are cut: if the copy fails, nothing is cut.
#[test]
fn a_torn_end_that_cannot_be_copied_is_not_cut() {
    let Some(env) = scene("a_torn_end_that_cannot_be_copied") else { return };
    let mut bytes = env.bytes("a");
    let torn = records::turn(3, "torn").as_bytes()[..40].to_vec();
    let copy = env.sessions().join(format!("a.jsonl.torn-{}-0", bytes.len()));
    bytes.extend(&torn);
    for (path, call) in [(&copy, "write"), (&copy, "fdatasync"), (&env.sessions(), "fsync")] {
        let _ = std::fs::remove_file(&copy);
        env.plant("a", &bytes);
        let output = failing(&env, path, call, "error=ENOSPC", &["append", "a", "three"]);
        output.assert_fails(1, &["No space left on device"]);
        assert_eq!(env.bytes("a"), bytes, "{call}: nothing is cut before its copy is safe");
    }
    assert_eq!(env.append("a", "three"), 3);
    assert!(env.torn_copies("a").contains(&torn));
}
