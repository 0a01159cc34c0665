//! What a person allowed, for a session and for a project.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent::{InMemory, Store, StoreOptions};
use manent_agent::policy::{
    ApprovalScope, Approvals, Approver, Grant, Permission, Prefix, READERS, RUNNERS, ToolPolicy,
};
use serde_json::json;

use super::{World, permission, policy};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn once_is_once() {
    let (world, mut policy) = (World::new(), policy(""));
    policy.remember(&world.command("ls"), ApprovalScope::Once, &Grant::Same).unwrap();
    assert_eq!(permission(&policy, &world.command("ls")), Permission::Ask);
}

#[test]
fn the_very_same_is_allowed_for_the_session_and_nothing_else() {
    let (world, mut policy) = (World::new(), policy(""));
    let odd = "for x in a b; do echo $x > out; done";
    policy.remember(&world.command(odd), ApprovalScope::Session, &Grant::Same).unwrap();
    assert_eq!(permission(&policy, &world.command(odd)), Permission::Allow);
    assert_eq!(permission(&policy, &world.command(&format!("{odd} "))), Permission::Ask);
    policy.remember(&world.edit("docs/a.md"), ApprovalScope::Session, &Grant::Same).unwrap();
    assert_eq!(permission(&policy, &world.edit("docs/a.md")), Permission::Allow);
    assert_eq!(permission(&policy, &world.edit("src/main.rs")), Permission::Ask);
    let write = world.prepare("write_file", &json!({"path": "docs/a.md", "content": ""}));
    assert_eq!(permission(&policy, &write), Permission::Ask, "another tool");
    policy.remember(&write, ApprovalScope::Session, &Grant::Tool).unwrap();
    let other = world.prepare("write_file", &json!({"path": "new", "content": ""}));
    assert_eq!(permission(&policy, &other), Permission::Allow);
    assert!(!world.path("store/approvals.jsonl").exists(), "a session leaves nothing");
}

#[test]
fn a_prefix_is_allowed_for_the_session_where_the_line_is_plain_and_has_no_new_option() {
    let (world, mut policy) = (World::new(), policy(""));
    let prefix = Grant::Prefix(words(&["cargo", "test"]));
    policy
        .remember(&world.command("cargo test -p x --color=never"), ApprovalScope::Session, &prefix)
        .unwrap();
    for (line, wanted) in [
        ("cargo test", Permission::Allow),
        ("cargo test -p y && cargo test some_name", Permission::Allow),
        ("cargo test --color=always", Permission::Allow),
        ("cargo test --config=build.rustc-wrapper='x'", Permission::Ask),
        ("cargo test -- --nocapture", Permission::Ask),
        ("cargo test A=b", Permission::Ask),
        ("cargo test +nightly", Permission::Ask),
        ("cargo build", Permission::Ask),
        ("cargo test; rm x", Permission::Ask),
        ("cargo test $X", Permission::Ask),
    ] {
        assert_eq!(permission(&policy, &world.command(line)), wanted, "{line}");
    }
}

/// Each choice that a chat offers for the first command, then the second one, which writes a file or runs a program.
#[test]
fn arguments_that_write_or_execute_are_asked_about_whatever_a_chat_allowed() {
    for (allowed, attack) in [
        ("git log", "git log --output=F"),
        ("git log --oneline", "git log --oneline --output=F"),
        ("git log --oneline", "git log --oneline --ext-diff -p"),
        ("sed -n 1p a", "sed -n '1e touch F' a"),
        ("sed -n 1p a", "sed -n 'w F' a"),
        ("tar tf a.tar", "tar tf a.tar --checkpoint=1 --checkpoint-action=exec=id"),
        ("tar tf a.tar", "tar tf a.tar -I id"),
        ("tar tf a.tar", "tar tf a.tar --to-command=id"),
        ("sort a", "sort -o F a"),
        ("sort a", "sort --compress-program=id a"),
        ("rg x", "rg --pre=id x"),
        ("dd if=a", "dd if=a of=F"),
        ("grep x a", "grep x a > F"),
        ("ls", "ls $(id)"),
        ("ls", "ls | sh"),
        ("cat a", "cat a | tee F"),
        ("echo a", "echo a >> F"),
        ("ls", "./ls"),
    ] {
        let world = World::new();
        let prepared = world.command(allowed);
        let mut choices = vec![(ApprovalScope::Session, Grant::Same), (ApprovalScope::Project, Grant::Same)];
        let prefix = ToolPolicy::prefix_of(&prepared);
        choices.extend(prefix.map(|prefix| (prefix.longest, Grant::Prefix(prefix.words))));
        for (answer, grant) in choices {
            let mut policy = world.policy("");
            policy.remember(&prepared, answer, &grant).unwrap();
            assert_eq!(permission(&policy, &prepared), Permission::Allow, "{allowed}");
            assert_eq!(
                permission(&policy, &world.command(attack)),
                Permission::Ask,
                "{attack} after {grant:?}"
            );
        }
    }
}

#[test]
fn a_prefix_is_stored_only_for_programs_that_read() {
    let world = World::new();
    let mut policy = world.policy("");
    for reader in READERS {
        let line = format!("{reader} a");
        let Prefix { words, longest } = ToolPolicy::prefix_of(&world.command(&line)).unwrap();
        assert_eq!((words.join(" ").as_str(), longest), (reader, ApprovalScope::Project));
        policy.remember(&world.command(&line), longest, &Grant::Prefix(words)).unwrap();
        assert_eq!(
            permission(&world.policy(""), &world.command(&format!("{reader} -x b"))),
            Permission::Allow
        );
    }
    for (line, prefix) in [("git log", &["git", "log"][..]), ("cargo test", &["cargo"]), ("./ls", &["./ls"])]
    {
        let told =
            policy.remember(&world.command(line), ApprovalScope::Project, &Grant::Prefix(words(prefix)));
        let told = told.unwrap_err().to_string();
        assert!(told.contains("allow this very command, or the prefix in this chat"), "{told}");
    }
    for (_, programs) in RUNNERS {
        for program in *programs {
            let line = format!("{program} a");
            assert_eq!(ToolPolicy::prefix_of(&world.command(&line)), None, "{line}");
            let grant = Grant::Prefix(words(&[program]));
            policy.remember(&world.command(&line), ApprovalScope::Session, &grant).unwrap_err();
        }
    }
}

#[test]
fn wider_prefixes_stored_earlier_no_longer_count_and_are_named_once() {
    let world = World::new();
    let work = world.path("work").display().to_string();
    let line = |prefix: &[&str]| {
        json!({"workspace": work, "tool": "run_command", "beginning": prefix, "ts": "x"}).to_string() + "\n"
    };
    let elsewhere = line(&["make"]).replace(&work, "/elsewhere");
    let list = world.path("store/approvals.jsonl");
    std::fs::write(&list, line(&["git", "log"]) + &line(&["ls"]) + &line(&["cargo", "test"]) + &elsewhere)
        .unwrap();
    std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o600)).unwrap();
    let load = || Approvals::load(&world.store(), &world.path("work"));
    let mut approvals = load();
    let note = approvals.take_note().unwrap();
    assert!(note.contains("`cargo test`, `git log` no longer counts"), "{note}");
    assert_eq!(approvals.take_note(), None);
    assert_eq!(load().take_note(), None, "that it was told is in the list");
    let policy = world.policy("");
    for (line, wanted) in
        [("git log", Permission::Ask), ("cargo test", Permission::Ask), ("ls x", Permission::Allow)]
    {
        assert_eq!(permission(&policy, &world.command(line)), wanted, "{line}");
    }
}

#[test]
fn a_rule_written_by_hand_is_obeyed_and_marked_in_the_listing() {
    let world = World::new();
    let mut policy = world.policy(
        "[[policy.rule]]\ntool = 'run_command'\nprefix = ['git', 'log']\ndecision = 'allow'\n\
         [[policy.rule]]\ntool = 'run_command'\nprefix = ['ls']\ndecision = 'allow'\n",
    );
    assert_eq!(permission(&policy, &world.command("git log --output=F")), Permission::Allow);
    let prefix = Grant::Prefix(words(&["cargo", "test"]));
    policy.remember(&world.command("cargo test -q"), ApprovalScope::Session, &prefix).unwrap();
    let listed = policy.outlook("run_command", Approver::Person);
    let listed: Vec<&str> = listed.iter().map(|decision| decision.why.as_str()).collect();
    assert_eq!(
        listed,
        [
            "rule 1 allows run_command `git log`; your rule in config.toml, may run programs and change files here",
            "rule 2 allows run_command `ls`; your rule in config.toml",
            "you allowed every `cargo test` with no other options than -q in this chat; may run programs and change \
             files here",
            "running commands needs your word",
        ]
    );
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
        (world.command("rm x"), Grant::Same, Permission::Deny),
        (world.command("git log"), Grant::Same, Permission::Allow),
        (world.edit("src/main.rs"), Grant::Tool, Permission::Deny),
    ] {
        policy.remember(&prepared, ApprovalScope::Session, &grant).unwrap();
        assert_eq!(permission(&policy, &prepared), wanted, "{}", prepared.what);
    }
    assert_eq!(permission(&policy, &world.edit("docs/a.md")), Permission::Allow);
}

#[test]
fn what_would_allow_anything_is_not_kept() {
    let (world, mut policy) = (World::new(), policy(""));
    let remember = json!({"content": "Likes tea", "quote": "I like green tea"});
    let cases = [
        (world.command("bash -c ls"), Grant::Prefix(words(&["bash"])), "can run anything"),
        (world.command("sudo ls"), Grant::Prefix(words(&["sudo", "ls"])), "can run anything"),
        (world.command("/usr/bin/env ls"), Grant::Prefix(words(&["/usr/bin/env"])), "can run anything"),
        (world.command("python3.12 -c x"), Grant::Prefix(words(&["python3.12", "-c"])), "can run anything"),
        (world.command("cargo test"), Grant::Prefix(words(&["ls"])), "does not begin so"),
        (world.command("cargo test"), Grant::Prefix(Vec::new()), "does not begin so"),
        (world.command("cargo test"), Grant::Tool, "not every command"),
        (world.edit("docs/a.md"), Grant::Prefix(words(&["docs"])), "only commands have a prefix"),
        (world.prepare("remember", &remember), Grant::Same, "never the same twice"),
    ];
    for (prepared, grant, wanted) in cases {
        let told = policy.remember(&prepared, ApprovalScope::Session, &grant).unwrap_err().to_string();
        assert!(told.contains(wanted), "{}: {told}", prepared.what);
    }
}

#[test]
fn a_person_is_offered_a_prefix_that_makes_sense() {
    let world = World::new();
    for (line, wanted) in [
        ("cargo test -p x", Some(("cargo test", ApprovalScope::Session))),
        ("ls -la", Some(("ls", ApprovalScope::Project))),
        ("grep word src/main.rs", Some(("grep", ApprovalScope::Project))),
        ("/bin/ls", Some(("/bin/ls", ApprovalScope::Session))),
        ("python3 run.py", None),
        ("bash -c x", None),
        ("sed -n 1p x", None),
        ("cargo test | tail", None),
        ("cargo test $X", None),
    ] {
        let offered = ToolPolicy::prefix_of(&world.command(line));
        let offered = offered.map(|prefix| (prefix.words.join(" "), prefix.longest));
        assert_eq!(offered, wanted.map(|(words, longest)| (words.to_owned(), longest)), "{line}");
    }
}

#[test]
fn what_is_allowed_for_the_project_outlives_the_session_there_and_nowhere_else() {
    let world = World::new();
    let mut policy = world.policy("");
    let prefix = Grant::Prefix(words(&["grep"]));
    policy.remember(&world.command("grep -r x"), ApprovalScope::Project, &prefix).unwrap();
    policy.remember(&world.command("ls > out"), ApprovalScope::Project, &Grant::Same).unwrap();
    policy.remember(&world.edit("docs/a.md"), ApprovalScope::Project, &Grant::Tool).unwrap();
    let again = world.policy("");
    for prepared in [world.command("grep y z"), world.command("ls > out"), world.edit("src/main.rs")] {
        assert_eq!(permission(&again, &prepared), Permission::Allow, "{}", prepared.what);
    }
    let list = world.path("store/approvals.jsonl");
    assert_eq!(std::fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    let elsewhere = Approvals::load(&world.store(), &world.path("work/docs"));
    let elsewhere = ToolPolicy::new(manent_agent::policy::PolicyRules::default(), elsewhere);
    assert_eq!(permission(&elsewhere, &world.command("grep y")), Permission::Ask);
    // A link to the workspace is the workspace.
    std::os::unix::fs::symlink(world.path("work"), world.path("alias")).unwrap();
    let linked = Approvals::load(&world.store(), &RealDisk.resolve(&world.path("alias")).unwrap());
    let linked = ToolPolicy::new(manent_agent::policy::PolicyRules::default(), linked);
    assert_eq!(permission(&linked, &world.command("grep y")), Permission::Allow);
}

#[test]
fn approvals_on_a_backend_in_memory_hold_until_the_store_is_gone() {
    let world = World::new();
    let store = Store::on(Arc::new(InMemory::default()), None, StoreOptions::default());
    let policy = |store: &Store| {
        let approvals = Approvals::load(store, &world.path("work"));
        assert_eq!(approvals.trouble(), None);
        ToolPolicy::new(manent_agent::policy::PolicyRules::default(), approvals)
    };
    policy(&store).remember(&world.command("ls > out"), ApprovalScope::Project, &Grant::Same).unwrap();
    policy(&store).remember(&world.edit("docs/a.md"), ApprovalScope::Project, &Grant::Tool).unwrap();
    assert_eq!(permission(&policy(&store), &world.command("ls > out")), Permission::Allow);
    assert_eq!(permission(&policy(&store), &world.edit("src/main.rs")), Permission::Allow);
    let other = Store::on(Arc::new(InMemory::default()), None, StoreOptions::default());
    assert_eq!(permission(&policy(&other), &world.command("ls > out")), Permission::Ask);
}

#[test]
fn a_list_that_others_can_write_or_nobody_can_read_allows_nothing() {
    let world = World::new();
    world.policy("").remember(&world.command("ls"), ApprovalScope::Project, &Grant::Same).unwrap();
    let list = world.path("store/approvals.jsonl");
    let set_mode = |mode| std::fs::set_permissions(&list, std::fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o620, 0o602, 0o666] {
        set_mode(mode);
        let approvals = Approvals::load(&world.store(), &world.path("work"));
        let trouble = approvals.trouble().unwrap().to_owned();
        assert!(trouble.contains("may be written by others; make it your own"), "{trouble}");
        let mut policy = world.policy("");
        assert_eq!(permission(&policy, &world.command("ls")), Permission::Ask);
        let told =
            policy.remember(&world.command("ls -l"), ApprovalScope::Project, &Grant::Same).unwrap_err();
        assert!(told.to_string().contains("may be written by others"), "{told}");
        assert_eq!(
            permission(&policy, &world.command("ls -l")),
            Permission::Ask,
            "what is not kept does not count"
        );
    }
    set_mode(0o600);
    assert_eq!(permission(&world.policy(""), &world.command("ls")), Permission::Allow);
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
    assert_eq!(permission(&policy, &world.command("ls")), Permission::Allow);
    for line in ["git log", "pwd", "id", "whoami"] {
        assert_eq!(permission(&policy, &world.command(line)), Permission::Ask, "{line}");
    }
    policy.remember(&world.command("whoami"), ApprovalScope::Project, &Grant::Same).unwrap();
    assert_eq!(
        permission(&world.policy(""), &world.command("whoami")),
        Permission::Allow,
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
        assert_eq!(policy.decide(&prepared, Approver::Person).permission, Permission::Ask, "{prepared:?}");
        let nobody = policy.decide(&prepared, Approver::Nobody);
        assert_eq!(nobody.permission, Permission::Deny);
        assert!(nobody.why.contains("a person allows it each time"), "{}", nobody.why);
        policy.remember(&prepared, ApprovalScope::Once, &Grant::Same).unwrap();
        for answer in [ApprovalScope::Session, ApprovalScope::Project] {
            policy.remember(&prepared, answer, &Grant::Same).unwrap_err();
        }
        assert_eq!(
            policy.decide(&prepared, Approver::Person).permission,
            Permission::Ask,
            "it is asked again"
        );
    }
    let deny = "[[policy.rule]]\ntool = \"write_file\"\ndecision = \"deny\"\n";
    let write = world.prepare("write_file", &json!({"path": "AGENTS.md", "content": "x"}));
    assert_eq!(world.policy(deny).decide(&write, Approver::Person).permission, Permission::Deny);
    assert_eq!(policy.decide(&world.command("git commit"), Approver::Nobody).permission, Permission::Allow);
}
