//! What is shown while an answer comes, and around it.

use std::io::{self, IsTerminal, Write};

use anstyle::Style;
use manent_agent::kernel::{Answered, Event};

use super::approving;
use crate::commands::chat::Chatting;
use crate::context::Context;
use crate::term;

/// Where an answer is shown.
pub(crate) struct Showing<'a> {
    context: &'a Context<'a>,
    /// Somebody is there: a sign of life, and what it took.
    lively: bool,
    spinner: Option<indicatif::ProgressBar>,
    /// Something of the answer was shown, and its last line is open.
    open_line: bool,
    thinking: bool,
}

impl<'a> Showing<'a> {
    pub(crate) fn plain(context: &'a Context<'a>) -> Showing<'a> {
        Showing { context, lively: false, spinner: None, open_line: false, thinking: false }
    }

    pub(crate) fn lively(context: &'a Context<'a>) -> Showing<'a> {
        Showing { lively: true, ..Showing::plain(context) }
    }

    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::Kept { .. } => self.wait("…"),
            Event::Sending { tokens } => {
                // What was said before a tool was called stands on its own line.
                self.close()?;
                self.wait(&format!("{} tokens sent", term::count(*tokens)));
            }
            Event::Compacted(done) => {
                self.stop_waiting();
                let (before, after) = (term::count(done.before), term::count(done.after));
                self.context.note(&format!(
                    "the context was compacted ({}, by {}): {before} tokens are {after} now; nothing is gone \
                     from the log",
                    done.reason.word(),
                    done.way.word()
                ));
            }
            Event::Text(text) => {
                self.stop_waiting();
                if self.thinking {
                    self.thinking = false;
                    self.write("\n\n", Style::new())?;
                }
                self.write(text, Style::new())?;
            }
            Event::Thinking(text) if self.lively => {
                self.stop_waiting();
                self.thinking = true;
                self.write(text, term::FAINT)?;
            }
            Event::Again { after_ms, why } => {
                self.wait(&format!("asking again in {} s: {}", after_ms / 1000, term::line(why)));
            }
            Event::Calling { what } => {
                self.close()?;
                if self.lively {
                    anstream::eprintln!("{}· {}{:#}", term::FAINT, term::line(what), term::FAINT);
                }
                self.wait(&term::line(what));
            }
            Event::Called { name, failed: true } => {
                self.stop_waiting();
                self.context.detail(&format!("{name} did not do what was asked"));
            }
            Event::Approve(approval) => {
                self.close()?;
                approving::ask(approval);
            }
            Event::Note(note) => {
                self.stop_waiting();
                self.context.warn(note);
            }
            _ => {}
        }
        Ok(())
    }

    /// The answer is in the log.
    pub(crate) fn answered(&mut self, answered: &Answered, chatting: &Chatting<'_>) -> io::Result<()> {
        self.close()?;
        if answered.seq.is_none() {
            self.context.note(if answered.stopped {
                "stopped before anything came"
            } else {
                "the model said nothing"
            });
        } else if answered.stopped {
            self.context.note("stopped; what came so far is kept");
        }
        if self.lively {
            let limit = chatting.kernel.limits().max_tokens;
            let status = format!(
                "{} · {} · {} of {} tokens",
                term::line(chatting.key.as_str()),
                term::line(&answered.model),
                term::count(answered.tokens),
                term::count(limit)
            );
            anstream::eprintln!("{}{status}{:#}\n", term::FAINT, term::FAINT);
        }
        Ok(())
    }

    pub(crate) fn broken(&mut self) -> io::Result<()> {
        self.close()
    }

    fn close(&mut self) -> io::Result<()> {
        self.stop_waiting();
        if self.open_line {
            self.open_line = false;
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    /// What a model says is as little to be trusted as a transcript: nothing of it drives the terminal.
    fn write(&mut self, text: &str, style: Style) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            write!(anstream::AutoStream::auto(&mut out), "{style}{}{style:#}", term::block(text))?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        self.open_line = !text.ends_with('\n');
        out.flush()
    }

    fn wait(&mut self, what: &str) {
        if !self.lively {
            return;
        }
        let spinner = self.spinner.get_or_insert_with(|| {
            let bar = indicatif::ProgressBar::new_spinner();
            if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(std::time::Duration::from_millis(100));
            bar
        });
        spinner.set_message(what.to_owned());
    }

    fn stop_waiting(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}

pub(super) fn welcome(chatting: &Chatting<'_>) {
    let model = chatting.kernel.model().name();
    let key = chatting.key.as_str();
    let turns = chatting.store.tail(&chatting.key, RECENT).map_or(0, |tail| tail.turns().count());
    let going_on = if turns == 0 { "a new session" } else { "going on with session" };
    chatting.context.note(&format!("{going_on} {key}, with {model}; :help lists commands, Ctrl-D leaves"));
    if turns > 0 {
        recent(chatting);
    }
}

/// What was said last, so that one knows where one is.
pub(super) fn recent(chatting: &Chatting<'_>) {
    let Ok(tail) = chatting.store.tail(&chatting.key, RECENT) else { return };
    for turn in tail.turns() {
        let text: String = turn.content.chars().take(RECENT_CHARS).collect();
        let text = term::line(text.trim()).into_owned();
        anstream::eprintln!("{}{:>9}  {text}{:#}", term::FAINT, term::line(turn.role), term::FAINT);
    }
}

pub(super) fn farewell(chatting: &Chatting<'_>) {
    let key = chatting.key.as_str();
    if chatting.store.exists(&chatting.key).unwrap_or(false) {
        chatting.context.note(&format!("everything is kept; `manent chat {key}` goes on"));
    }
}

const RECENT: u64 = 4;
const RECENT_CHARS: usize = 200;
