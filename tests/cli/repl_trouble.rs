//! `manent chat` on a terminal when things go wrong: a full disk, a terminal that goes away, tools that are stopped.

use std::io::Write;
use std::time::Duration;

use manent_sim::model_server::{Closing, Script, replies};
use rustix::process::Signal;

use crate::support::machine::{self, Mount};
use crate::support::model::{Sitting, asked, ollama, piece, saying};
use crate::support::{HANG, TestEnvironment};

#[test]
fn on_a_full_disk_it_says_loudly_that_nothing_is_saved_until_it_is_again() {
    let outer = TestEnvironment::new();
    let Some(disk) = Mount::new(outer.root(), "tmpfs", "size=4m,mode=0755") else {
        return machine::skip("on_a_full_disk_it_says_loudly", "tmpfs cannot be mounted here");
    };
    let env = TestEnvironment::within(disk.path());
    let server = saying("Aye.");
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says("one", "Aye.");
    let filler = disk.path().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[b'f'; 4096]).is_ok() {}
    while file.write_all(b"f").is_ok() {}
    // The last page of the log may have room for a short question.
    sitting.says(&"two ".repeat(2000), "NOT SAVED what you just said is in no log");
    assert!(sitting.seen().contains("no space for"), "why: {}", sitting.seen());
    assert!(sitting.seen().trim_end().ends_with("NOT SAVED >"), "in the prompt: {}", sitting.seen());
    let loud = b"\x1b[1m\x1b[31mNOT SAVED\x1b[0m >";
    assert!(sitting.bytes().windows(loud.len()).any(|window| window == loud), "in red");
    sitting.says(":help", "NOT SAVED >");
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    sitting.says("three", "Aye.");
    assert!(!sitting.seen().contains("NOT SAVED"), "{}", sitting.seen());
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    let said: Vec<String> = env.turns("a").into_iter().map(|turn| turn.1).collect();
    assert_eq!(said, ["one", "Aye.", "three", "Aye."]);
    env.assert_clean("a");
}

/// A terminal that is closed, or a machine that shuts down, in the middle of an answer.
#[test]
fn what_came_before_a_hangup_is_kept() {
    for (signal, key) in [(Signal::HUP, "hung-up"), (Signal::TERM, "ended")] {
        let env = TestEnvironment::new();
        let server = ollama(|_| Script::new().chunk(piece("half of it")).stall());
        env.serve(&server);
        let mut sitting = Sitting::down(&env, &["chat", key]);
        sitting.sees("a new session");
        sitting.types("slow\r");
        sitting.sees("half of it");
        sitting.signal(signal);
        sitting.leaves();
        let turns = env.turns(key);
        assert_eq!((turns.len(), turns[1].1.as_str()), (2, "half of it"));
        env.assert_clean(key);
    }
}

#[test]
fn a_hangup_at_the_prompt_ends_it() {
    let env = TestEnvironment::new();
    let server = saying("Aye.");
    env.serve(&server);
    for (signal, code) in [(Signal::HUP, 129), (Signal::TERM, 143)] {
        let mut sitting = Sitting::down(&env, &["chat", "a"]);
        sitting.sees("session a");
        sitting.says("x", "Aye.");
        sitting.signal(signal);
        assert_eq!(sitting.leaves().0.code(), Some(code));
    }
    assert_eq!(env.turns("a").len(), 4);
}

#[test]
fn a_chat_that_ignores_a_hangup_answers_to_the_end() {
    let env = TestEnvironment::new();
    let server = ollama(|_| {
        let first = Script::new().chunk(piece("first ")).pause(Duration::from_millis(600));
        first.chunk(piece("last")).chunk(replies::ollama_done("stop", 11, 3))
    });
    env.serve(&server);
    let mut command = env.command_under(&["nohup"], &["chat", "a", "-p", "x"]);
    let child = command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut child = child.stderr(std::process::Stdio::null()).spawn().unwrap();
    assert!(server.wait_for_requests(4, HANG), "it is asked");
    std::thread::sleep(Duration::from_millis(200));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::HUP).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(env.turns("a")[1].1, "first last");
}

#[test]
fn after_a_server_that_died_the_question_is_asked_again() {
    let env = TestEnvironment::new();
    let times = std::sync::atomic::AtomicU32::new(0);
    let server = ollama(move |_| match times.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => Script::new().chunk(piece("I was about to")).close(Closing::Rst),
        _ => replies::ollama("All of it."),
    });
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says(":retry", "nothing was asked in a yet");
    sitting.says("tell me", ":retry asks it again");
    sitting.says(":retry", "All of it.");
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    let turns = env.turns("a");
    let said: Vec<&str> = turns.iter().map(|turn| turn.1.as_str()).collect();
    assert_eq!(said, ["tell me", "I was about to", "tell me", "All of it."]);
}

/// A model that wants to run a command, until it has a result.
fn wanting(command: &'static str) -> manent_sim::model_server::ModelServer {
    let call = serde_json::json!({"name": "run_command", "arguments": {"command": command}});
    let wish = format!("Let me try.\n<tool_call>\n{call}\n</tool_call>");
    ollama(move |request| {
        let is_told = asked(request).contains("<tool_result");
        replies::ollama(if is_told { "I see." } else { &wish })
    })
}

#[test]
fn ctrl_c_at_a_question_of_ours_means_no() {
    let env = TestEnvironment::new();
    let server = wanting("echo yes > done");
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.types("go\r");
    sitting.sees("allow?");
    sitting.types("y\u{3}");
    sitting.sees("I see.");
    sitting.sees("tokens ·");
    sitting.waits();
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    let records = env.manent(&["show", "a", "--json"]).stdout();
    assert!(
        records.contains("the user did not allow it") && !records.contains("allowed by the user"),
        "{records}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_stops_a_tool_and_keeps_what_came() {
    let env = TestEnvironment::new();
    let server = wanting("sleep 300");
    env.serve(&server);
    std::fs::create_dir(env.root().join("project")).unwrap();
    let mut command = env.command(&["chat", "a"]);
    command.current_dir(env.root().join("project"));
    let mut sitting = Sitting::down_with(command, &[]);
    sitting.sees("a new session a");
    sitting.types("go\r");
    sitting.sees("allow?");
    sitting.types("y\r");
    sitting.sees("· run sleep 300");
    sitting.waits();
    if sitting.seen().contains("I see.") {
        return machine::skip("ctrl_c_stops_a_tool_and_keeps_what_came", "no sandbox works here");
    }
    sitting.signal(Signal::INT);
    sitting.sees("stopped; what came so far is kept");
    sitting.says("and now?", "tokens");
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    let turns = env.turns("a");
    assert_eq!((turns[1].0.as_str(), turns[1].1.trim()), ("assistant", "Let me try."));
    assert_eq!(turns[2].0, "tool", "{turns:?}");
    assert!(turns[2].1.contains("stopped"), "{turns:?}");
}

#[test]
fn escapes_within_marks_and_across_pieces_are_shown_and_not_obeyed() {
    let env = TestEnvironment::new();
    let nasty = "**bold \u{1b}[2J** `\u{1b}]0;x\u{7}` # \u{9b}31m\n```\u{1b}[1;1H\n\u{1b}c\n```\n\
                 [a\u{1b}[5n](\u{1b}]8;;u)";
    let server = ollama(move |_| {
        let script = nasty.chars().fold(Script::new(), |script, c| script.chunk(piece(&c.to_string())));
        script.chunk(replies::ollama_done("stop", 11, 3))
    });
    env.serve(&server);
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    sitting.says("x", "tokens");
    let bytes = sitting.bytes();
    sitting.types("\u{4}");
    sitting.leaves();
    for bad in ["\x1b[2J", "\x1b]", "\x07", "\u{9b}", "\x1b[1;1H", "\x1bc", "\x1b[5n"] {
        assert!(!bytes.windows(bad.len()).any(|window| window == bad.as_bytes()), "{bad:?}");
    }
    assert!(String::from_utf8_lossy(&bytes).contains("\x1b[1mbold \\u{1b}[2J\x1b[0m"), "bold, and shown");
    assert_eq!(env.turns("a")[1].1, nasty, "in the log it is what it was");
}

#[test]
fn markdown_is_styled_on_a_terminal_with_colours_and_nowhere_else() {
    let text = "# Head\n\nSome **bold** and `code`.\n- item\n";
    for (set, args, styled) in [
        (&[][..], &["chat", "a"][..], true),
        (&[("NO_COLOR", "1")][..], &["chat", "a"][..], false),
        (&[][..], &["--color=never", "chat", "a"][..], false),
    ] {
        let env = TestEnvironment::new();
        let server = saying(text);
        env.serve(&server);
        let mut sitting = Sitting::down_with(env.command(args), set);
        sitting.sees("a new session a");
        sitting.says("x", "tokens");
        let bytes = String::from_utf8(sitting.bytes()).unwrap();
        sitting.types("\u{4}");
        sitting.leaves();
        let is_styled = bytes.contains("\x1b[1mbold\x1b[0m") && bytes.contains("• ");
        assert_eq!((is_styled, bytes.contains("**bold** and `code`")), (styled, !styled), "{bytes:?}");
        assert!(styled || !bytes.contains("\x1b[1m") && !bytes.contains("\x1b[2m"), "no colours: {bytes:?}");
        assert_eq!(env.chat(&["b"], "x").stdout(), text, "in a pipe, byte for byte");
    }
}

#[test]
fn a_window_of_one_column_and_one_that_changes_its_size_are_survived() {
    let env = TestEnvironment::new();
    let server = ollama(|request| replies::ollama(&format!("**{}**", asked(request).len())));
    env.serve(&server);
    env.append("other", "something that was said elsewhere");
    let mut sitting = Sitting::down(&env, &["chat", "a"]);
    sitting.sees("a new session a");
    for (columns, rows) in [(1, 1), (2, 50), (500, 2), (80, 24)] {
        sitting.resize(columns, rows);
        sitting.types("a question of some length");
        sitting.resize(columns + 1, rows);
        sitting.types("\r");
        sitting.sees("25");
        sitting.waits();
        sitting.types(":sessions\r");
        sitting.waits();
        sitting.resize(columns, rows + 1);
        sitting.types("else");
        sitting.waits();
        sitting.types("\u{1b}");
        sitting.waits();
        sitting.forgets();
    }
    sitting.says("ok", "2");
    sitting.types("\u{4}");
    assert_eq!(sitting.leaves().0.code(), Some(0));
    assert_eq!(env.turns("a").len(), 10);
}

#[test]
fn a_prefix_of_a_command_is_offered_with_what_it_makes_possible() {
    for (command, offered) in [
        (
            "git log",
            "[b] every `git log` with these options in this chat (may run programs and change files here)",
        ),
        ("ls -l", "[b] every `ls` in this project"),
    ] {
        let env = TestEnvironment::new();
        let server = wanting(command);
        env.serve(&server);
        let mut sitting = Sitting::down(&env, &["chat", "a"]);
        sitting.sees("a new session a");
        sitting.types("go\r");
        sitting.sees("allow?");
        let seen = sitting.seen().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(seen.contains(offered), "{seen}");
        sitting.types("\r");
        sitting.sees("I see.");
        sitting.types("\u{4}");
        sitting.leaves();
    }
}
