//! Takes out of an output what differs from run to run, so that the rest can be compared whole.

/// Replaces the path of the store, times, ids, checksums and process numbers by their names in brackets.
pub(crate) fn normalise(text: &str, home: &str) -> String {
    let mut text = text.to_owned();
    if !home.is_empty() {
        text = text.replace(home, "[home]");
    }
    for (shape, name) in SHAPES {
        text = replace_shape(&text, shape, name);
    }
    text.replace(env!("CARGO_PKG_VERSION"), "[version]")
}

/// In a shape, `#` is a digit, `x` a hexadecimal digit, and a trailing `+` any number of the digit before it.
const SHAPES: [(&str, &str); 5] = [
    ("####-##-##T##:##:##.###Z", "[time]"),
    ("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "[id]"),
    ("@xxxxxxxx-xxxx", "@[id]"),
    (r#""crc":"xxxxxxxx""#, r#""crc":"[crc]""#),
    ("pid #+", "pid [pid]"),
];

fn replace_shape(text: &str, shape: &str, name: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(length) = match_shape(rest, shape) {
            out.push_str(name);
            rest = &rest[length..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Returns the length of the start of the text that has this shape.
fn match_shape(text: &str, shape: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for wanted in shape.bytes() {
        if wanted == b'+' {
            at += bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            continue;
        }
        let found = *bytes.get(at)?;
        let fits = match wanted {
            b'#' => found.is_ascii_digit(),
            b'x' => found.is_ascii_digit() || (b'a'..=b'f').contains(&found),
            other => found == other,
        };
        if !fits {
            return None;
        }
        at += 1;
    }
    Some(at)
}

#[test]
fn a_snapshot_hides_what_changes_and_nothing_else() {
    let text =
        r#"/h/x 2026-11-15T22:18:07.178Z 01a1e14a-05ca-731a-9829-bf4cb9d544dd "crc":"9b2ff49a" pid 42;é 12"#;
    assert_eq!(normalise(text, "/h"), r#"[home]/x [time] [id] "crc":"[crc]" pid [pid];é 12"#);
}
