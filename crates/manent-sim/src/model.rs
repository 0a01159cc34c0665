//! [`Model`]: the records that a log may hold, given what was promised and what happened since.
//!
//! The model keeps every record that may be in the file, in order, with the worst fault its receipt survives. After
//! any crash it is shown what was read, and insists on three things: nothing was invented or changed, nothing that
//! was promised is missing, and where something unpromised is missing in the middle, the reader named the place.
//! It knows nothing of files or bytes.

use crate::CrashKind;

/// A record as it was handed to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The record's number.
    pub seq: u64,
    /// The members of the record.
    pub body: Vec<u8>,
}

/// The worst that a record is promised to survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Promise {
    /// No promise: no receipt was given.
    Nothing,
    /// The end of the process.
    Kill,
    /// A power cut.
    Power,
}

#[derive(Debug, Clone)]
struct Expected {
    written: Written,
    promise: Promise,
    /// A sync failed while its bytes were dirty: the kernel forgot them, and a later sync says nothing about them.
    given_up: bool,
}

/// The records that are expected in a log.
#[derive(Debug, Clone, Default)]
pub struct Model {
    records: Vec<Expected>,
    /// Records at the end that no receipt was given for and that a reader did not find. Their outcome is unknown, which
    /// promises P3 and P7 allow to mean that they are on the disk: a power cut may still show them. Not so once
    /// somebody opened the log for writing (P9): others get their numbers then.
    absent: Vec<Expected>,
    /// The power failed after the last reading, so that what is read next is all there is.
    power_failed: bool,
    /// Something happened that can leave a hole in the middle of a file.
    holes_possible: bool,
}

impl Model {
    /// Receipts were given that survive the end of the process.
    pub fn flushed(&mut self, records: Vec<Written>) {
        self.add(records, Promise::Kill);
    }

    /// Receipts were given that survive a power cut, which a sync made true for everything before them too.
    pub fn synced(&mut self, records: Vec<Written>) {
        self.add(records, Promise::Power);
        for expected in self.records.iter_mut().filter(|expected| !expected.given_up) {
            expected.promise = Promise::Power;
        }
    }

    /// Records were handed over, and nobody knows how far they came.
    pub fn unknown(&mut self, records: Vec<Written>) {
        self.add(records, Promise::Nothing);
    }

    /// The log was opened for writing, or woke from a rest: what is not in it now is gone for good.
    pub fn opened(&mut self) {
        self.absent.clear();
    }

    /// A record was tried again by its key, and found: its bytes were written again, and synced if it says so.
    pub fn kept_again(&mut self, record: &Written, synced: bool) -> Result<(), String> {
        let promise = if synced { Promise::Power } else { Promise::Kill };
        let expected = self.records.iter_mut().rfind(|expected| expected.written == *record);
        let expected =
            expected.ok_or_else(|| format!("record {} was found, and never appended", record.seq))?;
        expected.promise = expected.promise.max(promise);
        expected.given_up = false;
        Ok(())
    }

    /// A sync failed, or may have.
    pub fn sync_failed(&mut self) {
        self.holes_possible = true;
        for expected in self.records.iter_mut().filter(|expected| expected.promise < Promise::Power) {
            expected.given_up = true;
        }
    }

    /// The cache let go of what a failed sync never wrote.
    pub fn caches_dropped(&mut self) {
        for expected in self.records.iter_mut().filter(|expected| expected.given_up) {
            expected.promise = expected.promise.min(Promise::Nothing);
        }
    }

    /// The process or the machine died.
    pub fn crashed(&mut self, kind: CrashKind) {
        if kind == CrashKind::Power {
            self.holes_possible = true;
            self.power_failed = true;
            self.records.append(&mut self.absent);
            for expected in self.records.iter_mut().filter(|expected| expected.promise < Promise::Power) {
                expected.promise = Promise::Nothing;
            }
        }
    }

    /// Compares with what was read, and takes it as the new truth.
    pub fn check(&mut self, read: &[Written], damaged_places: usize) -> Result<(), String> {
        let mut survivors = Vec::with_capacity(read.len());
        let mut rest = std::mem::take(&mut self.records).into_iter();
        let mut hole = false;
        for record in read {
            loop {
                match rest.next() {
                    Some(expected) if expected.written == *record => {
                        survivors.push(expected);
                        break;
                    }
                    Some(expected) => {
                        lost(&expected)?;
                        hole = true;
                    }
                    None => {
                        return Err(format!("record {} was never appended, or not as it reads", record.seq));
                    }
                }
            }
        }
        let missing: Vec<Expected> = rest.collect();
        missing.iter().try_for_each(lost)?;
        if hole && damaged_places == 0 {
            return Err("records are missing in the middle, and no reader says so".to_owned());
        }
        if damaged_places > 0 && !self.holes_possible {
            return Err(format!("{damaged_places} damaged places, and nothing happened that could damage"));
        }
        // What was read is in the cache now, whatever was promised before.
        for expected in survivors.iter_mut().filter(|expected| !expected.given_up) {
            expected.promise = expected.promise.max(Promise::Kill);
        }
        self.records = survivors;
        if !std::mem::take(&mut self.power_failed) {
            self.absent.extend(missing);
        }
        Ok(())
    }

    fn add(&mut self, records: Vec<Written>, promise: Promise) {
        self.records.extend(records.into_iter().map(|written| Expected {
            written,
            promise,
            given_up: false,
        }));
    }
}

fn lost(expected: &Expected) -> Result<(), String> {
    match expected.promise {
        Promise::Nothing => Ok(()),
        promise => Err(format!(
            "record {} is gone, which was promised to survive: {promise:?}",
            expected.written.seq
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64) -> Written {
        Written { seq, body: seq.to_string().into_bytes() }
    }

    #[test]
    fn what_was_promised_must_be_there() {
        let mut model = Model::default();
        model.synced(vec![record(1)]);
        model.flushed(vec![record(2)]);
        assert!(model.clone().check(&[record(1)], 0).is_err(), "a kill loses nothing that has a receipt");
        model.crashed(CrashKind::Power);
        assert!(model.clone().check(&[], 0).is_err(), "a power cut loses nothing that was synced");
        assert!(model.check(&[record(1)], 0).is_ok());
    }

    #[test]
    fn a_sync_covers_what_came_before_it() {
        let mut model = Model::default();
        model.flushed(vec![record(1)]);
        model.synced(vec![record(2)]);
        model.crashed(CrashKind::Power);
        assert!(model.check(&[record(2)], 1).is_err());
    }

    #[test]
    fn what_was_found_again_by_its_key_must_stay() {
        let mut model = Model::default();
        model.unknown(vec![record(1), record(2)]);
        model.sync_failed();
        assert!(model.kept_again(&record(3), true).is_err(), "never appended");
        model.kept_again(&record(2), true).expect("it may be there");
        model.caches_dropped();
        model.crashed(CrashKind::Power);
        assert!(model.clone().check(&[record(1)], 1).is_err());
        assert!(model.check(&[record(2)], 1).is_ok(), "of the other nothing was promised");
    }

    #[test]
    fn unknown_record_that_was_not_read_returns_only_by_power_loss_and_before_the_log_is_opened() {
        let mut model = Model::default();
        model.synced(vec![record(1)]);
        model.unknown(vec![record(2)]);
        model.check(&[record(1)], 0).expect("of the second nothing was promised");
        let both = [record(1), record(2)];
        assert!(model.clone().check(&both, 0).is_err(), "nothing happened that could bring it back");
        let mut opened = model.clone();
        opened.opened();
        opened.crashed(CrashKind::Power);
        assert!(opened.check(&both, 0).is_err(), "its number is given to others");
        model.crashed(CrashKind::Power);
        assert!(model.clone().check(&both, 0).is_ok());
        model.check(&[record(1)], 0).expect("it need not return");
        model.crashed(CrashKind::Power);
        assert!(model.check(&both, 0).is_err(), "it was not on the disk");
    }

    #[test]
    fn nothing_may_be_invented_changed_moved_or_doubled() {
        let mut model = Model::default();
        model.unknown(vec![record(1), record(2)]);
        let changed = Written { seq: 2, body: b"other".to_vec() };
        let wrong = [
            vec![record(1), changed],
            vec![record(2), record(1)],
            vec![record(1), record(1)],
            vec![record(3)],
        ];
        for read in wrong {
            assert!(model.clone().check(&read, 1).is_err(), "{read:?}");
        }
    }

    #[test]
    fn a_hole_must_be_named_and_damage_needs_a_cause() {
        let mut model = Model::default();
        model.flushed(vec![record(1), record(2), record(3)]);
        assert!(model.clone().check(&[record(1), record(2), record(3)], 1).is_err(), "no cause");
        model.crashed(CrashKind::Power);
        assert!(model.clone().check(&[record(1), record(3)], 0).is_err(), "not named");
        assert!(model.check(&[record(1), record(3)], 1).is_ok());
    }
}
