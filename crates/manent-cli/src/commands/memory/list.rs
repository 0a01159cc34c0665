//! `manent memory list`: what is remembered, newest first.

use std::time::Duration;

use manent::memory::{Counts, Filter};

use crate::args::memory::List;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &List) -> Result<Exit, Failure> {
    let memory = super::memory(context, Duration::ZERO)?;
    let filter = Filter {
        kinds: given.kinds.clone(),
        tags: given.tags.clone(),
        who: given.who.clone(),
        session: given.session.clone(),
        since_ms: given.since.map(|since| since.ms),
        until_ms: given.until.map(|until| until.ms),
        replaced: given.replaced,
    };
    super::warn_of_damage(context, &memory)?;
    let counts = memory.counts()?;
    let mut left = given.limit.unwrap_or(usize::MAX);
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
        let printed = if output.json {
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
        context.note(&nothing(given, counts.active));
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

/// Why there is nothing to show.
fn nothing(given: &List, active: usize) -> String {
    match (active, given.replaced) {
        (_, true) => "no item is replaced by another, or none of those is asked for here".to_owned(),
        (0, false) => "nothing is remembered; `manent memory add TEXT` changes that".to_owned(),
        (1, false) => "the one item that is remembered is not asked for here".to_owned(),
        (n, false) => format!("none of the {} items is asked for here", term::count(n as u64)),
    }
}
