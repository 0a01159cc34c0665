//! Checks of `replace`: streams that are replaced as a whole, in the place they are in.

use std::thread;
use std::time::Duration;

use manent_log::frame::DamageReason;
use manent_log::{Damage, Durability, Expect, FileChange};
use manent_store::{Error, Place, Seek, Selector, Space, StreamId, StreamPart, Target};

use crate::Make;
use crate::create::fork_of;
use crate::subject::{
    LONG, Subject, assert_held, assert_not_found, header_body, how, is_too_large, key, keyed, let_others_run,
    line, lines, lines_of, note, numbers, rest_of, turn,
};

/// Every kind of part in its order: lines of another stream as they stand, records, raw lines. Id and key stay, the
/// stream stays where it is, writing goes on, and whoever was reading hears that it was replaced.
pub fn replace_writes_header_and_parts_in_order(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    for text in ["one", "two", "three", "four"] {
        subject.say(&work, text);
    }
    let at = subject.live(&work);
    let before = subject.all(&at);
    let mut reader = subject.open(&at, Seek::First);
    let mut half = subject.open(&at, Seek::Seq(3));
    rest_of(&mut *reader);
    let whole = header_body(&at.id, work.as_str(), None);
    let parts = vec![
        StreamPart::Lines { of: at.clone(), upto: Some(2) },
        StreamPart::Record { seq: 3, body: turn("another three") },
        StreamPart::Record { seq: 4, body: keyed("k", "another four") },
    ];
    let replaced = subject.replace(&at, Some(&whole), parts).expect("replaced");
    let all = subject.all(&at);
    assert_eq!(all[0].line, line(0, &whole), "the header as it was given");
    assert_eq!(lines(&all[1..3]), lines(&before[1..3]), "lines as they stand");
    assert_eq!(subject.texts(&at), ["one", "two", "another three", "another four"]);
    let stat = subject.list(Place::Live, Selector::Key(&work)).remove(0);
    assert_eq!((replaced.bytes, replaced.set_aside), (stat.bytes, None));
    assert_eq!(stat.id, at, "key and id stay");
    subject.assert_sound(&at);
    assert_eq!(Subject::poll(&*reader), FileChange::Replaced, "for whoever reads the old form");
    assert_eq!(rest_of(&mut *half), before[3..], "which can be read to its end");
    let known = subject.append(&work, &[keyed("k", "again")], Expect::Any).expect("known");
    assert_eq!(known[0].seq, 4, "keys of the parts count");
    assert_eq!(subject.say(&work, "five").seq, 5);

    let parts = vec![
        StreamPart::Lines { of: at.clone(), upto: None },
        StreamPart::Record { seq: 6, body: note("six") },
    ];
    subject.replace(&at, Some(&whole), parts).expect("replaced");
    let grown = subject.all(&at);
    assert_eq!(grown[..5], all[..], "the same lines at the same positions");
    assert_eq!(numbers(&grown), [0, 1, 2, 3, 4, 5, 6]);
    subject.replace(&at, Some(&whole), vec![]).expect("replaced");
    assert_eq!(numbers(&subject.all(&at)), [0], "by a header alone");
    assert_eq!(subject.say(&work, "one").seq, 1);
}

/// Lines of other programs are read between the records, unverified, each with the next number.
pub fn replace_accepts_lines_of_other_programs(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "one");
    let at = subject.live(&work);
    let foreign = |n: u64| format!(r#"{{"role":"user","content":"foreign {n}"}}"#);
    let body = header_body(&at.id, work.as_str(), None);
    let parts = vec![
        StreamPart::Lines { of: at.clone(), upto: None },
        StreamPart::Line(foreign(2).into_bytes()),
        StreamPart::Line(foreign(3).into_bytes()),
        StreamPart::Record { seq: 4, body: turn("four") },
        StreamPart::Line(foreign(5).into_bytes()),
    ];
    subject.replace(&at, Some(&body), parts).expect("replaced");
    let check = |at: &StreamId, what: &str| {
        let all = subject.all_lines(at);
        let seen: Vec<(u64, bool)> = all.iter().map(|seen| (seen.seq, seen.verified)).collect();
        assert_eq!(seen, [(0, true), (1, true), (2, false), (3, false), (4, true), (5, false)], "{what}");
        assert_eq!(lines(&all)[2..4], [foreign(2), foreign(3)], "{what}");
        if let Some(maintenance) = subject.streams.maintenance() {
            let report = maintenance.verify(at, &mut |_, _| {}).expect("checked");
            assert_eq!(
                (report.records, report.unverified, report.damage.len()),
                (5, 3, 0),
                "{what}: {report:?}"
            );
        }
        all
    };
    let all = check(&at, "replaced");
    let mut reader = subject.open(&at, Seek::Seq(3));
    let rest = lines_of(&mut *reader);
    assert_eq!(rest, all[3..], "from the number of a line of another program");
    assert_eq!(reader.line_at(all[2].position(), 10).expect("looked for"), Some(foreign(2).into_bytes()));
    let parts = vec![StreamPart::Lines { of: at.clone(), upto: None }];
    subject.replace(&at, Some(&body), parts).expect("replaced");
    assert_eq!(check(&at, "copied from itself"), all);
    let again = vec![StreamPart::Lines { of: at.clone(), upto: Some(3) }];
    subject.replace(&at, Some(&body), again).expect("replaced");
    assert_eq!(subject.all_lines(&at), all[..4], "up to a number that a line of another program has");
    assert_eq!(subject.say(&work, "four").seq, 4, "writing goes on behind them");
}

/// Without a header, a stream becomes one of another program: it has no id, and its lines are numbered from 1.
pub fn replace_without_header_makes_a_foreign_stream(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "one");
    let at = subject.live(&work);
    let foreign = |n: u64| format!(r#"{{"role":"user","content":"foreign {n}"}}"#);
    let parts = vec![StreamPart::Line(foreign(1).into_bytes()), StreamPart::Line(foreign(2).into_bytes())];
    subject.replace(&at, None, parts).expect("replaced");
    let at = subject.at(&work);
    assert_eq!(subject.live(&work).id, "", "it has no id");
    let mut reader = subject.streams.open(Target::Id(&at)).expect("opened");
    assert_eq!((reader.header(), reader.id()), (None, ""));
    assert!(!reader.is_native().expect("looked at"));
    let all = lines_of(&mut *reader);
    assert_eq!(numbers(&all), [1, 2]);
    assert_eq!(lines(&all), [foreign(1), foreign(2)]);
    let mut writer = subject.lease(&work, LONG).expect("a lease");
    assert_eq!((&**writer.id(), writer.next_seq(), writer.is_native()), ("", 3, false));
    assert!(writer.header().is_none() && !writer.is_new());
    let receipts = writer.append(&[turn("three")], &how(Durability::Flush, Expect::Seq(3))).expect("taken");
    assert_eq!((&*receipts[0].id, receipts[0].seq), ("", 3));
    drop(writer);
    assert_eq!(lines_of(&mut *reader).len(), 1, "a reader reads on");
    let all = subject.all_lines(&at);
    assert_eq!(numbers(&all), [1, 2, 3]);
    assert_eq!(all.iter().map(|seen| seen.verified).collect::<Vec<_>>(), [false, false, true]);
}

/// A stream can be replaced in every place and form, stays there, and can be moved afterwards.
pub fn replace_works_in_every_place(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for (place, packing) in Place::ALL.into_iter().flat_map(|place| [(place, false), (place, true)]) {
        for text in ["one", "two", "three"] {
            subject.say(&work, text);
        }
        let at = subject.relocate(&subject.live(&work), place);
        if packing {
            subject.pack(&at);
        }
        let from = subject.list(place, Selector::All).remove(0).from;
        let body = header_body(&at.id, work.as_str(), None);
        let line = r#"{"role":"user","content":"foreign"}"#;
        let parts = vec![
            StreamPart::Lines { of: at.clone(), upto: Some(2) },
            StreamPart::Line(line.into()),
            StreamPart::Record { seq: 4, body: turn("four") },
        ];
        subject.replace(&at, Some(&body), parts).expect("replaced");
        let what = format!("in {place:?}, packed: {packing}");
        assert_eq!(numbers(&subject.all_lines(&at)), [0, 1, 2, 3, 4], "{what}");
        assert_eq!(lines(&subject.all_lines(&at))[3], line, "{what}");
        let stat = subject.list(place, Selector::All).remove(0);
        assert_eq!((&stat.id, stat.from), (&at, from), "{what}");
        let restored = subject.relocate(&at, Place::Live);
        assert_eq!(numbers(&subject.all_lines(&restored)), [0, 1, 2, 3, 4], "{what}");
        assert_eq!(subject.say(&work, "five").seq, 5, "{what}");
        subject.delete(&restored).expect("deleted");
    }
}

/// If a part cannot be had, or is too large, the stream stays what it was, and its lease ends.
pub fn replace_with_failing_part_changes_nothing(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "one");
    let at = subject.live(&work);
    let before = subject.all(&at);
    let body = header_body(&at.id, work.as_str(), None);
    let copy = || StreamPart::Lines { of: at.clone(), upto: None };
    let _moving = subject.moving();
    let writer = subject.lease_existing(&at, LONG).expect("a lease");
    let mut parts = [Ok(copy()), Err(Error::Backend("no more of them".into()))].into_iter();
    let failed = writer.replace(Some(&body), &mut parts, &[]);
    assert!(matches!(failed, Err(Error::Backend(_))), "the error of the parts, found: {failed:?}");
    assert_eq!(subject.all(&at), before);
    let writer = subject.lease_existing(&at, Duration::ZERO).expect("the lease ended");
    let large = StreamPart::Record { seq: 2, body: turn(&"x".repeat(manent_log::frame::RECORD_BYTES_MAX)) };
    let failed = writer.replace(Some(&body), &mut [Ok(copy()), Ok(large)].into_iter(), &[]);
    let failed = failed.expect_err("too large");
    assert!(is_too_large(&failed), "wanted manent_log::Error::TooLarge, found: {failed}");
    let writer = subject.lease_existing(&at, Duration::ZERO).expect("the lease ended");
    let missing = StreamId { id: "01a1e14d-2382-722e-bd10-ffffffffffff".into(), ..at.clone() };
    let failed = writer.replace(
        Some(&body),
        &mut [Ok(StreamPart::Lines { of: missing, upto: None })].into_iter(),
        &[],
    );
    assert_not_found(failed, "lines of a stream that is not there");
    assert_eq!(subject.all(&at), before);
    assert_eq!(subject.say(&work, "two").seq, 2);
}

/// Ranges that are left out are kept apart, and the stream holds the parts alone.
pub fn replace_leaves_out_ranges(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    for text in ["one", "two", "three"] {
        subject.say(&work, text);
    }
    let at = subject.live(&work);
    let second = subject.all(&at).remove(2);
    let left_out = Damage {
        offset: second.position,
        length: second.line.len() as u64 + 1,
        reason: DamageReason::Checksum,
        lines: 1,
        seq: 2,
    };
    let parts = vec![
        StreamPart::Lines { of: at.clone(), upto: Some(1) },
        StreamPart::Record { seq: 2, body: turn("instead") },
    ];
    let body = header_body(&at.id, work.as_str(), None);
    let replaced = subject.replace_without(&at, Some(&body), parts, &[left_out]).expect("replaced");
    assert_eq!(subject.texts(&at), ["one", "instead"]);
    if subject.streams.path(&at).is_some() {
        assert!(replaced.set_aside.is_some(), "it is kept where a file can be");
    }
    assert_eq!(subject.counts().iter().sum::<usize>(), 1, "what is kept apart is not a stream");
}

/// A fork gets another header, the records of its parent up to a number, and its own, each as it stands.
pub fn replace_puts_the_parents_records_before_the_forks_own(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for n in 1..=5 {
        subject.say(&work, &format!("shared {n}"));
    }
    let parent = subject.live(&work);
    let shared = subject.all(&parent);
    let (fork, _) = fork_of(&subject, &parent, 3, "fork", &["own 4", "own 5"]);
    let own = subject.all(&fork);
    let whole = header_body(&fork.id, "fork", None);
    absorb(&subject, &fork, &parent, 3, LONG).expect("replaced");
    let all = subject.all(&fork);
    assert_eq!(all[0].line, line(0, &whole), "the header as it was given");
    assert_eq!(lines(&all[1..]), [lines(&shared[1..4]), lines(&own[1..])].concat());
    assert_eq!(numbers(&all), [0, 1, 2, 3, 4, 5]);
    assert_eq!(subject.live(&fork.key), fork, "key and id stay");
    assert_eq!(Subject::names(&*subject.open(&fork, Seek::Header)).1, 1, "it is not a fork any more");
    subject.assert_sound(&fork);
    assert_eq!(subject.say(&fork.key, "own 6").seq, 6);
    assert_eq!(subject.all(&parent), shared, "the parent is left alone");

    // A parent that is itself a fork and holds nothing of what is asked for gives nothing.
    let (middle, _) = fork_of(&subject, &parent, 4, "middle", &["middle 5"]);
    let (last, header) = fork_of(&subject, &parent, 2, "last", &["last 3"]);
    let parts = vec![
        StreamPart::Lines { of: middle, upto: Some(2) },
        StreamPart::Lines { of: last.clone(), upto: None },
    ];
    subject.replace(&last, Some(&header.body), parts).expect("replaced");
    assert_eq!(numbers(&subject.all(&last)), [0, 3], "5 is not among the records up to 2");
}

/// Makes a fork independent of its parent.
fn absorb(
    subject: &Subject,
    fork: &StreamId,
    parent: &StreamId,
    upto: u64,
    wait: Duration,
) -> manent_store::Result<()> {
    let _moving = subject.moving();
    let writer = subject.lease_existing(fork, wait)?;
    let whole = header_body(&fork.id, fork.key.as_str(), None);
    let parts = [
        StreamPart::Lines { of: parent.clone(), upto: Some(upto) },
        StreamPart::Lines { of: fork.clone(), upto: None },
    ];
    writer.replace(Some(&whole), &mut parts.into_iter().map(Ok), &[]).map(|_| ())
}

/// Fork and parent may be in any place, packed or not, and the fork stays where it is.
pub fn replace_works_wherever_fork_and_parent_are(make: Make<'_>) {
    for fork_in in Place::ALL {
        for parent_in in Place::ALL {
            let subject = Subject::new(make);
            let work = key("work");
            for n in 1..=3 {
                subject.say(&work, &format!("{n}"));
            }
            let parent = subject.live(&work);
            let (fork, _) = fork_of(&subject, &parent, 2, "fork", &["three"]);
            let put = |at: &StreamId, place| {
                let at = subject.relocate(at, place);
                subject.pack(&at);
                at
            };
            let (fork, parent) = (put(&fork, fork_in), put(&parent, parent_in));
            absorb(&subject, &fork, &parent, 2, LONG).expect("replaced");
            subject.delete(&parent).expect("deleted");
            assert_eq!(subject.texts(&fork), ["1", "2", "three"], "{fork_in:?} from {parent_in:?}");
            assert_eq!(subject.places_of(&fork.id), [fork_in]);
            subject.assert_sound(&fork);
            let live = subject.relocate(&fork, Place::Live);
            assert_eq!(subject.texts(&live), ["1", "2", "three"]);
        }
    }
}

/// A stream that is being written is replaced when its writer is done, and nothing of what it wrote is lost.
pub fn replace_waits_for_the_writer(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "one");
    let parent = subject.live(&work);
    let (fork, _) = fork_of(&subject, &parent, 1, "fork", &[]);
    let mut lease = subject.lease(&fork.key, LONG).expect("a lease");
    assert_held(absorb(&subject, &fork, &parent, 1, Duration::ZERO), "replacing what is being written");
    thread::scope(|scope| {
        let absorbed = scope.spawn(|| absorb(&subject, &fork, &parent, 1, LONG));
        let_others_run();
        lease.append(&[turn("two")], &how(Durability::Flush, Expect::Seq(2))).expect("taken");
        drop(lease);
        absorbed.join().expect("no panic").expect("replaced, after a wait");
    });
    assert_eq!(subject.texts(&fork), ["one", "two"]);
}

/// Parts are asked for while the lease is held: until all of them are there, readers see the old stream.
pub fn replace_shows_the_old_stream_until_it_is_done(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "old");
    let at = subject.live(&work);
    let body = header_body(&at.id, work.as_str(), None);
    let _moving = subject.moving();
    let writer = subject.lease_existing(&at, LONG).expect("a lease");
    let mut seqs = 1..=3;
    let mut parts = std::iter::from_fn(|| {
        assert_eq!(subject.texts(&at), ["old"], "nothing shows before all is written");
        assert_held(subject.lease_existing(&at, Duration::ZERO), "a lease meanwhile");
        seqs.next().map(|seq| Ok(StreamPart::Record { seq, body: turn("new") }))
    });
    writer.replace(Some(&body), &mut parts, &[]).expect("replaced");
    assert_eq!(subject.texts(&at), ["new"; 3]);
}
