//! `manent search QUERY…`: turns that hold the words, in whatever session they were said.

use std::collections::HashMap;

use manent::{Hit, Place, Query, Store, StreamId};
use unicode_width::UnicodeWidthStr;

use super::missing;
use crate::commands::prelude::*;
use crate::output::column_widths;

/// Find turns by their words, in live and archived sessions
#[derive(Debug, Args)]
#[command(after_help = SEARCH_NOTES)]
pub(crate) struct SearchArgs {
    /// What to look for: a question, or words; the turns that fit best come first
    #[arg(value_name = "QUERY")]
    words: Vec<String>,
    /// Only what these roles said: user, or user,assistant
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Only what was said since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only what was said until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<i64>,
    /// Only in the sessions of this key, of keys that begin so ('tele*'), or in @ and the beginning of an id
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

pub(crate) fn run(context: &Context<'_>, args: &SearchArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let query = query(&store, args)?;
    // Hits of one passage are one entry of the printed list: a few more, so that there are as many as were asked for.
    let mut output = context.output();
    let more = if query.is_question() && !output.wants_json { FOLDED_MAX } else { 0 };
    let limit = if args.limit == 0 { 0 } else { args.limit.saturating_add(more) };
    let found = context.with_progress(|progress| store.search_with(&query, limit, progress))?;
    for (at, why) in found.unread.iter().filter(|(at, _)| at.place != Place::Trash) {
        context.warn(&format!("{} was not searched: {why}", at.key));
    }
    missing::mention(context, &store);
    if found.related {
        context.note("none of these turns holds all the words; they fit best");
    }
    let mut shown = found.hits.len();
    if output.wants_json {
        for hit in &found.hits {
            output.json(&json_of(hit))?;
        }
    } else {
        let mut passages = passages(&found.hits);
        passages.truncate(args.limit);
        shown = passages.len();
        print(&passages, &mut output)?;
    }
    output.flush()?;
    if found.hits.is_empty() && found.total.is_none_or(|total| total == 0) {
        context.note("nothing found");
        return Ok(Exit::NotFound);
    }
    note_more(context, found.total, found.related, shown, args.limit);
    Ok(Exit::Done)
}

/// Parses the query, with the options as further filters.
fn query(store: &Store, args: &SearchArgs) -> Result<Query, Failure> {
    let text = args.words.join(" ");
    let SearchArgs { role, since, until, session, .. } = args;
    let narrowed = role.is_some() || since.is_some() || until.is_some() || session.is_some();
    let mut query = match Query::parse(&text, when::now_ms()) {
        // Options alone ask for everything that was said then, there, or by them.
        Err(_) if text.trim().is_empty() && narrowed => Query::default(),
        parsed => parsed.map_err(|e| Failure::usage(e.to_string()))?,
    };
    if let Some(role) = role {
        query = query.of_role(role);
    }
    query = within(query, *since, *until);
    match session {
        Some(name) => of_session(store, query, name),
        None => Ok(query),
    }
}

/// Narrows a query to a stretch of time.
pub(super) fn within(mut query: Query, since: Option<Since>, until: Option<i64>) -> Query {
    if let Some(since) = since {
        query = query.since(since.ms);
    }
    if let Some(until) = until {
        query = query.until(until);
    }
    query
}

/// Narrows a query to the sessions of a name. One that means none is a mistake, and not an answer of nothing.
fn of_session(store: &Store, query: Query, name: &str) -> Result<Query, Failure> {
    if id_prefix(name).is_some_and(|id| !matches!(store.find_id(id), Err(e) if e.is_not_found())) {
        return Ok(query.of_session(name));
    }
    let key = session_key(name)?;
    match store.find(&key) {
        Ok(_) => Ok(query.of_key(&key)),
        Err(e) if e.is_not_found() && name.ends_with('*') => Ok(query.of_session(name)),
        Err(e) => Err(e.into()),
    }
}

/// Notes that a search has more results than were shown.
pub(super) fn note_more(
    context: &Context<'_>,
    total: Option<u64>,
    related: bool,
    shown: usize,
    limit: usize,
) {
    let count = term::count(shown as u64);
    match total {
        Some(total) if total > shown as u64 => {
            context.note(&format!("{count} of {}; --limit N for more", term::count(total)));
        }
        None if !related && shown >= limit => context.note(&format!("the best {count}; --limit N for more")),
        _ => {}
    }
}

/// Returns the styled parts of a snippet.
pub(super) fn marked_parts(pieces: &[(bool, String)]) -> impl Iterator<Item = (Style, &str)> {
    pieces.iter().map(|(is_marked, text)| (if *is_marked { term::MARK } else { Style::new() }, text.as_str()))
}

fn json_of(hit: &Hit) -> Value {
    let mut json = json!({
        "session": hit.id.key.as_str(), "id": hit.id.id, "seq": hit.seq, "role": hit.role,
        "ts": hit.ts, "snippet": hit.snippet.text, "score": (f64::from(hit.score) * 1e4).round() / 1e4,
        "passage": hit.passage,
    });
    if let Some((id, seq)) = &hit.repeats {
        json["repeats"] = json!({"session": id.key.as_str(), "id": id.id, "seq": seq});
    }
    json
}

/// The hits of one passage: neighbours in a session, and turns elsewhere that say the same.
struct Passage<'a> {
    best: &'a Hit,
    /// The number of other hits around the best one.
    around: usize,
    /// Hits that say the same.
    repeats: Vec<&'a Hit>,
}

/// Hits by passage, in the order of the best of each.
fn passages(hits: &[Hit]) -> Vec<Passage<'_>> {
    let mut passages: Vec<Passage<'_>> = Vec::new();
    let mut index: HashMap<usize, usize> = HashMap::new();
    for hit in hits {
        let at = *index.entry(hit.passage).or_insert(passages.len());
        match passages.get_mut(at) {
            None => passages.push(Passage { best: hit, around: 0, repeats: Vec::new() }),
            Some(passage) if hit.repeats.as_ref().is_some_and(|first| passage.begins_with(first)) => {
                passage.repeats.push(hit);
            }
            Some(passage) => passage.around += 1,
        }
    }
    passages
}

impl Passage<'_> {
    /// Returns whether the best hit of the passage is this turn.
    fn begins_with(&self, (id, seq): &(StreamId, u64)) -> bool {
        self.best.id == *id && self.best.seq == *seq
    }

    /// Returns what was folded into the passage, or an empty text.
    fn folded(&self) -> String {
        let around = (self.around > 0).then(|| format!("+{} around it", self.around));
        let again = self.repeats.first().map(|first| {
            let others = match self.repeats.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let key = term::line(first.id.key.as_str());
            format!("said again in {} #{}{others}", term::fit(&key, FOLDED_KEY_COLUMNS), first.seq)
        });
        match [around, again].into_iter().flatten().collect::<Vec<_>>().join("; ") {
            folded if folded.is_empty() => folded,
            folded => format!("  ({folded})"),
        }
    }
}

/// The passages of one session, best first.
struct Group<'a> {
    at: &'a StreamId,
    passages: Vec<&'a Passage<'a>>,
}

/// Passages by session, in the order of the best of each.
fn groups<'a>(passages: &'a [Passage<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut index: HashMap<&StreamId, usize> = HashMap::new();
    for passage in passages {
        let at = *index.entry(&passage.best.id).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.passages.push(passage),
            None => groups.push(Group { at: &passage.best.id, passages: vec![passage] }),
        }
    }
    groups
}

fn print(passages: &[Passage<'_>], output: &mut Output) -> io::Result<()> {
    for (number, group) in groups(passages).iter().enumerate() {
        if number > 0 {
            output.line(&[])?;
        }
        group.print(output)?;
    }
    Ok(())
}

impl Group<'_> {
    fn print(&self, output: &mut Output) -> io::Result<()> {
        self.print_head(output)?;
        let cells = |passage: &&Passage<'_>| {
            let hit = passage.best;
            let role = term::fit(&term::line(&hit.role), ROLE_COLUMNS).into_owned();
            [format!("#{}", hit.seq), role, time_of(&hit.ts)]
        };
        let rows: Vec<[String; 3]> = self.passages.iter().map(cells).collect();
        let widths = column_widths(&rows);
        for (passage, [number, role, time]) in self.passages.iter().zip(&rows) {
            let number = format!("  {}  ", term::pad(number, widths[0]));
            let role = term::pad(role, widths[1]);
            let gap = if widths[2] > 0 { "  " } else { "" };
            let time = format!("{gap}{}  ", term::pad(time, widths[2]));
            let front = [
                (term::FAINT, number.as_str()),
                (term::role_style(&passage.best.role), role.as_str()),
                (term::FAINT, time.as_str()),
            ];
            print_passage(&front, passage, output)?;
        }
        let best = self.passages.first().map_or(0, |passage| passage.best.seq);
        let word = shell_name(self.at);
        let open = match option_guard(&word) {
            "" => format!("  manent show {word} --from {best}"),
            dashes => format!("  manent show --from {best} {dashes}{word}"),
        };
        output.line(&[(term::FAINT, &open)])
    }

    fn print_head(&self, output: &mut Output) -> io::Result<()> {
        let key_columns =
            output.columns().map_or(KEY_COLUMNS, |columns| (columns / 3).clamp(16, KEY_COLUMNS));
        let key = term::fit(&term::line(self.at.key.as_str()), key_columns).into_owned();
        let status = match self.at.place {
            Place::Live => String::new(),
            place => format!("  {}", place.word()),
        };
        let newest = self.passages.iter().filter_map(|passage| when::parse_ms(&passage.best.ts)).max();
        let now = when::now_ms();
        let date = |ms| if output.terminal { when::ago(ms, now) } else { when::day(ms) };
        let date = newest.map_or_else(String::new, |ms| format!("  {}", date(ms)));
        let title = self.passages.first().map_or("", |passage| passage.best.title.as_str());
        let used = key.width() + status.width() + date.width() + 2;
        let room = output.columns().map_or(usize::MAX, |columns| columns.saturating_sub(used));
        let title = match term::fit(&term::line(title), room.max(TITLE_COLUMNS_MIN)).into_owned() {
            title if title.is_empty() => title,
            title => format!("  {title}"),
        };
        let faint = format!("{status}{date}");
        output.line(&[(Style::new().bold(), &key), (Style::new(), &title), (term::FAINT, &faint)])
    }
}

/// One line, or two where the terminal is narrow.
fn print_passage(front: &[(Style, &str)], passage: &Passage<'_>, output: &mut Output) -> io::Result<()> {
    let folded = passage.folded();
    let used: usize = front.iter().map(|(_, text)| text.width()).sum::<usize>() + folded.width();
    let room = output.columns().map_or(usize::MAX, |columns| columns.saturating_sub(used));
    let snippet = &passage.best.snippet;
    let pieces = |columns: usize| term::marked(&snippet.text, &snippet.marks, columns);
    let fits = |pieces: &[(bool, String)]| pieces.iter().map(|(_, text)| text.width()).sum::<usize>() <= room;
    let whole = pieces(usize::MAX);
    let mut parts = front.to_vec();
    let shown = if fits(&whole) {
        whole
    } else if room >= SNIPPET_COLUMNS_MIN {
        pieces(room)
    } else {
        output.line(front)?;
        parts = vec![(Style::new(), SECOND_LINE)];
        pieces((used + room).saturating_sub(SECOND_LINE.len()))
    };
    let on_a_line_of_its_own = parts.len() == 1;
    parts.extend(marked_parts(&shown));
    if folded.is_empty() {
        return output.line(&parts);
    }
    if on_a_line_of_its_own {
        output.line(&parts)?;
        let columns =
            output.columns().map_or(usize::MAX, |columns| columns.saturating_sub(SECOND_LINE.len()));
        let folded = term::fit(folded.trim_start(), columns);
        return output.line(&[(Style::new(), SECOND_LINE), (term::FAINT, &folded)]);
    }
    parts.push((term::FAINT, &folded));
    output.line(&parts)
}

/// Returns the time of a record, or its text if it is not a time.
fn time_of(ts: &str) -> String {
    match when::parse_ms(ts) {
        Some(ms) => when::minute(ms),
        None => term::fit(&term::line(ts), TIME_COLUMNS).into_owned(),
    }
}

/// The number of further hits that are read for a printed list, in which neighbours and repetitions share an entry.
const FOLDED_MAX: usize = 40;
const FOLDED_KEY_COLUMNS: usize = 24;
const KEY_COLUMNS: usize = 48;
const ROLE_COLUMNS: usize = 16;
const TIME_COLUMNS: usize = 16;
const TITLE_COLUMNS_MIN: usize = 8;
/// The room beside number, role and time below which the text gets a line of its own.
const SNIPPET_COLUMNS_MIN: usize = 60;
const SECOND_LINE: &str = "      ";

const SEARCH_NOTES: &str = "\
In a query:
  milk eggs          a question: turns that fit best, by forms of the words and dates they name
  milk AND eggs      both words, in any order, whatever their case and accents
  '\"to the letter\"'  these words in a row
  'migrat*'          words that begin so
  red OR green       one of them
  -- milk -eggs      the first without the second; after --, because it looks like an option
  role:user  session:work  since:7d  until:2026-11-01    as the options
A single word is looked for as it is. Of a question, turns close together are one entry.

Examples:
  manent search what did we decide about the database
  manent search --since 7d --role assistant 'deadlock OR timeout'
  manent search milk --json | jq -r .session | sort | uniq -c";
