//! `manent memory search QUERY…`: items that hold the words.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::memory::MemoryHit;
use manent::{Query, QueryError};
use serde_json::json;

use crate::args::memory::Search;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Search) -> Result<Exit, Failure> {
    let memory = super::memory(context, Duration::ZERO)?;
    let query = query(given)?;
    let found = memory.search(&query, given.limit)?;
    super::warn_of_damage(context, &memory)?;
    if found.related {
        context.note("no item holds all the words; these fit best");
    }
    let mut output = context.output();
    let widest = found.hits.iter().map(|hit| hit.item.id).max().unwrap_or(0).to_string().len();
    for hit in &found.hits {
        if output.json {
            output.json_line(&json_of(hit))?;
            continue;
        }
        let front = super::front(&hit.item, widest, &output);
        let mut parts: Vec<(Style, &str)> =
            front.iter().map(|(style, text)| (*style, text.as_str())).collect();
        let columns =
            output.columns().map_or(usize::MAX, |columns| columns.saturating_sub(FRONT_COLUMNS + widest));
        let pieces = term::marked(&hit.snippet.text, &hit.snippet.marks, columns);
        let style = |is_marked: bool| if is_marked { MARK } else { Style::new() };
        parts.extend(pieces.iter().map(|(is_marked, text)| (style(*is_marked), text.as_str())));
        output.line(&parts)?;
    }
    output.flush()?;
    if found.hits.is_empty() {
        context.note("nothing found");
        return Ok(Exit::NotFound);
    }
    let shown = term::count(found.hits.len() as u64);
    match found.total {
        Some(total) if total > found.hits.len() as u64 => {
            context.note(&format!("{shown} of {}; --limit N for more", term::count(total)));
        }
        None if !found.related && found.hits.len() >= given.limit => {
            context.note(&format!("the best {shown}; --limit N for more"));
        }
        _ => {}
    }
    Ok(Exit::Done)
}

/// The item as it is stored, with what was found in it behind that.
fn json_of(hit: &MemoryHit) -> String {
    let score = (f64::from(hit.score) * 1e4).round() / 1e4;
    let found = json!({"snippet": hit.snippet.text, "score": score}).to_string();
    let line = hit.item.line.trim_ascii();
    format!("{},{}", line.strip_suffix('}').unwrap_or(line), found.trim_start_matches('{'))
}

/// What was typed, with the options as further filters.
fn query(given: &Search) -> Result<Query, Failure> {
    let text = given.words.join(" ");
    let Search { kinds, since, until, .. } = given;
    let narrowed = !kinds.is_empty() || since.is_some() || until.is_some();
    let mut query = match Query::parse(&text, when::now_ms()) {
        // Options alone ask for everything of that kind, or of that time.
        Err(_) if text.trim().is_empty() && narrowed => Query::default(),
        Err(QueryError::Nothing) => {
            let what = "there is nothing to look for; give a word, or --kind, --since or --until";
            return Err(Failure::new(Exit::Usage, what));
        }
        parsed => parsed.map_err(|e| Failure::new(Exit::Usage, e.to_string()))?,
    };
    for kind in kinds {
        query = query.of_role(kind.word());
    }
    if let Some(since) = since {
        query = query.since(since.ms);
    }
    if let Some(until) = until {
        query = query.until(until.ms);
    }
    Ok(query)
}

const MARK: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
/// Kind and age, and the gaps around them.
const FRONT_COLUMNS: usize = 23;
