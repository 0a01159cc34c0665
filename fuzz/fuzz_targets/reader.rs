//! Any bytes as a file, read in every way there is.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| manent_fuzz::invariants::of_reading(data));
