//! `manent memory inbox`: lists the items that were proposed and wait for a decision.

use manent::memory::Filter;

use crate::commands::prelude::*;

/// Show what was proposed to be remembered and waits for you
#[derive(Debug, Args)]
pub(crate) struct MemoryInboxArgs {}

pub(crate) fn run(context: &Context<'_>, _args: &MemoryInboxArgs) -> Result<Exit, Failure> {
    let inbox = context.store(Duration::ZERO)?.inbox()?;
    super::warn_of_damage(context, &inbox)?;
    let mut output = context.output();
    let items = inbox.items(&Filter::default())?;
    let id_columns = items.iter().map(|item| item.id.to_string().len()).max().unwrap_or(0);
    for item in &items {
        if output.wants_json {
            output.json_line(&item.line)?;
            continue;
        }
        super::print(item, id_columns, &mut output)?;
        let place = item.source.session.as_deref().zip(item.source.seqs);
        if let Some((session, (first, _))) = place {
            let quote = item.source.quote.as_deref().unwrap_or_default();
            let room =
                output.columns().unwrap_or(QUOTE_COLUMNS).saturating_sub(id_columns + 2).min(QUOTE_COLUMNS);
            let line = format!("{} {first}: {quote}", term::line(session));
            let line = format!("{}  {}", " ".repeat(id_columns), term::fit(&term::line(&line), room));
            output.line(&[(term::FAINT, &line)])?;
        }
    }
    output.flush()?;
    if items.is_empty() {
        context.note("nothing waits in the inbox");
    } else {
        context.note("`manent memory accept ID…` remembers it, `manent memory reject ID…` does not");
    }
    Ok(Exit::Done)
}

const QUOTE_COLUMNS: usize = 100;
