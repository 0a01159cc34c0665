//! Whether two inputs are the same: a number for a JSON value that does not depend on the order of members, on blanks,
//! or on how a number is written.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The number of an input. What is no JSON, or nested too deep, counts byte by byte.
pub(super) fn number_of(json: &str) -> u64 {
    let mut reader = serde_json::Deserializer::from_str(json);
    InputHasher.deserialize(&mut reader).unwrap_or_else(|_| hash(&(Shape::Raw, json)))
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

struct InputHasher;

impl<'de> DeserializeSeed<'de> for InputHasher {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<u64, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for InputHasher {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E>(self, is: bool) -> Result<u64, E> {
        Ok(hash(&(Shape::Bool, is)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<u64, E> {
        Ok(hash(&(Shape::Number, i128::from(number))))
    }

    fn visit_u64<E>(self, number: u64) -> Result<u64, E> {
        Ok(hash(&(Shape::Number, i128::from(number))))
    }

    fn visit_f64<E>(self, number: f64) -> Result<u64, E> {
        // `1.0` is `1`.
        if number.fract() == 0.0 && number.abs() < WHOLE_BELOW {
            return Ok(hash(&(Shape::Number, number as i128)));
        }
        Ok(hash(&(Shape::Number, number.to_bits())))
    }

    fn visit_str<E>(self, text: &str) -> Result<u64, E> {
        Ok(hash(&(Shape::Text, text)))
    }

    fn visit_unit<E>(self) -> Result<u64, E> {
        Ok(hash(&Shape::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<u64, A::Error> {
        let mut sum = hash(&Shape::List);
        while let Some(item) = items.next_element_seed(InputHasher)? {
            sum = hash(&(sum, item));
        }
        Ok(sum)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<u64, A::Error> {
        // A sum, so that the order does not matter.
        let mut sum = 0_u64;
        while let Some(name) = members.next_key_seed(InputHasher)? {
            let value = members.next_value_seed(InputHasher)?;
            sum = sum.wrapping_add(hash(&(name, value)));
        }
        Ok(hash(&(Shape::Object, sum)))
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
        assert_eq!(number_of(same[0]), number_of(same[1]));
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
            assert!(apart[..at].iter().all(|other| number_of(other) != number_of(one)), "{one}");
        }
        assert!(
            is_empty("{}") && is_empty("[ ]") && is_empty("\"\"") && !is_empty("0") && !is_empty("{\"a\":1}")
        );
    }

    #[test]
    fn nesting_of_any_depth_overflows_nothing() {
        let deep = format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
        assert_eq!(number_of(&deep), number_of(&deep));
    }
}
