//! A store, a server, a kernel, and what the log says.

use std::path::Path;
use std::time::Duration;

use manent::{LogItem, Record, SessionKey, Start, Store, StoreOptions};
use manent_agent::config::{Config, ConsolidationTrigger, RetroInterval};
use manent_agent::kernel::{Answer, Conversation, Event, Kernel, TurnError};
use manent_agent::providers::{Model, Ollama, OpenAi, RetryPolicy, ServerConfig};
use manent_sim::model_server::{ModelServer, Request, Script, replies};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Handle;

/// The system text in all of these tests.
pub(crate) const SYSTEM: &str = "You are a test.";

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(50);

pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) store: Store,
    pub(crate) server: ModelServer,
}

impl Fixture {
    /// A server that answers so.
    pub(crate) fn new(answer: impl Fn(&Request) -> Script + Send + Sync + 'static) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        Fixture { dir, store, server: ModelServer::start(answer).unwrap() }
    }

    /// A server that answers in order.
    pub(crate) fn replay<const N: usize>(scripts: [Script; N]) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        Fixture { dir, store, server: ModelServer::replay(scripts).unwrap() }
    }

    pub(crate) fn model(&self) -> Model {
        Ollama::new(&ServerConfig::at(self.server.url()).with_retry_policy(retry_policy()), replies::MODEL)
            .unwrap()
            .into()
    }

    pub(crate) fn openai(&self) -> Model {
        OpenAi::new(&ServerConfig::at(self.server.url()).with_retry_policy(retry_policy()), replies::MODEL)
            .unwrap()
            .into()
    }

    pub(crate) fn kernel(&self) -> Kernel {
        self.kernel_with(&quiet())
    }

    pub(crate) fn kernel_with(&self, config: &Config) -> Kernel {
        start(self.store.clone(), self.model(), config)
    }

    /// Returns the requests of conversations, in order.
    pub(crate) fn chats(&self) -> Vec<Vec<(String, String)>> {
        self.server.requests().iter().filter(|request| is_chat(request)).map(messages).collect()
    }
}

pub(crate) fn start(store: Store, model: Model, config: &Config) -> Kernel {
    Kernel::start(&Handle::current(), store, model, config.clone(), SYSTEM.to_owned(), None)
}

/// A store of its own, as another process would open it.
pub(crate) fn open(dir: &Path) -> Store {
    open_waiting(dir, LONG)
}

pub(crate) fn open_waiting(dir: &Path, wait: Duration) -> Store {
    Store::open_with(dir.join("home"), StoreOptions { wait, ..StoreOptions::default() }).unwrap()
}

/// Returns a configuration without background work.
pub(crate) fn quiet() -> Config {
    let mut config = Config::default();
    config.consolidate = ConsolidationTrigger::Off;
    config.retro.every = RetroInterval::Off;
    config
}

pub(crate) fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        first_byte: Duration::from_secs(20),
        between: Duration::from_millis(300),
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(5),
        tries: 2,
        ..RetryPolicy::default()
    }
}

pub(crate) fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

/// Asks, and gives what was heard on the way and how it ended.
pub(crate) async fn ask_with_events(
    conversation: &Conversation,
    question: &str,
) -> (Vec<Event>, Result<Answer, TurnError>) {
    let mut stream = conversation.ask(question).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    (events, stream.end().await)
}

pub(crate) async fn ask(conversation: &Conversation, question: &str) -> Answer {
    ask_with_events(conversation, question).await.1.unwrap()
}

/// Every record of a session but its header: number, who or what, what it says, and whether it was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) seq: u64,
    pub(crate) role: String,
    pub(crate) content: String,
    pub(crate) interrupted: Option<String>,
}

pub(crate) fn log(store: &Store, key: &SessionKey) -> Vec<Line> {
    let mut reader = store.stream(key, Start::Header).unwrap();
    let mut lines = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let LogItem::Entry(entry) = item else { panic!("damage in {key}") };
        let Some(record) = Record::of(&entry).filter(|_| entry.seq > 0) else { continue };
        let role = record.role().or_else(|| record.kind()).unwrap_or_default().into_owned();
        lines.push(Line {
            seq: entry.seq,
            role,
            content: record.content().into_owned(),
            interrupted: record.string("interrupted").map(std::borrow::Cow::into_owned),
        });
    }
    lines
}

/// Returns the turns of the log as role and text.
pub(crate) fn logged_turns(store: &Store, key: &SessionKey) -> Vec<(String, String)> {
    let is_turn = |line: &Line| line.role == "user" || line.role == "assistant";
    log(store, key).into_iter().filter(is_turn).map(|line| (line.role, line.content)).collect()
}

pub(crate) fn pairs(said: &[(&str, &str)]) -> Vec<(String, String)> {
    said.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

/// The messages of a request: role and content.
pub(crate) fn messages(request: &Request) -> Vec<(String, String)> {
    let body = request.json();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = body["messages"].as_array().cloned().unwrap_or_default();
    all.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

/// Returns the system text of a request.
pub(crate) fn system_text(request: &Request) -> String {
    messages(request).into_iter().next().map(|(_, text)| text).unwrap_or_default()
}

/// Returns true if a request belongs to a conversation, and not to background work.
pub(crate) fn is_chat(request: &Request) -> bool {
    system_text(request) == SYSTEM
}

/// The last thing that was said.
pub(crate) fn question(request: &Request) -> String {
    messages(request).pop().map(|(_, text)| text).unwrap_or_default()
}
