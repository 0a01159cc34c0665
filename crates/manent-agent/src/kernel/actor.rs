//! The generic actor, and the queue for blocking work.
//!
//! An actor owns state, takes one command after another from a bounded mailbox, and is restarted if it panics. Work
//! that owns no state but blocks, such as calls of tools and writes to the memory, goes to a [`JobQueue`].

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};

/// A command or a job that was not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The actor is gone, or panicked at this command.
    #[error("{actor} broke off; what was acknowledged is in the log: ask again")]
    Broke {
        /// The name of the actor.
        actor: &'static str,
    },
    /// The actor did not answer in time.
    #[error("{actor} did not answer within {} s; ask again, or see what keeps it", after.as_secs())]
    Late {
        /// The name of the actor.
        actor: &'static str,
        /// The time that was waited.
        after: Duration,
    },
}

/// The sending side of an actor: a bounded queue of commands.
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

/// The commands of an actor. They outlive the actor that takes them: after a restart it goes on with the next one.
pub(super) type Inbox<M> = Arc<Mutex<mpsc::Receiver<M>>>;

impl<M: Send + 'static> Mailbox<M> {
    /// Starts an actor. `serve` takes commands until there are none, and is called again after a panic. An actor that
    /// panics too often is given up: whoever sends is told so.
    pub(super) fn start<F>(
        runtime: &Handle,
        actor: &'static str,
        serve: impl Fn(Inbox<M>) -> F + Send + Sync + 'static,
    ) -> Mailbox<M>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(COMMANDS_MAX);
        let (inbox, serve) = (Arc::new(Mutex::new(receiver)), Arc::new(serve));
        runtime.spawn(async move {
            let mut panics = Vec::new();
            while panics.len() <= PANICS_MAX {
                // In a task of its own, so that a panic ends there, also one before the first command.
                let (serve, inbox) = (serve.clone(), inbox.clone());
                match tokio::spawn(async move { serve(inbox).await }).await {
                    Err(broken) if broken.is_panic() => {}
                    _ => break,
                }
                panics.push(Instant::now());
                panics.retain(|at| at.elapsed() < PANICS_WITHIN);
            }
            // Senders get an error from now on.
            inbox.lock().await.close();
        });
        Mailbox { actor, sender }
    }

    /// Sends a command, waiting while the mailbox is full.
    pub(super) async fn send(&self, command: M) -> Result<(), KernelError> {
        self.sender.send(command).await.map_err(|_| KernelError::Broke { actor: self.actor })
    }

    /// Sends a command if there is room for it. Returns true if it was sent.
    pub(super) fn try_send(&self, command: M) -> bool {
        self.sender.try_send(command).is_ok()
    }

    /// Sends a command and waits for the reply.
    pub(super) async fn ask<R>(
        &self,
        command: impl FnOnce(oneshot::Sender<R>) -> M,
    ) -> Result<R, KernelError> {
        let (reply, replied) = oneshot::channel();
        self.send(command(reply)).await?;
        replied.await.map_err(|_| KernelError::Broke { actor: self.actor })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// A queue for blocking work: jobs begin in the order in which they were given, and run on blocking threads, at most
/// so many at once. With one at a time it orders writes like an actor, without a mailbox.
#[derive(Debug, Clone)]
pub(super) struct JobQueue {
    name: &'static str,
    permits: Arc<Semaphore>,
}

impl JobQueue {
    pub(super) fn new(name: &'static str, at_once: usize) -> JobQueue {
        JobQueue { name, permits: Arc::new(Semaphore::new(at_once)) }
    }

    /// Runs a job, and waits for it no longer than `within`, its time in the queue included. A job is not started once
    /// its caller waits no longer; one that was started keeps its place until it ends. A panic ends that job only.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        within: Duration,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, KernelError> {
        let broke = KernelError::Broke { actor: self.name };
        let working = async {
            let permit = self.permits.clone().acquire_owned().await.map_err(|_| broke)?;
            let (reply, replied) = oneshot::channel();
            tokio::task::spawn_blocking(move || {
                let _permit = permit;
                // All blocking threads may have been busy for longer than the caller waited: then it was told that the
                // job did not end, and the job must not run behind its back.
                if !reply.is_closed() {
                    let _ = reply.send(job());
                }
            });
            replied.await.map_err(|_| broke)
        };
        let late = KernelError::Late { actor: self.name, after: within };
        tokio::time::timeout(within, working).await.unwrap_or(Err(late))
    }
}

/// Senders of more commands than this wait.
const COMMANDS_MAX: usize = 32;
/// An actor that panics more often than this within the time is given up.
const PANICS_MAX: usize = 5;
const PANICS_WITHIN: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    enum Command {
        Add(u64, oneshot::Sender<u64>),
        Panic,
    }

    async fn serve(inbox: Inbox<Command>) {
        let (mut inbox, mut sum) = (inbox.lock().await, 0);
        while let Some(command) = inbox.recv().await {
            match command {
                Command::Add(n, reply) => {
                    sum += n;
                    let _ = reply.send(sum);
                }
                Command::Panic => panic!("as asked"),
            }
        }
    }

    #[tokio::test]
    async fn an_actor_that_panics_is_begun_anew_and_loses_nothing_that_waits() {
        let mailbox = Mailbox::start(&Handle::current(), "adder", serve);
        let add = |n| mailbox.ask(move |reply| Command::Add(n, reply));
        assert_eq!(add(2).await, Ok(2));
        assert_eq!(add(3).await, Ok(5));
        mailbox.send(Command::Panic).await.unwrap();
        assert_eq!(add(1).await, Ok(1), "begun anew, with the inbox that waited");
    }

    #[tokio::test]
    async fn an_actor_that_panics_before_its_first_command_loses_none() {
        let is_first = std::sync::atomic::AtomicBool::new(true);
        let mailbox = Mailbox::start(&Handle::current(), "adder", move |inbox| {
            assert!(!is_first.swap(false, std::sync::atomic::Ordering::SeqCst), "as asked");
            serve(inbox)
        });
        let asked = mailbox.ask(|reply| Command::Add(2, reply)).await;
        assert_eq!(asked, Ok(2));
    }

    #[tokio::test]
    async fn one_that_panics_all_the_time_is_given_up() {
        let mailbox = Mailbox::start(&Handle::current(), "adder", serve);
        for _ in 0..=PANICS_MAX {
            let _ = mailbox.send(Command::Panic).await;
        }
        let asked = mailbox.ask(|reply| Command::Add(1, reply)).await;
        assert_eq!(asked, Err(KernelError::Broke { actor: "adder" }));
        assert!(!mailbox.is_open());
    }

    #[tokio::test]
    async fn job_that_panics_disturbs_no_other() {
        let queue = JobQueue::new("jobs", 1);
        for n in 0..10 {
            let broken = queue.run(LONG, || panic!("as asked")).await;
            assert_eq!(broken, Err::<(), _>(KernelError::Broke { actor: "jobs" }));
            assert_eq!(queue.run(LONG, move || n).await, Ok(n));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn job_behind_one_that_hangs_is_late_and_never_begun() {
        let queue = JobQueue::new("jobs", 1);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let (begun, mut has_begun) = mpsc::unbounded_channel();
        let hanging = queue.clone();
        let hanging = tokio::spawn(async move {
            let job = move || {
                begun.send(()).unwrap();
                released.recv()
            };
            hanging.run(LONG, job).await
        });
        has_begun.recv().await.unwrap();
        let short = Duration::from_millis(10);
        let late = queue.run(short, || panic!("it must not begin")).await;
        assert_eq!(late, Err::<(), _>(KernelError::Late { actor: "jobs", after: short }));
        release.send(()).unwrap();
        assert!(hanging.await.unwrap().is_ok());
        assert_eq!(queue.run(LONG, || 7).await, Ok(7));
    }

    #[test]
    fn job_whose_caller_left_before_a_blocking_thread_was_free_is_never_started() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let queue = JobQueue::new("jobs", 2);
            let (release, released) = std::sync::mpsc::channel::<()>();
            // The only blocking thread is taken, and not by the queue: there is a permit for the job, and no thread.
            let occupied = tokio::task::spawn_blocking(move || released.recv());
            let is_started = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let start = is_started.clone();
            let job = move || start.store(true, std::sync::atomic::Ordering::SeqCst);
            let short = Duration::from_millis(10);
            assert_eq!(queue.run(short, job).await, Err(KernelError::Late { actor: "jobs", after: short }));
            release.send(()).unwrap();
            occupied.await.unwrap().unwrap();
            // The thread takes jobs in order, so it is past the first one when it comes to this one.
            assert_eq!(queue.run(LONG, || 7).await, Ok(7));
            assert!(
                !is_started.load(std::sync::atomic::Ordering::SeqCst),
                "its caller was told that it is late"
            );
        });
    }

    const LONG: Duration = Duration::from_mins(1);
}
