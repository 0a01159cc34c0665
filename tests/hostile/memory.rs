//! A memory that another program wrote, or a vandal: every line that can be understood counts, none does harm.

use serde_json::{Value, json};

use crate::support::memory::memory_of;
use crate::support::{TestEnvironment, records};

/// Lines that another program might write: a header of its own, items without number and checksum, tombstones, numbers
/// given twice, kinds that we do not know, and times in seconds.
const FOREIGN: &str = r#"{"meta":{"v":1,"by":"another program"}}
{"id":1,"kind":"fact","content":"is forgotten","ts":1763251200}
{"id":2,"kind":"pref","content":"tea","ts":1763251201,"tags":"single"}
{"id":2,"kind":"pref","content":"coffee","ts":1763251202,"tags":["a",7,"b"]}
{"id":3,"kind":"skill","content":"knows a kind that we do not"}
{"id":4,"kind":"forget","target":1}
{"id":5,"kind":"forget","target":99}
{"id":6,"kind":"fact","content":"says who","source":"robot"}
{"id":7,"kind":"daily","content":{"day":["a list","of things"]}}
"#;

fn foreign() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.plant_memory(FOREIGN);
    env
}

#[test]
fn another_programs_memory_is_read_written_and_stays_its_own() {
    let env = foreign();
    let items = env.mem_json(&["list"]);
    let seen: Vec<(u64, &Value)> =
        items.iter().map(|item| (item["id"].as_u64().unwrap(), &item["content"])).collect();
    let list = json!({"day": ["a list", "of things"]});
    assert_eq!(
        seen,
        [(7, &list), (6, &"says who".into()), (2, &"coffee".into()), (2, &"tea".into())],
        "lines without a time take that of the line before"
    );
    let listed = env.mem(&["list"]);
    assert!(listed.stderr().contains("1 more is of a kind that this version does not know"), "{listed}");
    assert!(listed.stdout().contains("2  pref     2025-11-16  coffee  #a  #b"), "{listed}");
    let twice = env.mem(&["why", "2"]);
    assert!(twice.stderr().contains("2 items have the number 2: another program gave it twice"), "{twice}");
    assert_eq!(env.mem_json(&["why", "2"]).len(), 2);
    let audit = &env.mem_json(&["audit"])[0];
    let told = ["active", "forgotten", "unknown", "double_ids"].map(|name| audit[name].as_u64().unwrap());
    assert_eq!(told, [4, 1, 1, 1]);
    assert_eq!(env.remember(&["ours"]), 8);
    assert!(env.memory_bytes().starts_with(FOREIGN.as_bytes()), "what was there stays as it was");
    env.done(&["memory", "forget", "2"]);
    assert_eq!(env.remembered(), [8, 7, 6], "both of that number");
    env.done(&["memory", "compact"]);
    let text = String::from_utf8(env.memory_bytes()).unwrap();
    assert!(text.starts_with("{\"meta\":{\"v\":1,\"by\":\"another program\"}}\n"), "{text}");
    assert!(text.contains("knows a kind that we do not"), "what only others understand is kept: {text}");
    assert!(!text.contains("coffee") && !text.contains("is forgotten"), "{text}");
    assert!(!text.contains("\"seq\"") && !text.contains("\"crc\""), "it stays another program's: {text}");
    assert!(env.remember(&["next"]) > 9, "no number is given twice");
    env.manent(&["verify"]).assert_code(0);
    env.manent(&["doctor"]).assert_code(0);
}

/// The largest numbers, numbers that are none, and numbers that would use up all others.
#[test]
fn odd_numbers_in_a_memory_neither_break_it_nor_use_up_the_rest() {
    let env = TestEnvironment::new();
    let odd = [
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "1e400",
        "1.5",
        "\"7\"",
        "null",
        "[1]",
        "99999999999999999999999999999999",
    ];
    let mut lines = vec![r#"{"id":1,"kind":"fact","content":"needle first"}"#.to_owned()];
    lines.extend(odd.iter().map(|id| format!(r#"{{"id":{id},"kind":"fact","content":"a needle"}}"#)));
    lines.extend(odd.iter().map(|id| format!(r#"{{"id":2,"kind":"forget","target":{id}}}"#)));
    lines
        .push(r#"{"id":3,"kind":"fact","content":"needle last","replaces":18446744073709551615}"#.to_owned());
    env.plant_memory(records::file(&lines[..11]));
    let mut ids = env.remembered();
    ids.sort_unstable();
    assert_eq!(ids, [1, 1 << 63, u64::MAX]);
    assert_eq!(env.mem_json(&["search", "needle"]).len(), 3);
    env.mem(&["why", "18446744073709551615"]).assert_code(0);
    env.mem(&["why", "18446744073709551616"]).assert_code(2);
    assert_eq!(env.remember(&["ours"]), 2, "a number that nobody could have counted to is not counted on");
    env.done(&["memory", "forget", "18446744073709551615"]);
    env.plant_memory(records::file(&lines));
    let mut ids = env.remembered();
    ids.sort_unstable();
    assert_eq!(ids, [1, 3], "the two largest are forgotten by their numbers");
    assert_eq!(env.remember(&["ours"]), 4);
    env.done(&["memory", "compact"]);
    assert_eq!(env.remembered().len(), 3);
}

/// The last number there is: nothing breaks, and nothing more is promised.
#[test]
fn a_memory_whose_numbers_are_used_up_says_so() {
    let env = TestEnvironment::new();
    let last = (1_u64 << 53) - 1;
    env.plant_memory(format!("{{\"id\":{last},\"kind\":\"fact\",\"content\":\"the last\"}}\n"));
    let before = env.memory_bytes();
    env.mem(&["add", "x"]).assert_fails(1, &["has given out its last number", "9007199254740991"]);
    assert_eq!(env.memory_bytes(), before);
    assert_eq!(env.remembered(), [last]);
}

/// Deep and odd JSON goes through as it stands, to the last digit.
#[test]
fn items_come_out_in_json_as_they_are_stored_however_deep_they_are() {
    let env = TestEnvironment::new();
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let numbers = r#""n":1.10000000000000000001,"n":123456789012345678901234567890"#;
    let line = format!(r#"{{"id":1,"kind":"fact","content":"needle","deep":{deep},{numbers}}}"#);
    env.plant_memory(format!("{line}\n"));
    assert_eq!(env.mem(&["list", "--json"]).stdout(), format!("{line}\n"));
    let found = env.mem(&["search", "needle", "--json"]).stdout();
    assert!(found.starts_with(line.strip_suffix('}').unwrap()), "{}", &found[..200.min(found.len())]);
    assert!(found.trim_end().ends_with('}') && found.contains(r#","snippet":"needle","score":"#));
    let why = env.mem(&["why", "1", "--json"]).stdout();
    assert!(
        why.starts_with(&format!("{{\"item\":{line},\"active\":true,")),
        "{}",
        &why[..200.min(why.len())]
    );
    for args in [&["list"][..], &["why", "1"], &["audit"], &["select", "needle"], &["search", "needle"]] {
        env.mem(args).assert_code(0);
    }
    env.mem(&["forget", "1"]).assert_code(0);
    env.mem(&["compact"]).assert_code(0);
}

/// A flipped bit anywhere costs at most the line it is in, and is never read as something else.
#[test]
fn a_flipped_bit_in_the_memory_is_named_and_hides_nothing_else() {
    let contents = ["first thing", "second thing", "third thing"];
    let bytes = memory_of(&contents);
    let env = TestEnvironment::in_memory();
    for at in (0..bytes.len()).step_by(37) {
        let mut hurt = bytes.clone();
        hurt[at] ^= 0x10;
        env.plant_memory(&hurt);
        let output = env.mem(&["list", "--json"]);
        output.assert_code(0);
        let shown: Vec<Value> =
            output.stdout().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let texts: Vec<&str> = shown.iter().filter_map(|item| item["content"].as_str()).collect();
        assert!(texts.len() >= 2, "offset {at}: {texts:?}");
        assert!(texts.iter().all(|text| contents.contains(text)), "offset {at}: {texts:?}");
        let verified = env.manent(&["verify"]);
        assert_eq!(verified.code(), Some(3), "offset {at}: {verified}");
        assert_eq!(env.memory_bytes(), hurt);
        assert!(env.remember(&["next"]) > 3, "offset {at}");
    }
}
