//! Questions that are worth a second thread, asked where none can be started.

use super::{Read, RecordRef, SegmentView, Turn, open, segment_bytes, view};
use crate::query::Query;
use crate::query::matching::matching;
use crate::query::score::TopK;
use crate::segment::view::QueryFilter;
use manent_store::threads::without_threads;

/// A segment of one session whose turns all hold the same two words.
fn segment_of(session: u64, turns: u64) -> SegmentView {
    let turn = |seq: u64| Turn {
        role: "user".to_owned(),
        second: 1_700_000_000 + seq as u32,
        record: RecordRef { offset: seq * 100, seq, crc: seq as u32 },
        text: "alpha bravo".to_owned(),
    };
    let turns = (1..=turns).map(turn).collect();
    view(open(segment_bytes(&[Read { session, echo: 0, turns }])))
}

#[test]
fn matching_without_threads_finds_the_same_turns() {
    let views = [segment_of(0, 40_000), segment_of(1, 40_000)];
    let query = Query::parse("alpha bravo", 0).unwrap();
    let filter = QueryFilter { alive: None, sessions: None, role: None, since: None, until: None };
    let tie = |_: &_, _: &_| std::cmp::Ordering::Equal;
    let found = || {
        let found = matching(&views, &query, &filter, TopK::new(5, &tie)).unwrap();
        let record_refs: Vec<(u32, u32)> = found.best.iter().map(|one| (one.segment, one.doc)).collect();
        (record_refs, found.total)
    };
    let (record_refs, total) = without_threads(found);
    assert_eq!((record_refs.len(), total), (5, Some(80_000)));
    assert_eq!(found(), (record_refs, total));
}
