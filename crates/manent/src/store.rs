//! A directory of sessions: where each lies, who may write it, what is in it.
//!
//! The library has no terminal, no environment and no home directory: whoever embeds it says where the store is.
//! Everything here goes through the engine; this file knows keys, headers and directories, not bytes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use manent_log::fs::{Disk, Shape};
use manent_log::{Body, Item, Log, Options, Reader, RealDisk, Trust};

use crate::clock;
use crate::key::{KeyError, SessionKey};
use crate::turn::{Record, RecordError};

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// An operation on a store that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log refused.
    #[error(transparent)]
    Log(#[from] manent_log::Error),
    /// The key is at fault.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The record is at fault.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No session of this name.
    #[error("there is no session {key:?} in {}; `manent sessions` lists what is there", home.display())]
    NotFound {
        /// The key.
        key: String,
        /// The store.
        home: PathBuf,
    },
    /// The file that the key leads to says in its header that it is another session.
    #[error(
        "{} says it holds the session {found:?}, not {key:?}; it was copied or renamed by hand: give it its name back",
        path.display()
    )]
    WrongKey {
        /// The file.
        path: PathBuf,
        /// The key that led to it.
        key: String,
        /// The key in its header.
        found: String,
    },
    /// The directory is open to others.
    #[error("refusing to write to {}: {why}; {hint}", path.display())]
    Exposed {
        /// The directory.
        path: PathBuf,
        /// Who else may write there.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// There is not enough memory to hold a session.
    #[error("no memory to hold the session: {0}; read it as a stream, or only its tail")]
    Memory(io::Error),
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

/// A store of sessions.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use manent::{Durability, Expect, SessionKey, Store, now, turn_body};
///
/// let store = Store::open(dir.path())?;
/// let key = SessionKey::new("telegram:alice")?;
/// let mut session = store.write(&key)?;
/// session.append(&turn_body(&now(), "user", "hello"), Durability::Sync, Expect::Any)?;
/// drop(session);
///
/// let transcript = store.load(&key)?;
/// assert_eq!(transcript.turns().next().map(|t| t.content), Some("hello"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Store {
    disk: Arc<dyn Disk>,
    home: PathBuf,
    sessions: PathBuf,
    options: WriteOptions,
    /// The directories were checked, and their names made durable. Once for each store that is opened.
    prepared: Arc<AtomicBool>,
}

/// How sessions are opened for writing.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// How long to wait for another writer.
    pub wait: Duration,
    /// Which file systems to trust.
    pub trust: Trust,
    /// Who writes, for the header: a name and a version.
    pub app: String,
    /// The working directory to note in the header of a new session.
    pub cwd: Option<String>,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        let app = concat!("manent/", env!("CARGO_PKG_VERSION")).to_owned();
        WriteOptions { wait: Duration::ZERO, trust: Trust::LocalOnly, app, cwd: None }
    }
}

/// A session open for writing.
#[derive(Debug)]
pub struct Session {
    log: Log,
    id: String,
}

/// A session file in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key, by its header, or by its name where it has no header.
    pub key: SessionKey,
    /// Where it lies.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// When its file last changed, in milliseconds since 1970.
    pub modified_ms: i64,
}

/// What the header of a session says.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct Meta {
    /// The session's id; empty in other programs' files.
    pub id: String,
    /// Its key.
    pub key: String,
}

impl Store {
    /// Opens the store in a directory of this machine. Nothing is created before something is written.
    pub fn open(home: impl Into<PathBuf>) -> Result<Store> {
        Store::open_on(RealDisk::shared(), home.into(), WriteOptions::default())
    }

    /// Opens a store on any disk.
    ///
    /// A directory that holds session files itself and has no `sessions` in it is a flat store of another program, and
    /// is used as it is.
    pub fn open_on(disk: Arc<dyn Disk>, home: PathBuf, options: WriteOptions) -> Result<Store> {
        let sessions = home.join("sessions");
        let flat = match disk.inspect(&sessions) {
            Ok(_) => false,
            Err(_) => match disk.list(&home) {
                Ok(entries) => {
                    entries.iter().any(|e| e.name.to_str().and_then(SessionKey::of_file_name).is_some())
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => false,
                Err(e) => return Err(io_error("open the store", &home)(e)),
            },
        };
        let sessions = if flat { home.clone() } else { sessions };
        Ok(Store { disk, home, sessions, options, prepared: Arc::default() })
    }

    /// The directory of the store.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The disk it lies on.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Opens a session for writing: the one of this key, or a new one.
    pub fn write(&self, key: &SessionKey) -> Result<Session> {
        self.prepare()?;
        let path = self.path_of(key);
        let id = uuid::Uuid::now_v7().to_string();
        let options = Options {
            header: Some(self.header(key, &id)),
            wait: self.options.wait,
            trust: self.options.trust,
        };
        let log = Log::open(&self.disk, &path, &options)?;
        let found = self.check_key(key, &path)?;
        Ok(Session { log, id: found.map_or(id, |meta| meta.id) })
    }

    /// Opens a session for writing that must exist.
    pub fn write_existing(&self, key: &SessionKey) -> Result<Session> {
        self.existing(key)?;
        self.write(key)
    }

    /// Opens a session for reading, from its beginning.
    pub fn read(&self, key: &SessionKey) -> Result<Reader> {
        let path = self.existing(key)?;
        self.check_key(key, &path)?;
        Ok(Reader::open(&self.disk, &path)?)
    }

    /// Opens a session for reading, before its last `count` turns.
    pub fn read_tail(&self, key: &SessionKey, count: u64) -> Result<Reader> {
        let path = self.existing(key)?;
        self.check_key(key, &path)?;
        Ok(Reader::open_tail(&self.disk, &path, count, is_turn)?)
    }

    /// Opens a session for reading, from a number on.
    pub fn read_from(&self, key: &SessionKey, seq: u64) -> Result<Reader> {
        let path = self.existing(key)?;
        self.check_key(key, &path)?;
        Ok(Reader::open_from(&self.disk, &path, seq)?)
    }

    /// Reads a whole session into memory. One that was never written is empty.
    pub fn load(&self, key: &SessionKey) -> Result<crate::Transcript> {
        let mut reader = match self.read(key) {
            Err(Error::NotFound { .. }) => return Ok(crate::Transcript::default()),
            other => other?,
        };
        let bytes = self.disk.inspect(&self.path_of(key)).map_or(0, |info| info.len);
        crate::Transcript::load(&mut reader, bytes)
    }

    /// The session files, in no order. Anything else in the directory is passed over.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let entries = match self.disk.list(&self.sessions) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io_error("list", &self.sessions)(e)),
        };
        let mut listed = Vec::with_capacity(entries.len());
        for entry in entries {
            let (Some(name), Shape::File) = (entry.name.to_str(), entry.shape) else { continue };
            let Some(by_name) = SessionKey::of_file_name(name) else { continue };
            let path = self.sessions.join(name);
            // Gone since it was listed: another process archived or removed it.
            let Ok(info) = self.disk.inspect(&path) else { continue };
            let by_header =
                self.meta_at(&path).ok().flatten().and_then(|meta| SessionKey::new(meta.key).ok());
            let key = by_header.unwrap_or(by_name);
            listed.push(Listed { key, path, bytes: info.len, modified_ms: info.modified_ms });
        }
        Ok(listed)
    }

    /// The file of a session, whether it exists or not.
    pub fn path_of(&self, key: &SessionKey) -> PathBuf {
        let canonical = self.sessions.join(key.file_name());
        if self.disk.inspect(&canonical).is_ok() {
            return canonical;
        }
        // Another program may have used the key as the file's name, as it is.
        let plain = key.plain_file_name().filter(|name| SessionKey::of_file_name(name).as_ref() == Some(key));
        let plain = plain.map(|name| self.sessions.join(name));
        plain.filter(|path| self.disk.inspect(path).is_ok()).unwrap_or(canonical)
    }

    /// Refuses a file that does not lie where its key leads: a copy, or one renamed by hand.
    pub fn check_place(&self, listed: &Listed) -> Result<()> {
        if self.path_of(&listed.key) == listed.path {
            return Ok(());
        }
        let name = listed.path.file_name().and_then(|name| name.to_str());
        let by_name = name.and_then(SessionKey::of_file_name).map(|key| key.to_string());
        let (path, found) = (listed.path.clone(), listed.key.to_string());
        Err(Error::WrongKey { path, key: by_name.unwrap_or_default(), found })
    }

    /// What the header of a session says; nothing if the file has no header of ours.
    pub fn meta(&self, key: &SessionKey) -> Result<Option<Meta>> {
        self.meta_at(&self.existing(key)?)
    }

    /// The file of a session that exists.
    pub fn existing(&self, key: &SessionKey) -> Result<PathBuf> {
        let path = self.path_of(key);
        match self.disk.inspect(&path) {
            Ok(_) => Ok(path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(Error::NotFound { key: key.to_string(), home: self.home.clone() })
            }
            Err(e) => Err(io_error("inspect", &path)(e)),
        }
    }

    /// Refuses a file whose header names another session.
    fn check_key(&self, key: &SessionKey, path: &Path) -> Result<Option<Meta>> {
        let meta = self.meta_at(path)?;
        match meta {
            Some(meta) if meta.key != key.as_str() && !meta.key.is_empty() => {
                Err(Error::WrongKey { path: path.to_owned(), key: key.to_string(), found: meta.key })
            }
            other => Ok(other),
        }
    }

    fn meta_at(&self, path: &Path) -> Result<Option<Meta>> {
        let mut reader = Reader::open_small(&self.disk, path)?;
        let Some(Item::Entry(entry)) = reader.next()? else { return Ok(None) };
        if entry.seq != 0 || !entry.verified {
            return Ok(None);
        }
        let record = Record::of(&entry);
        let meta = record.as_ref().and_then(|r| r.member("meta"));
        Ok(meta.and_then(|json| serde_json::from_str(json).ok()))
    }

    fn header(&self, key: &SessionKey, id: &str) -> Body {
        let mut meta = Body::new();
        meta.number("format", manent_log::FORMAT).string("id", id).string("key", key.as_str());
        meta.string("app", &self.options.app);
        if let Some(cwd) = &self.options.cwd {
            meta.string("cwd", cwd);
        }
        let mut body = Body::new();
        body.string("ts", &clock::now()).object("meta", &meta);
        body
    }

    /// Makes the directories, refuses to write where others could, and makes the directories' names durable: whoever
    /// made them may have died before that.
    fn prepare(&self) -> Result<()> {
        if self.prepared.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.refuse_exposed(&self.home)?;
        self.disk.create_dir_all(&self.sessions).map_err(io_error("create", &self.sessions))?;
        self.refuse_exposed(&self.home)?;
        self.refuse_exposed(&self.sessions)?;
        for dir in [&self.home, &self.sessions] {
            let above = dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match self.disk.sync_dir(above) {
                // A directory that we may not read is not ours to sync; nor did we make anything in it.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced.map_err(io_error("sync the directory", above))?,
            }
        }
        self.prepared.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Refuses a directory in which others could put or change files. One that does not exist yet is fine.
    fn refuse_exposed(&self, dir: &Path) -> Result<()> {
        let real = match self.disk.resolve(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            resolved => resolved.map_err(io_error("open", dir))?,
        };
        let info = self.disk.inspect(&real).map_err(io_error("inspect", dir))?;
        let exposed = |why: String, hint| Err(Error::Exposed { path: dir.to_owned(), why, hint });
        if info.mode & 0o002 != 0 {
            return exposed("everybody may write there".into(), "take that right away with chmod o-w");
        }
        if !self.disk.is_own(info.owner) {
            let why = format!("it belongs to user {}", info.owner);
            return exposed(why, "run as that user, or choose another --home");
        }
        Ok(())
    }
}

impl Session {
    /// Appends one record. See [`Log::append`].
    pub fn append(
        &mut self,
        body: &Body,
        durability: crate::Durability,
        expect: crate::Expect,
    ) -> Result<crate::Receipt> {
        Ok(self.log.append(body, durability, expect)?)
    }

    /// Its id; empty in other programs' files.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The log under it.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Gives the log, for sharing it between threads.
    pub fn into_log(self) -> Log {
        self.log
    }
}

/// Whether a line is a turn.
fn is_turn(line: &[u8]) -> bool {
    let entry =
        manent_log::Entry { seq: 1, offset: 0, bytes: line, verified: line.starts_with(br#"{"seq":"#) };
    Record::of(&entry).is_some_and(|record| record.is_turn())
}
