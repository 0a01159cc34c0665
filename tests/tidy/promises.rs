//! Checks that every promise of `docs/PROMISES.md` is proved by tests that exist.

use std::collections::BTreeSet;

use super::tree::{files, root};

#[test]
fn every_promise_is_proved_by_tests_that_exist() {
    let text = std::fs::read_to_string(root().join("docs/PROMISES.md")).unwrap();
    let (list, proof) = text.split_once("\n## Proof\n").expect("the tests stand under the heading Proof");
    let promised: Vec<&str> = list.lines().filter_map(promise_of_item).collect();
    let rows: Vec<(&str, Vec<&str>)> = proof.lines().filter_map(tests_of_row).collect();
    let proved: Vec<&str> = rows.iter().map(|(promise, _)| *promise).collect();
    assert!(promised.len() > 100, "the promises are items of a list that begin with - **P1.**: {promised:?}");
    assert_eq!(promised, proved, "the list of promises and the table of tests have the same order");

    let tests = test_functions();
    let mut wrong = Vec::new();
    for (promise, cited) in &rows {
        if cited.is_empty() {
            wrong.push(format!("{promise} names no test"));
        }
        let missing = cited.iter().filter(|name| !tests.iter().any(|test| test.is_cited_as(name)));
        wrong.extend(missing.map(|name| format!("{promise}: {name} does not exist")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns `P7` of an item such as `- **P7.** **A failed sync is final.** …`.
fn promise_of_item(line: &str) -> Option<&str> {
    line.strip_prefix("- **")?.split_once(".**").map(|(promise, _)| promise).filter(|name| is_promise(name))
}

/// Returns the promise and the tests of a row of the table: the promise in the first column, tests in the second.
fn tests_of_row(line: &str) -> Option<(&str, Vec<&str>)> {
    let (promise, tests) = line.strip_prefix("| ")?.split_once(" | ")?;
    is_promise(promise).then(|| (promise, tests.split('`').skip(1).step_by(2).collect()))
}

fn is_promise(name: &str) -> bool {
    name.strip_prefix('P')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// A function marked as a test.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct TestFunction {
    /// The path of its file from the root of the project, without `.rs`.
    module: String,
    name: String,
}

impl TestFunction {
    /// Returns true if `citation` is `module::name` with the file of the test as its module. A test in `main.rs`,
    /// `mod.rs` or `tests.rs` may be cited by the directory.
    fn is_cited_as(&self, citation: &str) -> bool {
        let Some((modules, name)) = citation.rsplit_once("::") else { return false };
        let last = modules.rsplit("::").next().unwrap_or_default();
        let mut path = self.module.rsplit('/');
        let (stem, directory) = (path.next().unwrap_or_default(), path.next().unwrap_or_default());
        let is_of_directory = ["main", "mod", "tests"].contains(&stem);
        name == self.name && (last == stem || (is_of_directory && last == directory))
    }
}

fn test_functions() -> BTreeSet<TestFunction> {
    let mut tests = BTreeSet::new();
    for file in files(&["rs"]) {
        let module = file.path.trim_end_matches(".rs");
        let mut is_marked = false;
        for line in file.text.lines().map(str::trim) {
            let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            if line == "#[test]" || line.starts_with("#[tokio::test") {
                is_marked = true;
            } else if let Some(rest) = function.filter(|_| is_marked) {
                let name = rest.split('(').next().unwrap_or_default().to_owned();
                tests.insert(TestFunction { module: module.to_owned(), name });
                is_marked = false;
            }
        }
    }
    tests
}
