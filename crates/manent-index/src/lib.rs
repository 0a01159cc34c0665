//! A catalogue and a full-text index over the streams of a [`Corpus`]: derived from them, disposable, never the truth.
//!
//! An answer is always that of the streams. Before each query the index asks which streams changed, reads what was
//! appended to them (or the whole stream, if it is not what it was), and only then answers. The new part stays in
//! memory and is written to the disk when enough has accumulated. No text is stored: a hit points into its stream, and
//! the text that is shown is read there and compared with the checksum that was indexed.
//!
//! An index that is missing, cut short, damaged, on a full or read-only disk, or being written by another process,
//! changes no answer: it is built again, in memory if need be.
//!
//! # Layout
//!
//! | file | contents |
//! |---|---|
//! | `corpus.rs` | [`Corpus`]: everything the index knows about the streams and their records |
//! | `words.rs`, `english.rs` | text to terms; English stems, irregular forms, stop words and common words |
//! | `query/mod.rs` | [`Query`], and its parser |
//! | `query/search.rs` | [`Index::search`]: runs a query, reads the hits |
//! | `query/matching.rs` | records that hold all of a query |
//! | `query/question.rs`, `dates.rs`, `answer_kind.rs` | a plain question, taken apart |
//! | `query/ranking.rs`, `second_look.rs`, `hit_order.rs` | the records that fit best; their texts; their order |
//! | `query/score.rs`, `snippet.rs` | BM25 and the top K; [`Snippet`] |
//! | `segment/mod.rs`, `view.rs` | one immutable piece of the index; its live records |
//! | `segment/builder.rs` | writes and merges segments |
//! | `segment/dictionary.rs`, `postings.rs` | the words of a segment; their posting lists |
//! | `refresh/mod.rs` | [`Index`], and the refresh that precedes every answer |
//! | `refresh/build.rs` | a refresh that reads much, without a lock over it |
//! | `refresh/changes.rs`, `ingest.rs` | compares with the streams; reads them |
//! | `refresh/loaded.rs`, `index_dir.rs` | the index in memory; its files |
//! | `catalogue/mod.rs`, `lookup.rs` | a row for every stream; single rows |
//! | `catalogue/listing.rs`, `recently_written.rs` | lists and counts; the first page of a large store |
//! | `catalogue/missing.rs` | streams that vanished, until the loss is acknowledged |
//! | `pages.rs` | checksummed pages and varints, of which every index file consists |

mod catalogue;
mod corpus;
pub mod english;
mod error;
mod pages;
mod query;
mod refresh;
mod segment;
#[cfg(test)]
mod tests;
pub mod words;

pub use catalogue::listing::{IndexState, Listing, PlaceStats, ReindexReport, StoreStats, Summary};
pub use catalogue::missing::MissingSession;
pub use corpus::{Content, Corpus, Document, LossPolicy, REDACTED, ScoreScope, StreamOrigin};
pub use error::{Error, Result};
pub use query::search::{Hit, SearchResults};
pub use query::snippet::{SNIPPET_CHARS, Snippet};
pub use query::{QUERY_BYTES_MAX, QUERY_CLAUSES_MAX, Query, QueryError};
pub use refresh::index_dir::IndexDir;
pub use refresh::{Background, Index, IndexProgress};
pub use segment::view::OffsetFilter;
