//! Standard output: for people on a terminal, plain for pipes, JSON when asked.

use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use manent::{Receipt, SessionKey};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::args::{Color, GlobalArgs};
use crate::exit::{Exit, Failure};
use crate::term;

/// The standard output of a command.
pub(crate) struct Output {
    stream: BufWriter<io::StdoutLock<'static>>,
    colored: bool,
    /// Standard output is a terminal, so a person is likely to be looking.
    pub(crate) terminal: bool,
    pub(crate) json: bool,
}

impl Output {
    pub(crate) fn new(global: &GlobalArgs) -> Output {
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

    /// Returns the width of the terminal, or `None` if standard output is not a terminal or its width is unknown.
    pub(crate) fn columns(&self) -> Option<usize> {
        let size = rustix::termios::tcgetwinsize(self.stream.get_ref()).ok().filter(|_| self.terminal)?;
        (size.ws_col > 0).then(|| usize::from(size.ws_col))
    }

    /// Writes a line of styled parts. Where colour is not wanted, the styles are left out.
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

    /// Writes a line of plain text, which must have come through `term`.
    pub(crate) fn plain(&mut self, text: &str) -> io::Result<()> {
        self.line(&[(Style::new(), text)])
    }

    /// Writes a line about something that was done: the verb in green, its object, and `remark` in faint letters.
    pub(crate) fn done(&mut self, verb: &str, object: &str, remark: &str) -> io::Result<()> {
        let object = format!(" {object}");
        self.line(&[(term::bold(AnsiColor::Green), verb), (Style::new(), &object), (term::FAINT, remark)])
    }

    /// Writes the receipt of a record that was appended to a session.
    pub(crate) fn receipt(&mut self, session: &SessionKey, receipt: &Receipt) -> io::Result<()> {
        if self.json {
            return self.json(&receipt_json(session, Some(receipt)));
        }
        self.plain(&format!("{} {}", term::line(session.as_str()), receipt.seq))
    }

    /// Writes a heading with an empty line before it.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        self.line(&[])?;
        self.line(&[(Style::new().bold(), text)])
    }

    /// Writes text of several lines from a record.
    pub(crate) fn block(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(term::block(text).as_bytes())?;
        self.stream.write_all(b"\n")
    }

    /// Writes text without a line break behind it and without characters that a terminal would obey.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(term::block(text).as_bytes())
    }

    /// Writes a line of JSON. A pipe gets it byte for byte, a terminal the same value without control characters.
    pub(crate) fn json_line(&mut self, line: &str) -> io::Result<()> {
        let line = if self.terminal { term::json(line) } else { line.into() };
        self.stream.write_all(line.as_bytes())?;
        self.stream.write_all(b"\n")
    }

    /// Writes a JSON value on a line.
    pub(crate) fn json(&mut self, value: &Value) -> io::Result<()> {
        self.json_line(&value.to_string())
    }

    /// Writes bytes as they are, which is not for a terminal.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(!self.terminal, "a transcript never drives the terminal");
        self.stream.write_all(bytes)
    }

    /// Passes on everything that was written so far.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }

    /// Flushes the output of a command that succeeded, and returns its exit code.
    pub(crate) fn finish(&mut self) -> Result<Exit, Failure> {
        self.flush()?;
        Ok(Exit::Done)
    }
}

/// Returns the JSON object of a receipt, to which commands add members of their own. The members of a record that was
/// not written are null.
pub(crate) fn receipt_json(session: &SessionKey, receipt: Option<&Receipt>) -> Value {
    json!({
        "session": session.as_str(), "id": receipt.map(|receipt| &*receipt.id),
        "seq": receipt.map(|receipt| receipt.seq), "offset": receipt.map(|receipt| receipt.position.raw()),
        "durability": receipt.map(|receipt| receipt.durability.word()),
    })
}

/// Returns the widths of the columns of a table.
pub(crate) fn column_widths<const N: usize>(heads: &[&str; N], rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|column| {
        let widths = rows.iter().map(|row| row[column].width());
        widths.chain([heads[column].width()]).max().unwrap_or_default()
    })
}

pub(crate) fn color_choice(color: Color) -> ColorChoice {
    match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
}
