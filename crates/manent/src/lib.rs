//! A store for the sessions of AI agents: one plain JSONL file a session, which survives kill -9, power loss, a full
//! disk, bad bytes and two writers at once.
//!
//! This is the library to embed. It is synchronous and reads no environment; whoever uses it says where the store is.
//!
//! Sessions are files unless one says otherwise: [`Store::on`] takes any [`backend::Backend`]. What such a
//! one must do is a suite of tests behind the cargo feature `contract`, which is off by default: see
//! `contract.rs`.
//!
//! # Layout
//!
//! | file | about |
//! |---|---|
//! | `store.rs` | [`Store`] and [`Session`]: opening, appending, reading, listing |
//! | `lifecycle.rs`, `fork.rs` | archive, delete, restore, purge; forks |
//! | `reading.rs` | [`Reader`]: a session, and through it what it was forked from |
//! | `backend.rs` | [`backend::Backend`]: the seam between sessions and where their records lie |
//! | `files/` | [`Files`]: one plain file a session, the default |
//! | `in_memory.rs` | [`InMemory`]: nothing outlives the process |
//! | `contract.rs` | what every backend must do, as tests to run on your own |
//! | `pack.rs` | archived files: seekable, compressed |
//! | `key.rs` | [`SessionKey`]: the name of a session, and its file name |
//! | `meta.rs` | [`Meta`]: what the header of a session says |
//! | `turn.rs` | [`Record`]: what a line says; making bodies of turns |
//! | `summary.rs` | [`Summary`]: what a list shows of a session |
//! | `transcript.rs` | [`Transcript`]: a whole session, decoded |
//! | `scan.rs`, `arena.rs` | the flat scanner under both; where decoded text lies |
//! | `error.rs`, `clock.rs`, `sync.rs` | what can go wrong, in words; the time as records write it; locks |
//! | `context/` | [`context::Context`]: what a model sees of a session, made from its log |
//! | `consolidate/` | [`consolidate::Consolidation`]: what was said becomes memory, with proof |
//! | `dataset/` | [`dataset::Recipe`]: what skills did becomes data to train models on |
//! | `memory/` | [`memory::Memory`]: what is remembered across sessions, and where it came from |
//! | `runs/` | [`runs::Runs`]: what skills did, with every attempt |
//! | `retrospective/` | [`retrospective::Report`]: what the runs say about skills and models |
//! | `secrets.rs` | [`secrets`] and [`redact`]: likely credentials in a text |
//! | `tokens.rs` | how many tokens a text takes |
//! | `when.rs` | [`when`]: times as people write them |
//! | `index/` | full-text search: [`Query`], [`Snippet`], words |

mod arena;
pub mod backend;
mod clock;
pub mod consolidate;
pub mod context;
#[cfg(feature = "contract")]
pub mod contract;
pub mod dataset;
mod error;
mod files;
mod fork;
mod in_memory;
mod index;
mod key;
mod lifecycle;
pub mod memory;
mod meta;
mod pack;
mod reading;
pub mod retrospective;
pub mod runs;
mod scan;
mod secrets;
mod store;
mod summary;
mod sync;
mod threads;
pub mod tokens;
mod transcript;
mod turn;
mod verifying;
pub mod when;

pub use backend::{Address, Listed, Place, Position, Receipt, Repaired, Start};
pub use clock::now;
pub use context::Context;
pub use error::{Among, Error, Result};
pub use files::Files;
pub use fork::Forked;
pub use in_memory::InMemory;
pub use index::{
    Found, Hit, IndexState, Listing, Missing, QUERY_BYTES_MAX, QUERY_CLAUSES_MAX, Query, QueryError,
    Reindexed, SNIPPET_CHARS, Share, Snippet, Stats,
};
pub use key::{KEY_BYTES_MAX, KeyError, KeyParts, SessionKey};
pub use lifecycle::Purged;
pub use manent_log as log;
pub use manent_log::{Body, Damage, Durability, End, Entry, Expect, Item, Trust};
pub use memory::Memory;
pub use meta::{Meta, Parent};
pub use reading::{Growth, Reader};
pub use secrets::{REDACTED, redact, secrets};
pub use store::{Session, Store, StoreOptions};
pub use summary::Summary;
pub use transcript::{Transcript, Turn};
pub use turn::{NewTurn, Record, RecordError, body_of_json, turn, turn_body, write_turn};
pub use verifying::{Verified, VerifyAll};
