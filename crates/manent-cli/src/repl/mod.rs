//! The REPL: lines are questions, lines with a colon are commands.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | reading lines, asking, stopping |
//! | `showing.rs` | what is shown while an answer comes |
//! | `approving.rs` | asking a person whether something may be done |
//! | `colon.rs` | `:help` and the like |

mod approving;
mod colon;
mod showing;

use manent_agent::kernel::{Answered, Event, Hearing, TurnError};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::commands::chat::Chatting;
use crate::exit::{Exit, Failure};

pub(crate) use showing::Showing;

pub(crate) fn run(chatting: &mut Chatting<'_>) -> Result<Exit, Failure> {
    let config = Config::builder().auto_add_history(true).history_ignore_space(true).build();
    let mut editor = DefaultEditor::with_config(config).map_err(|e| terminal(&e))?;
    showing::welcome(chatting);
    loop {
        match editor.readline("> ") {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) if line.starts_with(':') => match colon::run(chatting, line.trim()) {
                colon::After::Stay => {}
                colon::After::Leave => break,
            },
            Ok(line) => {
                let line = more(&mut editor, line);
                let mut showing = Showing::lively(chatting.context);
                // What went wrong was told; the conversation goes on.
                ask(chatting, &line, &mut showing)?;
            }
            // A line that is thrown away, as in a shell.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(&error)),
        }
    }
    showing::farewell(chatting);
    Ok(Exit::Done)
}

/// A line that ends with a backslash goes on in the next.
fn more(editor: &mut DefaultEditor, mut line: String) -> String {
    while line.ends_with('\\') {
        line.pop();
        line.push('\n');
        match editor.readline("… ") {
            Ok(next) => line.push_str(&next),
            Err(_) => break,
        }
    }
    line
}

/// Asks, and shows what comes. Ctrl-C stops the answer; what came is kept.
pub(crate) fn ask(
    chatting: &Chatting<'_>,
    question: &str,
    showing: &mut Showing<'_>,
) -> Result<Exit, Failure> {
    let conversation = chatting.kernel.conversation(&chatting.key);
    let (answered, kept) = chatting.runtime.block_on(async {
        // Listened to from here on: one that comes while something is shown counts too.
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut hearing = conversation.ask(question).await?;
        let (mut kept, mut shown) = (Kept::Nothing, Ok(()));
        loop {
            match next(&mut hearing, &mut interrupts).await {
                Heard::Event(event) => {
                    if let Event::Kept { .. } = event {
                        kept = Kept::Question;
                    }
                    if shown.is_ok() {
                        shown = showing.event(&event);
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
            Ok(if answered.stopped { Exit::Interrupted } else { Exit::Done })
        }
        Err(error) => {
            showing.broken()?;
            let failure = failure(error, kept);
            chatting.context.complain(&failure);
            Ok(failure.exit)
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

async fn next(hearing: &mut Hearing, interrupts: &mut Signal) -> Heard {
    tokio::select! {
        event = hearing.next() => event.map_or(Heard::End, Heard::Event),
        _ = interrupts.recv() => Heard::Stop,
    }
}

/// What is said of a question that was not answered: first of all whether it is safe.
fn failure(error: TurnError, kept: Kept) -> Failure {
    let (is_store, failure) = match error {
        TurnError::Store(error) => (true, Failure::from(error)),
        other => (false, Failure::new(Exit::Failed, other.to_string())),
    };
    let said = match kept {
        Kept::Nothing => format!("not saved: {}", failure.message),
        // Something of an answer may have been shown.
        Kept::Question if is_store => {
            format!("no answer is saved: {}; the question is kept", failure.message)
        }
        Kept::Question => format!("{}; the question is kept", failure.message),
    };
    Failure::new(failure.exit, said)
}

impl From<manent_agent::kernel::KernelError> for Failure {
    fn from(error: manent_agent::kernel::KernelError) -> Failure {
        Failure::new(Exit::Failed, error.to_string())
    }
}

fn terminal(error: &ReadlineError) -> Failure {
    Failure::new(Exit::Failed, format!("the terminal cannot be read: {error}; pipe the question in instead"))
}
