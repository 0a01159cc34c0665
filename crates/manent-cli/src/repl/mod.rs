//! The REPL: lines are questions, lines with a colon are commands.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | the loop from one prompt to the next |
//! | `line_editor.rs`, `completion.rs`, `history.rs` | the line that is typed: keys, the tab key, earlier lines |
//! | `question.rs`, `shutdown.rs` | one question and its answer; signals that end the process |
//! | `answer_view.rs`, `markdown.rs` | the answer on the terminal while it comes |
//! | `approval.rs` | asking a person whether a tool may be called |
//! | `colon_commands.rs` | `:help` and the like |
//! | `session_picker.rs` | the list in which a session is chosen |

mod answer_view;
mod approval;
mod colon_commands;
mod completion;
pub(crate) mod history;
mod line_editor;
mod markdown;
mod question;
mod session_picker;
mod shutdown;

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;

use crate::commands::chat::ChatSession;
use crate::exit::{Exit, Failure};
use colon_commands::AfterCommand;
use line_editor::{Input, LineEditor};
use question::Saved;

pub(crate) use answer_view::AnswerView;
pub(crate) use question::ask;
pub(crate) use shutdown::Shutdown;

pub(crate) fn run(chat: &mut ChatSession<'_>) -> Result<Exit, Failure> {
    let context = chat.context;
    let mut lines = LineEditor::open(context, &chat.store).map_err(|e| terminal(&e))?;
    answer_view::welcome(chat);
    let (mut saved, mut interrupts, mut garbled) = (Saved::Yes, 0, 0);
    while !chat.shutdown.is_requested() {
        let typed = lines.read(&prompt(saved)).map_err(|e| terminal(&e))?;
        (interrupts, garbled) = match &typed {
            Input::Interrupt { empty: true } => (interrupts + 1, 0),
            Input::Garbled => (0, garbled + 1),
            _ => (0, 0),
        };
        match typed {
            Input::Line(line) if line.trim().is_empty() => {}
            Input::Line(line) => {
                let question = if line.starts_with(':') {
                    match colon_commands::run(chat, line.trim()) {
                        AfterCommand::Stay => None,
                        AfterCommand::Leave => break,
                        AfterCommand::Ask(question) => Some(question),
                    }
                } else {
                    Some(line)
                };
                if let Some(question) = question {
                    // The command has printed its error; the conversation goes on.
                    saved = ask(chat, &question, &mut AnswerView::lively(context))?.saved;
                }
            }
            // A line that is thrown away, as in a shell.
            Input::Interrupt { .. } if interrupts == INTERRUPTS_TOLD => {
                context.note("Ctrl-D or :quit leaves; everything is kept");
            }
            Input::Interrupt { .. } => {}
            Input::Garbled if garbled < GARBLED_MAX => {
                context.warn("that was no text (UTF-8), and is dropped; type it again");
            }
            Input::Garbled | Input::End => break,
        }
    }
    answer_view::farewell(chat);
    Ok(Exit::Done)
}

/// Returns the prompt, plain and in colour. Until a turn is saved again, it says that one was not.
fn prompt(saved: Saved) -> (String, String) {
    let loud = answer_view::LOUD;
    match saved {
        Saved::Yes => ("> ".to_owned(), "> ".to_owned()),
        Saved::No => ("NOT SAVED > ".to_owned(), format!("{loud}NOT SAVED{loud:#} > ")),
    }
}

/// A mode of the terminal. When this is dropped, the terminal is as it was before.
struct TerminalMode {
    before: Termios,
    actions: OptionalActions,
}

impl TerminalMode {
    fn begin(
        actions: OptionalActions,
        change: impl FnOnce(&mut Termios),
    ) -> rustix::io::Result<TerminalMode> {
        let before = tcgetattr(io::stdin())?;
        let mut mode = before.clone();
        change(&mut mode);
        tcsetattr(io::stdin(), actions, &mode)?;
        Ok(TerminalMode { before, actions })
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), self.actions, &self.before);
    }
}

fn terminal(error: &ReadlineError) -> Failure {
    Failure::failed(format!("the terminal cannot be read: {error}; pipe the question in instead"))
}

/// The number of Ctrl-C on an empty line after which the user is told how to leave.
const INTERRUPTS_TOLD: u32 = 2;
/// A terminal that sends this many lines that are not text, one after the other, is given up.
const GARBLED_MAX: u32 = 100;
