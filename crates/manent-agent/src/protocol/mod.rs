//! Calling tools by text, for models whose server has no native calls.
//!
//! One strict form is taught ([`teach`]); a request is turned into it ([`flatten`]); an answer is read with goodwill
//! ([`read`], and [`Strainer`] while it comes); and what cannot be understood is asked for once more ([`repair`]).
//!
//! A call is run, an example is not, and a text that a model only cites must never become a call. So where calls are
//! marked as such, much is forgiven; where they are not, little; and what is in doubt stays text and is asked about.
//!
//! | written | read as |
//! |---|---|
//! | `<tool_call>{"name":…,"arguments":{…}}</tool_call>`, also in a line, also without the end mark | call |
//! | the same with `tool_calls`, `toolcall`, `tools`, `tool_use`, `function_call(s)` | call |
//! | tokens: <code>&lt;&#124;tool_call&#124;&gt;</code>, `_begin`/`_end`, `python_tag`, `DeepSeek`'s wide ones | call |
//! | `[TOOL_CALLS]…`, `[TOOL_REQUEST]…[END_TOOL_REQUEST]` | call |
//! | `<function=name>{…}</function>`, `<invoke name="…">`, `<function name="…">`, `<tool name="…">` | call |
//! | in marks: `<parameter=key>`, `<arg_key>`, `<name>`/`<arguments>` | call; but for numbers and truth, text |
//! | in marks: `name{…}`, `name(key="value")`, `[name(…), …]`, a name alone, a fence, several objects | call |
//! | fence `tool(s)`, `tool_call(s)`, `tool_code`, `tool_use`, `function(s)`, `function_call` of these | call |
//! | fence `json(c)`, `json5`, `xml` or no word, with nothing but calls of known tools | call, if only calls follow |
//! | bare JSON that begins a line and is a call of a known tool and no more | call, if only calls follow |
//! | these last two with text behind them | text, and trouble: was it meant? |
//! | bare JSON and then an end mark (servers eat the beginning) | call |
//! | a fence of any other language, `code` in a line, a line that begins with `>`, one indented by four | text |
//! | a mark right behind a quote or a backslash; `<think>…</think>` at the beginning | text |
//! | `<tool_result>` behind a call: results that the model made up | left out with all that follows |
//! | a name that is not known | marked: trouble; unmarked: text |
//! | `name(key="value")`, `Action: name` and other words outside of marks | text |
//!
//! | of the JSON | |
//! |---|---|
//! | name | `name`, `tool(_name)`, `function(_name)`, `action`, `recipient_name` |
//! | arguments | `arguments`, `args`, `parameters`, `params`, `input` and the like, `kwargs`; as a string |
//! | around it | arrays, `{"function":{…}}`, `{"tool_calls":[…]}` |
//! | only marked | arguments beside the name, no arguments, `Read-File` for `read_file` |
//! | mended | single and typographic quotes, keys without quotes, commas at the end, comments, `True`, `None` |
//! | mended | line ends in strings, escapes that JSON does not have, one bracket too many, `{{…}}` |
//! | cut off before an end mark | brackets are closed, and a string that has no bracket, comma or colon in it |
//! | cut off at the end | the last bracket is closed if the arguments are there; else trouble |
//! | refused | quotes inside of strings, missing commas, words without quotes, more than 64 levels, blocks over 1 MiB |
//!
//! | file | about |
//! |---|---|
//! | `teach.rs`, `flatten.rs` | what a model is told |
//! | `strainer.rs`, `sink.rs` | the reader, character by character, and where its findings go |
//! | `block.rs`, `fence.rs`, `tags.rs` | marked blocks, fences, marks |
//! | `loose.rs`, `shape.rs`, `body.rs` | JSON made strict, JSON that is a call, calls that are not JSON |

mod block;
mod body;
mod fence;
mod flatten;
mod loose;
mod shape;
mod sink;
mod strainer;
mod tags;
mod teach;

use crate::providers::ToolCall;

pub use flatten::flatten;
pub use strainer::Strainer;
pub use teach::{names, teach};

/// What was understood of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// What is left for the person: the answer without the blocks. Without any block, the answer as it is.
    pub text: String,
    /// In order. Their ids are made from place, name and arguments: the same answer gives the same.
    pub calls: Vec<ToolCall>,
    /// What was not understood, in a sentence for [`repair`]. There may be calls besides.
    pub trouble: Option<String>,
}

/// Reads a whole answer. Only tools that are known are called.
///
/// ```
/// let heard = manent_agent::protocol::read("{'name': 'ls', 'arguments': {all: True,}}", &["ls"]);
/// assert_eq!((heard.calls[0].name.as_str(), heard.calls[0].arguments.as_str()), ("ls", r#"{"all":true}"#));
/// ```
pub fn read(text: &str, known: &[&str]) -> Heard {
    let mut strainer = Strainer::new(known);
    strainer.feed(text);
    strainer.finish().1
}

/// What to tell the model after trouble, once.
pub fn repair(trouble: &str) -> String {
    format!(
        "Your last message could not be understood: {trouble}. Nothing of that was run. If you meant to call a \
        tool, write the call again in exactly this form, with valid JSON and nothing after it:\n\n\
        <tool_call>\n{{\"name\": \"the tool\", \"arguments\": {{\"key\": \"value\"}}}}\n</tool_call>\n\n\
        If you meant no call, answer again without one."
    )
}
