//! A report of `manent retro` for a terminal.

use manent_runs::retrospective::{Narrative, Proportion, Report, SkillStats, Statement, Topic};
use unicode_width::UnicodeWidthStr;

use crate::commands::prelude::*;
use crate::output::aligned;

pub(super) fn print(output: &mut Output, report: &Report, narrative: Option<&Narrative>) -> io::Result<()> {
    let columns = output.columns().unwrap_or(COLUMNS).max(COLUMNS_MIN);
    first_lines(output, report)?;
    standing_out(output, report, columns)?;
    if let Some(narrative) = narrative {
        model(output, narrative, columns)?;
    }
    skills(output, report, columns)?;
    failures(output, report, columns)?;
    notes(output, report, columns)
}

fn first_lines(output: &mut Output, report: &Report) -> io::Result<()> {
    let when = match report.period.days() {
        Some((first, last)) => format!("  {first} to {last}"),
        None => String::new(),
    };
    output.line(&[(Style::new().bold(), "Retrospective"), (term::FAINT, &when)])?;
    let totals = &report.totals;
    let failed = totals.success.of - totals.success.count;
    let counts = format!(
        "{} runs: {} succeeded, {} failed, {} of unknown outcome, {} with a status unknown here",
        term::count(totals.runs),
        term::count(totals.success.count),
        term::count(failed),
        term::count(totals.unknown),
        term::count(totals.other)
    );
    output.plain(&counts)?;
    let rates = [
        ("success", &totals.success),
        ("first attempt", &totals.first_try),
        ("checked and good", &totals.verified),
    ];
    let rates = rates.map(|(name, share)| format!("{name} {}", with_interval(share)));
    output.line(&[(term::FAINT, &rates.join("; "))])
}

fn standing_out(output: &mut Output, report: &Report, columns: usize) -> io::Result<()> {
    output.heading("What stands out")?;
    let quiet = |topic: Topic| matches!(topic, Topic::Rate | Topic::TooFew | Topic::Failures);
    let all: Vec<&Statement> = report.statements.iter().filter(|one| !quiet(one.topic)).collect();
    if all.is_empty() {
        return output.line(&[(term::FAINT, "  nothing that the numbers support")]);
    }
    for one in all.iter().take(STATEMENTS) {
        let (word, color) = match one.topic {
            Topic::Regression => ("worse", AnsiColor::Red),
            Topic::Improvement => ("better", AnsiColor::Green),
            Topic::Difference => ("differs", AnsiColor::Cyan),
            Topic::Flaky => ("flaky", AnsiColor::Yellow),
            Topic::Unused => ("unused", AnsiColor::Blue),
            _ => ("unknown", AnsiColor::Blue),
        };
        let first = format!("  {}", term::pad(word, WORD_COLUMNS));
        paragraph(output, (term::bold(color), &first), (Style::new(), &one.text), columns)?;
        runs(output, &one.runs, WORD_COLUMNS + 2, columns)?;
    }
    note_rest(output, all.len(), STATEMENTS, "")
}

fn runs(output: &mut Output, ids: &[String], indent: usize, columns: usize) -> io::Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let text = format!("runs {}", ids.join(", "));
    paragraph(output, (term::FAINT, &" ".repeat(indent)), (term::FAINT, &text), columns)
}

/// Prints text in lines of so many columns. The first begins with `first`, the others with blanks of that width.
fn paragraph(
    output: &mut Output,
    first: (Style, &str),
    (style, text): (Style, &str),
    columns: usize,
) -> io::Result<()> {
    let indent = first.1.width();
    let blanks = " ".repeat(indent);
    for (at, line) in wrapped(text, columns - indent).iter().enumerate() {
        let front = if at == 0 { first } else { (first.0, blanks.as_str()) };
        output.line(&[front, (style, line)])?;
    }
    Ok(())
}

fn note_rest(output: &mut Output, all: usize, shown: usize, kinds: &str) -> io::Result<()> {
    if all <= shown {
        return Ok(());
    }
    output.line(&[(term::FAINT, &format!("  and {} more{kinds}; --json has all", all - shown))])
}

fn model(output: &mut Output, narrative: &Narrative, columns: usize) -> io::Result<()> {
    output.heading(&format!("What {} makes of it", term::line(&narrative.model)))?;
    for one in &narrative.passages {
        paragraph(output, (Style::new(), "  "), (Style::new(), &one.text), columns)?;
        runs(output, &one.runs, 2, columns)?;
    }
    for one in &narrative.edits {
        let what = format!("{}: {}", one.skill, one.why);
        paragraph(output, (Style::new(), "  "), (Style::new().bold(), &what), columns)?;
        for line in one.text.lines() {
            output.plain(&format!("  | {}", term::line(line)))?;
        }
        runs(output, &one.runs, 2, columns)?;
    }
    let dropped = format!(
        "  {} runs that it named do not exist, {} passages had nothing behind them; nothing was applied",
        narrative.unknown_runs, narrative.dropped
    );
    output.line(&[(term::FAINT, &dropped)])
}

fn skills(output: &mut Output, report: &Report, columns: usize) -> io::Result<()> {
    if report.groups.is_empty() {
        return Ok(());
    }
    output.heading("Skills")?;
    let heads: Vec<&str> = HEADS.split('|').collect();
    let mut cells: Vec<Vec<String>> = vec![heads.iter().map(|head| (*head).to_owned()).collect()];
    cells.extend(report.groups.iter().take(ROWS).map(row));
    // A column in which nothing stands takes no room.
    let is_empty = |column: usize| cells[1..].iter().all(|row| row[column].is_empty() || row[column] == "-");
    let shown: Vec<usize> = (0..heads.len()).filter(|column| *column < 2 || !is_empty(*column)).collect();
    let row = |row: &Vec<String>| shown.iter().map(|column| row[*column].clone()).collect();
    let rows: Vec<Vec<String>> = cells.iter().map(row).collect();
    for (at, line) in aligned(&rows, |column| shown[column] >= NAMES).iter().enumerate() {
        let style = if at == 0 { term::FAINT } else { Style::new() };
        let line = format!("  {line}");
        let line = if output.terminal { term::fit(line.trim_end(), columns) } else { line.trim_end().into() };
        output.line(&[(style, &line)])?;
    }
    note_rest(output, report.groups.len(), ROWS, "")
}

fn row(group: &SkillStats) -> Vec<String> {
    let name = |text: &str| term::fit(&term::line(text), NAME_COLUMNS).into_owned();
    let skill = if group.skill.is_empty() { "(no skill named)" } else { &group.skill };
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), term::lasting);
    let unknown = group.unknown + group.other;
    let mut cells = vec![name(skill), name(&group.model), name(&group.phase), term::count(group.n)];
    if group.enough {
        let mean = group.attempts_mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}"));
        cells.extend([with_interval(&group.success), rate(&group.first_try), rate(&group.verified), mean]);
    } else {
        let few = format!("too few runs ({}) to say", group.n);
        cells.extend([few, "-".to_owned(), "-".to_owned(), "-".to_owned()]);
    }
    cells.extend([time(group.duration.median_ms), time(group.duration.p95_ms)]);
    cells.push(if unknown == 0 { String::new() } else { term::count(unknown) });
    cells
}

fn failures(output: &mut Output, report: &Report, columns: usize) -> io::Result<()> {
    if report.failures.is_empty() {
        return Ok(());
    }
    output.heading("What goes wrong")?;
    let day =
        |time: &Option<String>| time.as_deref().map_or("?", |time| time.get(..10).unwrap_or(time)).to_owned();
    let width = term::count(report.failures[0].count).len();
    for one in report.failures.iter().take(FAILURES) {
        let count = format!("  {:>width$}  ", term::count(one.count));
        paragraph(output, (Style::new().bold(), &count), (Style::new(), &one.signature), columns)?;
        let times = format!("{} to {}", day(&one.first), day(&one.last));
        let runs = format!("runs {}", one.runs.join(", "));
        let mut meta = vec![one.skills.join(", "), one.models.join(", "), times, runs];
        // Not every run says which model it was.
        meta.retain(|part| !part.is_empty());
        let indent = " ".repeat(width + 4);
        paragraph(output, (term::FAINT, &indent), (term::FAINT, &meta.join("; ")), columns)?;
    }
    note_rest(output, report.failures.len(), FAILURES, " kinds")
}

fn notes(output: &mut Output, report: &Report, columns: usize) -> io::Result<()> {
    let tests = report.comparisons.iter().filter(|one| one.chance.is_some()).count();
    let mut notes = vec![format!(
        "n is the number of ended runs; intervals are Wilson's at 95 %; comparisons made: {tests}; the chance of any \
         false alarm among them is under 5 %"
    )];
    notes.extend(report.notes.iter().cloned());
    notes.extend(report.statuses.iter().take(FEW).map(|odd| {
        format!("runs with the status \"{}\", which has no meaning here: {}", odd.what, odd.count)
    }));
    notes.extend(report.oddities.iter().map(|odd| format!("runs with {}: {}", odd.what, odd.count)));
    output.heading("What this rests on")?;
    for note in notes {
        paragraph(output, (term::FAINT, "  - "), (term::FAINT, &note), columns)?;
    }
    Ok(())
}

/// Text in lines of so many columns, ready for a terminal. Words that are longer are broken.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let text = term::line(text);
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if used > 0 && used + 1 + word.width() > columns {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            let wide = c.to_string().width();
            if used > 0 && used + wide > columns {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += wide;
        }
    }
    lines.push(line);
    lines
}

fn with_interval(share: &Proportion) -> String {
    match (share.rate, share.low, share.high) {
        (Some(rate), Some(low), Some(high)) if share.is_enough() => {
            format!("{} ({} to {})", percent(rate), whole(low), percent(high))
        }
        _ => format!("too few ({})", share.of),
    }
}

fn rate(share: &Proportion) -> String {
    share.rate.filter(|_| share.is_enough()).map_or_else(|| "-".to_owned(), percent)
}

fn whole(rate: f64) -> String {
    format!("{:.0}", rate * 100.0)
}

fn percent(rate: f64) -> String {
    format!("{} %", whole(rate))
}

const HEADS: &str = "SKILL|MODEL|PHASE|N|SUCCESS|FIRST|CHECKED GOOD|TRIES|MEDIAN|P95|UNKNOWN";
const COLUMNS: usize = 100;
const COLUMNS_MIN: usize = 40;
const WORD_COLUMNS: usize = 9;
const NAME_COLUMNS: usize = 32;
/// The first columns are names.
const NAMES: usize = 3;
const STATEMENTS: usize = 20;
const ROWS: usize = 50;
const FAILURES: usize = 10;
const FEW: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_there_is_room() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("aaaaaaaaaa b", 4), ["aaaa", "aaaa", "aa b"]);
        assert_eq!(wrapped("日本語", 4), ["日本", "語"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("a\x1b[31m", 80), ["a\\u{1b}[31m"]);
    }
}
