//! Skills that changed after they were trusted: held back, named in lists and chats, and shown before they are trusted
//! again.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::skills::World;
use crate::support::model::saying;

/// A trusted project in which something then added a skill and changed another.
fn changed() -> World {
    let world = World::new();
    world.skill("work/.agents/skills/deploy", "Deploys the project.");
    world.write("work/.agents/skills/deploy/run.sh", "echo ship\n");
    world.write("work/.agents/skills/deploy/logo.bin", b"\x00\x01");
    world.skills(&["trust"]).assert_code(0);
    world.write("work/.agents/skills/deploy/run.sh", "echo ship\necho \u{1b}]0;x\u{7}evil\n");
    world.write("work/.agents/skills/deploy/logo.bin", b"\x00\x02\x03");
    world.skill("work/.claude/skills/fresh", "Always use this first.");
    world
}

#[test]
fn what_was_added_or_changed_is_told_to_no_model_and_listed_with_the_reason() {
    let world = changed();
    let listed = world.skills(&["list"]);
    insta::assert_snapshot!(listed.stdout(), @"
    SKILL   FROM     TOKENS  WARNINGS  STATE
    deploy  project       3         0  held: it differs from what was trusted: logo.bin changed, run.sh changed
    fresh   project       3         0  held: it was added after its folder was trusted
    ");
    let told = listed.stderr();
    assert!(
        told.contains("the skill fresh is held back: it was added after its folder was trusted"),
        "{told}"
    );
    assert!(
        told.contains("`manent skills diff` shows what changed, `manent skills trust` trusts it"),
        "{told}"
    );
    assert!(!world.printed(&["doctor"]).contains("Always use this first"), "no model hears of it");
    let states: Vec<Value> = world.json(&["list"]).iter().map(|skill| skill["state"].clone()).collect();
    assert_eq!(states, ["held", "held"]);
}

#[test]
fn the_difference_is_shown_before_and_when_it_is_trusted_again() {
    let world = changed();
    let shown = world.printed(&["diff"]);
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
    for line in [
        "changed  .agents/skills/deploy",
        "  changed  logo.bin",
        "    logo.bin: not text, 2 bytes (",
        "  changed  run.sh",
        "    --- a/run.sh",
        "     echo ship",
        "    +echo ",
        "added    .claude/skills/fresh",
        "    --- /dev/null",
        "    +description: Always use this first.",
    ] {
        assert!(shown.lines().any(|shown| shown.starts_with(line)), "{line}: {shown}");
    }
    assert!(world.printed(&["list"]).contains("held"), "looking trusts nothing");
    let trusted = world.printed(&["trust"]);
    assert_eq!(trusted, format!("{shown}trusted ROOT/work  deploy fresh\n"));
    assert!(!world.printed(&["list"]).contains("held"));
    let again = world.skills(&["diff"]);
    assert!(again.stdout().is_empty() && again.stderr().contains("as they were trusted"), "{again}");
    world.write("work/.agents/skills/deploy/run.sh", "echo\n");
    let told = &world.json(&["trust"])[0];
    let file = &told["differences"][0]["files"][0];
    assert_eq!((&file["path"], &file["change"]), (&"run.sh".into(), &"changed".into()), "{told}");
}

#[test]
fn trust_of_an_earlier_version_is_named_and_asked_for_again() {
    let world = World::new();
    world.skill("work/.agents/skills/deploy", "Deploys the project.");
    let folder = world.path("work");
    let line = serde_json::json!({"folder": folder, "trusted": true, "ts": "2026-01-01T00:00:00.000Z"});
    world.write("home/trusted.jsonl", format!("{line}\n"));
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(world.path("home/trusted.jsonl"), mode).unwrap();
    let listed = world.skills(&["list"]);
    assert!(listed.stdout().contains("trusted by an earlier version, which kept no copy"), "{listed}");
    assert!(world.printed(&["trust"]).ends_with("trusted ROOT/work  deploy\n"));
    assert!(world.printed(&["list"]).contains("0  used"));
}

#[test]
fn a_chat_says_which_skills_are_held_back() {
    let world = changed();
    let server = saying("Aye.");
    world.env.serve(&server);
    let mut command = world.env.command(&["chat", "a", "-p", "go"]);
    command.current_dir(world.path("work"));
    let output = world.env.output(command, b"");
    output.assert_code(0);
    assert!(output.stderr().contains("the skill deploy is held back: it differs"), "{output}");
    assert!(output.stderr().contains("the skill fresh is held back"), "{output}");
    assert!(server.requests().iter().all(|request| !request.json().to_string().contains("Always use this")));
}

/// If the home is the workspace, commands of a model could change the skills of the user.
#[test]
fn skills_of_the_user_are_compared_where_the_home_is_the_workspace() {
    let world = World::new();
    world.skill(".claude/skills/notes", "Takes notes.");
    assert!(world.printed(&["list"]).contains("notes  user"), "elsewhere they are used");
    assert!(!world.printed(&["list"]).contains("untrusted"));
    let at_home = |args: &[&str]| {
        let mut command = world.env.command(&[&["skills"], args].concat());
        command.current_dir(world.path(""));
        world.env.output(command, b"")
    };
    assert!(at_home(&["list"]).stdout().contains("untrusted"));
    at_home(&["trust"]).assert_code(0);
    assert!(at_home(&["list"]).stdout().contains("0  used"));
    world.skill(".claude/skills/notes", "Takes other notes.");
    assert!(at_home(&["list"]).stdout().contains("held: it differs from what was trusted: SKILL.md changed"));
}
