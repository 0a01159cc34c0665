//! Data sets for training models, made of what skills did.
//!
//! A row is one attempt of which somebody checked how it came out: the prompt of the model, and its answer. All of it
//! is taken from the logs of runs and the sessions they quote; the same logs give the same files, to the byte.
//!
//! Logs are read once, on several threads. Attempts become drafts; the passages that they quote are looked up, each
//! session read forwards; a draft becomes the text of a row, without credentials, and goes to a spool on the disk.
//! About a hundred bytes of each row stay in memory. When all rows are known, duplicates are left out, rows are
//! assigned to training or validation and put into pairs, and the files are written under a temporary name. The last
//! step is a rename.
//!
//! | file | about |
//! |---|---|
//! | `mod.rs` | [`Recipe`]: the selector of runs and the format; [`make`] |
//! | `draft.rs` | from a run to drafts of rows: verdicts, prompts, reasons to leave attempts out |
//! | `quote.rs` | looking up the records that drafts quote |
//! | `row_builder.rs`, `messages.rs` | from a draft to the text of a row, in each format |
//! | `clean.rs` | taking out credentials and names |
//! | `gather.rs`, `spool.rs` | all rows that were read: on the disk, and what stays in memory |
//! | `split.rs`, `select.rs` | training and validation; duplicates and pairs |
//! | `output_dir.rs` | the directory: new, whole, or not at all |
//! | `manifest.rs`, `card.rs` | the files of the data set |

mod card;
mod clean;
mod draft;
mod gather;
mod manifest;
mod messages;
mod output_dir;
mod quote;
mod row_builder;
mod select;
mod split;
mod spool;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use manent_log::fs::Disk;

use manent::{Store, words};

words! {
    /// A file format for rows, named after the trainer that reads it.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum DatasetFormat {
        /// Fine-tuning of chat models at OpenAI: `messages`, `tools`.
        #[default]
        OpenAi = "openai",
        /// TRL's supervised trainer: `prompt`, `completion`, `tools`.
        TrlSft = "trl-sft",
        /// TRL's trainer on preferences: `prompt`, `chosen`, `rejected`, `tools`, `same_model`.
        TrlDpo = "trl-dpo",
        /// TRL's trainer on verdicts: `prompt`, `completion`, `label`, `tools`.
        Kto = "kto",
        /// `conversations`, as LLaMA-Factory and Axolotl read them: `system`, `tools`.
        ShareGpt = "sharegpt",
    }
}

impl DatasetFormat {
    /// Returns true if the format has a use for attempts that failed.
    fn takes_failures(self) -> bool {
        matches!(self, DatasetFormat::TrlDpo | DatasetFormat::Kto)
    }
}

/// The selector of runs, and the format of the rows.
#[derive(Debug, Clone, Default)]
pub struct Recipe {
    /// The format of the rows.
    pub format: DatasetFormat,
    /// The beginning of the period of runs, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// The end of the period, which is not in it.
    pub until_ms: Option<i64>,
    /// The project of the runs; those below it count too.
    pub project: Option<String>,
    /// The skill of the runs.
    pub skill: Option<String>,
    /// The model of the attempts.
    pub model: Option<String>,
    /// The share of groups that are for validation, in hundredths of a percent.
    pub validation: u32,
    /// True if both sides of a pair must be of one model.
    pub same_model_only: bool,
    /// True to keep the block of memory in a prompt if nothing of it was forgotten since.
    pub with_memory: bool,
    /// True if attempts of which only a summary is known count too.
    pub summaries: bool,
}

impl Recipe {
    /// Takes all runs, a tenth of them for validation.
    pub fn new(format: DatasetFormat) -> Recipe {
        Recipe { format, validation: 1000, ..Recipe::default() }
    }
}

/// The selector for a directory that holds a data set already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Leave it, and fail.
    Keep,
    /// Put the new one in its place.
    Replace,
}

words! {
    /// The reason why an attempt is not in a data set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum SkipReason {
        /// The filters leave the run out.
        Filtered = "filtered",
        /// The session was deleted.
        Deleted = "session_deleted",
        /// The same attempt, written twice.
        Repeated = "attempt_repeated",
        /// The attempt was not checked.
        Unverified = "not_verified",
        /// The check found it good, but it ended with an error.
        Doubtful = "verified_with_error",
        /// The attempt failed, and this format takes none that did.
        Failed = "failed",
        /// A command in a sandbox, in which no model had a part.
        NoModel = "no_model",
        /// No record of what the model was given.
        NoPrompt = "no_prompt",
        /// A later attempt of a run: it was given more than the run was, and nothing says what.
        UnknownPrompt = "prompt_unknown",
        /// No record of the answer.
        NoOutput = "no_output",
        /// The answer is known by a summary only.
        OnlySummary = "only_summary",
        /// A reference to a session or a record that does not exist.
        NotThere = "reference_not_found",
        /// A reference that is not a valid range of records.
        BadReference = "reference_invalid",
        /// A reference to records that cannot be read.
        Damaged = "damaged",
        /// The row would be too long.
        TooLong = "too_long",
        /// A prompt that ends with an answer, or an answer that is none.
        OddShape = "odd_shape",
        /// A credential could not be taken out.
        Unsafe = "unsafe",
        /// The same row is there already.
        Duplicate = "duplicate",
        /// A row that says nearly the same is there already.
        NearDuplicate = "near_duplicate",
        /// The same row was found good and found bad.
        Contradiction = "contradiction",
        /// The row is for validation, and a row to train on has its prompt.
        PromptInTrain = "prompt_in_train",
        /// The row is for validation, and a row to train on says nearly the same.
        NearTrain = "near_duplicate_in_train",
    }
}

/// Counts of what was read and left out while a data set was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatasetCounts {
    /// Runs that were read.
    pub runs: u64,
    /// Their attempts.
    pub attempts: u64,
    /// Attempts that were left out, by reason.
    pub left_out: BTreeMap<SkipReason, u64>,
    /// Credentials that were taken out of what is in it.
    pub secrets: u64,
    /// Names in paths of home directories.
    pub homes: u64,
    /// Rows that rest on summaries.
    pub from_summaries: u64,
    /// Blocks of memory that were left out of prompts.
    pub memory_left_out: u64,
    /// Words beside calls of tools, which the format has no place for.
    pub beside_calls: u64,
    /// Lines of logs that could not be read, or are no runs.
    pub unreadable: u64,
}

impl DatasetCounts {
    /// Counts a run, and its attempts as left out if it was refused.
    fn add_run(&mut self, attempts: u64, refused: Option<SkipReason>) {
        self.runs += 1;
        self.attempts += attempts;
        if let Some(why) = refused {
            *self.left_out.entry(why).or_default() += attempts;
        }
    }

    fn leave_out(&mut self, why: SkipReason) {
        *self.left_out.entry(why).or_default() += 1;
    }
}

/// A file of a data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetFile {
    /// The file name.
    pub name: &'static str,
    /// The number of rows.
    pub rows: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The BLAKE3 hash, in hexadecimal.
    pub hash: String,
}

/// A data set that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// The directory.
    pub dir: PathBuf,
    /// The files with rows.
    pub files: Vec<DatasetFile>,
    /// Counts of what was read and left out.
    pub counts: DatasetCounts,
    /// Groups of sessions and projects that have rows.
    pub groups: u64,
    /// The number of groups that are for validation.
    pub validation_groups: u64,
}

impl Dataset {
    /// Returns the number of rows of a file.
    pub fn rows(&self, name: &str) -> u64 {
        self.files.iter().find(|file| file.name == name).map_or(0, |file| file.rows)
    }
}

/// A data set that was not made. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] crate::Error),
    /// The directory is not empty.
    #[error("{} is not empty; choose another directory", .0.display())]
    NotEmpty(PathBuf),
    /// The directory has a file that no data set has.
    #[error(
        "{} holds {name:?}, which is no part of a data set: nothing is replaced; choose another directory",
        dir.display()
    )]
    NotOurs {
        /// The directory.
        dir: PathBuf,
        /// The file that no data set has.
        name: String,
    },
    /// The directory does not exist and cannot be made.
    #[error("{} is no directory; choose another one", .0.display())]
    NoDirectory(PathBuf),
    /// Another process makes a data set in the same directory.
    #[error("another process is making a data set in {}; wait for it, or choose another directory", .0.display())]
    Busy(PathBuf),
    /// No attempt gives a row. The directory stays as it was.
    #[error("there are no rows, so nothing is written")]
    NoRows {
        /// Counts of what was read and left out.
        counts: Box<DatasetCounts>,
    },
    /// The disk refused.
    #[error("cannot write {}: {source}; {}", path.display(), hint(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A thread panicked.
    #[error("a thread that makes rows died; nothing was written; please report this")]
    Died(#[from] manent_store::threads::ThreadDied),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "nothing of the data set is left there; make room, or choose a directory on another disk"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "nothing was written; choose a directory that you may write"
        }
        _ => "nothing of the data set is left there; try again, or choose another directory",
    }
}

/// The result of making a data set.
pub type DatasetResult<T> = Result<T, DatasetError>;

/// Receives the bytes of work that are done, and those of all work. It is called from the threads that work, one call
/// at a time, with numbers that never fall; in the last call all bytes are done.
pub type Progress<'a> = &'a mut (dyn FnMut(u64, u64) + Send);

/// Makes a data set of the runs of a store, in a directory that is new or empty.
pub fn make(
    store: &Store,
    recipe: &Recipe,
    disk: &Arc<dyn Disk>,
    dir: &Path,
    existing: Existing,
    progress: Progress<'_>,
) -> DatasetResult<Dataset> {
    let place = output_dir::OutputDir::prepare(disk, dir, existing)?;
    let mut gathered = gather::gather(store, recipe, &place, progress)?;
    let chosen = select::select(recipe, &mut gathered);
    if chosen.items.is_empty() {
        return Err(DatasetError::NoRows { counts: Box::new(gathered.counts) });
    }
    let made = manifest::write(recipe, &place, &mut gathered, &chosen, progress)?;
    place.finish()?;
    Ok(made)
}
