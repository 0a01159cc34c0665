//! One question and its answer: asking, showing the answer while it comes, and stopping it. If there is no answer, the
//! first thing that is said is whether the question is saved.

use manent_agent::kernel::{Answer, AnswerStream, Event, TurnError};
use rustix::termios::{LocalModes, OptionalActions};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::TerminalMode;
use super::answer_view::{self, AnswerView};
use super::shutdown::Shutdown;
use crate::commands::chat::ChatSession;
use crate::exit::{Exit, Failure};

/// The outcome of a question.
pub(crate) struct QuestionOutcome {
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
    chat: &ChatSession<'_>,
    question: &str,
    view: &mut AnswerView<'_>,
) -> Result<QuestionOutcome, Failure> {
    let conversation = chat.kernel.conversation(&chat.key);
    let _answering = chat.shutdown.answering();
    // While an answer comes, keys are not shown between its words: what is typed waits for the prompt, however long it
    // is (a terminal that reads by lines would drop what is longer than 4 KB). Ctrl-C is obeyed.
    let _quiet = view.is_lively().then(|| {
        TerminalMode::begin(OptionalActions::Now, |mode| {
            mode.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON);
        })
    });
    let (answered, kept) = chat.runtime.block_on(async {
        // Listened to from here on: one that comes while something is shown counts too.
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut hearing = match conversation.ask(question).await {
            Ok(hearing) => hearing,
            Err(broken) => return Ok((Err(broken.into()), Saved::No)),
        };
        let (mut kept, mut shown) = (Saved::No, Ok(()));
        loop {
            match next(&mut hearing, &mut interrupts, &chat.shutdown).await {
                Step::Event(event) => {
                    if let Event::QuestionSaved { .. } = event {
                        kept = Saved::Yes;
                    }
                    if shown.is_ok() {
                        shown = view.event(&event, &chat.shutdown);
                    }
                    // Nobody reads it any more: what came is kept, and the rest need not come.
                    if shown.is_err() {
                        hearing.stop();
                    }
                }
                Step::Stop => hearing.stop(),
                Step::End => break,
            }
        }
        let answered: Result<Answer, TurnError> = hearing.end().await;
        shown?;
        Ok::<_, Failure>((answered, kept))
    })?;
    match answered {
        Ok(answered) => {
            view.answered(&answered, chat)?;
            let exit = if answered.stopped { Exit::Interrupted } else { Exit::Done };
            Ok(QuestionOutcome { exit, saved: Saved::Yes })
        }
        Err(error) => {
            view.close()?;
            Ok(tell(chat, error, kept, view))
        }
    }
}

enum Step {
    Event(Event),
    Stop,
    End,
}

async fn next(hearing: &mut AnswerStream, interrupts: &mut Signal, shutdown: &Shutdown) -> Step {
    tokio::select! {
        event = hearing.next() => event.map_or(Step::End, Step::Event),
        _ = interrupts.recv() => Step::Stop,
        () = shutdown.told() => Step::Stop,
    }
}

/// Tells what went wrong, and loudly where something that was seen is in no log. `kept` is about the question.
fn tell(chat: &ChatSession<'_>, error: TurnError, kept: Saved, view: &AnswerView<'_>) -> QuestionOutcome {
    let (is_store, failure) = match error {
        TurnError::Store(error) => (true, Failure::from(error)),
        other => (false, Failure::failed(other.to_string())),
    };
    let (said, saved) = match kept {
        Saved::No => (format!("not saved: {}", failure.message), Saved::No),
        Saved::Yes if is_store => {
            // Something of an answer may have been shown, or done.
            let saved = if view.has_shown() { Saved::No } else { Saved::Yes };
            (format!("no answer is saved: {}; the question is kept", failure.message), saved)
        }
        Saved::Yes => (format!("{}; the question is kept", failure.message), Saved::Yes),
    };
    let hint = match saved {
        Saved::Yes if view.is_lively() => ", and :retry asks it again",
        _ => "",
    };
    chat.context.complain(&Failure::new(failure.exit, format!("{said}{hint}")));
    if saved == Saved::No && view.is_lively() {
        answer_view::not_saved(match kept {
            Saved::No => "what you just said is in no log; the arrow up brings it back",
            Saved::Yes => "your question is in the log, what came after it is not; :retry asks it again",
        });
    }
    QuestionOutcome { exit: failure.exit, saved }
}
