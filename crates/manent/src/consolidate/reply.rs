//! What a model answered, read: claims, or what is wrong with it in words that the model is told.

use serde_json::Value;

use super::grounding::Claim;
use crate::memory::Kind;

/// The schema that an answer must follow.
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

/// Reads an answer. Text around the JSON is passed over; nothing else is forgiven.
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

/// More than this is not learned from a passage.
const CLAIMS_MAX: usize = 16;
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// How many beginnings of JSON are tried in a text.
const STARTS_MAX: usize = 32;

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
