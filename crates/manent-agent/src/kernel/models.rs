//! The actor that asks models: so many at once, those whom a person waits for first. A client that panics ends one
//! answer, and what came of it is with whoever asked.
//!
//! An answer that is read as it comes has no limit of time, only of size and silence: whoever reads it can stop it. One
//! of which only the whole is wanted ([`Models::ask`]) must come within a time.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::mailbox::Mailbox;
use crate::providers::{Model, ModelError, Reply, ReplyEvent, Request};

/// The address of the actor, one mailbox for each urgency: what nobody waits for never stands before what somebody
/// does.
#[derive(Debug, Clone)]
pub(super) struct Models {
    awaited: Mailbox<Chat>,
    background: Mailbox<Chat>,
    /// How long an answer may take that nobody reads as it comes.
    ask_within: Duration,
}

/// Whether a person waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    Awaited,
    Background,
}

/// A request on its way. The answer is not made further when nobody waits for `reply` any more.
#[derive(Debug)]
struct Chat {
    request: Request,
    pieces: Pieces,
    within: Option<Duration>,
    reply: oneshot::Sender<Result<Reply, ModelError>>,
}

/// Where pieces go as long as somebody reads them.
type Pieces = Weak<Pending>;

/// Pieces that came and were not read yet. Clients tell what came by a function that cannot wait, so pieces of one kind
/// are joined: they never take more room than the answer itself.
#[derive(Debug, Default)]
struct Pending {
    pieces: Mutex<VecDeque<Told>>,
    changed: Notify,
}

impl Pending {
    fn push(&self, piece: Told) {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        match (pieces.back_mut(), piece) {
            (Some(Told::Text(last)), Told::Text(more))
            | (Some(Told::Thinking(last)), Told::Thinking(more)) => {
                last.push_str(&more);
            }
            (_, piece) => pieces.push_back(piece),
        }
        drop(pieces);
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Told> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Text(String),
    Thinking(String),
    Again { after_ms: u64, why: String },
}

/// An answer that is being made. Dropping it stops that.
#[derive(Debug)]
pub(super) struct Answering {
    pieces: Arc<Pending>,
    reply: oneshot::Receiver<Result<Reply, ModelError>>,
    /// How it ended, once that is known.
    ended: Option<Result<Reply, ModelError>>,
}

/// What comes of it.
#[derive(Debug)]
pub(super) enum Came {
    Piece(Told),
    /// The last of it: all pieces were given before.
    End(Result<Reply, ModelError>),
}

impl Models {
    pub(super) fn open(runtime: &Handle, model: Model, ask_within: Duration) -> Models {
        let model = Arc::new(model);
        Models::open_with(runtime, ask_within, move |request, pieces| {
            let model = model.clone();
            async move { model.chat(&request, &mut |piece| told(&pieces, piece)).await }
        })
    }

    /// With anybody who answers.
    fn open_with<F>(
        runtime: &Handle,
        ask_within: Duration,
        chat: impl Fn(Request, Pieces) -> F + Clone + Send + Sync + 'static,
    ) -> Models
    where
        F: Future<Output = Result<Reply, ModelError>> + Send + 'static,
    {
        let serve = move |asked: Chat| {
            let Chat { request, pieces, within, mut reply } = asked;
            let answering = chat(request, pieces);
            let answering = async move {
                match within {
                    None => answering.await,
                    Some(after) => tokio::time::timeout(after, answering)
                        .await
                        .unwrap_or(Err(ModelError::OutOfTime { after })),
                }
            };
            async move {
                tokio::select! {
                    // Nobody waits for it any more: the connection is closed.
                    () = reply.closed() => {}
                    answered = answering => {
                        let _ = reply.send(answered);
                    }
                }
            }
        };
        Models {
            awaited: Mailbox::open_many(runtime, "the model", AWAITED_MAX, serve.clone()),
            background: Mailbox::open_many(runtime, "the model", BACKGROUND_MAX, serve),
            ask_within,
        }
    }

    /// Asks. What comes is told as it comes, and has no limit of time.
    pub(super) async fn chat(&self, request: Request, urgency: Urgency) -> Result<Answering, ModelError> {
        self.send(request, urgency, None).await
    }

    /// Asks for an answer of which only the whole is wanted, within the time for such answers. Time spent in the
    /// mailbox does not count.
    pub(super) async fn ask(&self, request: Request, urgency: Urgency) -> Result<Reply, ModelError> {
        let Answering { pieces, reply, .. } = self.send(request, urgency, Some(self.ask_within)).await?;
        // Nobody reads them.
        drop(pieces);
        reply.await.unwrap_or(Err(ModelError::Broke))
    }

    async fn send(
        &self,
        request: Request,
        urgency: Urgency,
        within: Option<Duration>,
    ) -> Result<Answering, ModelError> {
        let pieces = Arc::new(Pending::default());
        let (reply, replied) = oneshot::channel();
        let mailbox = match urgency {
            Urgency::Awaited => &self.awaited,
            Urgency::Background => &self.background,
        };
        let asked = Chat { request, pieces: Arc::downgrade(&pieces), within, reply };
        mailbox.send(asked).await.map_err(|_| ModelError::Broke)?;
        Ok(Answering { pieces, reply: replied, ended: None })
    }
}

impl Answering {
    pub(super) async fn next(&mut self) -> Came {
        loop {
            if let Some(piece) = self.pieces.take() {
                return Came::Piece(piece);
            }
            if let Some(ended) = self.ended.take() {
                return Came::End(ended);
            }
            tokio::select! {
                () = self.pieces.changed.notified() => {}
                // Pieces that came before it are given first.
                reply = &mut self.reply => self.ended = Some(reply.unwrap_or(Err(ModelError::Broke))),
            }
        }
    }
}

fn told(pieces: &Pieces, piece: ReplyEvent<'_>) {
    let Some(pieces) = pieces.upgrade() else { return };
    pieces.push(match piece {
        ReplyEvent::Text(text) => Told::Text(text.to_owned()),
        ReplyEvent::Thinking(text) => Told::Thinking(text.to_owned()),
        ReplyEvent::Again { after_ms, why } => Told::Again { after_ms, why: why.to_owned() },
        // They come with the whole.
        ReplyEvent::Call(_) => return,
    });
}

/// Servers queue what they cannot do at once; this many connections they all take.
const AWAITED_MAX: usize = 64;
const BACKGROUND_MAX: usize = 1;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_hours(1);

    fn asking(text: &str) -> Request {
        Request { messages: vec![crate::providers::Message::new("user", text)], ..Request::default() }
    }

    #[tokio::test]
    async fn a_client_that_panics_ends_one_answer_and_what_came_is_told() {
        let models = Models::open_with(&Handle::current(), LONG, |request, pieces| async move {
            told(&pieces, ReplyEvent::Text("so far"));
            assert!(request.messages[0].content != "panic", "as asked");
            Ok(Reply { text: "so far, and the rest".to_owned(), ..Reply::default() })
        });
        let mut broken = models.chat(asking("panic"), Urgency::Awaited).await.unwrap();
        assert!(matches!(broken.next().await, Came::Piece(Told::Text(text)) if text == "so far"));
        assert!(matches!(broken.next().await, Came::End(Err(ModelError::Broke))));
        let whole = models.ask(asking("go on"), Urgency::Awaited).await.unwrap();
        assert_eq!(whole.text, "so far, and the rest");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_holds_up_nobody_and_what_is_dropped_is_not_made_further() {
        let at_work = Arc::new(AtomicUsize::new(0));
        let counted = at_work.clone();
        let models = Models::open_with(&Handle::current(), LONG, move |request, _| {
            let at_work = Leaving(counted.clone());
            async move {
                at_work.0.fetch_add(1, Ordering::SeqCst);
                if request.messages[0].content == "for ever" {
                    std::future::pending::<()>().await;
                }
                Ok(Reply::default())
            }
        });
        let mut waiting = Vec::new();
        for _ in 0..6 {
            waiting.push(models.chat(asking("for ever"), Urgency::Background).await.unwrap());
        }
        models.ask(asking("now"), Urgency::Awaited).await.unwrap();
        assert_eq!(at_work.load(Ordering::SeqCst), BACKGROUND_MAX, "the others wait in the mailbox");
        drop(waiting);
        for _ in 0..200 {
            if at_work.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("they are still at work");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_has_a_deadline_and_one_that_somebody_reads_has_none() {
        let models = Models::open_with(&Handle::current(), LONG, |_, pieces| async move {
            for _ in 0..3 * LONG.as_secs() {
                told(&pieces, ReplyEvent::Text("x"));
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Ok(Reply::default())
        });
        for urgency in [Urgency::Awaited, Urgency::Background] {
            let late = models.ask(asking("slowly"), urgency).await;
            assert_eq!(late, Err(ModelError::OutOfTime { after: LONG }));
        }
        let mut reading = models.chat(asking("slowly"), Urgency::Awaited).await.unwrap();
        let mut bytes = 0;
        loop {
            match reading.next().await {
                Came::Piece(Told::Text(text)) => bytes += text.len() as u64,
                Came::Piece(_) => {}
                Came::End(ended) => break assert!(ended.is_ok()),
            }
        }
        assert_eq!(bytes, 3 * LONG.as_secs());
    }

    #[test]
    fn pieces_that_nobody_reads_yet_take_no_more_room_than_their_text() {
        let pending = Pending::default();
        for _ in 0..1000 {
            pending.push(Told::Text("x".to_owned()));
        }
        pending.push(Told::Thinking("y".to_owned()));
        pending.push(Told::Text("z".to_owned()));
        assert_eq!(pending.pieces.lock().unwrap().len(), 3);
        assert_eq!(pending.take(), Some(Told::Text("x".repeat(1000))));
    }

    /// Counts down when an answer is given up.
    struct Leaving(Arc<AtomicUsize>);

    impl Drop for Leaving {
        fn drop(&mut self) {
            let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        }
    }
}
