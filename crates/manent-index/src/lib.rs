//! A catalogue and a full-text index over the streams of a [`Corpus`]: derived from them, disposable, never the truth.
//!
//! An answer is always that of the streams. Before each query the index asks which streams changed, reads what was
//! appended to them (or the whole stream, if it is not what it was), and only then answers. The new part stays in memory
//! and is written to the disk when enough has accumulated. No text is stored: a hit points into its stream, and the
//! text that is shown is read there and compared with the checksum that was indexed.
//!
//! An index that is missing, cut short, damaged, on a full or read-only disk, or being written by another process,
//! changes no answer: it is built again, in memory if need be.
//!
//! # Layout
//!
//! | module | contents |
//! |---|---|
//! | `corpus.rs` | [`Corpus`]: everything the index knows about the streams and their records |
//! | `words.rs` | text to terms, stems and stop words |
//! | `query/` | [`Query`] and its parser (`mod.rs`), [`Index::search`] (`search.rs`), records that hold all words (`matching.rs`) or fit best (`related.rs`), BM25 and the top K (`score.rs`), [`Snippet`] |
//! | `segment/` | one immutable piece of the index: its file (`mod.rs`), its live records (`view.rs`), writing and merging (`builder.rs`), the term dictionary and the posting lists |
//! | `refresh/` | [`Index`] and its refresh (`mod.rs`): comparing with the streams (`changes.rs`), reading them (`ingest.rs`), the index in memory (`loaded.rs`) and on disk (`index_dir.rs`) |
//! | `catalogue/` | one row per stream (`mod.rs`), lists and statistics (`listing.rs`), single rows (`lookup.rs`), the first page of a large store (`recently_written.rs`), streams that vanished (`missing.rs`) |
//! | `pages.rs` | checksummed pages and varints, of which every index file consists |

mod catalogue;
mod corpus;
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
pub use query::search::{Coverage, Hit, SearchResults};
pub use query::snippet::{SNIPPET_CHARS, Snippet};
pub use query::{QUERY_BYTES_MAX, QUERY_CLAUSES_MAX, Query, QueryError};
pub use refresh::index_dir::IndexDir;
pub use refresh::{Background, Index, IndexProgress};
pub use segment::view::OffsetFilter;
