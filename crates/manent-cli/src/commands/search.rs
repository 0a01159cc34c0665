//! `manent search QUERY…`: turns that hold the words, in whatever session they were said.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::{Hit, Place, Query, SearchResults, Store, StreamId};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::{dashes_for, id_in, missing, word_for};
use crate::args::Search;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Search) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let query = query(&store, given)?;
    let mut catching_up = context.catching_up();
    let found = store.search_with(&query, given.limit, &mut |done, all| catching_up.tell(done, all));
    drop(catching_up);
    let found = found?;
    for (at, why) in found.unread.iter().filter(|(at, _)| at.place != Place::Trash) {
        context.warn(&format!("{} was not searched: {why}", at.key));
    }
    missing::mention(context, &store);
    if found.related {
        context.note("no turn holds all the words; these fit best");
    }
    let mut output = context.output();
    if output.json {
        for hit in &found.hits {
            output.json(&json_of(hit))?;
        }
    } else {
        print(&found.hits, &mut output)?;
    }
    output.flush()?;
    if found.hits.is_empty() && found.total.is_none_or(|total| total == 0) {
        context.note("nothing found");
        return Ok(Exit::NotFound);
    }
    say_if_there_is_more(context, &found, given.limit);
    Ok(Exit::Done)
}

/// What was typed, with the options as further filters.
fn query(store: &Store, given: &Search) -> Result<Query, Failure> {
    let text = given.words.join(" ");
    let Search { role, since, until, session, .. } = given;
    let narrowed = role.is_some() || since.is_some() || until.is_some() || session.is_some();
    let mut query = match Query::parse(&text, when::now_ms()) {
        // Options alone ask for everything that was said then, there, or by them.
        Err(_) if text.trim().is_empty() && narrowed => Query::default(),
        parsed => parsed.map_err(|e| Failure::new(Exit::Usage, e.to_string()))?,
    };
    if let Some(role) = role {
        query = query.of_role(role);
    }
    if let Some(since) = since {
        query = query.since(since.ms);
    }
    if let Some(until) = until {
        query = query.until(until.ms);
    }
    if let Some(name) = session {
        query = of_session(store, query, name)?;
    }
    Ok(query)
}

/// Narrows a query to the sessions of a name. One that means none is a mistake, and not an answer of nothing.
fn of_session(store: &Store, query: Query, name: &str) -> Result<Query, Failure> {
    if id_in(name).is_some_and(|id| !matches!(store.find_id(id), Err(e) if e.is_not_found())) {
        return Ok(query.of_session(name));
    }
    let key = context::key(name)?;
    match store.find(&key) {
        Ok(_) => Ok(query.of_key(&key)),
        Err(e) if e.is_not_found() && name.ends_with('*') => Ok(query.of_session(name)),
        Err(e) => Err(e.into()),
    }
}

fn say_if_there_is_more(context: &Context<'_>, found: &SearchResults, limit: usize) {
    let shown = found.hits.len() as u64;
    match found.total {
        Some(total) if total > shown => {
            let (shown, total) = (term::count(shown), term::count(total));
            context.note(&format!("{shown} of {total}; --limit N for more"));
        }
        None if !found.related && found.hits.len() >= limit => {
            context.note(&format!("the best {}; --limit N for more", term::count(shown)));
        }
        _ => {}
    }
}

fn json_of(hit: &Hit) -> serde_json::Value {
    json!({
        "session": hit.id.key.as_str(), "id": hit.id.id, "seq": hit.seq, "role": hit.role,
        "ts": hit.ts, "snippet": hit.snippet.text, "score": (f64::from(hit.score) * 1e4).round() / 1e4,
    })
}

/// The hits of one session, best first.
struct Group<'a> {
    at: &'a StreamId,
    hits: Vec<&'a Hit>,
}

/// Hits by session, in the order of the best of each.
fn groups(hits: &[Hit]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut known: HashMap<&StreamId, usize> = HashMap::new();
    for hit in hits {
        let at = *known.entry(&hit.id).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.hits.push(hit),
            None => groups.push(Group { at: &hit.id, hits: vec![hit] }),
        }
    }
    groups
}

fn print(hits: &[Hit], output: &mut Output) -> io::Result<()> {
    for (number, group) in groups(hits).iter().enumerate() {
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
        let numbers: Vec<String> = self.hits.iter().map(|hit| format!("#{}", hit.seq)).collect();
        let number_columns = numbers.iter().map(String::len).max().unwrap_or_default();
        let roles: Vec<String> = self
            .hits
            .iter()
            .map(|hit| term::fit(&term::line(&hit.role), ROLE_COLUMNS).into_owned())
            .collect();
        let role_columns = roles.iter().map(|role| role.width()).max().unwrap_or_default();
        let times: Vec<String> = self.hits.iter().map(|hit| time_of(&hit.ts)).collect();
        let time_columns = times.iter().map(|time| time.width()).max().unwrap_or_default();
        for (((hit, number), role), time) in self.hits.iter().zip(&numbers).zip(&roles).zip(&times) {
            let number = format!("  {}  ", term::pad(number, number_columns));
            let role = term::pad(role, role_columns);
            let gap = if time_columns > 0 { "  " } else { "" };
            let time = format!("{gap}{}  ", term::pad(time, time_columns));
            let front = [
                (term::FAINT, number.as_str()),
                (term::role_style(&hit.role), role.as_str()),
                (term::FAINT, time.as_str()),
            ];
            print_hit(&front, hit, output)?;
        }
        let best = self.hits.first().map_or(0, |hit| hit.seq);
        let word = word_for(self.at);
        let open = match dashes_for(&word) {
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
        let newest = self.hits.iter().filter_map(|hit| when::parse_ms(&hit.ts)).max();
        let now = when::now_ms();
        let said = |ms| if output.terminal { when::ago(ms, now) } else { when::day(ms) };
        let date = newest.map_or_else(String::new, |ms| format!("  {}", said(ms)));
        let title = self.hits.first().map_or("", |hit| hit.title.as_str());
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
fn print_hit(front: &[(Style, &str)], hit: &Hit, output: &mut Output) -> io::Result<()> {
    let used: usize = front.iter().map(|(_, text)| text.width()).sum();
    let room = output.columns().map_or(usize::MAX, |columns| columns.saturating_sub(used));
    let text = &hit.snippet.text;
    let pieces = |columns: usize| term::marked(text, &hit.snippet.marks, columns);
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
    let style = |is_marked: bool| if is_marked { MARK } else { Style::new() };
    parts.extend(shown.iter().map(|(is_marked, text)| (style(*is_marked), text.as_str())));
    output.line(&parts)
}

/// When it was said, as far as the record tells.
fn time_of(ts: &str) -> String {
    match when::parse_ms(ts) {
        Some(ms) => when::minute(ms),
        None => term::fit(&term::line(ts), TIME_COLUMNS).into_owned(),
    }
}

const MARK: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));
const KEY_COLUMNS: usize = 48;
const ROLE_COLUMNS: usize = 16;
const TIME_COLUMNS: usize = 16;
const TITLE_COLUMNS_MIN: usize = 8;
/// With less room than this beside number, role and time, what was said gets a line of its own.
const SNIPPET_COLUMNS_MIN: usize = 60;
const SECOND_LINE: &str = "      ";
