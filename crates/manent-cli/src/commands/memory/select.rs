//! `manent memory select QUESTION…`: what a model would be given for it.

use std::time::Duration;

use anstyle::Style;
use serde_json::json;

use crate::args::memory::Select;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Select) -> Result<Exit, Failure> {
    let memory = super::memory(context, Duration::ZERO)?;
    let chosen = memory.select(&given.words.join(" "), given.tokens)?;
    super::warn_of_damage(context, &memory)?;
    let mut output = context.output();
    if output.json {
        output.json(&json!({
            "ids": chosen.ids, "tokens": chosen.tokens, "left_out": chosen.left_out, "text": chosen.text,
        }))?;
    } else {
        // Items are lines of JSON here, and stay that whatever is in them.
        for line in chosen.text.lines() {
            output.line(&[(Style::new(), &term::json(line))])?;
        }
    }
    output.flush()?;
    let (count, left_out) = (chosen.ids.len(), chosen.left_out);
    let items = if count == 1 { "item" } else { "items" };
    let left = if left_out == 0 { String::new() } else { format!("; {left_out} more did not fit") };
    context.note(&format!("{count} {items}, about {} tokens{left}", chosen.tokens));
    Ok(Exit::Done)
}
