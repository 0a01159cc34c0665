//! `manent search` as people rely on it: whatever happens to sessions and to the index, the answer is what the sessions
//! say at that moment.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::machine::{Mount, Nobody, give, set_mode, skip};
use crate::support::{Output, Stream, TestEnvironment, records};

/// Returns the hits of a search as `key:seq`, and asserts that the exit code fits.
#[track_caller]
fn places(output: &Output) -> Vec<String> {
    let found: Vec<String> = output
        .stdout()
        .lines()
        .map(|line| {
            let hit: Value = serde_json::from_str(line).unwrap();
            format!("{}:{}", hit["session"].as_str().unwrap(), hit["seq"])
        })
        .collect();
    output.assert_code(if found.is_empty() { 4 } else { 0 });
    found
}

#[track_caller]
fn search(env: &TestEnvironment, args: &[&str]) -> Vec<String> {
    places(&env.manent(&[&["search", "--json"], args].concat()))
}

fn say(env: &TestEnvironment, key: &str, role: &str, ts: &str, content: &str) {
    let line = serde_json::json!({"ts": ts, "role": role, "content": content}).to_string();
    env.manent_given(&["append", "--jsonl", "--durability", "flush", "--", key], line).assert_code(0);
}

/// Options narrow a search as filters in it do, and do so for words that look like filters, too.
#[test]
fn options_narrow_a_search() {
    let env = TestEnvironment::new();
    say(&env, "telegram:alice", "user", "2026-01-05T10:00:00Z", "milk for alice");
    say(&env, "telegram:alice", "assistant", "2026-01-06T10:00:00Z", "milk noted");
    say(&env, "telegram:bob", "user", "2026-01-07T10:00:00Z", "milk for bob");
    say(&env, "a \"quoted\" key", "user", "2026-01-08T10:00:00Z", "milk, quoted");
    say(&env, "@alice", "user", "2026-01-09T10:00:00Z", "milk of a nickname");
    let sorted = |args: &[&str]| {
        let mut found = search(&env, &[&["milk"], args].concat());
        found.sort();
        found
    };
    assert_eq!(sorted(&["--role", "assistant"]), ["telegram:alice:2"]);
    assert_eq!(sorted(&["--role", "assistant,tool"]), ["telegram:alice:2"]);
    assert_eq!(sorted(&["--session", "telegram:bob"]), ["telegram:bob:1"]);
    assert_eq!(sorted(&["--session", "tele*"]), ["telegram:alice:1", "telegram:alice:2", "telegram:bob:1"]);
    assert_eq!(sorted(&["--session", "a \"quoted\" key"]), ["a \"quoted\" key:1"]);
    assert_eq!(sorted(&["--session", "@alice"]), ["@alice:1"], "somebody's nickname, not an id");
    let id = format!("@{}", env.id_in("live", "telegram:bob"));
    assert_eq!(sorted(&["--session", &id]), ["telegram:bob:1"]);
    assert_eq!(sorted(&["--since", "2026-01-07"]), ["@alice:1", "a \"quoted\" key:1", "telegram:bob:1"]);
    assert_eq!(sorted(&["--until", "2026-01-05"]), ["telegram:alice:1"], "that day included");
    assert_eq!(sorted(&["--since", "2026-01-06", "--until", "2026-01-06"]), ["telegram:alice:2"]);
    // Options alone, for all that was said then, there, or by them.
    let mut all = search(&env, &["--until", "2026-01-06"]);
    all.sort();
    assert_eq!(all, ["telegram:alice:1", "telegram:alice:2"]);
    // Excluded words, behind --.
    assert_eq!(search(&env, &["--", "milk", "-for", "-of", "-noted"]), ["a \"quoted\" key:1"]);
    // A quote that is never closed takes no option with it.
    assert_eq!(search(&env, &["--role", "assistant", "\"milk noted"]), ["telegram:alice:2"]);
    assert_eq!(search(&env, &["milk", "--limit", "2"]).len(), 2);
}

/// Whoever mistypes --home must not find a new store there afterwards.
#[test]
fn asking_makes_nothing() {
    let env = TestEnvironment::new();
    for args in [&["search", "x"][..], &["sessions"], &["stats"], &["doctor"], &["reindex"]] {
        let output = env.manent(args);
        assert!(matches!(output.code(), Some(0 | 4)), "{output}");
        assert!(!env.home().exists(), "{args:?}");
    }
}

/// Archived sessions are found. Deleted ones are not, until they are restored.
#[test]
fn archived_sessions_are_found_and_deleted_ones_are_not() {
    let env = TestEnvironment::new();
    env.append("work", "a needle in it");
    assert_eq!(search(&env, &["needle"]), ["work:1"]);
    env.done(&["archive", "work"]);
    assert_eq!(search(&env, &["needle"]), ["work:1"]);
    let shown = env.done(&["search", "needle"]);
    let command = shown.lines().last().unwrap().trim();
    let args: Vec<&str> = command.strip_prefix("manent ").unwrap().split(' ').collect();
    assert!(env.done(&args).contains("a needle in it"), "what it says to type works: {command}");
    env.done(&["rm", "work"]);
    assert_eq!(search(&env, &["needle"]), [""; 0]);
    env.done(&["restore", "work"]);
    assert_eq!(search(&env, &["needle"]), ["work:1"]);
    env.done(&["unarchive", "work"]);
    assert_eq!(search(&env, &["needle"]), ["work:1"]);
    env.done(&["fork", "work", "branch"]);
    env.append("branch", "a second needle");
    let mut found = search(&env, &["needle"]);
    found.sort();
    assert_eq!(found, ["branch:2", "work:1"], "what a fork shares is found once, where it was said");
}

/// Whoever purges because of a secret must not find it again in the index, in whatever form that is.
#[test]
fn a_purge_leaves_no_byte_in_the_index() {
    let env = TestEnvironment::new();
    env.append("doomed", "the password is xyzzyplugh, in a row: qwertyuiop asdfghjkl");
    env.append("other", "stays");
    env.done(&["archive", "doomed"]);
    env.append("doomed", "again xyzzyplugh");
    assert_eq!(search(&env, &["xyzzyplugh"]).len(), 2);
    let holding = env.holding("xyzzyplugh");
    assert!(holding.iter().any(|name| name.starts_with("index/")), "else nothing is proved: {holding:?}");
    env.done(&["rm", "--purge", "doomed"]);
    for word in ["xyzzyplugh", "qwertyuiop", "asdfghjkl", "doomed"] {
        assert_eq!(env.holding(word), [""; 0], "{word}");
    }
    assert_eq!(search(&env, &["xyzzyplugh"]), [""; 0]);
    assert_eq!(search(&env, &["stays"]), ["other:1"]);
}

/// The same in another program's store, of which the index lies in the cache of the user.
#[test]
fn a_store_of_another_program_has_its_index_in_the_cache() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.home()).unwrap();
    set_mode(env.home(), 0o700);
    let theirs = "{\"role\":\"user\",\"content\":\"their xyzzyplugh\"}\n";
    std::fs::write(env.home().join("theirs.jsonl"), theirs).unwrap();
    std::fs::write(env.home().join("kept.jsonl"), theirs.replace("xyzzyplugh", "needle")).unwrap();
    assert_eq!(search(&env, &["their", "xyzzyplugh"]).len(), 1);
    assert_eq!(search(&env, &["needle"]).len(), 1);
    let tree = env.tree();
    assert_eq!(tree.len(), 2, "nothing is put beside their files: {:?}", tree.keys());
    let holding = env.holding("xyzzyplugh");
    assert!(holding.iter().any(|name| name.starts_with("index/.cache/manent/index/")), "{holding:?}");
    env.done(&["rm", "--purge", "theirs"]);
    assert_eq!(env.holding("xyzzyplugh"), [""; 0]);
    assert_eq!(search(&env, &["needle"]).len(), 1);
    // Where there is no home directory, there is no index, and the same answer.
    let mut command = env.command(&["search", "--json", "needle"]);
    command.env_remove("HOME");
    assert_eq!(places(&env.output(command, b"")).len(), 1);
}

/// A turn is found from the moment its receipt is printed, while its writer goes on and holds the session.
#[test]
fn a_turn_is_found_as_soon_as_its_receipt_is_there() {
    let env = TestEnvironment::new();
    let mut writer = Stream::hold(&env, "busy");
    for n in 1..=20_usize {
        writer.send(&records::plain(&format!("needle number{n}")));
        writer.line();
        assert_eq!(search(&env, &["needle", "AND", &format!("number{n}")]), [format!("busy:{}", n + 1)]);
        assert_eq!(search(&env, &["needle", "--limit", "100"]).len(), n);
    }
}

/// Many searches at once, each the first, beside a writer: all give the same answer, and nothing that is not there.
#[test]
fn searches_at_once_agree() {
    let env = TestEnvironment::new();
    for n in 0..10 {
        env.append(&format!("s{n}"), "a needle");
    }
    for _ in 0..3 {
        let _ = std::fs::remove_dir_all(env.index());
        let searches: Vec<Stream> =
            (0..6).map(|_| Stream::start(&env, &["search", "--json", "needle"])).collect();
        env.append("meanwhile", "nothing of it");
        for running in searches {
            let (status, lines, errors) = running.finish();
            assert!(status.success() && errors.is_empty(), "{errors:?}");
            assert_eq!(lines.len(), 10);
        }
    }
    assert_eq!(env.unfinished(), [""; 0]);
}

/// A store with some history, and questions with what they must find.
fn library() -> (TestEnvironment, Vec<(&'static str, Vec<String>)>) {
    let env = TestEnvironment::new();
    for n in 0..12 {
        env.append(&format!("s{n}"), &format!("common word{n}, and part{} of a whole", n % 3));
        env.append(&format!("s{n}"), "\"in a row\" it stands");
    }
    env.done(&["archive", "s1", "s2"]);
    env.done(&["rm", "s3"]);
    let questions = ["common", "word7", "part1", "\"in a row\"", "wor*", "absent", "common -part0"];
    let answers: Vec<_> = questions.iter().map(|question| (*question, answer(&env, question))).collect();
    assert_eq!(answers.iter().map(|(_, found)| found.len()).collect::<Vec<_>>(), [11, 1, 4, 11, 11, 0, 8]);
    (env, answers)
}

#[track_caller]
fn answer(env: &TestEnvironment, question: &str) -> Vec<String> {
    search(env, &["--limit", "100", "--", question])
}

/// A change of the bytes of a file.
type Vandal = fn(&mut Vec<u8>);

/// Nobody can break an answer by what he does to the index: the sessions are the truth.
#[test]
fn whatever_is_done_to_the_index_no_answer_changes() {
    let (env, answers) = library();
    let check = |what: &str| {
        for (question, wanted) in &answers {
            assert_eq!(answer(&env, question), *wanted, "{what}: {question}");
        }
        assert_eq!(env.counts(), [9, 2, 1], "{what}");
        env.done(&["stats"]);
    };
    check("as it is");
    std::fs::remove_dir_all(env.index()).unwrap();
    check("removed");
    let names = || crate::support::environment::names_in(&env.index());
    for name in names() {
        std::fs::remove_file(env.index().join(&name)).unwrap();
        check(&format!("without {name}"));
    }
    let vandals: [(&str, Vandal); 6] = [
        ("emptied", |bytes| bytes.clear()),
        ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
        ("a bit flipped", |bytes| {
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
        }),
        ("the first byte flipped", |bytes| bytes[0] ^= 0x80),
        ("zeroed", |bytes| bytes.fill(0)),
        ("made longer", |bytes| bytes.extend([0xff; 5000])),
    ];
    for (what, hurt) in vandals {
        for name in names().into_iter().filter(|name| name != "lock") {
            let path = env.index().join(&name);
            // One that was made anew since has another name.
            let Ok(mut bytes) = std::fs::read(&path) else { continue };
            hurt(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
            check(&format!("{name} {what}"));
        }
        for name in names().into_iter().filter(|name| name != "lock") {
            let path = env.index().join(&name);
            let mut bytes = std::fs::read(&path).unwrap();
            hurt(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
        }
        check(&format!("all {what}"));
    }
}

/// Every byte of the index matters or does not: in no case is the answer another.
#[test]
fn no_flipped_byte_of_the_index_changes_an_answer() {
    let env = TestEnvironment::in_memory();
    for n in 0..4 {
        env.plant(
            &format!("s{n}"),
            records::session(&format!("s{n}"), &["a needle", &format!("word{n} in it")]),
        );
    }
    let wanted: BTreeSet<String> = search(&env, &["needle"]).into_iter().collect();
    env.done(&["reindex"]);
    let files: Vec<_> = env.everything().into_iter().filter(|(name, _)| name.starts_with("index/")).collect();
    for (name, bytes) in &files {
        let path = env.home().join(name);
        for at in (0..bytes.len()).step_by((bytes.len() / 24).max(1)) {
            let mut hurt = bytes.clone();
            hurt[at] ^= 0x10;
            for (name, bytes) in &files {
                std::fs::write(env.home().join(name), bytes).unwrap();
            }
            std::fs::write(&path, hurt).unwrap();
            let found: BTreeSet<String> = search(&env, &["needle"]).into_iter().collect();
            assert_eq!(found, wanted, "byte {at} of {name}");
            assert_eq!(search(&env, &["word2"]), ["s2:2"], "byte {at} of {name}");
        }
    }
}

/// Sessions on a disk that cannot be written are searched as ever.
#[test]
fn a_read_only_store_is_searched() {
    let outer = TestEnvironment::new();
    let Some(disk) = Mount::new(outer.root(), "tmpfs", "size=4m,mode=0755") else {
        skip("a_read_only_store_is_searched", "nothing can be mounted here");
        return;
    };
    let env = TestEnvironment::within(disk.path());
    env.append("work", "a needle");
    disk.again("ro");
    for _ in 0..2 {
        let output = env.manent(&["search", "--json", "needle"]);
        assert_eq!(places(&output), ["work:1"]);
        assert!(output.stderr_bytes.is_empty(), "nobody has to do anything about it: {output}");
    }
    assert_eq!(env.counts(), [1, 0, 0]);
    env.manent(&["reindex"]).assert_fails(1, &["the index cannot be written", "Read-only"]);
    let told = env.manent(&["doctor"]);
    told.assert_code(0);
    assert!(told.stdout().contains("cannot be written: Read-only"), "{told}");
    disk.again("rw");
}

/// So are sessions that an ordinary user may read and not write.
#[test]
fn a_store_without_the_right_to_write_is_searched() {
    let Some(nobody) = Nobody::new() else {
        skip("a_store_without_the_right_to_write_is_searched", "we cannot become somebody else");
        return;
    };
    nobody.manent(&["append", "work", "a needle"]).assert_code(0);
    for dir in [nobody.env.sessions(), nobody.env.home().to_owned()] {
        set_mode(&dir, 0o500);
    }
    assert_eq!(places(&nobody.manent(&["search", "--json", "needle"])), ["work:1"]);
    nobody.manent(&["reindex"]).assert_fails(1, &["the index cannot be written", "Permission denied"]);
    assert!(!nobody.env.index().exists());
    set_mode(nobody.env.home(), 0o700);
    // An index that somebody else made there is not believed, and not in the way.
    std::fs::create_dir(nobody.env.index()).unwrap();
    give(&nobody.env.index(), 1);
    assert_eq!(places(&nobody.manent(&["search", "--json", "needle"])), ["work:1"]);
}

/// A full disk under the index takes nothing from anybody: turns are kept, and found.
#[test]
fn a_full_disk_under_the_index_changes_nothing() {
    let env = TestEnvironment::new();
    env.append("work", "a needle");
    let Some(disk) = Mount::on(env.index(), "tmpfs", "size=16k,mode=0700") else {
        skip("a_full_disk_under_the_index_changes_nothing", "nothing can be mounted here");
        return;
    };
    let filled = std::fs::write(disk.path().join("filler"), vec![7; 1 << 20]);
    assert!(filled.is_err(), "it is full");
    for n in 2..6 {
        assert_eq!(env.append("work", "a needle"), n);
        assert_eq!(search(&env, &["needle"]).len() as u64, n);
    }
    let output = env.manent(&["reindex"]);
    output.assert_fails(1, &["the index cannot be written", "No space left", "searches answer all the same"]);
    let torn = [env.bytes("work"), b"{\"seq\":6,\"torn".to_vec()].concat();
    env.plant("work", torn);
    env.done(&["repair", "work"]);
    // A purge has to remove from the index even so.
    env.append("doomed", "xyzzyplugh");
    std::fs::remove_file(disk.path().join("filler")).unwrap();
    assert_eq!(search(&env, &["xyzzyplugh"]), ["doomed:1"]);
    assert!(env.holding("xyzzyplugh").len() > 1, "in the index too");
    let _ = std::fs::write(disk.path().join("filler"), vec![7; 1 << 20]);
    env.done(&["rm", "--purge", "doomed"]);
    assert_eq!(env.holding("xyzzyplugh"), [""; 0]);
    assert_eq!(search(&env, &["needle"]).len(), 5);
}

/// One session that cannot be read is named, and hides no other.
#[test]
fn a_session_that_cannot_be_read_hides_no_other() {
    let Some(nobody) = Nobody::new() else {
        skip("a_session_that_cannot_be_read_hides_no_other", "we cannot become somebody else");
        return;
    };
    for key in ["open", "shut"] {
        nobody.manent(&["append", key, "a needle"]).assert_code(0);
    }
    set_mode(Path::new(&nobody.env.log("shut")), 0o000);
    let output = nobody.manent(&["search", "--json", "needle"]);
    assert_eq!(places(&output), ["open:1"]);
    let warned = output.stderr();
    assert!(warned.starts_with("warning: shut was not searched: ") && warned.contains("denied"), "{output}");
    let told = nobody.manent(&["doctor"]);
    told.assert_code(3);
    assert!(told.stdout().contains("bad   session      shut cannot be read"), "{told}");
    set_mode(Path::new(&nobody.env.log("shut")), 0o600);
    assert_eq!(places(&nobody.manent(&["search", "--json", "needle"])).len(), 2);
}
