//! A machine that has no more to give: file sizes, open files, space, a disk that may only be read. The answer is a
//! clear error and a session that is as it was, never death and never half a record.

use std::io::Write;

use crate::support::{TestEnvironment, machine, records, strace};

/// Acceptance list 18: the signal SIGXFSZ would kill a process that does not expect it.
#[test]
fn a_limit_on_file_sizes_is_an_error_and_nothing_of_the_record_remains() {
    if !machine::has("prlimit") {
        return machine::skip("a_limit_on_file_sizes", "there is no prlimit");
    }
    let env = TestEnvironment::new();
    env.plant("a", records::session("a", &["one"]));
    let before = env.bytes("a");
    // Nothing fits; a part fits and would be written; all but one byte fits.
    for room in [0, 10, 85] {
        let limit = format!("--fsize={}", before.len() + room);
        let output = env.manent_under(&["prlimit", &limit], &["append", "a", "two"]);
        output.assert_fails(1, &["cannot append to", "a.jsonl", "File too large", "ulimit -f"]);
        assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
        assert_eq!(env.bytes("a"), before, "{room} bytes of room");
    }
    let limit = format!("--fsize={}", before.len() + 200);
    env.manent_under(&["prlimit", &limit], &["append", "a", "two"]).assert_code(0);
    env.assert_clean("a");
}

/// Acceptance list 18, in a stream: the limit is met in the middle.
#[test]
fn a_stream_that_meets_a_limit_keeps_exactly_what_it_acknowledged() {
    if !machine::has("prlimit") {
        return machine::skip("a_stream_that_meets_a_limit", "there is no prlimit");
    }
    let env = TestEnvironment::new();
    let big = "x".repeat(300_000);
    let lines: String = (1..=5).map(|n| records::plain(&format!("{n} {big}")) + "\n").collect();
    let args = ["append", "a", "--jsonl", "--durability", "flush"];
    let output = env.output(env.command_under(&["prlimit", "--fsize=1000000"], &args), lines.as_bytes());
    output.assert_fails(1, &["File too large"]);
    assert_eq!(output.stdout(), "a 1\na 2\na 3\n");
    assert_eq!(env.records("a").len(), 3);
    env.assert_clean("a");
}

/// Acceptance list 20.
#[test]
fn too_few_open_files_are_a_clear_error_and_no_record_is_lost() {
    if !machine::has("prlimit") {
        return machine::skip("too_few_open_files", "there is no prlimit");
    }
    let env = TestEnvironment::new();
    env.plant("a", records::session("a", &["one"]));
    let mut failures = 0;
    for files in 4..=8 {
        let limit = format!("--nofile={files}");
        let before = env.bytes("a");
        let output = env.manent_under(&["prlimit", &limit], &["append", "a", "more"]);
        if output.code() == Some(0) {
            assert!(env.bytes("a").len() > before.len(), "{files} files: {output}");
            continue;
        }
        failures += 1;
        // At the sync of the directory the record is there, and nobody knows whether its name is.
        let code = if output.stderr().contains("unknown whether") { 7 } else { 1 };
        output.assert_fails(code, &["Too many open files", "ulimit -n"]);
        assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
        assert!(env.bytes("a").starts_with(&before), "{files} files");
        let output = env.manent_under(&["prlimit", &limit], &["verify", "a"]);
        assert!(output.code() == Some(0) || output.stderr().contains("Too many open files"), "{output}");
    }
    assert!(failures > 0, "the limit was felt");
    assert_eq!(env.manent(&["append", "a", "after"]).code(), Some(0));
    env.assert_clean("a");
}

/// Acceptance list 16, on a disk that is really full.
#[test]
fn a_full_disk_keeps_nothing_of_the_record_and_works_again_when_there_is_space() {
    let outer = TestEnvironment::new();
    let Some(disk) = small_disk(&outer) else {
        return machine::skip("a_full_disk_keeps_nothing_of_the_record", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    env.append("a", "one");
    let before = env.bytes("a");
    let filler = disk.path().join("filler");
    let fill = |leave: usize| {
        let _ = std::fs::remove_file(&filler);
        let free =
            rustix::fs::statvfs(disk.path()).map(|stat| stat.f_bavail * stat.f_frsize).unwrap() as usize;
        std::fs::write(&filler, vec![b'f'; free - leave]).unwrap();
    };
    // Three pages are free: a part of the record can be written before there is no more.
    fill(3 * 4096);
    let text = "y".repeat(100_000);
    let output = env.manent_given(&["append", "a"], &text);
    output.assert_fails(1, &["no space for 100", "a.jsonl (12288 bytes free)", "nothing was written"]);
    assert!(output.stdout_bytes.is_empty(), "no receipt: {output}");
    assert_eq!(env.bytes("a"), before, "nothing of the record remains");

    // Reading needs no space, and a small record still fits into what is left.
    assert_eq!(env.records("a").len(), 1);
    assert_eq!(env.append("a", "small"), 2);
    // Of several records the ones that fitted are kept, each with its receipt.
    let lines: String =
        (0..8).map(|n| records::plain(&format!("{n} {}", "z".repeat(280_000))) + "\n").collect();
    fill(600_000);
    let output = env.manent_given(&["append", "a", "--jsonl"], lines);
    output.assert_fails(1, &["no space for"]);
    assert_eq!(output.stdout(), "a 3\na 4\n");
    assert_eq!(env.records("a").len(), 4);

    std::fs::remove_file(&filler).unwrap();
    assert_eq!(env.manent_given(&["append", "a"], &text).stdout(), "a 5\n");
    env.assert_clean("a");
}

/// A new session on a full disk: its file, too, would be something that remains.
#[test]
fn a_first_record_for_which_there_is_no_space_leaves_no_session() {
    let outer = TestEnvironment::new();
    let Some(disk) = small_disk(&outer) else {
        return machine::skip("a_first_record_for_which_there_is_no_space", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    env.append("a", "one");
    let mut filler = std::fs::File::create(disk.path().join("filler")).unwrap();
    while filler.write_all(&[b'f'; 4096]).is_ok() {}
    env.manent(&["append", "new", "text"]).assert_fails(1, &["no space for", "new.jsonl"]);
    env.manent(&["show", "new"]).assert_code(4);
    assert_eq!(env.manent(&["sessions", "--json"]).stdout().lines().count(), 1);
}

/// Torn bytes are kept before they are cut; on a full disk that means that nothing is cut.
#[test]
fn a_torn_end_on_a_full_disk_is_neither_cut_nor_lost() {
    let outer = TestEnvironment::new();
    let Some(disk) = small_disk(&outer) else {
        return machine::skip("a_torn_end_on_a_full_disk", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    let torn = records::turn(2, &"torn".repeat(5000)).into_bytes()[..15_000].to_vec();
    let bytes = [records::session("a", &["one"]), torn.clone()].concat();
    env.plant("a", &bytes);
    let mut filler = std::fs::File::create(disk.path().join("filler")).unwrap();
    while filler.write_all(&[b'f'; 4096]).is_ok() {}
    env.manent(&["append", "a", "two"]).assert_fails(1, &["No space left on device"]);
    assert_eq!(env.bytes("a"), bytes, "nothing is cut before its copy is safe");
    assert_eq!(env.records("a").len(), 1);

    std::fs::remove_file(disk.path().join("filler")).unwrap();
    drop(filler);
    assert_eq!(env.append("a", "two"), 2);
    assert!(env.torn_copies("a").contains(&torn));
    env.assert_clean("a");
}

/// Acceptance list 22, a file system.
#[test]
fn a_read_only_disk_is_read_and_writing_says_why_not() {
    let outer = TestEnvironment::new();
    let Some(disk) = small_disk(&outer) else {
        return machine::skip("a_read_only_disk_is_read", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    env.append("a", "one");
    env.plant("torn", [records::session("torn", &["one"]), b"{\"seq\":2,".to_vec()].concat());
    disk.again("ro");
    for args in [&["show", "a"][..], &["sessions"], &["verify", "a"], &["show", "torn"], &["repair", "a"]] {
        env.manent(args).assert_code(0);
    }
    env.manent(&["verify", "torn"]).assert_code(3);
    for args in [&["append", "a", "x"][..], &["append", "new", "x"], &["repair", "torn"]] {
        env.manent(args).assert_fails(1, &["Read-only file system", "it can be read"]);
    }
    disk.again("rw");
    assert_eq!(env.append("a", "two"), 2);
}

/// Acceptance list 32, as far as one machine has such file systems: one that nobody has vouched for is not written to.
#[test]
fn a_file_system_that_is_not_known_to_be_safe_is_not_written_to_unless_one_insists() {
    let outer = TestEnvironment::new();
    let Some(disk) = machine::Mount::new(outer.root(), "hugetlbfs", "mode=0700") else {
        return machine::skip(
            "a_file_system_that_is_not_known_to_be_safe",
            "hugetlbfs cannot be mounted here",
        );
    };
    let env = TestEnvironment::within(disk.path());
    let words = ["a.jsonl lies on a file system we do not know", "put it on a local disk, or insist"];
    env.manent(&["append", "a", "x"]).assert_fails(1, &words);
    assert_eq!(env.file_names(), [""; 0], "it is refused before anything is made");
    let output = env.manent(&["append", "a", "x", "--any-filesystem"]);
    assert!(!output.stderr().contains("lies on a file system"), "who insists is let through: {output}");
}

/// A disk of two megabytes.
fn small_disk(outer: &TestEnvironment) -> Option<machine::Mount> {
    machine::Mount::new(outer.root(), "tmpfs", "size=2m,mode=0755")
}

#[test]
fn search_where_no_thread_can_be_started_answers() {
    if !machine::can_trace() {
        return machine::skip("search_where_no_thread_can_be_started_answers", "strace cannot trace here");
    }
    let env = TestEnvironment::in_memory();
    for number in 0..1100 {
        env.plant(&format!("s{number}"), "{\"role\":\"user\",\"content\":\"alpha\"}\n");
    }
    env.done(&["sessions", "--json"]);
    let faults = ["-e", "trace=clone,clone3", "-e", "inject=clone,clone3:error=EAGAIN"];
    let (output, _) = strace::traced(&env, &faults, &["search", "--json", "--limit", "2000", "alpha"]);
    output.assert_code(0);
    assert_eq!(output.stdout().lines().count(), 1100, "{output}");
}
