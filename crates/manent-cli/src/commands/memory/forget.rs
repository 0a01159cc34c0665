//! `manent memory forget ID…`: from now on these are in no list, no search and no context.

use anstyle::{AnsiColor, Style};
use serde_json::json;

use crate::args::memory::Forget;
use crate::context::Context;
use crate::exit::{Exit, Failure};

pub(crate) fn run(context: &Context<'_>, given: &Forget) -> Result<Exit, Failure> {
    let memory = super::memory(context, given.wait.time)?;
    let done = memory.forget(&given.ids).map_err(|e| {
        let failure = Failure::from(e);
        let none = if given.ids.len() > 1 { "; nothing was forgotten" } else { "" };
        Failure::new(failure.exit, format!("{}{none}", failure.message))
    })?;
    let mut output = context.output();
    if output.json {
        output.json(&json!({"forgotten": done.ids, "active_again": done.active_again}))?;
    } else {
        let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
        for id in &done.ids {
            output.line(&[(style, "forgotten"), (Style::new(), &format!(" {id}"))])?;
        }
    }
    output.flush()?;
    for id in &done.active_again {
        context.note(&format!(
            "item {id}, which it had replaced, is active again; `manent memory forget {id}` if not"
        ));
    }
    context.detail("`manent memory compact` removes what is forgotten from the file");
    Ok(Exit::Done)
}
