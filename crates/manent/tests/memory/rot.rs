//! Every byte of a small memory changed, and the file cut at every length.

use manent::Memory;
use manent_sim::SimDisk;

use super::fact;
use super::scenes::{FILE, find, foreign, native, open, told};

/// A memory on a disk of its own, with these bytes for its file.
fn with_bytes(image: &SimDisk, bytes: &[u8]) -> (SimDisk, Memory) {
    let disk = image.copy(1);
    disk.poke(FILE, bytes).unwrap();
    let memory = open(&disk);
    (disk, memory)
}

/// The number of the line in which a byte stands.
fn line_of(bytes: &[u8], at: usize) -> usize {
    bytes[..at].split(|byte| *byte == b'\n').count() - 1
}

/// The line in which an item stands.
fn line_with(bytes: &[u8], text: &str) -> usize {
    let at = bytes.windows(text.len()).position(|some| some == text.as_bytes()).unwrap();
    line_of(bytes, at)
}

fn is_named(memory: &Memory) -> bool {
    let report = memory.verify().unwrap().unwrap();
    !report.is_sound() || report.tail != manent::log::TailState::Clean || !memory.damage().unwrap().is_empty()
}

#[test]
fn a_changed_byte_costs_at_most_its_own_line_is_named_and_no_number_is_given_again() {
    let image = native();
    let whole = image.peek(FILE).unwrap();
    let before = told(&open(&image)).unwrap();
    let mut named = 0;
    for at in 0..whole.len() {
        for bits in [0x01, 0x20, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= bits;
            let what = format!("byte {at} of line {} changed by {bits:#x}", line_of(&whole, at));
            let (disk, memory) = with_bytes(&image, &bytes);
            let now = told(&memory).unwrap();
            let is_hurt = |text: &str| {
                // A lost newline hurts the line behind it too.
                let line = line_with(&whole, text);
                line == line_of(&whole, at) || (whole[at] == b'\n' && line == line_of(&whole, at) + 1)
            };
            for (id, text) in &before {
                assert!(is_hurt(text) || now.contains(&(*id, text.clone())), "{what}: {id} is gone: {now:?}");
            }
            // What the line said that was hurt (a tombstone, a replacement) is undone; nothing else comes up.
            for (id, text) in now.iter().filter(|item| !before.contains(item)) {
                let why = if *id == 2 { "\"target\":2" } else { "alpha five" };
                assert!([2, 4].contains(id) && is_hurt(why), "{what}: {id} {text} came up");
            }
            named += u32::from(is_named(&memory));
            assert!(is_named(&memory) || now == before, "{what}: nobody is told");
            let added = memory.add(&fact("alpha new")).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(added.id > 6, "{what}: {} was given again", added.id);
            let again = told(&open(&disk)).unwrap();
            assert!(again.contains(&(added.id, "alpha new".to_owned())), "{what}: {again:?}");
            assert_eq!(again.len(), now.len() + 1, "{what}: {again:?} after {now:?}");
        }
    }
    assert!(named > whole.len() as u32 * 3, "of {} changes {named} were named", whole.len() * 4);
}

#[test]
fn a_changed_byte_in_another_programs_file_costs_at_most_its_own_line() {
    let image = foreign();
    let whole = image.peek(FILE).unwrap();
    let before = told(&open(&image)).unwrap();
    for at in 0..whole.len() {
        for bits in [0x01, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= bits;
            let what = format!("byte {at} changed by {bits:#x}");
            let (_disk, memory) = with_bytes(&image, &bytes);
            let now = told(&memory).unwrap();
            for (id, text) in &before {
                let line = line_with(&whole, text);
                let is_hurt =
                    line == line_of(&whole, at) || (whole[at] == b'\n' && line == line_of(&whole, at) + 1);
                // A tombstone or a replacement that was hurt may name another one now.
                let is_named = at > whole.windows(10).position(|some| some == b"alpha four").unwrap();
                assert!(
                    is_hurt || is_named || now.contains(&(*id, text.clone())),
                    "{what}: {id} is gone: {now:?}"
                );
            }
            let highest = now.iter().map(|(id, _)| *id).max().unwrap();
            let added = memory.add(&fact("alpha new")).unwrap_or_else(|e| panic!("{what}: {e}"));
            // The last two lines are ours: what they gave out is known, or known to be lost.
            let taken = if line_of(&whole, at) >= 5 { 6 } else { 5 };
            assert!(added.id > highest.max(taken), "{what}: {} after {now:?}", added.id);
            assert!(told(&memory).unwrap().contains(&(added.id, "alpha new".to_owned())), "{what}");
        }
    }
}

#[test]
fn a_file_cut_at_any_length_keeps_what_stands_before_the_cut() {
    for (scene, image) in [("native", native()), ("foreign", foreign())] {
        let whole = image.peek(FILE).unwrap();
        let items = ["alpha one", "alpha qzsecret", "alpha three", "alpha four", "alpha five"];
        for length in 0..whole.len() {
            let what = format!("{scene}, cut to {length} bytes");
            let (disk, memory) = with_bytes(&image, &whole[..length]);
            let now: Vec<u64> = told(&memory).unwrap().into_iter().map(|(id, _)| id).collect();
            let lines = line_of(&whole, length);
            // The newline of the last line may be missing.
            let at_newline = whole[length] == b'\n';
            let is_whole = |text: &str| line_with(&whole, text) < lines + usize::from(at_newline);
            for (id, text) in (1..).zip(items) {
                if is_whole(text) && id != 2 && !(id == 4 && is_whole("alpha five")) {
                    assert!(now.contains(&id), "{what}: {id} is gone: {now:?}");
                }
            }
            let torn =
                (1..).zip(items).filter(|(_, text)| line_with(&whole, text) == lines).map(|(id, _)| id).max();
            let added = memory.add(&fact("alpha new")).unwrap_or_else(|e| panic!("{what}: {e}"));
            let known =
                (1..).zip(items).filter(|(_, text)| is_whole(text)).map(|(id, _)| id).max().unwrap_or(0);
            let at_end = length == 0 || whole[length - 1] == b'\n';
            let taken = if at_end { known } else { torn.unwrap_or(known).max(known) };
            assert!(added.id > taken, "{what}: {} was given, {taken} was taken", added.id);
            let ids: Vec<u64> = told(&open(&disk)).unwrap().into_iter().map(|(id, _)| id).collect();
            assert!(
                ids.contains(&added.id) && now.iter().all(|id| ids.contains(id)),
                "{what}: {now:?} {ids:?}"
            );
        }
    }
}

/// Sectors that come back as zeros: several records at once.
#[test]
fn numbers_of_records_that_were_lost_together_are_not_given_again() {
    for (scene, image, highest) in [("native", native(), 6), ("foreign", foreign(), 6)] {
        let whole = image.peek(FILE).unwrap();
        for keep in 1..5 {
            let from = (0..whole.len()).find(|at| line_of(&whole, *at) == keep).unwrap();
            let mut bytes = whole.clone();
            bytes[from..].fill(0);
            let (disk, memory) = with_bytes(&image, &bytes);
            let what = format!("{scene}: zeros from line {keep} on");
            // Taken and let go of, with nothing written: what was cut is not forgotten by that.
            drop(memory.writer(std::time::Duration::ZERO).unwrap());
            drop(open(&disk).writer(std::time::Duration::ZERO).unwrap());
            let id = open(&disk).add(&fact("alpha new")).unwrap().id;
            assert!(id > highest, "{what}: {id}");
            assert_eq!(open(&disk).add(&fact("alpha newer")).unwrap().id, id + 1, "{what}: only once");
            assert!(find(&memory, "newer").unwrap().contains(&(id + 1)), "{what}");
        }
    }
}

#[test]
fn repairing_names_what_is_lost_and_compacting_leaves_a_sound_file() {
    let image = native();
    let text = String::from_utf8(image.peek(FILE).unwrap()).unwrap();
    let hurt = text.replace("alpha three", "alpha thrEE") + "{\"seq\":7,\"ts\":\"20";
    let (disk, memory) = with_bytes(&image, hurt.as_bytes());
    let repaired = memory.repair().unwrap();
    assert_eq!((repaired.acknowledged.len(), repaired.set_aside.map(|aside| aside.length)), (1, Some(17)));
    assert!(memory.verify().unwrap().unwrap().is_sound(), "known, and no alarm any more");
    let again = memory.repair().unwrap();
    assert!(again.acknowledged.is_empty() && again.set_aside.is_none());
    let ids = || told(&open(&disk)).unwrap().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids(), [1, 5]);
    assert!(memory.compact().unwrap().damaged.is_some());
    assert!(memory.damage().unwrap().is_empty() && memory.verify().unwrap().unwrap().is_sound());
    assert_eq!(ids(), [1, 5]);
    assert!(memory.add(&fact("alpha new")).unwrap().id > 7);
}

/// In another program's file nothing is numbered; what was lost behind the highest id may have had a higher one.
#[test]
fn the_number_of_a_damaged_record_in_another_programs_file_is_not_given_again() {
    let image = foreign();
    let whole = String::from_utf8(image.peek(FILE).unwrap()).unwrap();
    let hurt = whole.replace("\"target\":2", "\"target\":3") + "{\"note\":\"no item\"}\n";
    let (disk, memory) = with_bytes(&image, hurt.as_bytes());
    assert_eq!(memory.damage().unwrap().len(), 1, "the tombstone is damaged, and hides nothing");
    let id = memory.add(&fact("alpha new")).unwrap().id;
    assert!(id > 6, "{id}");
    assert_eq!(open(&disk).add(&fact("alpha newer")).unwrap().id, id + 1, "and no number is wasted twice");
    memory.forget(&[1]).unwrap();
    memory.compact().unwrap();
    assert_eq!(open(&disk).add(&fact("alpha newest")).unwrap().id, id + 3);
}
