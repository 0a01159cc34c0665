//! Checks of keys and lists: any text is a key, no two keys are one stream, and a list finds what it should.

use manent_log::Expect;

use manent_store::{
    KEY_BYTES_MAX, ListDetail, Place, Seek, Selector, SessionKey, Space, StreamFilter, StreamId, StreamStat,
    Target,
};

use crate::Make;
use crate::subject::{ReadLine, Subject, assert_not_found, key, rest_of, turn};

/// Keys that are paths, commands, patterns, names of devices, or look alike.
const SHORT: &[&str] = &[
    "a", "A", "a ", " a", "a/b", "a\\b", "a b", "a\nb", "a\tb", "a_b", "a%b", "a.b", "a.jsonl", ".a.tmp",
    ".", "..", "../x", "~", "-", "-rf", "--help", "CON", "con", "con.txt", "NUL", "com1", "sessions",
    "archive", "trash", "%", "%2f", "%61", "_", "*", "?", "'", "\"", "';--", "$HOME", "{}", "\u{7f}",
    "\u{e9}", "e\u{301}", "fi", "\u{fb01}", "ß", "ss", "SS", "null", "0", "00",
];

/// The same; and names that files of other keys have somewhere.
const LONGER: &[&str] = &[
    "a.jsonl.zst",
    "a.jsonl.archived",
    "a.jsonl.torn-0-0",
    "a.01a1e14d-2382-722e-bd10-b9f468ff6bed",
    "../../etc/passwd",
    "/etc/passwd",
    "\u{1b}[31m",
    "\u{202e}a",
    "\u{feff}a",
    "\u{1F600}",
    "telegram:alice",
    "telegram%3aalice",
    "Telegram:Alice",
    "@01a1e14d",
];

/// All of these, keys that are other keys' encoded names, and keys as long as a key may be.
fn hostile() -> Vec<SessionKey> {
    let mut keys: Vec<SessionKey> = SHORT.iter().chain(LONGER).map(|text| key(text)).collect();
    let encoded = |of: &str| key(of).file_name().strip_suffix(".jsonl").expect("a file name").to_owned();
    keys.extend(["A", "CON", "a/b", "\u{e9}"].map(|of| key(&encoded(of))));
    let long = "x".repeat(KEY_BYTES_MAX);
    keys.push(key(&encoded(&long)));
    keys.push(key(&long));
    keys.push(key(&"\u{e9}".repeat(KEY_BYTES_MAX / 2)));
    keys
}

/// Each hostile key has a stream of its own in every place: none is another's, none is missing from a list,
/// and each is listed under the key it was given.
pub fn hostile_keys_have_streams_of_their_own(make: Make<'_>) {
    let subject = Subject::new(make);
    let keys = hostile();
    for (n, key) in keys.iter().enumerate() {
        let taken = subject.append(key, &[turn(&format!("stream {n}"))], Expect::Seq(1));
        assert!(taken.is_ok(), "{key:?} is a key of its own, but: {taken:?}");
    }
    let mut sorted = keys.clone();
    sorted.sort();
    let listed_in = |place| {
        let mut listed: Vec<_> = subject.list(place, Selector::All).into_iter().map(|l| l.id.key).collect();
        listed.sort();
        listed
    };
    let mut at: Vec<StreamId> = keys.iter().map(|key| subject.live(key)).collect();
    for place in [Place::Live, Place::Archive, Place::Trash, Place::Live] {
        at = at.iter().map(|at| subject.relocate(at, place)).collect();
        assert_eq!(listed_in(place), sorted, "{place:?}");
        for (n, (key, at)) in keys.iter().zip(&at).enumerate() {
            assert_eq!(at.key, *key);
            assert_eq!(subject.texts(at), [format!("stream {n}")], "{key:?} in {place:?}");
            let found = subject.list(place, Selector::Key(key));
            let found: Vec<_> = found.into_iter().map(|listed| (listed.id, listed.header_key)).collect();
            assert_eq!(found, [(at.clone(), None)], "{key:?} in {place:?}");
            let (names, _) = Subject::names(&*subject.open(at, Seek::Header));
            assert_eq!(names.key, key.as_str());
        }
    }
    for key in &keys {
        assert_eq!(subject.say(key, "and on").seq, 2, "{key:?}");
    }
}

/// The streams that changed last are those of the list, in the order of their times; what only a header tells may be
/// left out.
pub fn list_of_newest_is_ordered_by_time(make: Make<'_>) {
    let subject = Subject::new(make);
    for (n, key) in hostile().iter().enumerate() {
        subject.say(key, &format!("stream {n}"));
    }
    subject.say(&key("a"), "once more");
    let gone = subject.live(&key("con"));
    subject.relocate(&gone, Place::Archive);
    let mut listed = subject.list(Place::Live, Selector::All);
    listed.sort_by(|a, b| (b.modified_ms, &b.id.key).cmp(&(a.modified_ms, &a.id.key)));
    for (count, detail) in
        [0, 1, 10, usize::MAX].map(|n| [(n, ListDetail::Header), (n, ListDetail::Outside)]).concat()
    {
        let filter = StreamFilter {
            newest: Some(count),
            detail,
            ..StreamFilter::sessions(Place::Live, Selector::All)
        };
        let recent = subject.filter(&filter);
        assert_eq!(recent.len(), listed.len().min(count));
        for (recent, listed) in recent.iter().zip(&listed) {
            assert_eq!(outside(recent), outside(listed));
            assert!(recent.id.id == listed.id.id || recent.id.id.is_empty() && detail == ListDetail::Outside);
        }
    }
}

/// Keys as long as keys may be that differ in one byte, wherever, are different keys.
pub fn long_keys_differing_in_one_byte_are_distinct(make: Make<'_>) {
    let subject = Subject::new(make);
    let with = |at: usize| {
        let mut text = vec![b'x'; KEY_BYTES_MAX];
        text[at] = b'y';
        key(&String::from_utf8(text).expect("ASCII"))
    };
    let keys: Vec<SessionKey> = [0, 100, 250, 254, 255, 256, 500, KEY_BYTES_MAX - 1].map(with).into();
    for key in &keys {
        assert_eq!(subject.say(key, key.as_str()).seq, 1);
    }
    for key in &keys {
        assert_eq!(subject.texts(&subject.at(key)), [key.as_str()]);
        let archived = subject.relocate(&subject.live(key), Place::Archive);
        assert_eq!(subject.texts(&archived), [key.as_str()]);
        assert_eq!(subject.list(Place::Archive, Selector::Key(key)).len(), 1);
    }
    assert_eq!(subject.list(Place::Archive, Selector::All).len(), keys.len());
}

/// A list gives everything of a place, or what a key has there, or the streams whose id begins so: to the
/// letter, with no pattern in it.
pub fn list_finds_by_place_key_and_id(make: Make<'_>) {
    let subject = Subject::new(make);
    let mut at = Vec::new();
    for (name, place) in
        [("a", Place::Trash), ("a", Place::Archive), ("a", Place::Live), ("b", Place::Archive)]
    {
        subject.say(&key(name), "one");
        at.push(subject.relocate(&subject.live(&key(name)), place));
    }
    let found = |place, which: Selector<'_>| {
        let mut ids: Vec<_> = subject.list(place, which).into_iter().map(|l| l.id.id).collect();
        ids.sort();
        ids
    };
    let ids_in = |place| {
        let mut ids: Vec<_> = at.iter().filter(|at| at.place == place).map(|at| at.id.clone()).collect();
        ids.sort();
        ids
    };
    for place in Place::ALL {
        assert_eq!(found(place, Selector::All), ids_in(place), "{place:?}");
        assert_eq!(found(place, Selector::Id("")), ids_in(place), "every id begins with nothing");
        for at in &at {
            let here: Vec<&str> = Some(at.id.as_str()).filter(|_| at.place == place).into_iter().collect();
            assert_eq!(found(place, Selector::Id(&at.id)), here, "{place:?}");
            let alike = |len| ids_in(place).into_iter().filter(move |id| id.starts_with(&at.id[..len]));
            for len in [1, 8, 20, at.id.len() - 1] {
                assert_eq!(found(place, Selector::Id(&at.id[..len])), alike(len).collect::<Vec<_>>());
            }
            for other in [format!("{}0", at.id), at.id[1..].to_owned(), "%".into(), "_".into(), "*".into()] {
                assert_eq!(
                    found(place, Selector::Id(&other)),
                    Vec::<String>::new(),
                    "{other:?} in {place:?}"
                );
            }
        }
    }
    assert_eq!(found(Place::Archive, Selector::Key(&key("a"))), [at[1].id.clone()]);
    assert_eq!(found(Place::Live, Selector::Key(&key("b"))), Vec::<String>::new());
    assert_eq!(found(Place::Live, Selector::Key(&key("A"))), Vec::<String>::new());
}

/// A list shows how much space a stream takes, which grows with it, and when it changed, which does not go back;
/// outside the trash a stream was where it is.
pub fn list_shows_size_and_time(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let work = subject.work();
    let mut last: Option<(u64, i64)> = None;
    for _ in 0..5 {
        subject.say(&work, &"x".repeat(1000));
        let listed = subject.list(Place::Live, Selector::Key(&work)).remove(0);
        let now = (listed.bytes, listed.modified_ms);
        assert!(listed.bytes >= 1000 && listed.modified_ms > 0, "{listed:?}");
        assert!(last.is_none_or(|last| last.0 < now.0 && last.1 <= now.1), "{now:?} after {last:?}");
        assert_eq!((listed.from, listed.header_key), (Place::Live, None));
        last = Some(now);
    }
    if space == Space::Sessions {
        subject.relocate(&subject.live(&work), Place::Archive);
        let listed = subject.list(Place::Archive, Selector::All).remove(0);
        assert_eq!(listed.from, Place::Archive);
        assert!(listed.bytes > 0 && listed.modified_ms > 0, "{listed:?}");
    }
}

/// Returns what can be told of a stream without opening it.
fn outside(stat: &StreamStat) -> (SessionKey, String, u64, i64, Place) {
    (stat.id.key.clone(), stat.name.clone(), stat.bytes, stat.modified_ms, stat.from)
}

/// A list without details gives the same streams as one with them; ids may be left out.
pub fn list_from_outside_gives_the_same_streams(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let keys = subject.keys(5);
    for key in &keys {
        subject.say(key, "one");
    }
    if space == Space::Sessions {
        subject.relocate(&subject.live(&keys[1]), Place::Archive);
        subject.relocate(&subject.live(&keys[2]), Place::Trash);
    }
    for place in Place::ALL {
        for which in
            [Selector::All, Selector::Key(&keys[0]), Selector::Id("01a1e14d"), Selector::Id("nothing")]
        {
            let mut inside = subject.list(place, which);
            let mut seen = subject.filter(&StreamFilter {
                detail: ListDetail::Outside,
                ..StreamFilter::new(space, place, which)
            });
            inside.sort_by_key(outside);
            seen.sort_by_key(outside);
            assert_eq!(seen.len(), inside.len(), "{which:?} in {place:?}");
            for (seen, inside) in seen.iter().zip(&inside) {
                assert_eq!(outside(seen), outside(inside));
                assert!(seen.id.id.is_empty() || seen.id.id == inside.id.id, "{seen:?}");
            }
        }
    }
}

/// A name that a list gives finds that stream and no other, in its own place only, for lists and for readers.
pub fn name_finds_its_stream_in_its_place(make: Make<'_>, space: Space) {
    let subject = Subject::within(make, space);
    let keys = subject.keys(4);
    for key in &keys {
        subject.say(key, key.as_str());
    }
    if space == Space::Sessions {
        for (key, place) in [(&keys[1], Place::Archive), (&keys[2], Place::Trash)] {
            subject.pack(&subject.relocate(&subject.live(key), place));
        }
    }
    let all: Vec<StreamStat> =
        Place::ALL.into_iter().flat_map(|place| subject.list(place, Selector::All)).collect();
    assert_eq!(all.len(), keys.len());
    for stat in &all {
        for place in Place::ALL {
            let found = subject.list(place, Selector::Name(&stat.name));
            let target = Target::Name { space, place, name: &stat.name };
            if place == stat.id.place {
                assert_eq!(found.len(), 1, "{:?} in {place:?}", stat.name);
                assert_eq!((outside(&found[0]), &found[0].id), (outside(stat), &stat.id));
                let mut reader = subject.streams.open(target).expect("opened");
                assert_eq!(reader.id(), stat.id.id);
                reader.seek(Seek::Seq(1)).expect("moved");
                let texts: Vec<_> = rest_of(&mut *reader).iter().map(ReadLine::text).collect();
                assert_eq!(texts, [stat.id.key.as_str()]);
            } else {
                assert_eq!(found, [], "{:?} in {place:?}", stat.name);
                assert_not_found(subject.streams.open(target), "a name of another place");
            }
        }
    }
    for stat in all {
        subject.delete(&stat.id).expect("deleted");
        let target = Target::Name { space, place: stat.id.place, name: &stat.name };
        assert_not_found(subject.streams.open(target), "a stream that was deleted");
        assert_eq!(subject.list(stat.id.place, Selector::Name(&stat.name)), []);
    }
}
