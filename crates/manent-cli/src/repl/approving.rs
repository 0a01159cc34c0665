//! Asking a person whether a model may do something.

use std::io::{self, BufRead, Write};

use anstyle::{AnsiColor, Style};
use manent_agent::kernel::{Approval, Word};
use manent_agent::policy::{Answer, Grant};

use crate::term;

/// Shows what would be done, and passes on what the person says. Whatever is no clear yes is a no.
pub(super) fn ask(approval: &Approval) {
    let bold = Style::new().bold();
    anstream::eprintln!(
        "{bold}{}{bold:#}  {}{}{:#}",
        term::line(&approval.what),
        term::FAINT,
        approval.why,
        term::FAINT
    );
    if let Some(preview) = &approval.preview {
        show(preview);
    }
    let beginning = approval.beginning.as_ref().map(|words| words.join(" "));
    let more = beginning
        .as_deref()
        .map(|words| format!(", [b] all `{}` here", term::line(words)))
        .unwrap_or_default();
    anstream::eprint!("[y] yes, [s] in this chat, [p] in this project{more}, or no and why: ");
    let _ = io::stderr().flush();
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    let said = if read.is_ok() { line.trim() } else { "" };
    approval.answer(match (said, &approval.beginning) {
        ("y" | "yes" | "Y", _) => Word::Yes(Answer::Once, Grant::Same),
        ("s", _) => Word::Yes(Answer::Session, Grant::Same),
        ("p", _) => Word::Yes(Answer::Project, Grant::Same),
        ("b", Some(words)) => Word::Yes(Answer::Project, Grant::Beginning(words.clone())),
        ("" | "n" | "no" | "N", _) => Word::No(None),
        (why, _) => Word::No(Some(why.to_owned())),
    });
}

/// A diff, in the colours of one.
fn show(preview: &str) {
    let lines: Vec<&str> = preview.lines().collect();
    for line in lines.iter().take(PREVIEW_LINES) {
        let color = match line.bytes().next() {
            Some(b'+') => Some(AnsiColor::Green),
            Some(b'-') => Some(AnsiColor::Red),
            _ => None,
        };
        let style = Style::new().fg_color(color.map(Into::into));
        anstream::eprintln!("{style}{}{style:#}", term::line(line));
    }
    if lines.len() > PREVIEW_LINES {
        anstream::eprintln!(
            "{}… and {} lines more{:#}",
            term::FAINT,
            lines.len() - PREVIEW_LINES,
            term::FAINT
        );
    }
}

const PREVIEW_LINES: usize = 60;
