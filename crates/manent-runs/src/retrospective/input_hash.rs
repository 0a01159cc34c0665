//! A hash of JSON values that does not depend on the order of members, on blanks, or on how a number is written, to
//! find runs on the same input.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;
use serde_json::{Number, Value};

/// Returns the hash of an input. Text that is not JSON, or nested too deep, is hashed byte by byte.
pub(super) fn input_hash(json: &str) -> u64 {
    serde_json::from_str(json).map_or_else(|_| hash(&(Shape::Raw, json)), |value| hash_value(&value))
}

/// Returns true if an input holds no data.
pub(super) fn is_empty(json: &str) -> bool {
    json.bytes().all(|b| b" \t\r\n{}[]\"".contains(&b))
}

#[derive(Hash)]
enum Shape {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
    Raw,
}

fn hash_value(value: &Value) -> u64 {
    match value {
        Value::Null => hash(&Shape::Null),
        Value::Bool(is) => hash(&(Shape::Bool, is)),
        Value::Number(number) => hash_number(number),
        Value::String(text) => hash(&(Shape::Text, text)),
        Value::Array(items) => {
            items.iter().fold(hash(&Shape::List), |sum, item| hash(&(sum, hash_value(item))))
        }
        // A sum, so that the order of members does not matter.
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| hash(&(name, hash_value(value)));
            hash(&(Shape::Object, members.iter().map(member).fold(0, u64::wrapping_add)))
        }
    }
}

fn hash_number(number: &Number) -> u64 {
    let whole = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let float = number.as_f64().unwrap_or_default();
    match whole {
        Some(whole) => hash(&(Shape::Number, whole)),
        // `1.0` is `1`.
        None if float.fract() == 0.0 && float.abs() < WHOLE_BELOW => hash(&(Shape::Number, float as i128)),
        None => hash(&(Shape::Number, float.to_bits())),
    }
}

fn hash(what: &impl Hash) -> u64 {
    FixedState::with_seed(SEED).hash_one(what)
}

const WHOLE_BELOW: f64 = 9e15;
/// Any number.
const SEED: u64 = 0x69_6e_70_75_74;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_value_is_the_same_however_it_is_written() {
        let same = [
            r#"{"a":1,"b":[true,null,"x"],"c":{"d":1.0,"e":""}}"#,
            r#" { "c" : {"e":"","d":1}, "b":[true, null, "\u0078"], "a":1.0 } "#,
        ];
        assert_eq!(input_hash(same[0]), input_hash(same[1]));
        let apart = [
            "1",
            "\"1\"",
            "[1]",
            "[[1]]",
            "{\"1\":1}",
            "null",
            "[]",
            "{}",
            "\"\"",
            "true",
            "[1,2]",
            "[2,1]",
            "1.5",
            "-1",
            "18446744073709551615",
            "{\"a\":{\"b\":1}}",
            "{\"a\":1,\"b\":1}",
            "not json",
            "1e400",
        ];
        for (at, one) in apart.iter().enumerate() {
            assert!(apart[..at].iter().all(|other| input_hash(other) != input_hash(one)), "{one}");
        }
        assert!(
            is_empty("{}") && is_empty("[ ]") && is_empty("\"\"") && !is_empty("0") && !is_empty("{\"a\":1}")
        );
    }

    #[test]
    fn nesting_of_any_depth_overflows_nothing() {
        let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert_eq!(input_hash(&deep), input_hash(&deep));
    }
}
