//! Consolidation without a model: what happened is quoted, and nothing is learned.

use super::{Extractor, ExtractorError, ExtractorReply};

/// An extractor that extracts nothing: where there is no model, days are still told, in the words that were said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WithoutModel;

impl Extractor for WithoutModel {
    fn name(&self) -> &'static str {
        "none"
    }

    fn prompt(&self) -> &'static str {
        ""
    }

    fn max_input(&self) -> u64 {
        4000
    }

    fn daily(&mut self, _transcript: &str) -> Result<ExtractorReply, ExtractorError> {
        Ok(ExtractorReply::default())
    }

    fn facts(
        &mut self,
        _evidence: &str,
        _complaint: Option<(&str, &str)>,
    ) -> Result<ExtractorReply, ExtractorError> {
        Ok(ExtractorReply { text: r#"{"facts":[]}"#.to_owned(), ..ExtractorReply::default() })
    }
}
