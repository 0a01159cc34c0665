//! A list of the newest of 100,000 sessions of two turns each.
//!
//! The peer does what one does without a catalogue: it opens every file, reads its first and its last line, and sorts
//! by the time of the last. The command finds a catalogue on the disk. Of a large store it shows the page at once and
//! looks at every file behind it, so both are measured: when the page is there, and when the command has ended. The
//! cold start has to make the catalogue (and the index with it: they are one). In process, a store that is open is
//! asked again after nothing changed, and after another handle of the store appended one turn, whose session must then
//! be the first.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

use manent::{Durability, Expect, Listing, Place, Store, turn};
use serde::Deserialize;

use crate::commands::Manent;
use crate::data::Turns;
use crate::measure::{interleaved, median};
use crate::row::{Goal, Row};
use crate::session::{self, Many};
use crate::{Bench, Effort, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let home = bench.place("catalogue")?.join("store");
    let (count, name) = match bench.effort {
        Effort::Quick => (5_000, "5,000 sessions"),
        Effort::Full => (100_000, "100,000 sessions"),
    };
    let mut all = Turns::searched(9);
    let many = session::make_many(&home, count, || all.session_of(2))?;
    let dir = many.dir()?;
    let naive = || timed(|| naive_page(&dir)?.first().map(|_| ()).ok_or_else(|| "there is nothing".into()));

    let [cold, cold_peer] = interleaved(bench.rounds(3), [&mut || cold(&many), &mut || naive()])?;
    let manent = Manent::with_command("sessions", &home)?;
    let store = Store::open(&home)?;
    let other = session::writer(&home)?;
    let (mut round, mut shown) = (0, Vec::new());
    let [command, peer, again, appended] = interleaved(
        bench.rounds(15),
        [
            &mut || {
                let Some(manent) = &manent else { return Ok(f64::NAN) };
                // The first line is the head of the table.
                let [shown_ms, ended_ms] = manent.ms_until_shown(&["sessions", "--limit", "50"], 1 + PAGE)?;
                shown.push(shown_ms);
                Ok(ended_ms)
            },
            &mut || naive(),
            &mut || unchanged(&store),
            &mut || {
                round += 1;
                after_append(&store, &other, &many, round)
            },
        ],
    )?;
    let peer_name = "first and last line of each file";
    let mut rows = Vec::new();
    if manent.is_some() {
        let goal = bench.at_full_size(Goal::FasterBy(30.0));
        let page = format!("first page of {name}, command");
        rows.push(Row::new(format!("{page}, shown"), median(shown), "ms", peer_name, peer, goal));
        rows.push(Row::new(format!("{page}, ended"), command, "ms", peer_name, peer, Goal::Inform));
    }
    let row = |what: &str, ours, peer| {
        Row::new(format!("first page of {name}, {what}"), ours, "ms", peer_name, peer, Goal::Inform)
    };
    rows.push(row("no catalogue yet", cold, cold_peer));
    rows.push(row("warm", again, peer));
    rows.push(row("warm, one append later", appended, peer));
    Ok(rows)
}

/// The first list that is ever asked for.
fn cold(many: &Many) -> Result<f64> {
    let store = Store::open(&many.home)?;
    let index = store.index_state()?.dir.ok_or("the index is in memory")?;
    if index.exists() {
        std::fs::remove_dir_all(&index)?;
    }
    timed(|| page(&store, many.keys.len()).map(drop))
}

/// The median of several lists of a store that has just given one.
fn unchanged(store: &Store) -> Result<f64> {
    let total = page(store, 0)?.total;
    let lists = (0..LISTS).map(|_| timed(|| page(store, total).map(drop)));
    Ok(median(lists.collect::<Result<Vec<f64>>>()?))
}

fn after_append(store: &Store, other: &Store, many: &Many, round: usize) -> Result<f64> {
    let key = &many.keys[round * STRIDE % many.keys.len()];
    other.append_with(key, &[turn("user", "and now?").into()], Durability::Flush, Expect::Any)?;
    timed(|| {
        let first = page(store, many.keys.len())?.sessions.into_iter().next();
        let is_right = first.is_some_and(|first| first.id.key == *key);
        if is_right { Ok(()) } else { Err("the session that was written last is not the first".into()) }
    })
}

/// The first page, of a list of at least so many.
fn page(store: &Store, total: usize) -> Result<Listing> {
    let listing = store.sessions(Place::Live, None, PAGE)?;
    let is_right = listing.sessions.len() == PAGE && listing.total >= total;
    if is_right { Ok(listing) } else { Err(format!("only {} sessions are listed", listing.total).into()) }
}

/// The members of a line that the naive list reads.
#[derive(Debug, Deserialize)]
struct Line {
    #[serde(default)]
    ts: String,
}

/// The newest sessions: the times of their last lines, and their first lines.
fn naive_page(dir: &Path) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let mut file = BufReader::new(File::open(entry?.path())?);
        let mut first = String::new();
        file.read_line(&mut first)?;
        let mut end = LAST_BYTES;
        let line = loop {
            let bytes = file.get_ref().metadata()?.len();
            let from = bytes.saturating_sub(end);
            file.seek(SeekFrom::Start(from))?;
            let mut tail = Vec::new();
            file.read_to_end(&mut tail)?;
            let lines = tail.strip_suffix(b"\n").unwrap_or(&tail);
            match lines.iter().rposition(|byte| *byte == b'\n') {
                Some(before) => break serde_json::from_slice::<Line>(&lines[before + 1..])?,
                None if from == 0 => break serde_json::from_slice::<Line>(lines)?,
                None => end *= 4,
            }
        };
        all.push((line.ts, first));
    }
    all.sort_by(|a, b| b.cmp(a));
    all.truncate(PAGE);
    Ok(all)
}

/// Milliseconds of some work.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

const PAGE: usize = 50;
const LISTS: usize = 5;
const STRIDE: usize = 37;
/// Most last lines are shorter.
const LAST_BYTES: u64 = 4096;
