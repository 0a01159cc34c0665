//! Completion by the tab key: commands and their words, keys of sessions, names of files.
//!
//! A name that a terminal would obey is not offered: it could not be shown as it is.

use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::log::fs::{Disk, Shape};
use manent::{Place, Store};
use rustyline::completion::Pair;

use super::colon_commands::{Argument, COMMANDS};
use crate::term;

/// Completes the word at the cursor.
pub(super) struct Completer {
    pub(super) store: Store,
}

impl Completer {
    /// Returns the offset at which the word at the cursor begins, and its completions.
    pub(super) fn offer(&self, line: &str, pos: usize) -> (usize, Vec<Pair>) {
        let before = &line[..pos.min(line.len())];
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let start = before.len() - word.len();
        let Some(command) = before.strip_prefix(':') else {
            return (start, if looks_like_path(word) { files(word) } else { Vec::new() });
        };
        let Some((name, _)) = command.split_once(char::is_whitespace) else {
            let names = COMMANDS.iter().map(|command| format!(":{}", command.name()));
            return (0, beginning(names, word, " "));
        };
        let is_first = before[..start].trim_end().len() == name.len() + 1;
        let argument = COMMANDS.iter().find(|command| command.name() == name).map(|command| command.argument);
        let offered = match argument {
            Some(Argument::Words(words)) if is_first => {
                beginning(words.iter().map(|w| (*w).to_owned()), word, " ")
            }
            Some(Argument::Key) if is_first => beginning(self.keys().into_iter(), word, ""),
            Some(Argument::File) => files(word),
            _ => Vec::new(),
        };
        (start, offered)
    }

    fn keys(&self) -> Vec<String> {
        let mut listed = self.store.list(Place::Live).unwrap_or_default();
        listed.sort_by_key(|listed| std::cmp::Reverse(listed.modified_ms));
        listed.truncate(OFFERED_MAX);
        listed.into_iter().map(|listed| listed.id.key.to_string()).collect()
    }
}

fn beginning(all: impl Iterator<Item = String>, word: &str, behind: &str) -> Vec<Pair> {
    let fits = |text: &String| text.starts_with(word) && term::line(text) == *text;
    let pair = |text: String| Pair { replacement: format!("{text}{behind}"), display: text };
    all.filter(fits).map(pair).collect()
}

/// Returns true if a word of a question can hardly be anything else than a path.
fn looks_like_path(word: &str) -> bool {
    word.contains('/') || word.starts_with('~')
}

fn files(word: &str) -> Vec<Pair> {
    let (dir, name) = word.rfind('/').map_or(("", word), |at| word.split_at(at + 1));
    let from: PathBuf = match dir.strip_prefix("~/") {
        Some(rest) => match crate::context::user_home() {
            Some(home) => home.join(rest),
            None => return Vec::new(),
        },
        None if dir.is_empty() => ".".into(),
        None => dir.into(),
    };
    let mut found: Vec<Pair> = Vec::new();
    for entry in RealDisk.list(&from).unwrap_or_default() {
        let Some(text) = entry.name.to_str() else { continue };
        // Hidden files are offered only if the word begins with a dot.
        let is_hidden = text.starts_with('.') && !name.starts_with('.');
        let is_one_word = term::line(text) == text && !text.contains(char::is_whitespace);
        if !text.starts_with(name) || is_hidden || !is_one_word {
            continue;
        }
        let slash = if is_directory(&from.join(text), entry.shape) { "/" } else { "" };
        found.push(Pair { display: format!("{text}{slash}"), replacement: format!("{dir}{text}{slash}") });
    }
    found.sort_by(|a, b| a.display.cmp(&b.display));
    found.truncate(OFFERED_MAX);
    found
}

fn is_directory(path: &Path, shape: Shape) -> bool {
    match shape {
        Shape::Directory => true,
        Shape::Link => {
            let real = RealDisk.resolve(path).and_then(|real| RealDisk.inspect(&real));
            real.is_ok_and(|info| info.shape == Shape::Directory)
        }
        _ => false,
    }
}

const OFFERED_MAX: usize = 200;

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "files are made for it to find")]

    use super::*;

    fn offered(store: &Store, line: &str) -> (usize, Vec<String>) {
        let (start, pairs) = Completer { store: store.clone() }.offer(line, line.len());
        (start, pairs.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn commands_their_words_keys_and_files_are_offered() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("store")).unwrap();
        for key in ["work", "work:two", "play", "wor\u{200b}k"] {
            store.append(&manent::SessionKey::new(key).unwrap(), manent::turn("user", "x")).unwrap();
        }
        assert_eq!(offered(&store, ":res"), (0, vec![":resume ".to_owned()]));
        assert!(offered(&store, ":").1.len() > 15);
        assert_eq!(offered(&store, ":memory fo"), (8, vec!["forget ".to_owned()]));
        assert_eq!(offered(&store, ":memory forget x").1, [""; 0]);
        let (start, mut keys) = offered(&store, ":resume wo");
        keys.sort();
        assert_eq!(
            (start, keys),
            (8, vec!["work".to_owned(), "work:two".to_owned()]),
            "no hidden characters"
        );
        assert_eq!(offered(&store, "a question of wo").1, [""; 0]);

        let files = dir.path().join("files");
        std::fs::create_dir_all(files.join("docs")).unwrap();
        for name in ["done.md", "don\u{1b}[2Je", ".hidden"] {
            std::fs::write(files.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(files.join("docs"), files.join("dlink")).unwrap();
        let at = format!("look at {}/d", files.display());
        let names: Vec<String> = offered(&store, &at)
            .1
            .iter()
            .map(|path| path.rsplit_once("/files/").unwrap().1.to_owned())
            .collect();
        assert_eq!(names, ["dlink/", "docs/", "done.md"]);
        assert_eq!(offered(&store, &format!(":export {}/.h", files.display())).1.len(), 1);
        assert_eq!(offered(&store, "see /nowhere/at/all").1, [""; 0]);
        // The cursor in the middle of a line, and behind something wide.
        assert_eq!(Completer { store: store.clone() }.offer("日本 :x", 7).0, 7);
        assert_eq!(Completer { store }.offer("", 0).1.len(), 0);
    }
}
