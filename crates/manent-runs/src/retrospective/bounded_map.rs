//! A map of bounded size for counts: when it is full, the least frequent keys are evicted, and counted.
//!
//! Frequent keys stay and are counted exactly. The count of a key that was evicted and came back may be short, by no
//! more than `missed`. (Lossy counting; tables are merged by adding what each of them may have missed.)

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

use foldhash::quality::FixedState;

/// A count that can be merged with another of the same key.
pub(super) trait BoundedValue: Default {
    /// Returns the loss if it were evicted: the values with least weight go first.
    fn weight(&self) -> u64;
    fn merge(&mut self, other: Self);
}

/// The table. Keys are hashes of what they stand for.
#[derive(Debug)]
pub(super) struct BoundedMap<T> {
    slots: HashMap<u64, MapSlot<T>, FixedState>,
    room: usize,
    /// The highest count of any key that was evicted.
    level: u64,
    /// The values that were evicted.
    pub(super) left_out: Evicted,
}

#[derive(Debug, Default)]
pub(super) struct MapSlot<T> {
    pub(super) value: T,
    /// The most that the count may lack.
    pub(super) missed: u64,
}

/// The number of values that were evicted, and their weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Evicted {
    pub(super) keys: u64,
    pub(super) weight: u64,
}

impl<T: BoundedValue> BoundedMap<T> {
    pub(super) fn new(room: usize) -> BoundedMap<T> {
        let slots = HashMap::with_hasher(FixedState::with_seed(SEED));
        BoundedMap { slots, room, level: 0, left_out: Evicted::default() }
    }

    /// Returns the value of a key; `fresh` fills a new one.
    pub(super) fn at(&mut self, key: u64, fresh: impl FnOnce(&mut T)) -> &mut T {
        if self.slots.len() >= self.room && !self.slots.contains_key(&key) {
            self.prune(self.room / 2);
        }
        let level = self.level;
        let slot = self.slots.entry(key).or_insert_with(|| {
            let mut value = T::default();
            fresh(&mut value);
            MapSlot { value, missed: level }
        });
        &mut slot.value
    }

    /// Keeps the heaviest. Which of the same weight are kept is decided by the keys, so it is the same each time.
    fn prune(&mut self, keep: usize) {
        let mut all: Vec<(u64, u64)> =
            self.slots.iter().map(|(key, slot)| (slot.value.weight(), *key)).collect();
        if all.len() <= keep {
            return;
        }
        all.sort_unstable_by(|a, b| b.cmp(a));
        for (weight, key) in all.split_off(keep) {
            let missed = self.slots.remove(&key).map_or(0, |slot| slot.missed);
            self.level = self.level.max(weight + missed);
            self.left_out.keys += 1;
            self.left_out.weight += weight;
        }
    }

    pub(super) fn merge(&mut self, other: BoundedMap<T>) {
        let (mine, theirs) = (self.level, other.level);
        let mut new = other.slots;
        for (key, slot) in &mut self.slots {
            slot.missed += match new.remove(key) {
                Some(same) => {
                    slot.value.merge(same.value);
                    same.missed
                }
                None => theirs,
            };
        }
        for (key, slot) in new {
            self.slots.insert(key, MapSlot { missed: slot.missed + mine, value: slot.value });
        }
        self.level = mine + theirs;
        self.left_out.keys += other.left_out.keys;
        self.left_out.weight += other.left_out.weight;
        self.prune(self.room);
    }

    /// The values, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.slots.values().map(|slot| &slot.value)
    }

    /// The values in the order of their keys, which means nothing and is always the same.
    pub(super) fn into_slots(self) -> Vec<MapSlot<T>> {
        let sorted: BTreeMap<u64, MapSlot<T>> = self.slots.into_iter().collect();
        sorted.into_values().collect()
    }
}

/// A key for several texts that stand for one thing.
pub(super) fn key_of(parts: &[&str]) -> u64 {
    key_with(parts, 0)
}

/// Returns a key for several texts and a number that stand for one thing.
pub(super) fn key_with(parts: &[&str], number: u64) -> u64 {
    FixedState::with_seed(SEED).hash_one((parts, number))
}

/// Any number.
const SEED: u64 = 0x72_65_74_72_6f;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Count(u64);

    impl BoundedValue for Count {
        fn weight(&self) -> u64 {
            self.0
        }

        fn merge(&mut self, other: Count) {
            self.0 += other.0;
        }
    }

    fn table(keys: impl Iterator<Item = u64>) -> BoundedMap<Count> {
        let mut table: BoundedMap<Count> = BoundedMap::new(100);
        keys.for_each(|key| table.at(key, |_| {}).0 += 1);
        table
    }

    #[test]
    fn what_comes_often_stays_and_what_is_lost_is_known() {
        // A heavy one among a hundred thousand that come once.
        let mixed = (0..100_000_u64).flat_map(|n| [n + 10, n % 3]);
        let all = table(mixed);
        assert!(all.slots.len() <= 100);
        let (left, slots) = (all.left_out, all.slots);
        for key in 0..3 {
            let slot = &slots[&key];
            assert!(slot.value.0 >= 33_333 && slot.missed == 0, "{slot:?}");
        }
        let kept: u64 = slots.values().map(|slot| slot.value.0).sum();
        assert_eq!(kept + left.weight, 200_000, "what is not kept is counted");
        // A late key may have come once before each of some two thousand times that room was made.
        assert!(slots.iter().all(|(key, slot)| *key < 3 || (1..=2100).contains(&slot.missed)), "{slots:?}");
    }

    #[test]
    fn tables_that_are_not_full_are_merged_to_what_one_would_have() {
        let (all, mut one, two) = (table(0..90), table((0..90).step_by(2)), table((1..90).step_by(2)));
        one.merge(two);
        let plain = |table: BoundedMap<Count>| -> BTreeMap<u64, (u64, u64)> {
            table.slots.into_iter().map(|(key, slot)| (key, (slot.value.0, slot.missed))).collect()
        };
        assert_eq!(plain(one), plain(all));
    }
}
