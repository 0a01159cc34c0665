//! Which rows say nearly the same: by the smallest hashes of their runs of three words.
//!
//! Each row has a signature of 32 bytes: its word triples are hashed and thrown into 32 bins, and of each bin the
//! smallest counts. The share of equal bytes is about the share of triples that two texts have in common. Rows that
//! have four bytes in a row in common, at one of eight places, are compared. That takes 40 bytes a row, finds 98 of a
//! hundred pairs that share four fifths of their triples, and depends on nothing but the texts and their order.

use std::panic::resume_unwind;
use std::thread;

use manent_store::threads::spawn_scoped;

/// The signature of a text.
pub(super) type Signature = [u8; BINS];

/// Takes words as they come and makes a signature of them.
#[derive(Debug)]
pub(super) struct Shingles {
    bins: [u32; BINS],
    /// The hashes of the last two words.
    before: (u64, u64),
    words: u64,
}

impl Shingles {
    pub(super) fn new() -> Shingles {
        Shingles { bins: [u32::MAX; BINS], before: (0, 0), words: 0 }
    }

    /// Adds a text. Case and punctuation do not count.
    pub(super) fn add(&mut self, text: &str) {
        let mut word = 0_u64;
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || byte >= 0x80 {
                word = (word.rotate_left(5) ^ u64::from(byte | 0x20)).wrapping_mul(SPREAD);
            } else if word != 0 {
                self.word(word);
                word = 0;
            }
        }
        if word != 0 {
            self.word(word);
        }
    }

    fn word(&mut self, word: u64) {
        self.words += 1;
        let (first, second) = self.before;
        self.before = (second, word);
        if self.words >= 3 {
            self.put(mixed(
                first.wrapping_mul(3).rotate_left(17) ^ second.wrapping_mul(5).rotate_left(31) ^ word,
            ));
        }
    }

    fn put(&mut self, hash: u64) {
        let bin = &mut self.bins[(hash >> (64 - 5)) as usize];
        *bin = (*bin).min(hash as u32);
    }

    /// The signature; nothing for a text that is too short to be like another.
    pub(super) fn signature(mut self) -> Option<Signature> {
        if self.words < WORDS_MIN {
            return None;
        }
        let filled = self.bins;
        for (at, bin) in self.bins.iter_mut().enumerate() {
            // An empty bin takes what stands in the next one that is not, changed by how far away that is.
            let mut away = 0;
            while *bin == u32::MAX && away < BINS {
                away += 1;
                let other = filled[(at + away) % BINS];
                if other != u32::MAX {
                    *bin = other.wrapping_add((away as u32).wrapping_mul(0x9E37_79B1));
                }
            }
        }
        Some(self.bins.map(|bin| (bin.wrapping_mul(0x85EB_CA6B) >> 24) as u8))
    }
}

fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 33)).wrapping_mul(SPREAD);
    let hash = (hash ^ (hash >> 29)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 32)
}

/// How many places of two signatures are equal.
fn equal(a: &Signature, b: &Signature) -> u8 {
    // Bytes into a byte: one instruction for many of them.
    a.iter().zip(b).fold(0, |count, (a, b)| count + u8::from(a == b))
}

/// What is known of a row that may be like another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Likeness {
    pub(super) signature: Signature,
    /// Rows of another class are not compared, but for those on the other side.
    pub(super) class: u8,
    /// The one that gives way if two are alike.
    pub(super) in_validation: bool,
}

/// Why a row is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alike {
    /// Another row of its side says nearly the same.
    Here,
    /// It is for validation, and a row to train on says nearly the same.
    InTrain,
}

/// Finds rows that say nearly what an earlier one does, where rows to train on are earlier than all for validation.
/// `row` gives each by its number; nothing for those that are not compared.
pub(super) fn alike(count: usize, row: impl Fn(usize) -> Option<Likeness> + Sync) -> Vec<(usize, Alike)> {
    let mut gone = vec![None; count];
    for band in 0..BINS / BAND {
        let left = |at: usize| row(at).filter(|_| gone[at].is_none());
        // Rows are only compared with rows of the same bucket, so that each thread takes half of the buckets.
        let halves = if count < FEW {
            [thinned(count, band, |_| true, left), Vec::new()]
        } else {
            thread::scope(|scope| {
                let upper = || thinned(count, band, |key| key > u32::MAX / 2, left);
                let upper = spawn_scoped(scope, upper);
                let lower = thinned(count, band, |key| key <= u32::MAX / 2, left);
                [lower, upper.finish().unwrap_or_else(|panic| resume_unwind(panic))]
            })
        };
        for (at, why) in halves.into_iter().flatten() {
            gone[at] = Some(why);
        }
    }
    gone.into_iter().enumerate().filter_map(|(at, why)| Some((at, why?))).collect()
}

/// Puts rows that have a band in common into buckets, and compares those in the buckets that are wanted.
fn thinned(
    count: usize,
    band: usize,
    is_wanted: impl Fn(u32) -> bool,
    row: impl Fn(usize) -> Option<Likeness>,
) -> Vec<(usize, Alike)> {
    let mut keys: Vec<(u32, bool, u32)> = Vec::new();
    keys.extend((0..count).filter_map(|at| {
        let row = row(at)?;
        let key = u32::from_le_bytes(*row.signature[band * BAND..].first_chunk::<BAND>()?);
        is_wanted(key).then_some((key, row.in_validation, at as u32))
    }));
    keys.sort_unstable();
    let mut gone = Vec::new();
    for bucket in keys.chunk_by(|a, b| a.0 == b.0).filter(|bucket| bucket.len() > 1) {
        thin(bucket, &row, &mut gone);
    }
    gone
}

/// Compares the rows of a bucket, each with those before it that stay.
fn thin(
    bucket: &[(u32, bool, u32)],
    row: impl Fn(usize) -> Option<Likeness>,
    gone: &mut Vec<(usize, Alike)>,
) {
    let mut kept: Vec<Likeness> = Vec::new();
    for (_, _, at) in bucket {
        let at = *at as usize;
        let Some(row) = row(at) else { continue };
        let like = kept.iter().rev().take(COMPARED_MAX).find(|other| {
            (other.class == row.class || other.in_validation != row.in_validation)
                && equal(&other.signature, &row.signature) >= EQUAL_MIN
        });
        match like {
            Some(other) if other.in_validation == row.in_validation => gone.push((at, Alike::Here)),
            Some(_) => gone.push((at, Alike::InTrain)),
            None => kept.push(row),
        }
    }
}

const BINS: usize = 32;
const BAND: usize = 4;
/// Three quarters: two texts that share four fifths of their triples have as many in nearly all cases.
const EQUAL_MIN: u8 = 24;
/// A text of fewer words is like many others, and only compared to the letter.
const WORDS_MIN: u64 = 8;
/// In one bucket, with so many of those that stay: a bucket of thousands is no reason to take hours.
const COMPARED_MAX: usize = 256;
/// So few that a second thread is not worth it.
const FEW: usize = 10_000;
const SPREAD: u64 = 0xFF51_AFD7_ED55_8CCD;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str, in_validation: bool) -> Option<Likeness> {
        let mut shingles = Shingles::new();
        shingles.add(text);
        shingles.signature().map(|signature| Likeness { signature, class: 0, in_validation })
    }

    fn found(rows: &[Option<Likeness>]) -> Vec<(usize, Alike)> {
        alike(rows.len(), |at| rows[at])
    }

    fn words(from: u64, count: u64) -> String {
        (from..from + count).map(|n| format!("w{}", mixed(n) % 100_000)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nearly_the_same_is_found_and_the_different_is_not() {
        let mut missed = 0;
        for seed in 0..200 {
            let text = words(seed * 1000, 120);
            let changed = text.replacen(text.split(' ').nth(60).unwrap(), "Other", 1);
            let other = words(seed * 1000 + 500, 120);
            let found = found(&[row(&text, false), row(&other, false), row(&changed, false)]);
            assert!(found.iter().all(|(at, _)| *at == 2), "only what is alike");
            missed += usize::from(found.is_empty());
        }
        assert!(missed <= 2, "{missed} of 200 were missed");
    }

    #[test]
    fn the_row_for_validation_gives_way_whatever_the_order() {
        let (a, b) = (words(1, 80), words(1, 81));
        let found = found(&[row(&a, true), row(&b, false)]);
        assert_eq!(found, [(0, Alike::InTrain)]);
    }
}
