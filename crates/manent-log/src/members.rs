//! The members of a JSON object, looked at without descending into them.
//!
//! Values are never parsed: nesting of any depth is skipped by a loop, not by recursion, numbers keep their digits
//! and duplicate keys inside values stay. `serde_json` does the walking.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Which of the two marks of a record a line carries as members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Not JSON at all.
    NotJson,
    /// JSON, but not an object.
    NotObject,
    /// An object, with or without members of these names.
    Object {
        /// Has a member `seq`.
        seq: bool,
        /// Has a member `crc`.
        crc: bool,
    },
}

/// Looks for `seq` and `crc` among the members of a line.
pub(crate) fn marks(line: &str) -> Marks {
    if !line.trim_start().starts_with('{') {
        return if parses::<IgnoredAny>(line) { Marks::NotObject } else { Marks::NotJson };
    }
    let (mut seq, mut crc) = (false, false);
    let visited = visit(line, |name, _: IgnoredAny| {
        seq |= name == "seq";
        crc |= name == "crc";
    });
    if visited { Marks::Object { seq, crc } } else { Marks::NotJson }
}

/// The members of an object in their order, values as they are written; nothing if it is not a JSON object.
pub fn list(object: &str) -> Option<Vec<(Cow<'_, str>, &str)>> {
    let mut members = Vec::new();
    visit(object, |name, value: &RawValue| members.push((name, value.get()))).then_some(members)
}

fn parses<'a, T: serde::Deserialize<'a>>(text: &'a str) -> bool {
    serde_json::from_str::<T>(text).is_ok()
}

/// Calls `see` for each member; false if the text is not exactly one JSON object.
fn visit<'a, V, F>(object: &'a str, see: F) -> bool
where
    V: serde::Deserialize<'a>,
    F: FnMut(Cow<'a, str>, V),
{
    let mut json = serde_json::Deserializer::from_str(object);
    json.deserialize_map(Each { see, value: std::marker::PhantomData::<V> }).is_ok() && json.end().is_ok()
}

struct Each<V, F> {
    see: F,
    value: std::marker::PhantomData<V>,
}

impl<'de, V, F> Visitor<'de> for Each<V, F>
where
    V: serde::Deserialize<'de>,
    F: FnMut(Cow<'de, str>, V),
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            (self.see)(name, map.next_value()?);
        }
        Ok(())
    }
}

/// A member's name, borrowed where it holds no escape (`Cow` alone would always copy).
struct Name<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_members_of_the_object_itself_not_of_what_is_in_it() {
        assert_eq!(marks(r#"{"a":{"seq":1,"crc":""}}"#), Marks::Object { seq: false, crc: false });
        assert_eq!(marks(r#"{"s\u0065q":1}"#), Marks::Object { seq: true, crc: false });
        assert_eq!(marks("[1]"), Marks::NotObject);
        assert_eq!(marks("{} {}"), Marks::NotJson);
        assert_eq!(marks("{\"a\":\"\u{1}\"}"), Marks::NotJson, "a raw control character is not JSON");
    }

    #[test]
    fn deep_nesting_is_walked_without_recursion() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(marks(&deep), Marks::Object { seq: false, crc: false });
        assert_eq!(list(&deep).map(|m| m.len()), Some(1));
    }

    #[test]
    fn values_keep_their_bytes() {
        let object = r#"{"n":1e400,"m":0.1000000000000000055,"d":{"k":1,"k":2},"s":"\ud800"}"#;
        let members = list(object).expect("an object");
        let values: Vec<&str> = members.iter().map(|(_, v)| *v).collect();
        assert_eq!(values, ["1e400", "0.1000000000000000055", r#"{"k":1,"k":2}"#, r#""\ud800""#]);
    }
}
