//! A memory of a million items, a tenth of them forgotten: loading it, opening it to add something, adding.
//!
//! Loading ends when the active items are known, newest first; what they say is read when somebody asks, and the first
//! twenty are asked for. The naive load reads lines into structs, keeps them in a map by id, takes out what is
//! forgotten, and sorts; its file has neither numbers nor checksums.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use manent::memory::{Filter, Kind, NewItem};
use manent::{Durability, Memory, Store};

use crate::child::{Outcome, Task};
use crate::data::Turns;
use crate::measure::{interleaved, median, micros_each};
use crate::row::{Goal, Row};
use crate::{Bench, Effort, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("memory")?;
    let (home, twin) = (dir.join("store"), dir.join("naive.jsonl"));
    let (items, size) = match bench.effort {
        Effort::Quick => (50_000, "50,000"),
        Effort::Full => (1_000_000, "1,000,000"),
    };
    let memory = Store::open(&home)?.memory()?;
    let bytes = make(&memory, &twin, items)?;
    let active = memory.counts()?.active as u64;
    eprintln!("{items} items, {active} active, {:.0} MB", bytes as f64 / 1e6);

    let (mut loads, mut opens) = (Vec::<Outcome>::new(), Vec::<Outcome>::new());
    let check = |outcome: &Outcome| -> Result<f64> {
        if outcome.turns != active {
            return Err(format!("{active} items are active, and not {}", outcome.turns).into());
        }
        Ok(outcome.first_us / 1e3)
    };
    let [load, naive, open] = interleaved(
        bench.rounds(9),
        [
            &mut || {
                loads.push(Task::Remember { home: home.clone() }.in_child()?);
                loads.last().map_or(Ok(f64::NAN), check)
            },
            &mut || check(&Task::NaiveMemory { path: twin.clone() }.in_child()?),
            &mut || {
                opens.push(Task::HoldMemory { home: home.clone() }.in_child()?);
                Ok(opens.last().map_or(f64::NAN, |outcome| outcome.first_us / 1e3))
            },
        ],
    )?;
    let peak = |o: &Outcome| o.peak_bytes.saturating_sub(o.before_bytes) as f64 / 1e6;
    let file_mb = bytes as f64 / 1e6;
    let peak_mb = median(loads.iter().map(peak).collect());
    let peer = "lines() + serde_json + HashMap";
    let mut rows = vec![
        Row::new(
            format!("load {size} items"),
            load,
            "ms",
            peer,
            naive,
            bench.at_full_size(Goal::FasterBy(8.0)),
        ),
        Row::new(
            format!("load {size} items, peak memory"),
            peak_mb,
            "MB",
            "size of the file",
            file_mb,
            bench.at_full_size(Goal::Within(1.3)),
        ),
        Row::new(format!("open {size} items to add one"), open, "ms", "load them", load, Goal::Inform),
    ];
    rows.push(adding(bench, &dir)?);
    Ok(rows)
}

/// One item at a time, on the disk before the next.
fn adding(bench: &Bench, dir: &Path) -> Result<Row> {
    let memory = Store::open(dir.join("adding"))?.memory()?;
    let mut hold = memory.writer(Duration::ZERO)?;
    let items: Vec<NewItem> = Turns::of_one_size(3, RECORDS, CONTENT_BYTES)
        .iter()
        .map(|turn| NewItem::new(Kind::Fact, turn.content.clone()))
        .collect();
    let lines: Vec<Vec<u8>> = items
        .iter()
        .map(|item| Ok([hold.add_with(item, Durability::Flush)?.line.as_bytes(), b"\n"].concat()))
        .collect::<Result<_>>()?;
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join("bare.jsonl"))?;
    let mut bare = |line: &Vec<u8>| -> Result<()> {
        file.write_all(line)?;
        file.sync_data()?;
        Ok(())
    };
    let mut add = |item: &NewItem| -> Result<()> {
        hold.add(item)?;
        Ok(())
    };
    let [ours, bare] = interleaved(
        bench.rounds(90),
        [&mut || micros_each(RECORDS, || items.iter().try_for_each(&mut add)), &mut || {
            micros_each(RECORDS, || lines.iter().try_for_each(&mut bare))
        }],
    )?;
    Ok(Row::new("add an item, Sync", ours, "us", "bare write() + fdatasync", bare, Goal::Within(1.1)))
}

/// Fills a memory and its naive twin, and gives the size of the memory.
fn make(memory: &Memory, twin: &Path, items: u64) -> Result<u64> {
    let mut twin = BufWriter::new(File::create(twin)?);
    let mut hold = memory.writer(Duration::ZERO)?;
    let mut words = Turns::new(5);
    let mut plain = |line: &str| -> Result<()> {
        let start = line.find(r#","ts":"#).map_or(0, |at| at + 1);
        let end = line.rfind(r#","crc":"#).unwrap_or(line.len());
        Ok(writeln!(twin, "{{{}}}", &line[start..end])?)
    };
    let mut recent = Vec::new();
    let mut made = 0;
    while made < items {
        let turn = words.next().ok_or("no more words")?;
        for text in texts_of(&turn.content) {
            let item = NewItem::new(Kind::ALL[(made % 4) as usize], text).tag("bench");
            let added = hold.add_with(&item, Durability::Flush)?;
            plain(&added.line)?;
            recent.push(added.id);
            made += 1;
            if recent.len() == FORGET_EVERY {
                let doomed: Vec<u64> = recent.drain(..).step_by(FORGET_ONE_IN).collect();
                let first = added.id + 1;
                hold.forget(&doomed)?;
                for (id, target) in (first..).zip(doomed) {
                    plain(&format!(
                        r#"{{,"ts":"{}","kind":"forget","id":{id},"target":{target}"#,
                        manent::now()
                    ))?;
                    made += 1;
                }
            }
            if made >= items {
                break;
            }
        }
    }
    twin.flush()?;
    Ok(std::fs::metadata(memory.path())?.len())
}

/// Sentences of a size that people remember.
fn texts_of(content: &str) -> impl Iterator<Item = &str> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let mut end = rest.len().min(TEXT_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (text, left) = rest.split_at(end);
        rest = left;
        (text.trim().len() >= TEXT_BYTES / 2).then_some(text)
    })
}

/// In a child: how many items are active, and the text of the newest.
pub(crate) fn load(home: &Path) -> Result<(u64, u64)> {
    let memory = Store::open(home)?.memory()?;
    let (active, mut bytes, mut left) = (memory.counts()?.active as u64, 0, SHOWN);
    memory.each(&Filter::default(), |item| {
        bytes += item.content.len() as u64;
        left -= 1;
        left > 0
    })?;
    Ok((active, bytes))
}

/// In a child: takes the right to write and knows which number comes next.
pub(crate) fn hold(home: &Path) -> Result<(u64, u64)> {
    let memory = Store::open(home)?.memory()?;
    let _hold = memory.writer(Duration::ZERO)?;
    Ok((0, 0))
}

const FORGET_EVERY: usize = 9000;
const FORGET_ONE_IN: usize = 9;
const TEXT_BYTES: usize = 80;
const SHOWN: usize = 20;
const RECORDS: usize = 40;
const CONTENT_BYTES: usize = 900;
