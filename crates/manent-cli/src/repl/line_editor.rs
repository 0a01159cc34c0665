//! The line that is being typed: keys, what goes on in the next line, hints, and what was typed before.

use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use manent::log::RealDisk;
use manent::{Space, Store, StreamId};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{History as _, MemHistory};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Config, Editor, Event, EventContext,
    EventHandler, KeyCode, KeyEvent, Modifiers, RepeatCount,
};

use super::completion::Completer;
use super::history::{self, HistoryFile};
use crate::context::Context;
use crate::term;

/// The input of a person at the prompt.
pub(super) enum Input {
    Line(String),
    /// Ctrl-C, on a line that was empty or not.
    Interrupt {
        empty: bool,
    },
    /// Ctrl-D, or a terminal that is gone.
    End,
    /// Bytes that are no text: the line is lost, the chat is not.
    Garbled,
}

/// An editor of lines that remembers them.
pub(super) struct LineEditor<'a> {
    editor: Editor<Completer, MemHistory>,
    file: Option<HistoryFile>,
    context: &'a Context<'a>,
    /// Set by Ctrl-C to whether the line was empty.
    was_empty: Arc<AtomicBool>,
    /// Characters that were typed and are not on the line yet.
    burst: Burst,
}

impl<'a> LineEditor<'a> {
    pub(super) fn open(context: &'a Context<'a>, store: &Store) -> Result<LineEditor<'a>, ReadlineError> {
        let config = config(context).max_history_size(history::ENTRIES_MAX)?.history_ignore_space(true);
        let mut editor = Editor::with_history(config.build(), MemHistory::new())?;
        editor.set_helper(Some(Completer { store: store.clone() }));
        // Enter sends a line, Alt-Enter begins the next. Ctrl-J sends too: programs that type press it for Enter.
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let was_empty = Arc::new(AtomicBool::new(true));
        let note = EventHandler::Conditional(Box::new(NoteEmptyLine(was_empty.clone())));
        editor.bind_sequence(KeyEvent::ctrl('c'), note);
        let burst = Burst::default();
        editor.bind_sequence(Event::Any, EventHandler::Conditional(Box::new(burst.clone())));
        editor.history_mut().ignore_space(true);
        let mut lines = LineEditor { editor, file: None, context, was_empty, burst };
        lines.load(store);
        Ok(lines)
    }

    /// Loads the lines of earlier chats. In a store of another program there is no such file.
    fn load(&mut self, store: &Store) {
        let memory = store.streams().path(&StreamId::single(Space::Memory));
        let home = memory.filter(|_| store.streams().supports(Space::Memory));
        let Some(home) = home.as_deref().and_then(Path::parent) else { return };
        let mut file = HistoryFile::in_home(RealDisk::shared(), home.to_owned());
        match file.load() {
            Ok(entries) => {
                for entry in entries {
                    let _ = self.editor.history_mut().add_owned(entry);
                }
            }
            Err(trouble) => self.context.warn(&trouble),
        }
        self.file = Some(file);
    }

    /// Waits for a line. One that ends with a backslash goes on in the next.
    pub(super) fn read(&mut self, prompt: &(String, String)) -> Result<Input, ReadlineError> {
        let mut whole = match self.read_one(prompt)? {
            Input::Line(line) => line,
            other => return Ok(other),
        };
        while whole.ends_with('\\') && !whole.starts_with(':') {
            whole.pop();
            whole.push('\n');
            match self.read_one(&("… ".to_owned(), "… ".to_owned()))? {
                Input::Line(next) => whole.push_str(&next),
                // The lines before the end are a question.
                Input::End => break,
                other => return Ok(other),
            }
        }
        self.remember(&whole);
        Ok(Input::Line(whole))
    }

    fn read_one(&mut self, prompt: &(String, String)) -> Result<Input, ReadlineError> {
        self.was_empty.store(true, Ordering::Relaxed);
        let read = self.editor.readline(prompt);
        let rest = self.burst.rest();
        match read {
            Ok(line) => Ok(Input::Line(line + &rest)),
            Err(ReadlineError::Interrupted) => {
                Ok(Input::Interrupt { empty: self.was_empty.load(Ordering::Relaxed) })
            }
            Err(ReadlineError::Io(e)) if e.kind() == std::io::ErrorKind::InvalidData => Ok(Input::Garbled),
            // The second: a terminal that was hung up.
            Err(ReadlineError::Eof | ReadlineError::Errno(_)) => Ok(Input::End),
            Err(other) => Err(other),
        }
    }

    /// Adds a line to the history, unless it begins with a space or repeats the line before it.
    fn remember(&mut self, line: &str) {
        let is_new = self.editor.history_mut().add(line).unwrap_or(false);
        if !is_new || line.trim().is_empty() {
            return;
        }
        if let Some(file) = &mut self.file
            && let Err(trouble) = file.add(line)
        {
            self.context.warn(&trouble);
        }
    }
}

/// Reads the answer to a question of ours. It does not enter the history, nor is the history offered.
pub(super) fn answer(context: &Context<'_>, prompt: &str) -> Option<String> {
    let mut editor =
        Editor::<(), MemHistory>::with_history(config(context).build(), MemHistory::new()).ok()?;
    editor.readline(prompt).ok()
}

fn config(context: &Context<'_>) -> rustyline::config::Builder {
    let color = if context.colored() { ColorMode::Enabled } else { ColorMode::Disabled };
    Config::builder()
        .color_mode(color)
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .bell_style(rustyline::config::BellStyle::None)
}

/// Notes whether the line was empty when Ctrl-C was pressed, and leaves the key to its usual meaning.
struct NoteEmptyLine(Arc<AtomicBool>);

impl ConditionalEventHandler for NoteEmptyLine {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        self.0.store(at.line().is_empty(), Ordering::Relaxed);
        None
    }
}

/// A long line that comes faster than it can be drawn, without the marks of a paste. Drawing it anew at each break of
/// its lines would take time by the square of its length, so characters are buffered while more is waiting.
#[derive(Clone, Default)]
struct Burst(Arc<Mutex<String>>);

impl Burst {
    /// Takes the characters that were still buffered when the line was sent.
    fn rest(&self) -> String {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ConditionalEventHandler for Burst {
    fn handle(&self, key: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffer.is_empty() && at.line().len() < BURST_FROM_BYTES {
            return None;
        }
        let waiting = rustix::io::ioctl_fionread(std::io::stdin()).unwrap_or(0);
        let KeyEvent(code, modifiers) = key.get(0)?;
        match code {
            KeyCode::Char(c) if modifiers.is_empty() && (waiting > 0 || !buffer.is_empty()) => {
                buffer.push(*c);
                // More is there, so this is called again.
                Some(if waiting > 0 { Cmd::Noop } else { Cmd::Insert(1, std::mem::take(&mut buffer)) })
            }
            _ if buffer.is_empty() => None,
            // The rest is put behind it by whoever reads the line.
            KeyCode::Enter => Some(Cmd::AcceptLine),
            KeyCode::Char('J') if *modifiers == Modifiers::CTRL => Some(Cmd::AcceptLine),
            KeyCode::Backspace => {
                buffer.pop();
                Some(Cmd::Noop)
            }
            _ => Some(Cmd::Insert(1, std::mem::take(&mut buffer))),
        }
    }
}

impl rustyline::Helper for Completer {}

impl rustyline::completion::Completer for Completer {
    type Candidate = rustyline::completion::Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Self::Candidate>)> {
        Ok(self.offer(line, pos))
    }
}

impl Hinter for Completer {
    type Hint = OpenFenceHint;

    fn hint(&self, line: &str, _: usize, _: &rustyline::Context<'_>) -> Option<OpenFenceHint> {
        // A long pasted text is not searched for fences at every key.
        (line.len() < HINTED_BYTES_MAX && line.contains('\n') && is_open(line)).then_some(OpenFenceHint)
    }
}

/// The hint that says why Enter does not send.
pub(super) struct OpenFenceHint;

impl rustyline::hint::Hint for OpenFenceHint {
    fn display(&self) -> &'static str {
        "   (``` is open: close it to send, Ctrl-C to drop it)"
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Highlighter for Completer {
    /// Replaces pasted characters that would drive the terminal, without a change of width.
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if term::block(line) == line {
            return Cow::Borrowed(line);
        }
        let shown = |c: char| match term::block(c.encode_utf8(&mut [0; 4])) {
            same if same.chars().eq([c]) => Some(c),
            _ if c.is_control() => Some('\u{fffd}'),
            _ => None,
        };
        Cow::Owned(line.chars().filter_map(shown).collect())
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("{}{hint}{:#}", term::FAINT, term::FAINT))
    }
}

impl Validator for Completer {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let line = typed.input();
        let goes_on = !line.starts_with(':') && is_open(line);
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

/// Returns true if a fence of code is open at the end of a text.
fn is_open(text: &str) -> bool {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(mark) = line.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let count = line.chars().take_while(|c| *c == mark).count();
        let rest = &line[count..];
        open = match open {
            None if count >= 3 && !rest.contains('`') => Some((mark, count)),
            Some((of, at_least)) if mark == of && count >= at_least && rest.trim().is_empty() => None,
            as_before => as_before,
        };
    }
    open.is_some()
}

const HINTED_BYTES_MAX: usize = 16 << 10;
/// The length from which a line is not drawn at each character.
const BURST_FROM_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_open_until_it_is_closed() {
        for open in ["```", "look:\n```rust\nfn x() {}", "~~~\n```", "````\n```", "```\nx\n``` y", "  ```"] {
            assert!(is_open(open), "{open:?}");
        }
        for closed in
            ["", "``", "```\n```", "```rust\nx\n```\nwhy?", "````\n```\n````", "```x``` in a line", "a ```"]
        {
            assert!(!is_open(closed), "{closed:?}");
        }
    }
}
