//! The surroundings of a command: the store, the configuration, standard output and standard error. Environment
//! variables and the home directory of the user are read here and nowhere below: the library never sees them.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anstream::AutoStream;
use anstyle::AnsiColor;
use etcetera::BaseStrategy;
use manent::log::RealDisk;
use manent::log::frame::DamageReason;
use manent::log::fs::{Disk, read_whole};
use manent::{Damage, FileSystemTrust, SessionKey, Store, StoreOptions};
use manent_agent::config::Config;
use serde_json::Value;

use crate::args::GlobalArgs;
use crate::exit::{Exit, Failure};
use crate::output::{self, Output};
use crate::term;

/// The options that every command has, and what follows from them.
pub(crate) struct Context<'a> {
    pub(crate) global: &'a GlobalArgs,
}

impl Context<'_> {
    /// Opens the store. Writers wait for `wait` while another process writes.
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

    pub(crate) fn output(&self) -> Output {
        Output::new(self.global)
    }

    /// Prints the result of a command: `json` if `--json` was given, else what `text` writes.
    pub(crate) fn print(
        &self,
        json: &Value,
        text: impl FnOnce(&mut Output) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut output = self.output();
        if output.wants_json { output.json(json) } else { text(&mut output) }?;
        output.flush()
    }

    /// Returns true if text on standard output may have styles.
    pub(crate) fn colored(&self) -> bool {
        output::is_colored(self.global.color)
    }

    /// Prints a warning: something the user should know although the command goes on.
    pub(crate) fn warn(&self, message: &str) {
        self.say("warning", AnsiColor::Yellow, message);
    }

    /// Prints a note, unless `--quiet` was given.
    pub(crate) fn note(&self, message: &str) {
        if !self.global.quiet {
            self.say("note", AnsiColor::Cyan, message);
        }
    }

    /// Prints a note if `--verbose` was given.
    pub(crate) fn detail(&self, message: &str) {
        if self.global.verbose {
            self.note(message);
        }
    }

    /// Warns of a place in a session that cannot be read.
    pub(crate) fn warn_of_damage(&self, key: &SessionKey, damage: &Damage) {
        let what = match damage.length {
            _ if damage.reason.is_about_parent() => parent_words(damage),
            0 => format!("something is missing at offset {}", damage.offset),
            n => format!("{n} bytes at offset {} cannot be read", damage.offset),
        };
        self.warn(&format!("{key}: {what} ({}); `manent verify` tells more", damage.reason));
    }

    /// Prints the message of a failure.
    pub(crate) fn complain(&self, failure: &Failure) {
        if !failure.message.is_empty() {
            self.say("error", AnsiColor::Red, &failure.message);
        }
    }

    /// Prints the failure of one of several steps, if it failed, and returns its exit code. The command goes on.
    pub(crate) fn complain_of(&self, step: Result<(), Failure>) -> Exit {
        let Err(failure) = step else { return Exit::Done };
        self.complain(&failure);
        failure.exit
    }

    /// Returns a progress bar for work on `bytes`. It is hidden if the work is short, or nobody looks on.
    pub(crate) fn progress(&self, bytes: u64) -> indicatif::ProgressBar {
        let wanted = !self.global.quiet && !self.global.json && io::stderr().is_terminal();
        if !wanted || bytes < PROGRESS_FROM_BYTES {
            return indicatif::ProgressBar::hidden();
        }
        indicatif::ProgressBar::new(bytes)
    }

    /// Does work that reports its progress, in bytes done of all bytes. A bar is shown if there is much to do.
    pub(crate) fn with_progress<T>(&self, work: impl FnOnce(&mut (dyn FnMut(u64, u64) + Send)) -> T) -> T {
        let mut bar: Option<indicatif::ProgressBar> = None;
        let done = work(&mut |done, all| {
            let bar = bar.get_or_insert_with(|| self.progress(all));
            bar.set_length(all);
            bar.set_position(done);
        });
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        done
    }

    /// Returns a spinner for work on `bytes` that cannot tell how far it is.
    pub(crate) fn spinner(&self, bytes: u64) -> indicatif::ProgressBar {
        let bar = self.progress(bytes);
        if bar.is_hidden() {
            // A bar that ticks needs a thread.
            return bar;
        }
        bar.set_style(indicatif::ProgressStyle::default_spinner());
        bar.enable_steady_tick(Duration::from_millis(100));
        bar
    }

    fn say(&self, label: &str, color: AnsiColor, message: &str) {
        say(self.global.color, label, color, &term::line(message));
    }

    /// Returns the path of the configuration file.
    pub(crate) fn config_path(&self) -> Result<PathBuf, Failure> {
        Ok(self.home()?.join("config.toml"))
    }

    /// Returns the configuration: the settings of the file, and over them those of the environment.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let text = self.config_text()?;
        Ok(Config::read(&self.config_path()?, text.as_deref(), &|name| std::env::var(name).ok())?)
    }

    /// Returns the text of the configuration file, or `None` if there is no file.
    pub(crate) fn config_text(&self) -> Result<Option<String>, Failure> {
        let path = self.config_path()?;
        // The file may be a link to settings that are kept elsewhere.
        let read = RealDisk.resolve(&path).and_then(|path| read_whole(&RealDisk, &path, CONFIG_BYTES_MAX));
        match read {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => {
                let hint = "everything has a default: mend it, or move it away";
                Err(Failure::failed(format!("cannot read {}: {e}; {hint}", path.display())))
            }
        }
    }

    /// Returns the directory of the store.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        if let Some(home) = &self.global.home {
            return Ok(home.clone());
        }
        let base = etcetera::base_strategy::choose_base_strategy();
        base.map(|dirs| dirs.data_dir().join("manent")).map_err(|_| {
            Failure::failed("no home directory is known; say where the store is with --home DIR")
        })
    }
}

/// Returns the home directory of the user, or `None` if it is unknown.
pub(crate) fn user_home() -> Option<PathBuf> {
    etcetera::home_dir().ok().filter(|home| home.is_absolute())
}

/// Returns the directory for the index of a store that has no place for one, such as a store of another program. It is
/// in the cache of the user, under a hash of the store's path.
fn index_elsewhere(home: &Path) -> Option<PathBuf> {
    let cache = etcetera::base_strategy::choose_base_strategy().ok()?.cache_dir();
    let home = RealDisk.resolve(home).ok()?;
    let name = blake3::hash(home.as_os_str().as_encoded_bytes()).to_hex();
    Some(cache.join("manent").join("index").join(&name.as_str()[..INDEX_NAME_CHARS]))
}

/// Prints a labelled message on standard error. The text must have come through `term`.
pub(crate) fn say(when: clap::ColorChoice, label: &str, color: AnsiColor, text: &str) {
    let style = term::bold(color);
    let mut stderr = AutoStream::new(io::stderr().lock(), output::color_choice(when));
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(stderr, "{style}{label}{style:#}: {text}");
}

/// Describes damage to the parent that a session was forked from.
pub(crate) fn parent_words(damage: &Damage) -> String {
    match damage.reason {
        DamageReason::NoParent => {
            format!("what it was forked from is gone, with the records up to {}", damage.seq)
        }
        _ => format!("record {} of what it was forked from is not there as it was", damage.seq),
    }
}

/// Describes records that a session once had and lacks now.
pub(crate) fn shorter_words(damage: &Damage) -> String {
    match damage.length {
        0 => format!("not as last seen: record {} is missing", damage.seq),
        n => format!("shorter than last seen: record {} and {n} bytes are missing", damage.seq),
    }
}

/// Parses the key of a session.
pub(crate) fn session_key(text: &str) -> Result<SessionKey, Failure> {
    Ok(SessionKey::new(text)?)
}

/// A longer file is not a configuration.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// The work for which a bar is drawn; less is done before one could be.
const PROGRESS_FROM_BYTES: u64 = 64 << 20;
/// The characters of a hash that tell all stores apart.
const INDEX_NAME_CHARS: usize = 32;
