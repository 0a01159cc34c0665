//! Commands of `manent chat`: each does what it says, and says something that helps when it is mistyped.

use manent_sim::model_server::{ModelServer, Script, replies};

use crate::support::TestEnvironment;
use crate::support::model::{MODEL, Sitting, asked};

/// A server with two models, which say who they are.
fn two_models(env: &TestEnvironment) -> ModelServer {
    let server = ModelServer::start(|request| match request.path.as_str() {
        "/api/version" => Script::body(r#"{"version":"0.12.0"}"#),
        "/api/tags" => {
            let models = serde_json::json!({"models": [{"name": MODEL}, {"name": "second:latest"}]});
            Script::body(models.to_string())
        }
        "/api/show" => Script::body(r#"{"capabilities":["completion"],"model_info":{}}"#),
        _ => {
            let model = request.json()["model"].as_str().unwrap_or_default().to_owned();
            replies::ollama(&format!("{model} heard {}", asked(request)))
        }
    });
    let server = server.unwrap();
    env.serve(&server);
    server
}

#[test]
fn another_model_goes_on_with_the_same_session() {
    let env = TestEnvironment::new();
    let server = two_models(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says("one", &format!("{MODEL} heard one"));
    sitting.says(":model", &format!("{MODEL} answers; there are {MODEL}, second:latest"));
    sitting.says(":model third", "has no model third");
    assert!(sitting.seen().contains("second:latest"), "what there is: {}", sitting.seen());
    assert!(sitting.seen().contains(&format!("{MODEL} goes on answering")), "{}", sitting.seen());
    sitting.says("two", &format!("{MODEL} heard two"));
    sitting.says(":model second", "second answers from here on");
    sitting.says("three", "second heard three");
    sitting.says(":model second", "second answers already");
    sitting.types(":quit\r");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    assert_eq!(env.turns("a").len(), 6);
    let sent = server.requests().pop().unwrap().json().to_string();
    assert!(sent.contains("heard two"), "the second knows what was said: {sent}");
}

#[test]
fn every_command_is_in_the_help_and_helps_who_mistypes_it() {
    let env = TestEnvironment::new();
    let _server = two_models(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    // Before anything was said.
    for command in [":show", ":export", ":title x", ":context", ":compact", ":undo", ":save x"] {
        sitting.says(command, "nothing was said in a yet; ask something first");
    }
    sitting.says(":fork", "there is no session");
    sitting.says("hello", "heard hello");
    sitting.says(":help", ":quit");
    let help = sitting.seen();
    for word in [
        "help", "sessions", "resume", "new", "save", "fork", "title", "memory", "context", "compact", "undo",
        "model", "tools", "skills", "export", "retry", "quit", "show", "search", "config", "doctor", "stats",
        "runs", "good", "bad",
    ] {
        assert!(help.contains(&format!("  :{word}")), "{word}: {help}");
    }
    sitting.says(":title", ":title TITLE");
    sitting.says(":search", ":search WORDS");
    sitting.says(":titel", "did you mean :title?");
    sitting.says(":", "there is no command");
    sitting.says(":resume nowhere", "there is no session");
    sitting.says(":memory add I like rain", "remembered 1");
    sitting.says(":memory why 1", "I like rain");
    sitting.says(":memory why", "ID");
    sitting.says(":memory why 99", "99");
    sitting.says(":save", "every turn is saved already");
    sitting.says(":save A day of rain", "A day of rain");
    sitting.says(":tools", "run_command");
    for row in ["read_file      free", "write_file     asks", "by text, which it is taught", "sandbox"] {
        assert!(sitting.seen().contains(row), "{row}: {}", sitting.seen());
    }
    sitting.says(":runs", ">");
    assert!(!sitting.seen().contains("error"), "{}", sitting.seen());
    sitting.says(":skills", ">");
    sitting.says(":undo", ">");
    sitting.says(":new b", "a new session b");
    sitting.says(":fork a", "there is a session a already");
    sitting.types(":quit\r");
    assert_eq!(sitting.leaves().0.code(), Some(0));
}

#[test]
fn without_tools_it_says_so_and_rules_are_told() {
    let env = TestEnvironment::new();
    let server = two_models(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a", "--no-tools"]);
    sitting.sees("a new session a");
    sitting.says(":tools", "has no tools in this chat");
    sitting.types("\u{4}");
    sitting.leaves();
    let rules =
        "[[policy.rule]]\ntool = \"run_command\"\nprefix = [\"rm\"]\ndecision = \"deny\"\nbecause = \"no\"\n";
    env.configure(&format!("[agent]\nmodel = \"{MODEL}\"\n[ollama]\nurl = \"{}\"\n{rules}", server.url()));
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says(":tools", "denied");
    assert!(sitting.seen().contains("rule 1 denies run_command `rm`: no"), "{}", sitting.seen());
    sitting.types("\u{4}");
    sitting.leaves();
}

#[test]
fn a_session_is_chosen_by_its_title_or_by_what_was_said() {
    let env = TestEnvironment::new();
    let _server = two_models(&env);
    env.append("garden", "The roses need water");
    env.done(&["append", "garden", "--role", "assistant", "Twice a week, says the almanac."]);
    env.append("kitchen", "How long do eggs boil");
    env.append("evil\u{1b}[2J", "A title \u{1b}]0;owned\u{7} of theirs");
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    // By its title, and with the keys.
    sitting.types(":sessions\r");
    sitting.sees("3 sessions");
    sitting.types("eggs");
    sitting.sees("1 session;");
    sitting.types("\r");
    sitting.sees("going on with session kitchen");
    // By what was said in it.
    sitting.forgets();
    sitting.types(":resume\r");
    sitting.sees("3 sessions");
    sitting.types("alman");
    sitting.sees("… ");
    sitting.types("\r");
    sitting.sees("going on with session garden");
    // Nothing fits; then everything again; and no.
    sitting.forgets();
    sitting.types(":sessions\r");
    sitting.sees("3 sessions");
    sitting.types("zzzz\r");
    sitting.sees("nothing fits");
    sitting.forgets();
    sitting.types("\u{15}\u{1b}[B\u{1b}[B\u{1b}[B\u{1b}[A");
    sitting.sees("3 sessions");
    sitting.types("\u{1b}");
    sitting.waits();
    sitting.says("still here?", "heard still here?");
    let bytes = sitting.bytes();
    sitting.types("\u{4}");
    let (status, seen) = sitting.leaves();
    assert_eq!(status.code(), Some(0));
    assert!(seen.contains("`manent chat garden` goes on"), "{seen}");
    for bad in [&b"\x1b[2J"[..], b"\x1b]0;", b"\x07"] {
        assert!(!bytes.windows(bad.len()).any(|window| window == bad), "{bad:?}");
    }
}

#[test]
fn where_nothing_can_be_drawn_the_list_is_shown() {
    let env = TestEnvironment::new();
    let _server = two_models(&env);
    env.append("garden", "The roses need water");
    let mut command = env.command(&["chat", "a"]);
    command.env("TERM", "dumb");
    let mut sitting = Sitting::down_with(command, &[("TERM", "dumb")]);
    sitting.sees("a new session a");
    sitting.types(":sessions\n");
    sitting.sees("SESSION");
    sitting.sees("The roses need water");
    sitting.types(":quit\n");
    assert_eq!(sitting.leaves().0.code(), Some(0));
}

#[test]
fn a_session_is_exported_from_within() {
    let env = TestEnvironment::new();
    let _server = two_models(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says("hello there", "heard hello there");
    let file = env.root().join("with a blank.md");
    sitting.says(&format!(":export {}", file.display()), "is written to");
    sitting.says(&format!(":export {}", file.display()), "is there already");
    sitting.says(&format!(":export {}/a.jsonl", env.root().display()), "is written to");
    sitting.says(":export /nowhere/at/all.md", "cannot write /nowhere/at/all.md");
    sitting.types("\u{4}");
    sitting.leaves();
    let text = std::fs::read_to_string(file).unwrap();
    assert!(
        text.starts_with("# hello there\n") && text.contains(&format!("{MODEL} heard hello there")),
        "{text}"
    );
    let lines = std::fs::read_to_string(env.root().join("a.jsonl")).unwrap();
    assert_eq!(lines, env.manent(&["show", "a", "--json"]).stdout());
}
