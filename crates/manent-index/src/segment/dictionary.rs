//! The words of a segment, sorted, and where the list of each lies.
//!
//! Words stand in blocks of some kilobytes, each word without what it shares with the one before it. The first word
//! of every block is kept in memory, so that one block is read to find a word, and a run of them for a prefix.
//!
//! ```text
//! block: shared, length, rest of the word, turns, bytes of the list, bytes of the tags (numbers) × words
//! heads: first word, bytes of the block, bytes of the lists, bytes of the tags × blocks
//! ```

use std::cmp::Ordering;
use std::ops::Range;

use crate::error::{IndexResult, broken};
use crate::pages::{Bytes, Pages, VarintReader, put};

/// The posting list of a word, as the dictionary describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TermEntry {
    /// The number of records with the word.
    pub(crate) count: u32,
    /// The range of the posting list in the file.
    pub(crate) list: Range<u64>,
    /// The range of the tags in the file.
    pub(crate) tags: Range<u64>,
}

/// Writes the words of a segment, which come sorted.
#[derive(Debug, Default)]
pub(crate) struct DictionaryWriter {
    blocks: Vec<u8>,
    heads: Vec<u8>,
    block_at: usize,
    previous: Vec<u8>,
    /// Bytes of the lists and tags of the words of this block.
    block_lists: u64,
    block_tags: u64,
}

impl DictionaryWriter {
    pub(crate) fn word(&mut self, word: &[u8], count: u32, list_bytes: u64, tag_bytes: u64) {
        if self.blocks.len() - self.block_at >= BLOCK_BYTES {
            self.end_block();
        }
        if self.blocks.len() == self.block_at {
            put(&mut self.heads, word.len() as u64);
            self.heads.extend_from_slice(word);
            self.previous.clear();
        }
        let shared = self.previous.iter().zip(word).take_while(|(a, b)| a == b).count();
        put(&mut self.blocks, shared as u64);
        put(&mut self.blocks, (word.len() - shared) as u64);
        self.blocks.extend_from_slice(&word[shared..]);
        for number in [u64::from(count), list_bytes, tag_bytes] {
            put(&mut self.blocks, number);
        }
        self.previous.clear();
        self.previous.extend_from_slice(word);
        self.block_lists += list_bytes;
        self.block_tags += tag_bytes;
    }

    fn end_block(&mut self) {
        for number in [(self.blocks.len() - self.block_at) as u64, self.block_lists, self.block_tags] {
            put(&mut self.heads, number);
        }
        (self.block_at, self.block_lists, self.block_tags) = (self.blocks.len(), 0, 0);
    }

    /// The blocks, and the heads of the blocks.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        if self.blocks.len() > self.block_at {
            self.end_block();
        }
        (self.blocks, self.heads)
    }
}

/// The words of a segment.
#[derive(Debug)]
pub(crate) struct Dictionary {
    pages: Pages,
    heads: Vec<Head>,
    /// The heads as they were written: the first words are in them.
    written: Bytes,
}

#[derive(Debug)]
struct Head {
    /// The range of the first word in the written heads.
    first: Range<u32>,
    block: Range<u64>,
    list: u64,
    tags: u64,
}

impl Dictionary {
    /// `heads` as they were written; the blocks lie at `blocks`, the lists from `lists` and the tags from `tags`.
    pub(crate) fn open(
        pages: Pages,
        written: Bytes,
        blocks: u64,
        lists: u64,
        tags: u64,
    ) -> IndexResult<Dictionary> {
        let mut numbers = VarintReader::new(&written);
        let (mut block, mut list, mut tags) = (blocks, lists, tags);
        let mut heads = Vec::new();
        while !numbers.is_at_end() {
            let len = numbers.next()? as usize;
            let start = numbers.position() as u32;
            numbers.take(len)?;
            let first = start..numbers.position() as u32;
            let end = add(block, numbers.next()?)?;
            heads.push(Head { first, block: block..end, list, tags });
            (block, list, tags) = (end, add(list, numbers.next()?)?, add(tags, numbers.next()?)?);
        }
        Ok(Dictionary { pages, heads, written })
    }

    /// The block in which a word would stand.
    fn block_of(&self, word: &[u8]) -> usize {
        let first = |head: &Head| &self.written[head.first.start as usize..head.first.end as usize];
        self.heads.partition_point(|head| first(head) <= word).saturating_sub(1)
    }

    /// Finds the entry of a word.
    pub(crate) fn find(&self, word: &str) -> IndexResult<Option<TermEntry>> {
        let mut cursor = TermCursor::new(self, self.block_of(word.as_bytes()));
        while let Some(entry) = cursor.next()? {
            match cursor.word().cmp(word.as_bytes()) {
                Ordering::Less => {}
                Ordering::Equal => return Ok(Some(entry)),
                Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    /// Calls `each` for every word with a prefix.
    pub(crate) fn with_prefix(
        &self,
        prefix: &str,
        mut each: impl FnMut(&[u8], TermEntry),
    ) -> IndexResult<()> {
        let prefix = prefix.as_bytes();
        let mut cursor = TermCursor::new(self, self.block_of(prefix));
        while let Some(entry) = cursor.next()? {
            if cursor.word().starts_with(prefix) {
                each(cursor.word(), entry);
            } else if cursor.word() > prefix {
                break;
            }
        }
        Ok(())
    }

    /// All words in order.
    pub(crate) fn cursor(&self) -> TermCursor<'_> {
        TermCursor::new(self, 0)
    }
}

/// Goes through the words in order.
#[derive(Debug)]
pub(crate) struct TermCursor<'a> {
    dictionary: &'a Dictionary,
    /// The block to be read next.
    next_block: usize,
    block: Option<Bytes>,
    at: usize,
    word: Vec<u8>,
    list: u64,
    tags: u64,
}

impl<'a> TermCursor<'a> {
    fn new(dictionary: &'a Dictionary, next_block: usize) -> TermCursor<'a> {
        TermCursor { dictionary, next_block, block: None, at: 0, word: Vec::new(), list: 0, tags: 0 }
    }

    /// The word to which [`TermCursor::next`] went.
    pub(crate) fn word(&self) -> &[u8] {
        &self.word
    }

    pub(crate) fn next(&mut self) -> IndexResult<Option<TermEntry>> {
        if self.block.as_ref().is_none_or(|block| self.at >= block.len()) {
            let Some(head) = self.dictionary.heads.get(self.next_block) else { return Ok(None) };
            self.block = Some(self.dictionary.pages.read(head.block.clone())?);
            (self.list, self.tags, self.at) = (head.list, head.tags, 0);
            self.next_block += 1;
            self.word.clear();
        }
        let block = self.block.as_deref().unwrap_or_default();
        let mut numbers = VarintReader::new(&block[self.at..]);
        let (shared, len) = (numbers.next()? as usize, numbers.next()? as usize);
        self.word.truncate(shared);
        self.word.extend_from_slice(numbers.take(len)?);
        let count = numbers.next_u32()?;
        let (list, tags) = (add(self.list, numbers.next()?)?, add(self.tags, numbers.next()?)?);
        self.at += numbers.position();
        let entry = TermEntry { count, list: self.list..list, tags: self.tags..tags };
        (self.list, self.tags) = (list, tags);
        Ok(Some(entry))
    }
}

fn add(a: u64, b: u64) -> IndexResult<u64> {
    a.checked_add(b).ok_or_else(|| broken("a length is too large"))
}

const BLOCK_BYTES: usize = 4096;
