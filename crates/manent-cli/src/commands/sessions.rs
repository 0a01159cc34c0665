//! `manent sessions`: what there is, newest first.

use std::time::Duration;

use anstyle::Style;
use manent::{Place, Store, Summary};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::args::Sessions;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Sessions) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let place = match (given.archived, given.trash) {
        (true, _) => Place::Archive,
        (_, true) => Place::Trash,
        _ => Place::Live,
    };
    let mut rows = rows(context, &store, place)?;
    let found = rows.len();
    if let Some(since) = given.since {
        rows.retain(|row| row.updated_ms >= since.ms);
    }
    rows.sort_by(|a, b| (b.updated_ms, &a.summary.address.key).cmp(&(a.updated_ms, &b.summary.address.key)));
    rows.truncate(given.limit.unwrap_or(usize::MAX));
    let mut output = context.output();
    if output.json {
        for row in &rows {
            output.json(&row.json())?;
        }
    } else if rows.is_empty() {
        say_that_there_are_none(context, &store, place, found)?;
    } else {
        table(&rows, place != Place::Live, &mut output)?;
    }
    output.flush()?;
    Ok(Exit::Done)
}

fn say_that_there_are_none(
    context: &Context<'_>,
    store: &Store,
    place: Place,
    found: usize,
) -> Result<(), Failure> {
    if found > 0 {
        context.note(&format!("none of {found} is meant by --since or --limit"));
        return Ok(());
    }
    let elsewhere = store.list(Place::Archive).map_or(0, |archived| archived.len());
    let home = context.home()?;
    let (what, hint) = match place {
        Place::Live if elsewhere > 0 => ("no live sessions", format!("; {elsewhere} with --archived")),
        Place::Live => ("no sessions", "; `manent append KEY TEXT` makes one".to_owned()),
        Place::Archive => ("nothing archived", String::new()),
        Place::Trash => ("nothing in the trash", String::new()),
    };
    // Something that cannot be read is there; that was said.
    if store.list(place).is_ok_and(|listed| listed.is_empty()) {
        context.note(&format!("{what} in {}{hint}", home.display()));
    }
    Ok(())
}

struct Row {
    summary: Summary,
    created_ms: i64,
    updated_ms: i64,
}

impl Row {
    fn json(&self) -> serde_json::Value {
        let Summary { address, title, turns, bytes, .. } = &self.summary;
        json!({
            "key": address.key.as_str(), "id": address.id, "title": title, "turns": turns, "bytes": bytes,
            "status": address.place.word(), "created": when::format_ms(self.created_ms),
            "updated": when::format_ms(self.updated_ms),
        })
    }
}

fn rows(context: &Context<'_>, store: &Store, place: Place) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    let all = store.list(place)?;
    let bar = context.progress(all.iter().map(|listed| listed.bytes).sum());
    for listed in all {
        let summary = store.summary(&listed);
        bar.inc(listed.bytes);
        match summary {
            Ok(summary) => {
                // Order is by what the records say; the file's own time is for files whose records say nothing.
                let time = |ts: &Option<String>| {
                    ts.as_deref().and_then(when::parse_ms).unwrap_or(listed.modified_ms)
                };
                let (created_ms, updated_ms) = (time(&summary.created), time(&summary.updated));
                if summary.damaged {
                    context.warn(&format!("{}: damaged; `manent verify` tells where", listed.address.key));
                }
                rows.push(Row { summary, created_ms, updated_ms });
            }
            // Archived or deleted by somebody else since it was listed.
            Err(e) if e.is_not_found() => {}
            // One file that cannot be read hides no other.
            Err(e) => context.warn(&e.to_string()),
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

/// The table; with ids where a key can have several sessions.
fn table(rows: &[Row], with_ids: bool, output: &mut Output) -> std::io::Result<()> {
    let now = when::now_ms();
    let key_columns = output.columns().map_or(KEY_COLUMNS, |columns| (columns / 3).clamp(16, KEY_COLUMNS));
    let cells: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            let updated = if output.terminal {
                when::ago(row.updated_ms, now)
            } else {
                when::format_ms(row.updated_ms)
            };
            let Summary { address, .. } = &row.summary;
            let id = match address.id.get(..ID_COLUMNS).unwrap_or(&address.id) {
                "" => String::new(),
                start => format!("@{}", term::line(start)),
            };
            [
                term::fit(&term::line(address.key.as_str()), key_columns).into_owned(),
                row.summary.turns.to_string(),
                updated,
                term::size(row.summary.bytes),
                term::line(&row.summary.title).into_owned(),
                id,
            ]
        })
        .collect();
    let width = |column: usize, head: &str| {
        cells.iter().map(|row| row[column].width()).chain([head.width()]).max().unwrap_or_default()
    };
    // On a terminal every session has one line: long keys and titles give way.
    let columns = output.columns();
    let heads = ["SESSION", "TURNS", "UPDATED", "SIZE", "TITLE", "ID"];
    let widths: Vec<usize> = heads.iter().enumerate().map(|(i, head)| width(i, head)).collect();
    let line = |cells: [&str; 6]| {
        let [key, turns, updated, size, title, id] = cells;
        let (key, updated) = (term::pad(key, widths[0]), term::pad(updated, widths[2]));
        let (turns_width, size_width) = (widths[1], widths[3]);
        let id = if with_ids { format!("{}  ", term::pad(id, widths[5])) } else { String::new() };
        let front = format!("{key}  {id}{turns:>turns_width$}  {updated}  {size:>size_width$}  ");
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(front.width()));
        format!("{front}{}", term::fit(title, room.max(TITLE_COLUMNS_MIN)))
    };
    output.line(&[(term::FAINT, &line(heads))])?;
    for row in &cells {
        output.line(&[(Style::new(), &line(row.each_ref().map(String::as_str)))])?;
    }
    Ok(())
}

const KEY_COLUMNS: usize = 48;
const TITLE_COLUMNS_MIN: usize = 8;
/// As much of an id as tells milliseconds apart.
const ID_COLUMNS: usize = 13;
