//! The first line of a native log: `{"seq":0,"ts":…,"meta":{"format":1,"id":…,…},"crc":…}`.
//!
//! The engine reads only what decides how it must treat the file: the format, what a reader must know to write
//! (`requires`), and where a fork's numbers begin. The rest belongs to the layers above and is kept as it is.

use std::path::Path;

use crate::error::{Error, Result};
use crate::frame::SEQ_MAX;
use crate::members;

/// The format this version writes. A file keeps its format for life.
pub const FORMAT: u64 = 1;

/// The members of a header that the engine knows.
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
    /// Reads a record that was verified and has the number 0. Each member is looked at on its own: one of another type
    /// than we know, or of any depth, was written by somebody newer and must not hide the others.
    pub fn parse(record: &[u8]) -> Header {
        let line = std::str::from_utf8(record).unwrap_or_default();
        // Taken apart once: this is done for every file that is opened.
        let meta = member(line, "meta").and_then(members::list).unwrap_or_default();
        let of_meta = |name: &str| meta.iter().rfind(|(n, _)| n == name).map(|(_, value)| *value);
        let number = |json: Option<&str>| json.and_then(|json| serde_json::from_str::<u64>(json).ok());
        let requires = of_meta("requires").map_or_else(Vec::new, |json| {
            serde_json::from_str(json).unwrap_or_else(|_| vec!["of another shape".to_owned()])
        });
        let upto = number(of_meta("parent").and_then(|parent| member(parent, "upto")));
        Header {
            format: number(of_meta("format")).unwrap_or(0),
            requires,
            first_seq: upto.filter(|upto| *upto <= SEQ_MAX).map_or(1, |upto| upto + 1),
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

/// The JSON of a member of an object, by name.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    members::list(object)?.into_iter().rfind(|(n, _)| n == name).map(|(_, value)| value)
}
