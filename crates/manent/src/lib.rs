//! A store for the sessions of AI agents: one plain JSONL file a session, which survives kill -9, power loss, a full
//! disk, bad bytes and two writers at once.
//!
//! This is the library to embed. It is synchronous and reads no environment; whoever uses it says where the store is.
//!
//! What a store keeps goes through [`Streams`] and [`Blobs`] of the crate `manent-store` ([`backend`] here). Both are
//! files unless one says otherwise: [`Store::on`] takes any backend. What a backend must do is a suite of tests in
//! the crate `manent-contract`.
//!
//! # Features
//!
//! | feature | default | gives |
//! |---|---|---|
//! | `search` | yes | search, lists with titles and counts, memory and consolidation, which search too |
//! | `tokens` | yes | exact token counts; without it, [`tokens`] estimates |
//! | `archive` | yes | packed archives; without it, [`Store`] does not archive, and packed sessions cannot be read |
//!
//! # Layout
//!
//! | file | about |
//! |---|---|
//! | `store.rs` | [`Store`] and [`Session`]: opening, appending, reading, listing |
//! | `lifecycle.rs`, `fork.rs` | archive, delete, restore, purge; forks |
//! | `reader.rs` | [`Reader`]: the records of a session, and of the sessions it was forked from |
//! | `verify.rs` | [`VerifyAll`]: a check of every session while others move them |
//! | `meta.rs` | [`Meta`]: what the header of a session says |
//! | `turn.rs` | [`Record`]: what a line says; making bodies of turns |
//! | `transcript.rs` | [`Transcript`]: a whole session, decoded |
//! | `scan.rs` | the flat scanner under both |
//! | `error.rs` | [`Error`]: what can go wrong |
//! | `context/` | [`context::Context`]: what a model sees of a session, made from its log |
//! | `consolidate/` | [`consolidate::Consolidation`]: what was said becomes memory, with proof |
//! | `memory/` | [`memory::Memory`]: what is remembered across sessions, and where it came from |
//! | `secrets.rs` | [`secrets`] and [`redact`]: likely credentials in a text |
//! | `similarity.rs` | `MinHash` signatures: near duplicates among many texts |
//! | `tokens.rs` | how many tokens a text takes |
//! | `search/` | search, lists and counts, on the index of the crate `manent-index`: [`Query`], [`Summary`] |

/// Defines an enum together with the word for each of its variants, in files and for display.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* $vis:vis enum $name:ident {
        $($(#[$variant_about:meta])* $variant:ident = $word:literal,)*
    }) => {
        $(#[$about])*
        $vis enum $name {
            $($(#[$variant_about])* $variant,)*
        }

        impl $name {
            /// The word for it.
            $vis fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }
    };
}

#[cfg(feature = "search")]
pub mod consolidate;
pub mod context;
mod error;
mod fork;
mod lifecycle;
#[cfg(feature = "search")]
pub mod memory;
mod meta;
mod reader;
mod scan;
#[cfg(feature = "search")]
mod search;
#[cfg(not(feature = "search"))]
#[path = "search_unavailable.rs"]
mod search;
mod secrets;
pub mod similarity;
mod store;
pub mod tokens;
mod transcript;
mod turn;
mod verify;

pub use context::Context;
pub use error::{Error, Result};
pub use fork::Forked;
pub use lifecycle::Purged;
#[cfg(feature = "search")]
pub use manent_index::{
    Hit, IndexProgress, IndexState, Listing, MissingSession, PlaceStats, QUERY_BYTES_MAX, QUERY_CLAUSES_MAX,
    Query, QueryError, ReindexReport, SNIPPET_CHARS, SearchResults, Snippet, StoreStats, Summary,
};
pub use manent_log as log;
pub use manent_log::{Body, Damage, Durability, Entry, Expect, FileSystemTrust, LogEnd, LogItem};
pub use manent_store as backend;
pub use manent_store::clock::now;
pub use manent_store::{
    Blobs, Files, InMemory, KEY_BYTES_MAX, KeyError, KeyParts, Place, Position, Receipt, Repaired,
    SessionKey, Space, StreamId, StreamStat, Streams, human_time,
};
#[cfg(feature = "search")]
pub use memory::Memory;
pub use meta::{Meta, Parent};
pub use reader::{Growth, Reader, Start};
pub use secrets::{REDACTED, redact, secrets};
pub use store::{Session, Store, StoreOptions};
pub use transcript::{Transcript, Turn};
pub use turn::{NewTurn, Record, RecordError, body_of_json, turn, turn_body, write_turn};
pub use verify::{Verified, VerifyAll};
