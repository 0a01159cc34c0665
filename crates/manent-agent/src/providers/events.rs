//! Server-sent events: lines to events.

use super::lines::{LINE_BYTES_MAX, LineEnding, LineError, LineSplitter};

/// Something that a server tells.
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

#[cfg(test)]
mod tests {
    use super::*;

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
