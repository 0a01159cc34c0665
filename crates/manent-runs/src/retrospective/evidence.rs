//! Which runs a statement rests on: a few of them, the latest, the same ones whoever read them first.

use std::collections::BTreeSet;

/// Where a run stands among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    /// Those without a time come first.
    pub(super) at_ms: Option<i64>,
    /// The session, by its place in the order of keys.
    pub(super) session: u32,
    pub(super) seq: u64,
}

/// The last few runs of some kind, latest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Examples {
    kept: Vec<(Spot, String)>,
}

impl Examples {
    /// Keeps a run if it is later than one that is kept. `id` is copied only then.
    pub(super) fn add(&mut self, spot: Spot, id: &str) {
        let at = self.kept.partition_point(|(other, _)| *other > spot);
        if at >= KEPT {
            return;
        }
        if self.kept.len() < KEPT {
            self.kept.insert(at, (spot, id.to_owned()));
            return;
        }
        // The text of the one that goes is used for the one that comes.
        self.kept[at..].rotate_right(1);
        self.kept[at].0 = spot;
        self.kept[at].1.clear();
        self.kept[at].1.push_str(id);
    }

    pub(super) fn merge(&mut self, other: Examples) {
        for (spot, id) in other.kept {
            self.add(spot, &id);
        }
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        self.kept.iter().map(|(_, id)| id.clone())
    }
}

/// Names that belong to something: the first by the alphabet, and whether there are more.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    kept: BTreeSet<String>,
    pub(super) more: bool,
    /// Whether something without a name is among them.
    nameless: bool,
}

impl Names {
    pub(super) fn add(&mut self, name: &str) {
        self.nameless |= name.is_empty();
        if !name.is_empty() && !self.kept.contains(name) {
            self.kept.insert(name.to_owned());
        }
        if self.kept.len() > NAMES {
            self.kept.pop_last();
            self.more = true;
        }
    }

    pub(super) fn merge(&mut self, other: &Names) {
        other.kept.iter().for_each(|name| self.add(name));
        self.more |= other.more;
        self.nameless |= other.nameless;
    }

    /// Whether [`Names::told`] names everything that this belongs to.
    pub(super) fn are_all(&self) -> bool {
        !self.more && !self.nameless && !self.kept.is_empty()
    }

    pub(super) fn told(&self) -> Vec<String> {
        let more = self.more.then(|| "…".to_owned());
        self.kept.iter().cloned().chain(more).collect()
    }
}

/// The beginning of a name from a record: nothing anybody calls a skill or a model is longer.
pub(super) fn clip(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_BYTES)]
}

const KEPT: usize = 3;
const NAMES: usize = 12;
pub(super) const NAME_BYTES: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_in_whatever_order_they_come() {
        let spot = |ms: u64| Spot { at_ms: (ms > 0).then_some(ms.cast_signed()), session: 0, seq: ms };
        let ids = |order: &[u64]| {
            let mut kept = Examples::default();
            for ms in order {
                kept.add(spot(*ms), &ms.to_string());
            }
            kept.ids().collect::<Vec<_>>()
        };
        assert_eq!(ids(&[0, 1, 2, 3, 4, 5]), ["5", "4", "3"]);
        assert_eq!(ids(&[5, 0, 3, 4, 1, 2]), ["5", "4", "3"]);
        assert_eq!(ids(&[1, 0]), ["1", "0"]);
    }

    #[test]
    fn names_are_few() {
        let mut names = Names::default();
        (0..100).rev().for_each(|n| names.add(&format!("{n:03}")));
        assert_eq!((names.told().len(), &*names.told()[0], names.more), (13, "000", true));
        assert_eq!(clip(&"é".repeat(100)).len(), 120);
    }
}
