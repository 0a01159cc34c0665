//! `manent sessions`: what there is, newest first.

use manent::{Listing, Place, Store, Summary};

use super::missing;
use crate::commands::prelude::*;

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
    let list = SessionTable { context, store, place, since_ms, limit };
    // In a store of many thousands a page is shown at once, and the changes of other programs are read afterwards.
    if place == Place::Live
        && !context.global.json
        && let Some(page) = list.store.sessions_at_once(since_ms, limit)?
    {
        list.show(&page)?;
        list.note_age(&page)?;
    } else {
        list.show(&list.read()?)?;
    }
    Ok(Exit::Done)
}

/// The list of the sessions that were asked for.
struct SessionTable<'a> {
    context: &'a Context<'a>,
    store: Store,
    place: Place,
    since_ms: Option<i64>,
    limit: usize,
}

impl SessionTable<'_> {
    /// Reads all of them, and mentions losses that this brings to light.
    fn read(&self) -> Result<Listing, Failure> {
        let listing = self.context.with_progress(|progress| {
            self.store.sessions_with(self.place, self.since_ms, self.limit, progress)
        })?;
        missing::mention(self.context, &self.store);
        Ok(listing)
    }

    fn show(&self, listing: &Listing) -> Result<(), Failure> {
        let rows = readable(self.context, &listing.sessions);
        let mut output = self.context.output();
        if output.wants_json {
            for row in rows {
                output.json(&json_of(row))?;
            }
        } else if rows.is_empty() {
            self.note_that_there_are_none(listing.total)?;
        } else {
            table(&rows, self.place != Place::Live, &mut output)?;
        }
        Ok(output.flush()?)
    }

    /// Notes how old the page was that was shown, and whether it is still right.
    fn note_age(&self, shown: &Listing) -> Result<(), Failure> {
        let as_of = when::ago(shown.as_of_ms.unwrap_or_default(), when::now_ms());
        self.context.note(&if self.read()?.sessions == shown.sessions {
            format!("shown as of {as_of}; nothing on the page has changed since")
        } else {
            format!("shown as of {as_of}; other programs have changed it since: run it again")
        });
        Ok(())
    }

    fn note_that_there_are_none(&self, found: usize) -> Result<(), Failure> {
        if found > 0 {
            self.context.note(&format!("none of {found} is meant by --since or --limit"));
            return Ok(());
        }
        let elsewhere = self.store.list(Place::Archive).map_or(0, |archived| archived.len());
        let home = self.context.home()?;
        let (what, hint) = match self.place {
            Place::Live if elsewhere > 0 => ("no live sessions", format!("; {elsewhere} with --archived")),
            Place::Live => ("no sessions", "; `manent append KEY TEXT` makes one".to_owned()),
            Place::Archive => ("nothing archived", String::new()),
            Place::Trash => ("nothing in the trash", String::new()),
        };
        // If there is something that cannot be read, a warning was printed.
        if self.store.list(self.place).is_ok_and(|listed| listed.is_empty()) {
            self.context.note(&format!("{what} in {}{hint}", home.display()));
        }
        Ok(())
    }
}

/// Warns of what is wrong with sessions, and leaves out those of which nothing is known.
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
    let mut cells = vec![["SESSION", "ID", "TURNS", "UPDATED", "SIZE", "TITLE"].map(str::to_owned).to_vec()];
    cells.extend(rows.iter().map(|row| {
        let short_id = match row.id.id.get(..ID_COLUMNS).unwrap_or(&row.id.id) {
            "" => String::new(),
            start => format!("@{}", term::line(start)),
        };
        vec![
            term::fit(&term::line(row.id.key.as_str()), key_columns).into_owned(),
            short_id,
            row.turns.to_string(),
            when::age_or_timestamp(row.updated_ms, now, output.terminal),
            term::size(row.bytes),
            term::line(&row.title).into_owned(),
        ]
    }));
    if !with_ids {
        for row in &mut cells {
            row.remove(1);
        }
    }
    let numbers = if with_ids { [2, 4] } else { [1, 3] };
    output.table(cells, |column| numbers.contains(&column), TITLE_COLUMNS_MIN)
}

const KEY_COLUMNS: usize = 48;
const TITLE_COLUMNS_MIN: usize = 8;
/// The part of an id that tells milliseconds apart.
const ID_COLUMNS: usize = 13;
