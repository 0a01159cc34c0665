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
//! | `in_memory.rs` | [`InMemory`]: nothing outlives the process |
//! | `pack.rs` | archived files: compressed, and read as if they were plain |
//! | `key.rs` | [`SessionKey`]: the name of a stream, and its file name |
//! | `header.rs` | [`HeaderNames`]: what a backend reads of a header |
//! | `error.rs` | [`Error`]: what can go wrong |

mod blobs;
mod error;
mod files;
mod header;
mod in_memory;
mod key;
mod pack;
pub mod streams;
pub mod sync;
pub mod threads;

pub use blobs::{Blob, BlobStat, Blobs, FileBlobs};
pub use error::{Error, Result, io_error};
pub use files::{Files, is_plain_id};
pub use header::HeaderNames;
pub use in_memory::InMemory;
pub use key::{KEY_BYTES_MAX, KeyError, KeyParts, SessionKey};
pub use streams::{
    Append, ChangeKind, Changes, Cursor, Detail, Filter, Header, IfMissing, KnownStreams, Lock, LockGuard,
    LockMode, LockName, Maintenance, NewHeader, Part, Parts, Place, Position, Progress, Receipt, Repaired,
    Replaced, Seek, Seen, Space, StreamChange, StreamId, StreamReader, StreamStat, StreamWriter, Streams,
    Target, Version, Which,
};
