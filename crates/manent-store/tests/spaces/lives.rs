//! Random lives of a stream that two processes use, in every space, with faults at any disk operation.
//!
//! The model of `manent-sim` knows what was acknowledged, what is unknown and what was refused. Records with keys are
//! tried again, by either process. A life that breaks a promise prints the command that lives it again.

use std::collections::HashSet;
use std::time::Duration;

use manent_log::{Body, Durability, Expect, KeyRule};
use manent_sim::model::{Model, Written};
use manent_sim::seeds::live_as_asked;
use manent_sim::{CrashKind, Errno, Fault, Rng, SimDisk};
use manent_store::{
    AppendOptions, Error, Files, IfMissing, Place, Result, Space, StreamPart, StreamWriter, Streams,
};

use super::scene::{Content, TEXTS, at, disk, header, list, moves, open, read};

/// Counts of what happened in the lives, to show that they cover the cases.
#[derive(Debug, Default)]
struct Stats {
    acknowledged: u64,
    refused: u64,
    unknown: u64,
    crashes: u64,
    found_again: u64,
    appended_again: u64,
    /// Streams that were replaced, created or deleted as a whole.
    rewritten: u64,
    /// The same, where nobody heard of it.
    interrupted: u64,
    moved: u64,
}

struct Life {
    space: Space,
    rng: Rng,
    disk: SimDisk,
    model: Model,
    /// The content of the stream if an interrupted operation was done all the same.
    otherwise: Option<Model>,
    processes: Vec<Files>,
    bodies: Vec<Body>,
    /// Records with keys whose receipt does not survive power loss, or that got none, and the rule by which they are
    /// known.
    pending: Vec<(Body, &'static KeyRule)>,
    stats: Stats,
}

/// The next step of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextStep {
    GoOn,
    Stop,
}

type LifeResult<T> = std::result::Result<T, String>;

impl Life {
    fn new(space: Space, seed: u64) -> Life {
        let mut life = Life {
            space,
            rng: Rng::new(!seed),
            disk: disk(seed),
            model: Model::default(),
            otherwise: None,
            processes: Vec::new(),
            bodies: Vec::new(),
            pending: Vec::new(),
            stats: Stats::default(),
        };
        life.start();
        life
    }

    fn start(&mut self) {
        self.processes = (1..=2).map(|pid| open(&self.disk.as_process(pid))).collect();
    }

    fn run(&mut self) -> LifeResult<()> {
        for _ in 0..self.rng.range(3..=8) {
            self.plan_faults();
            for _ in 0..self.rng.below(14) {
                if self.step()? == NextStep::Stop {
                    break;
                }
            }
            self.disk.reset_faults();
            self.disk.set_capacity(None);
            self.end_epoch();
            self.check()?;
        }
        Ok(())
    }

    fn plan_faults(&mut self) {
        for _ in 0..self.rng.below(3) {
            let fault = match self.rng.below(12) {
                0 | 1 => Fault::CrashKill,
                2 | 3 => Fault::CrashPower,
                4 | 5 => Fault::Fail(Errno::Io),
                6 => Fault::Fail(Errno::NoSpace),
                7 => Fault::PartialThenFail,
                8 => Fault::Interrupted,
                9 => Fault::ShortWrite,
                _ => Fault::FailSync,
            };
            self.disk.add_fault(self.disk.op_count() + self.rng.below(150), fault);
        }
        if self.rng.chance(1, 8) {
            let used: usize =
                self.disk.paths().iter().filter_map(|path| self.disk.peek(path)).map(|b| b.len()).sum();
            self.disk.set_capacity(Some(used as u64 + self.rng.below(12_000)));
        }
    }

    fn step(&mut self) -> LifeResult<NextStep> {
        let who = self.rng.below(2) as usize;
        match self.rng.below(16) {
            0 | 1 => self.replace(who),
            2 if self.rng.chance(1, 3) => self.delete(who),
            3 => self.create(who),
            4 if self.space == Space::Sessions => self.move_away_and_back(who),
            5..=7 if !self.pending.is_empty() => self.retry(who),
            _ => self.append(who),
        }
    }

    /// Takes the lease of the stream. `None`: something stopped it.
    fn lease(&mut self, who: usize, missing: IfMissing<'_>) -> LifeResult<Option<Box<dyn StreamWriter>>> {
        match self.processes[who].lease(&at(self.space), missing, Duration::ZERO) {
            Ok(writer) => {
                self.model.opened();
                Ok(Some(writer))
            }
            Err(e) => self.failed(Vec::new(), &e).map(|_| None),
        }
    }

    fn append(&mut self, who: usize) -> LifeResult<NextStep> {
        let space = self.space;
        let new = || header(space);
        let Some(mut writer) = self.lease(who, IfMissing::Create(&new))? else { return Ok(NextStep::Stop) };
        let first = writer.next_seq();
        let bodies: Vec<Body> = (0..self.rng.range(1..=3)).map(|_| self.body()).collect();
        let keys = if self.rng.chance(1, 3) { &TEXTS } else { &KeyRule::IDEMPOTENCY };
        let how = AppendOptions { keys, expect: Expect::Seq(first), ..AppendOptions::new(self.durability()) };
        let done = if self.rng.chance(1, 2) {
            if let Ok(receipts) = self.processes[1 - who].append(&at(space), &new, &bodies, &how) {
                return Err(format!("two write at once: {receipts:?}"));
            }
            writer.append(&bodies, &how)
        } else {
            drop(writer);
            self.processes[who].append(&at(space), &new, &bodies, &how)
        };
        let written = numbered(first, &bodies);
        let is_sure = done.is_ok() && (how.durability != Durability::Flush || self.rng.chance(1, 2));
        if !is_sure {
            let keyed = bodies.into_iter().filter(|body| !keys.is_idempotency() || body.key().is_some());
            self.pending.extend(keyed.map(|body| (body, keys)));
        }
        match done {
            Ok(receipts) => {
                if receipts.iter().map(|r| r.seq).ne(written.iter().map(|w| w.seq)) {
                    return Err("the receipts carry other numbers than the records".to_owned());
                }
                self.stats.acknowledged += receipts.len() as u64;
                self.kept(written, how.durability);
                Ok(NextStep::GoOn)
            }
            Err(e) => self.failed(written, &e),
        }
    }

    /// Tries a record with keys again. It is there once, whatever became of it before.
    fn retry(&mut self, who: usize) -> LifeResult<NextStep> {
        let space = self.space;
        let new = || header(space);
        let Some(writer) = self.lease(who, IfMissing::Create(&new))? else { return Ok(NextStep::Stop) };
        let first = writer.next_seq();
        drop(writer);
        let nth = self.rng.below(self.pending.len() as u64) as usize;
        let (body, keys) = self.pending[nth].clone();
        let how = AppendOptions { keys, ..AppendOptions::new(self.durability()) };
        let bodies = [body];
        let done = self.processes[who].append(&at(space), &new, &bodies, &how);
        let written = numbered(first, &bodies);
        match done {
            Ok(receipts) if receipts[0].seq == first => {
                self.pending.swap_remove(nth);
                self.stats.appended_again += 1;
                self.kept(written, how.durability);
                Ok(NextStep::GoOn)
            }
            Ok(receipts) => {
                self.pending.swap_remove(nth);
                self.stats.found_again += 1;
                let found = Written { seq: receipts[0].seq, ..written[0].clone() };
                self.model.kept_again(&found, how.durability != Durability::Flush)?;
                Ok(NextStep::GoOn)
            }
            Err(e) => self.failed(written, &e),
        }
    }

    fn kept(&mut self, written: Vec<Written>, durability: Durability) {
        match durability {
            Durability::Flush => self.model.flushed(written),
            Durability::Sync | Durability::Group => self.model.synced(written),
        }
    }

    /// Something failed, as far as the caller was told. Of records whose outcome is unknown, only reading tells how
    /// many are there, before others take their numbers: the epoch ends.
    fn failed(&mut self, written: Vec<Written>, error: &Error) -> LifeResult<NextStep> {
        if self.disk.crashed().is_some() {
            self.model.unknown(written);
            return Ok(NextStep::Stop);
        }
        if is_held(error) || error.is_conflict() {
            return Err(format!("nobody held or wrote the stream, and yet: {error}"));
        }
        self.stats.refused += 1;
        if error.is_unknown() {
            self.stats.unknown += 1;
            self.model.unknown(written);
        }
        // The sync of a cut may be what failed.
        self.model.sync_failed();
        Ok(NextStep::Stop)
    }

    /// Rewrites the stream with some of its records and a new one.
    fn replace(&mut self, who: usize) -> LifeResult<NextStep> {
        let Some((stream, _lock)) = self.look(who)? else { return Ok(NextStep::Stop) };
        let Some(stream) = stream else { return Ok(NextStep::GoOn) };
        let Some(writer) = self.lease(who, IfMissing::Refuse)? else { return Ok(NextStep::Stop) };
        let mut bodies = stream.records;
        bodies.retain(|_| self.rng.chance(3, 4));
        let bodies = bodies.into_iter().map(|record| record.body).chain([self.body().as_bytes().to_vec()]);
        let records: Vec<Written> = (1..).zip(bodies).map(|(seq, body)| Written { seq, body }).collect();
        let known = &self.bodies;
        let mut parts = records.iter().map(|record| {
            let body = known.iter().rev().find(|body| body.as_bytes() == record.body);
            Ok(StreamPart::Record { seq: record.seq, body: body.cloned().unwrap_or_default() })
        });
        let done = writer.replace(Some(&header(self.space).body), &mut parts, &[]).map(drop);
        self.rewrote(done, records)
    }

    fn create(&mut self, who: usize) -> LifeResult<NextStep> {
        let Some((stream, _lock)) = self.look(who)? else { return Ok(NextStep::Stop) };
        if stream.is_some() {
            return Ok(NextStep::GoOn);
        }
        let bodies = [self.body(), self.body()];
        let records = numbered(1, &bodies);
        let mut parts = (1..).zip(bodies).map(|(seq, body)| Ok(StreamPart::Record { seq, body }));
        let done = self.processes[who].create(&at(self.space), &header(self.space), &mut parts);
        self.rewrote(done, records)
    }

    fn delete(&mut self, who: usize) -> LifeResult<NextStep> {
        let Some((stream, _lock)) = self.look(who)? else { return Ok(NextStep::Stop) };
        if stream.is_none() {
            return Ok(NextStep::GoOn);
        }
        let done = self.processes[who].delete(&at(self.space), Duration::ZERO);
        self.rewrote(done, Vec::new())
    }

    /// Takes the right to change the stream as a whole, and reads it; `None` inside if it is not there. `None`:
    /// something stopped it.
    fn look(&mut self, who: usize) -> LifeResult<Option<(Option<Content>, manent_store::Lock)>> {
        let files = &self.processes[who];
        let looked = moves(files, self.space).and_then(|lock| {
            let stream = list(files, self.space)?.into_iter().next();
            let content = stream.map(|stat| read(files, &stat.id)).transpose()?;
            Ok((content, lock))
        });
        match looked {
            Ok(looked) => Ok(Some(looked)),
            Err(e) => self.failed(Vec::new(), &e).map(|_| None),
        }
    }

    /// The stream was replaced as a whole, or perhaps not: then the power fails, and it is one or the other.
    fn rewrote(&mut self, done: Result<()>, records: Vec<Written>) -> LifeResult<NextStep> {
        let mut new = Model::default();
        new.synced(records);
        match done {
            Ok(()) => {
                self.stats.rewritten += 1;
                self.model = new;
                Ok(NextStep::GoOn)
            }
            Err(e) if self.disk.crashed().is_none() && (is_held(&e) || e.is_conflict()) => {
                Err(format!("nobody held or wrote the stream, and yet: {e}"))
            }
            Err(_) => {
                self.stats.interrupted += 1;
                self.model.sync_failed();
                self.otherwise = Some(new);
                // What a kill left may be undone by a later power cut, so that comes at once.
                if self.disk.crashed() == Some(CrashKind::Kill) {
                    self.disk = self.disk.restart();
                }
                self.disk.reset_faults();
                self.disk.crash(CrashKind::Power);
                Ok(NextStep::Stop)
            }
        }
    }

    fn move_away_and_back(&mut self, who: usize) -> LifeResult<NextStep> {
        let files = &self.processes[who];
        let to = if self.rng.chance(1, 2) { Place::Archive } else { Place::Trash };
        let moved = moves(files, self.space).and_then(|_lock| {
            let Some(stat) = list(files, self.space)?.into_iter().next() else { return Ok(()) };
            let away = files.relocate(&stat.id, to, Duration::ZERO)?;
            files.relocate(&away, Place::Live, Duration::ZERO).map(drop)
        });
        match moved {
            Ok(()) => {
                self.stats.moved += 1;
                Ok(NextStep::GoOn)
            }
            Err(e) => self.failed(Vec::new(), &e),
        }
    }

    fn end_epoch(&mut self) {
        if self.disk.crashed().is_none() {
            match self.rng.below(4) {
                0 => self.disk.crash(CrashKind::Kill),
                1 | 2 => self.disk.crash(CrashKind::Power),
                _ => {}
            }
        }
        if let Some(kind) = self.disk.crashed() {
            self.stats.crashes += 1;
            self.model.crashed(kind);
            self.processes.clear();
            self.disk = self.disk.restart();
            self.start();
        }
        if self.rng.chance(1, 4) {
            self.disk.drop_caches();
            self.model.caches_dropped();
        }
    }

    /// Reads the stream, wherever it is, asks the model, and brings the stream back.
    fn check(&mut self) -> LifeResult<()> {
        let (space, files) = (self.space, open(&self.disk));
        let text_of = |e: Error| e.to_string();
        let streams = list(&files, space).map_err(text_of)?;
        if streams.len() > 1 {
            return Err(format!("one stream became several: {streams:?}"));
        }
        let content = match streams.first() {
            Some(stat) => read(&files, &stat.id).map_err(text_of)?,
            None => Content::default(),
        };
        let mut texts = HashSet::new();
        if let Some(text) = content.texts().into_iter().find(|text| !texts.insert(text.clone())) {
            return Err(format!("the record {text:?} is there twice"));
        }
        let as_before = self.model.check(&content.records, content.damaged);
        match (as_before, self.otherwise.take()) {
            (Err(what), Some(mut new)) => {
                new.check(&content.records, content.damaged)
                    .map_err(|otherwise| format!("{what}; or if it was done: {otherwise}"))?;
                self.model = new;
            }
            (checked, _) => checked?,
        }
        if let Some(stat) = streams.first().filter(|stat| stat.id.place != Place::Live) {
            let _lock = moves(&files, space).map_err(text_of)?;
            files.relocate(&stat.id, Place::Live, Duration::ZERO).map_err(text_of)?;
        }
        Ok(())
    }

    fn durability(&mut self) -> Durability {
        [Durability::Sync, Durability::Sync, Durability::Group, Durability::Flush][self.rng.below(4) as usize]
    }

    /// Makes a record like no other: mostly short, sometimes of many sectors.
    fn body(&mut self) -> Body {
        let n = self.bodies.len();
        let length = if self.rng.chance(1, 12) { self.rng.range(4_000..=9_000) } else { self.rng.below(400) };
        let mut body = Body::new();
        body.string("role", "user");
        if self.rng.chance(1, 3) {
            body.idempotent(&format!("k{n}"));
        }
        body.string("content", &format!("{n} {}", "x".repeat(length as usize)));
        self.bodies.push(body.clone());
        body
    }
}

fn is_held(error: &Error) -> bool {
    matches!(error.log(), Some(manent_log::Error::Held { .. }))
}

/// Returns records as they stand in the stream, from this number on.
fn numbered(first: u64, bodies: &[Body]) -> Vec<Written> {
    let numbered = (first..).zip(bodies);
    numbered.map(|(seq, body)| Written { seq, body: body.as_bytes().to_vec() }).collect()
}

fn live(space: Space, seed: u64) -> LifeResult<Stats> {
    let mut life = Life::new(space, seed);
    let Err(what) = life.run() else { return Ok(life.stats) };
    Err(format!("{space:?}: {what}\nthe last operations:\n  {}", life.disk.trace().join("\n  ")))
}

#[test]
fn acknowledged_record_survives_every_life_in_every_space() {
    let names = ["MANENT_SPACE_SEED", "MANENT_SPACE_FIRST", "MANENT_SPACE_SEEDS"];
    for space in Space::ALL {
        let lived = live_as_asked(names, 500, |seed| live(space, seed), Stats::add);
        let (total, count) = lived.unwrap_or_else(|trouble| panic!("{trouble}"));
        eprintln!("{space:?}, {count} lives: {total:?}");
        if count >= 200 {
            // Lives in which nothing happens prove nothing.
            let Stats { acknowledged, refused, unknown, crashes, rewritten, .. } = total;
            let seen = [acknowledged, refused, crashes, rewritten, unknown * 5, total.interrupted * 5];
            assert!(seen.iter().all(|n| *n * 4 >= count), "too little happens: {total:?}");
            assert!(total.found_again > 0 && total.appended_again > 0, "nothing is tried again: {total:?}");
            assert!(space != Space::Sessions || total.moved * 10 >= count, "nothing is moved: {total:?}");
        }
    }
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.crashes += other.crashes;
        self.found_again += other.found_again;
        self.appended_again += other.appended_again;
        self.rewritten += other.rewritten;
        self.interrupted += other.interrupted;
        self.moved += other.moved;
    }
}
