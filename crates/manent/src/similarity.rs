//! `MinHash` signatures: estimates of how much two sets have in common, and candidates for comparison in a large
//! collection.
//!
//! A set is reduced to 32 bytes by one-permutation hashing: every element is hashed into one of 32 bins, and the
//! smallest hash of a bin counts. A bin that no element fell into copies a bin chosen by a hash of its own number
//! (optimal densification), which keeps the estimate unbiased for sets of only a few elements. The share of bins that
//! are equal in two signatures estimates the Jaccard similarity of the two sets.
//!
//! To find similar sets among many without comparing all pairs, put each set into one bucket per band
//! ([`Signature::bands`]) and compare it with the others of its buckets: of the pairs with a similarity of 0.8, 98 in
//! 100 share a bucket, of those with a similarity of 0.3, six. The result depends on nothing but the elements.

/// The number of bins of a signature.
pub const BINS: usize = 32;
/// The number of bins whose values together choose a bucket.
pub const BAND_BINS: usize = 4;

/// Collects the elements of a set for a [`Signature`].
///
/// ```
/// use manent::similarity::MinHash;
/// let signature = |words: &[u64]| {
///     let mut set = MinHash::default();
///     words.iter().for_each(|word| set.insert(*word));
///     set.signature()
/// };
/// assert_eq!(signature(&[1, 2, 3]), signature(&[3, 1, 2, 2]));
/// ```
#[derive(Debug, Clone)]
pub struct MinHash {
    /// The smallest hash of each bin, or `u32::MAX` for an empty one.
    bins: [u32; BINS],
}

impl Default for MinHash {
    fn default() -> MinHash {
        MinHash { bins: [u32::MAX; BINS] }
    }
}

impl MinHash {
    /// Adds an element, given as a hash of it. The hash need not be well distributed: it is mixed again here.
    #[inline]
    pub fn insert(&mut self, element: u64) {
        let hash = mix(element);
        let bin = &mut self.bins[(hash >> (64 - BINS.ilog2())) as usize];
        *bin = (*bin).min(hash as u32);
    }

    /// Returns the signature of the elements inserted so far. All empty sets have the same one.
    #[must_use]
    pub fn signature(&self) -> Signature {
        let mut filled = self.bins;
        if self.bins.iter().any(|bin| *bin != u32::MAX) {
            for (at, bin) in filled.iter_mut().enumerate() {
                let mut attempt = at as u64;
                while *bin == u32::MAX {
                    attempt += BINS as u64;
                    *bin = self.bins[mix(attempt) as usize % BINS];
                }
            }
        }
        Signature::of_bins(filled)
    }

    /// Returns a signature in which an empty bin copies the next one that is not, changed by the distance to it
    /// (densification by rotation). The estimate varies more for sets of only a few elements. Data sets stay with it,
    /// so that the rows that are left out of them as near-duplicates do not change.
    #[must_use]
    pub fn rotated_signature(&self) -> Signature {
        let mut filled = self.bins;
        for (at, bin) in filled.iter_mut().enumerate().filter(|(_, bin)| **bin == u32::MAX) {
            let next = (1..BINS).find(|away| self.bins[(at + away) % BINS] != u32::MAX);
            if let Some(away) = next {
                let other = self.bins[(at + away) % BINS];
                *bin = other.wrapping_add((away as u32).wrapping_mul(0x9E37_79B1));
            }
        }
        Signature::of_bins(filled)
    }
}

/// The [`MinHash`] signature of a set, one byte per bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; BINS]);

impl Signature {
    fn of_bins(bins: [u32; BINS]) -> Signature {
        Signature(bins.map(|bin| (bin.wrapping_mul(0x85EB_CA6B) >> 24) as u8))
    }

    /// Returns the bucket of each band. Sets that share one are worth comparing.
    pub fn bands(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.as_chunks::<BAND_BINS>().0.iter().map(|band| u32::from_le_bytes(*band))
    }

    /// Counts the bins in which two signatures agree. Divided by [`BINS`], this estimates the Jaccard similarity.
    pub fn equal_bins(&self, other: &Signature) -> u8 {
        // Bytes are summed into a byte, so that one instruction compares many of them.
        self.0.iter().zip(&other.0).fold(0, |count, (a, b)| count + u8::from(a == b))
    }
}

/// Mixes all bits of a number into all bits of the result (the finalizer of `MurmurHash3`).
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    let number = (number ^ (number >> 29)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    number ^ (number >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(elements: impl IntoIterator<Item = u64>) -> Signature {
        let mut set = MinHash::default();
        elements.into_iter().for_each(|element| set.insert(element));
        set.signature()
    }

    #[test]
    fn equal_bins_estimate_the_jaccard_similarity() {
        for (size, shared) in [(5_u64, 4_u64), (10, 8), (100, 50), (1000, 900)] {
            let (mut equal, rounds) = (0, 400);
            for round in 0..rounds {
                let base = round * 1_000_000;
                let a = signature(base..base + size);
                let b = signature(base + size - shared..base + 2 * size - shared);
                equal += u64::from(a.equal_bins(&b));
            }
            let estimated = equal * 100 / (rounds * BINS as u64);
            let exact = shared * 100 / (2 * size - shared);
            assert!(estimated.abs_diff(exact) <= 4, "{size} {shared}: {estimated} for {exact}");
        }
    }

    #[test]
    fn similar_sets_share_a_band() {
        let missed = (0..400_u64).filter(|round| {
            let base = round * 1_000_000;
            let (a, b) = (signature(base..base + 45), signature(base + 5..base + 50));
            !a.bands().zip(b.bands()).any(|(a, b)| a == b)
        });
        assert!(missed.count() <= 16, "of 400 pairs with a similarity of 0.8");
    }

    #[test]
    fn the_empty_set_has_a_signature() {
        assert_eq!(signature([]), signature([]));
        assert_ne!(signature([]), signature([1]));
    }
}
