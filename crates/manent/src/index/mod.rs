//! The catalogue and the full text of every turn: derived from the logs, disposable, never the truth.
//!
//! An answer is always that of the logs. Before each, the index looks at every stream from outside, reads what was
//! appended to those that changed (or all of one that is not what it was), and only then asks itself. What it read
//! stays in memory; when enough has come together it is put on the disk. Nothing of the text is stored: a hit points
//! into the log, and what is shown is read there, and compared with what was indexed.
//!
//! Whatever is wrong with the index (gone, cut short, a bit flipped, a disk that is full or read-only, another
//! process writing it) changes no answer: it is made anew, in memory if need be.
//!
//! | file | about |
//! |---|---|
//! | `words.rs`, `query.rs` | text to terms; what a question asks for |
//! | `search.rs`, `snippet.rs` | asks, and lets the logs answer; what is shown of a turn |
//! | `matching.rs`, `turns.rs`, `best.rs`, `score.rs` | which turns hold all the words, and fit best |
//! | `related.rs`, `dates.rs` | which turns fit best where none holds all the words |
//! | `segment.rs`, `view.rs` | one piece of the index; as a question sees it |
//! | `dictionary.rs`, `postings.rs`, `numbers.rs`, `pages.rs` | the bytes of a segment |
//! | `builder.rs`, `merge.rs` | turns to a segment; one segment out of several |
//! | `gather.rs`, `speech.rs`, `batch.rs` | reads a session; what of a turn is found; many sessions at once |
//! | `subject.rs` | what the index is about: turns of sessions, or items of a memory |
//! | `sweep.rs`, `changes.rs`, `stopped.rs`, `background.rs` | brings all of it up to what the logs say |
//! | `state.rs`, `shelf.rs`, `damage.rs` | what is known now; the files on the disk; what can be wrong with them |
//! | `catalogue.rs`, `rows.rs` | a row for every session; rows that are read when somebody looks |
//! | `gone.rs` | sessions that vanished, until somebody acknowledges it |
//! | `listing.rs`, `by_key.rs`, `noted.rs`, `news.rs` | lists and counts; one session; a page at once |

mod background;
mod batch;
mod best;
mod builder;
mod by_key;
mod catalogue;
mod changes;
mod column;
mod damage;
mod dates;
mod dictionary;
mod gather;
mod gone;
mod index_dir;
mod listing;
mod matching;
mod merge;
mod news;
mod noted;
mod numbers;
mod pages;
mod postings;
mod query;
mod related;
mod rows;
mod score;
mod search;
mod segment;

mod snippet;
mod speech;
mod state;
mod stopped;
mod subject;
mod sweep;
#[cfg(test)]
mod tests;
mod turns;
mod view;
pub(crate) mod words;

pub(crate) use catalogue::Row;
pub use gone::Missing;
pub(crate) use index_dir::IndexDir;
pub use listing::{IndexState, Listing, Reindexed, Share, Stats};
pub use query::{QUERY_BYTES_MAX, QUERY_CLAUSES_MAX, Query, QueryError};
pub(crate) use related::Reach;
pub use search::{Found, Hit};
pub use snippet::{SNIPPET_CHARS, Snippet};
pub(crate) use subject::{Losses, Subject};
pub(crate) use sweep::Index;
