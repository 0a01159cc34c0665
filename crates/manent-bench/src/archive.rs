//! A session of 100 MB put away: how fast, how small, and how soon its end can be read again.
//!
//! Archiving moves the file, compresses it in frames, syncs it, and reads all of it back and compares before
//! the plain file goes. The peer is the whole file compressed into one frame at the same level, which is as
//! small as that level makes it, but must be decompressed from its beginning to see its end. The peer works
//! in memory, and neither syncs nor compares.

use std::path::Path;

use manent::{Place, Store, StreamId};

use crate::child::{TAIL, tail};
use crate::data::Turns;
use crate::load::SESSION_BYTES;
use crate::measure::{interleaved, micros_each};
use crate::row::{Goal, Row};
use crate::session::{self, file_of};
use crate::{Bench, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("archive")?;
    let home = dir.join("store");
    let made = session::make_of(Turns::varied(6), &home, "long", SESSION_BYTES, None)?;
    let store = Store::open(&home)?;
    let plain = std::fs::read(file_of(&home, &made.key)?)?;
    let packed = zstd::bulk::compress(&plain, LEVEL)?;
    let whole = dir.join("whole.zst");
    std::fs::write(&whole, &packed)?;

    let live = store.find(&made.key)?.id;
    let archived = StreamId { place: Place::Archive, ..live.clone() };
    let [archive, compress, resume, decompress] = interleaved(
        bench.rounds(9),
        [
            &mut || archive(&store, &live, &archived),
            &mut || {
                micros_each(1, || {
                    std::hint::black_box(zstd::bulk::compress(&plain, LEVEL)?);
                    Ok(())
                })
            },
            &mut || {
                let read = || -> Result<()> { tail(store.read(&archived, TAIL)?).map(drop) };
                // The first look of a round finds cold memory, as behind hours of other work.
                read()?;
                micros_each(TAILS, || (0..TAILS).try_for_each(|_| read()))
            },
            &mut || micros_each(1, || decompress(&whole, plain.len())),
        ],
    )?;
    let ours_bytes = store.find(&made.key)?.bytes;
    let (ms, mb) = (|micros: f64| micros / 1e3, |bytes: u64| bytes as f64 / 1e6);
    let budget_ms = mb(made.bytes) / BUDGET_MB_PER_SECOND * 1e3;
    let [speed, size] = ["archive 100 MB", "archive 100 MB, size"];
    let plain_mb = mb(made.bytes);
    Ok(vec![
        Row::new(speed, ms(archive), "ms", "a budget of 100 MB/s", budget_ms, Goal::Within(1.0)),
        Row::new(speed, ms(archive), "ms", "zstd -3 in memory", ms(compress), Goal::Inform),
        Row::new(
            size,
            mb(ours_bytes),
            "MB",
            "zstd -3 of the whole",
            mb(packed.len() as u64),
            Goal::Within(1.05),
        ),
        Row::new(size, mb(ours_bytes), "MB", "the plain file", plain_mb, Goal::Inform),
        Row::new(
            "last 50 turns, archived",
            resume,
            "us",
            "zstd -d of the whole",
            decompress,
            Goal::FasterBy(200.0),
        ),
    ])
}

/// Archives the session, which the round before may have archived already.
fn archive(store: &Store, live: &StreamId, archived: &StreamId) -> Result<f64> {
    if store.live(&live.key)?.is_none() {
        store.unarchive(archived)?;
    }
    micros_each(1, || {
        store.archive(live, &mut |_, _| {})?;
        Ok(())
    })
}

/// Reads a file that is one frame, and decompresses all of it.
fn decompress(path: &Path, bytes: usize) -> Result<()> {
    let plain = zstd::bulk::decompress(&std::fs::read(path)?, bytes)?;
    if plain.len() == bytes { Ok(()) } else { Err("the file is not what it was".into()) }
}

const LEVEL: i32 = 3;
const BUDGET_MB_PER_SECOND: f64 = 100.0;
const TAILS: usize = 25;
