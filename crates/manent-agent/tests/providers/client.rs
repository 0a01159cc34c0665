//! Models to ask, and the events that were reported while a reply arrived.

use std::time::Duration;

use manent_agent::providers::{
    Message, Model, ModelError, Ollama, OpenAi, Reply, ReplyEvent, Request, RetryPolicy, ServerConfig,
    ToolCall,
};
use manent_sim::model_server::{ModelServer, Script, replies};

/// The events reported while an answer arrived.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReportedEvents {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<ToolCall>,
    /// After how many milliseconds, and why.
    pub(crate) again: Vec<(u64, String)>,
}

impl ReportedEvents {
    fn record(&mut self, piece: ReplyEvent<'_>) {
        match piece {
            ReplyEvent::Text(text) => self.text.push_str(text),
            ReplyEvent::Thinking(text) => self.thinking.push_str(text),
            ReplyEvent::Call(call) => self.calls.push(call.clone()),
            ReplyEvent::Again { after_ms, why } => self.again.push((after_ms, why.to_owned())),
        }
    }
}

/// For tests: does not wait where there is nothing to wait for.
pub(crate) fn patience() -> RetryPolicy {
    RetryPolicy {
        first_byte: Duration::from_secs(20),
        between: Duration::from_secs(20),
        first_wait: Duration::from_millis(1),
        longest_wait: Duration::from_millis(50),
        tries: 3,
        ..RetryPolicy::default()
    }
}

pub(crate) fn at(server: &ModelServer) -> ServerConfig {
    ServerConfig::at(server.url()).with_retry_policy(patience())
}

pub(crate) fn ollama(server: &ModelServer) -> Ollama {
    Ollama::new(&at(server), replies::MODEL).unwrap()
}

pub(crate) fn openai(server: &ModelServer) -> OpenAi {
    OpenAi::new(&at(server), replies::MODEL).unwrap()
}

/// The same question to both kinds.
pub(crate) fn both(server: &ModelServer) -> [Model; 2] {
    [ollama(server).into(), openai(server).into()]
}

pub(crate) fn question() -> Request {
    Request { messages: vec![Message::new("user", "Why is the sky blue?")], ..Request::default() }
}

/// Asks, and checks that the reported events and the reply say the same.
pub(crate) async fn ask(model: &Model, request: &Request) -> (Result<Reply, ModelError>, ReportedEvents) {
    let mut events = ReportedEvents::default();
    let reply = model.chat(request, &mut |piece| events.record(piece)).await;
    if let Ok(reply) = &reply {
        assert_eq!((&reply.text, &reply.thinking), (&events.text, &events.thinking));
        assert_eq!(reply.calls, events.calls);
    }
    (reply, events)
}

/// Asks a server of Ollama that answers so.
pub(crate) async fn ask_ollama(script: Script) -> (Result<Reply, ModelError>, ReportedEvents) {
    let server = ModelServer::replay([script]).unwrap();
    ask(&ollama(&server).into(), &question()).await
}

/// Asks a server like OpenAI's that answers so.
pub(crate) async fn ask_openai(script: Script) -> (Result<Reply, ModelError>, ReportedEvents) {
    let server = ModelServer::replay([script]).unwrap();
    ask(&openai(&server).into(), &question()).await
}
