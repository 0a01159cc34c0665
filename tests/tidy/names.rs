//! Checks names and comments: doc comments that name their subject, type names that occur once, documents that name
//! files that exist.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{TextFile, files};

/// Words that open a doc comment without naming its subject.
const VAGUE_OPENINGS: [&str; 13] =
    ["What", "Whether", "How", "Where", "Which", "Who", "Why", "When", "Nothing", "It", "Its", "Of", "As"];
const VAGUE_PERCENT_MAX: usize = 6;

#[test]
fn doc_comments_open_with_their_subject() {
    let mut count = 0;
    let mut vague = Vec::new();
    for file in files(&["rs"]) {
        for (number, opening) in doc_openings(&file.text) {
            count += 1;
            if VAGUE_OPENINGS.contains(&first_word(opening)) {
                vague.push(format!("{}:{number}: {opening}", file.path));
            }
        }
    }
    assert!(count > 1000, "the doc comments of the workspace are found: {count}");
    let percent = vague.len() * 100 / count;
    assert!(
        percent < VAGUE_PERCENT_MAX,
        "{} of {count} doc comments open with a word that does not name their subject: {vague:#?}",
        vague.len()
    );
}

/// Words that open a comment as a riddle, whose subject a reader has to guess.
const RIDDLE_OPENINGS: [&str; 22] = [
    "All of it",
    "All of them",
    "All that",
    "By how",
    "By what",
    "By which",
    "Everything",
    "For whom",
    "From when",
    "In which",
    "Nobody",
    "Nothing:",
    "On how",
    "On which",
    "So few",
    "So many",
    "So much",
    "Somebody",
    "Something",
    "Those",
    "Whatever",
    "Whoever",
];
/// Crates in which no comment opens so.
const WITHOUT_RIDDLES: [&str; 3] = ["manent-agent", "manent-runs", "manent-cli"];

#[test]
fn doc_comments_are_no_riddles() {
    let is_checked = |path: &str| {
        let of_crate = path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
        of_crate.is_some_and(|(name, _)| WITHOUT_RIDDLES.contains(&name))
    };
    let mut riddles = Vec::new();
    for file in files(&["rs"]).iter().filter(|file| is_checked(&file.path)) {
        // The help of an option or a command is no comment; it has no full stop.
        let is_help = |line: &str| file.path.contains("/src/commands/") && !line.contains('.');
        for (number, opening) in doc_openings(&file.text) {
            if RIDDLE_OPENINGS.iter().any(|riddle| opens_with(opening, riddle)) && !is_help(opening) {
                riddles.push(format!("{}:{number}: {opening}", file.path));
            }
        }
    }
    assert!(riddles.is_empty(), "a comment opens with a verb or a noun that names its subject: {riddles:#?}");
}

/// Returns true if a text begins with these words, and not only with a part of another word.
fn opens_with(text: &str, words: &str) -> bool {
    text.strip_prefix(words).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// Returns the first line of each `///` comment, with its line number.
fn doc_openings(text: &str) -> Vec<(usize, &str)> {
    let mut openings = Vec::new();
    let mut is_inside = false;
    for (index, line) in text.lines().enumerate() {
        let doc = line.trim_start().strip_prefix("///");
        if let Some(opening) = doc.filter(|_| !is_inside) {
            openings.push((index + 1, opening.trim()));
        }
        is_inside = doc.is_some();
    }
    openings
}

fn first_word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

#[test]
fn no_visible_type_name_occurs_twice_in_a_crate() {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in files(&["rs"]) {
        let Some((name, _)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        // A file that stands in for another one where a feature is off has the same names.
        if file.path.ends_with("_unavailable.rs") {
            continue;
        }
        for found in visible_types(&file.text) {
            places.entry((name.to_owned(), found.to_owned())).or_default().push(file.path.clone());
        }
    }
    assert!(places.len() > 500, "the types of the workspace are found: {}", places.len());
    let repeated: Vec<_> = places.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(repeated.is_empty(), "one name has one meaning in a crate: {repeated:#?}");
}

/// Returns the names of the types that are visible outside of their module.
fn visible_types(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let item = line.trim_start().strip_prefix("pub")?;
        let item = match item.strip_prefix('(') {
            Some(restricted) => restricted.split_once(')')?.1,
            None => item,
        };
        let mut words = item.strip_prefix(' ')?.split_whitespace();
        let is_type = matches!(words.next(), Some("struct" | "enum" | "trait" | "type" | "union"));
        words.next().filter(|_| is_type).map(first_identifier)
    })
}

fn first_identifier(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Documents that tell a newcomer where things are.
const MAPS: [&str; 4] = ["docs/ARCHITECTURE.md", "AGENTS.md", "CONTRIBUTING.md", "SECURITY.md"];

#[test]
fn every_source_file_that_a_document_names_exists() {
    let paths: BTreeSet<String> = files(&["rs"]).into_iter().map(|file| file.path).collect();
    let documents: Vec<TextFile> =
        files(&["md"]).into_iter().filter(|file| MAPS.contains(&&*file.path)).collect();
    assert_eq!(documents.len(), MAPS.len(), "all of {MAPS:?} are there");
    let mut missing = Vec::new();
    for document in documents {
        for name in document.text.split('`').skip(1).step_by(2).filter(|name| is_source_file(name)) {
            let suffix = format!("/{name}");
            if !paths.iter().any(|path| path == name || path.ends_with(&suffix)) {
                missing.push(format!("{}: {name}", document.path));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

fn is_source_file(name: &str) -> bool {
    name.strip_suffix(".rs").is_some() && name.chars().all(|c| c.is_alphanumeric() || "_-./".contains(c))
}

#[test]
fn visible_types_and_doc_openings_are_found() {
    let text = "/// Keeps.\n/// More.\npub(crate) struct One<T>(T);\n\n    /// What\n    pub enum Two {}\n\
                struct Three;\npub type Four = u8;\npub(in crate::x) trait Five: Six {}\npub fn six() {}\n";
    assert_eq!(visible_types(text).collect::<Vec<_>>(), ["One", "Two", "Four", "Five"]);
    assert_eq!(doc_openings(text), [(1, "Keeps."), (5, "What")]);
    assert_eq!(first_word("It's"), "It");
    assert!(opens_with("Nothing: it is empty.", "Nothing:") && opens_with("Those of it", "Those"));
    assert!(!opens_with("Somethings", "Something") && !opens_with("The so many", "So many"));
}
