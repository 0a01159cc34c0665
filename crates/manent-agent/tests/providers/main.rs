//! Models as a user of them sees them: what is asked, what is heard, what goes wrong.
//!
//! | file | about |
//! |---|---|
//! | `asking.rs` | a model, somebody who asks it, and what was heard |
//! | `ollama.rs`, `openai.rs` | the two interfaces: what is sent, how answers are read |
//! | `streams.rs` | answers that come in pieces, break off, or never end |
//! | `troubles.rs` | servers that refuse, are busy, or are not there |
//! | `mutations.rs` | answers changed, cut and split at random |
//! | `crowd.rs` | many at once |

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod asking;
mod crowd;
mod mutations;
mod ollama;
mod openai;
mod streams;
mod troubles;
