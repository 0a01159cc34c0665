//! Scores (BM25) and the top K.
//!
//! The average length in BM25 is a constant. So the best score within a block of a posting list can be stored when the
//! block is written, and a score is the same before and after the index was rebuilt. Equal scores are ordered by time,
//! then by session and number, so that an answer does not depend on how the index is cut into segments.

use std::cmp::Ordering;

/// A record and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scored {
    pub(crate) score: f32,
    /// The time of the record, in seconds since 1970.
    pub(crate) second: u32,
    /// The number of the segment, and of the record in it.
    pub(crate) segment: u32,
    pub(crate) doc: u32,
}

/// Keeps the best `limit` records, best first.
pub(crate) struct TopK<'a> {
    best: Vec<Scored>,
    limit: usize,
    /// The order of turns that are equally good and equally old.
    tie: Tie<'a>,
}

/// The order of two that are otherwise equal.
pub(crate) type Tie<'a> = &'a (dyn Fn(&Scored, &Scored) -> Ordering + Sync);

impl<'a> TopK<'a> {
    pub(crate) fn new(limit: usize, tie: Tie<'a>) -> TopK<'a> {
        TopK { best: Vec::with_capacity(limit.min(1024)), limit, tie }
    }

    /// Returns the number of records that are kept.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// An empty one for the same question.
    pub(crate) fn another(&self) -> TopK<'a> {
        TopK::new(self.limit, self.tie)
    }

    pub(crate) fn join(&mut self, other: TopK<'a>) {
        other.best.into_iter().for_each(|scored| self.offer(scored));
    }

    /// Returns true if a record with this score and time, or an older one, could still be among the best.
    #[inline]
    pub(crate) fn could_take(&self, score: f32, second: u32) -> bool {
        match self.best.last() {
            Some(worst) if self.best.len() >= self.limit => (score, second) >= (worst.score, worst.second),
            _ => self.limit > 0,
        }
    }

    pub(crate) fn offer(&mut self, scored: Scored) {
        if !self.could_take(scored.score, scored.second) {
            return;
        }
        // Of millions that are equally good, nearly all are turned away here, with one comparison.
        let is_full = self.best.len() >= self.limit;
        if self.best.last().is_some_and(|worst| is_full && self.order(worst, &scored) != Ordering::Greater) {
            return;
        }
        let at = self.best.partition_point(|other| self.order(other, &scored) == Ordering::Less);
        self.best.insert(at, scored);
        self.best.truncate(self.limit);
    }

    fn order(&self, a: &Scored, b: &Scored) -> Ordering {
        TopK::compare(a, b, self.tie)
    }

    /// Compares two records: the better one is less.
    pub(crate) fn compare(a: &Scored, b: &Scored, tie: Tie<'_>) -> Ordering {
        b.score.total_cmp(&a.score).then(b.second.cmp(&a.second)).then_with(|| tie(a, b))
    }

    pub(crate) fn into_best(self) -> Vec<Scored> {
        self.best
    }
}

/// Encodes the number of words of a record in one byte: exact up to 16, then within 6 %.
pub(crate) fn norm_of(words: u32) -> u8 {
    LENGTHS.partition_point(|length| *length <= words).saturating_sub(1) as u8
}

pub(crate) const fn length_of(norm: u8) -> u32 {
    LENGTHS[norm as usize]
}

/// Returns what a word with so many occurrences adds to the score of a record of this length, before its weight.
#[inline]
pub(crate) fn impact(times: u32, norm: u8) -> f32 {
    let times = rounded(times);
    times * (K1 + 1.0) / (times + PENALTIES[usize::from(norm)])
}

/// A number of words or turns as scores are reckoned with: beyond some millions, the last digits do not matter.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "see above")]
pub(crate) const fn rounded(number: u32) -> f32 {
    number as f32
}

/// Returns how much so many occurrences of a word speak for it in a record of this length, from 0 to 1.
#[inline]
pub(crate) fn saturation(times: u32, norm: u8) -> f32 {
    let times = rounded(times);
    times / (times + PENALTIES[usize::from(norm)])
}

/// The weight of a word that stands in `found` of `all` turns: rare ones tell more.
#[expect(clippy::cast_precision_loss, reason = "nobody has so many turns that it mattered")]
pub(crate) fn weight(found: u64, all: u64) -> f32 {
    let (found, all) = (found as f64, (all.max(found)) as f64);
    (1.0 + (all - found + 0.5) / (found + 0.5)).ln() as f32
}

const fn penalty(length: f32) -> f32 {
    K1 * (1.0 - B + B * length / AVERAGE_WORDS)
}

const LENGTHS: [u32; 256] = {
    let mut lengths = [0; 256];
    let mut at = 1;
    while at < lengths.len() {
        let before: u32 = lengths[at - 1];
        let step = before / 16;
        lengths[at] = before + if step > 1 { step } else { 1 };
        at += 1;
    }
    lengths
};

const PENALTIES: [f32; 256] = {
    let mut penalties = [0.0; 256];
    let mut at = 0;
    while at < penalties.len() {
        penalties[at] = penalty(rounded(LENGTHS[at]));
        at += 1;
    }
    penalties
};

/// No word adds more, whatever its number.
pub(crate) const IMPACT_MAX: f32 = K1 + 1.0;
/// BM25's k1: how soon more occurrences of a word stop mattering.
const K1: f32 = 1.2;
/// BM25's b: how much long records are held back.
const B: f32 = 0.75;
/// The length of a turn that is neither held back nor put forward.
const AVERAGE_WORDS: f32 = 60.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_survive_in_one_byte_nearly() {
        for words in (0..40).chain([100, 1000, 12345, 1_000_000]) {
            let kept = length_of(norm_of(words));
            assert!(
                kept <= words && f64::from(kept) >= f64::from(words) * 0.94 - 1.0,
                "{words} became {kept}"
            );
        }
        assert_eq!(length_of(norm_of(16)), 16);
        assert_eq!(norm_of(u32::MAX), 255, "longer than any: the longest");
    }

    #[test]
    fn rare_words_weigh_more_and_longer_turns_less() {
        assert!(weight(1, 1000) > weight(500, 1000));
        assert!(weight(1000, 1000) > 0.0, "a word in every turn still counts");
        assert!(impact(1, norm_of(10)) > impact(1, norm_of(1000)));
        assert!(impact(3, norm_of(10)) > impact(1, norm_of(10)));
    }
}
