//! Signals that end the process: a terminal that is hung up, a shutdown. What came of an answer is saved first.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use manent::log::RealDisk;
use manent::log::fs::{Access, Disk, read_fully};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

/// Signals that ask this process to end: SIGTERM and SIGHUP.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    is_requested: Arc<AtomicBool>,
    /// An answer is being made: it is stopped and saved, and then the chat ends by itself.
    answering: Arc<AtomicBool>,
    request: Arc<Notify>,
}

impl Shutdown {
    /// Begins to listen. A process that ignores SIGHUP (`nohup`) goes on ignoring it.
    pub(crate) fn listen(runtime: &Runtime) -> io::Result<Shutdown> {
        let shutdown = Shutdown::default();
        let (listener, terminal) = (shutdown.clone(), tcgetattr(io::stdin()).ok());
        let _guard = runtime.enter();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        runtime.spawn(async move {
            loop {
                let number = tokio::select! {
                    _ = terminate.recv() => 15,
                    () = async { match &mut hangup {
                        Some(hangup) => drop(hangup.recv().await),
                        None => std::future::pending().await,
                    } } => 1,
                };
                listener.leave(number, terminal.as_ref());
            }
        });
        Ok(shutdown)
    }

    fn leave(&self, signal: i32, terminal: Option<&Termios>) {
        self.is_requested.store(true, Ordering::SeqCst);
        if self.answering.load(Ordering::SeqCst) {
            self.request.notify_one();
            return;
        }
        // At a prompt: everything is on the disk, and the terminal is not ours any more.
        if let Some(terminal) = terminal {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, terminal);
        }
        std::process::exit(SIGNALLED + signal);
    }

    /// Marks that an answer is being made, until the guard is dropped.
    pub(super) fn answering(&self) -> AnswerGuard<'_> {
        self.answering.store(true, Ordering::SeqCst);
        AnswerGuard(self)
    }

    /// Asks a person something in the middle of an answer. A signal ends the process at once meanwhile: what was said
    /// before that is on the disk.
    pub(super) fn resting<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.answering.store(false, Ordering::SeqCst);
        let reply = ask();
        self.answering.store(true, Ordering::SeqCst);
        reply
    }

    /// Waits for a signal that comes while an answer is made.
    pub(super) async fn requested(&self) {
        self.request.notified().await;
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::SeqCst)
    }
}

/// The time in which an answer is being made.
pub(super) struct AnswerGuard<'a>(&'a Shutdown);

impl Drop for AnswerGuard<'_> {
    fn drop(&mut self) {
        self.0.answering.store(false, Ordering::SeqCst);
    }
}

/// Returns true if this process ignores SIGHUP, to outlive its terminal. Only Linux tells that without unsafe code.
fn ignores_hangup() -> bool {
    let mut text = vec![0; 4096];
    let read = RealDisk
        .open("/proc/self/status".as_ref(), Access::Read)
        .and_then(|file| read_fully(&*file, &mut text, 0));
    text.truncate(read.unwrap_or(0));
    let text = String::from_utf8_lossy(&text);
    let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// The exit code of a process that ended by signal N is this plus N, as in shells.
const SIGNALLED: i32 = 128;
