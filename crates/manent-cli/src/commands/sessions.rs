//! `manent sessions`: what there is, newest first.

use manent::{Listing, Place, Store, Summary};
use unicode_width::UnicodeWidthStr;

use super::missing;
use crate::commands::prelude::*;
use crate::output::column_widths;

/// List the sessions, newest first
#[derive(Debug, Args)]
pub(crate) struct SessionsArgs {
    /// Those that were archived
    #[arg(long, conflicts_with = "trash")]
    archived: bool,
    /// Those in the trash
    #[arg(long)]
    trash: bool,
    /// Only those with something newer: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

pub(crate) fn run(context: &Context<'_>, args: &SessionsArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let place = match (args.archived, args.trash) {
        (true, _) => Place::Archive,
        (_, true) => Place::Trash,
        _ => Place::Live,
    };
    let since_ms = args.since.map(|since| since.ms);
    let limit = args.limit.unwrap_or(usize::MAX);
    let wanted = Wanted { place, since_ms, limit };
    // In a store of many thousands a page is shown at once, and what other programs did is looked for behind it.
    if place == Place::Live
        && !context.global.json
        && let Some(page) = store.sessions_at_once(since_ms, limit)?
    {
        show(context, &store, &wanted, &page)?;
        return look_behind(context, &store, &wanted, &page);
    }
    let listing = look(context, &store, &wanted)?;
    missing::mention(context, &store);
    show(context, &store, &wanted, &listing)?;
    Ok(Exit::Done)
}

/// The selection of sessions.
struct Wanted {
    place: Place,
    since_ms: Option<i64>,
    limit: usize,
}

fn look(context: &Context<'_>, store: &Store, wanted: &Wanted) -> Result<Listing, Failure> {
    let Wanted { place, since_ms, limit } = *wanted;
    Ok(context.with_progress(|progress| store.sessions_with(place, since_ms, limit, progress))?)
}

fn show(context: &Context<'_>, store: &Store, wanted: &Wanted, listing: &Listing) -> Result<(), Failure> {
    let rows = readable(context, &listing.sessions);
    let mut output = context.output();
    if output.json {
        for row in rows {
            output.json(&json_of(row))?;
        }
    } else if rows.is_empty() {
        say_that_there_are_none(context, store, wanted.place, listing.total)?;
    } else {
        table(&rows, wanted.place != Place::Live, &mut output)?;
    }
    output.flush()?;
    Ok(())
}

/// Says how old the page was that was shown, and whether it is still right.
fn look_behind(
    context: &Context<'_>,
    store: &Store,
    wanted: &Wanted,
    shown: &Listing,
) -> Result<Exit, Failure> {
    let as_of = when::ago(shown.as_of_ms.unwrap_or_default(), when::now_ms());
    let now = look(context, store, wanted)?;
    missing::mention(context, store);
    context.note(&if now.sessions == shown.sessions {
        format!("shown as of {as_of}; nothing on the page has changed since")
    } else {
        format!("shown as of {as_of}; other programs have changed it since: run it again")
    });
    Ok(Exit::Done)
}

fn say_that_there_are_none(
    context: &Context<'_>,
    store: &Store,
    place: Place,
    found: usize,
) -> Result<(), Failure> {
    if found > 0 {
        context.note(&format!("none of {found} is meant by --since or --limit"));
        return Ok(());
    }
    let elsewhere = store.list(Place::Archive).map_or(0, |archived| archived.len());
    let home = context.home()?;
    let (what, hint) = match place {
        Place::Live if elsewhere > 0 => ("no live sessions", format!("; {elsewhere} with --archived")),
        Place::Live => ("no sessions", "; `manent append KEY TEXT` makes one".to_owned()),
        Place::Archive => ("nothing archived", String::new()),
        Place::Trash => ("nothing in the trash", String::new()),
    };
    // Something that cannot be read is there; that was said.
    if store.list(place).is_ok_and(|listed| listed.is_empty()) {
        context.note(&format!("{what} in {}{hint}", home.display()));
    }
    Ok(())
}

/// Says what is wrong with any of them, and leaves out those of which nothing is known.
fn readable<'a>(context: &Context<'_>, sessions: &'a [Summary]) -> Vec<&'a Summary> {
    for Summary { id, damaged, unread, once, .. } in sessions {
        let key = &id.key;
        // One file that cannot be read hides no other.
        if let Some(why) = unread {
            context.warn(&format!("{key}: {why}"));
        } else if *damaged {
            context.warn(&format!("{key}: damaged; `manent verify` tells where"));
        }
        if let Some((_, seq)) = once {
            let what = "shorter than last seen";
            context.warn(&format!("{key}: {what}: it had records up to {seq}; `manent verify` tells more"));
        }
    }
    sessions.iter().filter(|session| session.unread.is_none() || session.turns > 0).collect()
}

fn json_of(session: &Summary) -> Value {
    let Summary { id, title, turns, tokens, bytes, created_ms, updated_ms, .. } = session;
    json!({
        "key": id.key.as_str(), "id": id.id, "title": title, "turns": turns, "bytes": bytes,
        "status": id.place.word(), "created": when::format_ms(*created_ms),
        "updated": when::format_ms(*updated_ms), "tokens": tokens,
    })
}

/// The table; with ids where a key can have several sessions.
fn table(rows: &[&Summary], with_ids: bool, output: &mut Output) -> io::Result<()> {
    let now = when::now_ms();
    let key_columns = output.columns().map_or(KEY_COLUMNS, |columns| (columns / 3).clamp(16, KEY_COLUMNS));
    let cells: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            let updated = when::shown(row.updated_ms, now, output.terminal);
            let short_id = match row.id.id.get(..ID_COLUMNS).unwrap_or(&row.id.id) {
                "" => String::new(),
                start => format!("@{}", term::line(start)),
            };
            [
                term::fit(&term::line(row.id.key.as_str()), key_columns).into_owned(),
                row.turns.to_string(),
                updated,
                term::size(row.bytes),
                term::line(&row.title).into_owned(),
                short_id,
            ]
        })
        .collect();
    // On a terminal every session has one line: long keys and titles give way.
    let columns = output.columns();
    let heads = ["SESSION", "TURNS", "UPDATED", "SIZE", "TITLE", "ID"];
    let widths = column_widths(&heads, &cells);
    let line = |cells: [&str; 6]| {
        let [key, turns, updated, size, title, id] = cells;
        let (key, updated) = (term::pad(key, widths[0]), term::pad(updated, widths[2]));
        let (turns_width, size_width) = (widths[1], widths[3]);
        let id = if with_ids { format!("{}  ", term::pad(id, widths[5])) } else { String::new() };
        let front = format!("{key}  {id}{turns:>turns_width$}  {updated}  {size:>size_width$}  ");
        let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(front.width()));
        format!("{front}{}", term::fit(title, room.max(TITLE_COLUMNS_MIN)))
    };
    output.line(&[(term::FAINT, &line(heads))])?;
    for row in &cells {
        output.plain(&line(row.each_ref().map(String::as_str)))?;
    }
    Ok(())
}

const KEY_COLUMNS: usize = 48;
const TITLE_COLUMNS_MIN: usize = 8;
/// The part of an id that tells milliseconds apart.
const ID_COLUMNS: usize = 13;
