//! Asking, showing what comes, and stopping. What is said of a question that was not answered: first of all whether it
//! is safe.

use std::io;

use manent_agent::kernel::{Answered, Event, Hearing, TurnError};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::leaving::Leaving;
use super::showing::{self, Showing};
use crate::commands::chat::Chatting;
use crate::exit::{Exit, Failure};

/// What came of a question.
pub(crate) struct Asked {
    pub(crate) exit: Exit,
    /// Question and answer are in the log.
    pub(super) saved: Saved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    Yes,
    No,
}

/// Asks, and shows what comes. Ctrl-C stops the answer, and so does a terminal that is hung up; what came is kept.
pub(crate) fn ask(
    chatting: &Chatting<'_>,
    question: &str,
    showing: &mut Showing<'_>,
) -> Result<Asked, Failure> {
    let conversation = chatting.kernel.conversation(&chatting.key);
    let _answering = chatting.leaving.answering();
    let _quiet = showing.is_lively().then(Quiet::begin);
    let (answered, kept) = chatting.runtime.block_on(async {
        // Listened to from here on: one that comes while something is shown counts too.
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut hearing = match conversation.ask(question).await {
            Ok(hearing) => hearing,
            Err(broken) => return Ok((Err(broken.into()), Kept::Nothing)),
        };
        let (mut kept, mut shown) = (Kept::Nothing, Ok(()));
        loop {
            match next(&mut hearing, &mut interrupts, &chatting.leaving).await {
                Heard::Event(event) => {
                    if let Event::Kept { .. } = event {
                        kept = Kept::Question;
                    }
                    if shown.is_ok() {
                        shown = showing.event(&event, &chatting.leaving);
                    }
                    // Nobody reads it any more: what came is kept, and the rest need not come.
                    if shown.is_err() {
                        hearing.stop();
                    }
                }
                Heard::Stop => hearing.stop(),
                Heard::End => break,
            }
        }
        let answered: Result<Answered, TurnError> = hearing.end().await;
        shown?;
        Ok::<_, Failure>((answered, kept))
    })?;
    match answered {
        Ok(answered) => {
            showing.answered(&answered, chatting)?;
            let exit = if answered.stopped { Exit::Interrupted } else { Exit::Done };
            Ok(Asked { exit, saved: Saved::Yes })
        }
        Err(error) => {
            showing.broken()?;
            Ok(tell(chatting, error, kept, showing))
        }
    }
}

enum Heard {
    Event(Event),
    Stop,
    End,
}

/// What is in the log.
#[derive(Clone, Copy)]
enum Kept {
    Nothing,
    Question,
}

async fn next(hearing: &mut Hearing, interrupts: &mut Signal, leaving: &Leaving) -> Heard {
    tokio::select! {
        event = hearing.next() => event.map_or(Heard::End, Heard::Event),
        _ = interrupts.recv() => Heard::Stop,
        () = leaving.told() => Heard::Stop,
    }
}

/// Tells what went wrong, and loudly where something that was seen is in no log.
fn tell(chatting: &Chatting<'_>, error: TurnError, kept: Kept, showing: &Showing<'_>) -> Asked {
    let (is_store, failure) = match error {
        TurnError::Store(error) => (true, Failure::from(error)),
        other => (false, Failure::new(Exit::Failed, other.to_string())),
    };
    let (said, saved) = match kept {
        Kept::Nothing => (format!("not saved: {}", failure.message), Saved::No),
        Kept::Question if is_store => {
            // Something of an answer may have been shown, or done.
            let saved = if showing.has_shown() { Saved::No } else { Saved::Yes };
            (format!("no answer is saved: {}; the question is kept", failure.message), saved)
        }
        Kept::Question => (format!("{}; the question is kept", failure.message), Saved::Yes),
    };
    let hint = match saved {
        Saved::Yes if showing.is_lively() => ", and :retry asks it again",
        _ => "",
    };
    chatting.context.complain(&Failure::new(failure.exit, format!("{said}{hint}")));
    if saved == Saved::No && showing.is_lively() {
        showing::not_saved(match kept {
            Kept::Nothing => "what you just said is in no log; the arrow up brings it back",
            Kept::Question => "your question is in the log, what came after it is not; :retry asks it again",
        });
    }
    Asked { exit: failure.exit, saved }
}

/// While an answer comes, keys are not shown between its words: what is typed waits for the prompt, however long it is
/// (a terminal that reads by lines would drop what is longer than 4 KB). Ctrl-C is obeyed.
struct Quiet(Option<Termios>);

impl Quiet {
    fn begin() -> Quiet {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &quiet);
        }
        Quiet(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}
