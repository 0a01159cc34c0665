//! The memory file as a backend with one stream, so that the index that sessions have can be made of it too.
//!
//! Only what an index asks for is here. The memory is written through its own lease, and moved nowhere.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use manent_log::fs::{Disk, PathInfo, Settling, Shape};
use manent_log::{Body, Change, End, Item, Reader, Report};

use super::File;
use super::item::Kind;
use crate::backend::{
    Address, Backend, Exclusive, Header, Lease, Listed, NewHeader, Place, Position, Progress, Receipt,
    Records, Repaired, Room, Shelf, Sight, Stamp, Start, Survey, Terms, Which,
};
use crate::error::{Among, Error, Result, io_error};
use crate::index::{Losses, Reach, Subject};
use crate::key::SessionKey;
use crate::meta::Meta;
use crate::store::{Store, StoreOptions};
use crate::turn::Record;

/// The memory as a store, to be searched and nothing else.
pub(super) fn searched(room: &Room, file: File, wait: Duration) -> Store {
    let path = room.dir.join(file.name());
    let stream = OneFile { disk: room.disk.clone(), home: room.dir.clone(), file, path };
    let options = StoreOptions { wait, trust: room.trust, ..StoreOptions::default() };
    Store::searching(
        Arc::new(stream),
        options,
        Subject { spoken, reach: Reach::Alone, losses: Losses::Ignored },
    )
}

/// What of a line is found: an item, under its kind.
fn spoken<'a>(record: &Record<'a>) -> Option<Cow<'a, str>> {
    let kind = Kind::of_word(&record.kind()?)?;
    record.member("id")?.parse::<u64>().ok()?;
    Some(Cow::Borrowed(kind.word()))
}

#[derive(Debug)]
struct OneFile {
    disk: Arc<dyn Disk>,
    home: PathBuf,
    file: File,
    path: PathBuf,
}

impl OneFile {
    fn info(&self) -> Result<Option<PathInfo>> {
        match self.disk.inspect(&self.path) {
            Ok(info) => Ok(Some(info).filter(|info| info.shape == Shape::File && info.len > 0)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_error("inspect", &self.path)(e)),
        }
    }

    fn see(&self) -> Result<Option<Sight>> {
        let sight = |info: PathInfo| Sight {
            place: Place::Live,
            name: self.file.name().to_owned(),
            stamp: Stamp {
                file: (info.id.device, info.id.inode),
                bytes: info.len,
                changed_ns: info.changed_ns,
            },
        };
        Ok(self.info()?.map(sight))
    }

    fn listed(&self) -> Result<Option<Listed>> {
        let Some(info) = self.info()? else { return Ok(None) };
        let address = Address { place: Place::Live, key: key()?, id: String::new() };
        let (bytes, modified_ms) = (info.len, info.modified_ms);
        Ok(Some(Listed { address, bytes, modified_ms, from: Place::Live, says: None }))
    }

    fn refuse<T>(&self) -> Result<T> {
        let why = io::Error::other("it is written through its own lease, and never moved");
        Err(Error::Io { action: "use as a session", path: self.path.clone(), source: why })
    }
}

fn key() -> Result<SessionKey> {
    Ok(SessionKey::new("memory")?)
}

#[derive(Debug)]
struct Lines(Reader);

impl Records for Lines {
    fn advance(&mut self) -> Result<bool> {
        Ok(self.0.advance()?)
    }

    fn item(&self) -> Option<Item<'_>> {
        self.0.item()
    }

    fn end(&self) -> End {
        self.0.end()
    }

    fn change(&self) -> Result<Change> {
        Ok(self.0.change()?)
    }

    fn meta(&self) -> Option<&Meta> {
        None
    }
}

#[derive(Debug)]
struct Nothing;

impl Exclusive for Nothing {}

impl Backend for OneFile {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn read(&self, _at: &Address, start: Start, until: Option<u64>) -> Result<Box<dyn Records>> {
        let mut reader = match start {
            Start::At { position, seq } => Reader::open_at(&self.disk, &self.path, position.raw(), seq)?,
            Start::Header => Reader::open_small(&self.disk, &self.path)?,
            _ => Reader::open(&self.disk, &self.path)?,
        };
        if let Some(seq) = until {
            reader.end_at(seq);
        }
        Ok(Box::new(Lines(reader)))
    }

    fn list(&self, place: Place, _which: Which<'_>) -> Result<Vec<Listed>> {
        let listed = if place == Place::Live { self.listed()? } else { None };
        Ok(listed.into_iter().collect())
    }

    fn survey(&self, seen: &[(Place, &str)], _note: &[u64]) -> Result<Survey> {
        let now = self.see()?;
        let is_it = |(place, name): &(Place, &str)| *place == Place::Live && *name == self.file.name();
        let stamps =
            seen.iter().map(|one| now.as_ref().filter(|_| is_it(one)).map(|sight| sight.stamp)).collect();
        let others = if seen.iter().any(is_it) { None } else { now };
        Ok(Survey { stamps, others: others.into_iter().collect(), note: Vec::new() })
    }

    fn settling(&self) -> Settling {
        Settling::begin(&*self.disk, &self.home)
    }

    fn identify(&self, _sight: &Sight) -> Result<Option<Listed>> {
        self.listed()
    }

    fn sight(&self, _key: &SessionKey) -> Result<Option<Sight>> {
        self.see()
    }

    fn line(&self, _place: Place, _name: &str, position: Position) -> Result<Option<Vec<u8>>> {
        match manent_log::line_at(&self.disk, &self.path, position.raw()) {
            Err(manent_log::Error::NotFound { .. }) => Ok(None),
            line => Ok(line?),
        }
    }

    fn shelf(&self) -> Option<Shelf> {
        let dir = self.home.join("index").join(self.file.shelf());
        Some(Shelf { disk: self.disk.clone(), dir, within: Some(self.home.clone()) })
    }

    fn exclusive(&self, _wait: Duration) -> Result<Box<dyn Exclusive>> {
        Ok(Box::new(Nothing))
    }

    fn lease(&self, _: &SessionKey, _: Option<NewHeader<'_>>, _: Duration) -> Result<Box<dyn Lease>> {
        self.refuse()
    }

    fn append(&self, _: &SessionKey, _: NewHeader<'_>, _: &[Body], _: &Terms) -> Result<Vec<Receipt>> {
        self.refuse()
    }

    fn create(&self, _: &SessionKey, _: &Header, _: &mut dyn Iterator<Item = Result<Body>>) -> Result<()> {
        self.refuse()
    }

    fn relocate(&self, _: &Address, _: Place, _: Duration) -> Result<Address> {
        self.refuse()
    }

    fn condense(&self, _: &Address, _: Progress<'_>) -> Result<()> {
        self.refuse()
    }

    fn absorb(&self, _: &Address, _: &Body, _: &Address, _: u64, _: Duration) -> Result<()> {
        self.refuse()
    }

    fn delete(&self, _: &Address, _: Duration) -> Result<()> {
        self.refuse()
    }

    fn settle(&self, _: &Address) -> Result<()> {
        self.refuse()
    }

    fn verify(&self, at: &Address, _: Progress<'_>) -> Result<Report> {
        match manent_log::verify(&self.disk, &self.path) {
            Err(manent_log::Error::NotFound { .. }) => {
                Err(Error::NotFound { name: at.name(), among: Among::All, store: self.name() })
            }
            report => Ok(report?),
        }
    }

    fn repair(&self, _: &SessionKey, _: &str, _: Duration) -> Result<Repaired> {
        self.refuse()
    }
}
