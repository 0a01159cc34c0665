//! Checks of positions: records that are found again where they were read.

use manent_log::{Expect, LogItem};
use manent_store::{Place, Position, Seek, Selector, Space, Target};

use crate::Make;
use crate::subject::{Subject, key, note, rest_of, turn};

/// Every line is found again at its position, to the byte, in every place and form, whatever length the caller
/// believes it to have; beyond the end there is none. The reader stays where it is.
pub fn line_at_finds_every_line_again(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let bodies: Vec<_> = (0..30).map(|n| turn(&format!("{n} {}", "é\u{1f600}".repeat(n * 50)))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let mut at = subject.live(&work);
    let places =
        [(Place::Live, false), (Place::Archive, false), (Place::Archive, true), (Place::Trash, false)];
    for (to, packing) in if space == Space::Sessions { &places[..] } else { &places[..1] } {
        if space == Space::Sessions {
            at = subject.relocate(&at, *to);
        }
        if *packing {
            subject.pack(&at);
        }
        let stat = subject.list(*to, Selector::All).remove(0);
        let target = Target::Name { space, place: *to, name: &stat.name };
        let mut reader = subject.streams.open(target).expect("opened");
        reader.seek(Seek::Seq(7)).expect("moved");
        let all = subject.all(&at);
        for seen in &all {
            let right = seen.line.len();
            for bytes in [right, right + 1, right / 2, 0, 1, right * 3, 1 << 20] {
                let found =
                    reader.line_at(seen.position(), bytes).expect("looked for").map(String::from_utf8);
                assert_eq!(
                    found,
                    Some(Ok(seen.line.clone())),
                    "record {} in {to:?}, {bytes} bytes",
                    seen.seq
                );
            }
        }
        let beyond = all.last().map_or(0, |last| last.position) + (1 << 40);
        assert_eq!(reader.line_at(Position::new(beyond), 100).expect("looked for"), None, "beyond the end");
        assert_eq!(rest_of(&mut *reader), all[7..], "the reader stays where it was");
    }
}

/// Reading continues from a record that was read before, in every place, and as the stream grows.
pub fn seek_to_position_continues_from_a_known_record(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.append(&work, &[turn("1"), note("2"), turn("3")], Expect::Any).expect("taken");
    let mut at = subject.live(&work);
    for to in [Place::Live, Place::Archive, Place::Trash, Place::Live] {
        if space == Space::Sessions {
            at = subject.relocate(&at, to);
        }
        let all = subject.all(&at);
        for (index, seen) in all.iter().enumerate().skip(1) {
            let seek = Seek::Position { position: seen.position(), seq: seen.seq };
            assert_eq!(subject.read(&at, seek, None), all[index..], "from {} in {to:?}", seen.seq);
            let reader = subject.open(&at, seek);
            assert_eq!(Subject::names(&*reader).0.id, at.id, "the header is known all the same");
        }
    }
    let last = subject.all(&at).pop().expect("a record");
    let mut reader = subject.open(&at, Seek::Position { position: last.position(), seq: last.seq });
    assert_eq!(rest_of(&mut *reader).len(), 1);
    subject.say(&work, "4");
    let more = rest_of(&mut *reader);
    assert_eq!(more.iter().map(|seen| seen.seq).collect::<Vec<_>>(), [4], "it grew");
}

/// A position of another stream leads to what is there, or to nothing, and never to a record that is not there.
pub fn position_of_another_stream_gives_no_false_record(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bodies: Vec<_> = (1..9).map(|n| turn(&"long ".repeat(n * 7))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let before = subject.all(&subject.live(&work));
    subject.relocate(&subject.live(&work), Place::Archive);
    for text in ["short", "and shorter", "x"] {
        subject.say(&work, text);
    }
    let at = subject.live(&work);
    let now = subject.all(&at);
    for seen in before.iter().skip(1) {
        let mut reader = subject.open(&at, Seek::Position { position: seen.position(), seq: seen.seq });
        while let Some(item) = reader.next().expect("reading goes on") {
            let LogItem::Entry(entry) = item else { continue };
            let real = now.iter().any(|other| {
                (other.seq, other.position, other.line.as_bytes()) == (entry.seq, entry.offset, entry.bytes)
            });
            assert!(real || !entry.verified, "record {} at {} is not there", entry.seq, entry.offset);
        }
    }
}

/// Bytes that stand in a live stream are found by `may_contain`, and where it denies that they do, they do not.
pub fn may_contain_denies_only_what_is_not_there(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let long = "padding ".repeat(100_000);
    subject.append(&work, &[turn("needle-1"), turn(&long), turn("needle-2")], Expect::Any).expect("taken");
    let at = subject.at(&work);
    let may_contain = |word: &str| subject.streams.may_contain(&at, word.as_bytes()).expect("looked for");
    for word in ["needle-1", "needle-2", "padding padding", "\"role\":\"user\"", "e"] {
        assert!(may_contain(word), "{word:?} stands in the stream");
    }
    let denied = !may_contain("needle-3");
    subject.say(&work, "needle-3");
    assert!(may_contain("needle-3"), "it was appended; denied before: {denied}");
    if let Some(other) = subject.other() {
        subject.say(&other, "needle-4");
        let found = subject.streams.may_contain(&subject.at(&other), b"needle-4").expect("looked for");
        assert!(found, "each stream is looked at on its own");
    }
}
