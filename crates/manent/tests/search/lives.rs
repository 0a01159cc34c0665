//! Random lives of a store that several programs and people use, with a search after every step.
//!
//! A life that breaks a promise prints the command that lives it again.

use std::path::{Path, PathBuf};

use manent::{Body, Store, StoreOptions, turn};
use manent_sim::Rng;
use manent_sim::seeds::live_as_asked;

use super::check::{Like, check, same};
use super::oracle::{ROLES, Truth, WORDS, any_ask, pick};
use super::without_index::fresh;

pub(crate) struct Life {
    pub(crate) rng: Rng,
    pub(crate) dir: tempfile::TempDir,
    /// Each is a program of its own, as far as the index is concerned.
    pub(crate) handles: Vec<Store>,
    /// A log of the steps, to explain a failure.
    pub(crate) did: Vec<String>,
    /// The files of the index, as a backup has them.
    pub(crate) backup: Option<Vec<(PathBuf, Vec<u8>)>>,
    /// Selects how closely answers must agree. Bytes that rot in a log are only noticed where a hit is read.
    pub(crate) like: Like,
    second: i64,
    pub(crate) stats: Stats,
}

/// Counts of what happened, to show that the lives cover every case.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) steps: u64,
    pub(crate) refused: u64,
    pub(crate) asked: u64,
    pub(crate) hits: u64,
    pub(crate) empty: u64,
    pub(crate) related: u64,
    pub(crate) turns: u64,
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.steps += other.steps;
        self.refused += other.refused;
        self.asked += other.asked;
        self.hits += other.hits;
        self.empty += other.empty;
        self.related += other.related;
        self.turns += other.turns;
    }
}

pub(crate) fn open(home: &Path) -> Store {
    let options = StoreOptions { wait: std::time::Duration::ZERO, ..StoreOptions::default() };
    Store::open_with(home, options).unwrap()
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::new(!seed);
        let dir = tempfile::tempdir().unwrap();
        let like = if rng.chance(1, 4) { Like::Turns } else { Like::Exactly };
        let mut life = Life {
            rng,
            dir,
            handles: Vec::new(),
            did: Vec::new(),
            backup: None,
            like,
            second: 1_794_000_000,
            stats: Stats::default(),
        };
        std::fs::create_dir(life.sessions()).unwrap();
        life.handles = (0..3).map(|_| open(life.home())).collect();
        life
    }

    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.home().join("sessions")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.home().join("index")
    }

    /// Any of the programs.
    pub(crate) fn handle(&mut self) -> Store {
        let at = self.rng.below(self.handles.len() as u64) as usize;
        self.did.push(format!("  by {at}"));
        self.handles[at].clone()
    }

    pub(crate) fn text(&mut self) -> String {
        let words = match self.rng.below(20) {
            0 => 0,
            1 => self.rng.range(40..=200),
            _ => self.rng.range(1..=10),
        };
        let mut text = String::new();
        for _ in 0..words {
            let word = pick(&mut self.rng, &WORDS);
            let word = if self.rng.chance(1, 9) { word.to_uppercase() } else { word.to_owned() };
            text.push_str(&word);
            text.push_str(pick(
                &mut self.rng,
                &[" ", " ", " ", " ", ", ", "_", "-", "/", "\n", ".", "\"", "\\"],
            ));
        }
        text
    }

    /// Returns the time of the next turn: often the same second as the one before it.
    pub(crate) fn ts(&mut self) -> String {
        self.second += [0, 0, 1, 1, 60, 90_000][self.rng.below(6) as usize];
        let ms = self.second * 1000 + self.rng.below(1000) as i64;
        format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap())
    }

    /// A record of ours.
    pub(crate) fn body(&mut self) -> Body {
        let (role, text, ts) = (pick(&mut self.rng, &ROLES), self.text(), self.ts());
        match self.rng.below(14) {
            // Whoever embeds the library may leave the time out.
            0 => {
                let mut body = Body::new();
                body.string("role", role).string("content", &text);
                body
            }
            1 => {
                let mut body = Body::new();
                body.string("ts", &ts).string("kind", "note").string("content", &text);
                body
            }
            _ => turn(role, text).string("ts", &ts).into(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.range(8..=30) {
            self.stats.steps += 1;
            let act = if self.rng.chance(1, 2) { Life::act } else { Life::by_hand };
            if let Err(e) = act(self) {
                self.stats.refused += 1;
                self.did.push(format!("  refused: {e}"));
            }
            // Some steps come one behind the other.
            if self.rng.chance(3, 4) {
                self.look()?;
            }
        }
        self.look()?;
        self.look_after_reindex()
    }

    /// Asks some of the programs, and compares.
    fn look(&mut self) -> Result<(), String> {
        let fresh = fresh(self.home());
        let truth = Truth::of(&fresh)?;
        self.stats.turns += truth.turns.len() as u64;
        for _ in 0..2 {
            let at = self.rng.below(self.handles.len() as u64) as usize;
            for _ in 0..self.rng.range(1..=2) {
                let ask = any_ask(&mut self.rng, &truth);
                let by = |what: String| format!("program {at}: {what}");
                let found = check(&self.handles[at], &truth, &ask).map_err(by)?;
                self.stats.asked += 1;
                self.stats.hits += found.hits.len() as u64;
                self.stats.empty += u64::from(found.hits.is_empty());
                self.stats.related += u64::from(found.related);
                let there = check(&fresh, &truth, &ask).map_err(|what| format!("a new index: {what}"))?;
                same(&found, &there, self.like).map_err(|what| {
                    format!("program {at} and a new index differ on {:?}: {what}", ask.text())
                })?;
            }
        }
        Ok(())
    }

    fn look_after_reindex(&mut self) -> Result<(), String> {
        let fresh = fresh(self.home());
        let truth = Truth::of(&fresh)?;
        let asks: Vec<_> = (0..4).map(|_| any_ask(&mut self.rng, &truth)).collect();
        for at in 0..self.handles.len() {
            let store = self.handles[at].clone();
            let before: Vec<_> =
                asks.iter().map(|ask| check(&store, &truth, ask)).collect::<Result<_, _>>()?;
            // Where the index cannot be written, that is said, and it is made in memory.
            let made = store.reindex(&mut |_, _| {});
            if let Ok(made) = &made
                && made.turns != truth.turns.len() as u64
            {
                return Err(format!(
                    "{} turns in the new index, and {} there",
                    made.turns,
                    truth.turns.len()
                ));
            }
            for (ask, before) in asks.iter().zip(&before) {
                let after = check(&store, &truth, ask).map_err(|what| format!("after reindex: {what}"))?;
                same(before, &after, self.like)
                    .map_err(|what| format!("after reindex, {:?}: {what}", ask.text()))?;
            }
        }
        Ok(())
    }
}

fn live(seed: u64) -> Result<Stats, String> {
    let mut life = Life::new(seed);
    let Err(what) = life.run() else { return Ok(life.stats) };
    let (dir, did) = (life.dir.keep(), life.did.join("\n"));
    Err(format!("{what}\nthe store is in {}\nwhat was done:\n{did}", dir.display()))
}

#[test]
fn no_answer_misses_or_invents_a_turn_in_any_life() {
    let names = ["MANENT_SEARCH_SEED", "MANENT_SEARCH_FIRST", "MANENT_SEARCH_LIVES"];
    let (total, count) =
        live_as_asked(names, 60, live, Stats::add).unwrap_or_else(|trouble| panic!("{trouble}"));
    eprintln!("{count} lives: {total:?}");
    if count >= 50 {
        // Lives in which nothing is asked or found prove nothing.
        assert!(total.asked > count * 10 && total.hits > total.asked, "too little happens: {total:?}");
        assert!(
            total.related > count / 4 && total.refused * 4 < total.steps,
            "too little happens: {total:?}"
        );
    }
}
