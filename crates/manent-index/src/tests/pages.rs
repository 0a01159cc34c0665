//! Bytes that are checked as they are read.

use std::sync::Arc;

use manent_sim::{Rng, SimDisk};
use manent_store::{Blobs, FileBlobs};

use super::sealed;
use crate::error::IndexResult;
use crate::pages::Pages;

const PAGE: usize = 8192;
const PATH: &str = "/file";

fn opened(bytes: &[u8]) -> IndexResult<Pages> {
    let disk = SimDisk::new(0);
    disk.poke(PATH, bytes).unwrap();
    let blobs = FileBlobs::new(Arc::new(disk), "/".into());
    Pages::open(blobs.open("file").unwrap().unwrap())
}

fn any_bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64() as u8).collect()
}

const LENGTHS: [usize; 8] = [0, 1, 100, PAGE - 1, PAGE, PAGE + 1, 3 * PAGE, 3 * PAGE + 5];

#[test]
fn what_was_sealed_is_read_wherever_one_looks() {
    let mut rng = Rng::new(1);
    for len in LENGTHS {
        let bytes = any_bytes(&mut rng, len);
        let pages = opened(&sealed(bytes.clone())).unwrap();
        assert_eq!(pages.len(), len as u64);
        for _ in 0..100 {
            let begin = rng.below(len as u64 + 1);
            let end = begin + rng.below(len as u64 - begin + 1);
            assert_eq!(&*pages.read(begin..end).unwrap(), &bytes[begin as usize..end as usize]);
        }
        assert_eq!(&*pages.read(0..len as u64).unwrap(), &bytes[..]);
        for (begin, end) in [(0, len as u64 + 1), (len as u64 + 1, len as u64 + 1), (1, 0), (0, u64::MAX)] {
            assert!(pages.read(begin..end).is_err(), "{begin}..{end} of {len}");
        }
    }
}

#[test]
fn a_page_that_changed_is_not_read_and_the_others_are() {
    let mut rng = Rng::new(2);
    let bytes = any_bytes(&mut rng, 3 * PAGE + 5);
    let sealed = sealed(bytes.clone());
    for at in (0..bytes.len()).step_by(61).chain([0, PAGE - 1, PAGE, 3 * PAGE, bytes.len() - 1]) {
        let mut changed = sealed.clone();
        changed[at] ^= 1 << (at % 8);
        let pages = opened(&changed).unwrap();
        for page in 0..4 {
            let range = page * PAGE..((page + 1) * PAGE).min(bytes.len());
            let read = pages.read(range.start as u64..range.end as u64);
            assert_eq!(read.is_err(), at / PAGE == page, "byte {at}, page {page}");
            if let Ok(read) = read {
                assert_eq!(&*read, &bytes[range]);
            }
        }
        assert!(pages.read(0..bytes.len() as u64).is_err());
    }
}

#[test]
fn nothing_is_opened_whose_checksums_changed_or_that_has_another_length() {
    let mut rng = Rng::new(3);
    for len in LENGTHS {
        let bytes = any_bytes(&mut rng, len);
        let sealed = sealed(bytes);
        for at in len..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(opened(&changed).is_err(), "byte {at} of {}", sealed.len());
        }
        for cut in (0..sealed.len()).step_by(1 + len / 40).chain(len..sealed.len()) {
            assert!(opened(&sealed[..cut]).is_err(), "cut to {cut} of {}", sealed.len());
        }
        let longer = [&sealed[..], b"\0"].concat();
        assert!(opened(&longer).is_err(), "a byte too long");
    }
}
