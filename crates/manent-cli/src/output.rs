//! Standard output: for people on a terminal, plain for pipes, JSON when asked.

use std::io::{self, BufWriter, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use manent::{Receipt, SessionKey};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use crate::args::GlobalArgs;
use crate::term;

/// The standard output of a command.
pub(crate) struct Output {
    stream: BufWriter<io::StdoutLock<'static>>,
    colored: bool,
    /// True if standard output is a terminal, so that a person is likely to read it.
    pub(crate) terminal: bool,
    /// True if `--json` was given.
    pub(crate) wants_json: bool,
}

impl Output {
    pub(crate) fn new(global: &GlobalArgs) -> Output {
        let stdout = io::stdout().lock();
        Output {
            colored: is_colored(global.color),
            terminal: stdout.is_terminal(),
            wants_json: global.json,
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
        if self.wants_json {
            return self.json(&receipt_json(session, Some(receipt)));
        }
        self.plain(&format!("{} {}", term::line(session.as_str()), receipt.seq))
    }

    /// Writes a heading with an empty line before it.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        self.line(&[])?;
        self.line(&[(Style::new().bold(), text)])
    }

    /// Writes a table, whose first row has its heads. On a terminal the last column gives way to the others, down to a
    /// width of `last_columns_min`.
    pub(crate) fn table(
        &mut self,
        mut rows: Vec<Vec<String>>,
        is_number: impl Fn(usize) -> bool,
        last_columns_min: usize,
    ) -> io::Result<()> {
        if let (Some(columns), [front @ .., _]) = (self.columns(), &*column_widths(&rows)) {
            let used: usize = front.iter().map(|width| width + 2).sum();
            for cell in rows.iter_mut().filter_map(|row| row.last_mut()) {
                *cell = term::fit(cell, columns.saturating_sub(used).max(last_columns_min)).into_owned();
            }
        }
        for (at, line) in aligned(&rows, is_number).iter().enumerate() {
            self.line(&[(if at == 0 { term::FAINT } else { Style::new() }, line)])?;
        }
        Ok(())
    }

    /// Writes text of several lines from a record.
    pub(crate) fn block(&mut self, text: &str) -> io::Result<()> {
        self.text(text)?;
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
}

/// Standard output for receipts, until its reader has left. What they are for goes on: that is what was asked for.
pub(crate) struct ReceiptOutput(pub(crate) Option<Output>);

impl ReceiptOutput {
    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Output) -> io::Result<()>) -> io::Result<()> {
        match self.0.as_mut().map_or(Ok(()), write) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.0 = None;
                Ok(())
            }
            written => written,
        }
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
pub(crate) fn column_widths<R: AsRef<[String]>>(rows: &[R]) -> Vec<usize> {
    let count = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or_default();
    let width = |column: usize| rows.iter().map(|row| row.as_ref()[column].width()).max().unwrap_or_default();
    (0..count).map(width).collect()
}

/// Returns the rows of a table as lines, with two blanks between cells. Numbers stand on the right of their column,
/// other cells on the left; a last cell that is no number has no blanks behind it.
pub(crate) fn aligned<R: AsRef<[String]>>(rows: &[R], is_number: impl Fn(usize) -> bool) -> Vec<String> {
    let widths = column_widths(rows);
    let cell = |(column, cell): (usize, &String)| match is_number(column) {
        true => format!("{}{cell}", " ".repeat(widths[column] - cell.width())),
        false if column + 1 == widths.len() => cell.clone(),
        false => term::pad(cell, widths[column]),
    };
    let line = |row: &R| row.as_ref().iter().enumerate().map(cell).collect::<Vec<_>>().join("  ");
    rows.iter().map(line).collect()
}

/// Returns true if text on standard output may have styles.
pub(crate) fn is_colored(color: clap::ColorChoice) -> bool {
    let choice = match color_choice(color) {
        // Asks NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM and whether it is a terminal at all.
        ColorChoice::Auto => AutoStream::choice(&io::stdout()),
        decided => decided,
    };
    choice != ColorChoice::Never
}

pub(crate) fn color_choice(color: clap::ColorChoice) -> ColorChoice {
    match color {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    }
}
