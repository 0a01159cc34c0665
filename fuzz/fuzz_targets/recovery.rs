//! A file that was written, cut, flipped and glued by a script; then read, opened, appended to, checked and repaired.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manent_fuzz::{invariants, script};

fuzz_target!(|data: &[u8]| {
    let file = script::file_of(data);
    // For whoever looks into a finding: what the file is.
    if std::env::var_os("MANENT_FUZZ_SHOW").is_some() {
        eprintln!("{}", file.escape_ascii());
    }
    invariants::of_reading(&file);
    invariants::of_writing(&file);
});
