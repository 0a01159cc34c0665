//! What must hold for any file whatever.
//!
//! Two things are not asked for, because no reader that starts in the middle of a file can know them:
//!
//! - Backwards, a line without a number of its own is numbered from the record behind it. Where damage swallowed an
//!   unknown count of lines, that is another number than forwards ([`without_guesses`]).
//! - A number is found by halving, which needs numbers that rise. In a long file where they do not, another entry
//!   with that number or a higher one may be found first ([`rises`]).

use std::path::Path;

use manent_log::{
    Damage, Durability, Error, Expect, Log, LogEnd, Reader, TailState, acknowledge_gaps, frame, verify,
};

use crate::scene::{LOG, ReadItem, Reading, Scene, options, turn};

/// Reading: nothing is skipped, nothing is told twice, and all ways of reading agree.
pub fn of_reading(file: &[u8]) {
    let scene = Scene::with(file);
    let Some(reading) = scene.read() else {
        assert!(scene.read_back().is_none(), "refused forwards, read backwards");
        return;
    };
    every_byte_is_accounted_for(file, &reading);
    backwards_is_the_same(&scene, &reading);
    tails_are_the_same(&scene, file, &reading);
    from_a_number_is_the_same(&scene, file, &reading);
    assert_eq!(scene.bytes(), file, "reading changed the file");
}

/// Items come in the order of the file without overlap, and between them stands nothing but blanks.
fn every_byte_is_accounted_for(file: &[u8], reading: &Reading) {
    let mut at = 0;
    let mut break_before: Option<Damage> = None;
    for item in &reading.items {
        match item {
            // Damage that shows only in the numbers belongs to the record behind it and takes no bytes of its own.
            ReadItem::Damage(damage) if damage.lines == 0 => {
                assert!(damage.offset >= at, "{damage:?} lies before {at}");
                assert!(break_before.is_none(), "two breaks before one record");
                break_before = Some(*damage);
            }
            ReadItem::Damage(damage) => {
                assert!(damage.length > 0, "{damage:?} takes lines but no bytes");
                at = step_over(file, at, damage.offset, damage.length);
            }
            ReadItem::Entry { seq, offset, bytes, verified } => {
                if let Some(damage) = break_before.take() {
                    assert_eq!(damage.offset, *offset, "a break is told before another record");
                }
                assert_eq!(frame::verify(bytes), verified.then_some(*seq), "verified means verified");
                let here = file.get(*offset as usize..*offset as usize + bytes.len());
                assert_eq!(here, Some(&bytes[..]), "an entry is not what stands in the file");
                at = step_over(file, at, *offset, bytes.len() as u64);
            }
        }
    }
    assert!(break_before.is_none(), "a break is told before no record");
    if let LogEnd::Torn(torn) = reading.end {
        assert!(torn.length > 0 && torn.lines > 0, "{torn:?}");
        at = step_over(file, at, torn.offset, torn.length);
    }
    step_over(file, at, file.len() as u64, 0);
}

fn step_over(file: &[u8], at: u64, offset: u64, length: u64) -> u64 {
    assert!(offset >= at, "an item at {offset} overlaps the one before it, which ends at {at}");
    let between = &file[at as usize..offset as usize];
    // A byte-order mark may stand before a line; its three bytes are told from text by what is around them.
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0xEF | 0xBB | 0xBF);
    assert!(between.iter().all(blank), "bytes {at}..{offset} are in no item: {}", between.escape_ascii());
    assert!(offset + length <= file.len() as u64, "an item ends behind the file");
    offset + length
}

/// Backwards: the same entries with the same numbers, and the same damaged places.
fn backwards_is_the_same(scene: &Scene, reading: &Reading) {
    let back = scene.read_back().expect("read forwards, refused backwards");
    let mut backwards: Vec<ReadItem> = back.iter().rev().filter(|item| item.is_entry()).cloned().collect();
    let mut forwards: Vec<ReadItem> = reading.entries().into_iter().cloned().collect();
    if !reading.damage().is_empty() {
        (backwards, forwards) = (without_guesses(&backwards), without_guesses(&forwards));
    }
    assert_eq!(backwards, forwards, "backwards gives other entries than forwards");
    let place = |d: &Damage| (d.offset, d.length, d.lines, d.reason);
    let forwards: Vec<_> = reading.damage().iter().filter(|d| d.lines > 0).map(place).collect();
    let damage = |item: &ReadItem| match item {
        ReadItem::Damage(damage) => Some(place(damage)),
        ReadItem::Entry { .. } => None,
    };
    let backwards: Vec<_> = back.iter().rev().filter_map(damage).collect();
    assert_eq!(backwards, forwards, "backwards names other damage than forwards");
}

/// The items without the numbers that depend on where reading began.
fn without_guesses(items: &[ReadItem]) -> Vec<ReadItem> {
    let sure = |item: &ReadItem| match item {
        ReadItem::Damage(damage) if damage.lines == 0 => None,
        ReadItem::Damage(damage) => Some(ReadItem::Damage(Damage { seq: 0, ..*damage })),
        ReadItem::Entry { offset, bytes, verified: false, .. } => {
            Some(ReadItem::Entry { seq: 0, offset: *offset, bytes: bytes.clone(), verified: false })
        }
        entry @ ReadItem::Entry { .. } => Some(entry.clone()),
    };
    items.iter().filter_map(sure).collect()
}

/// Whether the numbers in a file only ever rise.
fn rises(reading: &Reading) -> bool {
    reading.entries().is_sorted_by(|a, b| a.seq() < b.seq())
}

fn tails_are_the_same(scene: &Scene, file: &[u8], reading: &Reading) {
    let all = |_: &[u8]| true;
    let odd = |bytes: &[u8]| bytes.len() % 2 == 1;
    let kinds: [(&str, &dyn Fn(&[u8]) -> bool); 2] = [("all", &all), ("odd", &odd)];
    for (name, wanted) in kinds {
        let is_wanted = |item: &ReadItem| matches!(item, ReadItem::Entry { bytes, .. } if wanted(bytes));
        let places: Vec<usize> = (0..reading.items.len()).filter(|n| is_wanted(&reading.items[*n])).collect();
        let mut counts = vec![0, 1, 2, places.len() / 2, places.len(), places.len() + 1];
        counts.sort_unstable();
        counts.dedup();
        for count in counts {
            let reader = Reader::open_tail(&scene.disk, Path::new(LOG), count as u64, wanted)
                .expect("what reads forwards has a tail");
            let tail = Reading::of(reader, file.len()).expect("no faults");
            // A break before the first of them is not told: who asks for a tail does not know what came before.
            let expected = match count {
                0 => &[],
                n if n > places.len() => &reading.items[..],
                n => &reading.items[places[places.len() - n]..],
            };
            if reading.damage().is_empty() {
                assert_eq!(tail.items, expected, "the last {count} ({name})");
            } else {
                let [tail, expected] = [&tail.items[..], expected].map(without_guesses);
                assert_eq!(tail, expected, "the last {count} ({name})");
            }
            assert_eq!(tail.end, reading.end, "last {count} ({name})");
            // Where nothing was ever written nothing has a number, and a tail may say so or say 0.
            if reading.next_seq.is_some() {
                assert_eq!(tail.next_seq, reading.next_seq, "last {count} ({name})");
            }
        }
    }
}

fn from_a_number_is_the_same(scene: &Scene, file: &[u8], reading: &Reading) {
    if file.len() > HALVING_STOPS_BYTES && !rises(reading) {
        return;
    }
    let entries = reading.entries();
    let mut numbers = vec![0, 1, 2];
    numbers.extend(
        [entries.len() / 2, entries.len() - usize::from(!entries.is_empty())]
            .iter()
            .filter_map(|nth| entries.get(*nth).map(|entry| entry.seq())),
    );
    numbers.push(entries.iter().map(|entry| entry.seq()).max().unwrap_or(0).saturating_add(1));
    numbers.sort_unstable();
    numbers.dedup();
    for seq in numbers {
        let reader = Reader::open_from(&scene.disk, Path::new(LOG), seq).expect("what reads can be sought");
        let part = Reading::of(reader, file.len()).expect("no faults");
        let first = reading.items.iter().position(|item| item.is_entry() && item.seq() >= seq);
        let expected = first.map_or(&[][..], |nth| &reading.items[nth..]);
        assert_eq!(part.items, expected, "from number {seq}");
        assert_eq!((part.end, part.next_seq), (reading.end, reading.next_seq), "from number {seq}");
    }
}

/// Files up to this size are read from their beginning to find a number.
const HALVING_STOPS_BYTES: usize = 256 << 10;

/// Writing: opening cuts only what it keeps a copy of, an append adds one record and hides none, and what is
/// repaired is sound and stays so.
pub fn of_writing(file: &[u8]) {
    let scene = Scene::with(file);
    let Some(before) = scene.read() else {
        assert!(Log::open(&scene.disk, Path::new(LOG), &options()).is_err(), "not readable, but writable");
        assert_eq!(scene.bytes(), file, "a refusal changed the file");
        return;
    };
    let mut log = match Log::open(&scene.disk, Path::new(LOG), &options()) {
        Ok(log) => {
            assert!(!begins_with_a_newer_header(&before), "a file of a newer format was opened for writing");
            log
        }
        Err(Error::NotALog { .. } | Error::Newer { .. }) => {
            assert_eq!(scene.bytes(), file, "a refusal changed the file");
            assert_eq!(scene.torn_copies().len(), 0, "a refusal left something behind");
            return;
        }
        Err(e) => panic!("opening failed on a disk without faults: {e}"),
    };
    let opened = scene.bytes();
    what_was_cut_is_kept(&scene, file, &opened, &log, &before);
    let ready = scene.read().expect("it could be read before");
    assert_eq!(ready.items, before.items, "opening changed what can be read");

    if !one_more(&scene, &mut log, &ready) {
        return;
    }
    drop(log);
    let appended = scene.bytes();
    of_reading(&appended);
    opening_changes_nothing(&scene, &appended);
    repair_is_final(&scene);
}

/// Whether the first thing that can be read is a header which this version must not write under.
fn begins_with_a_newer_header(reading: &Reading) -> bool {
    let Some(ReadItem::Entry { seq: 0, bytes, verified: true, .. }) = reading.entries().first() else {
        return false;
    };
    let Some(rest) = frame::body_of(bytes).strip_prefix(br#""meta":{"format":"#) else { return false };
    let known = rest.starts_with(b"1}") || rest.starts_with(b"1,");
    !known || rest.windows(12).any(|w| w == br#""requires":["#)
}

fn what_was_cut_is_kept(scene: &Scene, file: &[u8], opened: &[u8], log: &Log, before: &Reading) {
    let cut = file.strip_prefix(opened).expect("opening changed bytes that it did not cut");
    let Some(aside) = log.set_aside() else {
        assert!(cut.is_empty(), "{} bytes were cut and nobody was told", cut.len());
        return;
    };
    assert!(matches!(before.end, LogEnd::Torn(_)), "something was cut off a file that ends clean");
    assert_eq!((aside.offset, aside.length), (opened.len() as u64, cut.len() as u64), "what was cut");
    assert_eq!(scene.sim.peek(&aside.copy).as_deref(), Some(cut), "the copy is not what was cut");
    assert_eq!(scene.torn_copies(), [aside.copy.clone()], "one copy");
}

/// Appends one record. False: its number would be too large, and nothing was written.
fn one_more(scene: &Scene, log: &mut Log, ready: &Reading) -> bool {
    // A reader that stands at the end of the file sees the new record come, and nothing else.
    let mut follower = Reader::open(&scene.disk, Path::new(LOG)).expect("it can be read");
    while follower.next().expect("no faults").is_some() {}

    let opened = scene.bytes();
    let seq = log.next_seq();
    let receipt = match log.append(&turn("one more"), Durability::Sync, Expect::Seq(seq)) {
        Ok(receipt) => receipt,
        Err(Error::Full { .. }) if seq > frame::SEQ_MAX => {
            assert_eq!(scene.bytes(), opened, "a refused append changed the file");
            return false;
        }
        Err(e) => panic!("an append failed on a disk without faults: {e}"),
    };
    assert_eq!(receipt.seq, seq);
    let bytes = scene.bytes();
    assert!(bytes.starts_with(&opened), "an append changed what stood there");
    let after = scene.read().expect("it could be read before");
    assert_eq!(after.end, LogEnd::Clean, "an append left a torn end");
    assert_eq!(after.next_seq, Some(seq + 1));

    let mut entries = after.entries();
    let Some(ReadItem::Entry { seq: last, offset, bytes: line, verified: true }) = entries.pop() else {
        panic!("the new record is not the last entry");
    };
    assert_eq!((*last, *offset), (receipt.seq, receipt.offset), "the receipt speaks of another record");
    assert!(line.windows(8).any(|w| w == b"one more"), "the last entry is another record");
    // A file that was never born, empty or blank, gets its header with the first record.
    if ready.entries().is_empty() && matches!(entries.as_slice(), [ReadItem::Entry { seq: 0, .. }]) {
        entries.pop();
    }
    assert!(!opened.is_empty() || after.entries().len() == 2, "there is no header");
    assert_eq!(entries, ready.entries(), "an append changed what can be read");

    // What was torn and not ours to cut is now a gap; nothing else is damaged that was not.
    let mut damage = ready.damage();
    if let LogEnd::Torn(torn) = ready.end {
        assert_eq!(after.damage().len(), damage.len() + 1, "the torn end is not named, or not as one place");
        damage.push(*after.damage().last().expect("one more than before"));
        assert_eq!(
            damage.last().map(|d| d.offset),
            Some(torn.offset),
            "the gap begins where the torn end did"
        );
    }
    let [now, then] = [after.damage(), damage].map(|all| all.iter().map(settled).collect::<Vec<_>>());
    assert_eq!(now, then, "an append changed what is damaged");

    let seen = Reading::of(follower, bytes.len()).expect("no faults");
    let place_only = |item: &ReadItem| match item {
        // A file in which nothing can be read becomes ours with our record, and its numbers then begin with 0.
        ReadItem::Damage(damage) => ReadItem::Damage(Damage { seq: 0, ..*damage }),
        entry @ ReadItem::Entry { .. } => entry.clone(),
    };
    let [seen, fresh] = [&seen.items, &after.items[ready.items.len()..]]
        .map(|items| items.iter().map(place_only).collect::<Vec<_>>());
    assert_eq!(seen, fresh, "a follower sees something else than a reader");
    true
}

/// What an append cannot change about a damaged place. A record out of order at the very end gets its newline, and a
/// file in which nothing could be read becomes ours, where numbers begin with 0.
fn settled(damage: &Damage) -> Damage {
    let length = if damage.lines == 0 { 0 } else { damage.length };
    Damage { length, seq: 0, ..*damage }
}

fn opening_changes_nothing(scene: &Scene, bytes: &[u8]) {
    let seq = scene.read().expect("it could be read before").next_seq;
    let copies = scene.torn_copies();
    let log = Log::open(&scene.disk, Path::new(LOG), &options()).expect("it could be opened before");
    assert_eq!(log.set_aside(), None, "opening again cut something");
    assert_eq!(Some(log.next_seq()), seq, "the writer and the reader count differently");
    drop(log);
    assert_eq!(scene.bytes(), bytes, "opening again changed the file");
    assert_eq!(scene.torn_copies(), copies, "opening again left something behind");
}

/// Repairs twice: after the first time the file is sound, the second time changes nothing.
fn repair_is_final(scene: &Scene) {
    let path = Path::new(LOG);
    let before = scene.read().expect("it could be read before");
    let report = verify(&scene.disk, path).expect("no faults");
    assert_eq!(report.tail, TailState::Clean);
    let named: Vec<Damage> = report.damage.iter().map(|found| found.damage).collect();
    assert_eq!(named, before.damage(), "verify names other damage than a reader");
    let is_header = |entry: &&ReadItem| matches!(entry, ReadItem::Entry { seq: 0, verified: true, .. });
    let records = before.entries().iter().filter(|entry| !is_header(entry)).count();
    assert_eq!(report.records, records as u64, "verify counts other records than a reader");

    let open = report.damage.iter().filter(|found| !found.acknowledged).count();
    let appended = scene.bytes();
    let mut log = Log::open(&scene.disk, path, &options()).expect("it could be opened before");
    let done = match acknowledge_gaps(&mut log, "2026-11-15T18:07:00.123Z") {
        Ok(done) => done,
        Err(Error::Full { .. }) => return,
        Err(e) => panic!("repair failed on a disk without faults: {e}"),
    };
    assert_eq!(done.len(), open, "repair acknowledged something else than verify named");
    let repaired = scene.bytes();
    assert_eq!(repaired == appended, open == 0, "repair wrote without a reason");
    drop(log);
    let report = verify(&scene.disk, path).expect("no faults");
    assert!(report.is_sound(), "repaired, and not sound: {report:?}");
    let after = scene.read().expect("it could be read before");
    assert!(after.items.starts_with(&before.items), "repair changed what can be read");

    let mut log = Log::open(&scene.disk, path, &options()).expect("it could be opened before");
    let again = acknowledge_gaps(&mut log, "2026-11-15T18:07:01.123Z").expect("no faults");
    assert_eq!(again, [], "repair found something to do twice");
    drop(log);
    assert_eq!(scene.bytes(), repaired, "a second repair changed the file");
    opening_changes_nothing(scene, &repaired);
}
