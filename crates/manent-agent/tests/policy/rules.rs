//! Reading rules, their examples, and which one counts.

use manent_agent::config::Config;
use manent_agent::policy::{Approver, Permission, PolicyRules};
use serde_json::json;

use super::{World, decide, permission, policy};

fn error(rules: &str) -> String {
    PolicyRules::read(rules).unwrap_err().to_string()
}

#[test]
fn without_rules_looking_is_free_and_the_rest_asks() {
    let (world, policy) = (World::new(), policy(""));
    let cases = [
        (world.prepare("read_file", &json!({"path": "src/main.rs"})), Permission::Allow),
        (world.prepare("search_files", &json!({"pattern": "x"})), Permission::Allow),
        (world.prepare("recall", &json!({"query": "tea"})), Permission::Allow),
        (world.edit("src/main.rs"), Permission::Ask),
        (world.prepare("write_file", &json!({"path": "x", "content": ""})), Permission::Ask),
        (world.command("ls"), Permission::Ask),
        (
            world.prepare("remember", &json!({"content": "Likes tea", "quote": "I like green tea"})),
            Permission::Ask,
        ),
    ];
    for (prepared, wanted) in cases {
        assert_eq!(permission(&policy, &prepared), wanted, "{}", prepared.what);
        let alone = policy.decide(&prepared, Approver::Nobody);
        let wanted = if wanted == Permission::Ask { Permission::Deny } else { wanted };
        assert_eq!(alone.permission, wanted, "{}: {}", prepared.what, alone.why);
        assert!(
            wanted == Permission::Allow || alone.why.contains("nobody is there to be asked"),
            "{}",
            alone.why
        );
    }
}

#[test]
fn of_several_rules_the_gravest_counts_whatever_their_order() {
    let world = World::new();
    let rules = [
        "[[policy.rule]]\ntool = 'edit_file'\npath = '**'\ndecision = 'allow'\n",
        "[[policy.rule]]\ntool = 'edit_file'\npath = 'docs/**'\ndecision = 'ask'\n",
        "[[policy.rule]]\ntool = 'edit_file'\npath = 'docs/deep/*'\ndecision = 'deny'\n",
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let policy = policy(&order.map(|n| rules[n]).concat());
        assert_eq!(permission(&policy, &world.edit("src/main.rs")), Permission::Allow);
        assert_eq!(permission(&policy, &world.edit("docs/a.md")), Permission::Ask);
        assert_eq!(permission(&policy, &world.edit("docs/deep/b.md")), Permission::Deny);
    }
}

#[test]
fn a_rule_for_all_commands_takes_all_but_what_another_rule_denies() {
    let world = World::new();
    let policy = policy(
        "[[policy.rule]]\ntool = 'run_command'\ndecision = 'allow'\nmatch = ['x=1 y > $z']\n\
         [[policy.rule]]\ntool = 'run_command'\nprefix = ['rm']\ndecision = 'deny'\n",
    );
    assert_eq!(permission(&policy, &world.command("for x in *; do echo $x > y; done")), Permission::Allow);
    assert_eq!(permission(&policy, &world.command("for x in *; do rm $x; done")), Permission::Deny);
}

#[test]
fn a_rule_about_a_file_sees_its_real_name() {
    let world = World::new();
    std::os::unix::fs::symlink("../secret.env", world.path("work/docs/link.md")).unwrap();
    let policy = policy("[[policy.rule]]\ntool = 'edit_file'\npath = 'docs/**'\ndecision = 'allow'\n");
    assert_eq!(permission(&policy, &world.edit("docs/a.md")), Permission::Allow);
    assert_eq!(permission(&policy, &world.edit("./src/../docs/a.md")), Permission::Allow);
    assert_eq!(permission(&policy, &world.edit("docs/link.md")), Permission::Ask);
    assert_eq!(permission(&policy, &world.edit("docs/../src/main.rs")), Permission::Ask);
}

#[test]
fn what_may_not_be_read_is_not_found_by_a_search_either() {
    let world = World::new();
    let rules =
        PolicyRules::read("[[policy.rule]]\ntool = 'read_file'\npath = '**/*.env'\ndecision = 'deny'\n")
            .unwrap();
    let tools = world.tools.clone().without(&rules.unreadable()).unwrap();
    let call = |name: &str, arguments: serde_json::Value| manent_agent::providers::ToolCall {
        id: String::new(),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    let found = tools.prepare(&call("search_files", json!({"pattern": "text"}))).unwrap().run(&|| false);
    assert!(found.content.contains("main.rs") && !found.content.contains("secret.env"), "{}", found.content);
    assert!(tools.prepare(&call("read_file", json!({"path": "secret.env"}))).is_err());
}

#[test]
fn examples_that_do_not_hold_are_named_with_their_rule() {
    let rule = |more: &str| {
        format!(
            "[[policy.rule]]\ntool = 'run_command'\nprefix = ['cargo', 'test']\ndecision = 'allow'\n{more}\n"
        )
    };
    let told = error(&(rule("") + &rule("match = ['cargo build']")));
    assert!(
        told.contains("rule 2 of the policy (allow run_command `cargo test`) does not match \"cargo build\""),
        "{told}"
    );
    let told = error(&rule("not_match = ['cargo test -p x']"));
    assert!(told.contains("matches \"cargo test -p x\", and its examples say otherwise"), "{told}");
    assert!(error(&rule("match = ['cargo test > x']")).contains("does not match"));
    let path =
        "[[policy.rule]]\ntool = 'edit_file'\npath = 'docs/*'\ndecision = 'deny'\nmatch = ['docs/a/b']";
    assert!(error(path).contains("does not match \"docs/a/b\""));
}

#[test]
fn rules_that_make_no_sense_are_refused_with_what_would() {
    let cases = [
        (
            "[[policy.rule]]\ntool = 'run'\ndecision = 'allow'",
            "there is no such tool; the tools are read_file",
        ),
        (
            "[[policy.rule]]\ntool = 'edit_file'\nprefix = ['a']\ndecision = 'allow'",
            "only run_command has a prefix",
        ),
        ("[[policy.rule]]\ntool = 'run_command'\npath = 'a'\ndecision = 'allow'", "have a path"),
        ("[[policy.rule]]\ntool = 'run_command'\nprefix = []\ndecision = 'allow'", "prefix must be words"),
        (
            "[[policy.rule]]\ntool = 'run_command'\nprefix = ['cargo test']\ndecision = 'allow'",
            "prefix must be words",
        ),
        ("[[policy.rule]]\ntool = 'edit_file'\npath = 'a['\ndecision = 'allow'", "is no pattern for paths"),
        ("[[policy.rule]]\ntool = 'edit_file'\ndecision = 'maybe'", "unknown variant"),
        ("[[policy.rule]]\ntool = 'edit_file'\ndecison = 'allow'", "unknown field"),
        ("[[policy.rules]]\ntool = 'edit_file'", "unknown field"),
        ("[[policy.rule]\n", "cannot be read"),
    ];
    for (rules, wanted) in cases {
        let told = error(rules);
        assert!(told.contains(wanted), "{rules}: {told}");
    }
}

#[test]
fn rules_stand_beside_settings_in_one_file() {
    let text = "[agent]\nmodel = 'm'\n[[policy.rule]]\ntool = 'edit_file'\ndecision = 'deny'\n";
    let config = Config::read("/s/config.toml".as_ref(), Some(text), &|_| None).unwrap();
    assert_eq!(config.model, "m");
    let decision = decide(&policy(text), &World::new().edit("docs/a.md"));
    assert_eq!((decision.permission, decision.why.as_str()), (Permission::Deny, "rule 1 denies edit_file"));
}
