//! Checks of `changes`, with what an index keeps: versions and a cursor.

use std::collections::BTreeMap;
use std::time::Duration;

use manent_log::Expect;
use manent_store::{
    ChangeKind, Changes, Cursor, KnownStreams, Place, Selector, Space, StreamChange, StreamId, StreamPart,
    StreamState, Version,
};

use crate::Make;
use crate::subject::{LONG, Subject, header, header_body, key, note, turn};

/// The streams that a caller of `changes` knows.
#[derive(Debug, Clone, Default)]
struct ChangeTracker {
    states: BTreeMap<(Place, String), StreamState>,
    cursor: Cursor,
}

impl KnownStreams for ChangeTracker {
    fn each(&self, take: &mut dyn FnMut(Place, &str, Version)) {
        self.states.iter().for_each(|((place, name), seen)| take(*place, name, seen.version));
    }

    fn version(&self, place: Place, name: &str) -> Option<Version> {
        self.states.get(&(place, name.to_owned())).map(|seen| seen.version)
    }
}

/// The kind of a change, without its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    New,
    Appended,
    Rewritten,
    Gone,
}

/// The changes of streams, by their place.
type Events = Vec<(Place, Kind)>;

impl ChangeTracker {
    fn changes_since(&self, subject: &Subject, since: &Cursor) -> Changes {
        subject.streams.changes(subject.space, self, since).expect("changes")
    }

    /// Asks with the last cursor and takes the answer in.
    #[track_caller]
    fn poll(&mut self, subject: &Subject) -> Events {
        let changes = self.changes_since(subject, &self.cursor);
        self.apply(subject, changes)
    }

    /// Takes an answer in and returns the events in it. What is known then must be what the lists show.
    #[track_caller]
    fn apply(&mut self, subject: &Subject, changes: Changes) -> Events {
        let mut events: Events =
            changes.streams.into_iter().filter_map(|change| self.apply_one(change)).collect();
        events.sort();
        self.cursor = changes.cursor;
        let tracked: Vec<(Place, String, u64)> =
            self.states.iter().map(|((place, name), seen)| (*place, name.clone(), seen.bytes)).collect();
        assert_eq!(tracked, lists(subject), "what is known is what is listed");
        events
    }

    #[track_caller]
    fn apply_one(&mut self, StreamChange { place, name, kind }: StreamChange) -> Option<(Place, Kind)> {
        let before = match kind.state() {
            Some(seen) => self.states.insert((place, name.clone()), seen),
            None => self.states.remove(&(place, name.clone())),
        };
        assert_eq!(before.is_none(), matches!(kind, ChangeKind::New(_)), "{name:?} in {place:?}: {kind:?}");
        match kind {
            ChangeKind::New(_) => Some((place, Kind::New)),
            // A stream that changed a moment ago may be told of again, with the same length.
            ChangeKind::Appended(seen) if before.is_some_and(|before| before.bytes == seen.bytes) => None,
            ChangeKind::Appended(_) => Some((place, Kind::Appended)),
            ChangeKind::Rewritten(_) => Some((place, Kind::Rewritten)),
            ChangeKind::Gone => Some((place, Kind::Gone)),
        }
    }

    /// Asks until the answer is empty, as it is soon where nothing happens.
    #[track_caller]
    fn settle(&mut self, subject: &Subject) {
        for _ in 0..ROUNDS {
            let changes = self.changes_since(subject, &self.cursor);
            let is_empty = changes.streams.is_empty();
            assert_eq!(self.apply(subject, changes), [], "nothing happened");
            if is_empty {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing happens, but changes are told again and again");
    }
}

/// Returns what the lists of all places show.
fn lists(subject: &Subject) -> Vec<(Place, String, u64)> {
    let all = Place::ALL.into_iter().flat_map(|place| subject.list(place, Selector::All));
    let mut all: Vec<_> = all.map(|stat| (stat.id.place, stat.name, stat.bytes)).collect();
    all.sort();
    all
}

/// Every stream, in every place, is new once; where nothing happened, nothing is told, with whatever cursor.
pub fn changes_of_unchanged_streams_are_empty(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let mut tracker = ChangeTracker::default();
    assert_eq!(tracker.poll(&subject), [], "there is nothing");
    let keys = subject.keys(4);
    for key in &keys {
        subject.say(key, "x");
    }
    let mut wanted = vec![(Place::Live, Kind::New); keys.len()];
    if space == Space::Sessions {
        let work = key("the same key every time: work");
        for (n, to) in [Place::Archive, Place::Archive, Place::Trash, Place::Trash].into_iter().enumerate() {
            subject.say(&work, &format!("{n}"));
            let at = subject.relocate(&subject.live(&work), to);
            if n % 2 == 0 {
                subject.pack(&at);
            }
            wanted.push((to, Kind::New));
        }
    }
    let old = tracker.cursor.clone();
    assert_eq!(tracker.poll(&subject), wanted);
    tracker.settle(&subject);
    for cursor in [Cursor::default(), tracker.cursor.clone(), old, Cursor::default()] {
        let changes = tracker.changes_since(&subject, &cursor);
        assert_eq!(
            tracker.apply(&subject, changes),
            [],
            "nothing happened, and {cursor:?} says how far was heard"
        );
    }
    let mut other = ChangeTracker::default();
    assert_eq!(other.poll(&subject), wanted, "another caller, who knows nothing");
    subject.delete(&subject.live(&keys[0])).expect("deleted");
    assert_eq!(tracker.poll(&subject), [(Place::Live, Kind::Gone)]);
    tracker.settle(&subject);
    let unborn = subject.lease(&keys[0], LONG).expect("a lease");
    assert_eq!(tracker.poll(&subject), [], "a stream begins with its first record");
    drop(unborn);
    assert_eq!(tracker.poll(&subject), []);
}

/// Whatever is done to a stream, the next call tells of it, and of no other stream, however soon it comes.
pub fn changes_tell_of_each_change_once(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let mut tracker = ChangeTracker::default();
    if let Some(other) = subject.other() {
        subject.say(&other, "of no concern");
    }
    tracker.poll(&subject);
    for round in 0..2 {
        subject.say(&work, "1");
        assert_eq!(tracker.poll(&subject), [(Place::Live, Kind::New)], "begun");
        for text in ["2", "2", "2"] {
            subject.say(&work, text);
            assert_eq!(tracker.poll(&subject), [(Place::Live, Kind::Appended)], "appended to");
        }
        subject.append(&work, &[note("a note"), turn("x")], Expect::Any).expect("taken");
        subject.say(&work, "and more");
        assert_eq!(tracker.poll(&subject), [(Place::Live, Kind::Appended)], "appended to twice");
        let whole = header_body(&subject.live(&work).id, work.as_str(), None);
        let part = StreamPart::Lines { of: subject.at(&work), upto: None };
        subject.replace(&subject.at(&work), Some(&whole), vec![part]).expect("replaced");
        let is_rewritten = |(_, kind): &(Place, Kind)| *kind == Kind::Rewritten;
        assert!(tracker.poll(&subject).iter().all(is_rewritten), "replaced by the same records");
        subject.replace(&subject.at(&work), Some(&whole), vec![]).expect("replaced");
        assert!(tracker.poll(&subject).iter().any(is_rewritten), "replaced by less, in round {round}");
        subject.say(&work, "grows again");
        assert_eq!(tracker.poll(&subject), [(Place::Live, Kind::Appended)]);
        subject.delete(&subject.at(&work)).expect("deleted");
        assert_eq!(tracker.poll(&subject), [(Place::Live, Kind::Gone)], "deleted");
        subject.create(&work, &header(&work), &[turn("1")]).expect("made");
        assert_eq!(tracker.poll(&subject), [(Place::Live, Kind::New)], "created");
        subject.delete(&subject.at(&work)).expect("deleted");
        subject.say(&work, "another stream of the key");
        assert!(!tracker.poll(&subject).is_empty(), "another stream in its place");
        subject.delete(&subject.at(&work)).expect("deleted");
        tracker.poll(&subject);
        tracker.settle(&subject);
    }
}

/// A move is told as gone from one place and new in another, and whoever knows an older state hears all of it.
pub fn changes_tell_of_moves(make: Make<'_>) {
    let subject = Subject::new(make);
    let (work, other) = (key("work"), key("other"));
    let (live, archive, trash) = (Place::Live, Place::Archive, Place::Trash);
    subject.say(&other, "of no concern");
    subject.say(&work, "1");
    let mut tracker = ChangeTracker::default();
    tracker.poll(&subject);
    let mut late = tracker.clone();
    let mut at = subject.live(&work);
    for to in [archive, trash, archive, live, trash, live] {
        let from = at.place;
        at = subject.relocate(&at, to);
        let mut wanted = [(to, Kind::New), (from, Kind::Gone)];
        wanted.sort();
        assert_eq!(tracker.poll(&subject), wanted, "from {from:?} to {to:?}");
    }
    at = subject.relocate(&at, archive);
    tracker.poll(&subject);
    subject.pack(&at);
    // A packed stream may have another name, or not.
    let events = tracker.poll(&subject);
    let count = |kind| events.iter().filter(|(place, other)| *place == archive && *other == kind).count();
    assert_eq!(count(Kind::New), count(Kind::Gone), "packed: {events:?}");
    subject.say(&work, "another stream");
    assert_eq!(tracker.poll(&subject), [(live, Kind::New)], "another of the same key");
    subject.delete(&at).expect("deleted");
    assert_eq!(tracker.poll(&subject), [(archive, Kind::Gone)], "deleted");
    let second = subject.relocate(&subject.live(&work), trash);
    subject.say(&work, "a third");
    subject.delete(&second).expect("deleted");
    let events = tracker.poll(&subject);
    assert!((1..=2).contains(&events.len()) && events.iter().all(|(place, _)| *place == live), "{events:?}");
    tracker.settle(&subject);

    // With what was known long ago, and the cursor of then.
    assert!(!late.poll(&subject).is_empty(), "the stream is another one");
    late.settle(&subject);
    assert!(late.states.keys().eq(tracker.states.keys()), "both know the same");
}

/// With an old cursor, or the default one, everything is told that the caller does not know.
pub fn changes_since_an_old_cursor_are_complete(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let keys = subject.keys(3);
    let mut tracker = ChangeTracker::default();
    let mut cursors = vec![Cursor::default()];
    for key in &keys {
        subject.say(key, "1");
        tracker.poll(&subject);
        cursors.push(tracker.cursor.clone());
    }
    for key in &keys {
        subject.say(key, "2");
    }
    for since in &cursors {
        let mut late = tracker.clone();
        let changes = late.changes_since(&subject, since);
        let events = late.apply(&subject, changes);
        assert_eq!(events, vec![(Place::Live, Kind::Appended); keys.len()], "with {since:?}");
    }
    subject.delete(&subject.at(&keys[0])).expect("deleted");
    let mut nothing = ChangeTracker::default();
    let events = nothing.poll(&subject);
    assert_eq!(events, vec![(Place::Live, Kind::New); keys.len() - 1], "to whoever knows nothing");
    let mut words = cursors.last().map(|cursor| cursor.words().to_vec()).unwrap_or_default();
    for word in &mut words {
        *word ^= 1;
    }
    let changes = tracker.changes_since(&subject, &Cursor::new(words));
    assert!(
        tracker.apply(&subject, changes).contains(&(Place::Live, Kind::Gone)),
        "a cursor of somebody else"
    );
}

/// A stream whose version is not known is told as rewritten, again and again.
pub fn changes_of_unknown_version_are_rewritten(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "1");
    let mut tracker = ChangeTracker::default();
    tracker.poll(&subject);
    tracker.settle(&subject);
    for _ in 0..3 {
        tracker.states.values_mut().for_each(|seen| seen.version = Version::UNKNOWN);
        let changes = tracker.changes_since(&subject, &Cursor::default());
        let kinds: Vec<_> = changes.streams.iter().map(|change| change.kind).collect();
        assert!(matches!(kinds[..], [ChangeKind::Rewritten(_)]), "{kinds:?}");
        tracker.apply(&subject, changes);
    }
    let gone = ChangeTracker {
        states: [((Place::Live, "nothing.jsonl".into()), StreamState::default())].into(),
        ..tracker
    };
    let changes = gone.changes_since(&subject, &Cursor::default());
    let is_gone = |change: &StreamChange| change.name == "nothing.jsonl" && change.kind == ChangeKind::Gone;
    assert!(changes.streams.iter().any(is_gone), "a stream that is not there: {changes:?}");
}

/// The version in a list is that of `changes`: whoever keeps it hears of what comes later, and of nothing else.
pub fn version_of_a_list_is_that_of_changes(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    subject.say(&work, "1");
    let stat = || subject.list(Place::Live, Selector::Key(&work)).remove(0);
    let mut tracker = ChangeTracker::default();
    for text in ["2", "3"] {
        let before = stat();
        let seen = StreamState { version: before.version, bytes: before.bytes };
        tracker.states = [((Place::Live, before.name.clone()), seen)].into();
        let changes = tracker.changes_since(&subject, &Cursor::default());
        assert_eq!(tracker.apply(&subject, changes), [], "nothing happened since it was listed");
        subject.say(&work, text);
        tracker.states = [((Place::Live, before.name.clone()), seen)].into();
        let changes = tracker.changes_since(&subject, &Cursor::default());
        assert_eq!(tracker.apply(&subject, changes), [(Place::Live, Kind::Appended)]);
        let after = stat();
        assert_ne!(after.version, before.version, "it changed");
        assert_eq!((after.name, after.id), (before.name, subject.live(&work)));
    }
    assert_ne!(stat().version, Version::UNKNOWN);
}

/// A rewritten archive or deleted stream is told as rewritten, or as another one in its place.
pub fn changes_tell_of_streams_replaced_where_they_are(make: Make<'_>) {
    let subject = Subject::new(make);
    let work = key("work");
    for place in [Place::Archive, Place::Trash] {
        subject.say(&work, "1");
        let at: StreamId = subject.relocate(&subject.live(&work), place);
        subject.pack(&at);
        let mut tracker = ChangeTracker::default();
        tracker.poll(&subject);
        let body = header_body(&at.id, work.as_str(), None);
        let record = StreamPart::Record { seq: 1, body: turn("something else") };
        subject.replace(&at, Some(&body), vec![record]).expect("replaced");
        let events = tracker.poll(&subject);
        assert!(!events.is_empty() && events.iter().all(|(in_place, _)| *in_place == place), "{events:?}");
        assert_eq!(subject.texts(&at), ["something else"]);
        subject.delete(&at).expect("deleted");
    }
}

/// Changes may be told again for as long as a clock tick, which is far shorter than this many rounds.
const ROUNDS: usize = 300;
