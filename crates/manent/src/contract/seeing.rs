//! Streams seen from outside, and records found again where they were: what an index is kept by.

use std::collections::BTreeMap;

use manent_log::{Expect, Item};

use super::Make;
use super::subject::{Subject, header, header_of_fork, key, note, said};
use crate::backend::{Address, Changes, Listed, Place, Position, Sight, Stamp, Start, Watching, Which};
use crate::meta::{Meta, Parent};

/// What was seen last: what an index would know.
#[derive(Default)]
struct Known {
    stamps: BTreeMap<(Place, String), Stamp>,
    note: Vec<u64>,
}

/// What a look found since the one before it.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    came: Vec<Sight>,
    changed: Vec<Sight>,
    went: Vec<(Place, String)>,
}

impl Known {
    /// Looks at everything; and whatever the survey says must be what the lists say.
    #[track_caller]
    fn look(&mut self, subject: &Subject) -> News {
        let seen: Vec<(Place, String)> = self.stamps.keys().cloned().collect();
        let names: Vec<(Place, &str)> = seen.iter().map(|(place, name)| (*place, name.as_str())).collect();
        let survey = subject.backend.survey(&names, &self.note).expect("a survey");
        assert_eq!(survey.stamps.len(), seen.len(), "of each that was seen, whether and how it is there");
        let mut news = News::default();
        for ((place, name), stamp) in seen.into_iter().zip(survey.stamps) {
            match stamp {
                None => {
                    self.stamps.remove(&(place, name.clone()));
                    news.went.push((place, name));
                }
                Some(stamp) if self.stamps[&(place, name.clone())] == stamp => {}
                Some(stamp) => {
                    self.stamps.insert((place, name.clone()), stamp);
                    news.changed.push(Sight { place, name, stamp });
                }
            }
        }
        for sight in survey.others {
            let before = self.stamps.insert((sight.place, sight.name.clone()), sight.stamp);
            assert_eq!(before, None, "{sight:?} was seen before, or twice");
            news.came.push(sight);
        }
        self.note = survey.note;
        assert_eq!(self.listed(subject), lists(subject), "what is seen is what is listed");
        news
    }

    /// All that was seen, as a list shows it.
    #[track_caller]
    fn listed(&self, subject: &Subject) -> Vec<Listed> {
        let sight = |((place, name), stamp): (&(Place, String), &Stamp)| Sight {
            place: *place,
            name: name.clone(),
            stamp: *stamp,
        };
        let identify = |sight: Sight| {
            let listed = subject.backend.identify(&sight).expect("it is looked at");
            listed.unwrap_or_else(|| panic!("{sight:?} is seen, and is nothing"))
        };
        in_order(self.stamps.iter().map(sight).map(identify).collect())
    }
}

fn lists(subject: &Subject) -> Vec<Listed> {
    in_order(Place::ALL.into_iter().flat_map(|place| subject.list(place, Which::All)).collect())
}

fn in_order(mut all: Vec<Listed>) -> Vec<Listed> {
    all.sort_by_key(|listed| (listed.address.place, listed.address.id.clone()));
    all
}

/// Every stream, in every place, is seen once, and is what a list shows; whoever looks again without anything having
/// happened sees nothing new.
pub fn a_survey_sees_every_stream_once(make: Make<'_>) {
    let subject = Subject::new(make);
    assert_eq!(Known::default().look(&subject), News::default(), "there is nothing");
    for n in 0..4 {
        subject.say(&key(&format!("live {n}")), "x");
        for to in [Place::Archive, Place::Trash] {
            let work = key("work: the same key every time");
            subject.say(&work, &format!("{n}"));
            let at = subject.relocate(&subject.live(&work), to);
            if n % 2 == 0 {
                subject.backend.condense(&at, &mut |_, _| {}).expect("condensed");
            }
        }
    }
    let mut known = Known::default();
    assert_eq!(known.look(&subject).came.len(), 12);
    for _ in 0..3 {
        assert_eq!(known.look(&subject), News::default(), "nothing happened");
    }
    let unborn = subject.lease(&key("unborn"), super::subject::LONG).expect("a lease");
    assert_eq!(known.look(&subject), News::default(), "a stream begins with its first record");
    drop(unborn);
    assert_eq!(known.look(&subject), News::default());
}

/// Whatever is done to a stream, the next survey tells, and tells it of no other: that it came, or changed, or went,
/// however shortly after the last survey that was.
pub fn a_survey_tells_what_came_changed_and_went(make: Make<'_>) {
    let subject = Subject::new(make);
    let (work, other) = (key("work"), key("other"));
    let mut known = Known::default();
    subject.say(&other, "of no concern");
    known.look(&subject);
    let sights = |sights: &[Sight]| sights.iter().map(|sight| sight.place).collect::<Vec<_>>();
    let told = |news: &News| {
        let went: Vec<Place> = news.went.iter().map(|(place, _)| *place).collect();
        (sights(&news.came), sights(&news.changed), went)
    };
    let (live, archive, trash) = (Place::Live, Place::Archive, Place::Trash);
    subject.say(&work, "1");
    assert_eq!(told(&known.look(&subject)), (vec![live], vec![], vec![]), "begun");
    for text in ["2", "2", "2"] {
        subject.say(&work, text);
        assert_eq!(told(&known.look(&subject)), (vec![], vec![live], vec![]), "appended to");
    }
    subject.append(&work, &[note("no turn"), said("x")], Expect::Any).expect("taken");
    assert_eq!(told(&known.look(&subject)), (vec![], vec![live], vec![]), "appended to twice");
    let mut at = subject.live(&work);
    for to in [archive, trash, archive, live, trash, live] {
        let from = at.place;
        at = subject.relocate(&at, to);
        assert_eq!(told(&known.look(&subject)), (vec![to], vec![], vec![from]), "from {from:?} to {to:?}");
    }
    at = subject.relocate(&at, archive);
    known.look(&subject);
    subject.backend.condense(&at, &mut |_, _| {}).expect("condensed");
    // It may be called otherwise then, or not.
    let news = known.look(&subject);
    assert_eq!((news.came.len(), news.changed.len() <= 1), (news.went.len(), true), "condensed");
    subject.say(&work, "another stream");
    assert_eq!(told(&known.look(&subject)), (vec![live], vec![], vec![]), "another of the same key");
    subject.delete(&at).expect("deleted");
    assert_eq!(told(&known.look(&subject)), (vec![], vec![], vec![archive]), "deleted");
    // All at once.
    let second = subject.relocate(&subject.live(&work), trash);
    subject.say(&work, "a third");
    subject.delete(&second).expect("deleted");
    let news = known.look(&subject);
    assert!(news.came.len() + news.changed.len() == 1 && news.went.len() <= 1, "{news:?}");
    assert_eq!(known.look(&subject), News::default());
}

/// A stream that is made, and a fork that is rewritten where it is, are seen as such.
pub fn a_survey_tells_what_was_made_and_rewritten(make: Make<'_>) {
    let subject = Subject::new(make);
    let (work, branch) = (key("work"), key("branch"));
    subject.append(&work, &[said("1"), said("2")], Expect::Any).expect("taken");
    let mut known = Known::default();
    known.look(&subject);
    let parent = subject.live(&work);
    let crc = subject.all(&parent)[2].line[..].rsplit('"').nth(1).expect("a checksum").to_owned();
    let of = Parent { id: parent.id.clone(), key: work.to_string(), upto: 2, crc };
    subject.create(&branch, &header_of_fork(&branch, Some(&of)), &[]).expect("made");
    assert_eq!(known.look(&subject).came.len(), 1, "made");
    subject.say(&branch, "3");
    assert_eq!(known.look(&subject).changed.len(), 1);
    let fork = subject.live(&branch);
    {
        let _moving = subject.moving();
        let whole = header(&branch);
        subject.backend.absorb(&fork, &whole.body, &parent, 2, super::subject::LONG).expect("absorbed");
    }
    let news = known.look(&subject);
    assert_eq!((news.came.len(), news.changed.len(), news.went.len()), (0, 1, 0), "{news:?}");
    assert_eq!(news.changed[0].place, Place::Live);
}

/// The live stream of a key is seen as a survey sees it, if there is one.
pub fn a_live_stream_is_seen_by_its_key(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work: a key that no file can be called by");
    assert_eq!(subject.backend.sight(&work).expect("it is looked for"), None);
    subject.say(&work, "1");
    subject.say(&key("other"), "of no concern");
    for text in ["2", "3"] {
        let sight = subject.backend.sight(&work).expect("it is looked for").expect("it is there");
        let others = subject.backend.survey(&[], &[]).expect("a survey").others;
        assert_eq!(others.iter().filter(|other| **other == sight).count(), 1, "{sight:?} in {others:?}");
        let listed = subject.backend.identify(&sight).expect("it is looked at").expect("it is there");
        assert_eq!(listed.address, subject.live(&work));
        subject.say(&work, text);
        let now = subject.backend.sight(&work).expect("it is looked for").expect("it is there");
        assert_ne!(now.stamp, sight.stamp, "it changed");
    }
    let sight = subject.backend.sight(&work).expect("it is looked for").expect("it is there");
    subject.relocate(&subject.live(&work), Place::Archive);
    assert_eq!(subject.backend.sight(&work).expect("it is looked for"), None, "it is not live");
    assert_eq!(subject.backend.identify(&sight).expect("it is looked at"), None, "nor what it was");
}

/// Every record is found again at its position, to the byte, in every place and form, and nothing is found where
/// nothing is.
pub fn a_line_is_found_where_it_was_read(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bodies: Vec<_> = (0..30).map(|n| said(&format!("{n} {}", "é\u{1f600}".repeat(n * 50)))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let mut at = subject.live(&work);
    for (to, condense) in
        [(Place::Live, false), (Place::Archive, false), (Place::Archive, true), (Place::Trash, false)]
    {
        at = subject.relocate(&at, to);
        if condense {
            subject.backend.condense(&at, &mut |_, _| {}).expect("condensed");
        }
        let sight = subject.backend.survey(&[], &[]).expect("a survey").others.remove(0);
        let line = |name: &str, position| {
            subject.backend.line(sight.place, name, Position::new(position)).expect("it is looked for")
        };
        let all = subject.all(&at);
        for seen in &all {
            let found = line(&sight.name, seen.position).map(String::from_utf8);
            assert_eq!(found, Some(Ok(seen.line.clone())), "record {} in {to:?}", seen.seq);
        }
        let beyond = all.last().map_or(0, |last| last.position) + (1 << 40);
        assert_eq!(line(&sight.name, beyond), None, "behind the end");
        assert_eq!(line("nothing is called so", 0), None);
    }
    let sight = subject.backend.survey(&[], &[]).expect("a survey").others.remove(0);
    subject.delete(&at).expect("deleted");
    let line = subject.backend.line(sight.place, &sight.name, Position::new(0)).expect("it is looked for");
    assert_eq!(line, None, "it is gone");
}

/// Reading goes on from where a record was read before, in every place, and as the stream grows.
pub fn reading_goes_on_from_a_record_that_was_read(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.append(&work, &[said("1"), note("2"), said("3")], Expect::Any).expect("taken");
    let mut at = subject.live(&work);
    for to in [Place::Live, Place::Archive, Place::Trash, Place::Live] {
        at = subject.relocate(&at, to);
        let all = subject.all(&at);
        for (index, seen) in all.iter().enumerate().skip(1) {
            let start = Start::At { position: Position::new(seen.position), seq: seen.seq };
            assert_eq!(subject.read(&at, start, None), all[index..], "from {} in {to:?}", seen.seq);
            let records = subject.open(&at, start);
            let id = records.meta().map(|meta: &Meta| meta.id.clone());
            assert_eq!(id.as_deref(), Some(at.id.as_str()), "the header is known all the same");
        }
    }
    let last = subject.all(&at).pop().expect("a record");
    let start = Start::At { position: Position::new(last.position), seq: last.seq };
    let mut records = subject.open(&at, start);
    assert_eq!(super::subject::rest_of(&mut *records).len(), 1);
    subject.say(&work, "4");
    let more = super::subject::rest_of(&mut *records);
    assert_eq!(more.iter().map(|seen| seen.seq).collect::<Vec<_>>(), [4], "it grew");
}

/// A position in another stream than it was read in leads to what is there, or to nothing, and never to what is not.
pub fn a_position_in_another_stream_pretends_nothing(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    let bodies: Vec<_> = (1..9).map(|n| said(&"long ".repeat(n * 7))).collect();
    subject.append(&work, &bodies, Expect::Any).expect("taken");
    let before = subject.all(&subject.live(&work));
    subject.relocate(&subject.live(&work), Place::Archive);
    for text in ["short", "and shorter", "x"] {
        subject.say(&work, text);
    }
    let at = subject.live(&work);
    let now = subject.all(&at);
    for seen in before.iter().skip(1) {
        let start = Start::At { position: Position::new(seen.position), seq: seen.seq };
        let mut records = subject.open(&at, start);
        while let Some(item) = records.next().expect("reading goes on") {
            let Item::Entry(entry) = item else { continue };
            let real = now.iter().any(|other| {
                (other.seq, other.position, other.line.as_bytes()) == (entry.seq, entry.offset, entry.bytes)
            });
            assert!(real || !entry.verified, "record {} at {} is none", entry.seq, entry.offset);
        }
    }
}

/// Whether a watch told of a stream. What it does not know, it may say so.
fn is_told(watch: &mut dyn Watching, wanted: &[(Place, &str, bool)]) -> bool {
    match watch.changes() {
        Changes::Unknown => true,
        Changes::These(told) => wanted.iter().all(|(place, name, there)| {
            let last = told.iter().rfind(|(other, called, _)| other == place && called == name);
            last.is_some_and(|(_, _, stamp)| stamp.is_some() == *there)
        }),
    }
}

/// A watch, where there is one, tells of whatever was done to streams before it is asked.
pub fn a_watch_tells_of_everything(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    subject.say(&work, "1");
    let watch = || subject.backend.watch();
    let Some(mut watching) = watch() else { return };
    let sight = subject.backend.sight(&work).expect("it is looked for").expect("it is there");
    let live = [(Place::Live, sight.name.as_str(), true)];
    let gone = [(Place::Live, sight.name.as_str(), false)];
    assert!(is_told(&mut *watching, &[]), "nothing happened");
    for text in ["2", "3"] {
        subject.say(&work, text);
        assert!(is_told(&mut *watching, &live), "an append");
    }
    let mut at: Address = subject.live(&work);
    for to in [Place::Archive, Place::Live, Place::Trash, Place::Live] {
        // Whoever lost track is replaced.
        let mut watching = watch().expect("there was one before");
        let from_live = at.place == Place::Live;
        at = subject.relocate(&at, to);
        assert!(is_told(&mut *watching, if from_live { &gone } else { &live }), "a move to {to:?}");
    }
    let mut watching = watch().expect("there was one before");
    let other = key("other");
    subject.say(&other, "x");
    let sight = subject.backend.sight(&other).expect("it is looked for").expect("it is there");
    assert!(is_told(&mut *watching, &[(Place::Live, &sight.name, true)]), "another stream");
    subject.delete(&at).expect("deleted");
    assert!(is_told(&mut *watching, &gone), "removed");
}
