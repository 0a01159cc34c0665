//! Where the decoded text of a session lies: a few large blocks, filled from the front.
//!
//! Loading a large session costs more in page faults than in parsing, so large blocks are mapped in huge pages. They
//! are anonymous memory, not the file: a live log is never mapped. Small sessions get ordinary memory of their own
//! size, so that thousands of them can be held.

use std::io;

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::MmapMut;

/// Blocks of bytes.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    blocks: Vec<Block>,
    /// How much of the last block is used.
    len: usize,
    /// How large the first block should be.
    first_bytes: usize,
}

/// A place in an arena.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot {
    block: u32,
    at: usize,
}

#[derive(Debug)]
enum Block {
    Small(Vec<u8>),
    Large(MmapMut),
}

impl Arena {
    /// An arena for about so many bytes. Nothing is taken before something is put in.
    pub(crate) fn for_about(bytes: u64) -> Arena {
        let first_bytes = usize::try_from(bytes).unwrap_or(BLOCK_BYTES_MAX).min(BLOCK_BYTES_MAX);
        Arena { first_bytes, ..Arena::default() }
    }

    /// Sees to it that [`Arena::room`] has at least so many bytes.
    pub(crate) fn make_room(&mut self, bytes: usize) -> io::Result<()> {
        if self.blocks.last().is_some_and(|block| block.bytes().len() - self.len >= bytes) {
            return Ok(());
        }
        let wanted = if self.blocks.is_empty() { self.first_bytes } else { BLOCK_BYTES_NEXT };
        self.blocks.push(Block::of(wanted.saturating_add(bytes))?);
        self.len = 0;
        Ok(())
    }

    /// The free bytes of the last block, and where they begin.
    pub(crate) fn room(&mut self) -> (&mut [u8], Spot) {
        let spot = Spot { block: self.blocks.len().saturating_sub(1) as u32, at: self.len };
        let room = self.blocks.last_mut().map_or(&mut [][..], |block| &mut block.bytes_mut()[self.len..]);
        (room, spot)
    }

    /// The first so many bytes of the room were filled.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.len += bytes;
    }

    /// The bytes of a block from a spot on.
    pub(crate) fn from(&self, spot: Spot) -> &[u8] {
        let block = self.blocks.get(spot.block as usize);
        block.and_then(|block| block.bytes().get(spot.at..)).unwrap_or_default()
    }
}

impl Block {
    fn of(bytes: usize) -> io::Result<Block> {
        if bytes < LARGE_FROM_BYTES {
            return Ok(Block::Small(vec![0; bytes]));
        }
        let map = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE_BYTES))?;
        // Only a wish: without huge pages it is slower, not wrong.
        #[cfg(target_os = "linux")]
        let _ = map.advise(Advice::HugePage);
        Ok(Block::Large(map))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Block::Small(bytes) => bytes,
            Block::Large(map) => map,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Block::Small(bytes) => bytes,
            Block::Large(map) => map,
        }
    }
}

const HUGE_PAGE_BYTES: usize = 2 << 20;
const LARGE_FROM_BYTES: usize = 4 << 20;
/// A file may claim any length; no more than this is taken on its word.
const BLOCK_BYTES_MAX: usize = 1 << 30;
/// For what a file grew by while it was read.
const BLOCK_BYTES_NEXT: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_where_they_were_put_in_blocks_of_any_size() {
        for about in [0, 100, 5 << 20, u64::MAX] {
            let mut arena = Arena::for_about(about);
            let mut spots = Vec::new();
            for n in 0..2_000_u32 {
                let text = n.to_string().repeat(900);
                arena.make_room(text.len()).expect("memory");
                let (room, spot) = arena.room();
                room[..text.len()].copy_from_slice(text.as_bytes());
                arena.advance(text.len());
                spots.push((spot, text));
            }
            for (spot, text) in &spots {
                assert_eq!(&arena.from(*spot)[..text.len()], text.as_bytes());
            }
        }
    }
}
