//! JSON as models write it, rewritten to strict JSON.
//!
//! Four slips can be meant in one way only and are repaired: a comma before a closing bracket, single quotes, the
//! literals of Python, and line ends inside of strings. Calls as Python writes them, `name(key=value)`, become objects.
//! All else is left for `serde_json` to refuse, because a command that was repaired wrongly would be run.

use std::fmt::Write as _;

use serde_json::Value;
use serde_json::value::RawValue;

/// Tracks brackets and strings, one character at a time, so that the end of a value is found while it is streamed.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// The number of brackets that are open.
    pub(super) depth: usize,
    quote: Option<char>,
    is_escaped: bool,
}

impl Scanner {
    pub(super) fn push(&mut self, c: char) {
        match self.quote {
            Some(_) if self.is_escaped => self.is_escaped = false,
            Some(_) if c == '\\' => self.is_escaped = true,
            Some(quote) if c == quote => self.quote = None,
            Some(_) => {}
            None => match c {
                '"' | '\'' => self.quote = Some(c),
                '{' | '[' | '(' => self.depth += 1,
                '}' | ']' | ')' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            },
        }
    }

    pub(super) fn is_in_string(&self) -> bool {
        self.quote.is_some()
    }
}

/// Returns each value in `text` as strict JSON without needless space. Only separators may stand between values.
pub(super) fn values(text: &str) -> Result<Vec<String>, String> {
    let strict = rewrite(text)?;
    let values = serde_json::Deserializer::from_str(&strict).into_iter::<&RawValue>();
    values.map(|value| value.map(|value| value.get().to_owned()).map_err(|error| error.to_string())).collect()
}

/// Rewrites lenient JSON to strict JSON.
fn rewrite(text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    // The brackets that are open. Inside of an object there are no Python calls.
    let mut open = Vec::new();
    while let Some(c) = rest.chars().next() {
        let here = rest;
        rest = &here[c.len_utf8()..];
        match c {
            '"' | '\'' => rest = rewrite_string(c, rest, &mut out),
            c if c.is_whitespace() => {}
            c if is_word(c) => {
                let word = &here[..here.find(|c| !is_word(c)).unwrap_or(here.len())];
                rest = &here[word.len()..];
                let is_in_object = open.contains(&'{');
                if !is_in_object && rest.starts_with('(') {
                    let _ = write!(out, "{{\"name\":{},\"arguments\":{{", Value::from(word));
                    rest = &rest[1..];
                    open.push('(');
                } else if !is_in_object && !open.is_empty() && rest.starts_with('=') {
                    let _ = write!(out, "{}:", Value::from(word));
                    rest = &rest[1..];
                } else {
                    // Two words in a row are an error, not one word.
                    out.push_str(if out.ends_with(is_word) { " " } else { "" });
                    out.push_str(match word {
                        "True" => "true",
                        "False" => "false",
                        "None" => "null",
                        word => word,
                    });
                }
            }
            // Between values, separators and a bracket too many mean nothing; a fence may stand around them.
            ',' | ';' | '`' | '}' | ']' if open.is_empty() => {}
            ',' if rest.trim_start().starts_with(['}', ']', ')']) => {}
            ')' if !open.contains(&'{') => {
                open.pop();
                out.push_str("}}");
            }
            c => {
                match c {
                    '{' | '[' => open.push(c),
                    '}' | ']' => drop(open.pop()),
                    _ => {}
                }
                out.push(c);
            }
        }
        if open.len() > DEPTH_MAX {
            return Err("it is nested too deep".to_owned());
        }
    }
    Ok(out)
}

/// Rewrites the string at the beginning of `text`, behind its quote. Returns the text behind it.
fn rewrite_string<'a>(quote: char, text: &'a str, out: &mut String) -> &'a str {
    out.push('"');
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => {
                out.push('"');
                break;
            }
            '\\' => match chars.next() {
                Some('\'') => out.push('\''),
                escaped => out.extend(['\\'].into_iter().chain(escaped)),
            },
            c if c == '"' || c < ' ' => {
                let quoted = Value::from(c.to_string()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
            c => out.push(c),
        }
    }
    chars.as_str()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '$')
}

/// Arguments are stored inside of records, whose readers have limits of their own.
const DEPTH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_known_slips_are_repaired() {
        for (lenient, json) in [
            (r#"{"a": [1, -2.5e3, true, null]}"#, r#"{"a":[1,-2.5e3,true,null]}"#),
            ("{'a': 'it is \"b\"', 'c': 'd\\'s',}", r#"{"a":"it is \"b\"","c":"d's"}"#),
            (r#"{"a": True, "b": [None, False,]}"#, r#"{"a":true,"b":[null,false]}"#),
            ("{\"a\": \"x\ny\tz\"}", r#"{"a":"x\ny\tz"}"#),
            (r#"{"a": "\u00e9 \" \/ \\"}"#, r#"{"a":"\u00e9 \" \/ \\"}"#),
            (r#"{"a":1}} {"b":2}; [3,]"#, r#"{"a":1} {"b":2} [3]"#),
            ("{}", "{}"),
            ("{\"a\":\"\u{1}\"}", "{\"a\":\"\\u0001\"}"),
            (
                "[f(a=1, b={'c': 2}), g()]",
                r#"[{"name":"f","arguments":{"a":1,"b":{"c":2}}},{"name":"g","arguments":{}}]"#,
            ),
        ] {
            assert_eq!(values(lenient).unwrap().join(" "), json, "{lenient}");
        }
    }

    #[test]
    fn values_with_other_errors_are_refused() {
        for text in [
            r#"{"a": "say "hi" now"}"#,
            r#"{"a": 1 "b": 2}"#,
            r#"{"a": 1 2}"#,
            r#"{"a": "x}}"#,
            r#"{"a": ...}"#,
            r#"{"a": word}"#,
            r#"{"a": f(b=1)}"#,
            r#"{"a":}"#,
            r#"{"a": [1}"#,
            r#"{"a" 1}"#,
            r#"{"a": 1,, "b": 2}"#,
            r#"{"a": "\d"}"#,
            r#"{"a": {"b": 1}"#,
            "{a: 1}",
            "f('a')",
            "{{",
            "text",
        ] {
            assert!(values(text).is_err(), "{text}");
        }
    }
}
