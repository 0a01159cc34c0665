//! An answer in pieces is the same answer.

use manent_agent::text_tools::{AnswerParser, parse};
use manent_sim::Rng;

use super::{TOOLS, cases, parse_pieces};

#[test]
fn however_an_answer_is_split_it_is_the_same() {
    for case in cases() {
        let (text, whole) = (&case.input, parse(&case.input, &TOOLS));
        let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        for cut in &cuts {
            let (shown, answer) = parse_pieces([&text[..*cut], &text[*cut..]]);
            assert_eq!(answer, whole, "{} at {cut}", case.title);
            assert_eq!(shown, whole.text, "{} at {cut}", case.title);
        }
        let each = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        let (shown, answer) = parse_pieces(each);
        assert_eq!((shown.as_str(), &answer), (whole.text.as_str(), &whole), "{}", case.title);
    }
}

#[test]
fn several_cuts_at_random_change_nothing() {
    let cases = cases();
    let mut rng = Rng::new(7);
    for _ in 0..5000 {
        let case = &cases[rng.below(cases.len() as u64) as usize];
        let whole = parse(&case.input, &TOOLS);
        let (shown, answer) = parse_pieces(pieces(&case.input, &mut rng));
        assert_eq!((shown.as_str(), &answer), (whole.text.as_str(), &whole), "{}", case.title);
    }
}

/// A text in pieces of random length.
pub(super) fn pieces<'a>(text: &'a str, rng: &mut Rng) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut at = (rng.range(1..=12) as usize).min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (piece, behind) = rest.split_at(at);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

#[test]
fn what_is_clearly_text_is_shown_at_once() {
    let mut parser = AnswerParser::new(&TOOLS);
    for (piece, shown) in [
        ("Hello, ", "Hello,"),
        ("world. a <", " world. a"),
        ("b>", " <b>"),
        (" is `bold`", " is `bold`"),
        ("\n```rust\nfn", "\n```rust\nfn"),
        (" main() {}\n```\n", " main() {}\n```"),
        ("{\"answer\":", "\n{\"answer\":"),
        (" 42}\n", " 42}"),
        ("```json\n{\"age\":", "\n```json\n{\"age\":"),
        ("1}\n```\n", "1}\n```"),
        ("<tool_call", ""),
        (" tag\n", "\n<tool_call tag"),
        ("end", "\nend"),
    ] {
        assert_eq!(parser.feed(piece), shown, "{piece:?}");
    }
    assert_eq!(parser.finish().0, "");
}

#[test]
fn nothing_of_a_call_is_ever_shown() {
    let text =
        "Look.\n\n<tool_call>\n{\"name\":\"run\",\"arguments\":{\"command\":\"ls\"}}\n</tool_call>\n\nWait.";
    let mut parser = AnswerParser::new(&TOOLS);
    let mut shown = String::new();
    for c in text.chars() {
        shown.push_str(&parser.feed(c.encode_utf8(&mut [0; 4])));
        assert!("Look.\n\nWait.".starts_with(&shown), "{shown:?}");
    }
    assert_eq!(shown, "Look.\n\nWait.");
}

#[test]
fn what_waits_is_bounded() {
    for begin in
        ["<tool_call>{\"name\":\"run\",\"arguments\":{\"a\":\"", "```json\n{\"name\":\"", "{\"name\":\""]
    {
        let mut parser = AnswerParser::new(&TOOLS);
        parser.feed(begin);
        let piece = "x".repeat(1 << 16);
        let mut fed = 0;
        while parser.feed(&piece).is_empty() {
            fed += piece.len();
            assert!(fed <= 2 << 20, "{begin}");
        }
    }
}
