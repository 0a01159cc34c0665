//! What the fuzz targets share.
//!
//! - `script.rs`: how a file comes about: records, other programs' lines, cuts, flips, NULs.
//! - `scene.rs`: one file on a simulated disk, and everything a reader says about it.
//! - `invariants.rs`: what must hold for any bytes at all.
//!
//! Replay of one input: `cargo +nightly fuzz run TARGET FILE` (in `fuzz/`, or at the root with `--fuzz-dir fuzz`).

pub mod invariants;
pub mod scene;
pub mod script;
