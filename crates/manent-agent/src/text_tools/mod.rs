//! Calling tools by text, for models whose server has no native calls.
//!
//! One strict form is described to the model ([`describe_tools`]); a request is turned into it ([`flatten`]); an answer
//! is parsed ([`parse`], and [`AnswerParser`] while it is streamed); and if a call cannot be understood, the model is
//! asked once more ([`repair_prompt`]).
//!
//! A call is run, an example is not, and a text that a model only cites must never become a call. So between the marks
//! of a chat template calls are taken as they are; without marks only if nothing else can be meant; and what is in
//! doubt stays text, and the model is asked.
//!
//! | written | parsed as |
//! |---|---|
//! | a pair of marks from `marks.rs`, also within a line, also if the server swallowed one of the two | call |
//! | between marks: JSON; a name and JSON; `[name(key=value)]`; `<parameter=key>`, `<arg_key>` | call |
//! | between marks: anything else, or the name of an unknown tool | problem |
//! | JSON that begins a line and is a call of a known tool and no more | call, if only calls follow |
//! | the same with text behind it, or a call in a fence (`json`, `xml`, `tool`, …, or none) | text, and problem |
//! | a fence of any other language, `code` in a line, a line that begins with `>`, one indented by four | text |
//! | a mark right behind a quote or a backslash; `<think>…</think>` at the beginning | text |
//! | `<tool_result>` behind a call: results that the model made up | left out with all that follows |
//! | `name(key="value")`, `Action: name` and other words outside of marks | text |
//!
//! JSON has `name` and `arguments` (or what `calls.rs` lists), perhaps in an array or as OpenAI nests them. Four slips
//! are repaired (`lenient_json.rs`): trailing commas, single quotes, Python literals, line ends in strings.

mod block;
mod calls;
mod lenient_json;
mod marks;
mod parser;
mod prompt;

use crate::providers::ToolCall;

pub use parser::AnswerParser;
pub use prompt::{describe_tools, flatten, tool_names};

/// An answer, split into the text for the person and the calls of tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedAnswer {
    /// The answer without the blocks of calls. Without any block, the answer as it is.
    pub text: String,
    /// The calls in their order. Their ids are made from place, name and arguments: the same answer gives the same.
    pub calls: Vec<ToolCall>,
    /// A sentence for [`repair_prompt`] if a call was not understood. There may be calls besides.
    pub problem: Option<String>,
}

/// Parses a whole answer. Only `tools` are called.
///
/// ```
/// let answer = manent_agent::text_tools::parse("{'name': 'ls', 'arguments': {'all': True,}}", &["ls"]);
/// assert_eq!((answer.calls[0].name.as_str(), answer.calls[0].arguments.as_str()), ("ls", r#"{"all":true}"#));
/// ```
pub fn parse(text: &str, tools: &[&str]) -> ParsedAnswer {
    let mut parser = AnswerParser::new(tools);
    parser.feed(text);
    parser.finish().1
}

/// Returns the message that asks the model, once, to write a call again after a problem.
pub fn repair_prompt(problem: &str) -> String {
    format!(
        "Your last message could not be understood: {problem}. Nothing of that was run. If you meant to call a \
        tool, write the call again in exactly this form, with valid JSON and nothing after it:\n\n\
        <tool_call>\n{{\"name\": \"the tool\", \"arguments\": {{\"key\": \"value\"}}}}\n</tool_call>\n\n\
        If you meant no call, answer again without one."
    )
}
