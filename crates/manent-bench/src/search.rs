//! Full-text search in 10,000 sessions, 1 GB of them: what an answer costs, what keeping the index costs, and what it
//! costs to make it anew.
//!
//! An answer is the best twenty turns with what is shown of them, each read from its log. A warm one is asked of a
//! store that is open and has answered before; a whole command starts, opens the index, looks at every file, answers
//! and ends. The peer is ripgrep over the same files with a warm page cache, which gives every line and no order.
//!
//! Catching up is the first answer after another handle of the store appended 1,000 turns to 200 sessions; it must
//! hold what was appended last. Without it, one would have to read everything again: that is the peer.

use std::path::Path;
use std::time::Instant;

use manent::{Durability, Expect, Query, SearchResults, Store};

use crate::child::{Outcome, Task};
use crate::commands::{Manent, Ripgrep};
use crate::data::{PLANTED, Turn, Turns};
use crate::measure::{interleaved, median};
use crate::row::{Goal, Row};
use crate::session::{self, Many, bodies_of};
use crate::{Bench, Effort, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let home = bench.place("search")?.join("store");
    let (sessions, size) = match bench.effort {
        Effort::Quick => (500, "50 MB"),
        Effort::Full => (10_000, "1 GB"),
    };
    let mut all = Turns::searched(8);
    let many = session::make_many(&home, sessions, || all.session())?;
    let mut corpus = Corpus { turns: many.turns, many, all, size };
    // The questions come first in the table, but are asked of an index that was made and has grown.
    let upkeep = upkeep(bench, &mut corpus)?;
    let mut rows = questions(bench, &corpus)?;
    rows.extend(upkeep);
    Ok(rows)
}

/// The sessions, and the text that they go on with.
struct Corpus {
    many: Many,
    all: Turns,
    /// All turns, those that were appended later too.
    turns: u64,
    /// In words, for the names of rows.
    size: &'static str,
}

impl Corpus {
    /// Appends turns to sessions all over the store, the last of them with a word of its own.
    fn append(&mut self, store: &Store, nth: usize, word: &str) -> Result<()> {
        let (keys, sessions) = (&self.many.keys, APPENDED / APPENDED_EACH);
        for n in 0..sessions {
            let mut turns: Vec<Turn> = self.all.by_ref().take(APPENDED_EACH).collect();
            if let (true, Some(last)) = (n + 1 == sessions, turns.last_mut()) {
                last.content.push('\n');
                last.content.push_str(word);
            }
            let key = &keys[(n * keys.len() / sessions + nth) % keys.len()];
            store.append_with(key, &bodies_of(&turns), Durability::Flush, Expect::Any)?;
        }
        self.turns += APPENDED as u64;
        Ok(())
    }
}

/// Something to look for.
struct Question {
    name: &'static str,
    typed: &'static str,
    /// The same for ripgrep, the rarest first.
    parts: &'static [&'static str],
}

const QUESTIONS: &[Question] = &[
    Question { name: "rare word", typed: "sphynx", parts: &["sphynx"] },
    Question { name: "common word", typed: "session", parts: &["session"] },
    Question { name: "phrase", typed: "\"unused cache\"", parts: &["unused cache"] },
    Question {
        name: "three words",
        typed: "restart AND buffer AND jacquard",
        parts: &["jacquard", "buffer", "restart"],
    },
];

fn questions(bench: &Bench, corpus: &Corpus) -> Result<Vec<Row>> {
    let Some(ripgrep) = Ripgrep::over(corpus.many.dir()?) else { return Ok(Vec::new()) };
    let manent = Manent::with_command("search", &corpus.many.home)?;
    let store = Store::open(&corpus.many.home)?;
    let faster_by = |n: f64| bench.at_full_size(Goal::FasterBy(n));
    let mut rows = Vec::new();
    for question in QUESTIONS {
        let query = query(question.typed)?;
        check(question, &store.search(&query, LIMIT)?, corpus.turns)?;
        let [warm, peer, command] = interleaved(
            bench.rounds(15),
            [&mut || warm_ms(&store, &query), &mut || ripgrep.ms(question.parts), &mut || {
                manent.as_ref().map_or(Ok(f64::NAN), |manent| manent.ms(&["search", question.typed]))
            }],
        )?;
        let name = format!("{} in {}", question.name, corpus.size);
        let rg = if question.parts.len() == 1 { "rg -i -c -F" } else { "rg -i -F, piped twice" };
        rows.push(Row::new(format!("{name}, warm"), warm, "ms", rg, peer, faster_by(200.0)));
        if manent.is_some() {
            let name = format!("{name}, whole command");
            rows.push(Row::new(name, command, "ms", rg, peer, faster_by(15.0)));
        }
    }
    let asked = query(PLAIN_QUESTION)?;
    let found = store.search(&asked, LIMIT)?;
    if found.hits.len() < LIMIT {
        return Err(format!("a plain question finds only {} turns", found.hits.len()).into());
    }
    let [plain] = interleaved(bench.rounds(15), [&mut || warm_ms(&store, &asked)])?;
    let name = format!("plain question in {}, warm", corpus.size);
    rows.push(Row::new(
        name,
        plain,
        "ms",
        "a budget of 20 ms",
        BUDGET_MS,
        bench.at_full_size(Goal::Within(1.0)),
    ));
    Ok(rows)
}

/// The median of many answers of one open store.
fn warm_ms(store: &Store, query: &Query) -> Result<f64> {
    let once = |_| -> Result<f64> {
        let start = Instant::now();
        std::hint::black_box(store.search(query, LIMIT)?);
        Ok(ms_since(start))
    };
    Ok(median((0..ANSWERS).map(once).collect::<Result<Vec<f64>>>()?))
}

/// Refuses to measure answers that are fast and wrong.
fn check(question: &Question, found: &SearchResults, turns: u64) -> Result<()> {
    let Question { name, .. } = question;
    eprintln!("{name}: {} hits shown, {:?} in all", found.hits.len(), found.total);
    let planted = PLANTED.iter().find(|planted| [planted.words] == *question.parts);
    let least = match planted {
        Some(planted) => planted.hits(turns),
        None => 1,
    };
    let is_right = match (planted, found.total) {
        (Some(_), Some(total)) => total == least,
        _ => true,
    };
    if found.related || !is_right || (found.hits.len() as u64) < least.min(LIMIT as u64) {
        return Err(format!("{name}: the answer is wrong; at least {least} turns have it").into());
    }
    Ok(())
}

/// Measures making the index, keeping it, and having it. Making it is slow, so there are few rounds; as ever,
/// the first one only warms up.
fn upkeep(bench: &Bench, corpus: &mut Corpus) -> Result<Vec<Row>> {
    let home = corpus.many.home.clone();
    let (store, other) = (Store::open(&home)?, session::writer(&home)?);
    let index = store.index_state()?.dir.ok_or("the index is in memory")?;
    let (mut outcomes, mut answers) = (Vec::<Outcome>::new(), Vec::new());
    let (mut index_mb, mut log_mb) = (0.0, 0.0);
    for round in 0..=bench.rounds(3) {
        let outcome = Task::reindex(&home).in_child()?;
        if outcome.turns != corpus.turns {
            return Err(format!("{} turns were indexed, not {}", outcome.turns, corpus.turns).into());
        }
        index_mb = bytes_in(&index)? as f64 / 1e6;
        log_mb = outcome.text_bytes as f64 / 1e6;
        // The child made another index, which this handle has to take over first.
        store.search(&query("quetzal")?, LIMIT)?;
        let caught_up = (0..CATCH_UPS).map(|n| catch_up(corpus, &store, &other, round * CATCH_UPS + n));
        let caught_up = caught_up.collect::<Result<Vec<f64>>>()?;
        if round > 0 {
            outcomes.push(outcome);
            answers.extend(caught_up);
        }
    }
    let of = |value: fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
    let (rebuild, peak_mb) = (of(|o| o.first_us / 1e3), of(|o| o.peak_bytes as f64 / 1e6));
    eprintln!(
        "rebuilt at {:.0} MB/s; index {:.1} % of the logs",
        log_mb / rebuild * 1e3,
        index_mb / log_mb * 1e2
    );
    let budget_ms = log_mb / BUDGET_MB_PER_SECOND * 1e3;
    let [speed, room] = ["rebuild the index of", "index of"].map(|name| format!("{name} {}", corpus.size));
    Ok(vec![
        Row::new(
            "first answer after 1,000 new turns",
            median(answers),
            "ms",
            "rebuild the index",
            rebuild,
            Goal::FasterBy(10.0),
        ),
        Row::new(
            format!("{room}, size"),
            index_mb,
            "MB",
            "the logs",
            log_mb,
            bench.at_full_size(Goal::Within(0.3)),
        ),
        Row::new(speed.clone(), rebuild, "ms", "a budget of 50 MB/s", budget_ms, Goal::Within(1.0)),
        Row::new(format!("{speed}, peak memory"), peak_mb, "MB", "the logs", log_mb, Goal::Inform),
    ])
}

/// Milliseconds of the first answer after something was appended, which is what is asked for.
fn catch_up(corpus: &mut Corpus, store: &Store, other: &Store, nth: usize) -> Result<f64> {
    let word = format!("appended{nth}");
    corpus.append(other, nth, &word)?;
    let query = query(&word)?;
    let start = Instant::now();
    let found = store.search(&query, LIMIT)?;
    let ms = ms_since(start);
    if found.hits.len() == 1 && !found.related {
        Ok(ms)
    } else {
        Err("what was appended is not found".into())
    }
}

fn query(typed: &str) -> Result<Query> {
    Ok(Query::parse(typed, 0)?)
}

fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// Returns the size of the files of a directory.
fn bytes_in(dir: &Path) -> Result<u64> {
    std::fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

/// Two common words and a rare one, of which a turn may lack any.
const PLAIN_QUESTION: &str = "how do we restart the buffer of the jacquard";
const BUDGET_MS: f64 = 20.0;
const LIMIT: usize = 20;
const ANSWERS: usize = 25;
/// So many first answers between two rebuilds, each after new turns.
const CATCH_UPS: usize = 3;
const APPENDED: usize = 1_000;
const APPENDED_EACH: usize = 5;
const BUDGET_MB_PER_SECOND: f64 = 50.0;
