//! Asking a person whether a model may do something.

use std::io;

use anstyle::Style;
use manent_agent::kernel::{Approval, ApprovalReply};
use manent_agent::policy::{ApprovalScope, Grant, MAY_CHANGE, Prefix};
use rustix::termios::{QueueSelector, tcflush};

use super::answer_view::{faint, tell};
use super::line_editor;
use crate::context::Context;
use crate::term;

/// Shows what would be done, and passes on the answer of the person. Anything but a clear yes is a no, Ctrl-C too.
pub(super) fn ask(context: &Context<'_>, approval: &Approval) {
    // Keys that were typed before the question could be read are no answer to it.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    let bold = Style::new().bold();
    let faint = term::FAINT;
    tell(&format!(
        "{bold}{}{bold:#}  {faint}{}{faint:#}",
        term::line(&approval.what),
        term::line(&approval.why)
    ));
    if let Some(preview) = &approval.preview {
        show(preview);
    }
    let longer =
        if approval.is_for_once { "" } else { ", [s] this very one in this chat, [p] in this project" };
    tell(&format!("[y] yes{longer}{}, or no and why", wider(approval)));
    let line = line_editor::answer(context, "allow? ").unwrap_or_default();
    approval.answer(match (line.trim(), &approval.prefix) {
        ("y" | "yes" | "Y", _) => ApprovalReply::Yes(ApprovalScope::Once, Grant::Same),
        // Not offered, so that it may be meant as anything.
        ("s" | "p", _) if approval.is_for_once => ApprovalReply::No(None),
        ("s", _) => ApprovalReply::Yes(ApprovalScope::Session, Grant::Same),
        ("p", _) => ApprovalReply::Yes(ApprovalScope::Project, Grant::Same),
        ("b", Some(prefix)) => ApprovalReply::Yes(prefix.longest, Grant::Prefix(prefix.words.clone())),
        ("" | "n" | "no" | "N", _) => ApprovalReply::No(None),
        (why, _) => ApprovalReply::No(Some(why.to_owned())),
    });
}

/// Returns the choice of a prefix, with what it makes possible.
fn wider(approval: &Approval) -> String {
    let Some(Prefix { words, longest }) = &approval.prefix else { return String::new() };
    let words = words.join(" ");
    let words = term::line(&words);
    match longest {
        ApprovalScope::Project => format!(", [b] every `{words}` in this project"),
        _ => format!(", [b] every `{words}` with these options in this chat ({MAY_CHANGE})"),
    }
}

/// Prints a diff in colours.
fn show(preview: &str) {
    let lines: Vec<&str> = preview.lines().collect();
    for line in lines.iter().take(PREVIEW_LINES) {
        let style = term::diff_style(line);
        tell(&format!("{style}{}{style:#}", term::line(line)));
    }
    if lines.len() > PREVIEW_LINES {
        faint(&format!("… and {} lines more", lines.len() - PREVIEW_LINES));
    }
}

const PREVIEW_LINES: usize = 60;
