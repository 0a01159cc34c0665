//! What all whole-system tests stand on: a clean place to run the binary in, and ways to hurt it.

pub(crate) mod browser;
pub(crate) mod environment;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod model;
pub(crate) mod normalise;
pub(crate) mod random;
pub(crate) mod records;
pub(crate) mod runs;
pub(crate) mod store;
pub(crate) mod strace;
pub(crate) mod stream;
pub(crate) mod terminal;

pub(crate) use environment::{HANG, MANENT, Output, SYNC_FAILED, TestEnvironment};
pub(crate) use stream::Stream;
