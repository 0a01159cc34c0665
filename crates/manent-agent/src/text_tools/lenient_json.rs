//! JSON as models write it, rewritten to strict JSON.
//!
//! Four slips can be meant in one way only and are repaired: a comma before a closing bracket, single quotes, the
//! literals of Python, and line ends inside of strings. Calls as Python writes them, `name(key=value)`, become objects.
//! All else is left for `serde_json` to refuse, because a command that was repaired wrongly would be run.

use serde_json::Value;
use serde_json::value::RawValue;

/// Tracks brackets and strings, one character at a time, so that the end of a value is found while it is streamed.
#[derive(Debug, Clone, Default)]
pub(super) struct Scanner {
    /// The number of brackets that are open.
    pub(super) depth: usize,
    quote: Option<char>,
    is_escaped: bool,
}

impl Scanner {
    /// Makes a scanner that has taken `first`.
    pub(super) fn after(first: char) -> Scanner {
        let mut scanner = Scanner::default();
        scanner.push(first);
        scanner
    }

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
    let strict = Rewriter::rewrite(text)?;
    let values = serde_json::Deserializer::from_str(&strict).into_iter::<&RawValue>();
    values.map(|value| value.map(|value| value.get().to_owned()).map_err(|error| error.to_string())).collect()
}

/// Writes strict JSON while it reads lenient JSON.
#[derive(Default)]
struct Rewriter {
    out: String,
    scanner: Scanner,
    /// The number of braces that are open: inside of an object there are no Python calls.
    braces: usize,
    /// A number, literal or name that may go on.
    word: String,
    /// A comma that is written only if something other than a closing bracket follows.
    has_comma: bool,
}

impl Rewriter {
    fn rewrite(text: &str) -> Result<String, String> {
        let mut rewriter = Rewriter::default();
        for c in text.chars() {
            let before = rewriter.scanner.clone();
            rewriter.scanner.push(c);
            match (before.is_in_string(), rewriter.scanner.is_in_string()) {
                (false, false) => rewriter.structure(c, before.depth),
                (true, true) => rewriter.string(c, before.is_escaped),
                (false, true) => rewriter.token("\""),
                (true, false) => rewriter.out.push('"'),
            }
            if rewriter.scanner.depth > DEPTH_MAX {
                return Err("it is nested too deep".to_owned());
            }
        }
        rewriter.end_word();
        Ok(rewriter.out)
    }

    /// Takes a character outside of strings, where `depth` brackets were open before it.
    fn structure(&mut self, c: char, depth: usize) {
        match c {
            c if is_word(c) => self.word.push(c),
            c if c.is_whitespace() => self.end_word(),
            // Between values, separators and a bracket too many mean nothing; a fence may stand around them.
            ',' | ';' | '`' | '}' | ']' if depth == 0 => self.end_word(),
            ',' => {
                self.token("");
                self.has_comma = true;
            }
            '=' if self.braces == 0 && depth > 0 => {
                let key = Value::from(std::mem::take(&mut self.word));
                self.token(&format!("{key}:"));
            }
            '(' if self.braces == 0 => {
                let name = Value::from(std::mem::take(&mut self.word));
                self.token(&format!("{{\"name\":{name},\"arguments\":{{"));
            }
            ')' if self.braces == 0 => self.close("}}"),
            '}' => {
                self.braces = self.braces.saturating_sub(1);
                self.close("}");
            }
            ']' => self.close("]"),
            c => {
                self.braces += usize::from(c == '{');
                self.token(c.encode_utf8(&mut [0; 4]));
            }
        }
    }

    /// Takes a character inside of a string.
    fn string(&mut self, c: char, is_escaped: bool) {
        match c {
            // Written together with the character behind it.
            '\\' if !is_escaped => {}
            '\'' => self.out.push('\''),
            c if is_escaped => self.out.extend(['\\', c]),
            c if c == '"' || c < ' ' => {
                let quoted = Value::from(c.to_string()).to_string();
                self.out.push_str(&quoted[1..quoted.len() - 1]);
            }
            c => self.out.push(c),
        }
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        self.token(match word.as_str() {
            "True" => "true",
            "False" => "false",
            "None" => "null",
            word => word,
        });
    }

    fn token(&mut self, token: &str) {
        self.end_word();
        if std::mem::take(&mut self.has_comma) {
            self.out.push(',');
        }
        // Two words in a row are an error, not one word.
        if token.starts_with(is_word) && self.out.ends_with(is_word) {
            self.out.push(' ');
        }
        self.out.push_str(token);
    }

    fn close(&mut self, bracket: &str) {
        self.end_word();
        self.has_comma = false;
        self.out.push_str(bracket);
    }
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
