//! Numbers as the index writes them: few bytes for small ones.

use crate::damage::{IndexResult, broken};

/// Seven bits a byte, the low ones first; the last byte has no high bit.
pub(crate) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Reads along.
#[derive(Debug, Clone)]
pub(crate) struct Numbers<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Numbers<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Numbers<'a> {
        Numbers { bytes, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    #[inline]
    pub(crate) fn next(&mut self) -> IndexResult<u64> {
        match self.bytes.get(self.at) {
            Some(byte) if *byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(*byte))
            }
            _ => self.next_long(),
        }
    }

    /// Some numbers at once: most are small, and that they all are is known by one look.
    #[inline]
    pub(crate) fn next_few<const N: usize>(&mut self) -> IndexResult<[u64; N]> {
        let few = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>);
        if let Some(few) = few.filter(|few| few.iter().fold(0, |all, byte| all | byte) < 0x80) {
            self.at += N;
            return Ok(few.map(u64::from));
        }
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.next()?;
        }
        Ok(numbers)
    }

    fn next_long(&mut self) -> IndexResult<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or_else(|| broken("a number is cut short"))?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(broken("a number is too long"))
    }

    pub(crate) fn next_u32(&mut self) -> IndexResult<u32> {
        u32::try_from(self.next()?).map_err(|_| broken("a number is too large"))
    }

    pub(crate) fn take(&mut self, len: usize) -> IndexResult<&'a [u8]> {
        let end = self.at.checked_add(len).ok_or_else(|| broken("a length is too large"))?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| broken("cut short"))?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn text(&mut self) -> IndexResult<&'a str> {
        let len = self.next()? as usize;
        std::str::from_utf8(self.take(len)?).map_err(|_| broken("a text is no text"))
    }
}
