//! The rules of the house, kept by tests instead of by memory.
//!
//! A rule that some file breaks today has a list of exceptions, and the list may only become shorter: a file that keeps
//! the rule again must be taken off it.

mod decisions;
mod dependencies;
mod layers;
mod messages;
mod modules;
mod names;
mod promises;
mod source;
mod tree;
