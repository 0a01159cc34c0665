//! The random number generator of the simulator: splitmix64, forty lines instead of a dependency.
//!
//! The invariant: the same seed gives the same numbers on every machine and in every version of this crate,
//! because a seed printed by a failed test must find the same failure tomorrow. Not for cryptography.

use std::ops::RangeInclusive;

/// A deterministic source of random numbers.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts the sequence that belongs to `seed`. Neighbouring seeds give unrelated sequences.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..n`.
    ///
    /// # Panics
    ///
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below 0");
        // Multiply and shift: the bias is under n / 2^64, which no test can see.
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True `num` times out of `den`, which must not be 0.
    pub fn chance(&mut self, num: u64, den: u64) -> bool {
        self.below(den) < num
    }

    /// A number in `range`, both ends included.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        assert!(low <= high, "an empty range has no number to give");
        match (high - low).checked_add(1) {
            Some(n) => low + self.below(n),
            None => self.next_u64(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throws_are_the_published_splitmix64_sequence() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn throws_stay_within_their_bounds_and_reach_both_ends() {
        let mut rng = Rng::new(7);
        let throws: Vec<u64> = (0..1000).map(|_| rng.range(3..=6)).collect();
        assert_eq!((throws.iter().min(), throws.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(rng.range(u64::MAX..=u64::MAX), u64::MAX);
        let hits = (0..10_000).filter(|_| rng.chance(1, 4)).count();
        assert!((2200..2800).contains(&hits), "a quarter of 10,000 is not {hits}");
    }
}
