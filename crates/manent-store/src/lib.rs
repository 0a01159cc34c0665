//! Streams of records, and the places they are kept in.
//!
//! This crate holds the storage seam of Manent. [`Streams`] is the trait that a place to keep things implements, and
//! [`Blobs`] is its counterpart for what is derived from streams and may be deleted. Everything above reads and writes
//! through these two. The crate knows no turns, forks, titles, memory items or runs.
//!
//! # Layout
//!
//! | file | about |
//! |---|---|
//! | `streams.rs` | [`Streams`], [`StreamReader`], [`StreamWriter`], [`Maintenance`], and the types they share |
//! | `blobs.rs` | [`Blobs`] and [`FileBlobs`]: derived data in files |
//! | `files/` | [`Files`]: one plain JSONL file for each stream, the default backend |
//! | `in_memory.rs` | [`InMemory`] and [`InMemoryBlobs`]: nothing outlives the process |
//! | `rows.rs` | helpers for backends that keep a stream as a row of lines |
//! | `thread_locks.rs` | leases and locks between threads, for backends that have nothing better |
//! | `pack.rs` | archived files: compressed (feature `archive`), and read as if they were plain |
//! | `key.rs` | [`SessionKey`]: the name of a stream, and its file name |
//! | `header.rs` | [`HeaderNames`]: what a backend reads of a header |
//! | `clock.rs`, `human_time.rs` | [`clock`]: time in records; [`human_time`]: times and durations that people write |
//! | `error.rs` | [`Error`] |

mod blobs;
pub mod clock;
mod error;
mod files;
mod header;
pub mod human_time;
mod in_memory;
mod key;
#[cfg(feature = "archive")]
mod pack;
#[cfg(not(feature = "archive"))]
#[path = "pack_unavailable.rs"]
mod pack;
pub mod rows;
pub mod streams;
pub mod sync;
pub mod thread_locks;
pub mod threads;

pub use blobs::{Blob, BlobStat, Blobs, FileBlobs, is_temporary};
pub use error::{Error, Exposure, Result, io_error};
pub use files::{Files, is_plain_id};
pub use header::HeaderNames;
pub use in_memory::{InMemory, InMemoryBlobs};
pub use key::{KEY_BYTES_MAX, KeyError, KeyParts, SessionKey};
pub use streams::{
    AppendOptions, ChangeKind, Changes, Cursor, DerivedBlobs, IfMissing, KnownStreams, ListDetail, Lock,
    LockGuard, LockMode, LockName, Maintenance, NewHeader, Place, Position, ProgressFn, Receipt, Repaired,
    Replaced, ScanTime, Seek, Selector, Space, StreamChange, StreamFilter, StreamHeader, StreamId,
    StreamPart, StreamParts, StreamReader, StreamStat, StreamState, StreamWriter, Streams, Target, Version,
};
