//! Lines of a log made by hand, by the rules of the format and not by the code under test: this is what another
//! implementation would write.

/// Closes the members of a record with their checksum. No newline.
pub(crate) fn sealed(members: &str) -> String {
    let open = format!("{{{members}");
    format!(r#"{open},"crc":"{:08x}"}}"#, crc32c::crc32c(open.as_bytes()))
}

/// The header of a session.
pub(crate) fn header(key: &str) -> String {
    header_with(key, r#""format":1"#)
}

/// A header with other members in its `meta` than usual.
pub(crate) fn header_with(key: &str, members: &str) -> String {
    let key = serde_json::to_string(key).unwrap();
    let id = "01a1e14a-05ca-731a-9829-bf4cb9d544dd";
    sealed(&format!(r#""seq":0,"ts":"{TS}","meta":{{{members},"id":"{id}","key":{key}}}"#))
}

/// A turn of the user.
pub(crate) fn turn(seq: u64, content: &str) -> String {
    let content = serde_json::to_string(content).unwrap();
    sealed(&format!(r#""seq":{seq},"ts":"{TS}","role":"user","content":{content}"#))
}

/// Another program's turn, as `append --jsonl` takes it.
pub(crate) fn plain(content: &str) -> String {
    let content = serde_json::to_string(content).unwrap();
    format!(r#"{{"ts":"{TS}","role":"user","content":{content}}}"#)
}

/// Lines with a newline behind each.
pub(crate) fn file<L: AsRef<[u8]>>(lines: &[L]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line.as_ref());
        bytes.push(b'\n');
    }
    bytes
}

/// A whole session: a header, and these turns.
pub(crate) fn session(key: &str, contents: &[&str]) -> Vec<u8> {
    let mut lines = vec![header(key)];
    lines.extend((1..).zip(contents).map(|(seq, content)| turn(seq, content)));
    file(&lines)
}

/// The members of a record without number and checksum: what a copy of it must have in common with it.
pub(crate) fn body(record: &str) -> &str {
    let rest = record.strip_prefix(r#"{"seq":"#).expect("a record begins with its number");
    let (_, members) = rest.split_once(',').expect("a record has members");
    let end = members.len().checked_sub(CRC_BYTES).expect("a record ends with its checksum");
    assert!(members[end..].starts_with(r#","crc":""#), "{record}");
    &members[..end]
}

/// Any time will do, as long as it is always the same.
pub(crate) const TS: &str = "2026-11-15T18:07:00.123Z";
const CRC_BYTES: usize = 18;
