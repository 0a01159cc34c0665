//! Bytes as hexadecimal digits, for what is stored as JSON and need not be UTF-8.

use std::fmt::Write as _;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Returns the bytes, or `None` if the text is anything but pairs of digits.
pub(crate) fn decode(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(byte).collect()
}

/// Writes bytes as hexadecimal digits, for `#[serde(with = "hex")]`.
pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&encode(bytes))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    decode(&String::deserialize(from)?).ok_or_else(|| D::Error::custom("not hexadecimal"))
}
