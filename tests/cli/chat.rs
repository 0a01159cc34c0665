//! `manent chat` in a pipe: one question, one answer, and what is left when something goes wrong.

use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use manent_sim::model_server::{ModelServer, Script, replies};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::environment::wait;
use crate::support::model::{MODEL, Task, asked, begin_chat, ollama, piece, requests, saying};
use crate::support::terminal::on_terminal;
use crate::support::{HANG, TestEnvironment, machine};

#[test]
fn a_piped_question_prints_the_answer_and_nothing_else() {
    let env = TestEnvironment::new();
    let server = saying("The sky is blue.");
    env.serve(&server);
    let output = env.chat(&["sky"], "What colour is the sky?\n");
    output.assert_code(0);
    assert_eq!((output.stdout(), output.stderr()), ("The sky is blue.\n".to_owned(), String::new()));
    let turns = env.turns("sky");
    assert_eq!(turns[0], ("user".to_owned(), "What colour is the sky?\n".to_owned()));
    assert_eq!(turns[1], ("assistant".to_owned(), "The sky is blue.".to_owned()));
    env.assert_clean("sky");
    // By a flag instead of a pipe; and the session goes on.
    let output = env.manent(&["chat", "sky", "-p", "And at night?"]);
    assert_eq!((output.code(), output.stdout()), (Some(0), "The sky is blue.\n".to_owned()));
    let output = env.manent(&["chat", "other", "-p", "And now?", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&output.stdout()).expect("one object");
    assert_eq!(
        (told["session"].as_str(), told["content"].as_str()),
        (Some("other"), Some("The sky is blue."))
    );
    assert!(told["seq"].is_u64() && told["stopped"] == false, "{told}");
    let sent = requests(&server, Task::Chat).into_iter().rev().nth(1).unwrap().json();
    assert_eq!(sent["messages"].as_array().unwrap().len(), 4, "{sent}");
    assert_eq!(sent["model"], MODEL);
}

#[test]
fn a_new_session_is_named_by_the_time_and_gone_on_with() {
    let env = TestEnvironment::new();
    let server = saying("Aye.");
    env.serve(&server);
    let output = env.chat(&[], "one");
    output.assert_code(0);
    assert_eq!(output.stdout(), "Aye.\n");
    let key = env.listed("live")[0]["key"].as_str().unwrap().to_owned();
    let shape: String = key
        .chars()
        .map(|c| match c {
            '0'..='9' => '#',
            'a'..='f' => 'x',
            other => other,
        })
        .collect();
    assert!(shape.starts_with("########-######-") && shape.len() == 20, "{key}");
    assert!(shape[16..].chars().all(|c| c == '#' || c == 'x'), "{key}");
    assert!(output.stderr().contains(&format!("kept as {key}; `manent chat {key}` goes on")), "{output}");
    env.append("older", "x");
    std::thread::sleep(Duration::from_millis(20));
    env.chat(&[&key], "two").assert_code(0);
    // The one that was written last, not the newest.
    let output = env.manent(&["chat", "-c", "-p", "three"]);
    output.assert_code(0);
    assert_eq!(env.turns(&key).len(), 6, "{output}");
    assert!(!output.stderr().contains("kept as"), "{output}");
    env.manent(&["chat", "-c", "older", "-p", "x"]).assert_code(2);
}

#[test]
fn there_is_nothing_to_go_on_with_in_an_empty_store() {
    let env = TestEnvironment::new();
    env.manent(&["chat", "-c", "-p", "x"]).assert_fails(4, &["no session to go on with", "manent chat"]);
    assert!(!env.home().exists(), "nothing is made for nothing");
}

#[test]
fn without_a_server_the_record_answers_with_its_sources() {
    let env = TestEnvironment::new();
    env.serve_nobody();
    env.append("harbour", "The crane at pier four is called Bertha.");
    let output = env.chat(&["new"], "What is the crane at pier four called?");
    output.assert_code(0);
    assert_eq!(output.stderr().lines().count(), 1, "{output}");
    assert!(output.stderr().starts_with("note: no model server answers at http://127.0.0.1:"), "{output}");
    assert!(output.stderr().contains("answering from the record itself"), "{output}");
    let text = output.stdout();
    assert!(text.starts_with("No model answers here"), "{text}");
    assert!(
        text.contains("1. harbour 1, user") && text.contains("> The crane at pier four is called Bertha.")
    );
    // Asked again and again, it quotes what was said, and never what it answered or was asked.
    for _ in 0..3 {
        let text = env.chat(&["new"], "What is the crane at pier four called?").stdout();
        assert!(text.contains("harbour 1, user") && !text.contains("new "), "{text}");
        assert!(!text.contains("\n2. "), "{text}");
    }
    let nothing = env.chat(&["new"], "zeppelin").stdout();
    assert!(nothing.contains("Nothing that was said fits the question."), "{nothing}");
    let marks = env.chat(&["new"], "???");
    marks.assert_code(0);
    assert!(marks.stdout().contains("Ask with some words"), "{marks}");
}

#[test]
fn what_is_no_question_is_refused_before_anything_is_written() {
    let env = TestEnvironment::new();
    let server = saying("Aye.");
    env.serve(&server);
    // A script that has nothing to ask has done nothing wrong.
    for output in [env.chat(&["a"], ""), env.chat(&["a"], " \n\t "), env.manent(&["chat", "a", "-p", " "])] {
        output.assert_code(0);
        assert!(
            output.stdout_bytes.is_empty() && output.stderr().contains("note: nothing was asked"),
            "{output}"
        );
    }
    env.manent_given(&["chat", "a"], b"caf\xe9").assert_fails(2, &["no UTF-8", "iconv"]);
    env.manent_given(&["chat", "a"], vec![b'x'; (16 << 20) + 1]).assert_fails(2, &["16 MiB"]);
    assert!(server.requests().is_empty());
    assert!(env.file_names().is_empty(), "{:?}", env.file_names());
}

#[test]
fn a_model_that_is_not_there_is_named_with_how_to_get_it() {
    let env = TestEnvironment::new();
    let server = saying("Aye.");
    env.serve(&server);
    let output = env.chat(&["a", "--model", "qwen3:4b"], "x");
    output.assert_code(0);
    assert!(output.stderr().contains("ollama pull qwen3:4b") && output.stderr().contains(MODEL), "{output}");
    assert!(output.stdout().starts_with("No model answers here"), "{output}");
    // A name without a tag means the newest.
    assert!(requests(&server, Task::Chat).is_empty());
}

#[test]
fn a_provider_that_was_named_is_not_replaced_and_the_question_is_kept() {
    let env = TestEnvironment::new();
    env.serve_nobody();
    for provider in ["ollama", "openai"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut command = env.command(&["chat", provider, "--provider", provider]);
        command
            .env("OLLAMA_HOST", address.to_string())
            .env("OPENAI_BASE_URL", format!("http://{address}/v1"));
        let output = env.output(command, b"Is anybody there?");
        output.assert_fails(1, &["no model server answers", "the question is kept"]);
        assert!(output.stdout_bytes.is_empty(), "{output}");
        assert_eq!(env.turns(provider), [("user".to_owned(), "Is anybody there?".to_owned())]);
        assert!(env.done(&["show", provider]).contains("Is anybody there?"));
    }
    env.chat(&["a", "--provider", "nonsense"], "x").assert_fails(2, &["auto, ollama, openai or recall"]);
}

#[test]
fn servers_like_openais_are_asked_with_the_key_of_the_environment() {
    let env = TestEnvironment::new();
    let server = ModelServer::start(|_| replies::openai("Aye.")).unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    env.configure(&format!(
        "[agent]\nmodel = \"m\"\n[ollama]\nurl = \"http://{nobody}\"\n[openai]\nurl = \"{}/v1\"\nkey_env = \"MY_KEY\"\n\
         [consolidation]\nwhen = \"off\"\n",
        server.url()
    ));
    let mut command = env.command(&["chat", "a", "-p", "hello"]);
    command.env("MY_KEY", "sk-of-the-test");
    let output = env.output(command, b"");
    assert_eq!((output.code(), output.stdout()), (Some(0), "Aye.\n".to_owned()), "{output}");
    let request = server.requests().pop().unwrap();
    assert_eq!(request.header("authorization"), Some("Bearer sk-of-the-test"));
    assert_eq!(env.holding("sk-of-the-test"), [""; 0], "the key is nowhere in the store");
    let named = env.chat(&["a", "--provider", "ollama"], "x");
    named.assert_fails(1, &["no model server answers"]);
}

#[test]
fn what_a_model_says_does_not_drive_a_terminal_and_is_raw_in_a_pipe() {
    let env = TestEnvironment::new();
    let nasty = "red \u{1b}[31mnow\u{1b}]0;title\u{7} and \u{9b}2J gone\r\n\u{202e}end";
    // Split in the middle of sequences too.
    let server = ollama(move |_| {
        let script = nasty.chars().fold(Script::new(), |script, c| script.chunk(piece(&c.to_string())));
        script.chunk(replies::ollama_done("stop", 11, 3))
    });
    env.serve(&server);
    assert_eq!(env.chat(&["a"], "x").stdout(), format!("{nasty}\n"));
    assert_eq!(env.turns("a")[1].1, nasty);
    let screen = on_terminal(&env, &["chat", "a", "-p", "x"]).text();
    assert!(screen.contains("now") && screen.contains("end"), "{screen:?}");
    for bad in ["\u{1b}[31m", "\u{1b}]0", "\u{7}", "\u{9b}", "\u{202e}"] {
        assert!(!screen.contains(bad), "{bad:?} in {screen:?}");
    }
}

#[test]
fn ctrl_c_keeps_what_came() {
    let env = TestEnvironment::new();
    let server = ollama(|request| match asked(request).as_str() {
        "slow" => Script::new().chunk(piece("half ")).chunk(piece("of it")).stall(),
        _ => replies::ollama("whole"),
    });
    env.serve(&server);
    let mut child = begin_chat(&env, &["a"], "slow");
    let mut out = child.stdout.take().unwrap();
    let mut seen = [0; 10];
    out.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"half of it");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let status = wait(&mut child, HANG).expect("it ends");
    assert_eq!(status.code(), Some(130));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("stopped; what came so far is kept"), "{said}");
    let records = env.records("a");
    assert!(records.last().unwrap().contains(r#""interrupted":"stopped""#), "{records:?}");
    assert_eq!(env.turns("a")[1].1, "half of it");
    env.chat(&["a"], "quick").assert_code(0);
    assert_eq!(env.turns("a").len(), 4);
}

/// A reader that has had enough, as `head` does: what came is kept.
#[test]
fn a_closed_pipe_stops_the_answer_and_keeps_what_came() {
    let env = TestEnvironment::new();
    let server = ollama(|_| {
        let more = |script: Script, n: u32| {
            script.chunk(piece(&format!("line {n}\n"))).pause(Duration::from_millis(10))
        };
        (0..200).fold(Script::new(), more).stall()
    });
    env.serve(&server);
    let mut child = begin_chat(&env, &["a"], "many");
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 7]).unwrap();
    drop(out);
    wait(&mut child, HANG).expect("it ends");
    let records = env.records("a");
    assert!(records.last().unwrap().contains(r#""interrupted":"stopped""#), "{records:?}");
    assert!(env.turns("a")[1].1.starts_with("line 0\nline 1\n"));
}

#[test]
fn a_kill_during_an_answer_loses_no_question_and_the_model_is_told() {
    let env = TestEnvironment::new();
    let server = ollama(|request| match asked(request).as_str() {
        "slow" => Script::new().chunk(piece("half")).stall(),
        _ => replies::ollama("Aye."),
    });
    env.serve(&server);
    let mut child = begin_chat(&env, &["a"], "slow");
    child.stdout.take().unwrap().read_exact(&mut [0; 4]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(env.turns("a"), [("user".to_owned(), "slow".to_owned())]);
    env.chat(&["a"], "and now?").assert_code(0);
    let turns = env.turns("a");
    assert_eq!(turns.iter().filter(|(_, text)| text == "slow").count(), 1);
    assert_eq!(turns.len(), 3);
    let sent = requests(&server, Task::Chat).pop().unwrap().json();
    let contents: Vec<&str> =
        sent["messages"].as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap()).collect();
    assert_eq!(contents[1..], ["slow", "[interrupted before an answer was given]", "and now?"]);
    env.assert_clean("a");
}

#[test]
fn a_server_in_trouble_is_told_and_the_partial_answer_is_kept() {
    let env = TestEnvironment::new();
    let server = ollama(|_| replies::ollama_error("half of", "the card fell out"));
    env.serve(&server);
    let output = env.chat(&["a"], "x");
    assert_eq!((output.code(), output.stdout()), (Some(1), "half of\n".to_owned()), "{output}");
    assert!(
        output.stderr().contains("the card fell out") && output.stderr().contains("the question is kept")
    );
    assert_eq!(env.turns("a")[1].1, "half of");
}

#[test]
fn a_disk_that_refuses_the_question_is_told_loudly_and_nobody_is_asked() {
    if !machine::has("prlimit") {
        return machine::skip("a_disk_that_refuses_the_question", "there is no prlimit");
    }
    let env = TestEnvironment::new();
    let server = saying("Aye.");
    env.serve(&server);
    env.append("a", "before");
    let before = env.bytes("a");
    let limit = format!("--fsize={}", before.len() + 5);
    let command = env.command_under(&["prlimit", &limit], &["chat", "a"]);
    let output = env.output(command, b"Does this survive?");
    output.assert_fails(1, &["not saved: ", "File too large"]);
    assert!(output.stdout_bytes.is_empty() && !output.stderr().contains("is kept"), "{output}");
    assert!(requests(&server, Task::Chat).is_empty(), "nobody was asked");
    assert_eq!(env.bytes("a"), before);
    // Room for the question, and for nothing behind it.
    let limit = format!("--fsize={}", before.len() + 140);
    let command = env.command_under(&["prlimit", &limit], &["chat", "a"]);
    let output = env.output(command, b"And this?");
    output.assert_fails(1, &["no answer is saved", "the question is kept"]);
    assert_eq!(env.turns("a").last().unwrap().1, "And this?");
    env.chat(&["a"], "Now there is room.").assert_code(0);
}

#[test]
fn a_session_that_is_held_is_waited_for_or_refused() {
    let env = TestEnvironment::new();
    let server = saying("Aye.");
    env.serve(&server);
    let holder = crate::support::Stream::hold(&env, "a");
    env.chat(&["a", "--wait", "0s"], "x").assert_fails(5, &["not saved: ", "held by pid"]);
    assert!(requests(&server, Task::Chat).is_empty());
    let waiting = begin_chat(&env, &["a", "--wait", "30s"], "y");
    std::thread::sleep(Duration::from_millis(150));
    drop(holder);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"Aye.\n"[..]));
}

#[test]
fn what_was_said_in_a_pipe_is_remembered_before_it_ends() {
    let env = TestEnvironment::new();
    let server = ollama(|request| match crate::support::model::task(request) {
        Task::Facts => {
            let quote = "My boat is called Bertha.";
            let fact = serde_json::json!({"facts": [{"kind": "fact", "quote": quote, "content": quote}]});
            replies::ollama(&fact.to_string())
        }
        _ => replies::ollama("Aye."),
    });
    env.serve(&server);
    let config = std::fs::read_to_string(env.home().join("config.toml")).unwrap();
    env.configure(&config.replace("when = \"off\"", "when = \"turn\""));
    env.chat(&["a"], "My boat is called Bertha.").assert_code(0);
    let learned = env.mem_json(&["list", "--kind", "fact"]);
    assert_eq!(learned.len(), 1, "{learned:?}");
    assert_eq!(learned[0]["source"]["session"], "a");
    // The next one hears of it.
    env.chat(&["b"], "What is my boat called?").assert_code(0);
    let sent = requests(&server, Task::Chat).pop().unwrap().json().to_string();
    assert!(sent.contains("Bertha"), "{sent}");
}

#[test]
fn two_chats_at_once_on_one_session_take_turns() {
    let env = TestEnvironment::new();
    let server = ollama(|request| {
        let answer = piece(&format!("answer to {}", asked(request)));
        let end = replies::ollama_done("stop", 11, 3);
        Script::new().pause(Duration::from_millis(20)).chunk(answer).chunk(end)
    });
    env.serve(&server);
    let chats: Vec<_> = (0..8).map(|n| begin_chat(&env, &["a", "--wait", "50s"], &format!("q{n}"))).collect();
    for chat in chats {
        let output = chat.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let turns = env.turns("a");
    assert_eq!(turns.len(), 16);
    for pair in turns.chunks(2) {
        assert_eq!(pair[1].1, format!("answer to {}", pair[0].1));
    }
    env.assert_clean("a");
    let quiet = env.command(&["chat", "a", "-q", "-p", "x"]).stderr(Stdio::null()).status().unwrap();
    assert!(quiet.success());
}
