//! Checks of spaces: each has its own keys.

use std::time::Duration;

use manent_log::{Durability, Expect};
use manent_store::{
    AppendOptions, Cursor, Error, IfMissing, KnownStreams, LockMode, LockName, Place, Selector, SessionKey,
    Space, StreamId, Target, Version,
};

use crate::Make;
use crate::subject::{LONG, Subject, assert_not_found, assert_unsupported, header, key, records, turn};

/// Knows no stream.
struct Nothing;

impl KnownStreams for Nothing {
    fn each(&self, _take: &mut dyn FnMut(Place, &str, Version)) {}

    fn version(&self, _place: Place, _name: &str) -> Option<Version> {
        None
    }
}

/// Streams of one space show in no other: not in lists, not in changes, not to readers, writers and leases.
pub fn spaces_are_independent(make: Make<'_>) {
    let streams = make();
    let spaces: Vec<Subject> = Space::ALL
        .into_iter()
        .filter(|space| streams.supports(*space))
        .map(|space| Subject { streams: streams.clone(), space })
        .collect();
    // Where any key is allowed, also those that other spaces have.
    let fixed = || Space::ALL.into_iter().filter_map(Space::fixed_keys).flatten().map(|text| key(text));
    let keys = |subject: &Subject| -> Vec<SessionKey> {
        let more = if subject.space.fixed_keys().is_none() { fixed().collect() } else { Vec::new() };
        subject.keys(3).into_iter().chain(more).collect()
    };
    let text = |subject: &Subject, key: &SessionKey| format!("{} {key}", subject.space.word());
    for (done, subject) in spaces.iter().enumerate() {
        for key in keys(subject) {
            let lease = subject.lease(&key, Duration::ZERO).expect("nobody else holds it");
            for other in spaces.iter().filter(|other| other.space != subject.space) {
                if keys(other).contains(&key) {
                    drop(other.lease(&key, Duration::ZERO).expect("the stream of another space"));
                }
            }
            drop(lease);
            assert_eq!(subject.say(&key, &text(subject, &key)).seq, 1);
        }
        let began = spaces.iter().filter(|other| !other.list(Place::Live, Selector::All).is_empty()).count();
        assert_eq!(began, done + 1, "each space has streams when it is written to, and not before");
    }
    let check = |but: Option<Space>| {
        for subject in &spaces {
            let mut wanted = if but == Some(subject.space) { Vec::new() } else { keys(subject) };
            for key in &wanted {
                assert_eq!(subject.live_texts(key), [text(subject, key)]);
            }
            let mut listed: Vec<_> =
                subject.list(Place::Live, Selector::All).into_iter().map(|stat| stat.id.key).collect();
            listed.sort();
            wanted.sort();
            assert_eq!(listed, wanted, "{:?}", subject.space);
            let changes = subject.streams.changes(subject.space, &Nothing, &Cursor::default());
            assert_eq!(changes.expect("changes").streams.len(), wanted.len(), "{:?}", subject.space);
        }
    };
    check(None);
    for subject in &spaces {
        for key in keys(subject) {
            subject.delete(&subject.at(&key)).expect("deleted");
        }
        check(Some(subject.space));
        for key in keys(subject) {
            subject.say(&key, &text(subject, &key));
        }
        check(None);
    }
}

/// A space with fixed keys has no other streams: whoever begins one is refused, and nothing is found.
pub fn key_outside_the_fixed_ones_is_refused(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let Some(fixed) = space.fixed_keys() else {
        assert_eq!(space.single_key(), None);
        return;
    };
    assert_eq!(space.single_key(), if fixed.len() == 1 { Some(fixed[0]) } else { None });
    let others = ["work", "sessions", "memory", "inbox", "trusted", "../memory", "index", "MEMORY"];
    for text in others.into_iter().filter(|text| !fixed.contains(text)) {
        let other = key(text);
        let is_refused = |e: &Error| matches!(e.root(), Error::NoSuchKey { .. });
        let refused = subject.append(&other, &[turn("no")], Expect::Any).expect_err("a key that it has not");
        assert!(is_refused(&refused), "wanted Error::NoSuchKey, found: {refused}");
        let refused = subject.lease(&other, LONG).expect_err("a key that it has not");
        assert!(is_refused(&refused), "wanted Error::NoSuchKey, found: {refused}");
        let refused = subject.create(&other, &header(&other), &[]).expect_err("a key that it has not");
        assert!(is_refused(&refused), "wanted Error::NoSuchKey, found: {refused}");
        assert_not_found(subject.streams.open(Target::Id(&subject.at(&other))), "reading it");
        assert_eq!(subject.list(Place::Live, Selector::Key(&other)), []);
    }
    assert_eq!(subject.counts(), [0; 3]);
    if space.single_key().is_some() {
        subject.say(&subject.work(), "one");
        assert_eq!(subject.live_texts(&StreamId::single(space).key), ["one"], "the only stream");
    }
}

/// A space that the backend does not keep has no streams, and refuses to be written to.
pub fn unsupported_space_is_empty_and_refused(make: Make<'_>) {
    for space in Space::ALL {
        let subject = Subject::within(make, space);
        if subject.streams.supports(space) {
            continue;
        }
        let work = subject.work();
        let at = subject.at(&work);
        let how = AppendOptions { wait: LONG, ..AppendOptions::new(Durability::Flush) };
        let new = || header(&work);
        assert_unsupported(subject.streams.append(&at, &new, &[turn("no")], &how), "appending");
        assert_unsupported(subject.streams.lease(&at, IfMissing::Create(&new), LONG), "leasing");
        let parts = &mut records(&[]);
        assert_unsupported(subject.streams.create(&at, &header(&work), parts), "creating");
        let lock = LockName::Named(space, "contract.lock");
        assert_unsupported(subject.streams.lock(lock, LockMode::Exclusive, LONG), "locking");
        assert_not_found(subject.streams.open(Target::Id(&at)), "reading");
        assert_eq!(subject.counts(), [0; 3]);
        let changes = subject.streams.changes(space, &Nothing, &Cursor::default()).expect("changes");
        assert_eq!(changes.streams, []);
    }
}
