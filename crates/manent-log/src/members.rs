//! The members of a JSON object, looked at without descending into them.
//!
//! Values are never parsed: nesting of any depth is skipped by a loop, not by recursion, numbers keep their digits
//! and duplicate keys inside values stay. `serde_json` does the walking.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::body::without_lone_surrogates;

/// The marks of a record, `seq` and `crc`, that a line carries as members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberMarks {
    /// Text that is no JSON.
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
pub(crate) fn marks(line: &str) -> MemberMarks {
    if !line.trim_start().starts_with('{') {
        return if serde_json::from_str::<IgnoredAny>(line).is_ok() {
            MemberMarks::NotObject
        } else {
            MemberMarks::NotJson
        };
    }
    match marks_of_object(line) {
        MemberMarks::NotJson => match without_lone_surrogates(line) {
            Cow::Owned(mended) => marks_of_object(&mended),
            Cow::Borrowed(_) => MemberMarks::NotJson,
        },
        marks => marks,
    }
}

fn marks_of_object(line: &str) -> MemberMarks {
    let (mut seq, mut crc) = (false, false);
    let visited = visit::<Name<'_>, _, _>(line, |Name(name), _: IgnoredAny| {
        seq |= name == "seq";
        crc |= name == "crc";
    });
    if visited { MemberMarks::Object { seq, crc } } else { MemberMarks::NotJson }
}

/// Members with their names, values as they are written.
type Listed<'a> = Vec<(Cow<'a, str>, &'a str)>;

/// Lists the members of an object in their order, values as they are written; `None` if it is not a JSON object.
pub fn list(object: &str) -> Option<Listed<'_>> {
    let mut members = Vec::new();
    if visit(object, |Name(name), value: &RawValue| members.push((name, value.get()))) {
        return Some(members);
    }
    // A name may hold half a surrogate pair, as any string of another program's may. The parser gives such names only
    // as bytes, without its other checks, so that the text is checked first with the halves replaced.
    let Cow::Owned(mended) = without_lone_surrogates(object) else { return None };
    if matches!(marks_of_object(&mended), MemberMarks::NotJson) {
        return None;
    }
    members.clear();
    visit(object, |Bytes(name), value: &RawValue| members.push((name, value.get()))).then_some(members)
}

/// Lists the members of each object in an array, as [`list`] does; `None` if it is not exactly an array of objects.
/// One walk, where an array of raw values would be walked twice.
pub fn lists(array: &str) -> Option<Vec<Listed<'_>>> {
    let objects: Vec<Object<'_>> = serde_json::from_str(array).ok()?;
    Some(objects.into_iter().map(|Object(members)| members).collect())
}

/// Calls `see` for each member; false if the text is not exactly one JSON object.
fn visit<'a, N, V, F>(object: &'a str, see: F) -> bool
where
    N: serde::Deserialize<'a>,
    V: serde::Deserialize<'a>,
    F: FnMut(N, V),
{
    let mut json = serde_json::Deserializer::from_str(object);
    let each = Each { see, kinds: std::marker::PhantomData::<(N, V)> };
    json.deserialize_map(each).is_ok() && json.end().is_ok()
}

struct Each<N, V, F> {
    see: F,
    kinds: std::marker::PhantomData<(N, V)>,
}

impl<'de, N, V, F> Visitor<'de> for Each<N, V, F>
where
    N: serde::Deserialize<'de>,
    V: serde::Deserialize<'de>,
    F: FnMut(N, V),
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key()? {
            (self.see)(name, map.next_value()?);
        }
        Ok(())
    }
}

/// An object inside something else.
struct Object<'a>(Listed<'a>);

impl<'de> serde::Deserialize<'de> for Object<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = Vec::new();
        let see = |Name(name): Name<'de>, value: &'de RawValue| members.push((name, value.get()));
        deserializer.deserialize_map(Each { see, kinds: std::marker::PhantomData })?;
        Ok(Object(members))
    }
}

/// A member's name, borrowed where it holds no escape (`Cow` alone would always copy).
struct Name<'a>(Cow<'a, str>);

/// A member's name with half a surrogate pair in it, which becomes a replacement character.
struct Bytes<'a>(Cow<'a, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text).map(Name)
    }
}

impl<'de> serde::Deserialize<'de> for Bytes<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(Text).map(Bytes)
    }
}

struct Text;

impl<'de> Visitor<'de> for Text {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a member's name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(name.to_owned()))
    }

    fn visit_borrowed_bytes<E>(self, name: &'de [u8]) -> Result<Cow<'de, str>, E> {
        Ok(String::from_utf8_lossy(name))
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(name).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_members_of_the_object_itself_not_of_what_is_in_it() {
        assert_eq!(marks(r#"{"a":{"seq":1,"crc":""}}"#), MemberMarks::Object { seq: false, crc: false });
        assert_eq!(marks(r#"{"s\u0065q":1}"#), MemberMarks::Object { seq: true, crc: false });
        assert_eq!(marks(r#"{"\ud800":1,"crc":2}"#), MemberMarks::Object { seq: false, crc: true });
        assert_eq!(marks("[1]"), MemberMarks::NotObject);
        assert_eq!(marks("{} {}"), MemberMarks::NotJson);
        assert_eq!(marks("{\"a\":\"\u{1}\"}"), MemberMarks::NotJson, "a raw control character is not JSON");
    }

    #[test]
    fn deep_nesting_is_walked_without_recursion() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(marks(&deep), MemberMarks::Object { seq: false, crc: false });
        assert_eq!(list(&deep).map(|m| m.len()), Some(1));
    }

    #[test]
    fn a_name_may_hold_half_a_surrogate_pair_and_nothing_else_becomes_lax() {
        let line = r#"{"\ud800":1,"role":"user"}"#;
        assert_eq!(list(line).map(|m| m[1].1), Some("\"user\""));
        assert_eq!(list("{\"\\ud800\":1,\"a\tb\":2}"), None, "a raw tab in a name");
        assert_eq!(marks("{\"\\ud800\":1,\"a\tb\":2}"), MemberMarks::NotJson);
    }

    #[test]
    fn an_array_of_objects_is_listed_as_each_of_them_would_be() {
        let objects = [r#"{"a":[{"b":1}],"b":"x"}"#, "{}", r#"{"\u0061":1e400}"#];
        let array = format!("[{}]", objects.join(", "));
        let listed = lists(&array).expect("an array");
        let each: Vec<_> = objects.iter().map(|object| list(object).expect("an object")).collect();
        assert_eq!(listed, each);
        for other in ["[1]", "[{}, null]", "{}", "[{}", "[{}] x", ""] {
            assert_eq!(lists(other), None, "{other}");
        }
    }

    #[test]
    fn values_keep_their_bytes() {
        let object = r#"{"n":1e400,"m":0.1000000000000000055,"d":{"k":1,"k":2},"s":"\ud800"}"#;
        let members = list(object).expect("an object");
        let values: Vec<&str> = members.iter().map(|(_, v)| *v).collect();
        assert_eq!(values, ["1e400", "0.1000000000000000055", r#"{"k":1,"k":2}"#, r#""\ud800""#]);
    }
}
