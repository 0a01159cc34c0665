//! Makes one segment of several, without the sessions that are gone: what they said leaves the disk with it.

use crate::damage::{IndexResult, broken};
use crate::dictionary::{Cursor, DictionaryWriter, Entry};
use crate::postings::tag_at;
use crate::segment::{Parts, Run, SPOT_BYTES, Segment, UNNAMED_ROLE};
use crate::segment_view::SegmentView;

/// The bytes of a segment that holds what is still there of these, in their order.
pub(crate) fn merge(views: &[SegmentView]) -> IndexResult<Vec<u8>> {
    let mut parts = Parts::default();
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

/// For each run of a segment that stays, where its turns go: first, end, and its new first.
type Shifts = Vec<(u32, u32, u32)>;

fn take_over(view: &SegmentView, parts: &mut Parts, seconds: &mut Vec<u32>) -> IndexResult<Shifts> {
    let segment = &view.segment;
    let (norms, roles, spots) = (segment.norms()?, segment.role_of()?, segment.spots()?);
    let said = segment.seconds()?;
    // Only the names of roles that somebody still has.
    let mut role_now = [None; UNNAMED_ROLE as usize + 1];
    role_now[usize::from(UNNAMED_ROLE)] = Some(UNNAMED_ROLE);
    let mut shifts = Vec::new();
    for (run, row) in segment.runs().iter().zip(&view.rows) {
        if row.is_none() {
            continue;
        }
        let first = parts.norms.len() as u32;
        let range = run.first as usize..run.end() as usize;
        parts.norms.extend_from_slice(&norms[range.clone()]);
        for role in roles[range.clone()].iter().map(|role| usize::from(*role)) {
            if role_now[role].is_none() {
                let name = segment.roles().get(role).ok_or_else(|| broken("an unknown role"))?;
                role_now[role] = Some(parts.role(name));
            }
            parts.role_of.push(role_now[role].unwrap_or(UNNAMED_ROLE));
        }
        parts.spots.extend_from_slice(&spots[range.start * SPOT_BYTES..range.end * SPOT_BYTES]);
        for doc in run.first..run.end() {
            seconds.push(said.of(doc));
        }
        parts.runs.push(Run { first, ..run.clone() });
        shifts.push((run.first, run.end(), first));
    }
    Ok(shifts)
}

/// One of the segments, word by word.
struct Source<'a> {
    segment: &'a Segment,
    cursor: Cursor<'a>,
    entry: Option<Entry>,
    shifts: Shifts,
}

impl<'a> Source<'a> {
    fn new(segment: &'a Segment, shifts: Shifts) -> IndexResult<Source<'a>> {
        let mut cursor = segment.words().cursor();
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
