//! What a store shows, in a form that can be compared: which sessions are where, and every record of each, read as a
//! caller reads them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent::log::frame;
use manent::{
    Error, Files, LogItem, Place, Record, SessionKey, Start, Store, StoreOptions, StreamId, StreamStat,
};
use manent_sim::SimDisk;

/// A session as a caller sees it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) listed: StreamStat,
    /// Number and text of each record; of long ones only what tells them apart.
    pub(crate) records: Vec<(u64, String)>,
    /// Places that could not be read.
    pub(crate) damage: usize,
}

/// The fields that count when two states are compared. The id does not: another program's session has none while live.
type Essence<'a> = (Place, &'a str, &'a [(u64, String)], usize);

impl Seen {
    pub(crate) fn essence(&self) -> Essence<'_> {
        let at = &self.listed.id;
        (at.place, at.key.as_str(), &self.records, self.damage)
    }

    pub(crate) fn place(&self) -> Place {
        self.listed.id.place
    }

    pub(crate) fn key(&self) -> &SessionKey {
        &self.listed.id.key
    }

    pub(crate) fn says(&self, text: &str) -> bool {
        self.records.iter().any(|(_, record)| record.contains(text))
    }
}

/// All sessions of a store, in an order that depends on nothing but them.
#[derive(Debug, Clone)]
pub(crate) struct State(pub(crate) Vec<Seen>);

impl PartialEq for State {
    fn eq(&self, other: &State) -> bool {
        self.0.iter().map(Seen::essence).eq(other.0.iter().map(Seen::essence))
    }
}

impl State {
    pub(crate) fn of(store: &Store) -> Result<State, String> {
        let mut all = Vec::new();
        for place in Place::ALL {
            for listed in store.list(place).map_err(|e| format!("cannot list: {e}"))? {
                let (records, damage) = read(store, &listed.id)
                    .map_err(|e| format!("cannot read what is listed, {:?}: {e}", listed.id))?;
                all.push(Seen { listed, records, damage });
            }
        }
        all.sort_by(|a, b| a.essence().cmp(&b.essence()));
        Ok(State(all))
    }

    /// Reads the state as [`State::of`] does, and checks every byte of every session, except for a torn end.
    pub(crate) fn verified(store: &Store) -> Result<State, String> {
        let state = State::of(store)?;
        for seen in &state.0 {
            let at = &seen.listed.id;
            let report =
                store.verify(at, &mut |_, _| {}).map_err(|e| format!("cannot verify {at:?}: {e}"))?;
            if seen.damage > 0 || report.damage.iter().any(|found| !found.acknowledged) {
                return Err(format!("{at:?} is damaged: {:?}", report.damage));
            }
        }
        Ok(state)
    }

    /// One line a session.
    pub(crate) fn text(&self) -> String {
        let line = |seen: &Seen| {
            let at = &seen.listed.id;
            let records: Vec<String> = seen.records.iter().map(|(n, text)| format!("{n}:{text}")).collect();
            format!("  {} {} {} damage {} {records:?}\n", at.place.word(), at.key, at.id, seen.damage)
        };
        self.0.iter().map(line).collect()
    }

    /// Returns true if every session of `other` is here too.
    pub(crate) fn holds(&self, other: &State) -> bool {
        let mut here = self.0.iter().map(Seen::essence);
        other.0.iter().all(|wanted| here.any(|seen| seen == wanted.essence()))
    }
}

/// The records of a session, and how many places could not be read.
pub(crate) fn read(store: &Store, at: &StreamId) -> Result<(Vec<(u64, String)>, usize), Error> {
    let (mut records, mut damage) = (Vec::new(), 0);
    let mut reader = store.read(at, Start::First)?;
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Damage(_) => damage += 1,
            LogItem::Entry(entry) if entry.seq == 0 && entry.verified => {}
            LogItem::Entry(entry) => {
                let record = Record::of(&entry).expect("a line that can be read");
                let text = match record.content() {
                    text if text.is_empty() => {
                        String::from_utf8_lossy(frame::body_of(entry.bytes)).into_owned()
                    }
                    text if text.len() < 200 => text.into_owned(),
                    text => format!("{} bytes, {:x}", text.len(), fingerprint(text.as_bytes())),
                };
                records.push((entry.seq, text));
            }
        }
    }
    Ok((records, damage))
}

fn fingerprint(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// A store that waits for nobody: one thread plays all processes.
pub(crate) fn open(disk: &SimDisk, home: &str) -> Result<Store, Error> {
    let files = Files::open_on(Arc::new(disk.clone()), PathBuf::from(home))?;
    let files = files.waiting_for_movers(Duration::ZERO);
    let options = StoreOptions { wait: Duration::ZERO, ..StoreOptions::default() };
    Ok(Store::on_files(files, options))
}

/// Files that hold a session, one each, must be as many as there are sessions: a second one that no list shows would
/// come to light some day.
pub(crate) fn nothing_hidden(disk: &SimDisk, state: &State) -> Result<(), String> {
    let is_session = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        path.extension().is_none_or(|e| e != "tmp")
            && !name.contains(".torn-")
            && disk.peek(path).is_some_and(|b| !b.is_empty())
    };
    let mut files: Vec<PathBuf> = disk.paths().into_iter().filter(is_session).collect();
    // Being packed: the plain one counts, and whoever moves it looks for the other.
    let plain = files.clone();
    files.retain(|path| {
        path.extension().is_none_or(|e| e != "zst") || !plain.contains(&path.with_extension(""))
    });
    if files.len() == state.0.len() {
        return Ok(());
    }
    Err(format!("{} sessions in the files {files:#?}\n{}", state.0.len(), state.text()))
}
