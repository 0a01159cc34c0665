//! Which rows are in the data set, in which of its files, and which make a pair.

use std::collections::{BTreeMap, VecDeque};

use super::alike::{Alike, Likeness, alike};
use super::draft::AttemptVerdict;
use super::gather::{Gathered, NO_SIGNATURE};
use super::{DatasetFormat, Recipe, SkipReason};

/// A set of rows of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowSet {
    Main,
    /// Those that found no partner.
    Unpaired,
    /// With a failure in the prompt.
    Repair,
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OutputRow {
    pub(super) set: RowSet,
    pub(super) in_validation: bool,
    pub(super) row: u32,
    /// Of a pair: the one that was rejected, and whether it is the same model's.
    pub(super) rejected: Option<(u32, bool)>,
}

/// What was chosen, by files, in order.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) items: Vec<OutputRow>,
    pub(super) groups: u64,
    pub(super) validation_groups: u64,
}

pub(super) fn select(recipe: &Recipe, gathered: &mut Gathered) -> Selection {
    let sides: Vec<bool> =
        gathered.rows.iter().map(|row| gathered.groups.is_validation(row.node, recipe.validation)).collect();
    let mut choice = Selector { gone: vec![None; sides.len()], sides, gathered };
    choice.drop_duplicates();
    choice.drop_prompts_of_train();
    choice.drop_alike();
    let mut items = match recipe.format {
        DatasetFormat::TrlDpo => choice.pairs(recipe.same_model_only),
        _ => choice.singles(),
    };
    items.sort_unstable();
    let Selector { gone, sides, gathered } = choice;
    for why in gone.iter().flatten() {
        gathered.counts.leave_out(*why);
    }
    let mut groups = BTreeMap::new();
    for (at, row) in gathered.rows.iter().enumerate().filter(|(at, _)| gone[*at].is_none()) {
        groups.insert(gathered.groups.group(row.node), sides[at]);
    }
    let validation_groups = groups.values().filter(|in_validation| **in_validation).count() as u64;
    Selection { items, groups: groups.len() as u64, validation_groups }
}

struct Selector<'a> {
    gathered: &'a mut Gathered,
    /// Whether each row is for validation.
    sides: Vec<bool>,
    gone: Vec<Option<SkipReason>>,
}

impl Selector<'_> {
    /// The same row twice: the first stays. The same row with both verdicts: nobody can learn from it.
    fn drop_duplicates(&mut self) {
        let rows = &self.gathered.rows;
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

    /// Whoever is asked in validation what it was trained on is not validated.
    fn drop_prompts_of_train(&mut self) {
        let rows = &self.gathered.rows;
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

    fn drop_alike(&mut self) {
        let (rows, signatures) = (&self.gathered.rows, &self.gathered.signatures);
        let likeness = |at: usize| {
            let row = &rows[at];
            if row.signature == NO_SIGNATURE || self.gone[at].is_some() {
                return None;
            }
            Some(Likeness {
                signature: signatures[row.signature as usize],
                class: u8::from(row.verdict == AttemptVerdict::Good) + 2 * u8::from(row.is_repair),
                in_validation: self.sides[at],
            })
        };
        for (at, why) in alike(rows.len(), likeness) {
            self.gone[at] = Some(match why {
                Alike::Here => SkipReason::NearDuplicate,
                Alike::InTrain => SkipReason::NearTrain,
            });
        }
    }

    /// Every row on its own.
    fn singles(&self) -> Vec<OutputRow> {
        let left = (0..self.sides.len()).filter(|at| self.gone[*at].is_none());
        left.map(|at| self.single(at as u32, RowSet::Main)).collect()
    }

    fn single(&self, row: u32, set: RowSet) -> OutputRow {
        let set = if self.gathered.rows[row as usize].is_repair { RowSet::Repair } else { set };
        OutputRow { set, in_validation: self.sides[row as usize], row, rejected: None }
    }

    /// A good answer and a bad one to the very same prompt, each used once: first those of one model, then others.
    fn pairs(&mut self, same_model_only: bool) -> Vec<OutputRow> {
        let mut items = Vec::new();
        let mut order: Vec<(bool, [u64; 2], u32)> = Vec::new();
        for (at, row) in self.gathered.rows.iter().enumerate().filter(|(at, _)| self.gone[*at].is_none()) {
            match (row.is_repair, row.verdict) {
                (false, _) => order.push((self.sides[at], row.prompt_hash, at as u32)),
                (true, AttemptVerdict::Good) => items.push(self.single(at as u32, RowSet::Repair)),
                // A repair that failed teaches no repair.
                (true, AttemptVerdict::Bad) => self.gathered.counts.leave_out(SkipReason::Failed),
            }
        }
        order.sort_unstable();
        for same in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            self.pair_up(same, same_model_only, &mut items);
        }
        items
    }

    fn pair_up(&self, same: &[(bool, [u64; 2], u32)], same_model_only: bool, items: &mut Vec<OutputRow>) {
        let row = |at: u32| &self.gathered.rows[at as usize];
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
            // Of two whose models nobody names, nobody knows whether they are the same.
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
}
