//! `manent skills`: what is found, shown, checked, told to models, and whose skills are used.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::terminal::on_wide_terminal;
use crate::support::{Output, TestEnvironment};

/// A user with a project, and skills in both.
pub(crate) struct World {
    pub(crate) env: TestEnvironment,
}

impl World {
    pub(crate) fn new() -> World {
        let world = World { env: TestEnvironment::new() };
        std::fs::create_dir_all(world.path("work/.git")).unwrap();
        world
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.env.root().canonicalize().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Writes a skill: its directory has its name.
    pub(crate) fn skill(&self, dir: &str, description: &str) {
        let name = dir.rsplit('/').next().unwrap();
        let text = format!("---\nname: {name}\ndescription: {description}\n---\nDo it.\n");
        self.write(&format!("{dir}/SKILL.md"), text);
    }

    /// Runs `manent skills ARGS` in the project.
    pub(crate) fn skills(&self, args: &[&str]) -> Output {
        let mut command = self.env.command(&[&["skills"], args].concat());
        command.current_dir(self.path("work"));
        self.env.output(command, b"")
    }

    /// Returns the output of a command that must succeed.
    #[track_caller]
    pub(crate) fn printed(&self, args: &[&str]) -> String {
        let output = self.skills(args);
        output.assert_code(0);
        // The place of the test is another one each time.
        output.stdout().replace(self.path("").to_str().unwrap(), "ROOT/")
    }

    /// The lines of JSON that it prints.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let text = self.skills(&[args, &["--json"]].concat()).stdout();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// One of each kind.
pub(crate) fn furnished() -> World {
    let world = World::new();
    world.skill("work/.agents/skills/deploy", "Deploys the project. Use it when asked to ship.");
    world.skill(".agents/skills/deploy", "Deploys anything.");
    world.skill(".claude/skills/notes", "Takes notes.");
    world.write(".claude/skills/old/skill.md", "---\nname: Old\ndescription: Old.\nversion: 1.0\n---\nx\n");
    world.write(".agents/skills/bare/SKILL.md", "# Bare\n\nNo frontmatter here.\n");
    world.write(
        "home/skills/secret/SKILL.md",
        "---\nname: secret\ndescription: Only for me.\ndisable-model-invocation: true\n---\nx\n",
    );
    world
}

#[test]
fn an_untrusted_folder_is_said_and_trusting_it_is_one_command() {
    let world = furnished();
    let listed = world.skills(&["list"]);
    assert!(listed.stderr().contains("1 skill is not used, because this folder is not trusted"), "{listed}");
    assert!(!world.printed(&["doctor"]).contains("Deploys the project"));
    assert_eq!(world.printed(&["trust"]), "trusted ROOT/work  deploy\n");
    assert!(world.printed(&["doctor"]).contains("Deploys the project"));
    let elsewhere = world.env.manent(&["skills", "doctor"]);
    assert!(!elsewhere.stdout().contains("Deploys the project"), "{elsewhere}");
    let mut inside = world.env.command(&["skills", "untrust"]);
    world.write("work/src/deep/file", "");
    inside.current_dir(world.path("work/src/deep"));
    world.env.output(inside, b"").assert_code(0);
    assert!(!world.printed(&["doctor"]).contains("Deploys the project"));
    assert!(world.skills(&["untrust"]).stderr().contains("was not trusted"));
}

/// The ledger of trusts and approvals is not taken for a session, nor the home for one of another program.
#[test]
fn trusting_a_folder_may_be_the_first_thing_that_is_done_in_a_home() {
    let world = furnished();
    world.skills(&["trust"]).assert_code(0);
    world.write("home/approvals.jsonl", "");
    assert_eq!(world.env.done(&["sessions"]), "");
    world.env.manent(&["run", "record", "a", r#"{"skill":"s"}"#]).assert_code(0);
    world.env.manent(&["memory", "add", "tea"]).assert_code(0);
    world.env.manent(&["verify"]).assert_code(0);
}

#[test]
fn trust_is_told_in_json_and_refused_where_there_is_nothing() {
    let world = furnished();
    let told = &world.json(&["trust", "."])[0];
    assert_eq!(told["folder"], world.path("work").to_str().unwrap());
    assert_eq!((&told["trusted"], &told["skills"][0]), (&Value::Bool(true), &Value::from("deploy")));
    world.skills(&["trust", "nowhere"]).assert_fails(4, &["nowhere", "still there"]);
    world.write("gone/x", "");
    let gone = world.path("gone");
    world.skills(&["trust", gone.to_str().unwrap()]).assert_code(0);
    std::fs::remove_dir_all(&gone).unwrap();
    assert_eq!(world.printed(&["untrust", gone.to_str().unwrap()]), "untrusted ROOT/gone\n");
}

#[test]
fn a_list_of_trusted_folders_that_others_may_write_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let world = furnished();
    world.skills(&["trust"]).assert_code(0);
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(world.path("home/trusted.jsonl"), open).unwrap();
    let output = world.skills(&["doctor"]);
    output.assert_code(0);
    assert!(output.stderr().contains("chmod 600"), "{output}");
    world.skills(&["trust"]).assert_fails(1, &["trusted.jsonl", "chmod 600"]);
    assert!(!output.stdout().contains("Deploys the project"), "{output}");
}

#[test]
fn what_is_not_used_is_shown_with_the_reason() {
    let world = furnished();
    let bare = world.skills(&["show", "bare"]);
    bare.assert_code(0);
    assert!(bare.stdout().contains("No frontmatter here."), "{bare}");
    assert!(bare.stderr().contains("bare is skipped: line 1: there is no frontmatter"), "{bare}");
    std::fs::remove_dir_all(world.path(".agents/skills/deploy")).unwrap();
    let untrusted = world.skills(&["show", "deploy"]);
    assert!(untrusted.stdout().contains("Do it."), "{untrusted}");
    assert!(untrusted.stderr().contains("manent skills trust"), "{untrusted}");
}

#[test]
fn checking_ends_with_0_if_all_is_well_1_if_not_and_4_if_nothing_is_there() {
    let world = World::new();
    world.skill("fine/one", "x");
    world.skill("fine/group/two", "x");
    world.write("long/SKILL.md", format!("---\nname: long\ndescription: x\n---\n{}", "line\n".repeat(501)));
    world.skills(&["validate"]).assert_code(0);
    assert_eq!(world.printed(&["validate", "../fine"]).lines().count(), 2);
    let long = world.printed(&["validate", "../long"]);
    assert!(long.starts_with("ok") && long.contains("advice  body-long"), "{long}");
    world.write("empty/file", "");
    for path in ["../empty", "../empty/file"] {
        world.skills(&["validate", path]).assert_fails(4, &[path, "SKILL.md"]);
    }
    world.skills(&["validate", "../nowhere"]).assert_fails(4, &["nowhere"]);
    world.write("bin/SKILL.md", [0, 159, 146, 150]);
    world.skills(&["validate", "../fine", "../nowhere", "../bin"]).assert_code(1);
}

#[test]
fn the_doctor_says_what_was_cut() {
    let world = World::new();
    for i in 0..30 {
        world.skill(&format!("home/skills/s{i:02}"), &"Many words about little. ".repeat(12));
    }
    let kinds = |args: &[&str]| -> Vec<String> {
        let lines = world.json(&[&["doctor"], args].concat());
        lines.iter().map(|line| line["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&["--budget", "100000"]), ["catalogue"]);
    let default = kinds(&[]);
    assert_eq!((default.len(), &*default[1]), (31, "shortened"), "all are told of, none of them whole");
    let little = world.printed(&["doctor", "--budget", "300"]);
    assert!(little.contains("left-out   s29: no room within 300 tokens"), "{little}");
    assert!(world.printed(&["doctor", "--budget", "0"]).starts_with("0 skills are told to models"));
}

#[test]
fn no_skill_drives_the_terminal() {
    let world = World::new();
    let evil = "\\e]0;owned\\a\\u202e\\U000E0041";
    let front = format!("name: evil\ndescription: \"{evil}\"\nlicense: \"{evil}\"\n\"{evil}\": x\n");
    let metadata = format!("metadata: {{\"{evil}\": \"{evil}\"}}\n");
    let text = format!("---\n{front}{metadata}---\n\u{1b}[2J\u{9b}31m body\n");
    world.write("home/skills/evil/SKILL.md", &text);
    world.write("home/skills/\u{1b}[31mred/SKILL.md", "\u{1b}]52;c;AAAA\u{7}");
    let dir = world.path("home/skills/\u{1b}[31mred");
    let commands: [&[&str]; 7] = [
        &["skills", "list"],
        &["skills", "show", "evil"],
        &["skills", "show", "evil", "--json"],
        &["skills", "show", dir.to_str().unwrap()],
        &["skills", "validate"],
        &["skills", "doctor"],
        &["skills", "doctor", "--json"],
    ];
    for args in commands {
        let screen = on_wide_terminal(&world.env, &[args, &["--color", "never"]].concat(), 80);
        let text = screen.text();
        let obeyed =
            |c: char| (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || "\u{202e}\u{e0041}".contains(c);
        assert!(!text.chars().any(obeyed), "{args:?}: {text:?}");
        assert!(text.contains("evil") || text.contains("red"), "{args:?}: {text:?}");
    }
}

#[test]
fn without_any_skill_it_says_where_to_put_one() {
    let world = World::new();
    let output = world.skills(&["list"]);
    output.assert_code(0);
    assert!(output.stdout().is_empty() && output.stderr().contains("home/skills"), "{output}");
    assert!(world.json(&["list"]).is_empty());
    assert!(!world.env.home().exists(), "looking makes no store");
}
