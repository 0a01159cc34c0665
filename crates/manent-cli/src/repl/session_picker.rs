//! Choosing a session: a list that narrows while one types, by titles and keys and by what was said.
//!
//! | file | about |
//! |---|---|
//! | `session_picker.rs` | the loop: draw, wait for keys, obey |
//! | `session_picker/keys.rs` | bytes of a terminal become keys |
//! | `session_picker/session_list.rs` | what is listed, and which line is chosen |

mod keys;
mod session_list;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use manent::{SessionKey, Store};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::context::Context;
use crate::exit::Failure;
use keys::{Key, KeyDecoder};
use session_list::SessionList;

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
    let Ok(raw) = RawMode::begin() else { return Ok(Choice::NoTerminal) };
    let mut list = SessionList::of(store)?;
    if list.is_empty() {
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
            Key::Up => list.up(1),
            Key::Down => list.down(1),
            Key::PageUp => list.up(PAGE),
            Key::PageDown => list.down(PAGE),
            Key::Char(c) => list.typed(c),
            Key::Back => list.back(),
            Key::Clear => list.clear(),
            // Also when nothing was pressed: the window may have another size now.
            Key::Other if Screen::size_now() == screen.size => continue,
            Key::Other => {}
        }
        list.look(store);
        drawn = screen.draw(&list);
    };
    let _ = screen.wipe();
    drop(raw);
    Ok(picked)
}

/// The next key; nothing when the terminal is gone.
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

/// A terminal that hands on every key; as it was, when this is dropped.
struct RawMode(Termios);

impl RawMode {
    fn begin() -> rustix::io::Result<RawMode> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        // What is shown is written as ever.
        raw.output_modes = before.output_modes;
        tcsetattr(io::stdin(), OptionalActions::Drain, &raw)?;
        Ok(RawMode(before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
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

    /// To the first line that was drawn, and everything from there on gone.
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

const PAGE: usize = 10;
const ROWS_MIN: usize = 3;
const ROWS_MAX: usize = 16;
const ESCAPE_WITHIN: Duration = Duration::from_millis(60);
const LOOK_AT_SIZE: Duration = Duration::from_millis(500);
