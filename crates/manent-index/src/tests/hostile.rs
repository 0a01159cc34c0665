//! Index files whose checksums hold and whose content does not: never a panic, never a hang, never more memory than
//! the file could fill. What they answer is another matter: whoever can seal a file can make it say anything.

use std::sync::Arc;

use bitpacking::{BitPacker, BitPacker4x};
use manent_sim::{Rng, SimDisk};

use super::{any_read, in_memory, open, sealed, segment_bytes};
use crate::ScoreScope;
use crate::catalogue::{self, CatalogueHead, Row, RowRef, SegmentFile};
use crate::error::IndexResult;
use crate::pages::put;
use crate::pages::u64_at;
use crate::query::Query;
use crate::query::matching::matching;
use crate::query::question::Question;
use crate::query::ranking::rank;
use crate::query::score::{Scored, TopK};
use crate::segment::RecordRef;
use crate::segment::builder::merge;
use crate::segment::dictionary::DictionaryWriter;
use crate::segment::view::{QueryFilter, SegmentView};
use crate::segment::{Run, Segment, SegmentParts};

use super::world::World;
use manent_store::{Cursor, Place, SessionKey, StreamId};

/// `MANENT_HOSTILE=n` tries n times as much.
fn times(usually: u64) -> u64 {
    usually * manent_sim::seeds::number("MANENT_HOSTILE").unwrap().unwrap_or(1)
}

const QUESTIONS: [&str; 9] = [
    "alpha",
    "alpha bravo charlie",
    "\"alpha bravo\"",
    "\"alpha brav*\"",
    "al*",
    "alpha OR delta -echo",
    "e* -\"do dog\" role:user",
    "since:2023 role:tool,user",
    "-role:nobody",
];

/// Asks a segment everything that an index asks.
fn ask_all(bytes: Vec<u8>) -> IndexResult<()> {
    let segment = Arc::new(Segment::open(in_memory(bytes))?);
    // All there; some gone.
    for every in [1, 2] {
        let view =
            SegmentView::new(segment.clone(), |number| (number % every == 0).then_some((number % 16) as u32));
        let views = [view];
        let tie = |a: &Scored, b: &Scored| a.doc.cmp(&b.doc);
        for text in QUESTIONS {
            let query = Query::parse(text, 1_794_766_020_000).unwrap();
            let has_role = |role: &str| query.roles.iter().any(|other| other == role);
            let filter = QueryFilter {
                alive: None,
                sessions: Some(&[u64::MAX, 0, 5, u64::MAX, 1 << 40, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, u64::MAX]),
                role: (!query.roles.is_empty()).then_some(&has_role as &(dyn Fn(&str) -> bool + Sync)),
                since: query.since_ms.map(|_| 1_700_500_000),
                until: None,
            };
            for limit in [1, 1000] {
                let found = matching(&views, &query, &filter, TopK::new(limit, &tie)).map(|found| found.best);
                let near = rank(
                    &views,
                    &Question::new(&query),
                    &filter,
                    16,
                    ScoreScope::Conversation,
                    TopK::new(limit, &tie),
                )
                .map(|ranking| ranking.best);
                for scored in found.into_iter().chain(near).flatten() {
                    let _ = (views[0].row_of(scored.doc), segment.record_ref(scored.doc));
                }
            }
        }
        let _ = merge(&views).map(|merged| Segment::open(in_memory(merged)));
    }
    Ok(())
}

#[test]
fn a_segment_in_which_anything_changed_can_be_asked() {
    let mut rng = Rng::new(1);
    let reads: Vec<_> = [3, 200, 40].into_iter().zip(0..).map(|(n, id)| any_read(&mut rng, id, n)).collect();
    let sound = segment_bytes(&reads);
    ask_all(sound.clone()).unwrap();
    let mut broken = 0;
    for at in (0..sound.len()).step_by(3) {
        let mut bytes = sound.clone();
        bytes[at] = [0, 0xff, 0x7f, 0x80, bytes[at] ^ 1, bytes[at].wrapping_add(1)][rng.below(6) as usize];
        broken += u32::from(ask_all(bytes).is_err());
    }
    assert!(broken > 20, "{broken} were noticed at once");
    for _ in 0..times(400) {
        let mut bytes = sound.clone();
        for _ in 0..rng.range(1..=8) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.next_u64() as u8;
        }
        let _ = ask_all(bytes);
    }
    // The numbers at the end say where everything lies.
    for _ in 0..times(400) {
        let mut bytes = sound.clone();
        let at = bytes.len() - 96 + 8 * rng.below(12) as usize;
        let now = u64_at(&bytes, at);
        let odd = [0, 1, now + 1, now.wrapping_sub(1), now * 2, u64::MAX, u64::MAX - 7, 1 << 32, 1 << 63];
        bytes[at..at + 8].copy_from_slice(&odd[rng.below(odd.len() as u64) as usize].to_le_bytes());
        let _ = ask_all(bytes);
    }
}

/// A segment of four turns with one word, whose list is made by hand.
fn with_list(word: &[u8], count: u32, list: &[u8], tags: &[u8]) -> Vec<u8> {
    let mut parts = SegmentParts {
        lists: list.to_vec(),
        tags: tags.to_vec(),
        norms: vec![3; 4],
        role_of: vec![0, 1, 1, 255],
        questions: vec![0; 4],
        seconds: vec![0; 16],
        record_refs: vec![0; 64],
        runs: vec![Run { first: 0, count: 4, session: 0, echo: 2, before: 2 }],
        roles: vec!["user".to_owned(), "tool".to_owned()],
        ..SegmentParts::default()
    };
    let mut dictionary = DictionaryWriter::default();
    dictionary.word(word, count, list.len() as u64, tags.len() as u64);
    (parts.words, parts.heads) = dictionary.finish();
    parts.bytes()
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in numbers {
        put(&mut bytes, *number);
    }
    bytes
}

#[test]
fn a_list_that_leads_nowhere_can_be_asked() {
    let far = u64::from(u32::MAX);
    let lists: [(u32, Vec<u8>); 9] = [
        (1, numbers(&[far << 1])),
        (2, numbers(&[2, far << 1])),
        (3, numbers(&[0, 0, 0])),
        (2, numbers(&[6, 0])),
        (1, numbers(&[1, far])),
        (1, numbers(&[1, u64::MAX])),
        (127, vec![0; 127]),
        (5, numbers(&[2])),
        (u32::MAX, vec![0; 64]),
    ];
    for (count, list) in lists {
        let _ = ask_all(with_list(b"alpha", count, &list, &[0; 8]));
        let _ = ask_all(with_list(b"alpha", count, &list, &[]));
    }
    // Blocks: skips that lie, bits that are too many, turns that go backwards.
    let mut rng = Rng::new(5);
    for _ in 0..times(2000) {
        let count = [128, 129, 256, 300, 5000][rng.below(5) as usize];
        let mut list = vec![0; rng.range(0..=3000) as usize];
        for _ in 0..rng.below(60) {
            if let Some(slot) = list.len().checked_sub(1).map(|last| rng.below(last as u64 + 1) as usize) {
                list[slot] = [rng.next_u64() as u8, 0xff, 1, 32, 33][rng.below(5) as usize];
            }
        }
        let _ = ask_all(with_list(b"alpha", count, &list, &vec![0x5a; rng.below(4000) as usize]));
    }
}

/// Turns that go backwards, as gaps make them that are larger than all numbers.
#[test]
fn a_list_that_goes_backwards_can_be_asked() {
    let packer = BitPacker4x::new();
    for pattern in
        [&[3_u32, 1][..], &[2, 2], &[3, 0, u32::MAX], &[1, 0, 900, 2, 1], &[u32::MAX, u32::MAX - 1]]
    {
        for times_bits in [0, 1, 32] {
            let docs: Vec<u32> = pattern.iter().copied().cycle().take(128).collect();
            let mut gaps = [0; 512];
            let len = packer.compress_sorted(0, &docs, &mut gaps, 32);
            let highest = docs.iter().copied().max().unwrap_or(0);
            let mut bytes: Vec<u8> = [highest, 0, 0, u32::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
            bytes.extend_from_slice(&[32, times_bits]);
            bytes.extend_from_slice(&gaps[..len]);
            bytes.extend(vec![0xff; usize::from(times_bits) * 16]);
            for tags in [0, 64, 4096] {
                let _ = ask_all(with_list(b"alpha", 128, &bytes, &vec![0x5a; tags]));
            }
        }
    }
}

#[test]
fn runs_roles_and_turns_that_do_not_fit_are_noticed() {
    let sound = || SegmentParts {
        norms: vec![3; 4],
        role_of: vec![0; 4],
        questions: vec![0; 4],
        seconds: vec![0; 16],
        record_refs: vec![0; 64],
        runs: vec![Run { first: 0, count: 4, session: 0, echo: 0, before: 0 }],
        roles: vec!["user".to_owned()],
        ..SegmentParts::default()
    };
    assert_eq!(open(sound().bytes()).turns, 4);
    let run = |count, echo| Run { first: 0, count, session: 1, echo, before: 0 };
    let wrong = [
        SegmentParts { runs: vec![], ..sound() },
        SegmentParts { runs: vec![run(5, 0)], ..sound() },
        SegmentParts { runs: vec![run(3, 0)], ..sound() },
        SegmentParts { runs: vec![run(u32::MAX, 0), run(5, 0)], ..sound() },
        SegmentParts { norms: vec![3; 5], ..sound() },
        SegmentParts { questions: vec![0; 3], ..sound() },
        SegmentParts { seconds: vec![0; 15], ..sound() },
        SegmentParts { record_refs: vec![], ..sound() },
    ];
    for parts in wrong {
        assert!(Segment::open(in_memory(parts.bytes())).is_err());
    }
    // Odd, but it fits.
    for runs in [vec![run(4, u32::MAX)], vec![run(0, 0), run(4, 3), run(0, 7)]] {
        ask_all(SegmentParts { runs, ..sound() }.bytes()).unwrap();
    }
}

#[test]
fn a_catalogue_in_which_anything_changed_can_be_read() {
    let mark = |n: u64| RecordRef { offset: n, seq: n, crc: 1 };
    let row = |n: u64| {
        let name = format!("session {n}.jsonl");
        Row {
            number: n,
            name,
            last: Some(mark(n)),
            recent: vec![mark(1); 3],
            opening: "what".into(),
            ..Row::default()
        }
    };
    let rows: Vec<Arc<Row>> = (0..5).map(|n| Arc::new(row(n))).collect();
    let named = SegmentFile { name: "x.words".into(), bytes: 1 };
    let segments = vec![named; 3];
    let head = CatalogueHead {
        next_number: 9,
        segments,
        cursor: Cursor::new(vec![1; 6]),
        checked_ms: 1,
        ..CatalogueHead::default()
    };
    let sound = catalogue::encode(&rows, &head);
    let read_all = |bytes: Vec<u8>| -> IndexResult<usize> {
        let (_, filed) = catalogue::decode(in_memory(bytes))?;
        let filed = Arc::new(filed);
        let mut read = 0;
        for at in 0..filed.len() as u32 {
            let row = RowRef::OnDisk(filed.clone(), at);
            let _ = (row.number(), row.place(), row.version(), row.name().map(str::len), row.is_unread());
            read += usize::from(row.row().is_ok());
        }
        Ok(read)
    };
    assert_eq!(read_all(sound.clone()).unwrap(), 5);
    let mut rng = Rng::new(7);
    for at in 0..sound.len() {
        for byte in [0, 0xff, 0x80, sound[at] ^ 1] {
            let mut bytes = sound.clone();
            bytes[at] = byte;
            let _ = read_all(bytes);
        }
    }
    for _ in 0..times(3000) {
        let mut bytes = sound.clone();
        for _ in 0..rng.range(1..=10) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = [rng.next_u64() as u8, 0xff][rng.below(2) as usize];
        }
        bytes.truncate(bytes.len() - rng.below(3) as usize);
        let _ = read_all(bytes);
    }
}

/// An index on the disk that lies under checksums that hold: it is asked everything, and when it is made anew it is
/// right again.
#[test]
fn index_with_wrong_bytes_under_valid_checksums_neither_panics_nor_hangs() {
    let disk = SimDisk::new(0);
    let world = World::on_disk(&disk);
    for n in 0..40 {
        world.append(&format!("session {}", n % 3), "user", &format!("alpha bravo {n}"));
    }
    world.index.reindex(&mut |_, _| {}).unwrap();
    let ask = |world: &World| {
        for text in QUESTIONS {
            let query = Query::parse(text, 1_794_766_020_000).unwrap();
            let found = world.index.search(&query, 50, &mut |_, _| {}, None);
            assert!(found.is_ok(), "{text}: {found:?}");
        }
        let _ = world.index.stats(&mut |_, _| {});
        let _ = (world.index.sessions(Place::Live, None, 5, &mut |_, _| {}), world.index.index_state());
        world.append("session 1", "user", "alpha");
        let _ = world.index.once(&StreamId::live(&SessionKey::new("session 1").unwrap()));
    };
    let mut rng = Rng::new(11);
    let of_index = |path: &std::path::PathBuf| path.starts_with("/store/index") && !path.ends_with("lock");
    for round in 0..times(200) {
        let disk = disk.copy(round);
        let files: Vec<_> = disk.paths().into_iter().filter(of_index).collect();
        let path = &files[rng.below(files.len() as u64) as usize];
        let file = disk.peek(path).unwrap();
        let len = u64_at(&file, file.len() - 12) as usize;
        let mut bytes = file[..len].to_vec();
        for _ in 0..rng.range(1..=4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = [rng.next_u64() as u8, 0xff, 0, bytes[at] ^ 1][rng.below(4) as usize];
        }
        disk.poke(path, sealed(bytes)).unwrap();
        let world = World::on_disk(&disk);
        ask(&world);
        world.index.reindex(&mut |_, _| {}).unwrap();
        assert_eq!(world.search("bravo", 100).hits.len(), 40, "made anew, round {round}");
    }
}
