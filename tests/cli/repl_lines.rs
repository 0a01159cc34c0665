//! The line that one types in `manent chat`: what is kept of it, how it goes on, and what the tab key offers.

use std::os::unix::fs::PermissionsExt;

use manent_sim::model_server::{ModelServer, replies};

use crate::support::TestEnvironment;
use crate::support::machine::{mode_of, set_mode};
use crate::support::model::{Sitting, asked, ollama};

/// A server that says how much it was asked.
fn counting(env: &TestEnvironment) -> ModelServer {
    let server = ollama(|request| replies::ollama(&format!("heard {} bytes", asked(request).len())));
    env.serve(&server);
    server
}

fn history(env: &TestEnvironment) -> String {
    std::fs::read_to_string(env.home().join("chat_history")).unwrap_or_default()
}

fn leave(mut sitting: Sitting) -> String {
    sitting.types("\u{4}");
    let (status, seen) = sitting.leaves();
    assert_eq!(status.code(), Some(0), "{seen}");
    seen
}

#[test]
fn what_was_typed_is_there_in_the_next_chat_and_nowhere_else() {
    let env = TestEnvironment::new();
    let _server = counting(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says("remember me", "heard 11 bytes");
    sitting.says(" and not this", "heard 13 bytes");
    sitting.says(":title A title", "is titled");
    leave(sitting);
    assert_eq!(history(&env), "remember me\n:title A title\n");
    assert_eq!(mode_of(&env.home().join("chat_history")), 0o600);
    let mut sitting = Sitting::down(&env, &["chat", "b"]);
    sitting.sees("a new session b");
    sitting.says("\u{1b}[A\u{1b}[A", "heard 11 bytes");
    leave(sitting);
    assert_eq!(env.turns("b")[0].1, "remember me");
}

#[test]
fn two_chats_at_once_lose_no_line_of_each_other() {
    let env = TestEnvironment::new();
    let _server = counting(&env);
    let mut one = Sitting::down(&env, &["chat", "one"]);
    let mut two = Sitting::down(&env, &["chat", "two"]);
    one.sees("a new session");
    two.sees("a new session");
    one.says("first of one", "heard");
    two.says("first of two", "heard");
    one.says("second of one", "heard");
    leave(two);
    leave(one);
    assert_eq!(history(&env), "first of one\nfirst of two\nsecond of one\n");
}

#[test]
fn a_history_that_is_not_ours_alone_is_a_warning_and_is_left_alone() {
    let env = TestEnvironment::new();
    let _server = counting(&env);
    let file = env.home().join("chat_history");
    let elsewhere = env.root().join("elsewhere");
    std::fs::write(&elsewhere, "").unwrap();
    let world = || {
        std::fs::write(&file, "planted\n").unwrap();
        set_mode(&file, 0o666);
    };
    let readable = || {
        std::fs::write(&file, "planted\n").unwrap();
        set_mode(&file, 0o644);
    };
    let link = || std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    let names = || {
        std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::hard_link(&elsewhere, &file).unwrap();
    };
    let directory = || std::fs::create_dir(&file).unwrap();
    let ways: [(&dyn Fn(), &str); 5] = [
        (&world, "is open to others"),
        (&readable, "is open to others"),
        (&link, "is no file"),
        (&names, "has another name"),
        (&directory, "is no file"),
    ];
    for (make, said) in ways {
        let _ = std::fs::remove_file(&file);
        make();
        let mut sitting = Sitting::down(&env, &["chat", "a"]);
        sitting.sees("session a");
        sitting.sees(said);
        // Nothing that was planted is offered, and nothing is written.
        sitting.says("a secret \u{1b}[A", "heard");
        leave(sitting);
        assert!(env.holding("a secret").iter().all(|name| !name.contains("chat_history")), "{said}");
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "", "{said}");
    }
}

#[test]
fn what_is_answered_to_a_question_of_ours_is_not_kept() {
    let env = TestEnvironment::new();
    let call = r#"{"name": "run_command", "arguments": {"command": "echo hi"}}"#;
    let server = ollama(move |request| {
        let is_told = asked(request).contains("<tool_result");
        replies::ollama(&if is_told {
            "so be it".to_owned()
        } else {
            format!("<tool_call>\n{call}\n</tool_call>")
        })
    });
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.types("go\r");
    sitting.sees("allow?");
    sitting.types("because my password is hunter2\r");
    sitting.sees("so be it");
    sitting.says(":help", ":sessions");
    leave(sitting);
    assert_eq!(history(&env), "go\n:help\n");
}

#[test]
fn several_lines_are_one_question() {
    let env = TestEnvironment::new();
    let _server = counting(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    // Pasted.
    sitting.says("\u{1b}[200~one\r\ntwo\rthree\u{1b}[201~", "heard 13 bytes");
    // With Alt-Enter.
    sitting.says("four\u{1b}\rfive", "heard 9 bytes");
    // A fence that is open.
    sitting.types("```sh\rls\r");
    sitting.sees("``` is open");
    sitting.says("```", "heard 12 bytes");
    // One that is dropped.
    sitting.types("```\rx\r\u{3}");
    sitting.waits();
    sitting.says("six", "heard 3 bytes");
    // What is pasted does not drive the terminal.
    sitting.forgets();
    sitting.says("\u{1b}[200~a\u{7}b\u{9b}2Jc\u{1b}[201~", "heard");
    let bytes = sitting.bytes();
    assert!(!bytes.contains(&7), "no bell rings");
    assert!(!bytes.windows(2).any(|two| two == "\u{9b}".as_bytes()), "no sequence begins");
    leave(sitting);
    let said: Vec<String> = env.turns("a").into_iter().step_by(2).map(|turn| turn.1).collect();
    assert_eq!(said[..4], ["one\ntwo\nthree", "four\nfive", "```sh\nls\n```", "six"]);
}

#[test]
fn a_line_of_a_megabyte_is_a_question_pasted_or_typed() {
    let env = TestEnvironment::new();
    let server = counting(&env);
    let url = server.url();
    env.configure(&format!(
        "[agent]\nmodel = \"{}\"\nmax_context_tokens = 9000000\n[ollama]\nurl = \"{url}\"\n[consolidation]\n\
         when = \"off\"\n",
        crate::support::model::MODEL
    ));
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    let long = (0..131_072).map(|n| format!("{n:07}")).collect::<Vec<_>>().join(" ") + " ";
    sitting.says(&format!("\u{1b}[200~{long}\u{1b}[201~"), "heard 1048576 bytes");
    sitting.forgets();
    sitting.says(&long, "heard 1048576 bytes");
    leave(sitting);
    let turns = env.turns("a");
    assert!(turns[0].1 == long && turns[2].1 == long, "to the letter");
    assert_eq!(history(&env), "", "a document is not kept with what was typed");
}

#[test]
fn the_tab_key_offers_commands_keys_and_files_and_nothing_that_drives_a_terminal() {
    let env = TestEnvironment::new();
    let _server = counting(&env);
    env.append("harbour:pier", "x");
    env.append("hark\u{1b}[2J\u{7}", "x");
    std::fs::create_dir(env.root().join("files")).unwrap();
    for name in ["one\u{1b}]0;x\u{7}", "only.txt"] {
        std::fs::write(env.root().join("files").join(name), "").unwrap();
    }
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says(":mod\t", "answers");
    sitting.says(":memory li\t", "nothing");
    sitting.says(&format!("see {}/files/on\t", env.root().display()), "heard");
    sitting.says(":resume har\t", "going on with session harbour:pier");
    let bytes = sitting.bytes();
    leave(sitting);
    for bad in [&b"\x1b[2J"[..], b"\x1b]0;", b"\x07"] {
        assert!(!bytes.windows(bad.len()).any(|window| window == bad), "{bad:?}");
    }
    assert!(env.turns("a")[0].1.ends_with("/files/only.txt"), "{:?}", env.turns("a"));
}

#[test]
fn ctrl_c_clears_the_line_and_twice_on_an_empty_one_says_how_to_leave() {
    let env = TestEnvironment::new();
    let _server = counting(&env);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.types("never sent\u{3}");
    sitting.waits();
    sitting.says("short", "heard 5 bytes");
    sitting.types("\u{3}");
    sitting.waits();
    assert!(!sitting.seen().contains("leaves; everything"), "once is nothing");
    sitting.types("\u{3}");
    sitting.sees("Ctrl-D or :quit leaves; everything is kept");
    // Bytes that are no text end nothing.
    sitting.types_bytes(b"caf\xe9 \xff\xfe\r");
    sitting.sees("that was no text");
    sitting.waits();
    sitting.types("\u{3}");
    sitting.waits();
    sitting.says("still here", "heard 10 bytes");
    leave(sitting);
    assert_eq!(env.turns("a").len(), 4);
}
