//! A second chance for frontmatter that is no YAML because nobody quoted a value with a colon.
//!
//! `description: Use this when: the user asks` is the mistake that people make. Values that stand on the line of their
//! key and hold a colon, or begin with a character that YAML keeps for itself, are put in quotes; everything else
//! stays, and so does the number of every line.

/// The same with such values quoted; nothing if there are none.
pub(super) fn quoted(front: &str) -> Option<String> {
    let lines: Vec<&str> = front.lines().collect();
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    let mut changed = false;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let Some((key, value)) = field(line).filter(|(_, value)| !value.is_empty()) else {
            out.push((*line).to_owned());
            continue;
        };
        // What is further in than its key belongs to the key's value.
        let indent = indent_of(line);
        let more = lines[at..].iter().take_while(|next| belongs(next, indent)).count();
        if value.starts_with(['|', '>']) {
            // A block takes anything; it is not to be touched.
            out.push((*line).to_owned());
            out.extend(lines[at..at + more].iter().map(|line| (*line).to_owned()));
            at += more;
            continue;
        }
        if !needs_quotes(value, &lines[at..at + more]) {
            out.push((*line).to_owned());
            continue;
        }
        let mut whole = value.to_owned();
        for next in &lines[at..at + more] {
            whole.push(' ');
            whole.push_str(next.trim());
        }
        out.push(format!("{key} '{}'", whole.trim_end().replace('\'', "''")));
        out.extend(std::iter::repeat_n(String::new(), more));
        at += more;
        changed = true;
    }
    changed.then(|| out.join("\n"))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn belongs(line: &str, indent: usize) -> bool {
    line.trim().is_empty() || indent_of(line) > indent
}

/// `key:` with what is before it, and the value behind it.
fn field(line: &str) -> Option<(&str, &str)> {
    let at = line.find(':')?;
    let (key, value) = (&line[..=at], &line[at + 1..]);
    let word = key[..at].trim_start();
    let is_word =
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let is_apart = value.is_empty() || value.starts_with([' ', '\t']);
    (is_word && is_apart && word != "-").then_some((key, value.trim()))
}

fn needs_quotes(value: &str, more: &[&str]) -> bool {
    if value.starts_with(['\'', '"', '[', '{', '#']) {
        return false;
    }
    let holds_colon =
        |text: &str| text.contains(": ") || text.contains(":\t") || text.trim_end().ends_with(':');
    value.starts_with(['*', '&', '!', '%', '@', '`'])
        || holds_colon(value)
        || more.iter().any(|line| holds_colon(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_it_is_quoted_and_lines_keep_their_numbers() {
        let front =
            "name: a\ndescription: Use when: it's\n  needed: now\nmetadata:\n  note: x: y\nb: |\n  k: v: w\n";
        let mended = "name: a\ndescription: 'Use when: it''s needed: now'\n\n\
                      metadata:\n  note: 'x: y'\nb: |\n  k: v: w";
        assert_eq!(quoted(front).as_deref(), Some(mended));
        assert_eq!(quoted("a: b\nc: 'x: y'\nd: [p: q]\nurl: http://x/y\n"), None);
        assert_eq!(quoted("d: *bold* move").as_deref(), Some("d: '*bold* move'"));
        assert_eq!(quoted(""), None);
    }
}
