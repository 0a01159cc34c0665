//! How source files look: width, length, the first line, and what may not stand in them.

use super::tree::{TextFile, assert_ratchet, files};

const COLUMNS_MAX: usize = 120;
const FILE_LINES_MAX: usize = 1200;
const FUNCTION_LINES_MAX: usize = 100;

/// Whole outputs of commands, to the letter; they are as wide as they are.
const SNAPSHOTS: [&str; 5] = [
    "tests/cli/snapshots.rs",
    "tests/cli/snapshots_memory.rs",
    "tests/cli/snapshots_moves.rs",
    "tests/cli/snapshots_search.rs",
    "tests/cli/snapshots_skills.rs",
];
/// Files that are longer than they should be.
const LONG_FILES: [&str; 0] = [];
/// Functions that are longer than they should be, as `path::function`.
const LONG_FUNCTIONS: [&str; 0] = [];

#[test]
fn no_line_is_wider_than_a_screen() {
    let mut wide = Vec::new();
    for file in files(&["rs", "md", "toml"]) {
        for (number, line) in file.text.lines().enumerate() {
            if line.chars().count() > COLUMNS_MAX && !may_be_wide(&file, line) {
                wide.push(format!("{}:{}", file.path, number + 1));
            }
        }
    }
    assert_ratchet(&format!("lines have at most {COLUMNS_MAX} columns"), &wide, &[]);
}

/// In prose, a row of a table, an address and a line of an example cannot be broken.
fn may_be_wide(file: &TextFile, line: &str) -> bool {
    let unbroken =
        line.trim_start().starts_with(['|', '{', '<']) || line.contains("://") || line.contains("](");
    (file.has_extension(&["md"]) && unbroken) || SNAPSHOTS.contains(&&*file.path)
}

#[test]
fn every_source_file_says_first_why_it_exists() {
    let silent: Vec<String> =
        files(&["rs"]).into_iter().filter(|f| !f.text.starts_with("//! ")).map(|f| f.path).collect();
    assert_ratchet("a source file opens with //! and why it exists", &silent, &[]);
}

#[test]
fn every_source_file_fits_in_the_head() {
    let long: Vec<String> = files(&["rs"])
        .into_iter()
        .filter(|file| lines_without_tests(&file.text) > FILE_LINES_MAX)
        .map(|file| file.path)
        .collect();
    assert_ratchet(&format!("a source file has at most {FILE_LINES_MAX} lines"), &long, &LONG_FILES);
}

/// Tests at the end of a file do not count.
fn lines_without_tests(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

#[test]
fn every_function_fits_on_a_screen() {
    let mut long = Vec::new();
    for file in files(&["rs"]) {
        for function in functions(&file.text) {
            // A snapshot is one long literal.
            if function.lines > FUNCTION_LINES_MAX && !SNAPSHOTS.contains(&&*file.path) {
                long.push(format!("{}::{}", file.path, function.name));
            }
        }
    }
    assert_ratchet(&format!("a function has at most {FUNCTION_LINES_MAX} lines"), &long, &LONG_FUNCTIONS);
}

struct Function {
    name: String,
    lines: usize,
}

/// The functions of a file: from a line with `fn` to the line that closes with the same indentation, which rustfmt
/// guarantees.
fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some(rest) = ["fn ", "pub fn ", "pub(crate) fn ", "const fn ", "async fn "]
            .iter()
            .find_map(|start| code.strip_prefix(start))
        else {
            continue;
        };
        let name =
            rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default().to_owned();
        let close = format!("{}}}", " ".repeat(line.len() - code.len()));
        let one_line = line.ends_with('}') || line.ends_with(';');
        let end = lines[at..].iter().position(|line| *line == close).unwrap_or_default();
        found.push(Function { name, lines: if one_line { 1 } else { end + 1 } });
    }
    found
}

/// Each is written in two parts, so that this file does not break its own rule.
const BANNED: [(&str, &str, &str); 5] = [
    ("todo", "!(", "finish it, or write down in an issue what is left"),
    ("unimplemented", "!(", "return an error that says so"),
    ("dbg", "!(", "it was for debugging"),
    ("FIX", "ME", "mend it"),
    ("XX", "X", "say what is meant"),
];

#[test]
fn nothing_unfinished_is_left_in_the_source() {
    let mut found = Vec::new();
    for file in files(&["rs", "toml"]) {
        for (head, tail, instead) in BANNED {
            for (number, line) in file.text.lines().enumerate() {
                if holds_word(line, &format!("{head}{tail}")) {
                    found.push(format!("{}:{}: {head}{tail}: {instead}", file.path, number + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// Whether a line holds the word, and not only as a part of another.
fn holds_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        !letter(line[..at].chars().next_back()) && !letter(line[at + word.len()..].chars().next())
    })
}

#[test]
fn the_file_system_has_one_door() {
    let door =
        |path: &str| path == "crates/manent-log/src/fs/real.rs" || path.starts_with("crates/manent-bench/");
    let mut around = Vec::new();
    for file in files(&["rs"]) {
        let in_source = file.path.starts_with("crates/") && file.path.contains("/src/") && !door(&file.path);
        // A file of tests may reach around it, as those in other files do.
        let in_source = in_source && !file.path.ends_with("tests.rs");
        let reaches = |line: &&str| {
            line.contains("std::fs") || line.contains("tokio::fs") || holds_word(line, "File::open")
        };
        let code = file.text.lines().take_while(|line| *line != "#[cfg(test)]");
        if in_source && code.filter(|line| !line.trim_start().starts_with("//")).any(|line| reaches(&line)) {
            around.push(file.path);
        }
    }
    assert_ratchet("only manent-log/src/fs/real.rs touches the file system", &around, &[]);
}

#[test]
fn messages_of_libraries_name_no_command() {
    let is_library = |path: &str| {
        path.starts_with("crates/") && path.contains("/src/") && !path.starts_with("crates/manent-cli/")
    };
    let mut naming = Vec::new();
    for file in files(&["rs"]).iter().filter(|file| is_library(&file.path)) {
        let code = file.text.lines().take_while(|line| *line != "#[cfg(test)]");
        for (number, line) in code.enumerate().filter(|(_, line)| !line.trim_start().starts_with("//")) {
            if line.contains("`manent ") || line.contains("(--") {
                naming.push(format!("{}:{}", file.path, number + 1));
            }
        }
    }
    assert_ratchet("commands and options are named by manent-cli/src/hints.rs alone", &naming, &[]);
}

#[test]
fn functions_are_found_and_measured() {
    let five = "pub(crate) fn five(\n    a: u8,\n) -> u8 {\n    a\n}";
    let text = format!("fn one() {{}}\n\n{five}\nimpl X {{\n    fn two() {{\n    }}\n}}");
    let found: Vec<(String, usize)> = functions(&text).into_iter().map(|f| (f.name, f.lines)).collect();
    assert_eq!(found, [("one".to_owned(), 1), ("five".to_owned(), 5), ("two".to_owned(), 2)]);
}
