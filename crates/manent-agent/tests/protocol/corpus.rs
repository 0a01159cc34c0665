//! Answers as models write them.

use std::collections::HashSet;

use manent_agent::protocol::{read, repair};

use super::{KNOWN, called, cases};

#[test]
fn every_answer_is_read_as_it_was_meant() {
    let cases = cases();
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let heard = read(&case.input, &KNOWN);
        let is_trouble = match (&heard.trouble, &case.trouble) {
            (Some(trouble), Some(part)) => trouble.contains(part),
            (trouble, part) => trouble.is_none() && part.is_none(),
        };
        if called(&heard) != case.calls || heard.text != case.text || !is_trouble {
            wrong.push(format!("{}: {heard:#?}", case.title));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn without_tools_nothing_is_ever_called() {
    for case in cases() {
        assert!(read(&case.input, &[]).calls.is_empty(), "{}", case.title);
    }
}

#[test]
fn ids_are_unique_in_an_answer_and_the_same_each_time() {
    let block = r#"<tool_call>{"name":"get_time","arguments":{}}</tool_call>"#;
    let heard = read(&block.repeat(200), &KNOWN);
    assert_eq!(heard.calls.len(), 128);
    assert!(heard.trouble.as_ref().unwrap().contains("first 128"));
    let ids: HashSet<&str> = heard.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids.len(), 128);
    assert!(ids.iter().all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())));
    assert_eq!(heard, read(&block.repeat(200), &KNOWN));
}

#[test]
fn arguments_keep_their_order_and_their_digits() {
    let text =
        r#"<tool_call>{"name":"run","arguments":{"z":1,"a":12345678901234567890123,"m":1.10}}</tool_call>"#;
    let heard = read(text, &KNOWN);
    assert_eq!(heard.calls[0].arguments, r#"{"z":1,"a":12345678901234567890123,"m":1.10}"#);
}

#[test]
fn a_repair_says_what_was_wrong_and_is_no_call_itself() {
    let trouble = read("<tool_call>{\"name\":\"fly\"}</tool_call>", &KNOWN).trouble.unwrap();
    let text = repair(&trouble);
    assert!(text.contains("there is no tool \"fly\"") && text.contains("<tool_call>"));
    assert!(read(&text, &KNOWN).calls.is_empty());
}
