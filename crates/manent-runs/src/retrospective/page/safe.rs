//! Text from a record on its way into a page.

/// Text as HTML takes it, in an element and in a quoted attribute. What a browser would obey, or a reader would see
/// otherwise than it is, is shown as a sign that stands for nothing.
pub(super) fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(' '),
            c if is_hidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Control characters, and marks that turn the direction of writing or are not seen.
pub(in crate::retrospective) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061C}' | '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_it_is_markup() {
        let hostile = "</script><img src=x onerror=\"alert('1')\">&\u{202e}\u{0}\u{1b}[31m";
        let shown = safe(hostile);
        assert!(!shown.contains(['<', '>', '"', '\'', '\u{202e}', '\u{0}', '\u{1b}']), "{shown}");
        assert_eq!(safe("a & b"), "a &amp; b");
    }
}
