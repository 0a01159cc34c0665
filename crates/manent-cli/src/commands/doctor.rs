//! `manent doctor`: whether everything is as it should be, and what to do where it is not. Nothing is written but the
//! index, which catches up as with every list.

use std::path::Path;

use manent::log::RealDisk;
use manent::log::fs::{Disk, FileSystem, Shape};
use manent::{Memory, Place, Store, Summary};
use manent_runs::Runs;
use manent_runs::retrospective::Reports;

use super::missing;
use crate::commands::prelude::*;

/// Look whether everything is as it should be: store, sessions, memory, runs, index, disk, clock
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(context: &Context<'_>, _args: &DoctorArgs) -> Result<Exit, Failure> {
    let mut doctor = Doctor { context, output: context.output(), worst: Exit::Done };
    doctor.examine()?;
    doctor.output.flush()?;
    Ok(doctor.worst)
}

struct Doctor<'a> {
    context: &'a Context<'a>,
    output: Output,
    worst: Exit,
}

/// The result of one check.
#[derive(Clone, Copy)]
enum Health {
    Ok,
    /// The part works, but not as it should.
    Warn,
    /// The part does not work, or something is lost: the exit code says which.
    Bad(Exit),
}

impl Doctor<'_> {
    fn examine(&mut self) -> Result<(), Failure> {
        let home = self.context.home()?;
        match RealDisk.inspect(&home).and_then(|_| RealDisk.resolve(&home)) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let what = format!("{} does not exist yet", home.display());
                let advice = "the first `manent append KEY TEXT` makes it";
                return Ok(self.tell(Health::Warn, "store", &what, advice)?);
            }
            Err(e) => {
                let what = format!("{} cannot be opened: {e}", home.display());
                return Ok(self.tell(Health::Bad(Exit::Failed), "store", &what, "choose another --home")?);
            }
        }
        self.directories(&home)?;
        self.file_system(&home)?;
        self.disk(&home)?;
        let store = match self.context.store(Duration::ZERO) {
            Ok(store) => store,
            Err(failure) => return Ok(self.broken("store", failure.message)?),
        };
        self.index(&store)?;
        let newest = self.sessions(&store)?;
        self.memory(&store)?;
        self.runs(&store)?;
        self.report(&store)?;
        self.clock(newest.as_ref())?;
        Ok(())
    }

    fn tell(&mut self, health: Health, what: &str, found: &str, advice: &str) -> io::Result<()> {
        let (word, color) = match health {
            Health::Ok => ("ok", AnsiColor::Green),
            Health::Warn => ("warn", AnsiColor::Yellow),
            Health::Bad(_) => ("bad", AnsiColor::Red),
        };
        if let Health::Bad(exit) = health {
            self.worst = self.worst.max(exit);
        }
        if self.output.wants_json {
            return self.output.json(&json!({"health": word, "what": what, "found": found, "do": advice}));
        }
        let text = format!("  {}  {}", term::pad(&term::line(what), WHAT_COLUMNS), term::line(found));
        let advice = if advice.is_empty() { String::new() } else { format!("; {}", term::line(advice)) };
        let word = term::pad(word, 4);
        self.output.line(&[(term::bold(color), &word), (Style::new(), &text), (term::FAINT, &advice)])
    }

    /// Prints a check that failed with an error.
    fn broken(&mut self, what: &str, error: impl std::fmt::Display) -> io::Result<()> {
        self.tell(Health::Bad(Exit::Failed), what, &error.to_string(), "")
    }

    /// Checks the memory, the inbox and the journal of consolidation.
    fn memory(&mut self, store: &Store) -> io::Result<()> {
        self.items("memory", store.memory())?;
        self.items("inbox", store.inbox())?;
        match store.consolidation().and_then(|journal| journal.verify()) {
            Ok(Some(report)) if !report.is_sound() => {
                self.tell(Health::Bad(Exit::Damage), "journal", "of consolidation, damaged", DAMAGED_MEMORY)
            }
            Err(e) if !e.is_unsupported() => self.broken("journal", e),
            _ => Ok(()),
        }
    }

    fn items(&mut self, what: &str, memory: manent::Result<Memory>) -> io::Result<()> {
        let checked = match memory {
            Err(e) if e.is_unsupported() => return Ok(()),
            Err(e) => Err(e),
            Ok(memory) => memory.verify().and_then(|report| Ok((report, memory.counts()?, memory.damage()?))),
        };
        match checked {
            Ok((None, ..)) => Ok(()),
            Ok((Some(report), counts, damage)) if report.is_sound() => {
                let acknowledged =
                    if damage.is_empty() { "" } else { "; damaged, which is known and acknowledged" };
                let found = format!("{} active, {} forgotten{acknowledged}", counts.active, counts.forgotten);
                let many = counts.forgotten > counts.active;
                let advice =
                    if many { "`manent memory compact` takes what is forgotten out of the file" } else { "" };
                self.tell(Health::Ok, what, &found, advice)
            }
            Ok((Some(_), counts, damage)) => {
                let (places, advice) = match damage.len() {
                    0 => ("its end is torn".to_owned(), TORN_MEMORY),
                    1 => ("damaged in 1 place".to_owned(), DAMAGED_MEMORY),
                    n => (format!("damaged in {} places", term::count(n as u64)), DAMAGED_MEMORY),
                };
                let found = format!("{} active; {places}", counts.active);
                self.tell(Health::Bad(Exit::Damage), what, &found, advice)
            }
            Err(e) => self.broken(what, e),
        }
    }

    /// Checks the runs of skills, and names each log that is damaged.
    fn runs(&mut self, store: &Store) -> io::Result<()> {
        let (sessions, runs) = match Runs::open(store).and_then(|runs| Ok((runs.sessions()?, runs))) {
            Err(e) if e.is_unsupported() => return Ok(()),
            Err(e) => return self.broken("runs", e),
            Ok((sessions, _)) if sessions.is_empty() => return Ok(()),
            Ok(listed) => listed,
        };
        let bytes = term::size(sessions.iter().map(|listed| listed.bytes).sum());
        let found = format!("of {}, {bytes}", term::counted(sessions.len() as u64, "session"));
        self.tell(Health::Ok, "runs", &found, "")?;
        for listed in sessions {
            let key = listed.id.key;
            match runs.verify(&key) {
                Ok(Some(report)) if !report.is_sound() => {
                    let found = format!("those of {key} are damaged or torn");
                    self.tell(Health::Bad(Exit::Damage), "runs", &found, DAMAGED_MEMORY)?;
                }
                Err(e) => self.broken("runs", format!("of {key}: {e}"))?,
                Ok(_) => {}
            }
        }
        Ok(())
    }

    /// Reports the age of the latest retrospective.
    fn report(&mut self, store: &Store) -> io::Result<()> {
        let Ok(reports) = Reports::open(store) else { return Ok(()) };
        let path = reports.page();
        match (reports.last(), reports.bytes()) {
            (Some(last), bytes) => {
                let made = when::ago(last.at_ms, when::now_ms());
                let found = format!("{}, made {made}, {}", path.display(), term::size(bytes));
                self.tell(Health::Ok, "retro", &found, "")
            }
            (None, 0) => Ok(()),
            (None, _) => {
                let found = format!("{} does not say when it was made", path.display());
                self.tell(Health::Warn, "retro", &found, "it is made anew when it is next time, or remove it")
            }
        }
    }

    /// Checks that nobody else can read or change what is in the store.
    fn directories(&mut self, home: &Path) -> io::Result<()> {
        let there = |name: &str| Some(home.join(name)).filter(|dir| RealDisk.inspect(dir).is_ok());
        let mut dirs = vec![("store", home.to_owned())];
        for name in ["sessions", "archive", "trash", "runs", "retro"] {
            dirs.extend(there(name).map(|dir| ("directory", dir)));
        }
        for (what, dir) in dirs {
            self.directory(what, &dir)?;
        }
        Ok(())
    }

    fn directory(&mut self, what: &str, dir: &Path) -> io::Result<()> {
        let path = dir.display();
        let info = match RealDisk.resolve(dir).and_then(|real| RealDisk.inspect(&real)) {
            Err(e) => return self.broken(what, format!("{path}: {e}")),
            Ok(info) => info,
        };
        let bad = Health::Bad(Exit::Failed);
        if info.shape != Shape::Directory {
            return self.tell(bad, what, &format!("{path} is no directory"), "move it out of the way");
        }
        let mode = info.mode;
        if !RealDisk.is_own(info.owner) {
            let found = format!("{path} belongs to user {}, and only that user writes there", info.owner);
            return self.tell(bad, what, &found, "run as that user, or choose another --home");
        }
        if mode & 0o002 != 0 {
            let found = format!("{path}: everybody may write there (mode {mode:04o}), so we do not");
            return self.tell(bad, what, &found, &format!("chmod o-w {path}"));
        }
        if let Err(e) = RealDisk.check_writable(dir) {
            let found = format!("{path} cannot be written: {e}");
            let advice = "sessions can be read and searched, not appended to";
            return self.tell(Health::Warn, what, &found, advice);
        }
        if mode & 0o077 != 0 {
            let found = format!("{path}: others may look into it (mode {mode:04o})");
            return self.tell(Health::Warn, what, &found, &format!("chmod 700 {path}"));
        }
        self.tell(Health::Ok, what, &format!("{path}, yours alone"), "")
    }

    fn file_system(&mut self, home: &Path) -> io::Result<()> {
        let refused =
            if self.context.global.any_filesystem { Health::Warn } else { Health::Bad(Exit::Failed) };
        let (health, found, advice) = match RealDisk.file_system(home) {
            Ok(FileSystem::Local) => (Health::Ok, "local".to_owned(), ""),
            Ok(FileSystem::Network(name)) => {
                (refused, format!("{name}, over a network, where appends and locks may not be safe"), TRUST)
            }
            Ok(FileSystem::Unknown(magic)) => (refused, format!("of an unknown kind ({magic:#x})"), TRUST),
            Err(e) => (Health::Warn, e.to_string(), ""),
        };
        self.tell(health, "file system", &found, advice)
    }

    fn disk(&mut self, home: &Path) -> io::Result<()> {
        let (health, found, advice) = match RealDisk.free_bytes(home) {
            Ok(0) => (Health::Bad(Exit::Failed), "full: nothing can be appended".to_owned(), ROOM),
            Ok(free) if free < FREE_BYTES_MIN => {
                (Health::Warn, format!("only {} free", term::size(free)), ROOM)
            }
            Ok(free) => (Health::Ok, format!("{} free", term::size(free)), ""),
            Err(e) => (Health::Warn, e.to_string(), ""),
        };
        self.tell(health, "disk", &found, advice)
    }

    fn index(&mut self, store: &Store) -> Result<(), Failure> {
        let state = store.index_state()?;
        let Some(dir) = state.dir else {
            let found = "kept in memory only: every search reads everything";
            return Ok(self.tell(Health::Warn, "index", found, "")?);
        };
        let path = dir.display();
        if let Some(why) = state.broken {
            let advice = "it is made anew by itself; if this is said again, remove that directory";
            return Ok(self.tell(Health::Warn, "index", &format!("{path} cannot be used: {why}"), advice)?);
        }
        let Some(written_ms) = state.written_ms else {
            let found = format!("{path} is not there yet");
            return Ok(self.tell(Health::Ok, "index", &found, "the first search makes it")?);
        };
        if let Err(e) = RealDisk.check_writable(&dir) {
            let found = format!("{path} cannot be written: {e}");
            let advice = "searches answer, but read again what is new";
            return Ok(self.tell(Health::Warn, "index", &found, advice)?);
        }
        let behind = match state.behind {
            0 => "up to date".to_owned(),
            n => format!("{} behind, which the next search reads", term::counted(n as u64, "session")),
        };
        let written = when::ago(written_ms, when::now_ms());
        let found = format!("{path}, {}, written {written}, {behind}", term::size(state.bytes));
        Ok(self.tell(Health::Ok, "index", &found, "")?)
    }

    /// Counts the sessions, names those with something wrong, and gives the one that was written last.
    fn sessions(&mut self, store: &Store) -> Result<Option<Summary>, Failure> {
        let mut counts = Vec::new();
        let mut newest: Option<Summary> = None;
        let mut hurt = Vec::new();
        for place in Place::ALL {
            let listing =
                self.context.with_progress(|progress| store.sessions_with(place, None, usize::MAX, progress));
            let sessions = match listing {
                Ok(listing) => listing.sessions,
                Err(e) => {
                    self.broken("sessions", e)?;
                    return Ok(newest);
                }
            };
            counts.push(format!("{} {}", term::count(sessions.len() as u64), place_words(place)));
            for session in sessions {
                if newest.as_ref().is_none_or(|newest| session.updated_ms > newest.updated_ms) {
                    newest = Some(session.clone());
                }
                if session.damaged || session.unread.is_some() || session.once.is_some() {
                    hurt.push(session);
                }
            }
        }
        let hurt_count = match hurt.len() {
            0 => String::new(),
            n => format!("; {} with something wrong", term::count(n as u64)),
        };
        self.tell(Health::Ok, "sessions", &format!("{}{hurt_count}", counts.join(", ")), "")?;
        for session in &hurt {
            self.session(store, session)?;
        }
        self.missing(store)?;
        Ok(newest)
    }

    /// Names the sessions whose logs vanished.
    fn missing(&mut self, store: &Store) -> Result<(), Failure> {
        let (ours, others): (Vec<_>, Vec<_>) =
            missing::find(store, &[])?.into_iter().partition(|missing| missing.ours);
        for missing in &ours {
            let found = format!("{} is missing: {}", missing.id.key, missing::words(missing));
            self.tell(Health::Bad(Exit::Damage), "session", &found, &missing::advice(missing))?;
        }
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().take(NAMES_MAX).map(|gone| gone.id.key.as_str()).collect();
            let more = if others.len() > NAMES_MAX { ", …" } else { "" };
            let count = term::count(others.len() as u64);
            let found = format!("{count} of other programs are gone since they were last seen: ");
            self.tell(Health::Ok, "sessions", &format!("{found}{}{more}", names.join(", ")), "")?;
        }
        Ok(())
    }

    fn session(&mut self, store: &Store, session: &Summary) -> io::Result<()> {
        let at = &session.id;
        let word = shell_name(at);
        let named = format!("{}{word}", option_guard(&word));
        let bad = Health::Bad(Exit::Damage);
        let verify = format!("`manent verify {named}` tells more");
        if let Some(why) = &session.unread {
            match store.verify_moving(at, &mut |_, _| {}) {
                // Removed, or moved and sound, since it was listed. A file of another program has no id: it may have
                // been renamed away and back in between, and is sound if it can be read now.
                Ok(None) => return Ok(()),
                Ok(Some((now, report))) if (now != *at || at.id.is_empty()) && report.is_sound() => {
                    return Ok(());
                }
                _ => {}
            }
            return self.tell(bad, "session", &format!("{} cannot be read: {why}", at.key), &verify);
        }
        if let Some((_, seq)) = session.once {
            let found = format!("{} is shorter than it was: it had records up to {seq}", at.key);
            let advice = format!(
                "{verify}; bring it back from a backup, or `manent repair {named}` takes it as it is"
            );
            return self.tell(bad, "session", &found, &advice);
        }
        match store.verify_moving(at, &mut |_, _| {}) {
            // Removed since it was listed.
            Ok(None) => Ok(()),
            Ok(Some((_, report))) if report.is_sound() => {
                let found = format!("{} is damaged, which is known and acknowledged", at.key);
                self.tell(Health::Ok, "session", &found, "")
            }
            _ if at.place == Place::Live => {
                let advice = format!("{verify}, `manent repair {named}` acknowledges it");
                self.tell(bad, "session", &format!("{} is damaged", at.key), &advice)
            }
            _ => {
                let found = format!("{} ({}) is damaged", at.key, place_words(at.place));
                self.tell(bad, "session", &found, &verify)
            }
        }
    }

    fn clock(&mut self, newest: Option<&Summary>) -> io::Result<()> {
        let now = when::now_ms();
        let says = when::format_ms(now);
        if now < CLOCK_MS_MIN {
            let found = format!("it says {says}, which is long ago");
            return self.tell(Health::Warn, "clock", &found, "set it: records are marked with its time");
        }
        if let Some(newest) = newest.filter(|newest| newest.updated_ms > now.saturating_add(DAY_MS)) {
            let later = when::format_ms(newest.updated_ms);
            let found = format!("it says {says}, but {} was written {later}", newest.id.key);
            return self.tell(Health::Warn, "clock", &found, "it is behind, or was ahead then");
        }
        self.tell(Health::Ok, "clock", &says, "")
    }
}

const TRUST: &str = "put the store on a local disk, or write all the same with --any-filesystem";
const ROOM: &str = "make room: `manent stats` tells what is large";
const TORN_MEMORY: &str = "`manent verify` tells more, `manent repair` sets it aside; so does the next item";
const DAMAGED_MEMORY: &str = "`manent verify` tells more, `manent repair` acknowledges it";
const WHAT_COLUMNS: usize = 11;
const NAMES_MAX: usize = 5;
const FREE_BYTES_MIN: u64 = 100 << 20;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// 2024-01-01: before this was written.
const CLOCK_MS_MIN: i64 = 1_704_067_200_000;
