//! [`Record`]: a view of one line of a session, with its role or kind, its time and its text.
//!
//! The scanner finds the envelope at once; the text is decoded only on request. Lines that are not laid out as we write
//! them, mostly those of other programs, go through a JSON parser and read the same. Unknown kinds and members are
//! neither dropped nor interpreted: [`Record::line`] has the bytes as they are.

use std::borrow::Cow;

use manent_log::{Body, BodyError, Entry, frame};
use serde_json::value::RawValue;

use crate::scan::{self, Envelope};

/// One line of a session.
#[derive(Debug, Clone)]
pub struct Record<'a> {
    seq: u64,
    verified: bool,
    line: &'a str,
    members: Members<'a>,
}

#[derive(Debug, Clone)]
enum Members<'a> {
    /// Laid out as we write: places in the body.
    Known(&'a str, Envelope),
    /// Anything else: taken apart by a parser.
    Parsed(Vec<(Cow<'a, str>, &'a str)>),
}

impl<'a> Record<'a> {
    /// Parses an entry. Returns `None` if it is not UTF-8, which no writer of ours produces.
    pub fn of(entry: &Entry<'a>) -> Option<Record<'a>> {
        let line = simdutf8::basic::from_utf8(entry.bytes).ok()?;
        let known = entry.verified.then(|| frame::body_range(entry.bytes)).and_then(|range| {
            let body = line.get(range)?;
            Some(Members::Known(body, scan::envelope(body.as_bytes())?))
        });
        let members = match known {
            Some(members) => members,
            None => Members::Parsed(manent_log::members_of(line).unwrap_or_default()),
        };
        Some(Record { seq: entry.seq, verified: entry.verified, line, members })
    }

    /// Returns the number of the record.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns true if the line had a checksum, and it matched.
    pub fn verified(&self) -> bool {
        self.verified
    }

    /// The whole line as it stands in the file.
    pub fn line(&self) -> &'a str {
        self.line
    }

    /// Returns the role of the speaker if this is a turn.
    pub fn role(&self) -> Option<Cow<'a, str>> {
        self.envelope_string("role", |e| e.role.clone())
    }

    /// Returns the kind of a record that is not a turn.
    pub fn kind(&self) -> Option<Cow<'a, str>> {
        self.envelope_string("kind", |e| e.kind.clone())
    }

    /// Returns the time at which the record was written, by the writer's clock.
    pub fn ts(&self) -> Option<Cow<'a, str>> {
        self.envelope_string("ts", |e| e.ts.clone())
    }

    /// Returns the decoded text; empty if there is none. If another program's `content` is not a string, returns its
    /// JSON.
    pub fn content(&self) -> Cow<'a, str> {
        let Members::Known(body, envelope) = &self.members else {
            return self.string("content").unwrap_or_default();
        };
        let Some(place) = envelope.content.clone() else { return Cow::Borrowed("") };
        if let Some(text) = scan::unescaped(&body[place]) {
            return text;
        }
        // `content` was not the last member after all.
        self.string("content").unwrap_or_default()
    }

    /// Returns the text that was said. If another program's content is a list of parts, returns the parts that are
    /// text, without tool output, which some programs put into a turn of the user.
    #[cfg(feature = "search")]
    pub(crate) fn spoken_text(&self) -> Cow<'a, str> {
        let content = self.content();
        if !content.starts_with(['[', '{']) {
            return content;
        }
        let Some(json) = self.member("content").filter(|json| !json.starts_with('"')) else { return content };
        let Ok(serde_json::Value::Array(parts)) = serde_json::from_str(json) else {
            return Cow::Borrowed("");
        };
        let text_of = |part: &serde_json::Value| {
            let kind = part.get("type").and_then(serde_json::Value::as_str);
            let text = part
                .get("text")
                .filter(|_| matches!(kind, None | Some("text" | "input_text" | "output_text")));
            text.unwrap_or(part).as_str().map(str::to_owned)
        };
        Cow::Owned(parts.iter().filter_map(text_of).collect::<Vec<_>>().join("\n\n"))
    }

    /// The JSON of any member, by name.
    pub fn member(&self, name: &str) -> Option<&'a str> {
        let find = |list: &[(Cow<'a, str>, &'a str)]| list.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        match &self.members {
            Members::Parsed(list) => find(list),
            Members::Known(..) => find(&manent_log::members_of(self.line)?),
        }
    }

    /// Parses the JSON of a member. Returns `None` if it is missing or of another type.
    pub(crate) fn parse<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.member(name)?).ok()
    }

    /// A member that is a string, decoded; for anything else, its JSON.
    pub fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        let json = self.member(name)?;
        Some(serde_json::from_str::<String>(json).map_or(Cow::Borrowed(json), Cow::Owned))
    }

    /// Returns true if the scanner saw no members but time, role, kind and text.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(&self.members, Members::Known(_, envelope) if envelope.extra.is_empty())
    }

    pub(crate) fn is_turn(&self) -> bool {
        match &self.members {
            Members::Known(_, envelope) => envelope.role.is_some(),
            Members::Parsed(list) => list.iter().any(|(name, _)| name == "role"),
        }
    }

    /// The members besides `ts`, `role`, `kind` and `content`, as JSON without braces, where they stand together.
    pub(crate) fn parts(&self) -> Option<(&'a str, &Envelope)> {
        match &self.members {
            Members::Known(body, envelope) => Some((body, envelope)),
            Members::Parsed(_) => None,
        }
    }

    fn envelope_string(
        &self,
        name: &str,
        place: impl Fn(&Envelope) -> Option<std::ops::Range<usize>>,
    ) -> Option<Cow<'a, str>> {
        match &self.members {
            Members::Known(body, envelope) => place(envelope).map(|range| Cow::Borrowed(&body[range])),
            Members::Parsed(_) => self.string(name),
        }
    }
}

/// The reason why something cannot be appended as a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The JSON itself is at fault.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// A member is not JSON.
    #[error("not JSON: {0}")]
    Json(String),
    /// Headers are written by the store alone.
    #[error("a record may not have the member \"meta\": headers are written by the store")]
    Meta,
    /// Neither a turn nor anything else.
    #[error("a record needs \"role\" (a turn) or \"kind\" (anything else), as a string")]
    NoRole,
    /// `content` must be a string.
    #[error("\"content\" must be a string; put media and other parts into \"parts\" beside it")]
    Content,
}

/// A turn to be appended, said now.
///
/// ```
/// let turn = manent::turn("assistant", "42").string("model", "llama").json("usage", r#"{"output":2}"#)?;
/// let body = manent::Body::from(turn);
/// assert!(body.as_str().ends_with(r#""model":"llama","usage":{"output":2},"content":"42""#));
/// # Ok::<(), manent::RecordError>(())
/// ```
pub fn turn(role: &str, content: impl Into<String>) -> NewTurn {
    NewTurn {
        ts: manent_store::clock::now(),
        role: role.to_owned(),
        members: Vec::new(),
        content: content.into(),
    }
}

/// A turn that is being put together. See [`turn`].
#[derive(Debug, Clone)]
pub struct NewTurn {
    ts: String,
    role: String,
    /// Names, and their values as JSON.
    members: Vec<(String, Box<RawValue>)>,
    content: String,
}

impl NewTurn {
    /// Sets a member to a string: `ts`, `role` and `content` too. A member that was set before is replaced. The members
    /// `seq`, `crc`, `meta` and `kind` belong to the store, and are left out.
    #[must_use]
    pub fn string(mut self, name: &str, value: &str) -> NewTurn {
        match name {
            "ts" => value.clone_into(&mut self.ts),
            "role" => value.clone_into(&mut self.role),
            "content" => value.clone_into(&mut self.content),
            _ => {
                // A string always serialises.
                if let Ok(raw) = serde_json::value::to_raw_value(value) {
                    self.set(name, raw);
                }
            }
        }
        self
    }

    /// Gives the turn an idempotency key: if an append of it fails with an unknown outcome
    /// ([`Error::is_unknown`](crate::Error::is_unknown)), or nobody heard of its end, it can be appended again with the
    /// same key, by this or another process, and stands in the session once. The key counts among at least the last
    /// 1,000 records of one session, whatever else the turn says; it has 1 to 1,024 bytes.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let store = manent::Store::open(dir.path())?;
    /// # let key = manent::SessionKey::new("work")?;
    /// let first = store.append(&key, manent::turn("user", "hello").key("message-17"))?;
    /// let again = store.append(&key, manent::turn("user", "hello").key("message-17"))?;
    /// assert_eq!(first.seq, again.seq);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn key(self, key: &str) -> NewTurn {
        self.string("idempotency_key", key)
    }

    /// Sets a member to what is JSON already: tool calls, usage, parts. What [`NewTurn::string`] says of names holds
    /// here, and `ts`, `role` and `content` must be strings.
    pub fn json(mut self, name: &str, json: &str) -> Result<NewTurn, RecordError> {
        let not_json = |e: serde_json::Error| RecordError::Json(e.to_string());
        if matches!(name, "ts" | "role" | "content") {
            let text: String = serde_json::from_str(json).map_err(not_json)?;
            return Ok(self.string(name, &text));
        }
        self.set(name, serde_json::from_str(json).map_err(not_json)?);
        Ok(self)
    }

    fn set(&mut self, name: &str, json: Box<RawValue>) {
        if matches!(name, "seq" | "crc" | "meta" | "kind") {
            return;
        }
        self.members.retain(|(known, _)| known != name);
        self.members.push((name.to_owned(), json));
    }
}

impl From<NewTurn> for Body {
    fn from(turn: NewTurn) -> Body {
        let mut body = Body::new();
        body.string("ts", &turn.ts).string("role", &turn.role);
        for (name, json) in &turn.members {
            body.json(name, json);
        }
        // Last, so that a reader finds everything else without touching the text.
        body.string("content", &turn.content);
        if turn.members.iter().any(|(name, _)| name == "idempotency_key") {
            return body.keyed_by_member();
        }
        body
    }
}

/// Another program's line as a record of ours. What cannot be one is kept as text in one.
pub(crate) fn body_of_line(entry: &Entry<'_>) -> Body {
    Body::parse(entry.bytes).unwrap_or_else(|_| {
        let mut body = Body::new();
        body.string("kind", "foreign").string("line", &String::from_utf8_lossy(entry.bytes));
        body
    })
}

/// Returns true if a line is a turn.
pub(crate) fn is_turn(line: &[u8]) -> bool {
    let entry = Entry { seq: 1, offset: 0, bytes: line, verified: line.starts_with(br#"{"seq":"#) };
    Record::of(&entry).is_some_and(|record| record.is_turn())
}

/// Makes the body of a turn.
pub fn turn_body(ts: &str, role: &str, content: &str) -> Body {
    let mut body = Body::new();
    write_turn(&mut body, ts, role, content);
    body
}

/// Writes the body of a turn, as [`turn_body`] does, into a body whose memory is used again.
pub fn write_turn(body: &mut Body, ts: &str, role: &str, content: &str) {
    body.clear();
    body.string("ts", ts).string("role", role).string("content", content);
}

/// Makes a body of a JSON object, as `append --jsonl` takes it: `seq` and `crc` are dropped, so that what was read can
/// be appended again; `ts` is added where it is missing; a turn without `content` gets an empty one, and one with an
/// `idempotency_key` is recorded once ([`NewTurn::key`]).
pub fn body_of_json(object: &[u8], ts: &str) -> Result<Body, RecordError> {
    let parsed = Body::parse(object)?;
    let braced = format!("{{{}}}", parsed.as_str());
    let members = manent_log::members_of(&braced).unwrap_or_default();
    let value = |name: &str| members.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
    let is_string = |json: &str| json.starts_with('"');
    if value("meta").is_some() {
        return Err(RecordError::Meta);
    }
    let named = [value("role"), value("kind")];
    if named.iter().all(Option::is_none) || named.iter().flatten().any(|json| !is_string(json)) {
        return Err(RecordError::NoRole);
    }
    if value("content").is_some_and(|json| !is_string(json)) {
        return Err(RecordError::Content);
    }
    let add_ts = value("ts").is_none();
    let add_content = value("role").is_some() && value("content").is_none();
    // In records that are no turns the member may mean something else: the two ends of a run have the same.
    let is_keyed = value("role").is_some() && value("idempotency_key").is_some();
    let body = if add_ts || add_content {
        let ts = if add_ts { format!(r#""ts":"{ts}","#) } else { String::new() };
        let content = if add_content { r#","content":"""# } else { "" };
        Body::parse(format!("{{{ts}{}{content}}}", parsed.as_str()).as_bytes())?
    } else {
        parsed
    };
    Ok(if is_keyed { body.keyed_by_member() } else { body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: &str, verified: bool) -> Entry<'_> {
        Entry { seq: 1, offset: 0, bytes: line.as_bytes(), verified }
    }

    #[test]
    fn a_turn_reads_the_same_whether_we_laid_it_out_or_somebody_else() {
        let ours = r#"{"seq":1,"ts":"t","role":"user","x":[1],"content":"a\nb","crc":"00000000"}"#;
        let other = r#"{"content":"a\nb","x":[1],"role":"user","ts":"t"}"#;
        for (line, verified) in [(ours, true), (other, false)] {
            let record = Record::of(&entry(line, verified)).expect("UTF-8");
            assert_eq!(record.role().as_deref(), Some("user"));
            assert_eq!(record.ts().as_deref(), Some("t"));
            assert_eq!(record.content(), "a\nb");
            assert_eq!(record.member("x"), Some("[1]"));
            assert!(record.is_turn());
        }
    }

    #[test]
    fn content_that_is_not_last_is_not_read_beyond_its_end() {
        let line = r#"{"seq":1,"role":"user","content":"a","x":"b","crc":"00000000"}"#;
        let record = Record::of(&entry(line, true)).expect("UTF-8");
        assert_eq!(record.content(), "a");
        assert_eq!(record.string("x").as_deref(), Some("b"));
    }

    #[test]
    fn a_given_record_is_completed_and_checked() {
        let body = |json: &str| body_of_json(json.as_bytes(), "NOW").map(|b| b.as_str().to_owned());
        assert_eq!(
            body(r#"{"content":"x","role":"user","seq":4,"crc":"0"}"#).unwrap(),
            r#""ts":"NOW","role":"user","content":"x""#
        );
        assert_eq!(body(r#"{"ts":"t","role":"user"}"#).unwrap(), r#""ts":"t","role":"user","content":"""#);
        assert_eq!(
            body(r#"{"kind":"title","title":"x"}"#).unwrap(),
            r#""ts":"NOW","kind":"title","title":"x""#
        );
        assert_eq!(body(r#"{"meta":{},"role":"user"}"#), Err(RecordError::Meta));
        assert_eq!(body(r#"{"content":"x"}"#), Err(RecordError::NoRole));
        assert_eq!(body(r#"{"role":1}"#), Err(RecordError::NoRole));
        assert_eq!(body(r#"{"role":"user","content":["x"]}"#), Err(RecordError::Content));
        assert!(matches!(body("{"), Err(RecordError::Body(_))));
    }
}
