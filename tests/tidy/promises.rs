//! Every promise in `docs/PROMISES.md` names a test that exists. A promise without one is a wish.

use std::collections::BTreeSet;

use super::tree::{files, root};

#[test]
fn every_promise_names_a_test_that_exists() {
    let text =
        std::fs::read_to_string(root().join("docs/PROMISES.md")).expect("the promises are written down");
    let tests = test_functions();
    let rows: Vec<&str> = text.lines().filter(|line| promise_of(line).is_some()).collect();
    assert!(!rows.is_empty(), "the promises are rows of a table that begin with | P1 |");
    let mut wishes = Vec::new();
    for row in rows {
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        if !named.iter().any(|name| tests.contains(last_part(name))) {
            wishes.push(format!("{}: {named:?}", promise_of(row).unwrap_or_default()));
        }
    }
    assert!(wishes.is_empty(), "these promises name no test that exists: {wishes:#?}");
}

/// A name that looks like a test of ours, `file::test_name`, must be one: it may have been renamed since.
#[test]
fn no_promise_names_a_test_that_is_gone() {
    let text =
        std::fs::read_to_string(root().join("docs/PROMISES.md")).expect("the promises are written down");
    let tests = test_functions();
    let mut gone = Vec::new();
    for row in text.lines().filter(|line| promise_of(line).is_some()) {
        for name in row.split('`').skip(1).step_by(2) {
            let words =
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c));
            let is_test_name = words && name.contains("::") && last_part(name).matches('_').count() >= 2;
            if is_test_name && !tests.contains(last_part(name)) {
                gone.push(format!("{}: {name}", promise_of(row).unwrap_or_default()));
            }
        }
    }
    assert!(gone.is_empty(), "{gone:#?}");
}

/// `P7` of a row such as `| P7 | A failed sync is final | … |`, also where it is written bold or with its place.
fn promise_of(line: &str) -> Option<&str> {
    let cell = line.strip_prefix('|')?.split('|').next()?.trim().trim_matches('*');
    let number = cell.strip_prefix('P')?;
    (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())).then_some(cell)
}

/// `test_name` of `file::test_name`.
fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or_default()
}

/// The names of all functions marked as tests, in any file.
fn test_functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files(&["rs"]) {
        let mut marked = false;
        for line in file.text.lines().map(str::trim) {
            if line == "#[test]" || line.starts_with("#[tokio::test") {
                marked = true;
            } else if let Some(rest) =
                line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ").filter(|_| marked)
            {
                names.extend(rest.split('(').next().map(str::to_owned));
                marked = false;
            }
        }
    }
    assert!(names.contains("every_promise_names_a_test_that_exists"), "this test, at least");
    names
}
