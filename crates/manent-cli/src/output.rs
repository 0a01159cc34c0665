//! Standard output: for people on a terminal, plain for pipes, JSON when asked.

use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;

use crate::args::{Color, Global};
use crate::term;

/// Where a command writes what it was asked for.
pub(crate) struct Output {
    stream: BufWriter<io::StdoutLock<'static>>,
    colored: bool,
    /// Whether a person is likely to be looking.
    pub(crate) terminal: bool,
    pub(crate) json: bool,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Output {
        let stdout = io::stdout().lock();
        let choice = match color_choice(global.color) {
            // Asks NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM and whether it is a terminal at all.
            ColorChoice::Auto => AutoStream::choice(&stdout),
            decided => decided,
        };
        Output {
            colored: choice != ColorChoice::Never,
            terminal: stdout.is_terminal(),
            json: global.json,
            stream: BufWriter::with_capacity(64 << 10, stdout),
        }
    }

    /// How wide the terminal is; nothing if it is none, or does not tell.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(self.stream.get_ref()).ok().filter(|_| self.terminal)?;
        (size.ws_col > 0).then(|| usize::from(size.ws_col))
    }

    /// A styled line; the styles vanish where colour is not wanted.
    pub(crate) fn line(&mut self, parts: &[(Style, &str)]) -> io::Result<()> {
        for (style, text) in parts {
            if self.colored {
                write!(self.stream, "{style}{text}{style:#}")?;
            } else {
                self.stream.write_all(text.as_bytes())?;
            }
        }
        self.stream.write_all(b"\n")
    }

    /// Text of several lines from a record.
    pub(crate) fn block(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(term::block(text).as_bytes())?;
        self.stream.write_all(b"\n")
    }

    /// Some text that is no record and ends where it ends, without what a terminal would obey.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(term::block(text).as_bytes())
    }

    /// A line of JSON. Into a pipe it goes byte for byte; a terminal gets the same value without control characters.
    pub(crate) fn json_line(&mut self, line: &str) -> io::Result<()> {
        let line = if self.terminal { term::json(line) } else { line.into() };
        self.stream.write_all(line.as_bytes())?;
        self.stream.write_all(b"\n")
    }

    /// A JSON value on a line.
    pub(crate) fn json(&mut self, value: &serde_json::Value) -> io::Result<()> {
        self.json_line(&value.to_string())
    }

    /// Bytes as they are. Not for a terminal.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(!self.terminal, "a transcript never drives the terminal");
        self.stream.write_all(bytes)
    }

    /// Shows what was written so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

pub(crate) fn color_choice(color: Color) -> ColorChoice {
    match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
}
