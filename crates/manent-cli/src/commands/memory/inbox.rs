//! `manent memory inbox|accept|reject`: what was proposed to be remembered, and what a person makes of it.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::memory::Filter;
use serde_json::json;

use crate::args::memory::Forget;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn list(context: &Context<'_>) -> Result<Exit, Failure> {
    let inbox = context.store(Duration::ZERO)?.inbox()?;
    super::warn_of_damage(context, &inbox)?;
    let mut output = context.output();
    let items = inbox.items(&Filter::default())?;
    let id_columns = items.iter().map(|item| item.id.to_string().len()).max().unwrap_or(0);
    for item in &items {
        if output.json {
            output.json_line(&item.line)?;
            continue;
        }
        super::print(item, id_columns, &mut output)?;
        let place = item.source.session.as_deref().zip(item.source.seqs);
        if let Some((session, (first, _))) = place {
            let said = item.source.quote.as_deref().unwrap_or_default();
            let room =
                output.columns().unwrap_or(QUOTE_COLUMNS).saturating_sub(id_columns + 2).min(QUOTE_COLUMNS);
            let line = format!("{} {first}: {said}", term::line(session));
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

pub(crate) fn accept(context: &Context<'_>, given: &Forget) -> Result<Exit, Failure> {
    let accepted = context.store(given.wait.time)?.consolidation()?.accept(&given.ids)?;
    let mut output = context.output();
    let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    for one in accepted {
        match one.item {
            Some(item) if output.json => output.json_line(&item.line)?,
            Some(item) => {
                let instead = item.replaces.map(|id| format!(" instead of {id}")).unwrap_or_default();
                let what = format!(" {}  {}{instead}", item.id, item.kind);
                output.line(&[(style, "remembered"), (Style::new(), &what)])?;
            }
            None => context.note(&format!("{} is known already, and was taken from the inbox", one.proposed)),
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}

pub(crate) fn reject(context: &Context<'_>, given: &Forget) -> Result<Exit, Failure> {
    context.store(given.wait.time)?.consolidation()?.reject(&given.ids)?;
    let mut output = context.output();
    let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    for id in &given.ids {
        if output.json {
            output.json(&json!({"rejected": id}))?;
        } else {
            output.line(&[(style, "rejected"), (Style::new(), &format!(" {id}"))])?;
        }
    }
    output.flush()?;
    Ok(Exit::Done)
}

const QUOTE_COLUMNS: usize = 100;
