//! What can go wrong with a skill that was asked for.

use std::path::PathBuf;

/// A skill that was asked for and cannot be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkillError {
    /// No skill has this name.
    #[error("there is no skill {0:?}")]
    NoSuch(String),
    /// The skill exists, but must not be used, or not by this caller.
    #[error("the skill {name:?} cannot be used: {why}")]
    NotUsed {
        /// The name of the skill.
        name: String,
        /// The reason and its remedy.
        why: String,
    },
    /// A path that does not stay in the skill's directory.
    #[error(
        "{0:?} does not stay in the directory of the skill; give a path from there, such as \"docs/a.md\""
    )]
    Outside(String),
    /// A file that the skill does not have.
    #[error("the skill has no file {0:?}; its files are listed with its instructions")]
    NoFile(String),
    /// A file longer than anybody would give to a model.
    #[error("{} has {bytes} bytes, and {max} are read at most; read a part of it by a tool", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The length of the file.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The system did not let us.
    #[error("cannot read {}: {source}; look at its rights, and whether it is still there", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The list of trusted folders could not be written.
    #[error("cannot note whether {} is trusted, in {}: {why}", folder.display(), file.display())]
    NotNoted {
        /// The folder.
        folder: PathBuf,
        /// The list, or the copy of what is trusted.
        file: PathBuf,
        /// The error of the store, or the fault of the list.
        why: String,
    },
    /// A folder whose name no list can hold.
    #[error("the path {0:?} is not UTF-8 and cannot be noted; rename the folder")]
    OddFolder(PathBuf),
}
