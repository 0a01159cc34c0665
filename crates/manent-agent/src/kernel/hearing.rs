//! Asking a model and telling what comes, whichever way it calls tools.

use tokio::sync::{mpsc, watch};

use super::calling::Calling;
use super::models::{Came, Models, Told, Urgency};
use super::saying::Ended;
use super::turn::Event;
use crate::providers::{Message, ModelError, Reply, Request};
use crate::text_tools::{self, AnswerParser};

/// What a model said, however it ended.
pub(super) struct Said {
    pub(super) reply: Reply,
    pub(super) ended: Ended,
    pub(super) error: Option<ModelError>,
    /// A call by text that could not be understood.
    pub(super) unclear: Option<Unclear>,
}

/// A call that could not be understood.
pub(super) struct Unclear {
    /// In words for the model.
    pub(super) why: String,
    /// The answer as it was written.
    pub(super) written: String,
}

/// Asks the model, tells what comes, and gives all that came.
pub(super) async fn hear(
    models: &Models,
    name: &str,
    request: &Request,
    calling: Calling,
    events: &mpsc::Sender<Event>,
    stop: &mut watch::Receiver<bool>,
) -> Said {
    let by_text = calling == Calling::Text && request.tools.is_some();
    let known = request.tools.as_deref().map(text_tools::tool_names).unwrap_or_default();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let sent = if by_text { flattened(request) } else { request.clone() };
    let mut parser = by_text.then(|| AnswerParser::new(&known));
    let mut so_far = Reply { model: name.to_owned(), ..Reply::default() };
    let outcome = match models.chat(sent, Urgency::Awaited).await {
        Err(error) => Some(Err(error)),
        Ok(mut answering) => loop {
            tokio::select! {
                biased;
                () = stopped(stop) => break None,
                came = answering.next() => match came {
                    Came::Piece(piece) => {
                        if let Some(event) = take(piece, &mut so_far, parser.as_mut()) {
                            tell(event, events, stop).await;
                        }
                    }
                    Came::End(outcome) => break Some(outcome),
                },
            }
        },
    };
    let mut said = match outcome {
        Some(Ok(reply)) => Said { reply, ended: Ended::Whole, error: None, unclear: None },
        Some(Err(error)) => Said { reply: so_far, ended: Ended::Broken, error: Some(error), unclear: None },
        None => Said { reply: so_far, ended: Ended::Stopped, error: None, unclear: None },
    };
    if let Some(parser) = parser {
        let (rest, heard) = parser.finish();
        if !rest.is_empty() {
            tell(Event::Text(rest), events, stop).await;
        }
        // A call that was cut off is none, and what came of it is kept as it came.
        if said.ended == Ended::Whole {
            said.reply.calls.extend(heard.calls);
            let written = std::mem::replace(&mut said.reply.text, heard.text);
            said.unclear = heard.problem.map(|why| Unclear { why, written });
        }
    }
    said
}

/// Adds a piece to what came so far, and gives what is to be told of it.
fn take(piece: Told, so_far: &mut Reply, parser: Option<&mut AnswerParser>) -> Option<Event> {
    match piece {
        Told::Text(text) => {
            so_far.text.push_str(&text);
            let text = match parser {
                Some(parser) => parser.feed(&text),
                None => text,
            };
            (!text.is_empty()).then_some(Event::Text(text))
        }
        Told::Thinking(text) => {
            so_far.thinking.push_str(&text);
            Some(Event::Thinking(text))
        }
        Told::Again { after_ms, why } => Some(Event::Again { after_ms, why }),
    }
}

/// As a model sees it that is taught by text. What we told it in between comes from the user: templates of small models
/// know one system text, at the beginning.
fn flattened(request: &Request) -> Request {
    let mut request = request.clone();
    let leading = request.messages.iter().take_while(|message| message.role == "system").count();
    for message in request.messages.iter_mut().skip(leading).filter(|message| message.role == "system") {
        *message = Message::new("user", std::mem::take(&mut message.content));
    }
    text_tools::flatten(&request)
}

/// A stop counts also while nobody listens.
async fn tell(event: Event, events: &mpsc::Sender<Event>, stop: &mut watch::Receiver<bool>) {
    tokio::select! {
        _ = events.send(event) => {}
        () = stopped(stop) => {}
    }
}

/// Asks a model for a summary. A stop counts also here: summaries take minutes.
pub(super) async fn unless_stopped(
    models: &Models,
    request: &Request,
    mut stop: watch::Receiver<bool>,
) -> Result<Reply, ModelError> {
    tokio::select! {
        biased;
        () = stopped(&mut stop) => Err(ModelError::Stopped),
        reply = models.ask(request.clone(), Urgency::Awaited) => reply,
    }
}

/// Waits until somebody says stop; for ever if nobody can.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
