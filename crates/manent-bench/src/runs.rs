//! A million runs of skills, looked back on and made into a data set: how fast they are read and judged, and what
//! memory that takes. And what recording one costs, beside appending a turn.
//!
//! The peers: the bare bytes, read and their lines counted, which nothing that reads all of them can beat; and what one
//! writes in a quarter of an hour, lines into JSON values and counts of each skill in a map, on one thread. Neither
//! judges anything.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::{Durability, Expect, SessionKey, Store, body_of_json};
use manent_runs::dataset::{DatasetFormat, Existing, Recipe, make as make_set};
use manent_runs::retrospective::ReportQuery;
use manent_runs::{NewEntry, Runs};

use crate::child::{Outcome, Task, TextCount};
use crate::measure::{interleaved, median, micros_each};
use crate::row::{Goal, Row};
use crate::{Bench, Effort, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let home = bench.place("runs")?.join("store");
    let (count, size) = match bench.effort {
        Effort::Quick => (50_000, "50,000"),
        Effort::Full => (1_000_000, "1,000,000"),
    };
    let bytes = make(&home, count)?;
    let megabytes = bytes as f64 / 1e6;
    eprintln!("{count} runs in {SESSIONS} logs, {megabytes:.0} MB");
    let mut outcomes = Vec::<Outcome>::new();
    let check = |outcome: &Outcome| -> Result<f64> {
        if outcome.turns != count {
            return Err(format!("there are {count} runs, and not {}", outcome.turns).into());
        }
        Ok(outcome.first_us / 1e3)
    };
    let mut trained = Vec::<Outcome>::new();
    let [ours, train, bare, naive] = interleaved(
        bench.rounds(5),
        [
            &mut || {
                outcomes.push(Task::Retro { home: home.clone() }.in_child()?);
                outcomes.last().map_or(Ok(f64::NAN), check)
            },
            &mut || {
                trained.push(Task::Train { home: home.clone() }.in_child()?);
                trained.last().map_or(Ok(f64::NAN), check)
            },
            &mut || check(&Task::BareRuns { home: home.clone() }.in_child()?),
            &mut || check(&Task::NaiveRuns { home: home.clone() }.in_child()?),
        ],
    )?;
    let peak_of = |outcomes: &[Outcome]| {
        median(outcomes.iter().map(|outcome| outcome.peak_bytes as f64 / 1e6).collect())
    };
    let (peak, train_peak) = (peak_of(&outcomes), peak_of(&trained));
    let name = format!("retrospective of {size} runs");
    let set = format!("data set of {size} runs");
    let second = "100 MB a second";
    let within = bench.at_full_size(Goal::Within(1.0));
    let [entry, turn] = recording(bench, &home)?;
    Ok(vec![
        Row::new(
            "record a run, Flush",
            entry,
            "us",
            "append it as JSON to a session",
            turn,
            Goal::Within(1.5),
        ),
        Row::new(&set, train, "ms", second, megabytes * 10.0, within),
        Row::new(format!("{set}, peak memory"), train_peak, "MB", "300 MB", 300.0, Goal::Within(1.0)),
        Row::new(&name, ours, "ms", second, megabytes * 10.0, within),
        Row::new(format!("{name}, peak memory"), peak, "MB", "300 MB", 300.0, Goal::Within(1.0)),
        Row::new(&name, ours, "ms", "lines() + serde_json + HashMap", naive, Goal::Inform),
        Row::new(&name, ours, "ms", "reading the bytes", bare, Goal::Inform),
    ])
}

/// Microseconds to record a run of an ordinary size given as JSON, and to append the same to a session.
fn recording(bench: &Bench, home: &Path) -> Result<[f64; 2]> {
    let (store, key) = (Store::open(home)?, SessionKey::new("recorded")?);
    let runs = Runs::open(&store)?;
    let mut number = 0;
    interleaved(
        bench.rounds(15),
        [
            &mut || {
                micros_each(RECORDED, || {
                    for _ in 0..RECORDED {
                        number += 1;
                        let entry = line(number).replace("\"run_id\"", "\"other_id\"");
                        runs.record(&key, &[NewEntry::parse(entry.as_bytes())?], Durability::Flush)?;
                    }
                    Ok(())
                })
            },
            &mut || {
                micros_each(RECORDED, || {
                    for n in 0..RECORDED {
                        let entry = line(n as u64).replace("\"run_id\"", "\"other_id\"");
                        let body = body_of_json(entry.as_bytes(), "2026-11-15T18:07:00.123Z")?;
                        store.append_with(&key, &[body], Durability::Flush, Expect::Any)?;
                    }
                    Ok(())
                })
            },
        ],
    )
}

/// Logs as other programs write them: skills, models, phases, versions, inputs that are all different, and failures of
/// fifty causes with paths and numbers in them.
fn make(home: &Path, count: u64) -> Result<u64> {
    let dir = home.join("runs");
    std::fs::create_dir_all(&dir)?;
    let (mut bytes, mut number) = (0, 0);
    for session in 0..SESSIONS {
        let mut file = BufWriter::new(File::create(dir.join(format!("s{session:02}.jsonl")))?);
        for _ in 0..count / SESSIONS {
            let line = line(number);
            file.write_all(line.as_bytes())?;
            bytes += line.len() as u64;
            number += 1;
        }
        file.flush()?;
    }
    Ok(bytes)
}

fn line(n: u64) -> String {
    let good = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 61 != 0;
    let (skill, model, phase) = (n % 40, n % 4, ["plan", "build", "verify"][n as usize % 3]);
    let ms = 1_793_491_200_000 + n * 2000;
    let (status, class, code) = if good { ("success", "", 0) } else { ("failed", "test", 101) };
    let mut output = String::new();
    if !good {
        let kind = (n / 7) % 50;
        let _ = write!(
            output,
            "running 12 tests\\ntest a_{n} ... ok\\nthread 'main' panicked at src/x{n}.rs:{n}:5:\\nassertion failed: \
             cause {} of job {n}\\n",
            CAUSES[kind as usize % CAUSES.len()]
        );
    }
    format!(
        "{{\"kind\":\"run\",\"run_id\":\"01JD{n:022}\",\"timestamp\":\"{ms}\",\"skill\":\"skill-{skill}\",\
         \"phase\":\"{phase}\",\"project_root\":\"/home/user/project\",\
         \"input\":{{\"path\":\"src/file{n}.rs\",\"goal\":\
         \"make the test pass\",\"n\":{n}}},\"attempts\":[{{\"attempt\":1,\"model\":\"m{model}\",\"output_summary\":\
         \"{}\",\"runner_output\":\"{output}\",\"verified\":{good},\"skill_hash\":\
         \"h{}\",\"exit_code\":{code},\"error_class\":\"{class}\",\"params\":{{\"temperature\":0.2}},\"usage\":\
         {{\"input\":1200,\"output\":300}},\"sandbox\":\"bubblewrap\",\"duration_ms\":{}}}],\
         \"final_status\":\"{status}\",\
         \"file_path\":\"src/file{n}.rs\",\"model_used\":\"m{model}\",\"duration_ms\":{}}}\n",
        question(n),
        n / 100_000,
        n % 9000,
        n % 90_000
    )
}

/// Some words, another row of them for each run: what is nearly the same twice would be left out of a data set.
fn question(n: u64) -> String {
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let word = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("w{:x} ", state >> 46)
    };
    (0..24).map(word).collect()
}

/// Ours: what a child does.
pub(crate) fn retro(home: &Path) -> Result<TextCount> {
    let question = ReportQuery { now_ms: 1_900_000_000_000, ..ReportQuery::default() };
    let report = Runs::open(&Store::open(home)?)?.retrospective(&question, &|_, _| {})?;
    Ok((report.totals.runs, report.failures.len() as u64))
}

/// Ours: a data set, of which all rows are made and most are kept.
pub(crate) fn train(home: &Path) -> Result<TextCount> {
    let store = Store::open(home)?;
    let recipe = Recipe { summaries: true, ..Recipe::new(DatasetFormat::TrlSft) };
    let dir = home.with_extension("set");
    let made = make_set(&store, &recipe, &RealDisk::shared(), &dir, Existing::Keep, &mut |_, _| {})?;
    let rows: u64 = made.files.iter().map(|file| file.rows).sum();
    std::fs::remove_dir_all(dir)?;
    if rows < made.counts.runs / 2 {
        return Err(format!("only {rows} rows: {:?}", made.counts).into());
    }
    Ok((made.counts.runs, rows))
}

fn files(home: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(home.join("runs"))?;
    Ok(entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<PathBuf>>>()?)
}

/// Reads every byte, and counts lines.
pub(crate) fn bare(home: &Path) -> Result<TextCount> {
    let (mut lines, mut bytes) = (0, 0);
    let mut block = vec![0; 1 << 20];
    for path in files(home)? {
        let mut file = File::open(path)?;
        loop {
            let count = file.read(&mut block)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            lines += block[..count].split(|byte| *byte == b'\n').count() as u64 - 1;
        }
    }
    Ok((lines, bytes))
}

/// Lines into JSON values, counted by skill.
pub(crate) fn naive(home: &Path) -> Result<TextCount> {
    let mut counts: HashMap<String, (u64, u64)> = HashMap::new();
    let mut bytes = 0;
    for path in files(home)? {
        for line in BufReader::new(File::open(path)?).lines() {
            let line = line?;
            bytes += line.len() as u64;
            let value: serde_json::Value = serde_json::from_str(&line)?;
            let count = counts.entry(value["skill"].as_str().unwrap_or_default().to_owned()).or_default();
            count.0 += 1;
            count.1 += u64::from(value["final_status"] == "success");
        }
    }
    Ok((counts.values().map(|count| count.0).sum(), bytes))
}

const SESSIONS: u64 = 20;
const RECORDED: usize = 500;
const CAUSES: [&str; 7] = [
    "left == right",
    "no such row",
    "index out of range",
    "not sorted",
    "still empty",
    "too slow",
    "wrong owner",
];
