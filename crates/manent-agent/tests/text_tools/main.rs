//! Calling tools by text, from outside: what models write and what becomes of it.
//!
//! | module | about |
//! |---|---|
//! | `corpus` | answers of every kind in `corpus/*.txt`, with what must be called and what must be left |
//! | `streaming` | the same in pieces, however they are split; what waits and what is shown at once |
//! | `mutations` | thousands of damaged answers, and megabytes of what breaks readers |
//! | `prompt` | the description of tools in a request, and native calls as text and back |

#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod corpus;
mod mutations;
mod prompt;
mod streaming;

use manent_agent::text_tools::{AnswerParser, ParsedAnswer};

const TOOLS: [&str; 6] = ["read_file", "write_file", "list_dir", "run", "search", "get_time"];

/// One answer of the corpus.
struct Case {
    title: String,
    input: String,
    /// Name and arguments.
    calls: Vec<(String, serde_json::Value)>,
    text: String,
    problem: Option<String>,
}

fn cases() -> Vec<Case> {
    let files = [
        include_str!("corpus/marked.txt"),
        include_str!("corpus/dialects.txt"),
        include_str!("corpus/unmarked.txt"),
        include_str!("corpus/damaged.txt"),
        include_str!("corpus/text.txt"),
    ];
    files.iter().flat_map(|file| file.split("=== ").skip(1)).map(case).collect()
}

fn case(text: &str) -> Case {
    let (title, rest) = text.split_once('\n').unwrap();
    let mut parts = rest.split("\n--- ");
    let input = parts.next().unwrap();
    let input = input.strip_suffix('\n').filter(|_| !rest.contains("\n--- ")).unwrap_or(input).to_owned();
    let mut case =
        Case { title: title.to_owned(), input, calls: Vec::new(), text: String::new(), problem: None };
    for part in parts {
        let (kind, content) = part.split_once('\n').unwrap_or((part, ""));
        let content = content.strip_suffix('\n').unwrap_or(content);
        match kind.trim() {
            "calls" => case.calls = content.lines().map(call).collect(),
            "text" => content.clone_into(&mut case.text),
            "text same" => case.text = case.input.clone(),
            "problem" => case.problem = Some(content.trim().to_owned()),
            kind => assert_eq!(kind, "a part of a case", "{title}"),
        }
    }
    case
}

fn call(line: &str) -> (String, serde_json::Value) {
    let (name, arguments) = line.split_once(' ').unwrap();
    (name.to_owned(), serde_json::from_str(arguments).unwrap())
}

fn called(answer: &ParsedAnswer) -> Vec<(String, serde_json::Value)> {
    let one = |call: &manent_agent::providers::ToolCall| {
        (call.name.clone(), serde_json::from_str(&call.arguments).unwrap())
    };
    answer.calls.iter().map(one).collect()
}

/// Fed in these pieces: what was shown, and what was answer.
fn parse_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, ParsedAnswer) {
    let mut parser = AnswerParser::new(&TOOLS);
    let mut shown = String::new();
    for piece in pieces {
        shown.push_str(&parser.feed(piece));
    }
    let (rest, answer) = parser.finish();
    (shown + &rest, answer)
}
