//! Kill -9 at random moments, many times over: what a receipt said is kept, is kept.
//!
//! `MANENT_DEEP_KILLS=10000` makes it that many kills; `MANENT_SEED=n` replays a run, as far as time can be replayed.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::Duration;

use crate::support::random::Random;
use crate::support::{TestEnvironment, records};

/// Acceptance list 1 and 2: records of 100 bytes to a few pages, where a kill mostly falls between two writes.
#[test]
fn no_receipt_is_lost_in_a_hundred_kills_while_small_records_are_appended() {
    let life = Life { records: 400, low: 100, high: 20_000, within: Duration::from_millis(25) };
    kills(100, &life);
}

/// Acceptance list 2: records up to 8 MB, where a kill mostly falls into the middle of one.
#[test]
fn no_receipt_is_lost_in_a_hundred_kills_while_huge_records_are_appended() {
    let life = Life { records: 3, low: 100_000, high: 8_000_000, within: Duration::from_millis(60) };
    let torn = kills(100, &life);
    assert!(torn > 0, "kills that never tear a record prove little");
}

/// The input and the lifetime of a writer that is killed.
struct Life {
    records: u64,
    /// The shortest and the longest text, in bytes.
    low: u64,
    high: u64,
    /// The longest time that the writer lives.
    within: Duration,
}

/// Kills a writer that many times; gives how often a record was torn.
fn kills(usual: u64, life: &Life) -> usize {
    let deep = std::env::var("MANENT_DEEP_KILLS").ok().and_then(|n| n.parse::<u64>().ok());
    let seed = Random::seed();
    let mut random = Random::new(seed);
    let mut torn = 0;
    let mut env = TestEnvironment::new();
    let mut last = 0;
    for round in 0..deep.map_or(usual, |n| n.div_ceil(2)) {
        if length(&env) > SESSION_BYTES_MAX {
            torn += env.torn_copies("a").len();
            (env, last) = (TestEnvironment::new(), 0);
        }
        last = kill_once(&env, &mut random, life, last, &format!("kill {round} of MANENT_SEED={seed}"));
    }
    torn + env.torn_copies("a").len()
}

/// One life of a writer, behind a session whose last number is `last`. Gives its last number afterwards.
fn kill_once(env: &TestEnvironment, random: &mut Random, life: &Life, last: u64, said: &str) -> u64 {
    let texts: Vec<String> = (0..life.records).map(|n| text_of(random, life, n)).collect();
    let receipts = receipts_until_killed(env, &texts, &moment_of(env, random, life));

    // What a reader finds before anything was repaired: what was sent, in order. Nothing is cut, spliced or invented.
    let shown = env.manent(&["show", "a", "--json", "--from", &(last + 1).to_string()]);
    let killed_before_it_began = shown.code() == Some(4) && last == 0;
    assert!(shown.code() == Some(0) || killed_before_it_began, "{said}: {}", shown.stderr());
    let kept: Vec<&[u8]> = shown.stdout_bytes.split_inclusive(|b| *b == b'\n').collect();
    assert!(kept.len() <= texts.len(), "{said}: more than was sent");
    for (seq, (line, text)) in (last + 1..).zip(kept.iter().zip(&texts)) {
        let start =
            format!(r#"{{"seq":{seq},"ts":"{}","role":"user","content":"{text}","crc":""#, records::TS);
        let whole = line.starts_with(start.as_bytes()) && line.ends_with(b"\"}\n");
        assert!(whole, "{said}: record {seq} is not what was sent");
    }
    // What was acknowledged is among it.
    let newest = last + kept.len() as u64;
    for receipt in &receipts {
        assert!((last + 1..=newest).contains(receipt), "{said}: receipt {receipt} was lost");
    }
    assert_eq!(env.append("a", "after"), newest + 1, "{said}: the next append goes on behind it");
    env.assert_clean("a");
    newest + 1
}

/// The moment at which a writer is killed.
enum Moment {
    /// After a while, wherever it is then.
    After(Duration),
    /// At the first moment when its file has this length, which is mostly in the middle of a write.
    AtLength(u64),
}

fn moment_of(env: &TestEnvironment, random: &mut Random, life: &Life) -> Moment {
    if random.below(2) == 0 {
        return Moment::After(random.duration_below(life.within));
    }
    Moment::AtLength(length(env) + random.between(1, life.high))
}

fn length(env: &TestEnvironment) -> u64 {
    env.log("a").metadata().map_or(0, |meta| meta.len())
}

/// Short texts are as frequent as long ones, at every scale.
fn text_of(random: &mut Random, life: &Life, n: u64) -> String {
    let scale = 1 << random.below((life.high / life.low).ilog2().into());
    let bytes = random.between(life.high / scale / 2, life.high / scale) as usize;
    let mut text = format!("{n} {:016x} ", random.next());
    let letter = char::from(b'a' + (random.below(26) as u8));
    text.extend(std::iter::repeat_n(letter, bytes));
    text
}

/// Sends the texts to a writer, kills it at that moment, and gives the numbers of the receipts it printed.
fn receipts_until_killed(env: &TestEnvironment, texts: &[String], moment: &Moment) -> Vec<u64> {
    let mut command = env.command(&["append", "a", "--jsonl", "--durability", "flush"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for text in texts {
                let line = format!("{}\n", records::plain(text));
                if stdin.write_all(line.as_bytes()).is_err() {
                    break;
                }
            }
        });
        let said = scope.spawn(move || {
            let mut said = String::new();
            stdout.read_to_string(&mut said).map(|_| said).unwrap()
        });
        match *moment {
            Moment::After(while_) => std::thread::sleep(while_),
            // It may end before it comes so far.
            Moment::AtLength(wanted) => while length(env) < wanted && child.try_wait().unwrap().is_none() {},
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let said = said.join().unwrap();
        let whole = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole
            .map(|line| line.trim().strip_prefix("a ").and_then(|n| n.parse().ok()).expect("a receipt"))
            .collect()
    })
}

/// A session is read several times in each round; begin a new one before that takes long.
const SESSION_BYTES_MAX: u64 = 8 << 20;
