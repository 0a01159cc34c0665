//! `manent run list`: runs, newest first. All logs are read as streams; only the newest that were asked for are kept in
//! memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use manent::SessionKey;
use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_runs::{Run, Status, VerdictRef};

use crate::commands::prelude::*;
use crate::output::column_widths;

/// List runs, newest first
#[derive(Debug, Args)]
pub(crate) struct RunListArgs {
    /// Only of this skill
    #[arg(long, value_name = "SKILL")]
    skill: Option<String>,
    /// Only those in which this model was used
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Only those that ended so; unknown: begun, and never heard of again
    #[arg(long, value_parser = one_of(ENDINGS), value_name = "STATUS")]
    status: Option<Status>,
    /// Only in this project, or below it
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Only since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<i64>,
    /// Only of this session
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

/// The values of `--status`.
const ENDINGS: [(&str, Status); 4] = [
    ("success", Status::Success),
    ("failed", Status::Failure),
    ("unknown", Status::Unknown),
    ("other", Status::Other),
];

pub(crate) fn run(context: &Context<'_>, args: &RunListArgs) -> Result<Exit, Failure> {
    let runs = super::runs(context, Duration::ZERO)?;
    let sessions: Vec<SessionKey> = match &args.session {
        Some(text) => vec![session_key(text)?],
        None => runs.sessions()?.into_iter().map(|listed| listed.id.key).collect(),
    };
    let projects = args.project.as_deref().map(projects);
    let mut newest = NewestRuns { rows: BTreeMap::new(), limit: args.limit, matched: 0 };
    let (mut all, mut worst) = (0, Exit::Done);
    for session in &sessions {
        let read = runs.each(session, |run| {
            if is_wanted(args, projects.as_deref(), run) {
                newest.offer(session, run);
            }
            ControlFlow::Continue(())
        });
        match read {
            Ok(seen) => {
                all += seen.runs;
                super::warn_of_damage(context, &runs, session, &seen);
            }
            // One log that cannot be read hides no other.
            Err(e) => worst = worst.max(context.complain_of(Err(e.into()))),
        }
    }
    let matched = newest.matched;
    let mut rows: Vec<Row> = newest.rows.into_values().rev().collect();
    for row in &mut rows {
        // Only for runs that are shown, because there may be many notes.
        let verdict = row.judged.and_then(|judged| runs.verdict(&row.session, judged.seq).ok().flatten());
        row.note = verdict.map(|verdict| short(&verdict.note)).unwrap_or_default();
    }
    let mut output = context.output();
    if output.wants_json {
        for row in &rows {
            output.json(&row.json())?;
        }
    } else if !rows.is_empty() {
        table(&rows, &mut output)?;
    }
    output.flush()?;
    match &args.session {
        Some(session) if all == 0 => {
            let hint = "`manent run list` without --session shows those of all";
            context.note(&format!("there are no runs of a session {}; {hint}", term::shell_word(session)));
        }
        _ => note(context, all, matched, rows.len()),
    }
    Ok(worst)
}

fn note(context: &Context<'_>, all: u64, matched: u64, shown: usize) {
    let shown = shown as u64;
    match (all, matched) {
        (0, _) => context.note("no runs are recorded; `manent run exec SKILL -- COMMAND` records one"),
        (all, 0) => {
            context.note(&format!("none of the {} runs that were looked at is like that", term::count(all)));
        }
        (_, matched) if matched > shown => {
            let (shown, matched) = (term::count(shown), term::count(matched));
            context.note(&format!("{shown} of {matched} are shown; --limit N shows more"));
        }
        _ => {}
    }
}

/// A directory as it was typed, and as it is: runs are recorded with either.
fn projects(typed: &str) -> Vec<String> {
    let mut names = vec![typed.to_owned()];
    names.extend(RealDisk.resolve(Path::new(typed)).ok().map(|path| path.to_string_lossy().into_owned()));
    names
}

fn is_wanted(args: &RunListArgs, projects: Option<&[String]>, run: &Run<'_>) -> bool {
    let uses = |model: &String| {
        run.model_used == *model || run.attempts.iter().any(|attempt| attempt.model == *model)
    };
    args.skill.as_ref().is_none_or(|skill| run.skill == *skill)
        && args.model.as_ref().is_none_or(uses)
        && args.status.is_none_or(|status| run.status == status)
        && projects.is_none_or(|projects| projects.iter().any(|project| run.is_in(project)))
        && args.since.is_none_or(|since| run.at_ms.is_some_and(|ms| ms >= since.ms))
        && args.until.is_none_or(|until| run.at_ms.is_some_and(|ms| ms < until))
}

/// The order of runs: by time, then by their place in the logs.
type RunOrder = (Option<i64>, SessionKey, u64);

/// The newest runs that were offered, at most `limit` of them.
struct NewestRuns {
    rows: BTreeMap<RunOrder, Row>,
    limit: usize,
    /// The number of runs that matched, shown or not.
    matched: u64,
}

impl NewestRuns {
    fn offer(&mut self, session: &SessionKey, run: &Run<'_>) {
        self.matched += 1;
        let order = (run.at_ms, session.clone(), run.seq);
        let is_full = self.rows.len() >= self.limit;
        if is_full && self.rows.first_key_value().is_none_or(|(oldest, _)| *oldest >= order) {
            return;
        }
        if is_full {
            self.rows.pop_first();
        }
        self.rows.insert(order, Row::new(session, run));
    }
}

/// A run in a list.
#[derive(Debug)]
struct Row {
    at_ms: Option<i64>,
    session: SessionKey,
    status: Status,
    /// The verdict that was given after the run.
    judged: Option<VerdictRef>,
    note: String,
    /// The JSON object of the run, which the table shows a part of, without the verdict.
    members: Value,
}

impl Row {
    fn new(session: &SessionKey, run: &Run<'_>) -> Row {
        let last = run.attempts.last().map_or("", |attempt| &attempt.model);
        let model = if run.model_used.is_empty() { last } else { &run.model_used };
        let members = json!({
            "session": session.as_str(), "seq": run.seq, "run_id": short(&run.run_id),
            "timestamp": short(&run.timestamp), "status": run.status.word(),
            "final_status": short(&run.final_status), "skill": short(&run.skill), "phase": short(&run.phase),
            "model": short(model), "attempts": run.attempts.len(), "duration_ms": run.duration_ms,
            "project_root": short(&run.project_root), "oddities": run.oddities.len(),
        });
        let (session, note) = (session.clone(), String::new());
        Row { at_ms: run.at_ms, session, status: run.status, judged: run.judged, note, members }
    }

    fn json(&self) -> Value {
        let mut members = self.members.clone();
        members["judged"] = self.judged.map_or(Value::Null, |judged| {
            json!({"seq": judged.seq, "timestamp": judged.at_ms.map(when::format_ms), "note": self.note})
        });
        members
    }
}

/// Names are short; what is not is no name, and a list of such must not fill the memory.
fn short(text: &str) -> String {
    match text.char_indices().nth(NAME_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

fn table(rows: &[Row], output: &mut Output) -> io::Result<()> {
    let now = when::now_ms();
    let cell = |text: &Value| match term::fit(&term::line(text.as_str().unwrap_or("")), CELL_COLUMNS) {
        text if text.is_empty() => "-".to_owned(),
        text => text.into_owned(),
    };
    let at = |row: &Row| {
        row.at_ms.map_or_else(|| "-".to_owned(), |ms| when::age_or_timestamp(ms, now, output.terminal))
    };
    let mut cells = vec![["WHEN", "STATUS", "SKILL", "MODEL", "TRIES", "TOOK", "RUN"].map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        let Row { session, status, members, .. } = row;
        [
            at(row),
            status.word().to_owned(),
            cell(&members["skill"]),
            cell(&members["model"]),
            members["attempts"].to_string(),
            members["duration_ms"].as_u64().map_or_else(|| "-".to_owned(), term::lasting),
            format!("{}:{}", term::line(session.as_str()), members["seq"]),
        ]
    }));
    let widths = column_widths(&cells);
    let parts = |row: &[String; 7]| {
        let pad = |column: usize| format!("{}  ", term::pad(&row[column], widths[column]));
        [pad(0), pad(1), [2, 3, 4, 5].map(pad).concat() + &row[6]]
    };
    output.line(&[(term::FAINT, &parts(&cells[0]).concat())])?;
    for (row, cells) in rows.iter().zip(&cells[1..]) {
        let judged = row.judged.map_or_else(String::new, |judged| {
            let at = judged.at_ms.map_or_else(String::new, |ms| {
                format!(" {}", when::age_or_timestamp(ms, now, output.terminal))
            });
            let colon = if row.note.is_empty() { "" } else { ": " };
            format!("  judged{at}{colon}{}", term::fit(&term::line(&row.note), CELL_COLUMNS))
        });
        let [when, status, rest] = parts(cells);
        output.line(&[
            (Style::new(), &when),
            (super::style_of(row.status), &status),
            (Style::new(), &rest),
            (term::FAINT, &judged),
        ])?;
    }
    Ok(())
}

const NAME_CHARS_MAX: usize = 1000;
const CELL_COLUMNS: usize = 28;
