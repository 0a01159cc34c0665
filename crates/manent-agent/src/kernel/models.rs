//! The actor that asks models: so many at once, those whom a person waits for first. A client that panics ends one
//! answer, and what came of it is with whoever asked.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use super::mailbox::Mailbox;
use crate::providers::{Model, ModelError, Piece, Reply, Request};

/// The address of the actor, one mailbox for each urgency: what nobody waits for never stands before what somebody
/// does.
#[derive(Debug, Clone)]
pub(super) struct Models {
    awaited: Mailbox<Chat>,
    background: Mailbox<Chat>,
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
    reply: oneshot::Sender<Result<Reply, ModelError>>,
}

/// Where pieces go. It holds no more than the answer itself, which is kept whole anyway; clients tell what came by a
/// function that cannot wait.
type Pieces = mpsc::UnboundedSender<Told>;

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
    pieces: mpsc::UnboundedReceiver<Told>,
    reply: oneshot::Receiver<Result<Reply, ModelError>>,
}

/// What comes of it.
#[derive(Debug)]
pub(super) enum Came {
    Piece(Told),
    /// The last of it: all pieces were given before.
    End(Result<Reply, ModelError>),
}

impl Models {
    pub(super) fn open(runtime: &Handle, model: Model) -> Models {
        let model = Arc::new(model);
        Models::open_with(runtime, move |request, pieces| {
            let model = model.clone();
            async move { model.chat(&request, &mut |piece| told(&pieces, piece)).await }
        })
    }

    /// With anybody who answers.
    fn open_with<F>(
        runtime: &Handle,
        chat: impl Fn(Request, Pieces) -> F + Clone + Send + Sync + 'static,
    ) -> Models
    where
        F: Future<Output = Result<Reply, ModelError>> + Send + 'static,
    {
        let serve = move |asked: Chat| {
            let Chat { request, pieces, mut reply } = asked;
            let answering = chat(request, pieces);
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
        }
    }

    /// Asks. What comes is told as it comes.
    pub(super) async fn chat(&self, request: Request, urgency: Urgency) -> Result<Answering, ModelError> {
        let (pieces, told) = mpsc::unbounded_channel();
        let (reply, replied) = oneshot::channel();
        let mailbox = match urgency {
            Urgency::Awaited => &self.awaited,
            Urgency::Background => &self.background,
        };
        mailbox.send(Chat { request, pieces, reply }).await.map_err(|_| ModelError::Broke)?;
        Ok(Answering { pieces: told, reply: replied })
    }

    /// Asks for an answer of which only the whole is wanted.
    pub(super) async fn ask(&self, request: Request, urgency: Urgency) -> Result<Reply, ModelError> {
        self.chat(request, urgency).await?.reply.await.unwrap_or(Err(ModelError::Broke))
    }
}

impl Answering {
    pub(super) async fn next(&mut self) -> Came {
        tokio::select! {
            biased;
            Some(piece) = self.pieces.recv() => Came::Piece(piece),
            reply = &mut self.reply => Came::End(reply.unwrap_or(Err(ModelError::Broke))),
        }
    }
}

fn told(pieces: &Pieces, piece: Piece<'_>) {
    let _ = pieces.send(match piece {
        Piece::Text(text) => Told::Text(text.to_owned()),
        Piece::Thinking(text) => Told::Thinking(text.to_owned()),
        Piece::Again { after_ms, why } => Told::Again { after_ms, why: why.to_owned() },
        // They come with the whole.
        Piece::Call(_) => return,
    });
}

/// Servers queue what they cannot do at once; this many connections they all take.
const AWAITED_MAX: usize = 64;
const BACKGROUND_MAX: usize = 1;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn asking(text: &str) -> Request {
        Request { messages: vec![crate::providers::Message::new("user", text)], ..Request::default() }
    }

    #[tokio::test]
    async fn a_client_that_panics_ends_one_answer_and_what_came_is_told() {
        let models = Models::open_with(&Handle::current(), |request, pieces| async move {
            let _ = pieces.send(Told::Text("so far".to_owned()));
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
        let models = Models::open_with(&Handle::current(), move |request, _| {
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

    /// Counts down when an answer is given up.
    struct Leaving(Arc<AtomicUsize>);

    impl Drop for Leaving {
        fn drop(&mut self) {
            let _ = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        }
    }
}
