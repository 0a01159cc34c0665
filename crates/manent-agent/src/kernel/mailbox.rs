//! Mailboxes: bounded, asked with a deadline, and served by an actor that is begun anew when it panics.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

/// Why a message came to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The actor is not there any more, or was lost with this message.
    #[error("{actor} broke off; what was acknowledged is in the log: ask again")]
    Broke {
        /// Which.
        actor: &'static str,
    },
    /// It did not answer in time.
    #[error("{actor} did not answer within {} s; ask again, or see what keeps it", after.as_secs())]
    Late {
        /// Which.
        actor: &'static str,
        /// How long was waited.
        after: Duration,
    },
}

/// Where messages to an actor go.
#[derive(Debug)]
pub(super) struct Mailbox<M> {
    actor: &'static str,
    sender: mpsc::Sender<M>,
}

impl<M> Clone for Mailbox<M> {
    fn clone(&self) -> Mailbox<M> {
        Mailbox { actor: self.actor, sender: self.sender.clone() }
    }
}

/// The messages of an actor. It outlives the actor that reads it.
pub(super) type Letters<M> = Arc<Mutex<mpsc::Receiver<M>>>;

impl<M: Send + 'static> Mailbox<M> {
    /// Begins an actor. `serve` reads letters until there are none, and is called again if it panics.
    pub(super) fn open<F>(
        runtime: &Handle,
        actor: &'static str,
        serve: impl Fn(Letters<M>) -> F + Send + Sync + 'static,
    ) -> Mailbox<M>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(LETTERS_MAX);
        let (letters, serve) = (Arc::new(Mutex::new(receiver)), Arc::new(serve));
        runtime.spawn(async move {
            let mut panics = Panics::default();
            loop {
                // In a task of its own, so that a panic ends there, also one before the first letter.
                let (serve, letters) = (serve.clone(), letters.clone());
                match tokio::spawn(async move { serve(letters).await }).await {
                    Ok(()) => break,
                    Err(broken) if !broken.is_panic() => break,
                    Err(_) => {
                        panics.one_more();
                        if panics.are_too_many() {
                            break;
                        }
                    }
                }
            }
            // Whoever still sends is told that nobody is there.
            letters.lock().await.close();
        });
        Mailbox { actor, sender }
    }

    /// Begins an actor that serves letters side by side, at most so many at once; more wait in the mailbox. A letter at
    /// which it panics is lost, and no other. When that happens too often, letters come to nothing until a minute is
    /// over: whoever asks is told so. It ends when nobody can send any more, after what it was at.
    pub(super) fn open_many<F>(
        runtime: &Handle,
        actor: &'static str,
        at_once: usize,
        serve: impl Fn(M) -> F + Send + Sync + 'static,
    ) -> Mailbox<M>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, mut letters) = mpsc::channel(LETTERS_MAX);
        let serve = Arc::new(serve);
        runtime.spawn(async move {
            let (mut served, mut panics) = (JoinSet::new(), Panics::default());
            loop {
                tokio::select! {
                    Some(ended) = served.join_next() => {
                        if ended.is_err_and(|broken| broken.is_panic()) {
                            panics.one_more();
                        }
                    }
                    letter = letters.recv(), if served.len() < at_once => match letter {
                        Some(letter) if !panics.are_too_many() => {
                            let serve = serve.clone();
                            served.spawn(async move { serve(letter).await });
                        }
                        Some(_) => {}
                        None => break,
                    },
                }
            }
            while served.join_next().await.is_some() {}
        });
        Mailbox { actor, sender }
    }

    /// Sends a letter, waiting while the mailbox is full.
    pub(super) async fn send(&self, letter: M) -> Result<(), KernelError> {
        self.sender.send(letter).await.map_err(|_| KernelError::Broke { actor: self.actor })
    }

    /// Sends a letter if there is room for it.
    pub(super) fn try_send(&self, letter: M) -> bool {
        self.sender.try_send(letter).is_ok()
    }

    /// Sends a question, and waits for the reply as long as it takes, or as long as was said.
    pub(super) async fn ask<R>(
        &self,
        letter: impl FnOnce(oneshot::Sender<R>) -> M,
        within: Option<Duration>,
    ) -> Result<R, KernelError> {
        let (reply, replied) = oneshot::channel();
        let asking = async {
            self.send(letter(reply)).await?;
            replied.await.map_err(|_| KernelError::Broke { actor: self.actor })
        };
        match within {
            None => asking.await,
            Some(after) => tokio::time::timeout(after, asking)
                .await
                .unwrap_or(Err(KernelError::Late { actor: self.actor, after })),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// When an actor panicked of late.
#[derive(Debug, Default)]
struct Panics(Vec<Instant>);

impl Panics {
    fn one_more(&mut self) {
        self.0.push(Instant::now());
    }

    fn are_too_many(&mut self) -> bool {
        self.0.retain(|at| at.elapsed() < PANICS_WITHIN);
        self.0.len() > PANICS_MAX
    }
}

/// More letters than this wait with those who send them.
const LETTERS_MAX: usize = 32;
/// An actor that panics more often than this within the time is given up.
const PANICS_MAX: usize = 5;
const PANICS_WITHIN: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    enum Letter {
        Add(u64, oneshot::Sender<u64>),
        Panic,
        /// It is never replied to.
        Never(oneshot::Sender<u64>),
    }

    async fn serve(letters: Letters<Letter>) {
        let (mut letters, mut sum, mut kept) = (letters.lock().await, 0, Vec::new());
        while let Some(letter) = letters.recv().await {
            match letter {
                Letter::Add(n, reply) => {
                    sum += n;
                    let _ = reply.send(sum);
                }
                Letter::Panic => panic!("as asked"),
                never @ Letter::Never(_) => kept.push(never),
            }
        }
    }

    #[tokio::test]
    async fn an_actor_that_panics_is_begun_anew_and_loses_nothing_that_waits() {
        let mailbox = Mailbox::open(&Handle::current(), "adder", serve);
        let add = |n| mailbox.ask(move |reply| Letter::Add(n, reply), None);
        assert_eq!(add(2).await, Ok(2));
        assert_eq!(add(3).await, Ok(5));
        mailbox.send(Letter::Panic).await.unwrap();
        assert_eq!(add(1).await, Ok(1), "begun anew, with the letters that waited");
    }

    #[tokio::test]
    async fn an_actor_that_panics_before_its_first_letter_loses_none() {
        let is_first = std::sync::atomic::AtomicBool::new(true);
        let mailbox = Mailbox::open(&Handle::current(), "adder", move |letters| {
            assert!(!is_first.swap(false, std::sync::atomic::Ordering::SeqCst), "as asked");
            serve(letters)
        });
        let asked = mailbox.ask(|reply| Letter::Add(2, reply), Some(Duration::from_secs(50))).await;
        assert_eq!(asked, Ok(2));
    }

    #[tokio::test]
    async fn one_that_panics_all_the_time_is_given_up() {
        let mailbox = Mailbox::open(&Handle::current(), "adder", serve);
        for _ in 0..=PANICS_MAX {
            let _ = mailbox.send(Letter::Panic).await;
        }
        let asked = mailbox.ask(|reply| Letter::Add(1, reply), Some(Duration::from_secs(5))).await;
        assert_eq!(asked, Err(KernelError::Broke { actor: "adder" }));
        assert!(!mailbox.is_open());
    }

    /// Side by side, as often as letters come.
    fn open_many(at_once: usize) -> Mailbox<Letter> {
        Mailbox::open_many(&Handle::current(), "adders", at_once, |letter| async move {
            match letter {
                Letter::Add(n, reply) => {
                    let _ = reply.send(n);
                }
                Letter::Panic => panic!("as asked"),
                Letter::Never(_kept) => std::future::pending().await,
            }
        })
    }

    #[tokio::test]
    async fn one_of_many_that_panics_disturbs_no_other_and_too_many_are_told() {
        let mailbox = open_many(2);
        for n in 0..=PANICS_MAX {
            mailbox.send(Letter::Panic).await.unwrap();
            if n < PANICS_MAX {
                assert_eq!(mailbox.ask(|reply| Letter::Add(7, reply), None).await, Ok(7));
            }
        }
        // All of them are over when both places are free again.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let asked = mailbox.ask(|reply| Letter::Add(1, reply), Some(Duration::from_secs(5))).await;
        assert_eq!(asked, Err(KernelError::Broke { actor: "adders" }));
        assert!(mailbox.is_open(), "it is only given a rest");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_are_served_at_once() {
        let mailbox = open_many(2);
        let never = || mailbox.ask(Letter::Never, Some(Duration::from_secs(2)));
        let _ = tokio::join!(never(), never());
        let waits = mailbox.ask(|reply| Letter::Add(1, reply), Some(Duration::from_secs(2))).await;
        assert_eq!(waits, Err(KernelError::Late { actor: "adders", after: Duration::from_secs(2) }));
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_said() {
        let mailbox = Mailbox::open(&Handle::current(), "adder", serve);
        let asked = mailbox.ask(Letter::Never, Some(Duration::from_secs(3))).await;
        assert_eq!(asked, Err(KernelError::Late { actor: "adder", after: Duration::from_secs(3) }));
    }
}
