//! The order of the hits of a plain question: ten different things first, and which hits belong together.

use std::collections::{HashMap, HashSet};

use manent_store::StreamId;

use crate::query::search::Hit;
use crate::query::second_look::Sketch;

/// Puts hits in order: those that repeat a better one come behind the first ten that do not.
#[derive(Debug, Default)]
pub(crate) struct HitOrder {
    ordered: Vec<Hit>,
    /// Hits that repeat others, until ten different ones are in front of them.
    repeating: Vec<Hit>,
    different: Vec<(Sketch, StreamId, u64)>,
}

impl HitOrder {
    /// Returns the number of hits in front of those that repeat others.
    pub(crate) fn len(&self) -> usize {
        self.ordered.len()
    }

    /// Adds the next best hit.
    pub(crate) fn push(&mut self, mut hit: Hit, sketch: Sketch) {
        let first = self.different.iter().find(|(other, ..)| sketch.repeats(other));
        hit.repeats = first.map(|(_, id, seq)| (id.clone(), *seq));
        if hit.repeats.is_none() {
            self.different.push((sketch, hit.id.clone(), hit.seq));
        } else if self.ordered.len() < DIFFERENT {
            self.repeating.push(hit);
            return;
        }
        self.ordered.push(hit);
        if self.ordered.len() == DIFFERENT {
            self.append_repeating();
        }
    }

    /// Appends the hits that repeat others. None then scores higher than the one before it.
    fn append_repeating(&mut self) {
        let floor = self.ordered.last().map_or(f32::INFINITY, |last| last.score);
        for mut hit in self.repeating.drain(..) {
            hit.score = hit.score.min(floor);
            self.ordered.push(hit);
        }
    }

    pub(crate) fn into_hits(mut self, limit: usize) -> Vec<Hit> {
        self.append_repeating();
        self.ordered.truncate(limit);
        self.ordered
    }
}

/// Makes each hit a passage of its own.
pub(crate) fn number_passages(hits: &mut [Hit]) {
    for (number, hit) in (1..).zip(hits) {
        hit.passage = number;
    }
}

/// Numbers the passages: a turn joins that of a better hit which is close to it in its session, or which begins a
/// passage and says the same.
pub(crate) fn join_passages(hits: &mut [Hit]) {
    // By session, the hits that were seen: the number of the turn, and the passage.
    let mut seen: HashMap<StreamId, Vec<(u64, usize)>> = HashMap::new();
    let mut passages = 0;
    // The first hit of each passage.
    let mut firsts: HashSet<(StreamId, u64)> = HashSet::new();
    for hit in hits {
        let (id, seq, near) = match &hit.repeats {
            Some(first) if firsts.contains(first) => (&first.0, first.1, 0),
            _ => (&hit.id, hit.seq, PASSAGE_TURNS),
        };
        let joined =
            seen.get(id).and_then(|turns| turns.iter().find(|(other, _)| other.abs_diff(seq) <= near));
        hit.passage = joined.map_or(passages + 1, |(_, passage)| *passage);
        if hit.passage > passages {
            firsts.insert((hit.id.clone(), hit.seq));
        }
        passages = passages.max(hit.passage);
        seen.entry(hit.id.clone()).or_default().push((hit.seq, hit.passage));
    }
}

/// The number of different hits in front of all that repeat one of them.
const DIFFERENT: usize = 10;
/// Turns of one session that are no further apart belong to one passage.
const PASSAGE_TURNS: u64 = 2;

#[cfg(test)]
mod tests {
    use manent_store::{Place, Position, SessionKey};

    use super::*;
    use crate::query::snippet::Snippet;

    fn hit(session: &str, seq: u64, score: f32) -> Hit {
        Hit {
            id: StreamId::session(Place::Live, &SessionKey::new(session).unwrap(), session),
            title: String::new(),
            seq,
            position: Position::new(0),
            role: "user".to_owned(),
            ts: String::new(),
            snippet: Snippet::default(),
            score,
            passage: 0,
            repeats: None,
        }
    }

    #[test]
    fn hits_that_repeat_others_come_behind_ten_different_ones_and_name_them() {
        let mut order = HitOrder::default();
        for (n, score) in (0..12).zip((0_u8..100).rev().map(f32::from)) {
            order.push(hit("a", n * 10, score), Sketch::of(&format!("thing {n}")));
            order.push(hit("b", n * 10, score - 0.5), Sketch::of("thing 0"));
        }
        let mut hits = order.into_hits(usize::MAX);
        join_passages(&mut hits);
        assert_eq!(hits.len(), 24);
        assert!(hits[..10].iter().all(|hit| hit.repeats.is_none()), "ten different ones");
        let repeating: Vec<&Hit> = hits.iter().filter(|hit| hit.repeats.is_some()).collect();
        assert_eq!(repeating.len(), 12);
        for hit in repeating {
            let (id, seq) = hit.repeats.as_ref().unwrap();
            assert_eq!((id.key.as_str(), *seq, hit.passage), ("a", 0, 1));
        }
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    }

    #[test]
    fn neighbours_in_a_session_are_one_passage() {
        let mut hits =
            [hit("a", 5, 9.0), hit("b", 6, 8.0), hit("a", 7, 7.0), hit("a", 30, 6.0), hit("a", 9, 5.0)];
        join_passages(&mut hits);
        assert_eq!(hits.each_ref().map(|hit| hit.passage), [1, 2, 1, 3, 1], "a chain of neighbours");
    }
}
