//! The output of a command, shown while it runs.
//!
//! A thread of its own shows it, so that a slow reader holds up neither the clock nor the record. On a terminal,
//! what comes faster than it can be shown is left out and counted. In a pipe or a file it is data, of which nothing may
//! be missing: there the command waits until it is read. If whoever read has left, it goes on and is recorded.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use manent_agent::sandbox::OutputObserver;

use crate::commands::prelude::*;

/// Standard output, on which a thread of its own writes the output of a command.
pub(super) struct LiveOutput<'a> {
    context: &'a Context<'a>,
    /// `None` if the output is not shown.
    pieces: Option<Sender<Vec<u8>>>,
    shared: Arc<Shared>,
    ended: Receiver<io::Result<()>>,
    terminal: bool,
    /// Bytes that were sent to be shown.
    sent: u64,
    /// Bytes that a terminal was too slow for.
    left_out: u64,
}

/// The state that both threads share.
#[derive(Debug, Default)]
struct Shared {
    /// The memory of the pieces that wait.
    waiting: AtomicU64,
    /// Bytes that were shown.
    shown: AtomicU64,
    /// True once the reader of the output is gone.
    gone: AtomicBool,
}

impl<'a> LiveOutput<'a> {
    /// Starts the thread that shows the output. With `--json` none is shown. Fails if no thread can be started.
    pub(super) fn new(context: &'a Context<'a>) -> io::Result<LiveOutput<'a>> {
        let is_shown = !context.global.json;
        let terminal = io::stdout().is_terminal();
        let shared = Arc::new(Shared::default());
        let (sender, pieces) = channel();
        let (end, ended) = channel();
        if is_shown {
            let shared = shared.clone();
            // Never waited for without end: it may stand in a pipe that nobody reads.
            std::thread::Builder::new().spawn(move || {
                let shown = show(terminal, &pieces, &shared);
                shared.gone.store(true, Ordering::Release);
                let _ = end.send(shown);
            })?;
        }
        let pieces = is_shown.then_some(sender);
        Ok(LiveOutput { context, pieces, shared, ended, terminal, sent: 0, left_out: 0 })
    }

    /// Writes how many bytes of the output of a command were left out.
    pub(super) fn note_gaps(&mut self) {
        if self.left_out > 0 {
            let note = format!("\n[{} bytes came faster than they could be shown]\n", self.left_out);
            self.left_out = 0;
            self.send(note.as_bytes());
        }
    }

    /// Waits until everything is shown. From the moment on that it is said to be late, only as long as somebody reads.
    /// Gives what is to be said if not everything was shown, though somebody may still want it.
    pub(super) fn close(mut self, is_late: impl Fn() -> bool) -> Result<(), String> {
        if self.pieces.take().is_none() {
            return Ok(());
        }
        let mut last = (0, Instant::now());
        loop {
            match self.ended.recv_timeout(LOOK_EVERY) {
                Ok(Err(e)) if e.kind() != io::ErrorKind::BrokenPipe => {
                    let what = "what it wrote could not all be written to standard output";
                    return Err(format!("{what}: {e}"));
                }
                Ok(_) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("what it wrote could not be shown".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let shown = self.shared.shown.load(Ordering::Acquire);
            if shown != last.0 {
                last = (shown, Instant::now());
            } else if last.1.elapsed() > PATIENCE && is_late() {
                let left = self.sent.saturating_sub(shown);
                return Err(format!(
                    "{left} bytes of what it wrote were not shown, because nobody read them"
                ));
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let Some(pieces) = self.pieces.as_ref().filter(|_| !self.shared.gone.load(Ordering::Acquire)) else {
            return;
        };
        self.shared.waiting.fetch_add(weight(bytes), Ordering::AcqRel);
        if pieces.send(bytes.to_vec()).is_ok() {
            self.sent += bytes.len() as u64;
        }
    }

    fn is_full(&self) -> bool {
        let waiting = self.shared.waiting.load(Ordering::Acquire);
        waiting >= WAITING_MAX && !self.shared.gone.load(Ordering::Acquire)
    }
}

impl OutputObserver for LiveOutput<'_> {
    fn has_room(&mut self) -> bool {
        self.terminal || !self.is_full()
    }

    fn tell(&mut self, bytes: &[u8]) {
        if self.terminal && self.is_full() {
            self.left_out += bytes.len() as u64;
        } else {
            self.send(bytes);
        }
    }

    fn on_wait(&mut self) {
        self.context.note("another command runs in this directory; this one begins when that one has ended");
    }
}

/// Returns the memory of a piece. A command that writes byte by byte makes many small ones.
fn weight(bytes: &[u8]) -> u64 {
    bytes.len() as u64 + 64
}

/// Shows what comes: as it is in a pipe, without what a terminal would obey on one.
fn show(terminal: bool, pieces: &Receiver<Vec<u8>>, shared: &Shared) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    let mut left: Vec<u8> = Vec::new();
    for piece in pieces {
        if terminal {
            left.extend_from_slice(&piece);
            // Half a character waits for its other half.
            let whole = whole_characters(&left);
            let text = String::from_utf8_lossy(&left[..whole]).replace("\r\n", "\n");
            left.drain(..whole);
            stdout.write_all(term::block(&text).as_bytes())?;
            shared.shown.fetch_add(piece.len() as u64, Ordering::AcqRel);
        } else {
            for chunk in piece.chunks(CHUNK_BYTES) {
                stdout.write_all(chunk)?;
                shared.shown.fetch_add(chunk.len() as u64, Ordering::AcqRel);
            }
        }
        stdout.flush()?;
        shared.waiting.fetch_sub(weight(&piece), Ordering::AcqRel);
    }
    stdout.write_all(term::block(&String::from_utf8_lossy(&left)).as_bytes())?;
    stdout.flush()
}

/// Returns the number of bytes that can be shown: all but a character at the end that is not complete yet.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
    let is_begun = std::str::from_utf8(last).is_err_and(|e| e.error_len().is_none());
    if is_begun { bytes.len() - last.len() } else { bytes.len() }
}

/// The memory that pieces may take while they wait to be shown.
const WAITING_MAX: u64 = 4 << 20;
/// Written at once; what is more is seen as progress piece by piece.
const CHUNK_BYTES: usize = 4096;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A reader that reads nothing for this long when the time is up is given up.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_comes_in_two_pieces_is_shown_whole() {
        for text in ["plain", "é", "日本", "👩x", ""] {
            assert_eq!(whole_characters(text.as_bytes()), text.len());
            for cut in 0..=text.len() {
                let whole = whole_characters(&text.as_bytes()[..cut]);
                assert!(text.is_char_boundary(whole) && cut - whole < 4, "{text} cut at {cut}");
            }
        }
        assert_eq!(whole_characters(b"\xff\xff"), 2, "what never becomes a character does not wait");
        assert_eq!(whole_characters(b"\xf0\x28"), 2);
    }
}
