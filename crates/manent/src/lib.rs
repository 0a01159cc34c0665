//! A store for the sessions of AI agents: one plain JSONL file a session, which survives kill -9, power loss, a full
//! disk, bad bytes and two writers at once.
//!
//! This is the library to embed. It is synchronous and reads no environment; whoever uses it says where the store is.
//!
//! # Layout
//!
//! | file | about |
//! |---|---|
//! | `store.rs` | [`Store`]: a directory of sessions; opening them for reading and writing |
//! | `key.rs` | [`SessionKey`]: the name of a session, and its file name |
//! | `turn.rs` | [`Record`]: what a line says; making bodies of turns |
//! | `summary.rs` | [`Summary`]: what a list shows of a session |
//! | `transcript.rs` | [`Transcript`]: a whole session, decoded |
//! | `scan.rs`, `arena.rs` | the flat scanner under both; where decoded text lies |
//! | `clock.rs` | the time as records write it |

mod arena;
mod clock;
mod key;
mod scan;
mod store;
mod summary;
mod transcript;
mod turn;

pub use clock::now;
pub use key::{KEY_BYTES_MAX, KeyError, SessionKey};
pub use manent_log as log;
pub use manent_log::{Body, Durability, Expect, Receipt, Trust};
pub use store::{Error, Listed, Meta, Result, Session, Store, WriteOptions};
pub use summary::Summary;
pub use transcript::{Transcript, Turn};
pub use turn::{Record, RecordError, body_of_json, turn_body, write_turn};
