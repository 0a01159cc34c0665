//! `manent stats`: how much there is, of what, when it was said, and what could be put away. Nothing is changed.

use manent::{Place, PlaceStats, Summary};
use manent_runs::Runs;
use manent_runs::retrospective::Reports;

use super::missing;
use crate::commands::prelude::*;
use crate::output::aligned;

/// Count what there is, and say what could be put away
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Over how many days to count turns
    #[arg(long, value_name = "N", default_value_t = 14, value_parser = clap::value_parser!(u16).range(1..=3660))]
    days: u16,
}

pub(crate) fn run(context: &Context<'_>, args: &StatsArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let stats = context.with_progress(|progress| store.stats(progress));
    missing::mention(context, &store);
    let mut counted = Counted::new(stats?, i64::from(args.days), when::now_ms());
    counted.runs = match Runs::open(&store).and_then(|runs| runs.sessions()) {
        Err(e) if e.is_unsupported() => (0, 0),
        listed => {
            let listed = listed?;
            (listed.len() as u64, listed.iter().map(|listed| listed.bytes).sum())
        }
    };
    counted.report = Reports::open(&store).map_or(0, |reports| reports.bytes());
    context.print(&counted.json(), |output| counted.print(output))?;
    Ok(Exit::Done)
}

/// The statistics that are shown.
struct Counted {
    stats: manent::StoreStats,
    total: PlaceStats,
    /// Turns, sessions begun, and which day, the last one today.
    days: Vec<Day>,
    idle: Candidates,
    trash: Candidates,
    /// The number of sessions with runs, and the bytes of these runs.
    runs: (u64, u64),
    /// The bytes of the latest retrospective.
    report: u64,
}

struct Day {
    /// The number of days since 1970.
    number: i64,
    turns: u64,
    sessions: u64,
}

/// Sessions that could be put away or removed, the largest first.
struct Candidates {
    sessions: Vec<Summary>,
    bytes: u64,
}

impl Counted {
    fn new(stats: manent::StoreStats, days: i64, now_ms: i64) -> Counted {
        let mut total = PlaceStats::default();
        for (_, share) in &stats.places {
            total.sessions += share.sessions;
            total.turns += share.turns;
            total.tokens += share.tokens;
            total.bytes += share.bytes;
        }
        let today = now_ms.div_euclid(DAY_MS);
        let of = |map: &std::collections::BTreeMap<i64, u64>, day: i64| map.get(&day).copied().unwrap_or(0);
        let day = |number: i64| Day {
            number,
            turns: of(&stats.turns_by_day, number),
            sessions: of(&stats.sessions_by_day, number),
        };
        let shown = (today - days + 1..=today).map(day).collect();
        let idle_since = now_ms - IDLE_DAYS * DAY_MS;
        let candidates = |is: &dyn Fn(&Summary) -> bool| {
            let sessions: Vec<Summary> =
                stats.largest.iter().filter(|session| is(session)).cloned().collect();
            Candidates { bytes: sessions.iter().map(|session| session.bytes).sum(), sessions }
        };
        let idle = candidates(&|s| s.id.place == Place::Live && s.updated_ms < idle_since);
        let trash = candidates(&|s| s.id.place == Place::Trash);
        Counted { total, days: shown, idle, trash, stats, runs: (0, 0), report: 0 }
    }

    fn json(&self) -> Value {
        let mut places = serde_json::Map::new();
        for (place, share) in &self.stats.places {
            places.insert(place.word().to_owned(), json_of_share(share));
        }
        let days: Vec<Value> = self
            .days
            .iter()
            .map(|day| json!({"day": date(day.number), "turns": day.turns, "sessions": day.sessions}))
            .collect();
        let largest: Vec<Value> = self.stats.largest.iter().take(LARGEST).map(json_of_session).collect();
        let mut idle = self.idle.json();
        idle["days"] = IDLE_DAYS.into();
        json!({
            "total": json_of_share(&self.total), "places": places, "roles": self.stats.turns_by_role,
            "days": days, "largest": largest,
            "storage": {
                "logs": self.total.bytes, "runs": self.runs.1, "retro": self.report, "index": self.stats.index_bytes,
            },
            "archivable": idle, "purgeable": self.trash.json(),
        })
    }

    fn print(&self, output: &mut Output) -> io::Result<()> {
        self.print_places(output)?;
        if !self.stats.turns_by_role.is_empty() {
            output.heading("Turns by role")?;
            let mut roles: Vec<(&String, &u64)> = self.stats.turns_by_role.iter().collect();
            roles.sort_by(|a, b| b.1.cmp(a.1));
            let cells: Vec<_> = roles
                .iter()
                .map(|(role, turns)| {
                    let role = term::fit(&term::line(role), NAME_COLUMNS).into_owned();
                    vec![role, term::count(**turns)]
                })
                .collect();
            columns(output, &cells)?;
        }
        self.print_days(output)?;
        if !self.stats.largest.is_empty() {
            output.heading("Largest sessions")?;
            let row = |session: &Summary| {
                let turns = term::counted(session.turns, "turn");
                row_of(
                    session,
                    match session.id.place {
                        Place::Live => turns,
                        place => format!("{turns}, {}", place_words(place)),
                    },
                )
            };
            let rows: Vec<_> = self.stats.largest.iter().take(LARGEST).map(row).collect();
            columns(output, &rows)?;
        }
        self.print_storage(output)?;
        self.print_advice(output)
    }

    fn print_places(&self, output: &mut Output) -> io::Result<()> {
        let row = |name: &str, share: &PlaceStats| {
            let PlaceStats { sessions, turns, tokens, bytes } = *share;
            let numbers = [sessions, turns, tokens].map(term::count);
            [&[name.to_owned()], &numbers[..], &[term::size(bytes)]].concat()
        };
        let heads = ["", "SESSIONS", "TURNS", "TOKENS", "SIZE"].map(str::to_owned).to_vec();
        let mut cells = vec![heads];
        cells.extend(self.stats.places.iter().map(|(place, share)| row(place.word(), share)));
        cells.push(row("all", &self.total));
        output.table(cells, |column| column > 0, usize::MAX)
    }

    fn print_days(&self, output: &mut Output) -> io::Result<()> {
        if self.total.turns == 0 {
            return Ok(());
        }
        let plural = if self.days.len() == 1 { "day" } else { "days" };
        output.heading(&format!("Turns a day, the last {} {plural}", self.days.len()))?;
        let drawn = if output.terminal { &BLOCKS[..] } else { &SIGNS };
        let room = output.columns().map_or(BAR_COLUMNS, |columns| columns.saturating_sub(DAY_COLUMNS));
        for (day, bar) in self.days.iter().zip(bars(&self.days, room.clamp(8, BAR_COLUMNS), drawn)) {
            let count = if day.turns == 0 { String::new() } else { format!(" {}", term::count(day.turns)) };
            let gap = if day.turns == 0 { "" } else { "  " };
            let label = format!("  {}{gap}", date(day.number));
            output.line(&[(term::FAINT, &label), (BAR, &bar), (Style::new(), &count)])?;
        }
        Ok(())
    }

    fn print_storage(&self, output: &mut Output) -> io::Result<()> {
        output.heading("Storage")?;
        let (logs, index) = (self.total.bytes, self.stats.index_bytes);
        let share = match logs {
            0 => String::new(),
            logs => format!("{} % of the sessions", (index.saturating_mul(100) + logs / 2) / logs),
        };
        let row = |name: &str, bytes: u64, more: String| vec![name.to_owned(), term::size(bytes), more];
        let mut rows = vec![row("sessions", logs, String::new())];
        if let (sessions @ 1.., bytes) = self.runs {
            rows.push(row("runs", bytes, format!("of {}", term::counted(sessions, "session"))));
        }
        if self.report > 0 {
            rows.push(row("retro", self.report, "the latest report of them".to_owned()));
        }
        rows.push(row("index", index, share));
        columns(output, &rows)
    }

    fn print_advice(&self, output: &mut Output) -> io::Result<()> {
        let idle = format!("not written for {IDLE_DAYS} days");
        self.idle.print(output, "Could be archived", &idle, "manent archive")?;
        self.trash.print(output, "Could be removed for good", "in the trash", "manent rm --purge")
    }
}

impl Candidates {
    fn json(&self) -> Value {
        let largest: Vec<Value> = self.sessions.iter().take(CANDIDATES).map(json_of_session).collect();
        json!({"sessions": self.sessions.len(), "bytes": self.bytes, "largest": largest})
    }

    /// The largest, and what one would type. It is not done here.
    fn print(&self, output: &mut Output, title: &str, which: &str, command: &str) -> io::Result<()> {
        if self.sessions.is_empty() {
            return Ok(());
        }
        let (count, size) = (term::counted(self.sessions.len() as u64, "session"), term::size(self.bytes));
        output.heading(&format!("{title}: {count} {which}, {size}"))?;
        let largest = &self.sessions[..self.sessions.len().min(CANDIDATES)];
        let row =
            |session: &Summary| row_of(session, format!("last written {}", when::day(session.updated_ms)));
        let rows: Vec<_> = largest.iter().map(row).collect();
        columns(output, &rows)?;
        let words: Vec<String> = largest.iter().map(|session| shell_name(&session.id)).collect();
        let dashes = words.iter().map(|word| option_guard(word)).find(|dashes| !dashes.is_empty());
        let line = format!("  {command} {}{}", dashes.unwrap_or_default(), words.join(" "));
        output.line(&[(term::FAINT, &line)])
    }
}

/// Returns the row of a session: its key, its size and a remark.
fn row_of(session: &Summary, remark: String) -> Vec<String> {
    let key = term::fit(&term::line(session.id.key.as_str()), NAME_COLUMNS).into_owned();
    vec![key, term::size(session.bytes), remark]
}

fn json_of_share(share: &PlaceStats) -> Value {
    let PlaceStats { sessions, turns, tokens, bytes } = share;
    json!({"sessions": sessions, "turns": turns, "tokens": tokens, "bytes": bytes})
}

fn json_of_session(session: &Summary) -> Value {
    let at = &session.id;
    json!({
        "key": at.key.as_str(), "id": at.id, "status": at.place.word(), "turns": session.turns,
        "bytes": session.bytes, "updated": when::format_ms(session.updated_ms),
    })
}

/// Prints rows under a heading: names, numbers, and remarks.
fn columns(output: &mut Output, cells: &[Vec<String>]) -> io::Result<()> {
    for line in aligned(cells, |column| column == 1) {
        output.plain(format!("  {line}").trim_end())?;
    }
    Ok(())
}

/// Returns a bar for each day; the longest takes all the room. A day with any turn has a bar that can be seen. `drawn`
/// has the parts of a column, of which the last is a whole one.
fn bars(days: &[Day], columns: usize, drawn: &[&str]) -> Vec<String> {
    let most = days.iter().map(|day| day.turns).max().unwrap_or(0).max(1);
    let parts = drawn.len();
    let bar = |day: &Day| {
        let length = u128::from(day.turns) * (columns * parts) as u128;
        let length = length.div_ceil(u128::from(most)) as usize;
        let end = if length.is_multiple_of(parts) { "" } else { drawn[length % parts - 1] };
        format!("{}{end}", drawn[parts - 1].repeat(length / parts))
    };
    days.iter().map(bar).collect()
}

fn date(day: i64) -> String {
    when::day(day.saturating_mul(DAY_MS))
}

/// Eighths of a column, for people.
const BLOCKS: [&str; 8] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
/// Whole columns of a character that every program knows.
const SIGNS: [&str; 1] = ["#"];
const BAR: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const BAR_COLUMNS: usize = 40;
/// A date before the bar, a number behind it.
const DAY_COLUMNS: usize = 24;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const IDLE_DAYS: i64 = 30;
const LARGEST: usize = 5;
const CANDIDATES: usize = 3;
const NAME_COLUMNS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_days_were_busy() {
        let day = |(number, turns): (i64, u64)| Day { number, turns, sessions: 0 };
        let days: Vec<Day> = [(0, 0), (1, 1), (2, 50), (3, 99), (4, 100)].map(day).into();
        assert_eq!(bars(&days, 10, &SIGNS), ["", "#", "#####", "##########", "##########"]);
        assert_eq!(bars(&days, 4, &BLOCKS), ["", "▏", "██", "████", "████"]);
        assert_eq!(bars(&days[..1], 4, &BLOCKS), [""]);
        let huge = [day((0, u64::MAX)), day((1, u64::MAX / 2))];
        assert_eq!(bars(&huge, 4, &SIGNS), ["####", "##"]);
    }
}
