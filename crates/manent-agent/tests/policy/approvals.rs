//! What a person allowed, for a session and for a project.

use std::os::unix::fs::PermissionsExt;

use manent::log::RealDisk;
use manent_agent::policy::{Answer, Approvals, Asking, Grant, Policy, Verdict};
use serde_json::json;

use super::{World, policy, verdict};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn once_is_once() {
    let (world, mut policy) = (World::new(), policy(""));
    policy.remember(&world.command("ls"), Answer::Once, &Grant::Same).unwrap();
    assert_eq!(verdict(&policy, &world.command("ls")), Verdict::Ask);
}

#[test]
fn the_very_same_is_allowed_for_the_session_and_nothing_else() {
    let (world, mut policy) = (World::new(), policy(""));
    let odd = "for x in a b; do echo $x > out; done";
    policy.remember(&world.command(odd), Answer::Session, &Grant::Same).unwrap();
    assert_eq!(verdict(&policy, &world.command(odd)), Verdict::Allow);
    assert_eq!(verdict(&policy, &world.command(&format!("{odd} "))), Verdict::Ask);
    policy.remember(&world.edit("docs/a.md"), Answer::Session, &Grant::Same).unwrap();
    assert_eq!(verdict(&policy, &world.edit("docs/a.md")), Verdict::Allow);
    assert_eq!(verdict(&policy, &world.edit("src/main.rs")), Verdict::Ask);
    let write = world.prepare("write_file", &json!({"path": "docs/a.md", "content": ""}));
    assert_eq!(verdict(&policy, &write), Verdict::Ask, "another tool");
    policy.remember(&write, Answer::Session, &Grant::Tool).unwrap();
    let other = world.prepare("write_file", &json!({"path": "new", "content": ""}));
    assert_eq!(verdict(&policy, &other), Verdict::Allow);
    assert!(!world.path("store/approvals.jsonl").exists(), "a session leaves nothing");
}

#[test]
fn a_beginning_is_allowed_where_the_line_is_plain() {
    let (world, mut policy) = (World::new(), policy(""));
    let beginning = Grant::Beginning(words(&["cargo", "test"]));
    policy.remember(&world.command("cargo test -p x"), Answer::Session, &beginning).unwrap();
    for (line, wanted) in [
        ("cargo test", Verdict::Allow),
        ("cargo test -p y && cargo test", Verdict::Allow),
        ("cargo build", Verdict::Ask),
        ("cargo test; ls", Verdict::Ask),
        ("cargo test $X", Verdict::Ask),
    ] {
        assert_eq!(verdict(&policy, &world.command(line)), wanted, "{line}");
    }
}

#[test]
fn a_deny_stays_whatever_was_allowed_and_an_ask_was_answered() {
    let world = World::new();
    let mut policy = policy(
        "[[policy.rule]]\ntool = 'run_command'\nprefix = ['rm']\ndecision = 'deny'\n\
         [[policy.rule]]\ntool = 'run_command'\nprefix = ['git']\ndecision = 'ask'\n\
         [[policy.rule]]\ntool = 'edit_file'\npath = 'src/**'\ndecision = 'deny'\n",
    );
    for (prepared, grant, wanted) in [
        (world.command("rm x"), Grant::Same, Verdict::Deny),
        (world.command("git log"), Grant::Same, Verdict::Allow),
        (world.edit("src/main.rs"), Grant::Tool, Verdict::Deny),
    ] {
        policy.remember(&prepared, Answer::Session, &grant).unwrap();
        assert_eq!(verdict(&policy, &prepared), wanted, "{}", prepared.what);
    }
    assert_eq!(verdict(&policy, &world.edit("docs/a.md")), Verdict::Allow);
}

#[test]
fn what_would_allow_anything_is_not_kept() {
    let (world, mut policy) = (World::new(), policy(""));
    let remember = json!({"content": "Likes tea", "quote": "I like green tea"});
    let cases = [
        (world.command("bash -c ls"), Grant::Beginning(words(&["bash"])), "can run anything"),
        (world.command("sudo ls"), Grant::Beginning(words(&["sudo", "ls"])), "can run anything"),
        (world.command("/usr/bin/env ls"), Grant::Beginning(words(&["/usr/bin/env"])), "can run anything"),
        (
            world.command("python3.12 -c x"),
            Grant::Beginning(words(&["python3.12", "-c"])),
            "can run anything",
        ),
        (world.command("cargo test"), Grant::Beginning(words(&["ls"])), "does not begin so"),
        (world.command("cargo test"), Grant::Beginning(Vec::new()), "does not begin so"),
        (world.command("cargo test"), Grant::Tool, "not every command"),
        (world.edit("docs/a.md"), Grant::Beginning(words(&["docs"])), "only commands have a beginning"),
        (world.prepare("remember", &remember), Grant::Same, "never the same twice"),
    ];
    for (prepared, grant, wanted) in cases {
        let told = policy.remember(&prepared, Answer::Session, &grant).unwrap_err().to_string();
        assert!(told.contains(wanted), "{}: {told}", prepared.what);
    }
}

#[test]
fn a_person_is_offered_a_beginning_that_makes_sense() {
    let world = World::new();
    for (line, wanted) in [
        ("cargo test -p x", Some(words(&["cargo", "test"]))),
        ("ls -la", Some(words(&["ls"]))),
        ("ls src/main.rs", Some(words(&["ls"]))),
        ("python3 run.py", None),
        ("bash -c x", None),
        ("cargo test | tail", None),
        ("cargo test $X", None),
    ] {
        assert_eq!(Policy::beginning_of(&world.command(line)), wanted, "{line}");
    }
}

#[test]
fn what_is_allowed_for_the_project_outlives_the_session_there_and_nowhere_else() {
    let world = World::new();
    let mut policy = world.policy("");
    let beginning = Grant::Beginning(words(&["cargo", "test"]));
    policy.remember(&world.command("cargo test -p x"), Answer::Project, &beginning).unwrap();
    policy.remember(&world.command("ls > out"), Answer::Project, &Grant::Same).unwrap();
    policy.remember(&world.edit("docs/a.md"), Answer::Project, &Grant::Tool).unwrap();
    let again = world.policy("");
    for prepared in [world.command("cargo test"), world.command("ls > out"), world.edit("src/main.rs")] {
        assert_eq!(verdict(&again, &prepared), Verdict::Allow, "{}", prepared.what);
    }
    let list = world.path("store/approvals.jsonl");
    assert_eq!(std::fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    let elsewhere = Approvals::load(&RealDisk::shared(), &world.path("store"), &world.path("work/docs"));
    let elsewhere = Policy::new(manent_agent::policy::Rules::default(), elsewhere);
    assert_eq!(verdict(&elsewhere, &world.command("cargo test")), Verdict::Ask);
    // A link to the workspace is the workspace.
    std::os::unix::fs::symlink(world.path("work"), world.path("alias")).unwrap();
    let linked = Approvals::load(&RealDisk::shared(), &world.path("store"), &world.path("alias"));
    let linked = Policy::new(manent_agent::policy::Rules::default(), linked);
    assert_eq!(verdict(&linked, &world.command("cargo test")), Verdict::Allow);
}

#[test]
fn a_list_that_others_can_write_or_nobody_can_read_allows_nothing() {
    let world = World::new();
    world.policy("").remember(&world.command("ls"), Answer::Project, &Grant::Same).unwrap();
    let list = world.path("store/approvals.jsonl");
    let set_mode = |mode| std::fs::set_permissions(&list, std::fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o620, 0o602, 0o666] {
        set_mode(mode);
        let approvals = Approvals::load(&RealDisk::shared(), &world.path("store"), &world.path("work"));
        let trouble = approvals.trouble().unwrap().to_owned();
        assert!(trouble.contains("may be written by others; make it your own"), "{trouble}");
        let mut policy = world.policy("");
        assert_eq!(verdict(&policy, &world.command("ls")), Verdict::Ask);
        let told = policy.remember(&world.command("ls -l"), Answer::Project, &Grant::Same).unwrap_err();
        assert!(told.to_string().contains("may be written by others"), "{told}");
        assert_eq!(
            verdict(&policy, &world.command("ls -l")),
            Verdict::Ask,
            "what is not kept does not count"
        );
    }
    set_mode(0o600);
    assert_eq!(verdict(&world.policy(""), &world.command("ls")), Verdict::Allow);
}

#[test]
fn a_torn_or_strange_list_allows_what_it_says_and_no_more() {
    let world = World::new();
    let work = world.path("work").display().to_string();
    let lines = [
        json!({"workspace": work, "tool": "run_command", "same": "ls"}).to_string(),
        json!({"workspace": work, "tool": "run_command", "all": true}).to_string(),
        json!({"workspace": work, "tool": "run_command", "beginning": []}).to_string(),
        json!({"workspace": work, "tool": "run_command", "beginning": ["git", 7]}).to_string(),
        json!({"workspace": work, "same": "pwd"}).to_string(),
        "[]\nnull\n7\n\"x\"\n\u{0}".to_owned(),
        json!({"workspace": work, "tool": "run_command", "same": "id"}).to_string()[..40].to_owned(),
    ];
    let list = world.path("store/approvals.jsonl");
    std::fs::write(&list, lines.join("\n")).unwrap();
    std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut policy = world.policy("");
    assert_eq!(verdict(&policy, &world.command("ls")), Verdict::Allow);
    for line in ["git log", "pwd", "id", "whoami"] {
        assert_eq!(verdict(&policy, &world.command(line)), Verdict::Ask, "{line}");
    }
    policy.remember(&world.command("whoami"), Answer::Project, &Grant::Same).unwrap();
    assert_eq!(
        verdict(&world.policy(""), &world.command("whoami")),
        Verdict::Allow,
        "a torn end swallows nothing"
    );
}

#[test]
fn no_rule_and_no_earlier_answer_allows_a_protected_change() {
    let world = World::new();
    let rules = "[[policy.rule]]\ntool = \"run_command\"\ndecision = \"allow\"\n\
                 [[policy.rule]]\ntool = \"write_file\"\ndecision = \"allow\"\n";
    let mut policy = world.policy(rules);
    let write = world.prepare("write_file", &json!({"path": "AGENTS.md", "content": "x"}));
    let commit = world.prepare("run_command", &json!({"command": "git commit", "writable_git": true}));
    let repository = world.prepare("run_command", &json!({"command": "git init", "new_repo": true}));
    for prepared in [write, commit, repository] {
        assert_eq!(policy.decide(&prepared, Asking::Person).verdict, Verdict::Ask, "{prepared:?}");
        let nobody = policy.decide(&prepared, Asking::Nobody);
        assert_eq!(nobody.verdict, Verdict::Deny);
        assert!(nobody.why.contains("a person allows it each time"), "{}", nobody.why);
        policy.remember(&prepared, Answer::Once, &Grant::Same).unwrap();
        for answer in [Answer::Session, Answer::Project] {
            policy.remember(&prepared, answer, &Grant::Same).unwrap_err();
        }
        assert_eq!(policy.decide(&prepared, Asking::Person).verdict, Verdict::Ask, "it is asked again");
    }
    let deny = "[[policy.rule]]\ntool = \"write_file\"\ndecision = \"deny\"\n";
    let write = world.prepare("write_file", &json!({"path": "AGENTS.md", "content": "x"}));
    assert_eq!(world.policy(deny).decide(&write, Asking::Person).verdict, Verdict::Deny);
    assert_eq!(policy.decide(&world.command("git commit"), Asking::Nobody).verdict, Verdict::Allow);
}
