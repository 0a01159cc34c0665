//! Where the frontmatter of a `SKILL.md` ends and its body begins.
//!
//! A line that is exactly `---` (blanks may follow) and begins in the first column is never part of a YAML value: not
//! in quotes, not in a block, which is indented. So the first such line behind the opening one ends the frontmatter,
//! and no value and no rule in the body can be taken for it.

/// The two parts of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sections<'a> {
    /// Frontmatter and body.
    Both {
        /// The frontmatter between its two lines, without them.
        front: &'a str,
        /// The number of its first line.
        front_line: u32,
        body: &'a str,
        body_line: u32,
        /// Set if invisible characters precede the frontmatter.
        preceded: bool,
    },
    /// The file does not begin with `---`.
    BodyOnly { body: &'a str },
    /// The frontmatter begins and does not end.
    Endless { line: u32 },
}

pub(super) fn split(text: &str) -> Sections<'_> {
    let all = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The end and the number of the line that opened the frontmatter.
    let mut opened = None;
    let mut end = 0;
    for (number, line) in (1..).zip(all.split_inclusive('\n')) {
        let start = end;
        end += line.len();
        match opened {
            None if line.trim().is_empty() => {}
            None if is_rule(line) => opened = Some((end, number)),
            None => break,
            Some((front, first)) if is_rule(line) => {
                return Sections::Both {
                    front: &all[front..start],
                    front_line: first + 1,
                    body: &all[end..],
                    body_line: number + 1,
                    preceded: first > 1 || all.len() < text.len(),
                };
            }
            Some(_) => {}
        }
    }
    opened.map_or(Sections::BodyOnly { body: all }, |(_, line)| Sections::Endless { line })
}

fn is_rule(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim_matches([' ', '\t', '\r', '\n']).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (&str, u32, &str, u32) {
        match split(text) {
            Sections::Both { front, front_line, body, body_line, .. } => (front, front_line, body, body_line),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn the_first_rule_in_the_first_column_ends_it_and_nothing_else_does() {
        assert_eq!(parts("---\na: b\n---\nbody\n---\nmore"), ("a: b\n", 2, "body\n---\nmore", 4));
        assert_eq!(parts("---\r\na: b\r\n---\r\nbody"), ("a: b\r\n", 2, "body", 4));
        assert_eq!(parts("\u{feff}\n \n--- \na: b\n---"), ("a: b\n", 4, "", 6));
        assert_eq!(parts("---\n---\n"), ("", 2, "", 3));
        let values = "a: x --- y\nb: |\n  one\n  ---\n  two\nc: ----\nd: '---'\n";
        assert_eq!(parts(&format!("---\n{values}---\nbody")), (values, 2, "body", 10));
    }

    #[test]
    fn what_is_no_frontmatter_is_named() {
        assert_eq!(
            split("# Title\n---\na: b\n---\n"),
            Sections::BodyOnly { body: "# Title\n---\na: b\n---\n" }
        );
        assert_eq!(split(""), Sections::BodyOnly { body: "" });
        assert_eq!(split(" ---\na: b\n---\n"), Sections::BodyOnly { body: " ---\na: b\n---\n" });
        assert_eq!(split("\n---\na: b\n ---\n"), Sections::Endless { line: 2 });
        assert_eq!(split("---"), Sections::Endless { line: 1 });
    }
}
