//! Searches the bytes of a file as they are, without reading records. That is many times faster, for a caller that
//! seldom finds what it looks for.

use manent_log::fs::{Access, read_fully};
use memchr::memmem::Finder;

use super::store_dir::StoreDir;
use crate::error::{Result, io_error};
use crate::streams::StreamId;

impl StoreDir {
    /// Returns whether these bytes stand anywhere in the live file of a stream, as it is at this moment. False if there
    /// is no file.
    pub(super) fn mentions(&self, id: &StreamId, word: &[u8]) -> Result<bool> {
        let (path, found) = self.look_for_live(id.space, &id.key, "")?;
        let Some(info) = found else { return Ok(false) };
        let file = match self.reading.open(&path, Access::Read) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            opened => opened.map_err(io_error("open", &path))?,
        };
        let finder = Finder::new(word);
        let mut block = vec![0; BLOCK_BYTES.min(info.len as usize) + word.len()];
        // The end of the block before: the word may begin there.
        let mut kept = 0;
        let mut offset = 0;
        loop {
            let read = read_fully(&*file, &mut block[kept..], offset).map_err(io_error("read", &path))?;
            let filled = kept + read;
            if finder.find(&block[..filled]).is_some() {
                return Ok(true);
            }
            if filled < block.len() {
                return Ok(false);
            }
            offset += read as u64;
            let from = filled - word.len().saturating_sub(1);
            block.copy_within(from..filled, 0);
            kept = filled - from;
        }
    }
}

/// What fits into the cache of a processor, so that it is looked through where it was just read to.
const BLOCK_BYTES: usize = 256 << 10;
