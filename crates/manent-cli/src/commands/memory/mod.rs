//! `manent memory …`: items that are remembered across sessions.

mod accept;
mod add;
mod audit;
mod compact;
mod forget;
mod inbox;
mod list;
mod reject;
mod search;
mod select;
mod why;

use manent::Memory;
use manent::memory::Item;
use unicode_width::UnicodeWidthStr;

use super::subcommands;
use crate::commands::prelude::*;

subcommands! {
    /// What is remembered across sessions: add, forget, list, search, and where it came from
    MemoryCommand {
        Add(add::MemoryAddArgs),
        /// Forget items; `compact` then removes them from the file
        Forget(forget::MemoryForgetArgs),
        List(list::MemoryListArgs),
        Search(search::MemorySearchArgs),
        Why(why::MemoryWhyArgs),
        Select(select::MemorySelectArgs),
        Audit(audit::MemoryAuditArgs),
        Compact(compact::MemoryCompactArgs),
        Inbox(inbox::MemoryInboxArgs),
        /// Remember what waits in the inbox
        Accept(accept::MemoryAcceptArgs),
        /// Throw away what waits in the inbox
        Reject(reject::MemoryRejectArgs),
    }
}

// Items that are named by their numbers, in the memory or in the inbox.
#[derive(Debug, Args)]
pub(crate) struct ItemIds {
    /// The items
    #[arg(value_name = "ID", required = true)]
    ids: Vec<u64>,
    #[command(flatten)]
    wait: Wait,
}

/// Opens the memory. Writers wait for `wait` while another process writes.
fn memory(context: &Context<'_>, wait: Duration) -> Result<Memory, Failure> {
    Ok(context.store(wait)?.memory()?)
}

/// Warns of places in the file that cannot be read.
fn warn_of_damage(context: &Context<'_>, memory: &Memory) -> Result<(), Failure> {
    let damage = memory.damage()?;
    if let Some(first) = damage.first() {
        let (places, path) = (term::counted(damage.len() as u64, "place"), memory.path().display());
        let first = format!("the first at offset {}", first.offset);
        context.warn(&format!("{places} in {path} cannot be read, {first}; `manent verify` tells more"));
    }
    Ok(())
}

/// Returns the beginning of the line of an item: number, kind, age.
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

/// Prints an item on one line.
fn print(item: &Item, id_columns: usize, output: &mut Output) -> io::Result<()> {
    let front = front(item, id_columns, output);
    let columns = output.columns().unwrap_or(usize::MAX);
    let used: usize = front.iter().map(|(_, text)| text.width()).sum();
    let room = columns.saturating_sub(used);
    // If there is little room, labels give way to the text.
    let tags = tags_of(item);
    let tags = if room < TEXT_COLUMNS_MIN * 2 { "".into() } else { term::fit(&tags, columns / 3) };
    let room = room.saturating_sub(tags.width()).clamp(TEXT_COLUMNS_MIN / 2, TEXT_COLUMNS);
    let text = term::escaped_beginning(&item.content, LINE_CHARS);
    let text = term::fit(&text, room);
    let mut parts: Vec<(Style, &str)> = front.iter().map(|(style, text)| (*style, text.as_str())).collect();
    parts.extend([(Style::new(), text.as_ref()), (term::FAINT, tags.as_ref())]);
    output.line(&parts)
}

/// Returns the labels of an item as they stand behind its text.
fn tags_of(item: &Item) -> String {
    let tags: Vec<String> = item.tags.iter().map(|tag| format!("  #{}", term::line(tag))).collect();
    tags.concat()
}

const AGE_COLUMNS: usize = 10;
const TEXT_COLUMNS: usize = 200;
const TEXT_COLUMNS_MIN: usize = 20;
/// No terminal shows more of a text on a line.
const LINE_CHARS: usize = 2000;
