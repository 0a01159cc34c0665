//! Where what is remembered came from: shown wherever the session is by now, judged by an audit, and named when its
//! session is purged. And what `verify`, `doctor` and `repair` say of a memory that is damaged.

use serde_json::{Value, json};

use crate::support::memory::{item, memory_of};
use crate::support::{TestEnvironment, records};

/// A session of four turns, and an item that rests on the third.
fn scene() -> TestEnvironment {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"role":"user","content":"good morning"}"#,
        r#"{"role":"assistant","content":"what do you like?"}"#,
        r#"{"role":"user","content":"I prefer tabs over spaces"}"#,
        r#"{"role":"assistant","content":"noted: you hate spaces"}"#,
    ];
    env.manent_given(&["append", "work", "--jsonl"], lines.join("\n")).assert_code(0);
    env.remember(&[
        "prefers tabs",
        "--from",
        "model",
        "--session",
        "work",
        "--seq",
        "3",
        "--quote",
        "prefer tabs",
    ]);
    env
}

#[track_caller]
fn why(env: &TestEnvironment, id: &str) -> Value {
    env.mem_json(&["why", id]).remove(0)
}

/// The source in its context, and that it is the source.
#[track_caller]
fn assert_source_shown(env: &TestEnvironment, place: &str) {
    let shown = env.mem(&["why", "1"]);
    shown.assert_code(0);
    let text = shown.stdout();
    assert!(text.contains(&format!("session   work, record 3{place}\n")), "{text}");
    assert!(text.contains(">    3  user       I prefer tabs over spaces\n"), "{text}");
    assert!(text.contains("     2  assistant  what do you like?\n"), "{text}");
    assert!(text.contains("rests on  what the user said: the quote is there"), "{text}");
    let why = why(env, "1");
    assert_eq!(
        (&why["grounds"], &why["grounded"], &why["quoted_seq"]),
        (&"quoted".into(), &true.into(), &3.into())
    );
    let passage = why["passage"].as_array().unwrap();
    let seqs: Vec<(u64, bool)> = passage
        .iter()
        .map(|said| (said["seq"].as_u64().unwrap(), said["source"].as_bool().unwrap()))
        .collect();
    assert_eq!(seqs, [(1, false), (2, false), (3, true), (4, false)]);
}

#[test]
fn the_source_of_an_item_is_shown_wherever_its_session_is() {
    let env = scene();
    assert_source_shown(&env, "");
    env.done(&["archive", "work"]);
    assert_source_shown(&env, " (archived)");
    // Another session of that key is not the one that is meant.
    env.append("work", "somebody else's");
    assert_source_shown(&env, " (archived)");
    env.done(&["rm", "work"]);
    env.done(&["unarchive", "work"]);
    assert_source_shown(&env, "");
    env.done(&["rm", "work"]);
    assert_source_shown(&env, " (in the trash)");
    env.done(&["rm", "--purge", "work", "-q"]);
    let gone = env.mem(&["why", "1"]);
    gone.assert_code(0);
    assert!(gone.stdout().contains("session   work, record 3; it is not there any more"), "{gone}");
    assert!(gone.stdout().contains("rests on  nothing that is still there"), "{gone}");
    let why = why(&env, "1");
    assert_eq!(
        (&why["grounds"], &why["grounded"], &why["passage"]),
        (&"gone".into(), &false.into(), &json!([]))
    );
}

/// A fork shows the turns of its parent as its own; so does the source of what was taken from it.
#[test]
fn an_item_taken_from_a_fork_shows_what_the_fork_shares_with_its_parent() {
    let env = scene();
    env.done(&["fork", "work", "b", "--at", "3"]);
    env.append("b", "and two blanks in YAML");
    let id =
        env.remember(&["two blanks in YAML", "--session", "b", "--seq", "3-4", "--quote", "blanks in YAML"]);
    let shared =
        env.remember(&["tabs", "--from", "model", "--session", "b", "--seq", "3", "--quote", "prefer tabs"]);
    for purged in [false, true] {
        let both = why(&env, &id.to_string());
        let texts: Vec<&str> = both["passage"]
            .as_array()
            .unwrap()
            .iter()
            .map(|said| said["content"].as_str().unwrap())
            .collect();
        let wanted =
            ["good morning", "what do you like?", "I prefer tabs over spaces", "and two blanks in YAML"];
        assert_eq!((texts, &both["quoted_seq"]), (wanted.to_vec(), &4.into()));
        assert_eq!(why(&env, &shared.to_string())["quoted_seq"], 3);
        if !purged {
            // The fork is given what it shared: its items still rest on something, the parent's do not.
            let said = env.manent(&["rm", "--purge", "work"]).stderr();
            assert!(said.contains("`manent memory forget 1`"), "{said}");
        }
    }
    assert_eq!(why(&env, "1")["grounds"], "gone");
}

#[test]
fn a_purge_names_what_is_still_remembered_of_the_session() {
    let env = scene();
    env.append("other", "something else");
    env.remember(&["from the other", "--session", "other"]);
    env.remember(&["from nowhere"]);
    env.remember(&["also from it", "--session", "work", "--seq", "1"]);
    env.remember(&["replaces the first", "--replaces", "1"]);
    let purged = env.manent(&["rm", "--purge", "work"]);
    purged.assert_code(0);
    let wanted = "warning: the memory still holds items taken from it; `manent memory forget 4 1`, then \
                  `manent memory compact`, takes that out\n";
    assert_eq!(purged.stderr(), wanted);
    env.done(&["memory", "forget", "4", "1"]);
    env.done(&["memory", "compact"]);
    assert_eq!(env.holding("prefer tabs"), [""; 0]);
    let purged = env.manent(&["rm", "--purge", "other"]);
    assert!(
        purged.stderr().contains("still holds an item taken from it; `manent memory forget 2`"),
        "{purged}"
    );
    env.append("third", "x");
    assert!(env.manent(&["rm", "--purge", "third"]).stderr_bytes.is_empty());
}

/// A purge succeeds even if the memory cannot be searched for what came from the session.
#[test]
fn a_purge_is_done_also_where_the_memory_cannot_be_read() {
    let env = scene();
    std::fs::remove_file(env.memory()).unwrap();
    std::fs::create_dir(env.memory()).unwrap();
    let purged = env.manent(&["rm", "--purge", "work"]);
    purged.assert_code(0);
    assert!(purged.stdout().starts_with("purged work"), "{purged}");
    assert!(
        purged.stderr().contains("cannot be read") && purged.stderr().contains("is a directory"),
        "{purged}"
    );
}

/// Everything that an audit looks for, once each, and things that look like it and are not.
fn flawed() -> TestEnvironment {
    let env = scene();
    let add = |args: &[&str]| env.remember(args);
    let model = |text: &'static str, rest: &[&'static str]| add(&[&[text, "--from", "model"], rest].concat());
    assert_eq!(add(&["the staging database is read-only on Sundays"]), 2);
    add(&["The staging database is read-only on Sundays!"]);
    add(&["deploy script needs the staging credentials before it runs on friday evening"]);
    add(&["the deploy script needs staging credentials before it runs on a friday evening"]);
    model("is fond of walks", &[]);
    model("hates blanks", &["--session", "work", "--seq", "4", "--quote", "hate spaces"]);
    add(&["export DB_PASSWORD=tr0ub4dor&3"]);
    add(&["Anna lives in Lyon"]);
    assert_eq!(add(&["Anna lives in Berlin"]), 10);
    add(&["is forgotten"]);
    add(&["is replaced"]);
    add(&["is something else", "--replaces", "12"]);
    env.done(&["memory", "forget", "11"]);
    let recalled = r#"{"kind":"context","memory":[2,13]}"#;
    env.manent_given(&["append", "work", "--jsonl"], recalled).assert_code(0);
    env
}

#[test]
fn an_audit_counts_exactly_what_is_wrong() {
    let env = flawed();
    let before = env.tree();
    let audit = env.mem_json(&["audit"]).remove(0);
    let count = |name: &str| (audit[name]["items"].as_u64().unwrap(), audit[name]["ids"].clone());
    let told =
        ["active", "replaced", "forgotten", "unknown", "double_ids", "damaged"].map(|name| &audit[name]);
    assert_eq!(told, [&json!(11), &json!(1), &json!(1), &json!(0), &json!(0), &json!(0)]);
    assert_eq!(count("exact_duplicates"), (1, json!([3])));
    assert_eq!(audit["exact_duplicates"]["pairs"], json!([[2, 3]]));
    assert_eq!(count("near_duplicates"), (1, json!([5])));
    assert_eq!(audit["near_duplicates"]["pairs"], json!([[4, 5]]));
    assert_eq!(count("contradictory"), (2, json!([10, 9])));
    assert_eq!(audit["contradictory"]["pairs"], json!([[9, 10]]));
    assert_eq!(count("ungrounded"), (2, json!([7, 6])), "the first rests on the user's word");
    assert_eq!(count("not_said_by_user"), (1, json!([7])));
    assert_eq!(count("secret"), (1, json!([8])));
    assert_eq!(count("never_recalled").0, 9, "all but 2 and 13");
    assert_eq!(count("flawed"), (7, json!([10, 9, 8, 7, 6, 5, 3])));
    assert_eq!(audit["flawed"]["rate"].as_f64(), Some(7.0 / 11.0));
    let text = env.mem(&["audit"]);
    text.assert_code(0);
    assert!(
        text.stdout().starts_with("11 active, 1 replaced, 1 forgotten and still in the file\n"),
        "{text}"
    );
    assert!(!text.stdout().contains("tr0ub4dor"), "{text}");
    assert!(env.tree() == before, "an audit changes nothing");
    let recalled = env.mem(&["why", "2"]).stdout();
    assert!(recalled.contains("recalled  once, last 20"), "{recalled}");
    assert!(env.mem(&["why", "3"]).stdout().contains("recalled  never"));
}

/// A fork does not count again what was recalled in what it shares.
#[test]
fn what_was_recalled_is_counted_once_also_in_forks_and_in_archives() {
    let env = flawed();
    env.done(&["fork", "work", "b"]);
    env.done(&["archive", "work"]);
    assert_eq!(why(&env, "2")["recalls"], 1);
    env.manent_given(&["append", "b", "--jsonl"], r#"{"kind":"context","memory":[2]}"#).assert_code(0);
    // What is no list of numbers recalls nothing.
    let odd = [
        r#"{"kind":"context","memory":"2"}"#,
        r#"{"kind":"context","memory":[-2,"2",2.0]}"#,
        r#"{"kind":"note","memory":[2]}"#,
    ];
    env.manent_given(&["append", "b", "--jsonl"], odd.join("\n")).assert_code(0);
    assert_eq!(why(&env, "2")["recalls"], 2);
    assert!(env.mem(&["why", "2"]).stdout().contains("recalled  2 times, last 20"));
}

/// One bad byte in the middle, as a disk makes it.
fn damaged() -> TestEnvironment {
    let env = TestEnvironment::new();
    let mut bytes = memory_of(&["one", "two", "three"]);
    let hurt = bytes.windows(5).position(|w| w == b"\"two\"").unwrap();
    bytes[hurt + 1] = b'T';
    env.plant_memory(bytes);
    env
}

#[test]
fn damage_in_the_memory_is_named_by_everybody_until_it_is_acknowledged() {
    let env = damaged();
    for args in [&["list"][..], &["search", "three"], &["select", "three"], &["audit"]] {
        let output = env.mem(args);
        output.assert_code(0);
        assert!(output.stderr().starts_with("warning: 1 place in "), "{output}");
        assert!(output.stderr().contains("memory.jsonl cannot be read, the first at offset "), "{output}");
    }
    assert_eq!(env.remembered(), [3, 1], "it hides nothing else");
    assert_eq!(env.mem_json(&["audit"])[0]["damaged"], 1);
    let verified = env.manent(&["verify"]);
    verified.assert_code(3);
    assert!(verified.stdout().starts_with("damaged  the memory  2 records\n"), "{verified}");
    let json: Value = serde_json::from_slice(&env.manent(&["verify", "--json"]).stdout_bytes).unwrap();
    assert_eq!(json["memory"], env.memory().to_str().unwrap());
    assert_eq!((&json["damage"][0]["acknowledged"], &json["tail"]), (&false.into(), &"clean".into()));
    let doctor = env.manent(&["doctor"]);
    doctor.assert_code(3);
    assert!(
        doctor.stdout().contains("bad   memory       2 active; damaged in 1 place; `manent verify`"),
        "{doctor}"
    );
    let repaired = env.manent(&["repair"]);
    repaired.assert_code(0);
    assert!(
        repaired.stdout().contains("repaired the memory\n") && repaired.stdout().contains("acknowledged")
    );
    env.manent(&["verify"]).assert_code(0);
    let doctor = env.manent(&["doctor"]);
    doctor.assert_code(0);
    let words = "ok    memory       2 active, 0 forgotten; damaged, which is known and acknowledged";
    assert!(doctor.stdout().contains(words), "{doctor}");
    assert!(env.remember(&["new"]) > 3);
    // Compacting leaves it behind, and says where it is kept.
    env.done(&["memory", "forget", "1"]);
    let compacted = env.mem(&["compact"]);
    compacted.assert_code(0);
    assert!(compacted.stderr().contains("what could not be read is kept in "), "{compacted}");
    assert!(env.everything().iter().any(|(name, bytes)| {
        name.contains("memory.jsonl.damaged-") && bytes.windows(5).any(|w| w == b"\"Two\"")
    }));
    assert!(env.mem(&["list"]).stderr_bytes.is_empty());
    env.manent(&["verify"]).assert_code(0);
}

/// A crash in the middle of a line: what is whole is there for everybody, at once.
#[test]
fn a_torn_end_hides_nothing_and_is_set_aside_by_the_next_item_or_by_repair() {
    for next in ["add", "repair"] {
        let env = TestEnvironment::new();
        let torn = &item(4, "the fourth thing").into_bytes()[..70];
        env.plant_memory([memory_of(&["thing one", "thing two", "thing three"]), torn.to_vec()].concat());
        assert_eq!(env.remembered(), [3, 2, 1]);
        assert_eq!(env.mem_json(&["search", "thing"]).len(), 3);
        assert_eq!(env.mem_json(&["select", "thing"])[0]["ids"].as_array().map(Vec::len), Some(3));
        let verified = env.manent(&["verify"]);
        verified.assert_code(3);
        assert!(verified.stdout().contains("torn: 70 bytes at offset "), "{verified}");
        let doctor = env.manent(&["doctor"]);
        assert!(doctor.stdout().contains("3 active; its end is torn"), "{doctor}");
        match next {
            "add" => assert!(env.remember(&["the next"]) > 3),
            _ => env.manent(&["repair"]).assert_code(0),
        }
        env.manent(&["verify"]).assert_code(0);
        let kept: Vec<Vec<u8>> = env
            .tree()
            .into_iter()
            .filter(|(name, _)| name.contains(".torn-"))
            .map(|(_, bytes)| bytes)
            .collect();
        assert_eq!(kept, [torn], "{next}");
    }
}

#[test]
fn a_file_that_is_no_memory_at_all_is_told_and_left_alone() {
    let env = TestEnvironment::new();
    for junk in [&b"\x1f\x8b\x08\0 gzip"[..], b"SQLite format 3\0 and so on", b"\xff\xfe not a line"] {
        env.plant_memory(junk);
        env.mem(&["add", "x"]).assert_fails(1, &["memory.jsonl is not a log: it is "]);
        let listed = env.mem(&["list"]);
        assert!(listed.stderr().contains("memory.jsonl"), "nobody is told that nothing is there: {listed}");
        assert_ne!(env.manent(&["verify"]).code(), Some(0));
        assert_ne!(env.manent(&["doctor"]).code(), Some(0));
        assert_eq!(env.memory_bytes(), junk);
    }
    // Sessions are not its hostage.
    env.append("a", "x");
    assert_eq!(records::body(&env.records("a")[0]).matches("\"x\"").count(), 1);
}
