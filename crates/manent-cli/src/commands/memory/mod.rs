//! `manent memory …`: what is remembered across sessions.

mod add;
mod audit;
mod compact;
mod forget;
mod inbox;
mod list;
mod search;
mod select;
mod why;

use std::time::Duration;

use anstyle::Style;
use manent::Memory;
use manent::memory::Item;
use unicode_width::UnicodeWidthStr;

use crate::args::memory::{self as args, MemoryCommand};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &args::Memory) -> Result<Exit, Failure> {
    match &given.command {
        MemoryCommand::Add(given) => add::run(context, given),
        MemoryCommand::Forget(given) => forget::run(context, given),
        MemoryCommand::List(given) => list::run(context, given),
        MemoryCommand::Search(given) => search::run(context, given),
        MemoryCommand::Why(given) => why::run(context, given),
        MemoryCommand::Select(given) => select::run(context, given),
        MemoryCommand::Audit => audit::run(context),
        MemoryCommand::Compact(given) => compact::run(context, given),
        MemoryCommand::Inbox => inbox::list(context),
        MemoryCommand::Accept(given) => inbox::accept(context, given),
        MemoryCommand::Reject(given) => inbox::reject(context, given),
    }
}

/// The memory, for writers that wait this long for others.
fn memory(context: &Context<'_>, wait: Duration) -> Result<Memory, Failure> {
    Ok(context.store(wait)?.memory()?)
}

/// Says that some of the file could not be read.
fn warn_of_damage(context: &Context<'_>, memory: &Memory) -> Result<(), Failure> {
    let damage = memory.damage()?;
    if let Some(first) = damage.first() {
        let (count, at) = (damage.len(), first.offset);
        let plural = if count == 1 { "" } else { "s" };
        context.warn(&format!(
            "{count} place{plural} in {} cannot be read, the first at offset {at}; `manent verify` tells more",
            memory.path().display()
        ));
    }
    Ok(())
}

/// The front of the line of an item: number, kind, age.
fn front(item: &Item, id_columns: usize, output: &Output) -> [(Style, String); 3] {
    let age = match item.at_ms {
        // Another program's, which does not say when.
        ..=0 => "-".to_owned(),
        ms if output.terminal => when::ago(ms, when::now_ms()),
        ms => when::day(ms),
    };
    [
        (Style::new().bold(), term::pad(&item.id.to_string(), id_columns)),
        (term::FAINT, format!("  {:7}", item.kind.word())),
        (term::FAINT, format!("  {}  ", term::pad(&age, AGE_COLUMNS))),
    ]
}

/// An item on one line.
fn print(item: &Item, id_columns: usize, output: &mut Output) -> std::io::Result<()> {
    let front = front(item, id_columns, output);
    let columns = output.columns().unwrap_or(usize::MAX);
    let used: usize = front.iter().map(|(_, text)| text.width()).sum();
    let room = columns.saturating_sub(used);
    // Where there is little room, what is remembered is worth more than its labels.
    let tags = tags_of(item);
    let tags = if room < TEXT_COLUMNS_MIN * 2 { "".into() } else { term::fit(&tags, columns / 3) };
    let room = room.saturating_sub(tags.width()).clamp(TEXT_COLUMNS_MIN / 2, TEXT_COLUMNS);
    let text = first_line(&item.content);
    let text = term::fit(&text, room);
    let [number, kind, age] = &front;
    output.line(&[
        (number.0, &number.1),
        (kind.0, &kind.1),
        (age.0, &age.1),
        (Style::new(), &text),
        (term::FAINT, &tags),
    ])
}

/// The labels of an item, behind its text.
fn tags_of(item: &Item) -> String {
    let tags: Vec<String> = item.tags.iter().map(|tag| format!("  #{}", term::line(tag))).collect();
    tags.concat()
}

/// The text as one line, however long and whatever is in it.
fn first_line(text: &str) -> String {
    let words: String = text.chars().take(LINE_CHARS).collect();
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    term::line(&line).into_owned()
}

const AGE_COLUMNS: usize = 10;
const TEXT_COLUMNS: usize = 200;
const TEXT_COLUMNS_MIN: usize = 20;
/// No terminal shows more of a text on a line.
const LINE_CHARS: usize = 2000;
