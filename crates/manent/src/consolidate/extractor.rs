//! Extractors: the interface to a model that reads passages, its replies, and a stand-in without a model.

use serde_json::Value;

use super::grounding::Claim;
use crate::memory::Kind;

/// A model, mostly, that reads a passage and says what is in it.
pub trait Extractor {
    /// Returns the name that records of its work carry.
    fn name(&self) -> &str;
    /// Returns its instructions. Their hash, with the name, goes into the record: the same passage is not given twice
    /// to the same extractor with the same instructions.
    fn prompt(&self) -> &str;
    /// Returns the number of tokens of a passage that it takes at once.
    fn max_input(&self) -> u64;
    /// Tells in a sentence or two what happened in a passage.
    fn daily(&mut self, transcript: &str) -> Result<ExtractorReply, ExtractorError>;
    /// Names what of the user's words is worth remembering, as JSON that follows [`schema`]. A `complaint` has the
    /// reply to an earlier attempt and what is wrong with it.
    fn facts(
        &mut self,
        evidence: &str,
        complaint: Option<(&str, &str)>,
    ) -> Result<ExtractorReply, ExtractorError>;
}

/// The reply of an extractor, and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct ExtractorReply {
    pub text: String,
    pub spent: TokensSpent,
}

/// The tokens that models read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain data")]
pub struct TokensSpent {
    pub input: u64,
    pub output: u64,
}

/// The reason why an extractor did not reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtractorError {
    /// The extractor cannot be reached. The passage is looked at again when it can.
    Unavailable(String),
    /// The extractor cannot do this passage. After some attempts the passage is done without it.
    Refused(String),
}

/// Returns the JSON schema that a reply to [`Extractor::facts`] must follow.
pub fn schema() -> Value {
    serde_json::json!({
        "type": "object",
        "properties": {"facts": {"type": "array", "maxItems": CLAIMS_MAX, "items": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["fact", "pref", "context"]},
                "quote": {"type": "string"},
                "content": {"type": "string"},
            },
            "required": ["kind", "quote", "content"],
        }}},
        "required": ["facts"],
    })
}

/// Parses a reply to [`Extractor::facts`]. Text around the JSON is skipped; nothing else is forgiven. The error is a
/// complaint for the model.
pub(super) fn claims(text: &str) -> Result<Vec<Claim>, &'static str> {
    let value = json_in(text).ok_or("there is no whole JSON object in the answer")?;
    let facts = match &value {
        Value::Object(members) => members.get("facts").ok_or("the object has no member \"facts\"")?,
        other => other,
    };
    let facts = facts.as_array().ok_or("\"facts\" is not an array")?;
    let mut claims = Vec::new();
    for fact in facts.iter().take(CLAIMS_MAX) {
        let string = |name: &str| fact.get(name).and_then(Value::as_str);
        let quote = string("quote").ok_or("a fact has no \"quote\" that is a string")?;
        let content = string("content").ok_or("a fact has no \"content\" that is a string")?;
        // A word we do not know for the kind is no reason to ask again.
        let kind = string("kind").and_then(|word| word.parse().ok()).filter(|kind| *kind != Kind::Daily);
        claims.push(Claim {
            kind: kind.unwrap_or(Kind::Fact),
            content: content.to_owned(),
            quote: quote.to_owned(),
        });
    }
    Ok(claims)
}

/// The first whole JSON object or array in a text.
fn json_in(text: &str) -> Option<Value> {
    let text = &text[..text.floor_char_boundary(ANSWER_BYTES_MAX)];
    let starts = text.char_indices().filter(|(_, c)| matches!(c, '{' | '[')).take(STARTS_MAX);
    for (at, _) in starts {
        let mut read = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        if let Some(Ok(value)) = read.next() {
            return Some(value);
        }
    }
    None
}

/// The number of facts that are learned from a passage at most.
const CLAIMS_MAX: usize = 16;
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The number of possible beginnings of JSON that are tried.
const STARTS_MAX: usize = 32;

/// An extractor for stores without a model: it learns no facts, and sums days up in quotes.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_or_told_what_is_wrong() {
        let one = r#"{"kind":"pref","quote":"tabs","content":"tabs"}"#;
        let read = |text: &str| claims(text).map(|claims| claims.len());
        assert_eq!(read(r#"{"facts":[]}"#), Ok(0));
        assert_eq!(read(&format!("Sure!\n```json\n{{\"facts\":[{one}]}}\n```\nbye")), Ok(1));
        assert_eq!(read(&format!("[{one},{one}]")), Ok(2));
        assert!(read("").is_err() && read("null").is_err() && read("{\"facts\":{}}").is_err());
        assert!(read(r#"{"facts":[{"quote":1,"content":"x"}]}"#).is_err());
        assert!(read(&format!("{{\"facts\":[{one}")).is_err(), "cut off");
        assert!(read(&"[".repeat(1 << 20)).is_err(), "deep");
        let daily = r#"{"facts":[{"kind":"daily","quote":"a","content":"b"}]}"#;
        assert_eq!(claims(daily).unwrap()[0].kind, Kind::Fact);
    }
}
