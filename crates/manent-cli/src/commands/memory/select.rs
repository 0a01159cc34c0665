//! `manent memory select QUESTION…`: the items that a model would be given for a question.

use crate::commands::prelude::*;

/// Show what a model would be given for a question
#[derive(Debug, Args)]
pub(crate) struct MemorySelectArgs {
    /// What is asked
    #[arg(value_name = "QUESTION")]
    words: Vec<String>,
    /// How many tokens there are for it
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tokens: u64,
}

pub(crate) fn run(context: &Context<'_>, args: &MemorySelectArgs) -> Result<Exit, Failure> {
    let memory = super::memory(context, Duration::ZERO)?;
    let chosen = memory.select(&args.words.join(" "), args.tokens)?;
    super::warn_of_damage(context, &memory)?;
    let json = json!({
        "ids": chosen.ids, "tokens": chosen.tokens, "left_out": chosen.left_out, "text": chosen.text,
    });
    // Items are lines of JSON here too, and must remain JSON when unsafe characters are escaped.
    let mut lines = chosen.text.lines();
    context.print(&json, |output| lines.try_for_each(|line| output.plain(&term::json(line))))?;
    let items = if chosen.ids.len() == 1 { "item" } else { "items" };
    let left =
        if chosen.left_out == 0 { String::new() } else { format!("; {} more did not fit", chosen.left_out) };
    context.note(&format!("{} {items}, about {} tokens{left}", chosen.ids.len(), chosen.tokens));
    Ok(Exit::Done)
}
