//! What is listed: sessions whose title or key has the words, then those in which they were said.

use std::collections::HashSet;

use anstyle::Style;
use manent::{Place, Query, SessionKey, Store, Summary};
use unicode_width::UnicodeWidthStr;

use crate::exit::Failure;
use crate::{term, when};

/// Sessions, and the one that is chosen.
pub(super) struct SessionList {
    all: Vec<Summary>,
    query: String,
    rows: Vec<Row>,
    chosen: usize,
    now_ms: i64,
}

/// A line of the list.
struct Row {
    /// The index in `all`.
    at: usize,
    /// The words that were found in the session, if its title and key do not match.
    said: Option<String>,
}

impl SessionList {
    pub(super) fn of(store: &Store) -> Result<SessionList, Failure> {
        let all = store.sessions(Place::Live, None, SESSIONS_MAX)?.sessions;
        let mut list =
            SessionList { all, query: String::new(), rows: Vec::new(), chosen: 0, now_ms: when::now_ms() };
        list.look(store);
        Ok(list)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn chosen(&self) -> Option<SessionKey> {
        self.rows.get(self.chosen).map(|row| self.all[row.at].id.key.clone())
    }

    pub(super) fn up(&mut self, lines: usize) {
        self.chosen = self.chosen.saturating_sub(lines);
    }

    pub(super) fn down(&mut self, lines: usize) {
        self.chosen = (self.chosen + lines).min(self.rows.len().saturating_sub(1));
    }

    pub(super) fn typed(&mut self, c: char) {
        if self.query.chars().count() < QUERY_CHARS_MAX && !c.is_control() {
            self.query.push(c);
            self.chosen = 0;
        }
    }

    pub(super) fn back(&mut self) {
        self.query.pop();
        self.chosen = 0;
    }

    pub(super) fn clear(&mut self) {
        self.query.clear();
        self.chosen = 0;
    }

    /// Finds what fits what was typed.
    pub(super) fn look(&mut self, store: &Store) {
        let words: Vec<String> = self.query.split_whitespace().map(str::to_lowercase).collect();
        let fits = |summary: &Summary| {
            let text = format!("{} {}", summary.id.key, summary.title).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let by_name = (0..self.all.len()).filter(|at| fits(&self.all[*at]));
        self.rows = by_name.map(|at| Row { at, said: None }).collect();
        if !words.is_empty() {
            self.look_inside(store);
        }
        self.chosen = self.chosen.min(self.rows.len().saturating_sub(1));
    }

    /// By what was said. The last word may not be at its end yet.
    fn look_inside(&mut self, store: &Store) {
        let plain: String = self.query.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
        let text = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return;
        }
        let Ok(query) = Query::parse(&format!("{text}*"), self.now_ms) else { return };
        let Ok(found) = store.search(&query, HITS_MAX) else { return };
        let mut listed: HashSet<usize> = self.rows.iter().map(|row| row.at).collect();
        for hit in found.hits.iter().filter(|hit| hit.id.place == Place::Live) {
            let at = self.all.iter().position(|summary| summary.id.key == hit.id.key);
            if let Some(at) = at.filter(|at| listed.insert(*at)) {
                self.rows.push(Row { at, said: Some(hit.snippet.text.clone()) });
            }
        }
    }

    /// The list in so many columns and rows: first what is typed, then as many sessions as there is room for.
    pub(super) fn lines(&self, columns: usize, rows: usize, colored: bool) -> Vec<String> {
        let count = term::counted(self.rows.len() as u64, "session");
        let help = "type to search, ↑↓ and Enter to go on with one, Esc to stay";
        let head = format!("session: {}▏ ({count}; {help})", term::line(&self.query));
        let mut lines = vec![styled(&term::fit(&head, columns), Style::new().bold(), colored)];
        let room = rows.saturating_sub(1).max(1);
        let from = (self.chosen + 1).saturating_sub(room);
        for (at, row) in self.rows.iter().enumerate().skip(from).take(room) {
            let is_chosen = at == self.chosen;
            let mark = if is_chosen { "❯ " } else { "  " };
            let text = format!("{mark}{}", self.text(row));
            let style = if is_chosen { Style::new().bold().invert() } else { Style::new() };
            lines.push(styled(&term::fit(&text, columns), style, colored));
        }
        if self.rows.is_empty() {
            lines.push(styled(&term::fit("  nothing fits", columns), term::FAINT, colored));
        }
        lines
    }

    fn text(&self, row: &Row) -> String {
        let summary = &self.all[row.at];
        let key = term::line(summary.id.key.as_str());
        let key = term::fit(&key, KEY_COLUMNS).into_owned();
        let widest = self.all.iter().map(|one| term::line(one.id.key.as_str()).width()).max();
        let key = term::pad(&key, widest.unwrap_or(0).min(KEY_COLUMNS));
        let ago = term::pad(&when::ago(summary.updated_ms, self.now_ms), AGO_COLUMNS);
        let plural = if summary.turns == 1 { " " } else { "s" };
        let front =
            format!("{key}  {ago}  {:>5} turn{plural}  {}", summary.turns, term::line(&summary.title));
        match &row.said {
            Some(said) => format!("{front}  … {}", term::one_line(said, usize::MAX)),
            None => front,
        }
    }
}

fn styled(text: &str, style: Style, colored: bool) -> String {
    if colored { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

const SESSIONS_MAX: usize = 2000;
const HITS_MAX: usize = 50;
const QUERY_CHARS_MAX: usize = 200;
const KEY_COLUMNS: usize = 24;
const AGO_COLUMNS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn store(dir: &std::path::Path) -> Store {
        let store = Store::open(dir).unwrap();
        for (key, said) in [
            ("work", "We chose the database with the blue logo"),
            ("play", "A game of chess"),
            ("evil\u{1b}[2J", "x \u{1b}]0;owned\u{7} zebra"),
        ] {
            let key = SessionKey::new(key).unwrap();
            store.append(&key, manent::turn("user", said)).unwrap();
            store.append(&key, manent::turn("assistant", format!("about {}", said.len()))).unwrap();
        }
        store
    }

    fn typed(store: &Store, text: &str) -> SessionList {
        let mut list = SessionList::of(store).unwrap();
        for c in text.chars() {
            list.typed(c);
            list.look(store);
        }
        list
    }

    #[test]
    fn it_narrows_by_titles_and_by_what_was_said() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        assert_eq!(typed(&store, "").rows.len(), 3);
        assert_eq!(typed(&store, "PLAY").chosen().unwrap().as_str(), "play");
        assert_eq!(typed(&store, "chess").rows.len(), 1, "the title is what was first said");
        let list = typed(&store, "about 40");
        assert_eq!(list.chosen().unwrap().as_str(), "work", "said by the other");
        assert!(list.rows[0].said.is_some());
        let mut list = typed(&store, "nothing like this");
        assert_eq!(list.chosen(), None);
        list.clear();
        list.look(&store);
        list.down(100);
        assert_eq!(list.chosen, 2);
        list.up(100);
        assert_eq!(list.chosen, 0);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_none_drives_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        for query in ["", "zebra", "\u{202e}", "\" OR ( -"] {
            let list = typed(&store, query);
            for columns in [1, 2, 10, 79, 300] {
                for rows in [1, 3, 24] {
                    let lines = list.lines(columns, rows, false);
                    assert!(lines.len() <= rows.max(2), "{lines:?}");
                    for line in lines {
                        assert!(line.width() <= columns, "{columns}: {line:?}");
                        assert!(!line.contains(['\u{1b}', '\u{7}', '\u{202e}', '\n']), "{line:?}");
                    }
                }
            }
        }
    }
}
