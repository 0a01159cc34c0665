//! The engine of Manent: one append-only JSONL file that loses nothing.
//!
//! A log is a text file with one JSON object a line, readable with `cat` and `jq`. Every record carries its number
//! and a checksum; a receipt says what it survives; damage is named, never hidden, and never spreads.
//!
//! This crate is synchronous, has no unsafe code, and knows nothing of sessions or turns: that is the crate `manent`.
//!
//! # Layout
//!
//! Follow one append from the top: [`log`] (open, append, close) calls `lock` for the lease, `recover` for
//! what a crash left, [`frame`] for the bytes, [`commit`] for durability, and [`fs`] for the disk.
//!
//! | file | about |
//! |---|---|
//! | `log.rs` | opening, appending, closing; letting others write in between |
//! | `keys.rs` | keys under which records are known: rules, an index, what is written of an append |
//! | `log/keys.rs` | appending by keys; writing again what a failed sync may have lost |
//! | `frame.rs` | a record and its bytes: the validity rule, `classify` |
//! | `body.rs` | the members of a record, valid by construction |
//! | `members.rs` | looking into a JSON object without parsing its values |
//! | `header.rs` | what the engine knows of the first line |
//! | `recover.rs` | making a log ready after a crash |
//! | `commit.rs` | durability levels, group commit |
//! | `reader.rs`, `reverse.rs` | forward, from a number, following; backward |
//! | `lines.rs`, `pieces.rs`, `tail.rs` | what readers and recovery are made of |
//! | `verify.rs` | the full check; acknowledging damage |
//! | `lock.rs` | the writer's lease |
//! | `file_lock.rs` | locks on files and directories, of which the lease is one |
//! | `atomic_file.rs` | files that are replaced as a whole |
//! | `fs.rs`, `fs/real.rs` | the interface to the file system; the file system of this machine |
//! | `error.rs` | [`Error`] |

mod atomic_file;
mod body;
pub mod commit;
pub mod error;
mod file_lock;
pub mod frame;
pub mod fs;
mod header;
mod keys;
mod lines;
mod lock;
pub mod log;
mod members;
mod pieces;
pub mod reader;
mod recover;
pub mod reverse;
mod tail;
pub mod verify;

pub use atomic_file::{AtomicFile, CommitSync};
pub use body::{Body, KEY_BYTES_MAX, idempotency_key, without_lone_surrogates};
pub use commit::{Commit, Durability, GroupCommit, SharedLog};
pub use error::{BodyError, Error, Result};
pub use file_lock::{FileLock, LockMode};
pub use frame::FileKind;
pub use fs::{Disk, RealDisk};
pub use header::{FORMAT, Header};
pub use keys::{
    DedupOutcome, KEY_RECORDS, KeyIndex, KeyRule, KeysOf, Occurrence, Reach, RecordPlace, deduplicate,
};
pub use lock::FileSystemTrust;
pub use log::{Expect, KeyedLine, Log, LogKeys, LogReceipt, Options, RestingLog, SharedKeys};
pub use members::{list as members_of, lists as members_of_each};
pub use reader::{Damage, Entry, FileChange, LogEnd, LogItem, Reader};
pub use recover::SetAside;
pub use reverse::ReverseReader;
pub use verify::{DamageFinding, TailState, VerifyReport, acknowledge_gaps, verify, verify_reader};
