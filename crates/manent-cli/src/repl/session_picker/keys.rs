//! Bytes of a terminal become keys, in whatever pieces they come.

/// A key that means something to a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
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
pub(super) struct KeyDecoder {
    bytes: Vec<u8>,
}

impl KeyDecoder {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns true if there are bytes that may be the beginning of a key.
    pub(super) fn is_waiting(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Decodes the bytes that are left, because no more follow soon.
    pub(super) fn flush(&mut self) -> Key {
        let lone = self.bytes == [ESCAPE];
        self.bytes.clear();
        if lone { Key::Leave } else { Key::Other }
    }

    pub(super) fn next(&mut self) -> Option<Key> {
        let (key, used) = read(&self.bytes)?;
        self.bytes.drain(..used);
        Some(key)
    }
}

/// The first key, and how many bytes it takes; nothing if more must come.
fn read(bytes: &[u8]) -> Option<(Key, usize)> {
    let first = *bytes.first()?;
    Some(match first {
        b'\r' | b'\n' => (Key::Enter, 1),
        0x03 | 0x04 => (Key::Leave, 1),
        0x08 | 0x7f => (Key::Back, 1),
        0x0e => (Key::Down, 1),
        0x10 => (Key::Up, 1),
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
                b"A" => Key::Up,
                b"B" => Key::Down,
                b"5~" => Key::PageUp,
                b"6~" => Key::PageDown,
                _ => Key::Other,
            };
            Some((key, end + 3))
        }
        ESCAPE => Some((Key::Leave, 1)),
        _ => Some((Key::Other, 2)),
    }
}

fn character(bytes: &[u8]) -> Option<(Key, usize)> {
    let wanted = match bytes[0] {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => return Some((Key::Other, 1)),
    };
    let bytes = bytes.get(..wanted)?;
    let c = std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next());
    Some(c.map_or((Key::Other, 1), |c| (Key::Char(c), wanted)))
}

const ESCAPE: u8 = 0x1b;
const SEQUENCE_BYTES_MAX: usize = 32;

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
            Key::Up,
            Key::Down,
            Key::PageUp,
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
}
