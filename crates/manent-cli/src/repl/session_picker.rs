//! Choosing a session: a list that narrows while one types, by titles and keys and by what was said. [`pick`] draws,
//! waits for keys and obeys them; [`KeyDecoder`] makes keys of the bytes of a terminal; [`SessionList`] has the rows.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anstyle::Style;
use manent::{Place, Query, SessionKey, Store, Summary};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, tcgetwinsize};
use unicode_width::UnicodeWidthStr;

use super::TerminalMode;
use crate::context::Context;
use crate::exit::Failure;
use crate::{term, when};

pub(super) enum Choice {
    Session(SessionKey),
    Nothing,
    /// The terminal cannot draw a list.
    NoTerminal,
}

pub(super) fn pick(store: &Store, context: &Context<'_>) -> Result<Choice, Failure> {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    if is_dumb || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Choice::NoTerminal);
    }
    // Every key is handed on; what is shown is written as ever.
    let raw = TerminalMode::begin(OptionalActions::Drain, |mode| {
        let output_modes = mode.output_modes;
        mode.make_raw();
        mode.output_modes = output_modes;
    });
    let Ok(raw) = raw else { return Ok(Choice::NoTerminal) };
    let mut list = SessionList::of(store)?;
    if list.all.is_empty() {
        drop(raw);
        context.note("there are no sessions yet; ask something to begin one");
        return Ok(Choice::Nothing);
    }
    let mut screen = Screen { lines: 0, size: (0, 0), colored: context.colored() };
    let mut keys = KeyDecoder::default();
    let mut drawn = screen.draw(&list);
    let picked = loop {
        if drawn.is_err() {
            break Choice::Nothing;
        }
        let Some(key) = next_key(&mut keys) else { break Choice::Nothing };
        match key {
            Key::Enter => match list.chosen() {
                Some(key) => break Choice::Session(key),
                None => continue,
            },
            Key::Leave => break Choice::Nothing,
            Key::Up(lines) => list.up(lines),
            Key::Down(lines) => list.down(lines),
            Key::Char(c) => list.typed(c),
            Key::Back => list.back(),
            Key::Clear => list.clear(),
            // Also when nothing was pressed: the window may have another size now.
            Key::Other if Screen::size_now() == screen.size => continue,
            Key::Other => {}
        }
        list.update(store);
        drawn = screen.draw(&list);
    };
    let _ = screen.wipe();
    drop(raw);
    Ok(picked)
}

/// Waits for the next key. Returns `None` if the terminal is gone.
fn next_key(keys: &mut KeyDecoder) -> Option<Key> {
    loop {
        if let Some(key) = keys.next() {
            return Some(key);
        }
        let stdin = io::stdin();
        let wait = if keys.is_waiting() { ESCAPE_WITHIN } else { LOOK_AT_SIZE };
        let time = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut fds, Some(&time)) {
            // A lone escape is a key when nothing follows it.
            Ok(0) if keys.is_waiting() => return Some(keys.flush()),
            Ok(0) | Err(rustix::io::Errno::INTR) => return Some(Key::Other),
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut bytes = [0; 256];
        match rustix::io::read(&stdin, &mut bytes) {
            Ok(0) => return None,
            Ok(count) => keys.take(&bytes[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => return None,
        }
    }
}

/// The lines that are drawn below the prompt, and nowhere else.
struct Screen {
    lines: usize,
    /// Columns and rows, when it was drawn.
    size: (usize, usize),
    colored: bool,
}

impl Screen {
    fn size_now() -> (usize, usize) {
        let size = tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
    }

    fn draw(&mut self, list: &SessionList) -> io::Result<()> {
        let (columns, rows) = Screen::size_now();
        self.size = (columns, rows);
        let rows = rows.clamp(ROWS_MIN, ROWS_MAX);
        let lines = list.lines(columns.saturating_sub(1).max(1), rows, self.colored);
        let mut text = self.back_to_top();
        text.push_str(&lines.join("\r\n"));
        self.lines = lines.len();
        let mut err = io::stderr().lock();
        err.write_all(text.as_bytes())?;
        err.flush()
    }

    /// Returns the sequence that moves to the first line that was drawn and clears everything from there on.
    fn back_to_top(&self) -> String {
        match self.lines {
            0 | 1 => "\r\x1b[J".to_owned(),
            lines => format!("\r\x1b[{}A\x1b[J", lines - 1),
        }
    }

    fn wipe(&mut self) -> io::Result<()> {
        let mut err = io::stderr().lock();
        err.write_all(self.back_to_top().as_bytes())?;
        err.flush()
    }
}

/// A key that means something to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// Moves up by this number of lines.
    Up(usize),
    Down(usize),
    Enter,
    /// Escape, Ctrl-C, Ctrl-D.
    Leave,
    Back,
    /// Ctrl-U.
    Clear,
    Char(char),
    Other,
}

/// Decodes keys from bytes, and holds the bytes that are not a whole key yet.
#[derive(Debug, Default)]
struct KeyDecoder {
    bytes: Vec<u8>,
}

impl KeyDecoder {
    fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns true if there are bytes that may be the beginning of a key.
    fn is_waiting(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Decodes the bytes that are left, because no more follow soon.
    fn flush(&mut self) -> Key {
        let lone = self.bytes == [ESCAPE];
        self.bytes.clear();
        if lone { Key::Leave } else { Key::Other }
    }

    fn next(&mut self) -> Option<Key> {
        let (key, used) = read(&self.bytes)?;
        self.bytes.drain(..used);
        Some(key)
    }
}

/// Returns the first key and the number of its bytes, or `None` if more bytes must come.
fn read(bytes: &[u8]) -> Option<(Key, usize)> {
    let first = *bytes.first()?;
    Some(match first {
        b'\r' | b'\n' => (Key::Enter, 1),
        0x03 | 0x04 => (Key::Leave, 1),
        0x08 | 0x7f => (Key::Back, 1),
        0x0e => (Key::Down(1), 1),
        0x10 => (Key::Up(1), 1),
        0x15 => (Key::Clear, 1),
        ESCAPE => return sequence(bytes),
        0..0x20 => (Key::Other, 1),
        _ => return character(bytes),
    })
}

fn sequence(bytes: &[u8]) -> Option<(Key, usize)> {
    match *bytes.get(1)? {
        b'[' | b'O' => {
            let end = bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte));
            let Some(end) = end else {
                // No sequence is as long.
                return (bytes.len() > SEQUENCE_BYTES_MAX).then_some((Key::Other, bytes.len()));
            };
            let key = match &bytes[2..=2 + end] {
                b"A" => Key::Up(1),
                b"B" => Key::Down(1),
                b"5~" => Key::Up(PAGE),
                b"6~" => Key::Down(PAGE),
                _ => Key::Other,
            };
            Some((key, end + 3))
        }
        ESCAPE => Some((Key::Leave, 1)),
        _ => Some((Key::Other, 2)),
    }
}

fn character(bytes: &[u8]) -> Option<(Key, usize)> {
    match bytes.utf8_chunks().next()?.valid().chars().next() {
        Some(c) => Some((Key::Char(c), c.len_utf8())),
        // The rest of a character is still to come.
        None if std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none()) => None,
        None => Some((Key::Other, 1)),
    }
}

const ESCAPE: u8 = 0x1b;
const SEQUENCE_BYTES_MAX: usize = 32;

/// Sessions, and the one that is chosen.
struct SessionList {
    all: Vec<Summary>,
    query: String,
    rows: Vec<Row>,
    chosen: usize,
    now_ms: i64,
}

/// A line of the list.
struct Row {
    /// The index in `all`.
    at: usize,
    /// The words that were found in the session, if its title and key do not match.
    snippet: Option<String>,
}

impl SessionList {
    fn of(store: &Store) -> Result<SessionList, Failure> {
        let all = store.sessions(Place::Live, None, SESSIONS_MAX)?.sessions;
        let mut list =
            SessionList { all, query: String::new(), rows: Vec::new(), chosen: 0, now_ms: when::now_ms() };
        list.update(store);
        Ok(list)
    }

    fn chosen(&self) -> Option<SessionKey> {
        self.rows.get(self.chosen).map(|row| self.all[row.at].id.key.clone())
    }

    fn up(&mut self, lines: usize) {
        self.chosen = self.chosen.saturating_sub(lines);
    }

    fn down(&mut self, lines: usize) {
        self.chosen = (self.chosen + lines).min(self.rows.len().saturating_sub(1));
    }

    fn typed(&mut self, c: char) {
        if self.query.chars().count() < QUERY_CHARS_MAX && !c.is_control() {
            self.query.push(c);
            self.chosen = 0;
        }
    }

    fn back(&mut self) {
        self.query.pop();
        self.chosen = 0;
    }

    fn clear(&mut self) {
        self.query.clear();
        self.chosen = 0;
    }

    /// Finds the sessions that match the query.
    fn update(&mut self, store: &Store) {
        let words: Vec<String> = self.query.split_whitespace().map(str::to_lowercase).collect();
        let fits = |summary: &Summary| {
            let text = format!("{} {}", summary.id.key, summary.title).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let by_name = (0..self.all.len()).filter(|at| fits(&self.all[*at]));
        self.rows = by_name.map(|at| Row { at, snippet: None }).collect();
        if !words.is_empty() {
            self.add_by_content(store);
        }
        self.chosen = self.chosen.min(self.rows.len().saturating_sub(1));
    }

    /// Adds the sessions whose turns match the query. Its last word may be incomplete.
    fn add_by_content(&mut self, store: &Store) {
        let plain: String = self.query.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
        let text = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return;
        }
        let Ok(query) = Query::parse(&format!("{text}*"), self.now_ms) else { return };
        let Ok(found) = store.search(&query, HITS_MAX) else { return };
        let mut listed: HashSet<usize> = self.rows.iter().map(|row| row.at).collect();
        for hit in found.hits.iter().filter(|hit| hit.id.place == Place::Live) {
            let at = self.all.iter().position(|summary| summary.id.key == hit.id.key);
            if let Some(at) = at.filter(|at| listed.insert(*at)) {
                self.rows.push(Row { at, snippet: Some(hit.snippet.text.clone()) });
            }
        }
    }

    /// The list in so many columns and rows: first what is typed, then as many sessions as there is room for.
    fn lines(&self, columns: usize, rows: usize, colored: bool) -> Vec<String> {
        let count = term::counted(self.rows.len() as u64, "session");
        let help = "type to search, ↑↓ and Enter to go on with one, Esc to stay";
        let head = format!("session: {}▏ ({count}; {help})", term::line(&self.query));
        let mut lines = vec![styled(&term::fit(&head, columns), Style::new().bold(), colored)];
        let room = rows.saturating_sub(1).max(1);
        let from = (self.chosen + 1).saturating_sub(room);
        for (at, row) in self.rows.iter().enumerate().skip(from).take(room) {
            let is_chosen = at == self.chosen;
            let mark = if is_chosen { "❯ " } else { "  " };
            let text = format!("{mark}{}", self.text(row));
            let style = if is_chosen { Style::new().bold().invert() } else { Style::new() };
            lines.push(styled(&term::fit(&text, columns), style, colored));
        }
        if self.rows.is_empty() {
            lines.push(styled(&term::fit("  nothing fits", columns), term::FAINT, colored));
        }
        lines
    }

    fn text(&self, row: &Row) -> String {
        let summary = &self.all[row.at];
        let key = term::line(summary.id.key.as_str());
        let key = term::fit(&key, KEY_COLUMNS).into_owned();
        let widest = self.all.iter().map(|one| term::line(one.id.key.as_str()).width()).max();
        let key = term::pad(&key, widest.unwrap_or(0).min(KEY_COLUMNS));
        let ago = term::pad(&when::ago(summary.updated_ms, self.now_ms), AGO_COLUMNS);
        let plural = if summary.turns == 1 { " " } else { "s" };
        let front =
            format!("{key}  {ago}  {:>5} turn{plural}  {}", summary.turns, term::line(&summary.title));
        match &row.snippet {
            Some(snippet) => format!("{front}  … {}", term::escaped_beginning(snippet, usize::MAX)),
            None => front,
        }
    }
}

fn styled(text: &str, style: Style, colored: bool) -> String {
    if colored { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

const SESSIONS_MAX: usize = 2000;
const HITS_MAX: usize = 50;
const QUERY_CHARS_MAX: usize = 200;
const KEY_COLUMNS: usize = 24;
const AGO_COLUMNS: usize = 10;
const PAGE: usize = 10;
const ROWS_MIN: usize = 3;
const ROWS_MAX: usize = 16;
const ESCAPE_WITHIN: Duration = Duration::from_millis(60);
const LOOK_AT_SIZE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Key> {
        let mut keys = KeyDecoder::default();
        let mut found = Vec::new();
        // One byte at a time: a slow line.
        for byte in bytes {
            keys.take(&[*byte]);
            found.extend(std::iter::from_fn(|| keys.next()));
        }
        if keys.is_waiting() {
            found.push(keys.flush());
        }
        found
    }

    #[test]
    fn keys_are_read_in_pieces() {
        let typed = "aé日\x1b[A\x1bOB\x1b[5~\x1b[1;5C\x7f\x15\r\x1b";
        let wanted = [
            Key::Char('a'),
            Key::Char('é'),
            Key::Char('日'),
            Key::Up(1),
            Key::Down(1),
            Key::Up(PAGE),
            Key::Other,
            Key::Back,
            Key::Clear,
            Key::Enter,
            Key::Leave,
        ];
        assert_eq!(all(typed.as_bytes()), wanted);
    }

    #[test]
    fn whatever_bytes_come_an_end_comes_too() {
        for byte in 0..=255_u8 {
            for tail in [&b""[..], b"x", b"[", b"\xff\xff", &[0x1b; 40], &[b'1'; 80]] {
                let bytes = [&[byte][..], tail, b"\r"].concat();
                let keys = all(&bytes);
                assert!(keys.len() <= bytes.len(), "{bytes:?}: {keys:?}");
            }
        }
    }

    fn store(dir: &std::path::Path) -> Store {
        let store = Store::open(dir).unwrap();
        for (key, said) in [
            ("work", "We chose the database with the blue logo"),
            ("play", "A game of chess"),
            ("evil\u{1b}[2J", "x \u{1b}]0;owned\u{7} zebra"),
        ] {
            let key = SessionKey::new(key).unwrap();
            store.append(&key, manent::turn("user", said)).unwrap();
            store.append(&key, manent::turn("assistant", format!("about {}", said.len()))).unwrap();
        }
        store
    }

    fn typed(store: &Store, text: &str) -> SessionList {
        let mut list = SessionList::of(store).unwrap();
        for c in text.chars() {
            list.typed(c);
            list.update(store);
        }
        list
    }

    #[test]
    fn it_narrows_by_titles_and_by_what_was_said() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        assert_eq!(typed(&store, "").rows.len(), 3);
        assert_eq!(typed(&store, "PLAY").chosen().unwrap().as_str(), "play");
        assert_eq!(typed(&store, "chess").rows.len(), 1, "the title is what was first said");
        let list = typed(&store, "about 40");
        assert_eq!(list.chosen().unwrap().as_str(), "work", "said by the other");
        assert!(list.rows[0].snippet.is_some());
        let mut list = typed(&store, "nothing like this");
        assert_eq!(list.chosen(), None);
        list.clear();
        list.update(&store);
        list.down(100);
        assert_eq!(list.chosen, 2);
        list.up(100);
        assert_eq!(list.chosen, 0);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_none_drives_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        for query in ["", "zebra", "\u{202e}", "\" OR ( -"] {
            let list = typed(&store, query);
            for columns in [1, 2, 10, 79, 300] {
                for rows in [1, 3, 24] {
                    let lines = list.lines(columns, rows, false);
                    assert!(lines.len() <= rows.max(2), "{lines:?}");
                    for line in lines {
                        assert!(line.width() <= columns, "{columns}: {line:?}");
                        assert!(!line.contains(['\u{1b}', '\u{7}', '\u{202e}', '\n']), "{line:?}");
                    }
                }
            }
        }
    }
}
