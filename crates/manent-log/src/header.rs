//! The first line of a native log: `{"seq":0,"ts":…,"meta":{"format":1,"id":…,…},"crc":…}`.
//!
//! The engine reads only what decides how it must treat the file: the format, what a reader must know to write
//! (`requires`), and where a fork's numbers begin. The rest belongs to the layers above and is kept as it is.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

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
    /// Reads a record that was verified and has the number 0. A member of another type than we know was written by
    /// somebody newer: it must not hide the others.
    pub(crate) fn parse(record: &[u8]) -> Header {
        #[derive(Deserialize)]
        struct Line {
            #[serde(default)]
            meta: Value,
        }
        let meta = serde_json::from_slice::<Line>(record).map(|line| line.meta).unwrap_or_default();
        let requires = match &meta["requires"] {
            Value::Null => Vec::new(),
            Value::Array(names) => names.iter().map(|name| name.as_str().unwrap_or("?").to_owned()).collect(),
            _ => vec!["?".to_owned()],
        };
        let upto = meta["parent"]["upto"].as_u64().filter(|upto| *upto <= SEQ_MAX);
        Header {
            format: meta["format"].as_u64().unwrap_or(0),
            requires,
            first_seq: upto.map_or(1, |upto| upto + 1),
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
