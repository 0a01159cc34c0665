//! The actor that works with tools: it reads calls, shows what they would change, and makes those that were decided on,
//! so many at once. Who decides is the conversation; whoever waits for a person takes no place here.
//!
//! A tool that panics ends one call. One that does not end is waited for no longer than said, or than a stop and some
//! seconds; then its outcome is unknown, and the conversation goes on.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::hearing::stopped;
use super::mailbox::{KernelError, Mailbox};
use crate::providers::ToolCall;
use crate::tools::{PreparedCall, ToolEffect, ToolError, ToolResult, Tools};

/// The address of the actor.
#[derive(Debug, Clone)]
pub(super) struct Tooling {
    mailbox: Mailbox<Letter>,
}

/// A call that was read, and what it would change.
pub(super) type Previewed = (PreparedCall, Result<Option<String>, ToolError>);

#[derive(Debug)]
enum Letter {
    Prepare { tools: Tools, call: ToolCall, reply: oneshot::Sender<Result<PreparedCall, ToolError>> },
    Preview { prepared: PreparedCall, reply: oneshot::Sender<Previewed> },
    Run { prepared: PreparedCall, stop: watch::Receiver<bool>, reply: oneshot::Sender<ToolResult> },
}

impl Tooling {
    pub(super) fn open(runtime: &Handle) -> Tooling {
        let mailbox = Mailbox::open_many(runtime, ACTOR, CALLS_MAX, |letter| async move {
            let served = tokio::task::spawn_blocking(move || serve(letter)).await;
            // A panic there is one here: it is counted.
            if let Err(broken) = served
                && broken.is_panic()
            {
                std::panic::resume_unwind(broken.into_panic());
            }
        });
        Tooling { mailbox }
    }

    /// Reads a call. Nothing is changed.
    pub(super) async fn prepare(
        &self,
        tools: Tools,
        call: ToolCall,
    ) -> Result<Result<PreparedCall, ToolError>, KernelError> {
        self.mailbox.ask(|reply| Letter::Prepare { tools, call, reply }, Some(LOOK_WITHIN)).await
    }

    /// What a call would change.
    pub(super) async fn preview(&self, prepared: PreparedCall) -> Result<Previewed, KernelError> {
        self.mailbox.ask(|reply| Letter::Preview { prepared, reply }, Some(LOOK_WITHIN)).await
    }

    /// Makes a call.
    pub(super) async fn run(
        &self,
        prepared: PreparedCall,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<ToolResult, KernelError> {
        let within = if prepared.effect == ToolEffect::Run { COMMAND_WITHIN } else { RUN_WITHIN };
        let told_to_stop = stop.clone();
        let running =
            self.mailbox.ask(|reply| Letter::Run { prepared, stop: told_to_stop, reply }, Some(within));
        tokio::select! {
            done = running => done,
            // It was told to end too, and mostly does.
            () = stopped_for(stop, STOP_WITHIN) => Err(KernelError::Late { actor: ACTOR, after: STOP_WITHIN }),
        }
    }
}

fn serve(letter: Letter) {
    match letter {
        Letter::Prepare { tools, call, reply } => {
            let _ = reply.send(tools.prepare(&call));
        }
        Letter::Preview { prepared, reply } => {
            let preview = prepared.preview();
            let _ = reply.send((prepared, preview));
        }
        Letter::Run { prepared, stop, reply } => {
            // Whoever asked may be gone: then there is nobody who decided on it.
            if !reply.is_closed() {
                let _ = reply.send(prepared.run(&|| *stop.borrow()));
            }
        }
    }
}

/// Waits until a stop is so old.
async fn stopped_for(stop: &mut watch::Receiver<bool>, after: Duration) {
    stopped(stop).await;
    tokio::time::sleep(after).await;
}

const ACTOR: &str = "the tool";
/// More calls than this wait for others to end.
const CALLS_MAX: usize = 32;
/// A file system that hangs.
const LOOK_WITHIN: Duration = Duration::from_secs(30);
const RUN_WITHIN: Duration = Duration::from_mins(2);
/// Commands have a time of their own, at most ten minutes.
const COMMAND_WITHIN: Duration = Duration::from_mins(11);
const STOP_WITHIN: Duration = Duration::from_secs(3);
