//! `manent compact KEY`: makes what a model sees of a session smaller, by a record; nothing is removed.

use manent::context::{Limits, Summariser};
use manent::tokens::{Counting, Tokens};

use crate::commands::prelude::*;
use crate::model::BlockingModel;

/// Make what a model sees of a session smaller; nothing is removed
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// The session
    key: String,
    /// Take the last compaction back
    #[arg(long)]
    undo: bool,
    /// What a context may take; it is made a good deal smaller than that [default: what `manent config` says]
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// How many messages it may have [default: what `manent config` says]
    #[arg(long, value_name = "N")]
    max_messages: Option<usize>,
    /// Have the model of `manent config` sum up; else the sentences that name most are quoted
    #[arg(long, conflicts_with = "undo")]
    with_model: bool,
    #[command(flatten)]
    model: ModelChoice,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &CompactArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    let key = session_key(&args.key)?;
    let mut session = store.existing_session(&key)?;
    let name = term::line(key.as_str());
    if args.undo {
        let Some(seq) = session.undo_compaction()? else {
            return Err(Failure::not_found(format!("no compaction of {key} is in force")));
        };
        let what = format!("{name}: the compaction of record {seq} no longer counts");
        let json = json!({"session": key.as_str(), "undone": seq});
        context.print(&json, |output| output.done("undone", &what, ""))?;
        return Ok(Exit::Done);
    }
    let config = context.config_with(&args.model)?;
    let limits = Limits {
        max_tokens: args.max_tokens.unwrap_or(config.limits.max_tokens),
        max_messages: args.max_messages.unwrap_or(config.limits.max_messages),
    };
    let wants_model = args.with_model || args.model.is_some();
    let model = if wants_model { Some(BlockingModel::choose(&config, &store)?) } else { None };
    if let Some(why) = model.as_ref().and_then(|model| model.why.as_ref()) {
        context.warn(&format!("{why}; what names most is quoted instead"));
    }
    let mut asking = model.as_ref().filter(|model| model.is_model()).map(BlockingModel::asking);
    let summariser = asking.as_mut().map(|asking| asking as &mut dyn Summariser);
    let tokens = Tokens::new(Counting::Exact);
    let Some(done) = session.compact(tokens, limits, true, summariser)? else {
        context.note(&format!("there is nothing in {key} to compact"));
        return Ok(Exit::Done);
    };
    let json = json!({
        "session": key.as_str(), "seq": done.seq, "reason": done.reason.word(), "way": done.way.word(),
        "before": done.before, "after": done.after, "kept_from": done.kept_from,
    });
    let (before, after) = (term::count(done.before), term::count(done.after));
    let unchanged = format!("as it was said from record {} on", done.kept_from);
    let what = format!("{name}: {before} tokens are {after} now; {unchanged}");
    context.print(&json, |output| output.done("compacted", &what, ""))?;
    for (way, why) in &done.tried {
        context.detail(&format!("{} was not enough: {why}", way.word()));
    }
    Ok(Exit::Done)
}
