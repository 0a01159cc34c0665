//! The YAML of a frontmatter as a small tree: what was written, on which line, quoted or not.
//!
//! Built from events, so that a number stays the text it was (`1.0`, not 1) and every value knows its line. Aliases are
//! not followed: a reference is kept as one, and a bomb made of them is as small as its text. Depth is bounded by the
//! parser, size by the length of the frontmatter.

use granit_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::Value as Json;

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A scalar. Plain: without quotes, so that YAML may take it for something else than a string.
    Text {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    /// A reference to another value, which is not followed.
    Alias,
}

/// The reason why a frontmatter is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: u32,
    pub(super) what: String,
}

/// Reads one document. `first_line` is the number of its first line in the file. Nothing if it is empty.
pub(super) fn parse(text: &str, first_line: u32) -> Result<Option<Node>, YamlError> {
    let mut options = granit_parser::Options::default();
    options.disallow_directives = true;
    options.emit_unresolved_aliases = true;
    options.flow_nesting_limit = DEPTH_MAX;
    options.block_nesting_limit = DEPTH_MAX;
    options.set_emit_comments(false);
    let mut tree = Tree::default();
    let line_of = |line: usize| first_line.saturating_add(u32::try_from(line).unwrap_or(u32::MAX).max(1) - 1);
    let mut documents = 0;
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            next.map_err(|e: ScanError| YamlError { line: line_of(e.marker().line()), what: e.info() })?;
        let line = line_of(span.start.line());
        match event {
            Event::DocumentStart(..) if documents == 1 => {
                return Err(YamlError { line, what: "a second document begins here".to_owned() });
            }
            Event::DocumentStart(..) => documents = 1,
            event => tree.take(event, line),
        }
    }
    Ok(tree.root)
}

#[derive(Default)]
struct Tree {
    /// The open collections, the innermost last.
    open: Vec<OpenCollection>,
    root: Option<Node>,
}

struct OpenCollection {
    line: u32,
    is_map: bool,
    items: Vec<Node>,
}

impl Tree {
    fn take(&mut self, event: Event<'_>, line: u32) {
        let value = match event {
            Event::Scalar(text, style, ..) => {
                Value::Text { text: text.into_owned(), plain: style == ScalarStyle::Plain }
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => Value::Alias,
            Event::SequenceStart(..) => {
                return self.open.push(OpenCollection { line, is_map: false, items: Vec::new() });
            }
            Event::MappingStart(..) => {
                return self.open.push(OpenCollection { line, is_map: true, items: Vec::new() });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return };
                let value = if open.is_map { Value::Map(pairs(open.items)) } else { Value::List(open.items) };
                return self.add(Node { line: open.line, value });
            }
            _ => return,
        };
        self.add(Node { line, value });
    }

    fn add(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(open) => open.items.push(node),
            None => self.root = Some(node),
        }
    }
}

fn pairs(items: Vec<Node>) -> Vec<(Node, Node)> {
    let mut pairs = Vec::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        pairs.push((key, value));
    }
    pairs
}

impl Node {
    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Returns true for a null value: `key:`, `key: ~`, `key: null`.
    pub(super) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Text { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Returns true if YAML takes this text for a number, boolean or null, which surprises writers.
    pub(super) fn is_no_string(&self) -> bool {
        matches!(&self.value, Value::Text { text, plain: true } if self.is_null() || is_number_or_bool(text))
    }

    /// The value with its text as it was written.
    pub(super) fn json(&self) -> Json {
        match &self.value {
            Value::Alias => Json::Null,
            Value::Text { .. } if self.is_null() => Json::Null,
            Value::Text { text, .. } => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Node::json).collect()),
            Value::Map(pairs) => Json::Object(
                pairs
                    .iter()
                    .filter_map(|(key, value)| Some((key.text()?.to_owned(), value.json())))
                    .collect(),
            ),
        }
    }
}

fn is_number_or_bool(text: &str) -> bool {
    if matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE") {
        return true;
    }
    let digits = text.trim_start_matches(['-', '+']);
    let is_special = matches!(digits, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN");
    let begins = digits.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    let is_prefixed = digits
        .strip_prefix("0x")
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_hexdigit()))
        || digits.strip_prefix("0o").is_some_and(|rest| rest.parse::<u64>().is_ok());
    is_special || (begins && (digits.parse::<f64>().is_ok() || is_prefixed))
}

/// The deepest nesting that is read.
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(String, u32, Json)> {
        match parse(text, 2).unwrap().unwrap().value {
            Value::Map(pairs) => {
                pairs.iter().map(|(k, v)| (k.text().unwrap().to_owned(), k.line, v.json())).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_stay_what_was_written_on_their_lines() {
        let found = fields("version: 1.0\nb:\n  - x\n  - 'y'\nc: >\n  one\n  two\nd: {k: ~}\n");
        let wanted = [
            ("version", 2, serde_json::json!("1.0")),
            ("b", 3, serde_json::json!(["x", "y"])),
            ("c", 6, serde_json::json!("one two\n")),
            ("d", 9, serde_json::json!({"k": null})),
        ];
        assert_eq!(found, wanted.map(|(name, line, value)| (name.to_owned(), line, value)));
        assert_eq!(parse("", 1), Ok(None));
        assert_eq!(parse("# only this\n", 1), Ok(None));
    }

    #[test]
    fn bombs_and_depths_are_small() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for i in 1..40 {
            let line = format!("a{i}: &a{i} [{}]\n", format!("*a{}, ", i - 1).repeat(9));
            bomb.push_str(&line);
        }
        assert_eq!(fields(&bomb).len(), 40);
        for deep in ["[".repeat(60_000), "{a: ".repeat(15_000), "- ".repeat(30_000), "? ".repeat(30_000)] {
            assert!(parse(&deep, 1).is_err(), "{}", &deep[..10]);
        }
    }

    #[test]
    fn what_is_no_string_is_known() {
        let node = |text: &str| parse(text, 1).unwrap().unwrap();
        for text in ["1", "-1.5", "1.0", "1e3", "0x1f", "true", "~", "null", ".5", ".inf"] {
            assert!(node(text).is_no_string(), "{text}");
        }
        for text in ["'1'", "\"true\"", "1.0.0", "v1", "inf", "nan", "yes", "-", "2026-01-01"] {
            let found = parse(text, 1);
            assert!(!found.is_ok_and(|n| n.is_some_and(|n| n.is_no_string())), "{text}");
        }
    }
}
