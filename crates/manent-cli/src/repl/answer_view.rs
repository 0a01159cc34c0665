//! The terminal while an answer comes: its text, a spinner, notes, and the lines before and after a chat.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use manent_agent::kernel::{Answer, Event};
use manent_runs::retrospective::Reports;
use serde_json::json;

use super::approval;
use super::markdown::Markdown;
use super::shutdown::Shutdown;
use crate::commands::chat::ChatSession;
use crate::context::Context;
use crate::{term, when};

/// The manner in which an answer is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// The text as it comes, and nothing else.
    Plain,
    /// The text with a spinner and a status line, for a person at a terminal.
    Lively,
    /// One JSON object, once the answer is in the log.
    Json,
}

/// An answer on standard output while it comes, with its progress on standard error.
pub(crate) struct AnswerView<'a> {
    context: &'a Context<'a>,
    manner: Manner,
    spinner: Option<indicatif::ProgressBar>,
    /// True if a part of the answer was shown and its last line is open.
    open_line: bool,
    thinking: bool,
    /// The formatter of Markdown; `None` without a terminal with colours.
    markdown: Option<Markdown>,
    began: Instant,
    /// The bytes of text and of thoughts that came so far.
    bytes: u64,
    /// True once a tool was called.
    called: bool,
}

impl<'a> AnswerView<'a> {
    pub(crate) fn plain(context: &'a Context<'a>) -> AnswerView<'a> {
        let manner = if context.global.json { Manner::Json } else { Manner::Plain };
        let styled = io::stdout().is_terminal() && context.colored();
        AnswerView {
            context,
            manner,
            spinner: None,
            open_line: false,
            thinking: false,
            markdown: styled.then(Markdown::default),
            began: Instant::now(),
            bytes: 0,
            called: false,
        }
    }

    pub(crate) fn lively(context: &'a Context<'a>) -> AnswerView<'a> {
        AnswerView { manner: Manner::Lively, ..AnswerView::plain(context) }
    }

    pub(super) fn event(&mut self, event: &Event, shutdown: &Shutdown) -> io::Result<()> {
        match event {
            Event::QuestionSaved { .. } => self.wait("…"),
            Event::Sending { tokens } => {
                // Text before a tool call gets a line of its own.
                self.close()?;
                self.wait(&format!("{} tokens sent{}", term::count(*tokens), self.so_far()));
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
            // In JSON it comes whole, when it is in the log.
            Event::Text(_) if self.manner == Manner::Json => {}
            Event::Text(text) => {
                self.stop_waiting();
                self.bytes += text.len() as u64;
                if self.thinking {
                    self.thinking = false;
                    self.write("\n\n", Style::new())?;
                }
                self.say(text)?;
            }
            Event::Thinking(text) if self.manner == Manner::Lively => {
                self.stop_waiting();
                self.bytes += text.len() as u64;
                self.thinking = true;
                self.write(text, term::FAINT)?;
            }
            Event::Retry { after_ms, why } => {
                self.close()?;
                self.wait(&format!("asking again in {} s: {}", after_ms / 1000, term::line(why)));
            }
            Event::ToolStarted { what } => {
                self.close()?;
                self.called = true;
                if self.manner == Manner::Lively {
                    faint(&format!("· {}", term::line(what)));
                }
                self.wait(&format!("{}; Ctrl-C stops it", term::line(what)));
            }
            Event::ToolFinished { name, failed: true } => {
                self.stop_waiting();
                self.context.detail(&format!("{name} did not do what was asked"));
            }
            Event::Approve(approval) => {
                self.close()?;
                shutdown.resting(|| approval::ask(self.context, approval));
            }
            Event::Note(note) => {
                self.close()?;
                self.context.warn(note);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the view of an answer that is in the log: its JSON, notes and the status line.
    pub(crate) fn answered(&mut self, answered: &Answer, chat: &ChatSession<'_>) -> io::Result<()> {
        self.close()?;
        if self.manner == Manner::Json {
            let mut output = self.context.output();
            output.json(&json!({
                "session": chat.key.as_str(), "seq": answered.seq, "model": answered.model,
                "content": answered.text, "stopped": answered.stopped, "tokens": answered.tokens,
            }))?;
            output.flush()?;
        }
        if answered.stopped && (answered.seq.is_some() || self.has_shown()) {
            self.context.note("stopped; what came so far is kept");
        } else if answered.seq.is_none() {
            self.context.note(if answered.stopped {
                "stopped before anything came; :retry asks again"
            } else {
                "the model said nothing; :retry asks again"
            });
        }
        if self.manner == Manner::Lively {
            let status = format!(
                "{} · {} · {} · {}",
                term::line(chat.key.as_str()),
                term::line(&answered.model),
                budget(answered.tokens, chat.kernel.limits().max_tokens),
                taken(self.began.elapsed())
            );
            faint(&status);
            tell("");
        }
        Ok(())
    }

    /// Returns true if anything came: words, or a tool call.
    pub(super) fn has_shown(&self) -> bool {
        self.bytes > 0 || self.called
    }

    /// Returns true if a person at a terminal looks on.
    pub(super) fn is_lively(&self) -> bool {
        self.manner == Manner::Lively
    }

    /// Ends the last line of the answer, and the spinner.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.stop_waiting();
        if let Some(markdown) = &mut self.markdown {
            io::stdout().lock().write_all(markdown.finish().as_bytes())?;
        }
        if self.open_line {
            self.open_line = false;
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
        }
        Ok(())
    }

    /// Shows more of the answer.
    fn say(&mut self, text: &str) -> io::Result<()> {
        let Some(markdown) = &mut self.markdown else { return self.write(text, Style::new()) };
        let shown = markdown.push(&term::block(text));
        self.open_line = !text.ends_with('\n');
        let mut out = io::stdout().lock();
        out.write_all(shown.as_bytes())?;
        out.flush()
    }

    /// Writes text of a model, which is trusted as little as a transcript: no character of it drives the terminal.
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

    /// Describes about how many tokens came.
    fn so_far(&self) -> String {
        match self.bytes.div_ceil(BYTES_OF_TOKEN) {
            0 => String::new(),
            tokens => format!(", about {} came so far", term::count(tokens)),
        }
    }

    fn wait(&mut self, what: &str) {
        if self.manner != Manner::Lively || !io::stderr().is_terminal() {
            return;
        }
        let began = self.began;
        let spinner = self.spinner.get_or_insert_with(|| {
            let bar = indicatif::ProgressBar::new_spinner().with_elapsed(began.elapsed());
            if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
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

/// Returns the share of its limit that a context takes, as a bar and in numbers.
pub(super) fn budget(tokens: u64, limit: u64) -> String {
    let percent = tokens.saturating_mul(100) / limit.max(1);
    let full = (percent.min(100) as usize * BAR_COLUMNS).div_ceil(100);
    let bar = format!("{}{}", "█".repeat(full), "░".repeat(BAR_COLUMNS - full));
    format!("{bar} {percent} %, {} of {} tokens", term::count(tokens), term::count(limit))
}

fn taken(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{}.{} s", time.as_secs(), time.subsec_millis() / 100),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Prints a line on standard error. An error is ignored: a terminal that is gone leaves nobody to tell.
pub(super) fn tell(text: &str) {
    let _ = writeln!(anstream::AutoStream::auto(io::stderr().lock()), "{text}");
}

/// Prints a less important line on standard error.
pub(super) fn faint(text: &str) {
    tell(&format!("{}{text}{:#}", term::FAINT, term::FAINT));
}

/// Prints loudly that something is in no log.
pub(super) fn not_saved(what: &str) {
    tell(&format!("{LOUD}NOT SAVED{LOUD:#} {}\n", term::line(what)));
}

/// The style of what must not be overlooked.
pub(super) const LOUD: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

pub(super) fn welcome(chat: &ChatSession<'_>) {
    let model = chat.kernel.model().name();
    let key = chat.key.as_str();
    let tail = chat.store.tail(&chat.key, RECENT).ok();
    let turns = tail.as_ref().map_or(0, |tail| tail.turns().count());
    let going_on = if turns == 0 { "a new session" } else { "going on with session" };
    chat.context.note(&format!("{going_on} {key}, with {model}; :help lists commands, Ctrl-D leaves"));
    let columns = chat.context.output().columns().unwrap_or(RECENT_CHARS).min(RECENT_CHARS);
    show_alerts(chat, columns);
    let Some(tail) = tail else { return };
    // The last turns remind the user what the session is about.
    for turn in tail.turns() {
        let text = term::escaped_beginning(turn.content.trim(), RECENT_CHARS + 1);
        let text = term::fit(&text, columns.saturating_sub(RECENT_INDENT));
        faint(&format!("{:>9}  {text}", term::line(turn.role)));
    }
    let last = tail.turns().next_back().and_then(|turn| when::parse_ms(turn.ts));
    if let Some(ms) = last {
        let ago = when::ago(ms, when::now_ms());
        faint(&format!("{:>9}  {ago}", ""));
    }
}

/// Prints a line if a skill got worse or is flaky, and no chat has said so yet.
fn show_alerts(chat: &ChatSession<'_>, columns: usize) {
    let news = Reports::open(&chat.store).map(|reports| reports.take_alerts()).unwrap_or_default();
    let Some(first) = news.first() else { return };
    let more = if news.len() > 1 { format!(" (and {} more)", news.len() - 1) } else { String::new() };
    let hint = format!("{more}; `manent retro` tells more");
    let first = term::line(first);
    let first = term::fit(&first, columns.saturating_sub(hint.len() + NEWS.len()).max(NEWS_COLUMNS_MIN));
    faint(&format!("{NEWS}{first}{hint}"));
}

pub(super) fn farewell(chat: &ChatSession<'_>) {
    let key = term::shell_word(chat.key.as_str());
    if chat.store.exists(&chat.key).unwrap_or(false) {
        chat.context.note(&format!("everything is kept; `manent chat {key}` goes on"));
    }
}

const NEWS: &str = "skills: ";
const NEWS_COLUMNS_MIN: usize = 20;
const RECENT: u64 = 4;
const RECENT_CHARS: usize = 200;
/// The width of the role before the text.
const RECENT_INDENT: usize = 12;
const BAR_COLUMNS: usize = 10;
const BYTES_OF_TOKEN: u64 = 4;
