//! One question and its answer: asking, showing the answer while it comes, and stopping it. If there is no answer, the
//! first thing that is said is whether the question is saved.

use manent_agent::kernel::{Answer, Event, TurnError};
use rustix::termios::{LocalModes, OptionalActions};
use tokio::signal::unix::{SignalKind, signal};

use super::TerminalMode;
use super::answer_view::{self, AnswerView};
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
    let (answer, question_saved) = chat.runtime.block_on(async {
        // Registered before the question is sent, so that a Ctrl-C while something is shown counts too.
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut stream = match conversation.ask(question).await {
            Ok(stream) => stream,
            Err(broken) => return Ok((Err(broken.into()), Saved::No)),
        };
        let (mut question_saved, mut shown) = (Saved::No, Ok(()));
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                _ = interrupts.recv() => { stream.stop(); continue }
                () = chat.shutdown.requested() => { stream.stop(); continue }
            };
            let Some(event) = event else { break };
            if let Event::QuestionSaved { .. } = event {
                question_saved = Saved::Yes;
            }
            if shown.is_ok() {
                shown = view.event(&event, &chat.shutdown);
            }
            // The output is closed: what came is kept, and the rest is not needed.
            if shown.is_err() {
                stream.stop();
            }
        }
        let answer: Result<Answer, TurnError> = stream.end().await;
        shown?;
        Ok::<_, Failure>((answer, question_saved))
    })?;
    match answer {
        Ok(answer) => {
            view.answered(&answer, chat)?;
            let exit = if answer.stopped { Exit::Interrupted } else { Exit::Done };
            Ok(QuestionOutcome { exit, saved: Saved::Yes })
        }
        Err(error) => {
            view.close()?;
            Ok(report_failure(chat, error, question_saved, view))
        }
    }
}

/// Prints what went wrong, and loudly if something that the person saw is in no log.
fn report_failure(
    chat: &ChatSession<'_>,
    error: TurnError,
    question_saved: Saved,
    view: &AnswerView<'_>,
) -> QuestionOutcome {
    let (is_store, failure) = match error {
        TurnError::Store(error) => (true, Failure::from(error)),
        other => (false, Failure::failed(other.to_string())),
    };
    let (message, saved) = match question_saved {
        Saved::No => (format!("not saved: {}", failure.message), Saved::No),
        Saved::Yes if is_store => {
            // A part of the answer may have been shown, or a tool run.
            let saved = if view.has_shown() { Saved::No } else { Saved::Yes };
            (format!("no answer is saved: {}; the question is kept", failure.message), saved)
        }
        Saved::Yes => (format!("{}; the question is kept", failure.message), Saved::Yes),
    };
    let hint = match saved {
        Saved::Yes if view.is_lively() => ", and :retry asks it again",
        _ => "",
    };
    chat.context.complain(&Failure::new(failure.exit, format!("{message}{hint}")));
    if saved == Saved::No && view.is_lively() {
        answer_view::not_saved(match question_saved {
            Saved::No => "what you just said is in no log; the arrow up brings it back",
            Saved::Yes => "your question is in the log, what came after it is not; :retry asks it again",
        });
    }
    QuestionOutcome { exit: failure.exit, saved }
}
