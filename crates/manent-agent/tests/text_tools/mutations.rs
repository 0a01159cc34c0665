//! Damaged answers, and long ones: there is always an answer, it is the same each time, and it comes soon.

use manent_agent::providers::{Message, Request};
use manent_agent::text_tools::{flatten, parse};
use manent_sim::Rng;

use super::streaming::pieces;
use super::{TOOLS, cases, parse_pieces};

/// Pieces that break parsers.
const PIECES: [&str; 40] = [
    "<tool_call>",
    "</tool_call>",
    "<|tool_call|>",
    "<function=run>",
    "</function>",
    "<parameter=a>",
    "</parameter>",
    "[TOOL_CALLS]",
    "```",
    "```json\n",
    "```tool\n",
    "~~~",
    "`",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    "“",
    "\\",
    "\n",
    "\r",
    ",",
    ":",
    "//",
    "/*",
    "#",
    "> ",
    "    ",
    "<",
    ">",
    "<think>",
    "</think>",
    "\u{0}",
    "👩\u{200d}👧",
    "\\ud83d",
    "{\"name\":\"run\",\"arguments\":{}}",
    "<invoke name=\"run\">",
    "<arg_key>",
];

fn mutated(rng: &mut Rng, seeds: &[String]) -> String {
    let mut chars: Vec<char> = seeds[rng.below(seeds.len() as u64) as usize].chars().collect();
    for _ in 0..=rng.below(3) {
        let at = rng.below(chars.len() as u64 + 1) as usize;
        let end = (at + rng.below(30) as usize).min(chars.len());
        match rng.below(6) {
            0 => drop(chars.drain(at..end)),
            1 => chars.truncate(at),
            2 => {
                let piece = chars[at..end].to_vec();
                chars.splice(at..at, piece.repeat(rng.below(20) as usize));
            }
            3 => {
                let other = &seeds[rng.below(seeds.len() as u64) as usize];
                chars.splice(at..at, other.chars());
            }
            _ => {
                let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
                let times = if rng.chance(1, 30) { 500 } else { 1 };
                chars.splice(at..at, piece.repeat(times).chars());
            }
        }
    }
    chars.into_iter().collect()
}

#[test]
fn whatever_is_written_there_is_an_answer_and_pieces_change_nothing() {
    let seeds: Vec<String> = cases().into_iter().map(|case| case.input).collect();
    let (mut called, mut troubled, mut plain) = (0, 0, 0);
    for seed in 0..20_000 {
        let rng = &mut Rng::new(seed);
        let text = mutated(rng, &seeds);
        let whole = parse(&text, &TOOLS);
        let (shown, answer) = parse_pieces(pieces(&text, rng));
        assert_eq!(answer, whole, "seed {seed}: {text:?}");
        assert_eq!(shown, whole.text, "seed {seed}: {text:?}");
        for call in &whole.calls {
            assert!(TOOLS.contains(&call.name.as_str()), "seed {seed}");
            let arguments: serde_json::Value = serde_json::from_str(&call.arguments).unwrap();
            assert!(arguments.is_object(), "seed {seed}: {}", call.arguments);
        }
        if whole.calls.is_empty() && whole.problem.is_none() {
            plain += 1;
        }
        called += usize::from(!whole.calls.is_empty());
        troubled += usize::from(whole.problem.is_some());
        // A thing that is cited stays a citation.
        let quoted: String = text.split(['\n', '\r']).flat_map(|line| ["> ", line, "\n"]).collect();
        assert!(parse(&quoted, &TOOLS).calls.is_empty(), "seed {seed}: {quoted:?}");
    }
    assert!(called > 2500 && troubled > 4000 && plain > 4000, "{called} {troubled} {plain}");
}

#[test]
fn a_citation_in_a_fence_is_never_run() {
    for case in cases() {
        let fenced = format!("It says:\n\n`````text\n{}\n`````\n\nNo.", case.input);
        let answer = parse(&fenced, &TOOLS);
        assert!(answer.calls.is_empty() && answer.problem.is_none(), "{}", case.title);
        assert_eq!(answer.text, fenced);
    }
}

/// Quadratic work on a megabyte would take hours: that this ends is the test.
#[test]
fn megabytes_of_anything_are_read_in_linear_time() {
    let wild = [
        "{\n",
        "[\n",
        "(",
        "<\n",
        "`a\n",
        "```\n",
        "```json\n",
        "``` ",
        "{\"name\":\n",
        "{\"name\":[",
        "<tool_call>\n",
        "<tool_call>{",
        "<tool_call>[{\"a\":\"",
        "<tool_call>run(",
        "<function=run>\n",
        " \n",
        "\n",
        "<parameter=a>",
        "<tool_call>{\"name\":\"run\",\"arguments\":{}}",
        "{\"name\":\"run\",\"arguments\":{}}\n",
        "</tool_call>",
        "[TOOL_CALLS]run",
        "<function=run><parameter=a>",
        "<think>",
        "> ",
        "\\",
        "run ",
        "<tool_call>`",
    ];
    for piece in PIECES.iter().chain(&wild) {
        let text = piece.repeat((1 << 20) / piece.len());
        parse(&text, &TOOLS);
        for begin in
            ["<tool_call>", "<tool_call>{\"name\":\"", "```tool\n", "```json\n{\"name\":", "<tool_call>run"]
        {
            parse(&format!("{begin}{}", piece.repeat((1 << 17) / piece.len())), &TOOLS);
        }
        let result = Message { tool_call_id: Some("a".into()), ..Message::new("tool", text) };
        flatten(&Request { messages: vec![result], ..Request::default() });
    }
}
