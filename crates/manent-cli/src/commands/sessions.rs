//! `manent sessions`: what there is, newest first.

use std::time::Duration;

use anstyle::Style;
use manent::{Store, Summary};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use crate::args::Sessions;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Sessions) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut rows = rows(context, &store)?;
    if let Some(since) = given.since {
        rows.retain(|row| row.updated_ms >= since.ms);
    }
    rows.sort_by(|a, b| (b.updated_ms, &a.summary.key).cmp(&(a.updated_ms, &b.summary.key)));
    rows.truncate(given.limit.unwrap_or(usize::MAX));
    let mut output = context.output();
    if output.json {
        for row in &rows {
            output.json(&row.json())?;
        }
    } else if rows.is_empty() {
        context
            .note(&format!("no sessions in {}; `manent append KEY TEXT` makes one", store.home().display()));
    } else {
        table(&rows, &mut output)?;
    }
    output.flush()?;
    Ok(Exit::Done)
}

struct Row {
    summary: Summary,
    created_ms: i64,
    updated_ms: i64,
}

impl Row {
    fn json(&self) -> serde_json::Value {
        let Summary { key, id, title, turns, bytes, .. } = &self.summary;
        json!({
            "key": key.as_str(), "id": id, "title": title, "turns": turns, "bytes": bytes, "status": "live",
            "created": when::format_ms(self.created_ms), "updated": when::format_ms(self.updated_ms),
        })
    }
}

fn rows(context: &Context<'_>, store: &Store) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for listed in store.list()? {
        match store.summary(&listed) {
            Ok(summary) => {
                // Order is by what the records say; the file's own time is for files whose records say nothing.
                let time = |ts: &Option<String>| {
                    ts.as_deref().and_then(when::parse_ms).unwrap_or(listed.modified_ms)
                };
                let (created_ms, updated_ms) = (time(&summary.created), time(&summary.updated));
                if summary.damaged {
                    context.warn(&format!("{}: damaged; `manent verify` tells where", listed.key));
                }
                rows.push(Row { summary, created_ms, updated_ms });
            }
            // One file that cannot be read hides no other.
            Err(e) => context.warn(&e.to_string()),
        }
    }
    Ok(rows)
}

fn table(rows: &[Row], output: &mut Output) -> std::io::Result<()> {
    let now = when::now_ms();
    let cells: Vec<[String; 5]> = rows
        .iter()
        .map(|row| {
            let updated = if output.terminal {
                when::ago(row.updated_ms, now)
            } else {
                when::format_ms(row.updated_ms)
            };
            [
                term::fit(&term::line(row.summary.key.as_str()), KEY_COLUMNS).into_owned(),
                row.summary.turns.to_string(),
                updated,
                term::size(row.summary.bytes),
                term::line(&row.summary.title).into_owned(),
            ]
        })
        .collect();
    let width = |column: usize, head: &str| {
        cells.iter().map(|row| row[column].width()).chain([head.width()]).max().unwrap_or_default()
    };
    let heads = ["SESSION", "TURNS", "UPDATED", "SIZE", "TITLE"];
    let widths: Vec<usize> = heads.iter().enumerate().map(|(i, head)| width(i, head)).collect();
    let line = |cells: [&str; 5]| {
        let [key, turns, updated, size, title] = cells;
        let (key, updated) = (term::pad(key, widths[0]), term::pad(updated, widths[2]));
        let (turns_width, size_width) = (widths[1], widths[3]);
        format!("{key}  {turns:>turns_width$}  {updated}  {size:>size_width$}  {title}")
    };
    output.line(&[(term::FAINT, &line(heads))])?;
    for row in &cells {
        output.line(&[(Style::new(), &line([&row[0], &row[1], &row[2], &row[3], &row[4]]))])?;
    }
    Ok(())
}

const KEY_COLUMNS: usize = 48;
