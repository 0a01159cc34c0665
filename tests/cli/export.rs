//! `manent export`: a session to read elsewhere, whole or not at all.

use serde_json::json;

use crate::support::machine::mode_of;
use crate::support::{TestEnvironment, records};

/// A session with everything that makes a transcript hard.
fn talk(env: &TestEnvironment) {
    env.append("talk", "What is in `notes`?\nAnd why?");
    let lines = [
        json!({"role": "assistant", "content": "Let me look.", "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "read_file", "arguments": "{\"path\":\"notes ``` x\"}"}}]}),
        json!({"role": "tool", "name": "read_file", "tool_call_id": "1", "content": "a\n````\nb\r\n```\n\u{1b}[2J",
            "failed": true}),
        json!({"role": "assistant", "content": "", "tool_calls": "no list"}),
        json!({"kind": "other", "what": "x"}),
        json!({"role": "assistant", "content": "**Here** it is.\n\n"}),
    ];
    let lines = lines.map(|line| line.to_string()).join("\n");
    env.manent_given(&["append", "talk", "--jsonl"], lines).assert_code(0);
    env.done(&["title", "talk", "Of notes \u{202e}and more"]);
}

#[test]
fn a_transcript_can_be_read_and_nothing_breaks_out_of_it() {
    let env = TestEnvironment::new();
    talk(&env);
    let text = env.done(&["export", "talk"]);
    assert!(text.starts_with("# Of notes \\u{202e}and more\n\nSession `talk` ("), "{text}");
    for part in [
        "\n## user · ",
        "\nWhat is in `notes`?\nAnd why?\n",
        "\nLet me look.\n\ncalls `read_file`\n\n````json\n{\n  \"path\": \"notes ``` x\"\n}\n````\n",
        "\n## tool `read_file` · ",
        "\n`````\na\n````\nb\n```\n\\u{1b}[2J\n`````\n\nfailed: true\n",
        "\n```json\n\"no list\"\n```\n",
        "\n**Here** it is.\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert!(!text.contains("kind"), "{text}");
    assert!(!text.contains(['\u{1b}', '\r', '\u{202e}']), "nothing that drives a terminal");
}

#[test]
fn records_come_out_as_they_are() {
    let env = TestEnvironment::new();
    talk(&env);
    let shown = env.done(&["show", "talk", "--json"]);
    assert_eq!(env.done(&["export", "talk", "--to", "json"]), shown);
    assert_eq!(env.done(&["export", "talk", "--json"]), shown);
    // They can be taken in again.
    env.manent_given(&["append", "again", "--jsonl"], &shown).assert_code(0);
    assert_eq!(env.records("again").len(), env.records("talk").len());
}

#[test]
fn archived_sessions_and_ids_are_exported_too() {
    let env = TestEnvironment::new();
    talk(&env);
    let (text, id) = (env.done(&["export", "talk"]), env.id_in("live", "talk"));
    assert_eq!(env.done(&["export", &format!("@{id}")]), text);
    env.done(&["archive", "talk"]);
    assert_eq!(env.done(&["export", "talk"]).replace(", archived.", ", live."), text);
    env.manent(&["export", "nowhere"]).assert_fails(4, &["there is no session \"nowhere\""]);
}

#[test]
fn a_file_is_written_whole_or_not_at_all_and_nothing_is_replaced_unasked() {
    let env = TestEnvironment::new();
    talk(&env);
    let dir = env.root().join("out");
    std::fs::create_dir(&dir).unwrap();
    let file = dir.join("talk.md");
    let name = file.to_str().unwrap();
    env.manent(&["export", "talk", "-o", name]).assert_code(0);
    let text = env.done(&["export", "talk"]);
    assert_eq!((std::fs::read_to_string(&file).unwrap(), mode_of(&file)), (text.clone(), 0o600));
    std::fs::write(&file, "mine").unwrap();
    env.manent(&["export", "talk", "-o", name]).assert_fails(6, &["talk.md is there already", "--force"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    // What cannot be exported leaves what was there.
    env.manent(&["export", "nowhere", "-o", name, "--force"]).assert_code(4);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    env.manent(&["export", "talk", "-o", name, "--force"]).assert_code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    env.manent(&["export", "talk", "-o", dir.to_str().unwrap(), "--force"])
        .assert_fails(2, &["is a directory"]);
    env.manent(&["export", "talk", "-o", "/nowhere/x.md"]).assert_fails(1, &["cannot write /nowhere/x.md"]);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "nothing is left beside it");
    // A link is replaced, and what it leads to is not touched.
    let target = env.root().join("target");
    std::fs::write(&target, "theirs").unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    env.manent(&["export", "talk", "-o", name]).assert_code(6);
    env.manent(&["export", "talk", "-o", name, "--force"]).assert_code(0);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "theirs");
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_there() {
    let env = TestEnvironment::new();
    let mut bytes = records::session("a", &["one", "two", "three"]);
    let at = bytes.windows(3).position(|window| window == b"two").unwrap();
    bytes[at] = b'!';
    bytes.extend(b"{\"seq\":4,\"to");
    env.plant("a", bytes);
    let output = env.manent(&["export", "a"]);
    output.assert_code(0);
    assert!(output.stdout().contains("one") && output.stdout().contains("three"), "{output}");
    assert!(output.stderr().contains("cannot be read") && output.stderr().contains("no record"), "{output}");
}
