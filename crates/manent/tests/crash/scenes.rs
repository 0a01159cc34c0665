//! What a store holds before something is done to it. Built once, without faults, and put on a new disk for each try.

use std::path::PathBuf;
use std::time::Duration;

use manent::{Place, SessionKey, Store, StreamId, turn};
use manent_sim::SimDisk;

use super::state;

/// Every file of a store.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) home: &'static str,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Image {
    /// A disk with these files on it, durable.
    pub(crate) fn disk(&self, seed: u64) -> SimDisk {
        let disk = SimDisk::new(seed);
        for (path, bytes) in &self.files {
            disk.poke(path, bytes.clone()).unwrap();
        }
        disk
    }

    /// The contents set aside from torn sessions, each as often as it is there.
    pub(crate) fn torn_copies(&self) -> Vec<Vec<u8>> {
        let torn = self.files.iter().filter(|(path, _)| path.to_str().unwrap().contains(".torn-"));
        torn.map(|(_, bytes)| bytes.clone()).collect()
    }
}

/// A store being filled.
pub(crate) struct Scene {
    pub(crate) disk: SimDisk,
    pub(crate) store: Store,
    home: &'static str,
}

pub(crate) fn key(text: &str) -> SessionKey {
    SessionKey::new(text).unwrap()
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::at("/store", &SimDisk::new(0))
    }

    fn at(home: &'static str, disk: &SimDisk) -> Scene {
        Scene { disk: disk.clone(), store: state::open(disk, home).unwrap(), home }
    }

    /// A directory of another program: sessions without a header, one of them archived by renaming.
    pub(crate) fn flat() -> Scene {
        let disk = SimDisk::new(0);
        let line = |who: &str, n: u32| format!("{{\"role\":\"user\",\"content\":\"{who} {n}\"}}\n");
        let lines = |who: &str| (1..=3).map(|n| line(who, n)).collect::<String>();
        disk.poke("/flat/alice.jsonl", lines("alice")).unwrap();
        // A name that we would have encoded.
        disk.poke("/flat/telegram:carol.jsonl", lines("carol")).unwrap();
        disk.poke("/flat/bob.jsonl.archived", lines("bob")).unwrap();
        disk.poke("/flat/notes.txt", "not a session\n").unwrap();
        Scene::at("/flat", &disk)
    }

    pub(crate) fn image(&self) -> Image {
        let files = self.disk.paths().into_iter().map(|path| (path.clone(), self.disk.peek(path).unwrap()));
        // What is no session at all need not be counted.
        let files = files.filter(|(path, _)| !path.ends_with("notes.txt")).collect();
        Image { home: self.home, files }
    }

    pub(crate) fn say(&self, session: &str, texts: &[&str]) -> &Scene {
        for text in texts {
            self.store.append(&key(session), turn("user", *text)).unwrap();
        }
        self
    }

    pub(crate) fn find(&self, place: Place, session: &str) -> StreamId {
        self.store.find_in(place, &key(session)).unwrap().id
    }

    pub(crate) fn archive(&self, session: &str) -> &Scene {
        self.store.archive(&self.find(Place::Live, session), &mut |_, _| {}).unwrap();
        self
    }

    /// An archived session after a crash before packing.
    pub(crate) fn archive_plain(&self, session: &str) -> &Scene {
        let at = self.find(Place::Live, session);
        self.store.streams().relocate(&at, Place::Archive, Duration::ZERO).unwrap();
        self
    }

    /// An archived session after a crash between packing and removing the plain file.
    pub(crate) fn archive_both(&self, session: &str) -> &Scene {
        self.archive_plain(session);
        let plain = self.disk.paths().into_iter().find(|p| {
            p.to_str().unwrap().contains("/archive/") && p.extension().is_some_and(|e| e == "jsonl")
        });
        let plain = plain.unwrap();
        let bytes = self.disk.peek(&plain).unwrap();
        self.store.archive(&self.find(Place::Archive, session), &mut |_, _| {}).unwrap();
        self.disk.poke(plain, bytes).unwrap();
        self
    }

    pub(crate) fn trash(&self, place: Place, session: &str) -> &Scene {
        self.store.delete(&self.find(place, session)).unwrap();
        self
    }

    pub(crate) fn fork(&self, place: Place, session: &str, upto: u64, to: &str) -> &Scene {
        self.store.fork(&self.find(place, session), Some(upto), &key(to)).unwrap();
        self
    }
}

/// A session of a few turns, and one that has nothing to do with it.
pub(crate) fn plain() -> Scene {
    let scene = Scene::new();
    scene.say("other", &["not concerned"]).say("work", &["work 1", "work 2", "work 3"]);
    scene
}

/// Torn twice: once set aside, once still at the end.
pub(crate) fn torn() -> Scene {
    let scene = plain();
    let path = "/store/sessions/work.jsonl";
    scene.disk.raw_append(path, b"{\"seq\":4,\"ts\":\"torn once").unwrap();
    // Another store: the first one has the file open, and would take this for another program's.
    let scene = Scene::at("/store", &scene.disk);
    scene.say("work", &["work 4"]);
    // An interrupted move left an older copy of the same place where this one would go.
    let id = scene.find(Place::Live, "work").id;
    let copy = scene.disk.paths().into_iter().find_map(|path| {
        Some(path.file_name()?.to_str()?.strip_prefix("work.jsonl")?.to_owned())
            .filter(|rest| !rest.is_empty())
    });
    for dir in ["archive", "trash"] {
        let old = format!("/store/{dir}/{id}{}", copy.as_ref().unwrap());
        scene.disk.poke(old, format!("torn once before, in {dir}")).unwrap();
    }
    scene.disk.raw_append(path, b"{\"seq\":5,\"ts\":\"torn twice").unwrap();
    Scene::at("/store", &scene.disk)
}

/// An older session of the same key in the archive.
pub(crate) fn older() -> Scene {
    let scene = Scene::new();
    scene.say("work", &["older 1", "older 2"]).archive("work").say("work", &["work 1", "work 2", "work 3"]);
    scene
}

/// Two older sessions of the same key in the trash, one of them thrown away from the archive.
pub(crate) fn trashed() -> Scene {
    let scene = Scene::new();
    scene.say("work", &["gone 1", "gone 2"]).trash(Place::Live, "work");
    scene.say("work", &["lost 1"]).archive("work").trash(Place::Archive, "work");
    scene.say("work", &["work 1", "work 2", "work 3"]);
    scene
}

/// Forks that are live, archived and in the trash, and a fork of a fork.
pub(crate) fn forks() -> Scene {
    let scene = Scene::new();
    scene.say("work", &["work 1", "work 2", "work 3", "secret 4"]);
    for (n, name) in ["f-live", "f-arch", "f-trash", "f-plain"].into_iter().enumerate() {
        scene.fork(Place::Live, "work", 1 + n as u64 % 3, name).say(name, &[&format!("{name} a")]);
        scene.say(name, &[&format!("{name} b")]);
    }
    scene.fork(Place::Live, "f-live", 2, "f-f").say("f-f", &["f-f a"]);
    // Of nothing but what its parent shares with its own.
    scene.fork(Place::Live, "f-live", 1, "f-same").say("f-same", &["f-same a"]);
    scene.archive("f-arch").archive_plain("f-plain").trash(Place::Live, "f-trash");
    scene
}

/// Long enough that packing makes several frames.
pub(crate) fn big() -> Scene {
    let scene = Scene::new();
    let mut rng = manent_sim::Rng::new(7);
    let mut session = scene.store.session(&key("work")).unwrap();
    for n in 0..48 {
        let noise = (0..8_000).map(|_| format!("{:08x}", rng.next_u64() as u32));
        session.append(turn("user", format!("work {n} {}", noise.collect::<String>()))).unwrap();
    }
    drop(session);
    scene
}
