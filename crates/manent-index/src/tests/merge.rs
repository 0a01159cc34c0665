//! One segment out of several is what would have been made of their turns at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use manent_sim::Rng;

use super::{Read, Turn, any_read, open, segment_bytes, view};
use crate::segment::builder::merge;
use crate::segment::postings::tag_at;
use crate::segment::view::SegmentView;
use crate::segment::{RecordRef, Run, Segment};

/// Everything that a segment says.
#[derive(Debug, PartialEq)]
struct Contents {
    /// For each word: turn, how often, and the tags of what follows.
    words: BTreeMap<String, Vec<(u32, Vec<u8>)>>,
    turns: Vec<(u8, String, u32, RecordRef)>,
    runs: Vec<Run>,
}

fn contents(segment: &Segment) -> Contents {
    let mut words = BTreeMap::new();
    let mut cursor = segment.words.cursor();
    while let Some(entry) = cursor.next().unwrap() {
        let word = String::from_utf8(cursor.word().to_vec()).unwrap();
        let (mut list, tags) = (segment.list(&entry).unwrap(), segment.raw_tags(&entry).unwrap());
        let (mut occurrences, mut at) = (Vec::new(), 0);
        while list.doc() != crate::segment::postings::END {
            let end = at + list.times() as usize;
            occurrences.push((list.doc(), (at..end).map(|at| tag_at(&tags, at).unwrap()).collect()));
            at = end;
            list.next().unwrap();
        }
        assert_eq!(occurrences.len() as u32, entry.count);
        words.insert(word, occurrences);
    }
    let role = |doc: u32| segment.roles[usize::from(segment.role_of().unwrap()[doc as usize])].clone();
    let turn = |doc: u32| {
        let norm = segment.norms().unwrap()[doc as usize];
        (norm, role(doc), segment.seconds().unwrap().of(doc), segment.record_ref(doc).unwrap())
    };
    Contents { words, turns: (0..segment.turns).map(turn).collect(), runs: segment.runs.clone() }
}

#[test]
fn a_merge_is_what_would_have_been_made_at_once() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let (mut views, mut stay) = (Vec::new(), Vec::new());
        let mut session = 0;
        for _ in 0..rng.range(1..=5) {
            let reads: Vec<Read> = (0..rng.range(1..=4))
                .map(|_| {
                    session += 1;
                    let turns = [1, 3, 40, 300][rng.below(4) as usize];
                    any_read(&mut rng, session, turns)
                })
                .collect();
            // Sessions with these numbers are gone.
            let is_gone = |number: u64| number % 3 == 1;
            let segment = Arc::new(open(segment_bytes(&reads)));
            views.push(SegmentView::new(segment, |number| (!is_gone(number)).then_some(number as u32)));
            stay.extend(reads.into_iter().filter(|read| !is_gone(read.session)));
        }
        let merged = open(merge(&views).unwrap());
        assert_eq!(contents(&merged), contents(&open(segment_bytes(&stay))), "seed {seed}");
        let again = open(merge(&[view(open(merge(&views).unwrap()))]).unwrap());
        assert_eq!(contents(&again), contents(&merged), "and again, seed {seed}");
    }
}

/// A merge leaves nothing of a session that is gone in the bytes: no word of it, and no role.
#[test]
fn a_merge_keeps_nothing_of_what_is_gone() {
    let turn = |role: &str, text: &str| Turn {
        role: role.to_owned(),
        second: 1,
        record: RecordRef { offset: 0x1122_3344_5566, seq: 7, crc: 0xdead_beef },
        text: text.to_owned(),
    };
    let read = |session, turns| Read { session, echo: 0, turns };
    let stays = read(1, vec![turn("user", "alpha bravo")]);
    let goes = read(2, vec![turn("qzrole", "alpha qzsecret qzsecrets bravo"), turn("user", "vwsecret")]);
    for reads in [vec![stays.clone(), goes.clone()], vec![goes, stays]] {
        let bytes = segment_bytes(&reads);
        let holds = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).any(|some| some == what);
        let secrets: [&[u8]; 4] =
            [b"qzsecret", b"vwsecret", b"qzrole", &[0x66, 0x55, 0x44, 0x33, 0x22, 0x11]];
        assert!(secrets.iter().all(|secret| holds(&bytes, secret)), "they are there before");
        let view = SegmentView::new(Arc::new(open(bytes)), |number| (number == 1).then_some(0));
        let merged = merge(&[view]).unwrap();
        // The place in the log is that of the turn that stays too.
        let left: Vec<_> = secrets[..3].iter().filter(|secret| holds(&merged, secret)).collect();
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(contents(&open(merged)).turns.len(), 1);
    }
}

#[test]
fn a_merge_of_nothing_is_nothing() {
    let gone = SegmentView::new(Arc::new(open(segment_bytes(&[any_read(&mut Rng::new(1), 1, 5)]))), |_| None);
    for views in [vec![], vec![gone]] {
        let merged = open(merge(&views).unwrap());
        assert_eq!((merged.turns, contents(&merged).words.len()), (0, 0));
    }
}
