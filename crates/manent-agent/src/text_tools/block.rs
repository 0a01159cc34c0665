//! A block that begins with the opening mark of a call.

use super::calls::{self, Calls, Reject};
use super::lenient_json::Scanner;
use super::marks::{MarkMatch, match_mark};

/// The beginning of the text that is left, with the block in it.
struct Block<'a> {
    text: &'a str,
    /// True if the block is longer than any call.
    is_too_long: bool,
    /// True if no more text follows.
    is_end: bool,
    tools: &'a [String],
}

/// Parses the block at the beginning of `text`, which begins with its opening mark. Returns its length and its calls,
/// or `None` while its end is missing. `is_end` says that no more text follows.
///
/// The result depends only on the block: more text behind it changes nothing.
pub(super) fn parse_block(
    text: &str,
    (mut open, mut close): (&str, &str),
    is_end: bool,
    tools: &[String],
) -> Option<(usize, Calls)> {
    let near = &text[..text.floor_char_boundary(HOLD_MAX)];
    let block = Block { text: near, is_too_long: near.len() < text.len(), is_end, tools };
    let (mut at, mut name) = (open.len(), None);
    loop {
        if open.ends_with('=') {
            let tag = &near[at..near.floor_char_boundary(at + NAME_MAX)];
            let end = tag.find(['>', '\n', '<']).unwrap_or(tag.len());
            if at + end == near.len() {
                return block.unended(|| Err(Reject::NotACall));
            }
            name = calls::tag_name(&tag[..end]).filter(|_| tag[end..].starts_with('>'));
            if name.is_none() {
                return Some((at + end, Err(Reject::NotACall)));
            }
            at += end + 1;
        }
        at = near.len() - near[at..].trim_start().len();
        match match_mark(&near[at..]) {
            (MarkMatch::Partial, _) => return block.unended(|| Err(Reject::NotACall)),
            // A list of calls: the inner mark counts, and the closing mark of the list is dropped behind it.
            (MarkMatch::Open { open: inner, close: end }, len) if name.is_none() => {
                (open, close) = (inner, end);
                at += len;
            }
            (MarkMatch::Close, len) if name.is_none() => return Some((at + len, Err(Reject::NotACall))),
            _ => return block.body(at, name, close),
        }
    }
}

impl Block<'_> {
    /// Ends the block where the text ends, if no more text follows.
    fn unended(&self, calls: impl FnOnce() -> Calls) -> Option<(usize, Calls)> {
        if self.is_too_long {
            return Some((self.text.len(), Err(Reject::Malformed("a call is too long".to_owned()))));
        }
        self.is_end.then(|| (self.text.len(), calls()))
    }

    /// Finds the end of the body that begins at `at`, which is not empty.
    fn body(&self, at: usize, name: Option<&str>, close: &str) -> Option<(usize, Calls)> {
        let body = &self.text[at..];
        let calls = |end: usize| calls::from_body(&body[..end], name, self.tools);
        let cut_off = || Err(Reject::Malformed("a call is cut off".to_owned()));
        let mut json = body.starts_with(['{', '[']).then_some(0);
        if json.is_none() && !body.starts_with('<') {
            // The name of the tool, then whatever the template puts behind it, then arguments.
            let head = &body[..body.floor_char_boundary(NAME_MAX)];
            let end = head.find(|c| !calls::is_name(c)).unwrap_or(head.len());
            let is_tool = name.is_none() && calls::find_tool(&head[..end], self.tools).is_ok();
            if end == body.len() {
                return self.unended(|| if is_tool { cut_off() } else { Err(Reject::NotACall) });
            }
            if body.starts_with('`') {
                return Some((at, Err(Reject::Malformed("a call is in a fence".to_owned()))));
            }
            if !is_tool {
                return Some((at + end, Err(Reject::NotACall)));
            }
            let behind = &body[end..];
            let behind = &behind[..behind.find(close).unwrap_or(behind.len())];
            let brace = behind.find('{').filter(|brace| !behind[..*brace].contains("<arg_key>"));
            json = brace.map(|brace| end + brace);
        }
        let Some(json) = json else {
            // XML, or not understood: only the closing mark ends it.
            return match body.find(close) {
                Some(end) => Some((at + end + close.len(), calls(end))),
                None if body.trim_end().ends_with('>') => self.unended(|| calls(body.len())),
                None => self.unended(cut_off),
            };
        };
        let is_fenced = self.text[..at + json].contains("```");
        // The offset behind the last value that is whole.
        let (mut scanner, mut whole) = (Scanner::default(), None);
        for (offset, c) in body[json..].char_indices() {
            let behind = json + offset + c.len_utf8();
            match whole.filter(|_| scanner.depth == 0) {
                // Separators, a bracket too many, and the end of the fence around the JSON.
                Some(_) if matches!(c, '}' | ']' | ',' | ';') || (c == '`' && is_fenced) => {
                    whole = Some(behind);
                }
                Some(_) if c.is_whitespace() => {}
                // A closing mark, the next call, or text. A closing mark that the server swallowed is not missed.
                Some(end) if c != '{' => return Some((at + end, calls(end))),
                _ => {
                    scanner.push(c);
                    if scanner.depth == 0 {
                        whole = Some(behind);
                    } else if !scanner.is_in_string() && body[..behind].ends_with(close) {
                        return Some((at + behind, calls(behind - close.len())));
                    }
                }
            }
        }
        self.unended(|| calls(body.len()))
    }
}

/// The number of bytes that wait at most before it is clear what they are. A file that is written fits.
pub(super) const HOLD_MAX: usize = 1 << 20;
/// The number of bytes of a name, or of the rest of an opening tag.
const NAME_MAX: usize = 160;
