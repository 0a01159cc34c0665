//! Calls of models: so many at once, those that a person waits for apart from the others.
//!
//! An answer that is streamed has no limit of time, only of size and silence: whoever reads it can stop it. One of
//! which only the whole is wanted ([`ModelCalls::ask`]) must come within a time. A client that panics ends one answer;
//! what came of it until then is kept.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit, mpsc, watch};
use tokio::task::JoinSet;

use super::conversation::{Event, Listener};
use super::tool_runner::CallStyle;
use crate::providers::{Model, ModelError, Reply, ReplyEvent, Request};
use crate::text_tools::{self, AnswerParser};

/// The model, and the number of calls that are made of it at once.
#[derive(Debug)]
pub(super) struct ModelCalls {
    model: Model,
    /// The limit for each [`Urgency`].
    permits: [Semaphore; 2],
    /// The time for an answer that is not streamed.
    ask_within: Duration,
}

/// The kind of a call: calls that nobody waits for never stand before those that somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    Awaited,
    Background,
}

/// The answer of a model, whole or as far as it came.
pub(super) struct ModelAnswer {
    pub(super) reply: Reply,
    pub(super) end: AnswerEnd,
    /// A call by text that could not be understood.
    pub(super) unclear: Option<UnclearCall>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    Whole,
    Stopped,
    /// The model or its server broke off.
    Broken(ModelError),
}

/// A call by text that could not be understood.
pub(super) struct UnclearCall {
    /// The problem, in words for the model.
    pub(super) problem: String,
    /// The answer as it was written.
    pub(super) written: String,
}

impl ModelCalls {
    pub(super) fn new(model: Model, ask_within: Duration) -> Arc<ModelCalls> {
        let permits = [AWAITED_MAX, BACKGROUND_MAX].map(Semaphore::new);
        Arc::new(ModelCalls { model, permits, ask_within })
    }

    /// Asks for an answer of which only the whole is wanted, within the time for such answers; time spent waiting for
    /// other calls does not count. In a task of its own, because callers block on it: the end of the runtime ends the
    /// task, and so the caller.
    pub(super) async fn ask(
        self: &Arc<ModelCalls>,
        request: &Request,
        urgency: Urgency,
    ) -> Result<Reply, ModelError> {
        let (calls, request, mut task) = (self.clone(), request.clone(), JoinSet::new());
        task.spawn(async move {
            let _permit = calls.permit(urgency).await?;
            calls.model.ask_within(&request, calls.ask_within).await
        });
        match task.join_next().await {
            Some(Ok(reply)) => reply,
            _ => Err(ModelError::Broke),
        }
    }

    /// Like [`ModelCalls::ask`], but a stop ends it: summaries take minutes.
    pub(super) async fn ask_unless_stopped(
        self: &Arc<ModelCalls>,
        request: &Request,
        urgency: Urgency,
        stop: &watch::Receiver<bool>,
    ) -> Result<Reply, ModelError> {
        tokio::select! {
            biased;
            () = stopped(stop) => Err(ModelError::Stopped),
            reply = self.ask(request, urgency) => reply,
        }
    }

    /// Asks, sends the events of the answer as they come, and returns all that came.
    ///
    /// The client is polled only while the listener keeps up, so no more than one read of it waits here.
    pub(super) async fn stream(
        &self,
        request: &Request,
        style: CallStyle,
        listener: &Listener,
    ) -> ModelAnswer {
        let tools = request.tools.as_deref().filter(|_| style == CallStyle::Text).map(text_tools::tool_names);
        let flat = tools.is_some().then(|| text_tools::flatten(request));
        let mut parser = tools.map(|tools| AnswerParser::new(&tools));
        let mut so_far = Reply { model: self.model.name().to_owned(), ..Reply::default() };
        let (sender, mut pieces) = mpsc::unbounded_channel();
        let mut on = move |piece: ReplyEvent<'_>| {
            let _ = sender.send(match piece {
                ReplyEvent::Text(text) => Event::Text(text.to_owned()),
                ReplyEvent::Thinking(text) => Event::Thinking(text.to_owned()),
                ReplyEvent::Again { after_ms, why } => Event::Retry { after_ms, why: why.to_owned() },
                // Calls come with the whole.
                ReplyEvent::Call(_) => return,
            });
        };
        // The sender of pieces is dropped at the end of the call, which ends the loop below.
        let mut calling = pin!(async move {
            let _permit = self.permit(Urgency::Awaited).await?;
            catch_panic(self.model.chat(flat.as_ref().unwrap_or(request), &mut on)).await
        });
        let mut outcome = None;
        loop {
            tokio::select! {
                biased;
                () = stopped(&listener.stop), if outcome.is_none() => break,
                piece = pieces.recv() => {
                    let Some(piece) = piece else { break };
                    if let Some(event) = take(piece, &mut so_far, parser.as_mut()) {
                        send(event, listener).await;
                    }
                }
                ended = &mut calling, if outcome.is_none() => outcome = Some(ended),
            }
        }
        let (reply, end) = match outcome {
            Some(Ok(reply)) => (reply, AnswerEnd::Whole),
            Some(Err(error)) => (so_far, AnswerEnd::Broken(error)),
            None => (so_far, AnswerEnd::Stopped),
        };
        let mut answer = ModelAnswer { reply, end, unclear: None };
        if let Some(parser) = parser {
            let (rest, parsed) = parser.finish();
            if !rest.is_empty() {
                send(Event::Text(rest), listener).await;
            }
            // A call that was cut off is not made, and what came of it is kept as it came.
            if answer.end == AnswerEnd::Whole {
                answer.reply.calls.extend(parsed.calls);
                let written = std::mem::replace(&mut answer.reply.text, parsed.text);
                answer.unclear = parsed.problem.map(|problem| UnclearCall { problem, written });
            }
        }
        answer
    }

    async fn permit(&self, urgency: Urgency) -> Result<SemaphorePermit<'_>, ModelError> {
        self.permits[urgency as usize].acquire().await.map_err(|_| ModelError::Broke)
    }
}

/// Adds a piece to the answer so far, and returns the event for it, if there is anything to show.
fn take(piece: Event, so_far: &mut Reply, parser: Option<&mut AnswerParser>) -> Option<Event> {
    match &piece {
        Event::Text(text) => {
            so_far.text.push_str(text);
            let Some(parser) = parser else { return Some(piece) };
            let shown = parser.feed(text);
            (!shown.is_empty()).then_some(Event::Text(shown))
        }
        Event::Thinking(text) => {
            so_far.thinking.push_str(text);
            Some(piece)
        }
        _ => Some(piece),
    }
}

/// Polls a future of a client, and turns its panic into an error.
async fn catch_panic<T>(future: impl Future<Output = Result<T, ModelError>>) -> Result<T, ModelError> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // The future is not polled again after a panic.
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        polled.unwrap_or(std::task::Poll::Ready(Err(ModelError::Broke)))
    })
    .await
}

/// Sends an event, unless there is a stop while nobody listens.
async fn send(event: Event, listener: &Listener) {
    tokio::select! {
        () = listener.send(event) => {}
        () = stopped(&listener.stop) => {}
    }
}

/// Waits for a stop; for ever if nobody can give one.
pub(super) async fn stopped(stop: &watch::Receiver<bool>) {
    if stop.clone().wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Servers queue what they cannot do at once; this many connections they all accept.
const AWAITED_MAX: usize = 64;
const BACKGROUND_MAX: usize = 1;

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::providers::{Message, ModelClient};

    const LONG: Duration = Duration::from_hours(1);

    /// A client that does what the last message says.
    #[derive(Debug, Default)]
    struct Scripted {
        at_work: Arc<AtomicUsize>,
    }

    impl ModelClient for Scripted {
        fn name(&self) -> &'static str {
            "scripted"
        }

        fn chat<'a>(
            &'a self,
            request: &'a Request,
            on: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
        ) -> Pin<Box<dyn Future<Output = Result<Reply, ModelError>> + Send + 'a>> {
            Box::pin(async move {
                self.at_work.fetch_add(1, Ordering::SeqCst);
                let _at_work = AtWork(&self.at_work);
                on(ReplyEvent::Text("so far"));
                match request.messages[0].content.as_str() {
                    "panic" => panic!("as asked"),
                    "for ever" => std::future::pending().await,
                    "slowly" => {
                        for _ in 0..3 * LONG.as_secs() {
                            on(ReplyEvent::Text("x"));
                            tokio::time::sleep(Duration::from_secs(1)).await;
                        }
                    }
                    _ => {}
                }
                Ok(Reply { text: "so far, and the rest".to_owned(), ..Reply::default() })
            })
        }
    }

    /// Counts down when an answer is given up.
    struct AtWork<'a>(&'a AtomicUsize);

    impl Drop for AtWork<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn asking(text: &str) -> Request {
        Request { messages: vec![Message::new("user", text)], ..Request::default() }
    }

    fn scripted() -> (Arc<ModelCalls>, Arc<AtomicUsize>) {
        let client = Scripted::default();
        let at_work = client.at_work.clone();
        (ModelCalls::new(Model::Other(Arc::new(client)), LONG), at_work)
    }

    /// Streams an answer to a listener that is always ready.
    async fn stream(calls: &ModelCalls, text: &str) -> (String, ModelAnswer) {
        let (events, mut received) = mpsc::channel(1);
        let (_stop, stop) = watch::channel(false);
        let listening = tokio::spawn(async move {
            let mut shown = String::new();
            while let Some(event) = received.recv().await {
                if let Event::Text(text) = event {
                    shown.push_str(&text);
                }
            }
            shown
        });
        let listener = Listener { events, stop };
        let answer = calls.stream(&asking(text), CallStyle::Native, &listener).await;
        drop(listener);
        (listening.await.unwrap(), answer)
    }

    #[tokio::test]
    async fn client_that_panics_ends_one_answer_and_what_came_is_kept() {
        let (calls, _) = scripted();
        let (shown, broken) = stream(&calls, "panic").await;
        assert_eq!((shown.as_str(), broken.reply.text.as_str()), ("so far", "so far"));
        assert_eq!(broken.end, AnswerEnd::Broken(ModelError::Broke));
        assert_eq!(calls.ask(&asking("panic"), Urgency::Background).await, Err(ModelError::Broke));
        let whole = calls.ask(&asking("go on"), Urgency::Background).await.unwrap();
        assert_eq!(whole.text, "so far, and the rest");
    }

    #[tokio::test]
    async fn background_calls_hold_up_nobody_and_stop_when_dropped() {
        let (calls, at_work) = scripted();
        let mut waiting = JoinSet::new();
        for _ in 0..6 {
            let calls = calls.clone();
            waiting.spawn(async move { calls.ask(&asking("for ever"), Urgency::Background).await });
        }
        calls.ask(&asking("now"), Urgency::Awaited).await.unwrap();
        while at_work.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(at_work.load(Ordering::SeqCst), BACKGROUND_MAX, "the others wait");
        waiting.shutdown().await;
        while at_work.load(Ordering::SeqCst) > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ask_has_a_deadline_and_stream_has_none() {
        let (calls, _) = scripted();
        for urgency in [Urgency::Awaited, Urgency::Background] {
            let late = calls.ask(&asking("slowly"), urgency).await;
            assert_eq!(late, Err(ModelError::OutOfTime { after: LONG }));
        }
        let (shown, answer) = stream(&calls, "slowly").await;
        assert!(answer.end == AnswerEnd::Whole);
        assert_eq!(shown.len() as u64, "so far".len() as u64 + 3 * LONG.as_secs());
    }
}
