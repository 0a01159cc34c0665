//! `manent memory list`: what is remembered, newest first.

use manent::memory::{Counts, Filter, Kind, SourceKind};

use crate::commands::prelude::*;

/// List what is remembered, newest first
#[derive(Debug, Args)]
pub(crate) struct MemoryListArgs {
    /// Only of this kind: fact, pref, context or daily; may be given several times
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<Kind>,
    /// Only with this label; given several times, with all of them
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Only from: user, model or import
    #[arg(long = "from", value_name = "WHO")]
    who: Vec<SourceKind>,
    /// Only what was said in the session of this key
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Only what was remembered since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only what was remembered until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<i64>,
    /// Those that newer items replace, instead
    #[arg(long)]
    replaced: bool,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(crate) fn run(context: &Context<'_>, args: &MemoryListArgs) -> Result<Exit, Failure> {
    let memory = super::memory(context, Duration::ZERO)?;
    let filter = Filter {
        kinds: args.kinds.clone(),
        tags: args.tags.clone(),
        who: args.who.clone(),
        session: args.session.clone(),
        since_ms: args.since.map(|since| since.ms),
        until_ms: args.until,
        replaced: args.replaced,
    };
    super::warn_of_damage(context, &memory)?;
    let counts = memory.counts()?;
    let mut left = args.limit.unwrap_or(usize::MAX);
    let (mut output, mut trouble, mut shown) = (context.output(), None, 0_u64);
    let mut id_columns = 0;
    memory.each(&filter, |item| {
        if left == 0 {
            return false;
        }
        left -= 1;
        shown += 1;
        // The first is the newest, and in files of ours has the highest number.
        id_columns = id_columns.max(item.id.to_string().len());
        let printed = if output.wants_json {
            output.json_line(&item.line)
        } else {
            super::print(&item, id_columns, &mut output)
        };
        trouble = printed.err();
        trouble.is_none()
    })?;
    if let Some(e) = trouble {
        return Err(e.into());
    }
    output.flush()?;
    if shown == 0 {
        context.note(&nothing(args, counts.active));
    }
    if counts == Counts::default() && memory.verify()?.is_some_and(|report| !report.is_sound()) {
        let path = memory.path().display();
        context.warn(&format!("nothing in {path} can be read; `manent verify` tells more"));
    }
    match counts.unknown {
        0 => {}
        1 => context.note("1 more is of a kind that this version does not know"),
        n => context
            .note(&format!("{} more are of kinds that this version does not know", term::count(n as u64))),
    }
    Ok(Exit::Done)
}

/// Explains why there is nothing to show.
fn nothing(args: &MemoryListArgs, active: usize) -> String {
    match (active, args.replaced) {
        (_, true) => "no item is replaced by another, or none of those is asked for here".to_owned(),
        (0, false) => "nothing is remembered; `manent memory add TEXT` changes that".to_owned(),
        (1, false) => "the one item that is remembered is not asked for here".to_owned(),
        (n, false) => format!("none of the {} items is asked for here", term::count(n as u64)),
    }
}
