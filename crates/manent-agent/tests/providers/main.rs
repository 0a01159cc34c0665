//! Models as a user of them sees them: what is asked, what is heard, what goes wrong.
//!
//! | file | about |
//! |---|---|
//! | `client.rs` | models to ask, and the events that a reply reports |
//! | `ollama.rs`, `openai.rs` | the two interfaces: what is sent, how answers are read |
//! | `streams.rs` | answers that come in pieces, break off, or never end |
//! | `server_errors.rs` | servers that refuse, are busy, or are not there |
//! | `mutations.rs` | answers changed, cut and split at random |
//! | `concurrency.rs` | many requests at once |

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod client;
mod concurrency;
mod mutations;
mod ollama;
mod openai;
mod server_errors;
mod streams;
