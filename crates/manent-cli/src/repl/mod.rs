//! The REPL: lines are questions, lines with a colon are commands.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | from one prompt to the next |
//! | `editing.rs`, `completing.rs`, `history.rs` | a line that is typed: keys, the tab key, what was typed before |
//! | `asking.rs`, `leaving.rs` | asking, stopping, being told to end |
//! | `showing.rs`, `markdown.rs` | what is shown while an answer comes |
//! | `approving.rs` | asking a person whether something may be done |
//! | `colon.rs`, `tools.rs`, `switching.rs` | `:help` and the like |
//! | `picking.rs` | choosing a session |

mod approving;
mod asking;
mod colon;
mod completing;
mod editing;
pub(crate) mod history;
mod leaving;
mod markdown;
mod picking;
mod showing;
mod switching;
mod tools;

use rustyline::error::ReadlineError;

use crate::commands::chat::Chatting;
use crate::exit::{Exit, Failure};
use asking::Saved;
use editing::{Lines, Typed};

pub(crate) use asking::ask;
pub(crate) use leaving::Leaving;
pub(crate) use showing::Showing;

pub(crate) fn run(chatting: &mut Chatting<'_>) -> Result<Exit, Failure> {
    let context = chatting.context;
    let mut lines = Lines::open(context, &chatting.store).map_err(|e| terminal(&e))?;
    showing::welcome(chatting);
    let (mut saved, mut interrupts, mut garbled) = (Saved::Yes, 0, 0);
    while !chatting.leaving.is_asked() {
        let typed = lines.read(&prompt(saved)).map_err(|e| terminal(&e))?;
        (interrupts, garbled) = match &typed {
            Typed::Interrupt { empty: true } => (interrupts + 1, 0),
            Typed::Garbled => (0, garbled + 1),
            _ => (0, 0),
        };
        match typed {
            Typed::Line(line) if line.trim().is_empty() => {}
            Typed::Line(line) => {
                let question = if line.starts_with(':') {
                    match colon::run(chatting, line.trim()) {
                        colon::After::Stay => None,
                        colon::After::Leave => break,
                        colon::After::Ask(question) => Some(question),
                    }
                } else {
                    Some(line)
                };
                if let Some(question) = question {
                    // What went wrong was told; the conversation goes on.
                    saved = ask(chatting, &question, &mut Showing::lively(context))?.saved;
                }
            }
            // A line that is thrown away, as in a shell.
            Typed::Interrupt { .. } if interrupts == INTERRUPTS_TOLD => {
                context.note("Ctrl-D or :quit leaves; everything is kept");
            }
            Typed::Interrupt { .. } => {}
            Typed::Garbled if garbled < GARBLED_MAX => {
                context.warn("that was no text (UTF-8), and is dropped; type it again");
            }
            Typed::Garbled | Typed::End => break,
        }
    }
    showing::farewell(chatting);
    Ok(Exit::Done)
}

/// Until a turn is saved again, every prompt says that one was not. As it is, and in colour.
fn prompt(saved: Saved) -> (String, String) {
    let loud = showing::LOUD;
    match saved {
        Saved::Yes => ("> ".to_owned(), "> ".to_owned()),
        Saved::No => ("NOT SAVED > ".to_owned(), format!("{loud}NOT SAVED{loud:#} > ")),
    }
}

fn terminal(error: &ReadlineError) -> Failure {
    Failure::new(Exit::Failed, format!("the terminal cannot be read: {error}; pipe the question in instead"))
}

/// Who presses Ctrl-C so often on an empty line wants to leave.
const INTERRUPTS_TOLD: u32 = 2;
/// A terminal that gives nothing but this is none.
const GARBLED_MAX: u32 = 100;
