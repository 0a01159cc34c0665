//! Chooses the rows of the data set among those in the spool, the file of each, and the pairs.
//!
//! Near-duplicates are found by the `MinHash` signatures of rows: rows that share a band of their signatures are
//! compared, and those with three quarters of all bins in common say nearly the same. That takes 40 bytes a row, and
//! finds 98 of 100 pairs of texts that share four fifths of their word triples.

use std::collections::{BTreeMap, VecDeque};

use manent::similarity::{BAND_BINS, BINS, Signature};
use manent_store::threads::join;

use super::draft::AttemptVerdict;
use super::gather::{Gathered, NO_SIGNATURE, RowMeta};
use super::{DatasetCounts, DatasetFormat, Recipe, SkipReason};

/// A set of rows of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowSet {
    Main,
    /// Rows that found no partner.
    Unpaired,
    /// Rows with a failure in the prompt.
    Repair,
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OutputRow {
    pub(super) set: RowSet,
    pub(super) in_validation: bool,
    pub(super) row: u32,
    /// The row that was rejected, in a pair, and whether it is of the same model.
    pub(super) rejected: Option<(u32, bool)>,
}

/// The rows that were chosen, sorted by file.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) items: Vec<OutputRow>,
    pub(super) groups: u64,
    pub(super) validation_groups: u64,
}

pub(super) fn select(recipe: &Recipe, gathered: &mut Gathered) -> Selection {
    let Gathered { rows, signatures, groups, counts, .. } = gathered;
    let sides = rows.iter().map(|row| groups.is_validation(row.node, recipe.validation)).collect();
    let mut selector = Selector { gone: vec![None; rows.len()], sides, rows, signatures, counts };
    selector.drop_duplicates();
    selector.drop_prompts_of_train();
    selector.drop_near_duplicates();
    let mut items = match recipe.format {
        DatasetFormat::TrlDpo => selector.pairs(recipe.same_model_only),
        _ => selector.singles(),
    };
    items.sort_unstable();
    let Selector { gone, sides, rows, counts, .. } = selector;
    for why in gone.iter().flatten() {
        counts.leave_out(*why);
    }
    let mut sides_of_groups = BTreeMap::new();
    for (at, row) in rows.iter().enumerate().filter(|(at, _)| gone[*at].is_none()) {
        sides_of_groups.insert(groups.root(row.node), sides[at]);
    }
    let validation_groups = sides_of_groups.values().filter(|in_validation| **in_validation).count() as u64;
    Selection { items, groups: sides_of_groups.len() as u64, validation_groups }
}

struct Selector<'a> {
    rows: &'a [RowMeta],
    signatures: &'a [Signature],
    counts: &'a mut DatasetCounts,
    /// True for rows that are for validation.
    sides: Vec<bool>,
    gone: Vec<Option<SkipReason>>,
}

impl Selector<'_> {
    /// Drops all but the first of equal rows, and equal rows with different verdicts altogether.
    fn drop_duplicates(&mut self) {
        let rows = self.rows;
        let mut order: Vec<(u64, bool, u32)> = rows
            .iter()
            .zip(&self.sides)
            .enumerate()
            .map(|(at, (row, side))| (row.hash, *side, at as u32))
            .collect();
        order.sort_unstable();
        for same in order.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let verdict = |at: u32| rows[at as usize].verdict;
            let contradicts = same.iter().any(|(_, _, at)| verdict(*at) != verdict(same[0].2));
            let (gone, why) = if contradicts {
                (same, SkipReason::Contradiction)
            } else {
                (&same[1..], SkipReason::Duplicate)
            };
            for (_, _, at) in gone {
                self.gone[*at as usize] = Some(why);
            }
        }
    }

    /// Drops rows for validation whose prompt is in the training set.
    fn drop_prompts_of_train(&mut self) {
        let rows = self.rows;
        let stays = |at: &usize| self.gone[*at].is_none();
        let mut trained: Vec<[u64; 2]> = (0..rows.len())
            .filter(stays)
            .filter(|at| !self.sides[*at])
            .map(|at| rows[at].prompt_hash)
            .collect();
        trained.sort_unstable();
        let known: Vec<usize> = (0..rows.len())
            .filter(stays)
            .filter(|at| self.sides[*at] && trained.binary_search(&rows[*at].prompt_hash).is_ok())
            .collect();
        for at in known {
            self.gone[at] = Some(SkipReason::PromptInTrain);
        }
    }

    /// Returns each row that is left on its own.
    fn singles(&self) -> Vec<OutputRow> {
        let left = (0..self.sides.len()).filter(|at| self.gone[*at].is_none());
        left.map(|at| self.single(at as u32, RowSet::Main)).collect()
    }

    fn single(&self, row: u32, set: RowSet) -> OutputRow {
        let set = if self.rows[row as usize].is_repair { RowSet::Repair } else { set };
        OutputRow { set, in_validation: self.sides[row as usize], row, rejected: None }
    }

    /// A good answer and a bad one to the very same prompt, each used once: first those of one model, then others.
    fn pairs(&mut self, same_model_only: bool) -> Vec<OutputRow> {
        let mut items = Vec::new();
        let mut order: Vec<(bool, [u64; 2], u32)> = Vec::new();
        for (at, row) in self.rows.iter().enumerate().filter(|(at, _)| self.gone[*at].is_none()) {
            match (row.is_repair, row.verdict) {
                (false, _) => order.push((self.sides[at], row.prompt_hash, at as u32)),
                (true, AttemptVerdict::Good) => items.push(self.single(at as u32, RowSet::Repair)),
                // A repair that failed teaches no repair.
                (true, AttemptVerdict::Bad) => self.counts.leave_out(SkipReason::Failed),
            }
        }
        order.sort_unstable();
        for same in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            self.pair_up(same, same_model_only, &mut items);
        }
        items
    }

    fn pair_up(&self, same: &[(bool, [u64; 2], u32)], same_model_only: bool, items: &mut Vec<OutputRow>) {
        let row = |at: u32| &self.rows[at as usize];
        let mut bad: BTreeMap<u32, VecDeque<u32>> = BTreeMap::new();
        for (_, _, at) in same.iter().filter(|(_, _, at)| row(*at).verdict == AttemptVerdict::Bad) {
            bad.entry(row(*at).model).or_default().push_back(*at);
        }
        let good = same.iter().map(|(_, _, at)| *at).filter(|at| row(*at).verdict == AttemptVerdict::Good);
        let mut alone = VecDeque::new();
        let pair = |chosen: u32, rejected: u32, same_model: bool| OutputRow {
            rejected: Some((rejected, same_model)),
            ..self.single(chosen, RowSet::Main)
        };
        for chosen in good {
            let model = row(chosen).model;
            // Two rows without the name of a model may be of different models.
            let partner = bad.get_mut(&model).filter(|_| model != 0).and_then(VecDeque::pop_front);
            match partner {
                Some(rejected) => items.push(pair(chosen, rejected, true)),
                None => alone.push_back(chosen),
            }
        }
        let mut left: Vec<u32> = bad.into_values().flatten().collect();
        left.sort_unstable();
        for rejected in left {
            let partner = if same_model_only { None } else { alone.pop_front() };
            items.push(match partner {
                Some(chosen) => pair(chosen, rejected, false),
                None => self.single(rejected, RowSet::Unpaired),
            });
        }
        items.extend(alone.into_iter().map(|chosen| self.single(chosen, RowSet::Unpaired)));
    }

    /// Leaves out the later of two rows that say nearly the same, where rows to train on are earlier than all for
    /// validation.
    fn drop_near_duplicates(&mut self) {
        for band in 0..BINS / BAND_BINS {
            // Rows are only compared within a bucket, so that each thread takes half of the buckets.
            let lower = || self.near_duplicates(band, |bucket| bucket <= u32::MAX / 2);
            let upper = || self.near_duplicates(band, |bucket| bucket > u32::MAX / 2);
            let (lower, upper) = join(lower, upper);
            for (at, why) in lower.into_iter().chain(upper) {
                self.gone[at] = Some(why);
            }
        }
    }

    fn signature(&self, at: usize) -> Option<&Signature> {
        let signature = self.rows[at].signature;
        (self.gone[at].is_none() && signature != NO_SIGNATURE).then(|| &self.signatures[signature as usize])
    }

    /// Puts rows into the buckets of a band, and compares those of the buckets that are wanted.
    fn near_duplicates(&self, band: usize, is_wanted: impl Fn(u32) -> bool) -> Vec<(usize, SkipReason)> {
        let mut members: Vec<(u32, bool, u32)> = Vec::new();
        members.extend((0..self.sides.len()).filter_map(|at| {
            let bucket = self.signature(at)?.bands().nth(band)?;
            is_wanted(bucket).then_some((bucket, self.sides[at], at as u32))
        }));
        members.sort_unstable();
        let mut gone = Vec::new();
        for bucket in members.chunk_by(|a, b| a.0 == b.0).filter(|bucket| bucket.len() > 1) {
            let mut kept: Vec<usize> = Vec::new();
            for at in bucket.iter().map(|(_, _, at)| *at as usize) {
                match kept.iter().rev().take(COMPARED_MAX).find(|other| self.is_near(**other, at)) {
                    Some(other) if self.sides[*other] == self.sides[at] => {
                        gone.push((at, SkipReason::NearDuplicate));
                    }
                    Some(_) => gone.push((at, SkipReason::NearTrain)),
                    None => kept.push(at),
                }
            }
        }
        gone
    }

    /// Rows of one side with another verdict, or of which one is a repair, are never near: both are of use.
    fn is_near(&self, a: usize, b: usize) -> bool {
        let class = |at: usize| (self.rows[at].verdict, self.rows[at].is_repair);
        (class(a) == class(b) || self.sides[a] != self.sides[b])
            && self.signature(a).zip(self.signature(b)).is_some_and(|(a, b)| a.equal_bins(b) >= EQUAL_MIN)
    }
}

/// Three quarters of the bins: two texts that share four fifths of their triples have as many in nearly all cases.
const EQUAL_MIN: u8 = 24;
/// The most rows of a bucket that one is compared with: a bucket of thousands is no reason to take hours.
const COMPARED_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use manent::similarity::mix;

    use super::super::row_builder::WordTriples;
    use super::super::spool::SpoolSlot;
    use super::*;

    /// Returns what becomes of rows with these texts, each with the side that it is on.
    fn left_out(texts: &[(&str, bool)]) -> Vec<Option<SkipReason>> {
        let (mut rows, mut signatures) = (Vec::new(), Vec::new());
        for (at, (text, _)) in texts.iter().enumerate() {
            let mut triples = WordTriples::default();
            triples.add(text);
            signatures.push(triples.signature().unwrap());
            rows.push(RowMeta {
                prompt_hash: [at as u64; 2],
                hash: at as u64,
                slot: SpoolSlot::default(),
                order: at as u32,
                node: 0,
                source: 0,
                model: 0,
                signature: at as u32,
                verdict: AttemptVerdict::Good,
                is_repair: false,
            });
        }
        let sides = texts.iter().map(|(_, in_validation)| *in_validation).collect();
        let (gone, counts) = (vec![None; rows.len()], &mut DatasetCounts::default());
        let mut selector = Selector { rows: &rows, signatures: &signatures, counts, sides, gone };
        selector.drop_near_duplicates();
        selector.gone
    }

    fn words(from: u64, count: u64) -> String {
        (from..from + count).map(|n| format!("w{}", mix(n) % 100_000)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nearly_the_same_is_found_and_the_different_is_not() {
        let mut missed = 0;
        for seed in 0..200 {
            let text = words(seed * 1000, 120);
            let changed = text.replacen(text.split(' ').nth(60).unwrap(), "Other", 1);
            let other = words(seed * 1000 + 500, 120);
            let gone = left_out(&[(&text, false), (&other, false), (&changed, false)]);
            assert_eq!(gone[..2], [None, None], "only what is alike");
            missed += usize::from(gone[2].is_none());
        }
        assert!(missed <= 2, "{missed} of 200 were missed");
    }

    #[test]
    fn the_row_for_validation_gives_way_whatever_the_order() {
        let (a, b) = (words(1, 80), words(1, 81));
        assert_eq!(left_out(&[(&a, true), (&b, false)]), [Some(SkipReason::NearTrain), None]);
    }
}
