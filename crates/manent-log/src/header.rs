//! The first line of a native log: `{"seq":0,"ts":…,"meta":{"format":1,"id":…,…},"crc":…}`.
//!
//! The engine reads only what decides how it must treat the file: the format, what a reader must know to write
//! (`requires`), and where a fork's numbers begin. The rest belongs to the layers above and is kept as it is.

use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::frame::SEQ_MAX;

/// The format this version writes. A file keeps its format for life.
pub const FORMAT: u64 = 1;

/// What the engine knows of a header.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// `meta.format`; 0 if the header does not say.
    pub format: u64,
    /// `meta.requires`: what a writer must understand.
    pub requires: Vec<String>,
    /// The number of the first record after the header: 1, or in a fork the one after the parent's part.
    pub first_seq: u64,
}

impl Header {
    /// Reads a record that was verified and has the number 0.
    pub(crate) fn parse(record: &[u8]) -> Header {
        #[derive(Deserialize)]
        struct Line {
            #[serde(default)]
            meta: Meta,
        }
        #[derive(Deserialize, Default)]
        struct Meta {
            #[serde(default)]
            format: u64,
            #[serde(default)]
            requires: Vec<String>,
            parent: Option<Parent>,
        }
        #[derive(Deserialize)]
        struct Parent {
            upto: u64,
        }
        match serde_json::from_slice::<Line>(record) {
            Ok(Line { meta }) => Header {
                format: meta.format,
                requires: meta.requires,
                // A number beyond the limit is nobody's; it must not overflow what is counted from it.
                first_seq: meta.parent.map_or(1, |p| p.upto.min(SEQ_MAX) + 1),
            },
            // It verifies but does not have the shape we know: somebody newer wrote it. Format 0 is never written.
            Err(_) => Header { first_seq: 1, ..Header::default() },
        }
    }

    /// Refuses to write where this version might not do it right.
    pub(crate) fn check_writable(&self, path: &Path) -> Result<()> {
        let needs = if let Some(feature) = self.requires.first() {
            format!("the feature {feature:?}")
        } else if self.format == FORMAT {
            return Ok(());
        } else {
            format!("format {}", self.format)
        };
        Err(Error::Newer { path: path.to_owned(), needs })
    }
}
