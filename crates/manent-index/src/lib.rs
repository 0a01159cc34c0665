//! A catalogue and a full-text index over the streams of a [`Corpus`]: derived from them, disposable, never the truth.
//!
//! An answer is always that of the streams. Before each, the index asks what changed, reads what was appended to those
//! that changed (or all of one that is not what it was), and only then asks itself. The part that was read stays in
//! memory and is put on the disk when enough has come together. No text is stored: a hit points into its stream, and
//! what is shown is read there, and compared with what was indexed.
//!
//! An index that is gone, cut short, damaged, on a disk that is full or read-only, or being written by another process,
//! changes no answer: it is made anew, in memory if need be.
//!
//! # Layout
//!
//! | file | about |
//! |---|---|
//! | `corpus.rs` | [`Corpus`]: all that the index knows about the world |
//! | `words.rs`, `query.rs` | text to terms; what a question asks for |
//! | `search.rs`, `snippet.rs` | answers a question; what is shown of a record |
//! | `matching.rs`, `doc_iter.rs`, `top_k.rs`, `score.rs` | the records that hold all the words, and fit best |
//! | `related.rs`, `dates.rs` | the records that fit best where none holds all the words |
//! | `segment.rs`, `segment_view.rs` | one piece of the index; as a question sees it |
//! | `dictionary.rs`, `postings.rs`, `numbers.rs`, `pages.rs` | the bytes of a segment |
//! | `builder.rs`, `merge.rs` | records to a segment; one segment out of several |
//! | `ingest.rs`, `batch.rs` | reads a stream; many streams at once |
//! | `refresh.rs`, `changes.rs`, `refresh_error.rs`, `background.rs` | [`Index`]: catches up with the streams |
//! | `loaded.rs`, `index_dir.rs`, `damage.rs` | what is known now; the files on the disk; what can be wrong with them |
//! | `catalogue.rs`, `rows.rs`, `summary.rs` | a row for every stream; read on demand; what a list shows |
//! | `gone.rs` | streams that vanished, until somebody acknowledges it |
//! | `listing.rs`, `by_key.rs`, `noted.rs`, `recently_written.rs` | lists and counts; one stream; a page at once |

mod background;
mod batch;
mod builder;
mod by_key;
mod catalogue;
mod changes;
mod column;
mod corpus;
mod damage;
mod dates;
mod dictionary;
mod doc_iter;
mod error;
mod gone;
mod index_dir;
mod ingest;
mod listing;
mod loaded;
mod matching;
mod merge;
mod noted;
mod numbers;
mod pages;
mod postings;
mod query;
mod recently_written;
mod refresh;
mod refresh_error;
mod related;
mod rows;
mod score;
mod search;
mod segment;
mod segment_view;
mod snippet;
mod summary;
#[cfg(test)]
mod tests;
mod top_k;
pub mod words;

pub use background::Background;
pub use corpus::{Content, Corpus, Document, Losses, Origin, REDACTED, ScoreScope};
pub use error::{Error, Result};
pub use gone::Missing;
pub use index_dir::IndexDir;
pub use listing::{IndexState, Listing, Reindexed, Share, Stats};
pub use query::{QUERY_BYTES_MAX, QUERY_CLAUSES_MAX, Query, QueryError};
pub use refresh::{Index, ReadSoFar};
pub use search::{Coverage, Found, Hit};
pub use segment_view::Alive;
pub use snippet::{SNIPPET_CHARS, Snippet};
pub use summary::Summary;
