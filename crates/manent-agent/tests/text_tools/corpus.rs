//! Answers as models write them.

use std::collections::HashSet;

use manent_agent::text_tools::{parse, repair_prompt};

use super::{TOOLS, called, cases};

#[test]
fn every_answer_is_read_as_it_was_meant() {
    let cases = cases();
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let answer = parse(&case.input, &TOOLS);
        let is_problem = match (&answer.problem, &case.problem) {
            (Some(problem), Some(part)) => problem.contains(part),
            (problem, part) => problem.is_none() && part.is_none(),
        };
        if called(&answer) != case.calls || answer.text != case.text || !is_problem {
            wrong.push(format!("{}: {answer:#?}", case.title));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Forms that were once understood and that no published template teaches. They are text, and where a call may have
/// been meant, the model is asked once more.
const GIVEN_UP: [&str; 36] = [
    "arguments beside the name",
    "a slip in the name",
    "the fence tool_call with prose behind",
    "the fence tool_code of gemma",
    "the fence tool_code, plain",
    "elements",
    "elements all the way",
    "two tools by elements",
    "bare with action",
    "bare, one bracket missing",
    "typographic quotes",
    "keys without quotes",
    "comments",
    "a regular expression",
    "one bracket missing",
    "two brackets missing",
    "a quote and two brackets missing",
    "one bracket missing at the very end",
    "doubled brackets",
    "a fence inside",
    "the fence tool",
    "the fence tool with two lines",
    "the fence function_call, not closed",
    "a block in a fence of its own kind",
    "a json fence",
    "a json fence with text before",
    "a fence without a word",
    "a fence of waves",
    "a fence with an array",
    "two fences",
    "a fence that is not closed",
    "a block in an xml fence",
    "a block in a fence without a word",
    "python inside",
    "the name in the mark",
    "an id in the mark",
];

#[test]
fn forms_given_up_are_not_called() {
    let cases = cases();
    for title in GIVEN_UP {
        let case = cases.iter().find(|case| case.title == title).unwrap();
        assert!(parse(&case.input, &TOOLS).calls.is_empty(), "{title}");
    }
}

#[test]
fn without_tools_nothing_is_ever_called() {
    for case in cases() {
        assert!(parse(&case.input, &[]).calls.is_empty(), "{}", case.title);
    }
}

#[test]
fn ids_are_unique_in_an_answer_and_the_same_each_time() {
    let block = r#"<tool_call>{"name":"get_time","arguments":{}}</tool_call>"#;
    let answer = parse(&block.repeat(200), &TOOLS);
    assert_eq!(answer.calls.len(), 128);
    assert!(answer.problem.as_ref().unwrap().contains("first 128"));
    let ids: HashSet<&str> = answer.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 128);
    assert!(ids.iter().all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())));
    assert_eq!(answer, parse(&block.repeat(200), &TOOLS));
}

#[test]
fn arguments_keep_their_order_and_their_digits() {
    let text =
        r#"<tool_call>{"name":"run","arguments":{"z":1,"a":12345678901234567890123,"m":1.10}}</tool_call>"#;
    let answer = parse(text, &TOOLS);
    assert_eq!(answer.calls[0].arguments, r#"{"z":1,"a":12345678901234567890123,"m":1.10}"#);
}

#[test]
fn a_repair_says_what_was_wrong_and_is_no_call_itself() {
    let problem = parse("<tool_call>{\"name\":\"fly\"}</tool_call>", &TOOLS).problem.unwrap();
    let text = repair_prompt(&problem);
    assert!(text.contains("there is no tool \"fly\"") && text.contains("<tool_call>"));
    assert!(parse(&text, &TOOLS).calls.is_empty());
}
