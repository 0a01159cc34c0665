//! A crash or an error at every disk operation of everything that changes a stream, in every space.
//!
//! What was acknowledged survives, and a stream is as it was or as it was to become. Then whoever heard nothing tries
//! again, and in the end the stream is as it was to become, also after a power cut.

use std::time::Duration;

use manent_log::KeyRule;
use manent_sim::{CrashKind, Errno, Fault, SimDisk};
use manent_store::{Files, IfMissing, Place, Result, Space, StreamPart, Streams};

use super::scene::{State, TEXTS, append, at, disk, header, keyed, list, moves, open, state, try_open, turn};

/// Something that changes a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    /// One record, through the backend.
    Append,
    /// Some records, under a lease.
    AppendLeased,
    /// A record with an idempotency key.
    AppendByKey,
    /// Records with keys of a rule that reaches through the whole stream.
    AppendByRule,
    Create,
    Replace,
    /// From the place where the stream is to another.
    Move(Place),
    Delete,
}

/// The state of the stream before the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Not there.
    None,
    /// The stream holds records.
    Whole,
    /// The stream holds records, and a torn end.
    Torn,
    /// The same as `Whole`, in this place.
    In(Place),
}

struct Case {
    space: Space,
    op: Op,
    before: Before,
    image: SimDisk,
    old: State,
    new: State,
}

impl Op {
    fn is_append(self) -> bool {
        matches!(self, Op::Append | Op::AppendLeased | Op::AppendByKey | Op::AppendByRule)
    }

    /// Returns whether it may be done again whatever became of it.
    fn is_idempotent(self) -> bool {
        matches!(self, Op::AppendByKey | Op::AppendByRule)
    }

    fn run(self, files: &Files, space: Space) -> Result<()> {
        match self {
            Op::Append => append(files, space, &[turn("new")], &KeyRule::IDEMPOTENCY).map(drop),
            Op::AppendByKey => append(files, space, &[keyed("n", "new")], &KeyRule::IDEMPOTENCY).map(drop),
            Op::AppendByRule => {
                let bodies = [turn("new"), turn("one"), turn("newer"), turn("new")];
                append(files, space, &bodies, &TEXTS).map(drop)
            }
            Op::AppendLeased => {
                let new = || header(space);
                let mut lease = files.lease(&at(space), IfMissing::Create(&new), Duration::ZERO)?;
                let how = manent_store::AppendOptions::new(manent_log::Durability::Sync);
                lease.append(&[turn("new"), turn("newer"), turn("newest")], &how).map(drop)
            }
            Op::Create => {
                let _moves = moves(files, space)?;
                let mut parts = (1..)
                    .zip(["made", "whole"])
                    .map(|(seq, text)| Ok(StreamPart::Record { seq, body: turn(text) }));
                files.create(&at(space), &header(space), &mut parts)
            }
            Op::Replace => {
                let _moves = moves(files, space)?;
                let lease = files.lease(&at(space), IfMissing::Refuse, Duration::ZERO)?;
                let rest = StreamPart::Record { seq: 7, body: turn("replaced") };
                let mut parts =
                    [Ok(StreamPart::Lines { of: at(space), upto: Some(1) }), Ok(rest)].into_iter();
                lease.replace(Some(&header(space).body), &mut parts, &[]).map(drop)
            }
            Op::Move(to) => {
                let _moves = moves(files, space)?;
                for stat in list(files, space)? {
                    files.relocate(&stat.id, to, Duration::ZERO)?;
                }
                Ok(())
            }
            Op::Delete => {
                let _moves = moves(files, space)?;
                for stat in list(files, space)? {
                    files.delete(&stat.id, Duration::ZERO)?;
                }
                Ok(())
            }
        }
    }
}

impl Case {
    fn new(space: Space, op: Op, before: Before) -> Case {
        let image = disk(1);
        let files = open(&image);
        if before != Before::None {
            append(&files, space, &[turn("one")], &KeyRule::IDEMPOTENCY).unwrap();
            append(&files, space, &[keyed("k", "two"), turn("three")], &KeyRule::IDEMPOTENCY).unwrap();
        }
        match before {
            Before::In(place) => Op::Move(place).run(&files, space).unwrap(),
            Before::Torn => image.raw_append(files.path(&at(space)).unwrap(), b"{\"seq\":4,\"to").unwrap(),
            Before::None | Before::Whole => {}
        }
        drop(files);
        let old = state(&open(&image), space).unwrap();
        let done = image.copy(1);
        op.run(&open(&done), space).unwrap();
        let new = state(&open(&done), space).unwrap();
        assert_ne!(old, new, "{op:?} changes nothing in {space:?}");
        Case { space, op, before, image, old, new }
    }

    /// Returns every case of a space.
    fn all(space: Space) -> Vec<Case> {
        let mut all = Vec::new();
        for op in [Op::Append, Op::AppendLeased, Op::AppendByKey, Op::AppendByRule] {
            all.extend([Before::None, Before::Whole, Before::Torn].map(|before| (op, before)));
        }
        all.push((Op::Create, Before::None));
        for op in [Op::Replace, Op::Delete] {
            all.extend([Before::Whole, Before::Torn].map(|before| (op, before)));
        }
        for from in space.places() {
            let others = space.places().iter().filter(|to| *to != from);
            all.extend(others.map(|to| (Op::Move(*to), Before::In(*from))));
            if *from != Place::Live {
                all.push((Op::Delete, Before::In(*from)));
            }
        }
        all.into_iter().map(|(op, before)| Case::new(space, op, before)).collect()
    }

    /// Returns whether a stream is as it was or as it was to become. Of records that are appended, a crash may leave
    /// some, and name the place of the others.
    fn allows(&self, now: &State) -> bool {
        if *now == self.old || *now == self.new {
            return true;
        }
        let ([] | [_], [(_, new)], [(Place::Live, now)]) = (&self.old[..], &self.new[..], &now[..]) else {
            return false;
        };
        let old = self.old.first().map_or(&[][..], |(_, old)| &old.records);
        let Some(more) = now.records.strip_prefix(old) else { return false };
        let mut rest = new.records[old.len()..].iter();
        self.op.is_append() && more.iter().all(|record| rest.any(|one| one == record))
    }

    /// Returns whether the end is reached: all is as it was to become. Records that were appended again behind damage
    /// have other numbers.
    fn is_done(&self, now: &State) -> bool {
        let texts = |state: &State| {
            let mut texts: Vec<_> = state.iter().flat_map(|(_, content)| content.texts()).collect();
            texts.sort_unstable();
            texts
        };
        *now == self.new || (self.op.is_idempotent() && texts(now) == texts(&self.new))
    }

    /// Does it with a fault at an operation. False: it came to its end before.
    fn strike(&self, operation: u64, fault: Fault) -> bool {
        let disk = self.image.copy(operation * 31 + 7);
        disk.add_fault(disk.op_count() + operation, fault);
        let files = try_open(&disk);
        let done = files
            .as_ref()
            .map_err(ToString::to_string)
            .and_then(|files| self.op.run(files, self.space).map_err(|e| e.to_string()));
        let what = |when: &str| {
            let Case { space, op, before, .. } = self;
            let trace = disk.trace().join("\n  ");
            format!(
                "{op:?} in {space:?}, {before:?}, {fault:?} at operation {operation}: {when}; it gave \
                     {done:?}\nthe last operations:\n  {trace}"
            )
        };
        if disk.faults_left() > 0 {
            assert!(done.is_ok(), "{}", what("nothing was wrong"));
            return false;
        }
        let crashed = disk.crashed().is_some();
        let after = if crashed { disk.restart() } else { disk.clone() };
        after.reset_faults();
        let look = |disk: &SimDisk, when: &str| {
            let now = state(&open(disk), self.space).unwrap_or_else(|e| panic!("{}: {e}", what(when)));
            assert!(self.allows(&now) || self.is_done(&now), "{}: {now:?}", what(when));
            now
        };
        let now = look(&after, "at once");
        assert!(done.is_err() || now == self.new, "{}: {now:?}", what("what was acknowledged is lost"));
        // After an error, the same process tries again; after a crash, another one.
        let again = match files {
            Ok(files) if !crashed => files,
            _ => open(&after),
        };
        let is_new = now == self.new || (self.op == Op::Append && now != self.old);
        if self.op.is_idempotent() || !is_new {
            let retried = if self.op == Op::AppendLeased && now != self.old {
                Ok(()) // Some of its records are there, and nothing tells which.
            } else {
                self.op.run(&again, self.space)
            };
            retried.unwrap_or_else(|e| panic!("{}: {e}", what("it cannot be done again")));
        }
        let is_settled = self.op.is_idempotent() || !is_new || done.is_ok();
        let now = look(&after, "in the end");
        let in_part = self.op == Op::AppendLeased && done.is_err();
        assert!(in_part || self.is_done(&now), "{}: {now:?}", what("in the end"));
        after.crash(CrashKind::Power);
        let now = look(&after.restart(), "after a power cut in the end");
        assert!(in_part || !is_settled || self.is_done(&now), "{}: {now:?}", what("lost in the end"));
        true
    }

    fn sweep(&self) -> u64 {
        let mut strikes = 0;
        for operation in 0.. {
            let struck = FAULTS.iter().filter(|fault| self.strike(operation, **fault)).count();
            strikes += struck as u64;
            if struck == 0 {
                assert!(operation > 10, "{:?} in {:?}: only {operation} operations", self.op, self.space);
                break;
            }
        }
        strikes
    }
}

const FAULTS: [Fault; 5] = [
    Fault::CrashKill,
    Fault::CrashPower,
    Fault::Fail(Errno::Io),
    Fault::Fail(Errno::NoSpace),
    Fault::FailSync,
];

fn sweep(space: Space) {
    let strikes: u64 = Case::all(space).iter().map(Case::sweep).sum();
    assert!(strikes > 1_000, "only {strikes} faults in {space:?}");
}

#[test]
fn crash_at_any_operation_leaves_sessions_as_they_were_or_were_to_become() {
    sweep(Space::Sessions);
}

#[test]
fn crash_at_any_operation_leaves_runs_as_they_were_or_were_to_become() {
    sweep(Space::Runs);
}

#[test]
fn crash_at_any_operation_leaves_the_memory_as_it_was_or_was_to_become() {
    sweep(Space::Memory);
}

#[test]
fn crash_at_any_operation_leaves_the_inbox_as_it_was_or_was_to_become() {
    sweep(Space::Inbox);
}

#[test]
fn crash_at_any_operation_leaves_the_journal_as_it_was_or_was_to_become() {
    sweep(Space::Journal);
}

#[test]
fn crash_at_any_operation_leaves_the_ledger_as_it_was_or_was_to_become() {
    sweep(Space::Ledger);
}
