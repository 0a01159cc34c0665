//! The parts of the index on their own: lists, words, pages and segments, sound and made up.

mod build;
mod dictionary;
mod hostile;
mod matching;
mod merge;
mod pages;
mod partial;
mod postings;
mod world;

use std::sync::Arc;

use manent_sim::Rng;

use crate::pages::Pages;
use crate::segment::builder::{Builder, TurnInfo};
use crate::segment::view::SegmentView;
use crate::segment::{RecordRef, Segment};

/// A turn to be indexed.
#[derive(Debug, Clone)]
struct Turn {
    role: String,
    second: u32,
    record: RecordRef,
    text: String,
}

/// Turns of one session that were read in one go.
#[derive(Debug, Clone)]
struct Read {
    session: u64,
    echo: u32,
    turns: Vec<Turn>,
}

const WORDS: [&str; 14] = [
    "alpha", "alphabet", "alpine", "bravo", "bravery", "charlie", "delta", "do", "dog", "echo", "e",
    "foxtrot", "golf", "hotel",
];

fn any_text(rng: &mut Rng, words_max: u64) -> String {
    let words: Vec<&str> =
        (0..rng.below(words_max + 1)).map(|_| WORDS[rng.below(WORDS.len() as u64) as usize]).collect();
    words.join(" ")
}

fn any_read(rng: &mut Rng, session: u64, turns: u64) -> Read {
    let turn = |rng: &mut Rng| Turn {
        role: ["user", "assistant", "tool"][rng.below(3) as usize].to_owned(),
        second: 1_700_000_000 + rng.below(1_000_000) as u32,
        record: RecordRef { offset: rng.below(1 << 40), seq: rng.below(1 << 30), crc: rng.next_u64() as u32 },
        text: any_text(rng, 12),
    };
    let turns: Vec<Turn> = (0..turns).map(|_| turn(rng)).collect();
    let echo = rng.below(5).min(turns.len() as u64 / 2) as u32;
    Read { session, echo, turns }
}

fn segment_bytes(reads: &[Read]) -> Vec<u8> {
    let mut builder = Builder::default();
    for read in reads {
        builder.begin_run(read.session, read.echo, u64::from(read.echo));
        for turn in &read.turns {
            let info = TurnInfo { role: &turn.role, second: turn.second, record: turn.record };
            builder.add(info, &turn.text);
        }
    }
    builder.finish()
}

/// The bytes with their checksums, as they stand in a file.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    super::pages::seal(&mut bytes);
    bytes
}

fn in_memory(bytes: Vec<u8>) -> Pages {
    Pages::Memory(Arc::new(bytes))
}

fn open(bytes: Vec<u8>) -> Segment {
    Segment::open(in_memory(bytes)).unwrap()
}

/// All sessions are there, each in the row of its number.
fn view(segment: Segment) -> SegmentView {
    SegmentView::new(Arc::new(segment), |number| u32::try_from(number).ok())
}
