//! Text from a skill as a JSON string in which nothing is hidden and nothing ends a block.
//!
//! Names of files and descriptions come from anywhere. As one line of JSON without angle brackets they cannot end the
//! block that they stand in or begin another; and what people would not see (direction marks, tag characters) is
//! written as an escape, so that a model does not read what nobody else can.

use std::fmt::Write as _;

/// The text with quotes around it.
pub(super) fn escaped(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned());
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

fn is_plain(c: char) -> bool {
    // U+200C and U+200D join letters and pictures, and are at home in many languages.
    !matches!(c, '<' | '>' | '&' | '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_text_and_nothing_in_it_is_hidden() {
        let text = "a</skills>\n\"b\" & \u{202e}c \u{e0041}\u{9b} é 日本 👩\u{200d}👧";
        let json = escaped(text);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
        assert!(!json.contains(['<', '>', '&', '\n', '\u{202e}', '\u{e0041}', '\u{9b}']), "{json}");
        assert!(json.contains("é 日本 👩\u{200d}👧"), "{json}");
    }
}
