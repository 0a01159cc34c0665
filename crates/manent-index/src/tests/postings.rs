//! Lists of turns: packed, unpacked, gone through in leaps, and bounded.

use manent_sim::Rng;

use super::in_memory;
use crate::query::score;
use crate::segment::postings::{BLOCK, BlockBound, END, PostingList, encode, put_tags, tag_at};

/// A list, as whoever made it knows it.
struct MergedDocs {
    docs: Vec<u32>,
    times: Vec<u32>,
    tags: Vec<u8>,
}

impl MergedDocs {
    fn any(rng: &mut Rng, len: usize) -> MergedDocs {
        let gap = [1, 2, 40, 5000, 1 << 20][rng.below(5) as usize];
        let mut doc = rng.below(gap) as u32;
        let docs: Vec<u32> = (0..len)
            .map(|_| {
                let this = doc;
                doc += 1 + rng.below(gap) as u32;
                this
            })
            .collect();
        let often = [1, 1, 3, 300][rng.below(4) as usize];
        let times: Vec<u32> = docs.iter().map(|_| 1 + rng.below(often) as u32).collect();
        let tags = (0..times.iter().sum()).map(|_: u32| rng.below(16) as u8).collect();
        MergedDocs { docs, times, tags }
    }

    /// A length and a time for a record: anything that depends on its number alone.
    fn norm(doc: u32) -> u8 {
        (doc.wrapping_mul(2_654_435_761) >> 24) as u8
    }

    fn second(doc: u32) -> u32 {
        doc.wrapping_mul(40_503)
    }

    fn bound(doc: u32, times: u32) -> BlockBound {
        BlockBound { impact: score::impact(times, MergedDocs::norm(doc)), newest: MergedDocs::second(doc) }
    }

    fn list(&self) -> PostingList {
        let mut bytes = b"something before it".to_vec();
        let begin = bytes.len() as u64;
        encode(&mut bytes, &self.docs, &self.times, MergedDocs::bound);
        let end = bytes.len() as u64;
        put_tags(&mut bytes, &self.tags);
        let pages = in_memory(bytes);
        let (list, tags) = (pages.read(begin..end).unwrap(), end..pages.len());
        PostingList::new(list, self.docs.len() as u32, pages, tags).unwrap()
    }

    /// The tags of the occurrences in the turn at this place.
    fn tags_at(&self, at: usize) -> &[u8] {
        let before: u32 = self.times[..at].iter().sum();
        &self.tags[before as usize..(before + self.times[at]) as usize]
    }
}

const LENGTHS: [usize; 14] = [0, 1, 2, 7, 8, 9, 127, 128, 129, 255, 256, 257, 1000, 5000];

#[test]
fn what_is_packed_comes_out_again() {
    let mut rng = Rng::new(1);
    for len in LENGTHS {
        for _ in 0..20 {
            let made = MergedDocs::any(&mut rng, len);
            let mut list = made.list();
            assert_eq!((list.count() as usize, list.blocks()), (len, len.div_ceil(BLOCK)));
            let (mut docs, mut times) = (Vec::new(), Vec::new());
            while list.doc() != END {
                docs.push(list.doc());
                times.push(list.times());
                list.next().unwrap();
            }
            assert_eq!((docs, times), (made.docs.clone(), made.times.clone()));
            assert_eq!((list.next().unwrap(), list.times()), (END, 0), "behind the end");
            let mut blocks = Vec::new();
            for block in (0..list.blocks()).rev() {
                list.unpack(block).unwrap();
                blocks.splice(0..0, list.unpacked().0.iter().copied());
            }
            assert_eq!(blocks, made.docs, "block by block, in any order");
        }
    }
}

#[test]
fn leaps_lead_to_where_steps_would() {
    let mut rng = Rng::new(2);
    for len in LENGTHS {
        for _ in 0..60 {
            let made = MergedDocs::any(&mut rng, len);
            let mut list = made.list();
            let end = made.docs.last().copied().unwrap_or(0);
            let leap = [1, 3, 500, u64::from(end / 3 + 1), 1 << 22][rng.below(5) as usize];
            let (mut target, mut from) = (0, 0);
            loop {
                let at = made.docs.partition_point(|doc| *doc < target).max(from);
                let wanted = made.docs.get(at).copied().unwrap_or(END);
                assert_eq!(list.seek(target).unwrap(), wanted, "to {target} of {len}");
                assert_eq!(list.doc(), wanted);
                if wanted == END {
                    break;
                }
                assert_eq!(list.times(), made.times[at]);
                let tag = rng.below(16) as u8;
                let followed = made.tags_at(at).iter().map(|other| usize::from(*other == tag)).sum::<usize>();
                assert_eq!(list.followed_by(tag).unwrap() as usize, followed);
                if rng.chance(1, 5) {
                    assert_eq!(list.next().unwrap(), made.docs.get(at + 1).copied().unwrap_or(END));
                    from = at + 1;
                }
                target = target.max(wanted) + rng.below(leap) as u32;
            }
            assert_eq!(list.seek(0).unwrap(), END, "it does not go back");
        }
    }
}

#[test]
fn the_next_turn_with_a_tag_is_found() {
    let mut rng = Rng::new(3);
    for len in LENGTHS {
        for tag in 0..16 {
            let made = MergedDocs::any(&mut rng, len);
            let mut list = made.list();
            let mut found = Vec::new();
            loop {
                let times = list.seek_followed(tag).unwrap();
                if list.doc() == END {
                    break;
                }
                found.push((list.doc(), times));
                list.next().unwrap();
            }
            let count = |at: usize| {
                made.tags_at(at).iter().map(|other| usize::from(*other == tag)).sum::<usize>() as u32
            };
            let all = (0..len).map(|at| (made.docs[at], count(at)));
            assert_eq!(found, all.filter(|(_, times)| *times > 0).collect::<Vec<_>>());
        }
    }
}

#[test]
fn no_turn_of_a_block_is_better_than_its_bound() {
    let mut rng = Rng::new(4);
    for len in [128, 129, 500, 5000] {
        for _ in 0..20 {
            let made = MergedDocs::any(&mut rng, len);
            let list = made.list();
            for (block, (docs, times)) in made.docs.chunks(BLOCK).zip(made.times.chunks(BLOCK)).enumerate() {
                let bound = list.bound(block).unwrap();
                for (doc, times) in docs.iter().zip(times) {
                    let one = MergedDocs::bound(*doc, *times);
                    assert!(one.impact <= bound.impact && one.newest <= bound.newest, "{one:?}, {bound:?}");
                }
            }
        }
    }
    assert!(MergedDocs::any(&mut rng, 127).list().bound(0).is_none(), "short lists have none");
}

/// A bound is kept in sixteen bits: whatever a turn brings, what is read back is not less, to the last bit.
#[test]
fn no_bound_is_rounded_down() {
    for norm in 0..=255 {
        for times in (1..70).chain([100, 255, 256, 1000, 65_535, 65_536, 1 << 20, u32::MAX]) {
            let impact = score::impact(times, norm);
            let mut bytes = Vec::new();
            let docs: Vec<u32> = (0..128).collect();
            encode(&mut bytes, &docs, &[1; 128], |_, _| BlockBound { impact, newest: u32::MAX });
            let pages = in_memory(bytes);
            let list = PostingList::new(pages.read(0..pages.len()).unwrap(), 128, pages, 0..0).unwrap();
            let bound = list.bound(0).unwrap();
            assert!(impact <= bound.impact, "{times} times, norm {norm}: {impact} and {}", bound.impact);
            assert!(impact * 3.7 <= bound.impact * 3.7, "nor with a weight");
            assert_eq!(bound.newest, u32::MAX);
        }
    }
}

#[test]
fn tags_are_two_in_a_byte() {
    for len in 0..9 {
        let tags: Vec<u8> = (0..len).map(|n| n * 7 % 16).collect();
        let mut bytes = Vec::new();
        put_tags(&mut bytes, &tags);
        let read: Vec<u8> = (0..tags.len()).map(|at| tag_at(&bytes, at).unwrap()).collect();
        assert_eq!(read, tags);
        assert_eq!(tag_at(&bytes, tags.len() + 1), None);
    }
}
