//! What a command works with: the store, and where its words go. Environment and home directory end here; the
//! library never sees them.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use etcetera::BaseStrategy;
use manent::log::RealDisk;
use manent::log::frame::DamageReason;
use manent::log::fs::{Disk, read_whole};
use manent::{Damage, FileSystemTrust, SessionKey, Store, StoreOptions};
use manent_agent::config::Config;

use crate::args::{Color, Global};
use crate::exit::{Exit, Failure};
use crate::output::{self, Output};
use crate::term;

/// The resolved surroundings of one command.
pub(crate) struct Context<'a> {
    global: &'a Global,
}

impl<'a> Context<'a> {
    pub(crate) fn new(global: &'a Global) -> Context<'a> {
        Context { global }
    }

    /// Opens the store, for writers that wait this long for others.
    pub(crate) fn store(&self, wait: Duration) -> Result<Store, Failure> {
        let trust = if self.global.any_filesystem {
            FileSystemTrust::AnyFileSystem
        } else {
            FileSystemTrust::LocalOnly
        };
        let cwd = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
        let home = self.home()?;
        let index = index_elsewhere(&home);
        let options = StoreOptions { wait, trust, cwd, index, ..StoreOptions::default() };
        Ok(Store::open_with(home, options)?)
    }

    /// Whether to write on every file system.
    pub(crate) fn any_filesystem(&self) -> bool {
        self.global.any_filesystem
    }

    pub(crate) fn output(&self) -> Output {
        Output::new(self.global)
    }

    /// Whether JSON is asked for.
    pub(crate) fn is_json(&self) -> bool {
        self.global.json
    }

    /// What was said about colours.
    pub(crate) fn color(&self) -> Color {
        self.global.color
    }

    /// Whether what is shown on standard output may have styles.
    pub(crate) fn colored(&self) -> bool {
        let choice = match output::color_choice(self.global.color) {
            anstream::ColorChoice::Auto => AutoStream::choice(&io::stdout()),
            decided => decided,
        };
        choice != anstream::ColorChoice::Never
    }

    /// Something that the user should know although the command goes on.
    pub(crate) fn warn(&self, message: &str) {
        self.say("warning", AnsiColor::Yellow, message);
    }

    /// Something that is good to know.
    pub(crate) fn note(&self, message: &str) {
        if !self.global.quiet {
            self.say("note", AnsiColor::Cyan, message);
        }
    }

    /// Something that only who asked for more wants to know.
    pub(crate) fn detail(&self, message: &str) {
        if self.global.verbose {
            self.note(message);
        }
    }

    /// Warns of a place that a reader could not read.
    pub(crate) fn warn_of_damage(&self, key: &SessionKey, damage: &Damage) {
        let what = match damage.length {
            _ if damage.reason.is_about_parent() => parent_words(damage),
            0 => format!("something is missing at offset {}", damage.offset),
            n => format!("{n} bytes at offset {} cannot be read", damage.offset),
        };
        self.warn(&format!("{key}: {what} ({}); `manent verify` tells more", damage.reason));
    }

    pub(crate) fn complain(&self, failure: &Failure) {
        if !failure.message.is_empty() {
            self.say("error", AnsiColor::Red, &failure.message);
        }
    }

    /// A progress bar for long work, if somebody is there to see it.
    pub(crate) fn progress(&self, bytes: u64) -> indicatif::ProgressBar {
        let wanted = !self.global.quiet && !self.global.json && io::stderr().is_terminal();
        if !wanted || bytes < PROGRESS_FROM_BYTES {
            return indicatif::ProgressBar::hidden();
        }
        indicatif::ProgressBar::new(bytes)
    }

    /// As [`Context::progress`], for work of which nobody knows yet how much there is.
    pub(crate) fn catching_up(&self) -> CatchingUp<'_> {
        CatchingUp { context: self, bar: None }
    }

    /// A sign of life for long work that cannot tell how far it is.
    pub(crate) fn spinner(&self, bytes: u64) -> indicatif::ProgressBar {
        let bar = self.progress(bytes);
        if bar.is_hidden() {
            // Ticking takes a thread.
            return bar;
        }
        bar.set_style(indicatif::ProgressStyle::default_spinner());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn say(&self, label: &str, color: AnsiColor, message: &str) {
        say(self.global.color, label, color, &term::line(message));
    }

    /// Where things are set.
    pub(crate) fn config_path(&self) -> Result<PathBuf, Failure> {
        Ok(self.home()?.join("config.toml"))
    }

    /// What is set: by the file, and over it by the environment.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let text = self.config_text()?;
        Ok(Config::read(&self.config_path()?, text.as_deref(), &|name| std::env::var(name).ok())?)
    }

    /// The file itself, if there is one.
    pub(crate) fn config_text(&self) -> Result<Option<String>, Failure> {
        let path = self.config_path()?;
        // Those who keep their settings elsewhere put a link here.
        let read = RealDisk.resolve(&path).and_then(|path| read_whole(&RealDisk, &path, CONFIG_BYTES_MAX));
        match read {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => {
                let hint = "everything has a default: mend it, or move it away";
                let why = format!("cannot read {}: {e}; {hint}", path.display());
                Err(Failure::new(Exit::Failed, why))
            }
        }
    }

    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        if let Some(home) = &self.global.home {
            return Ok(home.clone());
        }
        let base = etcetera::base_strategy::choose_base_strategy();
        base.map(|dirs| dirs.data_dir().join("manent")).map_err(|_| {
            Failure::new(Exit::Failed, "no home directory is known; say where the store is with --home DIR")
        })
    }
}

/// A bar that appears when there is much to do, and goes when this is dropped.
pub(crate) struct CatchingUp<'a> {
    context: &'a Context<'a>,
    bar: Option<indicatif::ProgressBar>,
}

impl CatchingUp<'_> {
    pub(crate) fn tell(&mut self, done: u64, all: u64) {
        let bar = self.bar.get_or_insert_with(|| self.context.progress(all));
        bar.set_length(all);
        bar.set_position(done);
    }
}

impl Drop for CatchingUp<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Where the user is at home; nothing if nobody knows.
pub(crate) fn user_home() -> Option<PathBuf> {
    etcetera::home_dir().ok().filter(|home| home.is_absolute())
}

/// Where the index of a store is kept that has no place for it: one that is another program's. In the cache of the
/// user, under a name made of where the store is.
fn index_elsewhere(home: &Path) -> Option<PathBuf> {
    let cache = etcetera::base_strategy::choose_base_strategy().ok()?.cache_dir();
    let home = RealDisk.resolve(home).ok()?;
    let name = blake3::hash(home.as_os_str().as_encoded_bytes()).to_hex();
    Some(cache.join("manent").join("index").join(&name.as_str()[..INDEX_NAME_CHARS]))
}

/// Says something on standard error. The text must have come through `term`.
pub(crate) fn say(when: Color, label: &str, color: AnsiColor, text: &str) {
    let style = Style::new().fg_color(Some(color.into())).bold();
    let mut stderr = AutoStream::new(io::stderr().lock(), output::color_choice(when));
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(stderr, "{style}{label}{style:#}: {text}");
}

/// Asks a question, without a line break behind it.
pub(crate) fn ask(question: &str) {
    let _ = write!(io::stderr().lock(), "{} ", term::line(question));
}

/// What is wrong with what a session was forked from.
pub(crate) fn parent_words(damage: &Damage) -> String {
    match damage.reason {
        DamageReason::NoParent => {
            format!("what it was forked from is gone, with the records up to {}", damage.seq)
        }
        _ => format!("record {} of what it was forked from is not there as it was", damage.seq),
    }
}

/// What a session lacks that it once had.
pub(crate) fn shorter_words(damage: &Damage) -> String {
    match damage.length {
        0 => format!("not as last seen: record {} is missing", damage.seq),
        n => format!("shorter than last seen: record {} and {n} bytes are missing", damage.seq),
    }
}

/// Checks a key that was typed.
pub(crate) fn key(text: &str) -> Result<SessionKey, Failure> {
    Ok(SessionKey::new(text)?)
}

/// No settings are as long.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Less than this is done before a bar could be drawn.
const PROGRESS_FROM_BYTES: u64 = 64 << 20;
/// Enough of a hash that no two stores share a name.
const INDEX_NAME_CHARS: usize = 32;
