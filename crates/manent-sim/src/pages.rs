//! The content of one file: what the page cache shows, and what of it is on the disk.
//!
//! Kept at the granularity of a sector, the largest piece that a disk writes whole. The cache is one byte
//! vector; beside it, only sectors whose disk version differs are remembered, each with all the versions it
//! has had since, because the kernel may have written out any of them at any moment.
//!
//! The invariant: a sector that is not in `unsynced` is on the disk exactly as the cache shows it. So a sync
//! forgets entries, a power cut chooses among versions, and neither touches a byte that was synced before.
//!
//! What it does not do: names, errors, capacity; and it never tears a sector, for then no appended file could
//! keep a synced record that shares a sector with the next one.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use crate::rng::Rng;

/// The part of the unsynced content of a file that a power cut leaves. Each is a shape that real disks have left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutStyle {
    /// Keeps nothing since the last sync: the common case on ext4.
    Lost,
    /// Everything did.
    Kept,
    /// The file ends where it ended after some append, with all data up to there.
    Prefix,
    /// Data up to some sector was written out. The file ends there, or goes on in NULs.
    Torn,
    /// The new length was written, the data was not: the file ends in NULs.
    NulTail,
    /// Each sector for itself is any of its versions, and the length is any it has had.
    Scattered,
}

/// One file's bytes.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    live: Vec<u8>,
    durable_len: usize,
    /// The lengths since the last good sync, oldest first, without the durable one.
    lens: Vec<usize>,
    unsynced: BTreeMap<usize, Sector>,
}

/// A sector whose disk version is not known to be the cached one. The newest version is in `Pages::live`.
///
/// Versions end where the file ended at the time; the rest of the sector is NULs.
#[derive(Debug)]
struct Sector {
    durable: Box<[u8]>,
    older: Vec<Box<[u8]>>,
    /// A sync failed on it: the kernel takes it for clean and will not write it until somebody changes it.
    stuck: bool,
}

impl Pages {
    /// A file that is on the disk as it is in the cache.
    pub(crate) fn durable(bytes: Vec<u8>) -> Self {
        Self { durable_len: bytes.len(), live: bytes, ..Self::default() }
    }

    /// The bytes that readers see.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.live
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = self.live.len() + bytes.len();
        self.touch(self.live.len()..end);
        self.live.extend_from_slice(bytes);
        self.lens.push(end);
    }

    /// Writes over bytes that are there. A hole behind the end is not modelled: nobody of ours makes one.
    pub(crate) fn write_at(&mut self, bytes: &[u8], offset: usize) -> io::Result<()> {
        let end = offset + bytes.len();
        if end > self.live.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.touch(offset..end);
        self.live[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn set_len(&mut self, len: usize) {
        // Cutting writes NULs as far as the disk can tell; extending writes nothing, for what is not there is
        // NUL.
        if len < self.live.len() {
            self.touch(len..self.live.len());
        }
        self.live.resize(len, 0);
        self.lens.push(len);
    }

    /// A sync that worked: all is durable, except what an earlier failed sync gave up.
    ///
    /// The length is durable too, and with it sectors behind the end are gone: in the block of the last sector they
    /// were written as NULs together with it, if it was written, and further blocks were given back.
    pub(crate) fn sync(&mut self) {
        let sectors = self.live.len().div_ceil(SECTOR_BYTES);
        let last = sectors.checked_sub(1).and_then(|last| self.unsynced.get(&last));
        let end_is_stuck = last.is_some_and(|sector| sector.stuck);
        self.unsynced.retain(|&index, sector| sector.stuck && (index < sectors || end_is_stuck));
        self.durable_len = self.live.len();
        self.lens.clear();
    }

    /// A sync that failed. The kernel drops the data but not the new length, which the next sync still
    /// writes.
    pub(crate) fn fail_sync(&mut self) {
        for sector in self.unsynced.values_mut() {
            sector.stuck = true;
        }
    }

    /// The kernel reclaims clean pages. Stuck sectors count as clean, so readers now see the disk version.
    pub(crate) fn drop_clean(&mut self) {
        let live = &mut self.live;
        self.unsynced.retain(|&index, sector| {
            if sector.stuck {
                put(live, index, &sector.durable);
            }
            !sector.stuck
        });
    }

    /// The power fails: the disk's view, whatever it is, becomes the only one.
    pub(crate) fn cut(&mut self, style: CutStyle, rng: &mut Rng) {
        // For `Torn`: the first sector that was not written out any more.
        let nth = rng.below(self.unsynced.len() as u64 + 1) as usize;
        let border = self.unsynced.keys().nth(nth).copied().unwrap_or(usize::MAX);
        let len = self.cut_len(style, border, rng);
        // A file that kept its old length has all its old data: `Prefix` is what a journal leaves, not a
        // mixture.
        let nothing_new = len == self.durable_len;
        self.live.resize(len.max(self.live.len()), 0);
        for (&index, sector) in &self.unsynced {
            let version = match style {
                CutStyle::Lost | CutStyle::NulTail => Some(&sector.durable),
                CutStyle::Kept => None,
                CutStyle::Prefix => nothing_new.then_some(&sector.durable),
                CutStyle::Torn => (index >= border).then_some(&sector.durable),
                CutStyle::Scattered => match rng.below(sector.older.len() as u64 + 2) {
                    0 => Some(&sector.durable),
                    n => sector.older.get(n as usize - 1),
                },
            };
            // Otherwise the newest version stays, which is there already.
            if let Some(version) = version {
                put(&mut self.live, index, version);
            }
        }
        self.live.truncate(len);
        self.unsynced.clear();
        self.lens.clear();
        self.durable_len = len;
    }

    /// The length that a power cut leaves.
    fn cut_len(&self, style: CutStyle, border: usize, rng: &mut Rng) -> usize {
        let end = self.live.len();
        let any = match rng.below(self.lens.len() as u64 + 1) {
            0 => self.durable_len,
            n => self.lens[n as usize - 1],
        };
        let coin = rng.chance(1, 2);
        match style {
            CutStyle::Lost => self.durable_len,
            CutStyle::Prefix | CutStyle::Scattered => any,
            CutStyle::NulTail if coin => any,
            // ext4 writes a length that covers what it has written out, which may end inside a record.
            CutStyle::Torn if coin => {
                border.saturating_mul(SECTOR_BYTES).clamp(self.durable_len.min(end), end)
            }
            CutStyle::Kept | CutStyle::NulTail | CutStyle::Torn => end,
        }
    }

    /// Remembers the present versions of the sectors in a byte range that is about to change.
    fn touch(&mut self, range: Range<usize>) {
        for index in range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES) {
            let start = (index * SECTOR_BYTES).min(self.live.len());
            let end = (start + SECTOR_BYTES).min(self.live.len());
            let before: Box<[u8]> = self.live[start..end].into();
            match self.unsynced.get_mut(&index) {
                Some(sector) => {
                    sector.older.push(before);
                    sector.stuck = false;
                }
                None => {
                    self.unsynced.insert(index, Sector { durable: before, older: Vec::new(), stuck: false });
                }
            }
        }
    }
}

impl CutStyle {
    pub(crate) fn pick(rng: &mut Rng) -> Self {
        match rng.below(8) {
            0 => Self::Lost,
            1 => Self::Kept,
            2 => Self::Prefix,
            3 | 4 => Self::Torn,
            5 => Self::NulTail,
            _ => Self::Scattered,
        }
    }
}

/// Puts one version of a sector into a file's bytes, as far as the file reaches.
fn put(bytes: &mut [u8], index: usize, version: &[u8]) {
    let start = (index * SECTOR_BYTES).min(bytes.len());
    let end = (start + SECTOR_BYTES).min(bytes.len());
    let (filled, rest) = bytes[start..end].split_at_mut(version.len().min(end - start));
    filled.copy_from_slice(&version[..filled.len()]);
    rest.fill(0);
}

pub(crate) const SECTOR_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const STYLES: [CutStyle; 6] = [
        CutStyle::Lost,
        CutStyle::Kept,
        CutStyle::Prefix,
        CutStyle::Torn,
        CutStyle::NulTail,
        CutStyle::Scattered,
    ];

    /// The distinct results of many cuts of the file that `build` makes.
    fn outcomes(build: impl Fn() -> Pages, styles: &[CutStyle]) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        for seed in 0..200 {
            for &style in styles {
                let mut pages = build();
                pages.cut(style, &mut Rng::new(seed));
                assert_eq!(pages.durable_len, pages.live.len());
                seen.push(pages.live);
            }
        }
        seen.sort();
        seen.dedup();
        seen
    }

    #[test]
    fn a_synced_prefix_survives_every_cut_even_in_a_shared_sector() {
        let build = || {
            let mut pages = Pages::default();
            pages.append(&[1; 700]);
            pages.sync();
            pages.append(&[2; 900]);
            pages.append(&[3; 50]);
            pages
        };
        for left in outcomes(build, &STYLES) {
            assert_eq!(left[..700], [1; 700]);
            assert!(left.len() <= 1650);
        }
    }

    #[test]
    fn each_style_leaves_its_shape() {
        let build = || {
            let mut pages = Pages::durable(vec![1; 100]);
            pages.append(&[2; 1000]);
            pages.append(&[3; 1000]);
            pages
        };
        let all = [vec![1; 100], vec![2; 1000], vec![3; 1000]].concat();
        assert_eq!(outcomes(build, &[CutStyle::Lost]), [vec![1; 100]]);
        assert_eq!(outcomes(build, &[CutStyle::Kept]), std::slice::from_ref(&all));
        let prefixes = [all[..100].to_vec(), all[..1100].to_vec(), all.clone()];
        assert_eq!(outcomes(build, &[CutStyle::Prefix]), prefixes);
        let nul = |len| [vec![1; 100], vec![0; len]].concat();
        assert_eq!(outcomes(build, &[CutStyle::NulTail]), [nul(0), nul(1000), nul(2000)]);
        let torn = outcomes(build, &[CutStyle::Torn]);
        assert!(torn.contains(&all[..1024].to_vec()), "ends at a sector border inside a record");
        assert!(torn.contains(&[all[..1024].to_vec(), vec![0; 1076]].concat()), "goes on in NULs");
        assert!(outcomes(build, &[CutStyle::Scattered]).len() > 20);
    }

    #[test]
    fn a_scattered_cut_can_leave_an_older_version_under_a_newer_length() {
        let build = || {
            let mut pages = Pages::default();
            pages.append(&[1; 100]);
            pages.append(&[2; 100]);
            pages
        };
        let mixed = [vec![1; 100], vec![0; 100]].concat();
        assert!(outcomes(build, &[CutStyle::Scattered]).contains(&mixed));
    }

    #[test]
    fn a_failed_sync_gives_up_its_sectors_for_ever_but_not_the_length() {
        let build = || {
            let mut pages = Pages::durable(vec![1; 512]);
            pages.append(&[2; 512]);
            pages.fail_sync();
            pages.append(&[3; 512]);
            pages.sync();
            pages
        };
        assert_eq!(build().bytes().len(), 1536, "the cache still shows all");
        let full = [vec![1; 512], vec![2; 512], vec![3; 512]].concat();
        let hole = [vec![1; 512], vec![0; 512], vec![3; 512]].concat();
        assert_eq!(outcomes(build, &STYLES), [hole.clone(), full]);
        let mut pages = build();
        pages.drop_clean();
        assert_eq!(pages.bytes(), hole);
    }

    #[test]
    fn writing_again_to_a_stuck_sector_makes_the_next_sync_count() {
        let build = || {
            let mut pages = Pages::default();
            pages.append(&[2; 100]);
            pages.fail_sync();
            pages.append(&[3; 100]);
            pages.sync();
            pages
        };
        assert_eq!(outcomes(build, &STYLES), [[vec![2; 100], vec![3; 100]].concat()]);
    }

    #[test]
    fn the_same_bytes_written_again_to_a_stuck_sector_are_durable_after_the_next_sync() {
        let build = |again: bool| {
            move || {
                let mut pages = Pages::durable(vec![1; 512]);
                pages.append(&[2; 1024]);
                pages.fail_sync();
                if again {
                    pages.write_at(&[2; 1024], 512).unwrap();
                }
                pages.sync();
                pages
            }
        };
        let full = [vec![1; 512], vec![2; 1024]].concat();
        assert_eq!(outcomes(build(true), &STYLES), std::slice::from_ref(&full));
        assert!(outcomes(build(false), &STYLES).len() > 1, "a sync alone does not bring them to the disk");
    }

    #[test]
    fn sectors_cut_off_before_a_good_sync_never_come_back() {
        let cut_off = |end_is_written_again: bool| {
            move || {
                let mut pages = Pages::durable(vec![1; 500]);
                pages.append(&[2; 1024]);
                pages.set_len(500);
                pages.fail_sync();
                if end_is_written_again {
                    pages.write_at(&[1; 8], 492).unwrap();
                }
                pages.sync();
                pages.append(&[3; 1024]);
                pages
            }
        };
        let twos = |seen: Vec<Vec<u8>>| seen.iter().filter(|bytes| bytes.contains(&2)).count();
        assert_eq!(twos(outcomes(cut_off(true), &STYLES)), 0);
        assert!(twos(outcomes(cut_off(false), &STYLES)) > 0, "the sync did not write the end");
    }

    #[test]
    fn an_unsynced_truncation_may_be_undone_and_a_synced_one_may_not() {
        let cut_off = || {
            let mut pages = Pages::durable(vec![1; 2000]);
            pages.set_len(600);
            pages
        };
        let seen = outcomes(cut_off, &STYLES);
        assert!(seen.contains(&vec![1; 2000]) && seen.contains(&vec![1; 600]));
        let synced = || {
            let mut pages = cut_off();
            pages.sync();
            pages.set_len(700);
            pages.sync();
            pages
        };
        assert_eq!(outcomes(synced, &STYLES), [[vec![1; 600], vec![0; 100]].concat()]);
    }
}
