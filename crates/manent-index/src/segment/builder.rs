//! Writes segments: from records, and from other segments.
//!
//! Words are only numbered as they come; the numbers are sorted when the segment is finished. That touches memory in
//! order, which is several times faster than keeping a growing list for every word.
//!
//! A merge leaves out the records of streams that are gone: that is how the words of a purged session leave the disk.

use std::collections::HashMap;
use std::ops::Range;

use crate::error::{IndexResult, broken};
use crate::query::score;
use crate::segment::dictionary::{DictionaryWriter, TermCursor, TermEntry};
use crate::segment::postings::{self, BlockBound, tag_at};
use crate::segment::view::SegmentView;
use crate::segment::{RECORD_REF_BYTES, RecordRef, Run, Segment, SegmentParts, UNNAMED_ROLE, put_record_ref};
use crate::words::{Words, ends_in_question, parts_of};

/// Builds a segment from records.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    words: Words,
    known: HashMap<Box<str>, u32, foldhash::fast::RandomState>,
    /// The tag of every word.
    tags: Vec<u8>,
    /// The number of occurrences of every word.
    counts: Vec<u32>,
    /// The numbers of all words, in the order of the text.
    occurrences: Vec<u32>,
    /// The end of each record in `occurrences`.
    ends: Vec<u32>,
    seconds: Vec<u32>,
    parts: SegmentParts,
    /// The parts of the words of a record that are written as `camelCase`, as ranges in its text.
    parts_of_words: Vec<Range<usize>>,
    word_bytes: usize,
}

/// The properties of a record that are indexed besides its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TurnInfo<'a> {
    pub(crate) role: &'a str,
    /// Seconds since 1970.
    pub(crate) second: u32,
    pub(crate) record: RecordRef,
}

impl Builder {
    /// Begins records of a session, of which `before` were indexed before, the last `echo` of them also with this run.
    pub(crate) fn begin_run(&mut self, session: u64, echo: u32, before: u64) {
        self.parts.runs.push(Run { first: self.ends.len() as u32, count: 0, session, echo, before });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// About how many bytes all of it takes, until it is finished.
    pub(crate) fn memory(&self) -> usize {
        self.occurrences.len() * 2 * size_of::<u32>() + self.ends.len() * TURN_BYTES + self.word_bytes
    }

    pub(crate) fn add(&mut self, turn: TurnInfo<'_>, text: &str) {
        let before = self.occurrences.len();
        let Builder { words, known, tags, counts, occurrences, word_bytes, parts_of_words, .. } = self;
        let mut add = |word: &str| {
            let number = if let Some(number) = known.get(word) {
                *number
            } else {
                let number = tags.len() as u32;
                known.insert(word.into(), number);
                tags.push(postings::tag(word));
                counts.push(0);
                *word_bytes += WORD_BYTES + word.len();
                number
            };
            counts[number as usize] += 1;
            occurrences.push(number);
        };
        parts_of_words.clear();
        words.split(text, |word, range| {
            add(word);
            parts_of(&text[range.clone()], |_, part| {
                parts_of_words.push(range.start + part.start..range.start + part.end);
            });
        });
        // Behind the text, so that they stand between no words of a phrase.
        for part in parts_of_words {
            add(&text[part.clone()].to_ascii_lowercase());
        }
        let parts = self.parts_of_words.len();
        self.parts.norms.push(score::norm_of((self.occurrences.len() - before - parts) as u32));
        self.parts.questions.push(u8::from(ends_in_question(text)));
        self.ends.push(self.occurrences.len() as u32);
        self.seconds.push(turn.second);
        let role = self.parts.role(turn.role);
        self.parts.role_of.push(role);
        put_record_ref(&mut self.parts.record_refs, turn.record);
        if let Some(run) = self.parts.runs.last_mut() {
            run.count += 1;
        }
    }

    /// Returns the bytes of the segment.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let (begins, met) = self.sorted();
        let Builder { known, seconds, mut parts, .. } = self;
        parts.runs.retain(|run| run.count > 0);
        let mut words: Vec<(Box<str>, u32)> = known.into_iter().collect();
        words.sort_unstable();
        let mut dictionary = DictionaryWriter::default();
        {
            let (mut docs, mut times, mut tags) = (Vec::new(), Vec::new(), Vec::new());
            for (word, number) in words {
                docs.clear();
                times.clear();
                tags.clear();
                for met in &met[begins[number as usize] as usize..begins[number as usize + 1] as usize] {
                    let (doc, tag) = (met >> TAG_BITS, (met & TAG_MASK) as u8);
                    if docs.last() == Some(&doc) {
                        if let Some(last) = times.last_mut() {
                            *last += 1;
                        }
                    } else {
                        docs.push(doc);
                        times.push(1);
                    }
                    tags.push(tag);
                }
                parts.word(&mut dictionary, word.as_bytes(), &docs, &times, &tags, &seconds);
            }
        }
        drop(met);
        parts.set_seconds(&seconds);
        drop(seconds);
        (parts.words, parts.heads) = dictionary.finish();
        parts.bytes()
    }

    /// Returns for each occurrence of a word its record, and in the low bits the tag of the word behind it: first all
    /// occurrences of the first word, then those of the second, and where each word begins. Frees what they were made
    /// of.
    fn sorted(&mut self) -> (Vec<u32>, Vec<u32>) {
        let (occurrences, ends) = (std::mem::take(&mut self.occurrences), std::mem::take(&mut self.ends));
        let mut begins = Vec::with_capacity(self.counts.len() + 1);
        let mut next = 0;
        for count in &self.counts {
            begins.push(next);
            next += count;
        }
        begins.push(next);
        let mut free = begins.clone();
        let mut met = vec![0; occurrences.len()];
        let mut from = 0;
        for (doc, end) in ends.iter().enumerate() {
            let turn = &occurrences[from as usize..*end as usize];
            for (at, number) in turn.iter().enumerate() {
                let tag = turn.get(at + 1).map_or(0, |next| self.tags[*next as usize]);
                let slot = &mut free[*number as usize];
                met[*slot as usize] = (doc as u32) << TAG_BITS | u32::from(tag);
                *slot += 1;
            }
            from = *end;
        }
        (begins, met)
    }
}

impl SegmentParts {
    /// Sets the time of each record.
    pub(crate) fn set_seconds(&mut self, seconds: &[u32]) {
        self.seconds.reserve_exact(size_of_val(seconds));
        for second in seconds {
            self.seconds.extend_from_slice(&second.to_le_bytes());
        }
    }

    /// Adds a word, which comes behind all that were added before.
    pub(crate) fn word(
        &mut self,
        dictionary: &mut DictionaryWriter,
        word: &[u8],
        docs: &[u32],
        times: &[u32],
        tags: &[u8],
        seconds: &[u32],
    ) {
        let (lists, before) = (self.lists.len(), self.tags.len());
        let norms = &self.norms;
        let bound = |doc: u32, times: u32| BlockBound {
            impact: score::impact(times, norms.get(doc as usize).copied().unwrap_or_default()),
            newest: seconds.get(doc as usize).copied().unwrap_or_default(),
        };
        postings::encode(&mut self.lists, docs, times, bound);
        postings::put_tags(&mut self.tags, tags);
        let (list_bytes, tag_bytes) = (self.lists.len() - lists, self.tags.len() - before);
        dictionary.word(word, docs.len() as u32, list_bytes as u64, tag_bytes as u64);
    }
}

/// The bytes that a word costs besides its text, about.
const WORD_BYTES: usize = 80;
/// The bytes that a turn costs besides its words, about: 30 while turns are taken in, 40 while the segment is put
/// together.
const TURN_BYTES: usize = 40;
const TAG_BITS: u32 = 4;
const TAG_MASK: u32 = 15;

/// Merges segments, without the records of streams that are gone, in their order. Returns the bytes of the segment.
pub(crate) fn merge(views: &[SegmentView]) -> IndexResult<Vec<u8>> {
    let mut parts = SegmentParts::default();
    let mut sources = Vec::with_capacity(views.len());
    let mut seconds = Vec::new();
    for view in views {
        let shifts = take_over(view, &mut parts, &mut seconds)?;
        sources.push(Source::new(&view.segment, shifts)?);
    }
    let mut dictionary = DictionaryWriter::default();
    let mut word = Vec::new();
    let (mut docs, mut times, mut tags) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(first) = sources.iter().filter(|s| s.entry.is_some()).map(|s| s.cursor.word()).min() {
        word.clear();
        word.extend_from_slice(first);
        docs.clear();
        times.clear();
        tags.clear();
        for source in &mut sources {
            if source.entry.is_some() && source.cursor.word() == word {
                source.give(&mut docs, &mut times, &mut tags)?;
            }
        }
        if !docs.is_empty() {
            parts.word(&mut dictionary, &word, &docs, &times, &tags, &seconds);
        }
    }
    drop((docs, times, tags));
    parts.set_seconds(&seconds);
    drop(seconds);
    (parts.words, parts.heads) = dictionary.finish();
    Ok(parts.bytes())
}

/// The runs of a segment that stay: first record, end, and the new number of the first.
type Shifts = Vec<(u32, u32, u32)>;

fn take_over(view: &SegmentView, parts: &mut SegmentParts, seconds: &mut Vec<u32>) -> IndexResult<Shifts> {
    let segment = &view.segment;
    let (norms, roles, record_refs) = (segment.norms()?, segment.role_of()?, segment.record_refs()?);
    let questions = segment.questions()?;
    let old_seconds = segment.seconds()?;
    // Only the names of roles that somebody still has.
    let mut role_now = [None; UNNAMED_ROLE as usize + 1];
    role_now[usize::from(UNNAMED_ROLE)] = Some(UNNAMED_ROLE);
    let mut shifts = Vec::new();
    for (run, row) in segment.runs.iter().zip(&view.rows) {
        if row.is_none() {
            continue;
        }
        let first = parts.norms.len() as u32;
        let range = run.first as usize..run.end() as usize;
        parts.norms.extend_from_slice(&norms[range.clone()]);
        parts.questions.extend_from_slice(&questions[range.clone()]);
        for role in roles[range.clone()].iter().map(|role| usize::from(*role)) {
            if role_now[role].is_none() {
                let name = segment.roles.get(role).ok_or_else(|| broken("an unknown role"))?;
                role_now[role] = Some(parts.role(name));
            }
            parts.role_of.push(role_now[role].unwrap_or(UNNAMED_ROLE));
        }
        parts
            .record_refs
            .extend_from_slice(&record_refs[range.start * RECORD_REF_BYTES..range.end * RECORD_REF_BYTES]);
        for doc in run.first..run.end() {
            seconds.push(old_seconds.of(doc));
        }
        parts.runs.push(Run { first, ..run.clone() });
        shifts.push((run.first, run.end(), first));
    }
    Ok(shifts)
}

/// A segment to merge, read word by word.
struct Source<'a> {
    segment: &'a Segment,
    cursor: TermCursor<'a>,
    entry: Option<TermEntry>,
    shifts: Shifts,
}

impl<'a> Source<'a> {
    fn new(segment: &'a Segment, shifts: Shifts) -> IndexResult<Source<'a>> {
        let mut cursor = segment.words.cursor();
        let entry = cursor.next()?;
        Ok(Source { segment, cursor, entry, shifts })
    }

    /// Adds the turns of the word that is looked at, and goes to the next word.
    fn give(&mut self, docs: &mut Vec<u32>, times: &mut Vec<u32>, tags: &mut Vec<u8>) -> IndexResult<()> {
        let Some(entry) = self.entry.take() else { return Ok(()) };
        let mut list = self.segment.list(&entry)?;
        let own_tags = self.segment.raw_tags(&entry)?;
        let mut at = 0;
        let mut shift = 0;
        for block in 0..list.blocks() {
            list.unpack(block)?;
            let (of_block, times_of_block) = list.unpacked();
            for (doc, count) in of_block.iter().zip(times_of_block) {
                while self.shifts.get(shift).is_some_and(|(_, end, _)| *end <= *doc) {
                    shift += 1;
                }
                let end = at + *count as usize;
                if let Some((first, _, now)) = self.shifts.get(shift).filter(|(first, ..)| first <= doc) {
                    let doc = now + (doc - first);
                    if docs.last().is_some_and(|last| *last >= doc) {
                        return Err(broken("a list goes backwards"));
                    }
                    docs.push(doc);
                    times.push(*count);
                    for at in at..end {
                        tags.push(tag_at(&own_tags, at).ok_or_else(|| broken("tags are missing"))?);
                    }
                }
                at = end;
            }
        }
        self.entry = self.cursor.next()?;
        Ok(())
    }
}
