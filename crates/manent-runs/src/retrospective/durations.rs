//! Percentiles of durations in bounded memory: exactly while they are few, then in buckets whose width is 2 % of what
//! is in them, so that percentiles are wrong by 1 % at most.
//!
//! The same numbers give the same answer in whatever order they come and however they were put together.

use std::collections::BTreeMap;

use serde::Serialize;

use super::statistics::float;

/// Durations in bounded memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Durations {
    count: u64,
    /// All durations while they are few, unordered.
    exact: Vec<u64>,
    /// The number in each bucket, once there are many.
    buckets: BTreeMap<u16, u64>,
    longest: u64,
}

/// Median, 95th percentile and maximum of durations, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct DurationStats {
    /// The number of runs whose duration is known.
    pub n: u64,
    /// Half of them took no longer: the one at rank n/2, rounded up, of all in order.
    pub median_ms: Option<u64>,
    /// 95 of 100 took no longer: the one at rank 0.95 n, rounded up.
    pub p95_ms: Option<u64>,
    /// The longest.
    pub max_ms: Option<u64>,
    /// The relative error of median and p95: 0 or 0.01.
    pub error: f64,
}

impl Durations {
    pub(super) fn add(&mut self, ms: u64) {
        self.count += 1;
        self.longest = self.longest.max(ms);
        if self.buckets.is_empty() && self.exact.len() < EXACT_MAX {
            self.exact.push(ms);
            return;
        }
        self.spill();
        *self.buckets.entry(bucket(ms)).or_default() += 1;
    }

    pub(super) fn merge(&mut self, other: &Durations) {
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
        self.exact.extend(&other.exact);
        if !self.buckets.is_empty() || !other.buckets.is_empty() || self.exact.len() > EXACT_MAX {
            self.spill();
        }
        for (at, count) in &other.buckets {
            *self.buckets.entry(*at).or_default() += count;
        }
    }

    fn spill(&mut self) {
        for ms in std::mem::take(&mut self.exact) {
            *self.buckets.entry(bucket(ms)).or_default() += 1;
        }
    }

    pub(super) fn stats(&self) -> DurationStats {
        if self.count == 0 {
            return DurationStats::default();
        }
        let mut sorted = self.exact.clone();
        sorted.sort_unstable();
        let at = |hundredths: u64| {
            let rank = (self.count * hundredths).div_ceil(100).max(1);
            if !sorted.is_empty() {
                return sorted.get(rank as usize - 1).copied();
            }
            let mut before = 0;
            let found = self.buckets.iter().find(|(_, count)| {
                before += **count;
                before >= rank
            });
            found.map(|(at, _)| middle(*at).min(self.longest))
        };
        let error = if sorted.is_empty() { ERROR } else { 0.0 };
        DurationStats { n: self.count, median_ms: at(50), p95_ms: at(95), max_ms: Some(self.longest), error }
    }
}

/// The bucket of a duration. Those up to 100 ms have one each, because they are whole numbers.
fn bucket(ms: u64) -> u16 {
    if ms <= WHOLE {
        return ms as u16;
    }
    let steps = (float(ms) / float(WHOLE)).ln() / growth().ln();
    #[expect(clippy::cast_sign_loss, reason = "above zero")]
    let steps = steps.ceil() as u16;
    WHOLE as u16 + steps
}

/// Returns the value that stands for a bucket: as far from its lower end as from its upper one, in percent.
fn middle(bucket: u16) -> u64 {
    if u64::from(bucket) <= WHOLE {
        return u64::from(bucket);
    }
    let upper = float(WHOLE) * growth().powi(i32::from(bucket) - WHOLE as i32);
    #[expect(clippy::cast_sign_loss, reason = "above zero")]
    let middle = (upper * 2.0 / (1.0 + growth())).round() as u64;
    middle
}

fn growth() -> f64 {
    (1.0 + ERROR) / (1.0 - ERROR)
}

const ERROR: f64 = 0.01;
const WHOLE: u64 = 100;
const EXACT_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_told_exactly_and_many_to_one_percent() {
        let mut few = Durations::default();
        assert_eq!(few.stats(), DurationStats::default());
        for ms in [40, 10, 30, 20] {
            few.add(ms);
        }
        assert_eq!((few.stats().median_ms, few.stats().p95_ms, few.stats().error), (Some(20), Some(40), 0.0));
        let mut many = Durations::default();
        let all: Vec<u64> = (0..100_000_u64).map(|n| (n * 7919) % 100_000 * 13).collect();
        for ms in &all {
            many.add(*ms);
        }
        let told = many.stats();
        for (got, wanted) in [(told.median_ms, 49_999 * 13), (told.p95_ms, 94_999 * 13)] {
            let off = float(got.unwrap().abs_diff(wanted)) / float(wanted);
            assert!(off <= 0.0101, "{got:?} instead of {wanted}");
        }
        assert!(many.buckets.len() < 2300, "{}", many.buckets.len());
    }

    #[test]
    fn how_they_were_put_together_does_not_matter() {
        for count in [3, 256, 257, 5000_u64] {
            let all: Vec<u64> = (0..count).map(|n| n * n * 31 % 1_000_003).collect();
            let made = |parts: usize| {
                let mut sum = Durations::default();
                for part in all.chunks(all.len().div_ceil(parts)).rev() {
                    let mut one = Durations::default();
                    for ms in part {
                        one.add(*ms);
                    }
                    sum.merge(&one);
                }
                sum.stats()
            };
            assert!(made(1) == made(2) && made(2) == made(7), "{count}");
        }
    }

    #[test]
    fn any_number_has_a_bucket_near_it() {
        for ms in [0, 1, 99, 100, 101, 102, 1000, 86_400_000, u64::MAX / 2, u64::MAX] {
            let off = float(middle(bucket(ms)).abs_diff(ms)) / float(ms).max(1.0);
            assert!(off <= 0.011, "{ms}: {}", middle(bucket(ms)));
        }
    }
}
