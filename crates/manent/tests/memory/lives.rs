//! Random lives of a memory that several programs use, compared with a model after every step.
//!
//! A life that breaks a promise prints the command that lives it again.

use std::path::{Path, PathBuf};

use manent::Memory;
use manent::memory::Filter;
use manent_sim::Rng;
use manent_sim::seeds::live_as_asked;

use super::model::{Known, Model};
use super::{found, open};

/// The writer of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Ours,
    /// Ours, and a program that knows nothing of us; it may have begun it.
    Both,
}

pub(crate) struct Life {
    pub(crate) rng: Rng,
    dir: tempfile::TempDir,
    pub(crate) handles: Vec<Memory>,
    pub(crate) model: Model,
    pub(crate) did: Vec<String>,
    pub(crate) words: u64,
    pub(crate) writer: Writer,
    pub(crate) stats: Stats,
}

/// Counts of what happened, to show that lives cover enough.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) added: u64,
    pub(crate) forgotten: u64,
    pub(crate) compacted: u64,
    pub(crate) foreign: u64,
    pub(crate) torn: u64,
    listed: u64,
    replaced: u64,
    doubles: u64,
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.added += other.added;
        self.forgotten += other.forgotten;
        self.compacted += other.compacted;
        self.foreign += other.foreign;
        self.torn += other.torn;
        self.listed += other.listed;
        self.replaced += other.replaced;
        self.doubles += other.doubles;
    }
}

impl Life {
    fn new(seed: u64) -> Life {
        let dir = super::home();
        let mut rng = Rng::new(!seed);
        let writer = if rng.chance(1, 2) { Writer::Ours } else { Writer::Both };
        if writer == Writer::Both && rng.chance(1, 2) {
            std::fs::write(dir.path().join("memory.jsonl"), "{\"meta\":{\"v\":1}}\n").unwrap();
        }
        let handles = (0..3).map(|_| open(dir.path())).collect();
        let (model, stats) = (Model::default(), Stats::default());
        Life { rng, dir, handles, model, did: Vec::new(), words: 0, writer, stats }
    }

    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.home().join("memory.jsonl")
    }

    /// Any of the programs.
    pub(crate) fn handle(&mut self) -> Memory {
        let at = self.rng.below(self.handles.len() as u64) as usize;
        self.did.push(format!("  by {at}"));
        self.handles[at].clone()
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.range(10..=40) {
            self.act()?;
            let memory = self.handle();
            self.look(&memory)?;
        }
        for memory in self.handles.clone().into_iter().chain([open(self.home())]) {
            self.look(&memory)?;
        }
        Ok(())
    }

    /// Compares all that can be asked.
    fn look(&mut self, memory: &Memory) -> Result<(), String> {
        let told = |filter: &Filter| -> Result<Vec<(u64, String)>, String> {
            let items = memory.items(filter).map_err(|e| e.to_string())?;
            Ok(items.into_iter().map(|item| (item.id, word_of(&item.content))).collect())
        };
        let known = |items: Vec<&Known>| -> Vec<(u64, String)> {
            items.into_iter().map(|item| (item.id, item.word.clone())).collect()
        };
        let (active, replaced) = (known(self.model.active()), known(self.model.replaced()));
        expect("listed", &told(&Filter::default())?, &active)?;
        expect("replaced", &told(&Filter { replaced: true, ..Filter::default() })?, &replaced)?;
        let counts = memory.counts().map_err(|e| e.to_string())?;
        let all = (counts.active, counts.replaced, counts.forgotten, counts.double_ids);
        let doubles = self.model.double_ids();
        expect("counts", &all, &(active.len(), replaced.len(), self.model.forgotten(), doubles))?;
        self.stats.listed += active.len() as u64;
        self.stats.replaced += replaced.len() as u64;
        self.stats.doubles += doubles as u64;
        for _ in 0..2 {
            let nth = self.rng.below(self.model.items.len().max(1) as u64) as usize;
            let Some(item) = self.model.items.get(nth) else { continue };
            let live: Vec<String> = self
                .model
                .items
                .iter()
                .filter(|i| i.id == item.id && !i.forgotten)
                .map(|i| i.word.clone())
                .collect();
            let got = memory.get(item.id).map_err(|e| e.to_string())?;
            expect("got", &got.iter().map(|item| word_of(&item.content)).collect::<Vec<_>>(), &live)?;
            let wanted: Vec<u64> =
                active.iter().filter(|(_, word)| *word == item.word).map(|(id, _)| *id).collect();
            expect(&format!("found for {}", item.word), &found(memory, &item.word), &wanted)?;
        }
        if let Some(word) = self.model.gone.last() {
            expect("found of what is gone", &found(memory, word), &Vec::new())?;
        }
        Ok(())
    }
}

/// The word that stands in one item alone.
fn word_of(content: &str) -> String {
    let mut words = content.split([' ', ',']).filter(|word| word.starts_with("qx") && word.ends_with("zw"));
    words.next().unwrap_or(content).to_owned()
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, told: &T, known: &T) -> Result<(), String> {
    if told == known { Ok(()) } else { Err(format!("{what}: {told:?}, and it should be {known:?}")) }
}

fn live(seed: u64) -> Result<Stats, String> {
    let mut life = Life::new(seed);
    let Err(what) = life.run() else { return Ok(life.stats) };
    let (dir, did) = (life.dir.keep(), life.did.join("\n"));
    Err(format!("{what}\nthe store is in {}\nwhat was done:\n{did}", dir.display()))
}

#[test]
fn whatever_is_done_the_memory_says_what_was_acknowledged_and_not_forgotten() {
    let names = ["MANENT_MEMORY_SEED", "MANENT_MEMORY_FIRST", "MANENT_MEMORY_LIVES"];
    let (total, count) =
        live_as_asked(names, 200, live, Stats::add).unwrap_or_else(|trouble| panic!("{trouble}"));
    eprintln!("{count} lives: {total:?}");
    if count >= 100 {
        // Lives in which nothing happens prove nothing.
        let Stats { added, forgotten, compacted, foreign, torn, listed, replaced, doubles } = total;
        for (what, times) in
            [added, forgotten, compacted, foreign, torn, listed, replaced, doubles].iter().enumerate()
        {
            assert!(*times > count / 4, "too little happens: {what} of {total:?}");
        }
    }
}
