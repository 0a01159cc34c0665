//! Checks messages of the library crates: they name no command and no option, because a program that embeds a library
//! has others. `crates/manent-cli/src/hints.rs` adds the next step.

use super::tree::{TextFile, assert_ratchet, files};

/// The crates whose messages are checked.
const CRATES: [&str; 6] =
    ["manent-log", "manent-store", "manent-index", "manent", "manent-runs", "manent-agent"];

/// Literals that are no messages, or name an option of another program, as `path: literal`.
const ALLOWED: [&str; 3] = [
    "crates/manent/src/secrets.rs:  --proxy-user ",
    "crates/manent/src/secrets.rs:  --user ",
    "crates/manent/src/secrets.rs:  --user=",
];

#[test]
fn messages_of_libraries_name_no_command_and_no_option() {
    let sources = files(&["rs"]);
    let commands = commands(&sources);
    assert!(commands.contains(&"append") && commands.len() > 20, "the commands are found: {commands:?}");
    let mut naming = Vec::new();
    for file in sources.iter().filter(|file| is_checked(&file.path)) {
        for literal in literals(&file.text) {
            if names_option(&literal) || names_command(&literal, &commands) {
                naming.push(format!("{}: {literal}", file.path));
            }
        }
    }
    naming.sort();
    naming.dedup();
    assert_ratchet("library messages name no command and no option", &naming, &ALLOWED);
}

/// Whether a file is source of a library crate, and not a test of it.
fn is_checked(path: &str) -> bool {
    let is_source = CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    is_source && !path.ends_with("tests.rs") && !path.contains("/tests/")
}

/// The names of the commands, as their modules are declared.
fn commands(sources: &[TextFile]) -> Vec<&str> {
    let list = sources.iter().find(|file| file.path == "crates/manent-cli/src/commands/mod.rs");
    let declared = list.into_iter().flat_map(|file| file.text.lines());
    declared.filter_map(|line| line.strip_prefix("pub(crate) mod ")?.strip_suffix(';')).collect()
}

/// Whether a text has ` --option`, also at its beginning or in quotes. One that is nothing else is no message but an
/// argument of another program, as those of bubblewrap.
fn names_option(text: &str) -> bool {
    let is_message = text.trim().contains(char::is_whitespace) || !text.starts_with("--");
    is_message
        && text.match_indices("--").any(|(at, _)| {
            let is_start = text[..at].chars().next_back().is_none_or(|before| " `(\"'".contains(before));
            is_start && text[at + 2..].starts_with(|after: char| after.is_ascii_lowercase())
        })
}

/// Whether a text has `manent` and a command behind it.
fn names_command(text: &str, commands: &[&str]) -> bool {
    text.match_indices("manent ").any(|(at, found)| {
        let word = text[at + found.len()..].split(|c: char| !c.is_alphanumeric() && c != '-').next();
        commands.contains(&word.unwrap_or_default())
    })
}

/// The string literals of a file outside comments, up to its tests, with lines that are broken by `\` joined.
fn literals(text: &str) -> Vec<String> {
    let mut rest = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    while let Some(at) = rest.find(['"', '/', '\'', 'r']) {
        let (before, here) = (&rest[..at], &rest[at..]);
        let is_name = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if here.starts_with("//") {
            rest = here.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(raw) = here.strip_prefix('r').filter(|raw| !is_name && raw.starts_with(['"', '#']))
        {
            let hashes = &raw[..raw.len() - raw.trim_start_matches('#').len()];
            let Some(inner) = raw[hashes.len()..].strip_prefix('"') else {
                rest = &here[1..];
                continue;
            };
            let (literal, after) = inner.split_once(&format!("\"{hashes}")).unwrap_or((inner, ""));
            found.push(literal.to_owned());
            rest = after;
        } else if let Some(inner) = here.strip_prefix('"') {
            let len = end_of_literal(inner);
            found.push(joined(&inner[..len]));
            rest = inner.get(len + 1..).unwrap_or_default();
        } else if let Some(after) = here.strip_prefix("'\"'") {
            rest = after;
        } else if here.starts_with("'\\\"'") || here.starts_with("'\\''") || here.starts_with("'\\\\'") {
            rest = &here[4..];
        } else {
            rest = &here[1..];
        }
    }
    found
}

/// The length of a literal up to the quote that ends it.
fn end_of_literal(inner: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    inner.len()
}

fn joined(literal: &str) -> String {
    let mut parts = literal.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start())
}

#[test]
fn literals_are_found_outside_comments_and_tests() {
    let source = "// \"no\"\nconst A: &str = \"one \\\"two\\\" \\\n    three\";\n\
        let b = '\"'; let c = r#\"raw \"x\"\"#;\n\
        #[cfg(test)]\nmod tests { const D: &str = \"no\"; }";
    assert_eq!(literals(source), ["one \\\"two\\\" three", "raw \"x\""]);
    assert!(names_option("(--home names it)") && !names_option("a--b -- c"));
    assert!(names_command("then `manent archive x`", &["archive"]));
    assert!(!names_command("another manent process", &["archive"]));
}
