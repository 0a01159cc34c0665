//! The decisions in `docs/decisions`: each says why it was made, what it is and what follows from it.

use super::tree::{TextFile, files};

const HEADINGS: [&str; 3] = ["Context", "Decision", "Consequences"];

#[test]
fn every_decision_has_its_context_and_its_consequences_and_is_listed() {
    let (decisions, others): (Vec<TextFile>, Vec<TextFile>) = files(&["md"])
        .into_iter()
        .filter(|file| file.path.starts_with("docs/decisions/"))
        .partition(|file| number_of(file).is_some());
    let [list] = &others[..] else { panic!("beside the decisions there is only README.md") };
    assert!(decisions.len() > 50, "the decisions are found: {}", decisions.len());
    let mut wrong = Vec::new();
    for (expected, decision) in (1..).zip(&decisions) {
        let path = &decision.path;
        if number_of(decision) != Some(expected) {
            wrong.push(format!("{path} should have the number {expected:04}"));
        }
        if !decision.text.starts_with(&format!("# {expected:04}. ")) {
            wrong.push(format!("{path} does not begin with its number and title"));
        }
        if !list.text.contains(path.rsplit('/').next().unwrap()) {
            wrong.push(format!("{path} is not listed in {}", list.path));
        }
        wrong
            .extend(missing_sections(&decision.text).map(|heading| format!("{path} lacks \"## {heading}\"")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the number in the name of a decision, such as 7 of `0007-lines-in-flight.md`.
fn number_of(file: &TextFile) -> Option<usize> {
    let (digits, _) = file.path.rsplit('/').next()?.split_once('-')?;
    digits.parse().ok().filter(|_| digits.len() == 4)
}

/// Returns the headings that a decision lacks, has out of order, or has without text below.
fn missing_sections(text: &str) -> impl Iterator<Item = &'static str> {
    let sections: Vec<(&str, bool)> = text
        .split("\n## ")
        .skip(1)
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .map(|(heading, body)| (heading, !body.trim().is_empty()))
        .collect();
    let mut after = 0;
    HEADINGS.into_iter().filter(move |heading| {
        let is_wanted = |section: &(&str, bool)| section == &(*heading, true);
        let found = sections[after..].iter().position(is_wanted);
        after += found.map_or(0, |at| at + 1);
        found.is_none()
    })
}

#[test]
fn sections_that_are_missing_empty_or_out_of_order_are_found() {
    let missing = |text: &str| missing_sections(text).collect::<Vec<_>>();
    assert_eq!(
        missing("# 1\n\n## Context\n\na\n\n## Decision\n\nb\n\n## Measurements\nx\n## Consequences\n\nc\n"),
        [""; 0]
    );
    assert_eq!(missing("# 1\n\n## Context\n\na\n\n## Consequences\n\nc\n"), ["Decision"]);
    assert_eq!(
        missing("# 1\n\n## Context\n\n## Decision\n\nb\n\n## Consequences\n"),
        ["Context", "Consequences"]
    );
    assert_eq!(missing("# 1\n\n## Decision\n\nb\n\n## Context\n\na\n\n## Consequences\n\nc\n"), ["Decision"]);
}
