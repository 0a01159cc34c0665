//! Standard input, line by line.

use std::io::{self, BufRead, BufReader, Read, StdinLock};

use manent::log::frame::RECORD_BYTES_MAX;

use crate::exit::Failure;

/// The lines of standard input, none of them longer than a record may be.
pub(crate) struct InputLines {
    input: BufReader<StdinLock<'static>>,
    /// The line that was read last, with its line break. Of one that is too long, the beginning.
    pub(crate) line: Vec<u8>,
    /// The number of that line, from 1.
    pub(crate) number: u64,
}

/// The result of reading a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputLine {
    Complete,
    TooLong,
    End,
}

impl InputLines {
    pub(crate) fn new() -> InputLines {
        let input = BufReader::with_capacity(256 << 10, io::stdin().lock());
        InputLines { input, line: Vec::new(), number: 0 }
    }

    /// Reads the next line into `line`, at most one byte more than a record may have.
    pub(crate) fn next(&mut self) -> Result<InputLine, Failure> {
        self.line.clear();
        self.number += 1;
        let bytes = self.read(RECORD_BYTES_MAX as u64 + 1)?;
        Ok(match bytes {
            0 => InputLine::End,
            bytes if bytes > RECORD_BYTES_MAX => InputLine::TooLong,
            _ => InputLine::Complete,
        })
    }

    /// Passes over the rest of a line that is too long. Returns the length of all of it.
    pub(crate) fn skip_rest(&mut self) -> Result<u64, Failure> {
        let mut bytes = self.line.len() as u64;
        while !self.line.ends_with(b"\n") {
            self.line.clear();
            match self.read(SKIPPED_BYTES)? {
                0 => break,
                more => bytes += more as u64,
            }
        }
        // A long line need not be kept in memory until the next long one comes.
        self.line = Vec::new();
        Ok(bytes)
    }

    /// Returns true if a further line has come already, so that reading it does not wait.
    pub(crate) fn has_more(&self) -> bool {
        self.input.buffer().contains(&b'\n')
    }

    fn read(&mut self, bytes_max: u64) -> io::Result<usize> {
        self.input.by_ref().take(bytes_max).read_until(b'\n', &mut self.line)
    }
}

/// Returns the failure of a line that does not fit into a record.
pub(crate) fn too_large(bytes: u64) -> Failure {
    manent::log::Error::TooLarge { bytes, max: RECORD_BYTES_MAX as u64 }.into()
}

const SKIPPED_BYTES: u64 = 1 << 20;
