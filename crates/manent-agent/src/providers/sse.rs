//! Splits a response into lines, and lines into server-sent events.
//!
//! Text is decoded line by line, never chunk by chunk: a chunk may end inside of a character, a line cannot.

use memchr::{memchr, memchr2};

/// The reason why a line cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineError {
    /// The line is longer than [`LINE_BYTES_MAX`].
    TooLong,
    /// The line is not UTF-8.
    NoText,
}

/// The line terminators of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnding {
    /// LF, or CR and LF.
    Lf,
    /// The same, or a CR alone.
    LfOrCr,
}

/// Splits bytes into lines.
#[derive(Debug)]
pub(super) struct LineSplitter {
    ends: LineEnding,
    held: Vec<u8>,
    /// The start of the bytes that have not been returned yet.
    start: usize,
    /// The number of bytes in which no end of a line was found.
    searched: usize,
    /// True if the last line ended with a CR: an LF that comes next belongs to it.
    after_cr: bool,
    /// True until the first line, which may begin with a byte order mark.
    at_first: bool,
}

impl LineSplitter {
    pub(super) fn new(ends: LineEnding) -> LineSplitter {
        LineSplitter { ends, held: Vec::new(), start: 0, searched: 0, after_cr: false, at_first: true }
    }

    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.held.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next line that is whole, without its end.
    pub(super) fn take_line(&mut self) -> Result<Option<&str>, LineError> {
        if self.after_cr && self.start < self.held.len() {
            self.after_cr = false;
            if self.held[self.start] == b'\n' {
                self.start += 1;
                self.searched = self.searched.max(self.start);
            }
        }
        let rest = &self.held[self.searched..];
        let found = match self.ends {
            LineEnding::Lf => memchr(b'\n', rest),
            LineEnding::LfOrCr => memchr2(b'\n', b'\r', rest),
        };
        let end = found.map_or(self.held.len(), |at| self.searched + at);
        if end - self.start > LINE_BYTES_MAX {
            return Err(LineError::TooLong);
        }
        if found.is_none() {
            self.searched = end;
            return Ok(None);
        }
        let start = self.start;
        self.after_cr = self.held[end] == b'\r';
        self.start = end + 1;
        self.searched = self.start;
        self.decode(start, end).map(Some)
    }

    /// Returns the last line if it has no terminator.
    pub(super) fn take_rest(&mut self) -> Result<Option<&str>, LineError> {
        let (start, end) = (self.start, self.held.len());
        self.start = end;
        self.searched = end;
        if start == end { Ok(None) } else { self.decode(start, end).map(Some) }
    }

    fn decode(&mut self, start: usize, end: usize) -> Result<&str, LineError> {
        let text = std::str::from_utf8(&self.held[start..end]).map_err(|_| LineError::NoText)?;
        let text = if self.ends == LineEnding::Lf { text.strip_suffix('\r').unwrap_or(text) } else { text };
        let is_first = std::mem::replace(&mut self.at_first, false);
        Ok(if is_first { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text })
    }
}

/// An event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SseEvent {
    /// The `event:` field; mostly empty.
    pub(super) name: String,
    /// The `data:` lines, joined by line feeds.
    pub(super) data: String,
}

/// Events as they become whole.
#[derive(Debug)]
pub(super) struct SseParser {
    pub(super) lines: LineSplitter,
    open: SseEvent,
    has_data: bool,
}

impl SseParser {
    pub(super) fn new() -> SseParser {
        SseParser { lines: LineSplitter::new(LineEnding::LfOrCr), open: SseEvent::default(), has_data: false }
    }

    /// The next event that is whole.
    pub(super) fn take_event(&mut self) -> Result<Option<SseEvent>, LineError> {
        while let Some(line) = self.lines.take_line()? {
            if line.is_empty() {
                if let Some(event) = close(&mut self.open, &mut self.has_data) {
                    return Ok(Some(event));
                }
            } else {
                read(line, &mut self.open, &mut self.has_data)?;
            }
        }
        Ok(None)
    }

    /// Returns the unfinished event at the end of the stream. The standard drops it, but many servers end without the
    /// last empty line; the caller checks whether it is whole.
    pub(super) fn take_rest(&mut self) -> Result<Option<SseEvent>, LineError> {
        if let Some(line) = self.lines.take_rest()? {
            read(line, &mut self.open, &mut self.has_data)?;
        }
        Ok(close(&mut self.open, &mut self.has_data))
    }
}

fn read(line: &str, open: &mut SseEvent, has_data: &mut bool) -> Result<(), LineError> {
    let (field, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.strip_prefix(' ').unwrap_or(value);
    match field {
        "event" => value.clone_into(&mut open.name),
        "data" => {
            if open.data.len() + value.len() >= LINE_BYTES_MAX {
                return Err(LineError::TooLong);
            }
            if std::mem::replace(has_data, true) {
                open.data.push('\n');
            }
            open.data.push_str(value);
        }
        // Comments, ids, times to reconnect after.
        _ => {}
    }
    Ok(())
}

fn close(open: &mut SseEvent, has_data: &mut bool) -> Option<SseEvent> {
    let event = std::mem::take(open);
    std::mem::replace(has_data, false).then_some(event)
}

/// The longest line. An answer comes in pieces of some bytes each; a call of a tool with a whole file in it is one
/// line.
pub(super) const LINE_BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn split(ends: LineEnding, text: &[u8], each: usize) -> Vec<String> {
        let mut lines = LineSplitter::new(ends);
        let mut given = Vec::new();
        for chunk in text.chunks(each) {
            lines.push(chunk);
            while let Some(line) = lines.take_line().unwrap() {
                given.push(line.to_owned());
            }
        }
        given.extend(lines.take_rest().unwrap().map(str::to_owned));
        given
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = "\u{feff}eins\r\nzwei äöü\n\n\u{feff}drei 漢字 🦀\r\nvier\rfünf".as_bytes();
        for each in 1..=text.len() {
            let lf = split(LineEnding::Lf, text, each);
            assert_eq!(lf, ["eins", "zwei äöü", "", "\u{feff}drei 漢字 🦀", "vier\rfünf"], "{each}");
            let any = split(LineEnding::LfOrCr, text, each);
            assert_eq!(any, ["eins", "zwei äöü", "", "\u{feff}drei 漢字 🦀", "vier", "fünf"], "{each}");
        }
        assert_eq!(split(LineEnding::LfOrCr, b"a\r\r\nb\n\rc", 1), ["a", "", "b", "", "c"]);
    }

    #[test]
    fn a_line_has_a_limit_and_must_be_text() {
        let mut lines = LineSplitter::new(LineEnding::Lf);
        lines.push(&vec![b'x'; LINE_BYTES_MAX]);
        assert_eq!(lines.take_line(), Ok(None));
        lines.push(b"\n");
        assert_eq!(lines.take_line().map(|line| line.map(str::len)), Ok(Some(LINE_BYTES_MAX)));
        lines.push(&vec![b'x'; LINE_BYTES_MAX + 1]);
        assert_eq!(lines.take_line(), Err(LineError::TooLong));

        let mut lines = LineSplitter::new(LineEnding::Lf);
        lines.push(b"\xff\nnext\n");
        assert_eq!(lines.take_line(), Err(LineError::NoText));
        assert_eq!(lines.take_line(), Ok(Some("next")));
    }

    fn events(text: &str, each: usize) -> Vec<(String, String)> {
        let mut events = SseParser::new();
        let mut given = Vec::new();
        for chunk in text.as_bytes().chunks(each) {
            events.lines.push(chunk);
            while let Some(event) = events.take_event().unwrap() {
                given.push((event.name, event.data));
            }
        }
        given.extend(events.take_rest().unwrap().map(|event| (event.name, event.data)));
        given
    }

    #[test]
    fn events_are_the_same_however_they_come() {
        let text = "\u{feff}: hello\ndata: one\n\nevent: error\ndata: two\ndata:  lines\nid: 7\n\n\
                    event: dropped\n\ndata\n\n:\n\ndata:[DONE]";
        let expected: Vec<(String, String)> =
            [("", "one"), ("error", "two\n lines"), ("", ""), ("", "[DONE]")]
                .map(|(name, data)| (name.to_owned(), data.to_owned()))
                .into();
        for ending in ["\n", "\r\n", "\r"] {
            let text = text.replace('\n', ending);
            for each in 1..=text.len() {
                assert_eq!(events(&text, each), expected, "{ending:?} {each}");
            }
        }
    }

    #[test]
    fn an_event_of_many_lines_has_a_limit() {
        let mut events = SseParser::new();
        let line = format!("data: {}\n", "x".repeat(1 << 20));
        let outcome = (0..9).find_map(|_| {
            events.lines.push(line.as_bytes());
            events.take_event().err()
        });
        assert_eq!(outcome, Some(LineError::TooLong));
    }
}
