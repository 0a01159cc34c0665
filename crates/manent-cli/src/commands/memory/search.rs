//! `manent memory search QUERY…`: items that hold the words.

use manent::memory::{Kind, MemoryHit};
use manent::{Query, QueryError};

use crate::commands::prelude::*;
use crate::commands::search::{marked_parts, note_more, within};

/// Find items by their words
#[derive(Debug, Args)]
pub(crate) struct MemorySearchArgs {
    /// What to look for, as in `manent search`
    #[arg(value_name = "QUERY")]
    words: Vec<String>,
    /// Only of this kind: fact, pref, context or daily; may be given several times
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<Kind>,
    /// Only what was remembered since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only what was remembered until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<i64>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub(crate) fn run(context: &Context<'_>, args: &MemorySearchArgs) -> Result<Exit, Failure> {
    let memory = super::memory(context, Duration::ZERO)?;
    let query = query(args)?;
    let found = memory.search(&query, args.limit)?;
    super::warn_of_damage(context, &memory)?;
    if found.related {
        context.note("none of these items holds all the words; they fit best");
    }
    let mut output = context.output();
    let widest = found.hits.iter().map(|hit| hit.item.id).max().unwrap_or(0).to_string().len();
    for hit in &found.hits {
        if output.wants_json {
            output.json_line(&json_of(hit))?;
            continue;
        }
        let front = super::front(&hit.item, widest, &output);
        let mut parts: Vec<(Style, &str)> =
            front.iter().map(|(style, text)| (*style, text.as_str())).collect();
        let columns =
            output.columns().map_or(usize::MAX, |columns| columns.saturating_sub(FRONT_COLUMNS + widest));
        let pieces = term::marked(&hit.snippet.text, &hit.snippet.marks, columns);
        parts.extend(marked_parts(&pieces));
        output.line(&parts)?;
    }
    output.flush()?;
    if found.hits.is_empty() {
        context.note("nothing found");
        return Ok(Exit::NotFound);
    }
    note_more(context, found.total, found.related, found.hits.len(), args.limit);
    Ok(Exit::Done)
}

/// The item as it is stored, with what was found in it behind that.
fn json_of(hit: &MemoryHit) -> String {
    let score = (f64::from(hit.score) * 1e4).round() / 1e4;
    let found = json!({"snippet": hit.snippet.text, "score": score}).to_string();
    let line = hit.item.line.trim_ascii();
    format!("{},{}", line.strip_suffix('}').unwrap_or(line), found.trim_start_matches('{'))
}

/// Parses the query, with the options as further filters.
fn query(args: &MemorySearchArgs) -> Result<Query, Failure> {
    let text = args.words.join(" ");
    let MemorySearchArgs { kinds, since, until, .. } = args;
    let narrowed = !kinds.is_empty() || since.is_some() || until.is_some();
    let mut query = match Query::parse(&text, when::now_ms()) {
        // Options alone ask for everything of that kind, or of that time.
        Err(_) if text.trim().is_empty() && narrowed => Query::default(),
        Err(QueryError::Nothing) => {
            let what = "there is nothing to look for; give a word, or --kind, --since or --until";
            return Err(Failure::usage(what));
        }
        parsed => parsed.map_err(|e| Failure::usage(e.to_string()))?,
    };
    for kind in kinds {
        query = query.of_role(kind.word());
    }
    Ok(within(query, *since, *until))
}

/// Kind and age, and the gaps around them.
const FRONT_COLUMNS: usize = 23;
