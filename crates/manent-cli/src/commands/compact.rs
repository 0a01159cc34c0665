//! `manent compact KEY`: makes what a model sees of a session smaller, by a record; nothing is removed.

use anstyle::{AnsiColor, Style};
use manent::context::{Limits, Summariser};
use manent::tokens::{Counting, Tokens};
use serde_json::json;

use crate::args::Compact;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::model::Answering;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Compact) -> Result<Exit, Failure> {
    let store = context.store(given.wait.time)?;
    let key = context::key(&given.key)?;
    let mut session = store.existing_session(&key)?;
    let mut output = context.output();
    let green = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    let name = term::line(key.as_str());
    if given.undo {
        let Some(seq) = session.undo_compaction()? else {
            return Err(Failure::new(Exit::NotFound, format!("no compaction of {key} is in force")));
        };
        if output.json {
            output.json(&json!({"session": key.as_str(), "undone": seq}))?;
        } else {
            let what = format!(" {name}: the compaction of record {seq} no longer counts");
            output.line(&[(green, "undone"), (Style::new(), &what)])?;
        }
        output.flush()?;
        return Ok(Exit::Done);
    }
    let config = context.config_with(&given.model)?;
    let limits = Limits {
        max_tokens: given.max_tokens.unwrap_or(config.limits.max_tokens),
        max_messages: given.max_messages.unwrap_or(config.limits.max_messages),
    };
    let asked = given.with_model || given.model.model.is_some() || given.model.provider.is_some();
    let answering = if asked { Some(Answering::choose(&config, &store)?) } else { None };
    if let Some(why) = answering.as_ref().and_then(|answering| answering.why.as_ref()) {
        context.warn(&format!("{why}; what names most is quoted instead"));
    }
    let mut asking = answering.as_ref().filter(|answering| answering.is_model()).map(Answering::asking);
    let summariser = asking.as_mut().map(|asking| asking as &mut dyn Summariser);
    let tokens = Tokens::new(Counting::Exact);
    let Some(done) = session.compact(tokens, limits, true, summariser)? else {
        context.note(&format!("there is nothing in {key} to compact"));
        return Ok(Exit::Done);
    };
    if output.json {
        output.json(&json!({
            "session": key.as_str(), "seq": done.seq, "reason": done.reason.word(), "way": done.way.word(),
            "before": done.before, "after": done.after, "kept_from": done.kept_from,
        }))?;
    } else {
        let (before, after) = (term::count(done.before), term::count(done.after));
        let what = format!(
            " {name}: {before} tokens are {after} now; as it was said from record {} on",
            done.kept_from
        );
        output.line(&[(green, "compacted"), (Style::new(), &what)])?;
    }
    output.flush()?;
    for (way, why) in &done.tried {
        context.detail(&format!("{} was not enough: {why}", way.word()));
    }
    Ok(Exit::Done)
}
