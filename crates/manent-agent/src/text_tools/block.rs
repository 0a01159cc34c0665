//! A block that begins with the opening mark of a call.

use super::calls::{self, Calls, Reject};
use super::lenient_json::Scanner;
use super::marks::{MarkMatch, match_mark};

/// The text of a block, as far as it came and may go.
struct Block<'a> {
    text: &'a str,
    /// True if the block is longer than any call.
    is_too_long: bool,
    /// True if no more comes.
    is_end: bool,
    tools: &'a [String],
}

/// Parses the block at the beginning of `text`, behind its opening mark. Returns its length and its calls, or `None`
/// while its end has not come. `is_end` says that no more comes.
///
/// What is returned depends only on the block: more text behind it changes nothing.
pub(super) fn parse_block(
    text: &str,
    (mut open, mut close): (&str, &str),
    is_end: bool,
    tools: &[String],
) -> Option<(usize, Calls)> {
    let near = &text[..text.floor_char_boundary(HOLD_MAX)];
    let block = Block { text: near, is_too_long: near.len() < text.len(), is_end, tools };
    let mut at = open.len();
    loop {
        let mut name = None;
        if !open.ends_with(['>', ']']) {
            let tag = &near[at..near.floor_char_boundary(at + NAME_MAX)];
            match tag.find(['>', '\n', '<']) {
                Some(end) => {
                    name = calls::tag_name(&tag[..end]);
                    if !tag[end..].starts_with('>') || (name.is_none() && open != "<tool_call ") {
                        return Some(not_a_call(at + end));
                    }
                    at += end + 1;
                }
                None if at + tag.len() < near.len() => return Some(not_a_call(at + tag.len())),
                None => return block.unended(|| Err(Reject::NotACall)),
            }
        }
        at = near.len() - near[at..].trim_start().len();
        match match_mark(&near[at..]) {
            (MarkMatch::Partial, _) => return block.unended(|| Err(Reject::NotACall)),
            // A list of calls: the inner mark counts, and the closing mark of the list is dropped behind it.
            (MarkMatch::Open { open: inner, close: end }, len) if name.is_none() => {
                (open, close) = (inner, end);
                at += len;
            }
            (MarkMatch::Close, len) if name.is_none() => return Some(not_a_call(at + len)),
            _ => return block.body(at, name, close),
        }
    }
}

fn not_a_call(at: usize) -> (usize, Calls) {
    (at, Err(Reject::NotACall))
}

impl Block<'_> {
    /// Ends the block where the text ends, if no more comes.
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
        let (mut json, mut is_named) = (None, false);
        if body.starts_with(['{', '[']) {
            json = Some(0);
        } else if name.is_none() && body.starts_with(is_word) {
            // The name of the tool, then whatever the template puts behind it, then arguments.
            let head = &body[..body.floor_char_boundary(NAME_MAX)];
            let end = head.find(|c| !is_word(c)).unwrap_or(head.len());
            let is_tool = calls::known(&head[..end], self.tools).is_ok();
            if end == body.len() {
                return self.unended(|| if is_tool { cut_off() } else { Err(Reject::NotACall) });
            }
            if !is_tool && !matches!(&head[..end], "function" | "```" | "```json") {
                return Some(not_a_call(at + end));
            }
            let behind = &body[end..];
            let mut offsets = behind.char_indices().map(|(offset, _)| offset);
            let stop = offsets.find(|at| behind[*at..].starts_with('{') || behind[*at..].starts_with(close));
            let stop = stop.unwrap_or(behind.len());
            is_named = !behind[..stop].contains("<arg_key>");
            if behind.starts_with('(') {
                json = Some(end);
            } else if is_named && behind[stop..].starts_with('{') {
                json = Some(end + stop);
            }
        } else if !body.starts_with('<') {
            return Some(not_a_call(at));
        }
        let Some(json) = json else {
            // XML, or not understood: only the closing mark ends it.
            return match body.find(close) {
                Some(end) => Some((at + end + close.len(), calls(end))),
                None => self.unended(|| if is_named { cut_off() } else { calls(body.len()) }),
            };
        };
        let is_fenced = body[..json].contains("```");
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

/// Returns true for the characters of the first word of a body: a name, or a fence.
fn is_word(c: char) -> bool {
    calls::is_name(c) || c == '`'
}

/// The number of bytes that wait at most before it is clear what they are. A file that is written fits.
pub(super) const HOLD_MAX: usize = 1 << 20;
/// The number of bytes of a name, or of the attributes of an opening tag.
const NAME_MAX: usize = 160;
