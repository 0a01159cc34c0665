//! Asking a model and telling what comes, whichever way it calls tools.

use std::sync::{Mutex, PoisonError};

use tokio::sync::{mpsc, watch};

use super::saying::Ended;
use super::turn::Event;
use crate::protocol::{self, Strainer};
use crate::providers::{Message, Model, ModelError, Piece, Reply, Request};

/// What a model said, however it ended.
pub(super) struct Said {
    pub(super) reply: Reply,
    pub(super) ended: Ended,
    pub(super) error: Option<ModelError>,
    /// A call by text that could not be understood, in words for the model.
    pub(super) unclear: Option<String>,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calling {
    /// Its server knows of tools.
    Native,
    /// By text, as [`crate::protocol`] teaches.
    Text,
}

impl Calling {
    /// The word in records.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Calling::Native => "native",
            Calling::Text => "text",
        }
    }
}

/// Asks the model, tells what comes, and gives all that came.
pub(super) async fn hear(
    model: &Model,
    request: &Request,
    calling: Calling,
    events: &mpsc::Sender<Event>,
    stop: &mut watch::Receiver<bool>,
) -> Said {
    let by_text = calling == Calling::Text && request.tools.is_some();
    let known = request.tools.as_deref().map(protocol::names).unwrap_or_default();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let flat = by_text.then(|| flattened(request));
    let strainer = by_text.then(|| Strainer::new(&known));
    let so_far = Mutex::new((Reply { model: model.name().to_owned(), ..Reply::default() }, strainer));
    // Pieces are told by a function that cannot wait; whoever listens may have to be waited for.
    let (pieces, mut told) = mpsc::unbounded_channel();
    let mut on = |piece: Piece<'_>| {
        let mut so_far = so_far.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, strainer) = &mut *so_far;
        let event = match piece {
            Piece::Text(text) => {
                reply.text.push_str(text);
                Event::Text(strainer.as_mut().map_or_else(|| text.to_owned(), |strainer| strainer.feed(text)))
            }
            Piece::Thinking(text) => {
                reply.thinking.push_str(text);
                Event::Thinking(text.to_owned())
            }
            Piece::Again { after_ms, why } => Event::Again { after_ms, why: why.to_owned() },
            Piece::Call(_) => return,
        };
        if event != Event::Text(String::new()) {
            let _ = pieces.send(event);
        }
    };
    let outcome = {
        let asking = model.chat(flat.as_ref().unwrap_or(request), &mut on);
        tokio::pin!(asking);
        loop {
            tokio::select! {
                biased;
                () = stopped(stop) => break None,
                Some(event) = told.recv() => tell(event, events, stop).await,
                outcome = &mut asking => break Some(outcome),
            }
        }
    };
    while let Ok(event) = told.try_recv() {
        tell(event, events, stop).await;
    }
    let (so_far, strainer) = so_far.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut said = match outcome {
        Some(Ok(reply)) => Said { reply, ended: Ended::Whole, error: None, unclear: None },
        Some(Err(error)) => Said { reply: so_far, ended: Ended::Broken, error: Some(error), unclear: None },
        None => Said { reply: so_far, ended: Ended::Stopped, error: None, unclear: None },
    };
    if let Some(strainer) = strainer {
        let (rest, heard) = strainer.finish();
        if !rest.is_empty() {
            tell(Event::Text(rest), events, stop).await;
        }
        said.reply.text = heard.text;
        // A call that was cut off is none.
        if said.ended == Ended::Whole {
            said.reply.calls.extend(heard.calls);
            said.unclear = heard.trouble;
        }
    }
    said
}

/// As a model sees it that is taught by text. What we told it in between comes from the user: templates of small models
/// know one system text, at the beginning.
fn flattened(request: &Request) -> Request {
    let mut request = request.clone();
    let leading = request.messages.iter().take_while(|message| message.role == "system").count();
    for message in request.messages.iter_mut().skip(leading).filter(|message| message.role == "system") {
        *message = Message::new("user", std::mem::take(&mut message.content));
    }
    protocol::flatten(&request)
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
    model: &Model,
    request: &Request,
    mut stop: watch::Receiver<bool>,
) -> Result<Reply, ModelError> {
    let mut on = |_: Piece<'_>| {};
    tokio::select! {
        biased;
        () = stopped(&mut stop) => Err(ModelError::Stopped),
        reply = model.chat(request, &mut on) => reply,
    }
}

/// Waits until somebody says stop; for ever if nobody can.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
