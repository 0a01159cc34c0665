//! The context for a model: of one long session, of thousands at the start of a server, and the cost of counting it.
//!
//! A compaction near the end of 100 MB lets the context begin there; loading the session is the peer. A server that
//! starts takes the last 50 turns of each of its sessions; the peer loads every file whole, in one thread, with the
//! code that most agents have. Both sides count four bytes a token or nothing.

use std::time::Instant;

use manent::tokens::{Counting, Tokens};
use manent::{Body, Store};

use crate::data::Turns;
use crate::measure::interleaved;
use crate::row::{Goal, Row};
use crate::session::{self, make_many};
use crate::{Bench, Effort, Result, peers};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = vec![one(bench)?];
    rows.push(many(bench)?);
    rows.push(counting(bench)?);
    Ok(rows)
}

fn one(bench: &Bench) -> Result<Row> {
    let dir = bench.place("context")?;
    let made = session::make(&dir.join("store"), "long", crate::load::SESSION_BYTES, None)?;
    let store = Store::open(&made.home)?;
    let mut compaction = Body::new();
    compaction
        .string("kind", "compaction")
        .number("kept_from", made.turns - 20)
        .string("content", "so it went");
    store.append(&made.key, compaction)?;
    let tokens = Tokens::new(Counting::Estimate);
    let [context, load] = interleaved(
        bench.rounds(9),
        [
            &mut || {
                let start = Instant::now();
                let context = store.context(&made.key, tokens)?;
                if context.compaction.is_none() || context.messages.len() > 64 {
                    return Err("the compaction was not seen".into());
                }
                Ok(start.elapsed().as_secs_f64() * 1e3)
            },
            &mut || {
                let start = Instant::now();
                std::hint::black_box(store.load(&made.key)?);
                Ok(start.elapsed().as_secs_f64() * 1e3)
            },
        ],
    )?;
    let goal = Goal::FasterBy(200.0);
    Ok(Row::new("context of 100 MB, compacted near its end", context, "ms", "load it", load, goal))
}

fn many(bench: &Bench) -> Result<Row> {
    let dir = bench.place("contexts")?;
    let (count, name) = match bench.effort {
        Effort::Quick => (500, "500"),
        Effort::Full => (10_000, "10,000"),
    };
    let mut all = Turns::searched(9);
    let made = make_many(&dir.join("store"), count, || all.session())?;
    let store = Store::open(&made.home)?;
    let files: Vec<_> =
        std::fs::read_dir(made.dir()?)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let tokens = Tokens::new(Counting::Estimate);
    let [ours, naive] = interleaved(
        bench.rounds(5),
        [
            &mut || {
                let start = Instant::now();
                let all = store.hydrate_all(count, LAST, tokens)?;
                let read =
                    all.iter().filter(|(_, context)| context.as_ref().is_ok_and(|c| !c.messages.is_empty()));
                if read.count() != count {
                    return Err("not every session was read".into());
                }
                Ok(start.elapsed().as_secs_f64() * 1e3)
            },
            &mut || {
                let start = Instant::now();
                for file in &files {
                    let mut lines = peers::naive_lines(file)?;
                    let kept = lines.split_off(lines.len().saturating_sub(LAST as usize));
                    std::hint::black_box(kept);
                }
                Ok(start.elapsed().as_secs_f64() * 1e3)
            },
        ],
    )?;
    let name = format!("last {LAST} turns of {name} sessions");
    Ok(Row::new(name, ours, "ms", "load each file whole", naive, bench.at_full_size(Goal::FasterBy(5.0))))
}

/// Milliseconds for 15 MB of text, beside a second.
fn counting(bench: &Bench) -> Result<Row> {
    let mut text = String::new();
    for turn in Turns::new(6) {
        text.push_str(&turn.content);
        text.push('\n');
        if text.len() > 15_000_000 {
            break;
        }
    }
    let tokens = Tokens::new(Counting::Exact);
    tokens.count("the first count loads the vocabulary");
    let [exact] = interleaved(
        bench.rounds(5),
        [&mut || {
            let start = Instant::now();
            std::hint::black_box(tokens.count(&text));
            Ok(start.elapsed().as_secs_f64() * 1e3 * 15e6 / text.len() as f64)
        }],
    )?;
    let budget = "a budget of 15 MB/s";
    Ok(Row::new("count the tokens of 15 MB, exactly", exact, "ms", budget, 1000.0, Goal::Within(1.0)))
}

const LAST: u64 = 50;
