//! A model server beside the binary, and somebody at a terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use manent_sim::model_server::{ModelServer, Request, Script, replies};
use serde_json::{Value, json};

use super::environment::{HANG, TestEnvironment, wait};
use super::{Output, terminal};

/// The model that all tests ask.
pub(crate) const MODEL: &str = replies::MODEL;

/// A server of Ollama that has the model; what is asked of the model, the closure answers.
pub(crate) fn ollama(answer: impl Fn(&Request) -> Script + Send + Sync + 'static) -> ModelServer {
    ModelServer::start(move |request| match request.path.as_str() {
        "/api/version" => Script::body(r#"{"version":"0.12.0"}"#),
        "/api/tags" => Script::body(json!({"models": [{"name": MODEL}]}).to_string()),
        "/api/show" => Script::body(r#"{"capabilities":["completion"],"model_info":{}}"#),
        _ => answer(request),
    })
    .unwrap()
}

/// One that answers every question so; what is asked for the memory, with nothing.
pub(crate) fn saying(text: &'static str) -> ModelServer {
    ollama(move |request| match task(request) {
        Task::Chat => replies::ollama(text),
        Task::Facts => replies::ollama(r#"{"facts":[]}"#),
        _ => replies::ollama("Something was said."),
    })
}

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    Chat,
    Summary,
    Daily,
    Facts,
    /// A question about the server and its models.
    Other,
}

pub(crate) fn task(request: &Request) -> Task {
    let body = request.json();
    let Some(system) = body["messages"][0]["content"].as_str() else { return Task::Other };
    match system {
        text if text.starts_with("You keep the summary") => Task::Summary,
        text if text.starts_with("Tell in one or two") => Task::Daily,
        text if text.starts_with("You are given what a user said") => Task::Facts,
        _ => Task::Chat,
    }
}

/// The last message of a request.
pub(crate) fn asked(request: &Request) -> String {
    let body = request.json();
    let last = body["messages"].as_array().and_then(|all| all.last().cloned()).unwrap_or(Value::Null);
    last["content"].as_str().unwrap_or_default().to_owned()
}

/// The requests of one kind.
pub(crate) fn requests(server: &ModelServer, wanted: Task) -> Vec<Request> {
    server.requests().into_iter().filter(|request| task(request) == wanted).collect()
}

pub(crate) fn piece(text: &str) -> String {
    replies::ollama_line(&json!({"role": "assistant", "content": text}))
}

impl TestEnvironment {
    /// Sets things in `config.toml`.
    pub(crate) fn configure(&self, text: &str) {
        self.make_directories();
        std::fs::write(self.home().join("config.toml"), text).unwrap();
    }

    /// Has the binary ask this server, and do nothing by itself.
    pub(crate) fn serve(&self, server: &ModelServer) {
        let url = server.url();
        self.configure(&format!(
            "[agent]\nmodel = \"{MODEL}\"\n[ollama]\nurl = \"{url}\"\n[retro]\nevery = \"off\"\n\
             [consolidation]\nwhen = \"off\"\n"
        ));
    }

    /// Nobody answers where a model should be.
    pub(crate) fn serve_nobody(&self) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        self.configure(&format!("[agent]\nmodel = \"{MODEL}\"\n[ollama]\nurl = \"http://{address}\"\n"));
    }

    /// Asks in a pipe.
    pub(crate) fn chat(&self, args: &[&str], question: &str) -> Output {
        self.manent_given(&[&["chat"], args].concat(), question)
    }

    /// Returns role and text of each turn of a session.
    #[track_caller]
    pub(crate) fn turns(&self, key: &str) -> Vec<(String, String)> {
        let read = |line: &String| serde_json::from_str::<Value>(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let records: Vec<Value> = self.records(key).iter().map(read).collect();
        let turns = records.iter().filter(|record| record["role"].is_string());
        turns.map(|record| (text(&record["role"]), text(&record["content"]))).collect()
    }
}

/// Somebody who sits at a terminal with `manent ARGS`, types, and reads what comes.
pub(crate) struct Sitting {
    child: Child,
    keys: File,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    /// The longest time to wait for anything.
    patience: Duration,
}

impl Sitting {
    pub(crate) fn down(env: &TestEnvironment, args: &[&str]) -> Sitting {
        Sitting::down_with(env.command(args), &[])
    }

    /// In a directory.
    pub(crate) fn down_in(env: &TestEnvironment, args: &[&str], dir: &Path) -> Sitting {
        let mut command = env.command(args);
        command.current_dir(dir);
        Sitting::down_with(command, &[])
    }

    /// The same with a command that was prepared, and these set in its environment.
    pub(crate) fn down_with(mut command: Command, set: &[(&str, &str)]) -> Sitting {
        let (master, slave) = terminal::for_typing();
        command.env("TERM", "xterm-256color").envs(set.iter().copied()).stdin(slave.try_clone().unwrap());
        command.stdout(slave.try_clone().unwrap()).stderr(slave);
        let child = command.spawn().unwrap();
        drop(command);
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (seen, mut from) = (screen.clone(), master.try_clone().unwrap());
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal whose other side was closed answers with an error.
            while let Ok(count) = from.read(&mut bytes) {
                if count == 0 {
                    break;
                }
                seen.lock().unwrap().extend(&bytes[..count]);
            }
        });
        Sitting { child, keys: master, screen, reader: Some(reader), patience: HANG / 2 }
    }

    /// Gives the window another size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.keys, size).unwrap();
        self.signal(rustix::process::Signal::WINCH);
    }

    /// Types bytes that may be no text.
    pub(crate) fn types_bytes(&mut self, bytes: &[u8]) {
        self.keys.write_all(bytes).unwrap();
    }

    /// Waits as a person does between two keys, so that the second is read on its own.
    pub(crate) fn waits(&self) {
        let _ = self.seen();
        std::thread::sleep(Duration::from_millis(250));
    }

    /// Forgets everything that the terminal has shown so far.
    pub(crate) fn forgets(&self) {
        self.screen.lock().unwrap().clear();
    }

    /// With somebody who answers slowly.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Sitting {
        self.patience = patience;
        self
    }

    /// Types, as it is: with `\r` for the return key.
    pub(crate) fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.screen.lock().unwrap().clone()
    }

    /// All that was seen, without colours and the like.
    pub(crate) fn seen(&self) -> String {
        plain(&self.bytes())
    }

    /// Waits until something is seen, and forgets what was seen up to it.
    #[track_caller]
    pub(crate) fn sees(&mut self, wanted: &str) {
        let began = Instant::now();
        while !self.seen().contains(wanted) {
            assert!(began.elapsed() < self.patience, "{wanted:?} is not seen in:\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Types a line when the prompt is there, and waits for what it leads to.
    #[track_caller]
    pub(crate) fn says(&mut self, line: &str, answer: &str) {
        self.screen.lock().unwrap().clear();
        self.types(&format!("{line}\r"));
        self.sees(answer);
        // The prompt comes back when all of it was shown.
        let began = Instant::now();
        while !self.seen().trim_end().ends_with('>') {
            assert!(began.elapsed() < self.patience, "no prompt comes back in:\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until something of an answer is seen: the sign of life is gone, and a text stands in its place.
    #[track_caller]
    pub(crate) fn answers(&mut self) {
        self.screen.lock().unwrap().clear();
        self.sees("tokens sent");
        let began = Instant::now();
        let words = |seen: &str| seen.rsplit("tokens sent").next().is_some_and(|rest| rest.trim().len() > 20);
        while !words(&self.seen()) {
            assert!(began.elapsed() < self.patience, "nothing of an answer is seen in:\n{}", self.seen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for it to end.
    #[track_caller]
    pub(crate) fn leaves(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.child, HANG);
        let Some(status) = status else { panic!("it does not end:\n{}", self.seen()) };
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        (status, self.seen())
    }
}

impl Drop for Sitting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.keys.flush();
    }
}

/// Takes out what moves the cursor and colours text.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        if chars.next() == Some('[') {
            for c in chars.by_ref() {
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
    }
    out
}

/// Starts `manent chat ARGS` with a question in its pipe, and does not wait for it.
pub(crate) fn begin_chat(env: &TestEnvironment, args: &[&str], question: &str) -> Child {
    let mut command = env.command(&[&["chat"], args].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(question.as_bytes()).unwrap();
    child
}
