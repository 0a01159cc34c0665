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
//! | `in_memory.rs`, `in_memory_blobs.rs` | [`InMemory`] and [`InMemoryBlobs`]: nothing outlives the process |
//! | `rows.rs` | helpers for backends that keep a stream as a row of lines |
//! | `holders.rs` | leases and locks between threads, for backends that have nothing better |
//! | `pack.rs` | archived files: compressed, and read as if they were plain |
//! | `key.rs` | [`SessionKey`]: the name of a stream, and its file name |
//! | `header.rs` | [`HeaderNames`]: what a backend reads of a header |
//! | `error.rs` | [`Error`]: what can go wrong |

mod blobs;
mod error;
mod files;
mod header;
pub mod holders;
mod in_memory;
mod in_memory_blobs;
mod key;
mod pack;
pub mod rows;
pub mod streams;
pub mod sync;
pub mod threads;

pub use blobs::{Blob, BlobStat, Blobs, FileBlobs};
pub use error::{Error, Result, io_error};
pub use files::{Files, is_plain_id};
pub use header::HeaderNames;
pub use in_memory::InMemory;
pub use in_memory_blobs::InMemoryBlobs;
pub use key::{KEY_BYTES_MAX, KeyError, KeyParts, SessionKey};
pub use streams::{
    Append, ChangeKind, Changes, Cursor, Detail, Filter, Header, IfMissing, KnownStreams, Lock, LockGuard,
    LockMode, LockName, Maintenance, Moment, NewHeader, Part, Parts, Place, Position, Progress, Receipt,
    Repaired, Replaced, Seek, Seen, Space, StreamChange, StreamId, StreamReader, StreamStat, StreamWriter,
    Streams, Target, Version, Which,
};
