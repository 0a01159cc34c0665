//! The best hits so far: by score, then the newest, then by session and number, so that an answer is the same however
//! the index is cut into segments.

use std::cmp::Ordering;

/// A turn that fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scored {
    pub(crate) score: f32,
    /// When it was said, in seconds since 1970.
    pub(crate) second: u32,
    /// Where it is: in which segment, and which turn there.
    pub(crate) segment: u32,
    pub(crate) doc: u32,
}

/// Keeps the best of many, best first.
pub(crate) struct TopK<'a> {
    kept: Vec<Scored>,
    limit: usize,
    /// The order of turns that are equally good and equally old.
    tie: Tie<'a>,
}

/// The order of two that are otherwise equal.
pub(crate) type Tie<'a> = &'a (dyn Fn(&Scored, &Scored) -> Ordering + Sync);

impl<'a> TopK<'a> {
    pub(crate) fn new(limit: usize, tie: Tie<'a>) -> TopK<'a> {
        TopK { kept: Vec::with_capacity(limit.min(1024)), limit, tie }
    }

    /// An empty one for the same question.
    pub(crate) fn another(&self) -> TopK<'a> {
        TopK::new(self.limit, self.tie)
    }

    pub(crate) fn join(&mut self, other: TopK<'a>) {
        other.kept.into_iter().for_each(|scored| self.offer(scored));
    }

    /// Whether anything of this score, said at this second or before, could still come among the best.
    #[inline]
    pub(crate) fn could_take(&self, score: f32, second: u32) -> bool {
        match self.kept.last() {
            Some(worst) if self.kept.len() >= self.limit => (score, second) >= (worst.score, worst.second),
            _ => self.limit > 0,
        }
    }

    pub(crate) fn offer(&mut self, scored: Scored) {
        if !self.could_take(scored.score, scored.second) {
            return;
        }
        // Of millions that are equally good, nearly all are turned away here, with one comparison.
        let is_full = self.kept.len() >= self.limit;
        if self.kept.last().is_some_and(|worst| is_full && self.order(worst, &scored) != Ordering::Greater) {
            return;
        }
        let at = self.kept.partition_point(|kept| self.order(kept, &scored) == Ordering::Less);
        self.kept.insert(at, scored);
        self.kept.truncate(self.limit);
    }

    fn order(&self, a: &Scored, b: &Scored) -> Ordering {
        b.score.total_cmp(&a.score).then(b.second.cmp(&a.second)).then_with(|| (self.tie)(a, b))
    }

    pub(crate) fn into_kept(self) -> Vec<Scored> {
        self.kept
    }
}
