//! The report as an HTML page: one file for any browser, without a script and without a network.
//!
//! Charts are SVG that stretches to the width of the page; the figures are text beside them, so that they stay legible
//! on a phone. `maud` escapes markup, [`visible`] replaces characters that a reader cannot see, and a content security
//! policy forbids scripts and requests in case anything slips through.

use jiff::ToSpan;
use jiff::civil::Date;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::narrative::Narrative;
use super::report::{DayCounts, FailureCluster, Report, SkillStats};
use super::statements::{
    Statement, Topic, chance_in_table, compared_name, day_of, duration_text, is_hidden, percent, skill_name,
    thousands, too_few_words,
};
use super::statistics::{Proportion, RUNS_MIN, float};

impl Report {
    /// Returns the report as an HTML page, with the narrative of a model if there is one.
    pub fn to_html(&self, narrative: Option<&Narrative>) -> String {
        let title = headline(self);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { "Retrospective: " (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    main {
                        (header(self, &title))
                        (standing_out(self))
                        @if let Some(narrative) = narrative { (narrative_section(narrative)) }
                        @if let Some(columns) = Columns::of(&self.days) { (over_time(&columns)) }
                        @if !self.groups.is_empty() { (success_rates(self)) }
                        (attempts(self))
                        (durations(self))
                        (failures(self))
                        @if !self.comparisons.is_empty() { (comparisons(self)) }
                        @if !self.groups.is_empty() { (figures(self)) }
                        (method(self))
                    }
                }
            }
        };
        page.into_string() + "\n"
    }
}

/// Replaces control characters and invisible marks, which a browser would obey or a reader would not see.
fn visible(text: &str) -> String {
    let replace = |c: char| match c {
        '\n' | '\t' => ' ',
        c if is_hidden(c) => '\u{fffd}',
        c => c,
    };
    text.chars().map(replace).collect()
}

/// Joins the parts that are not empty.
fn dotted(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    visible(&parts.join(" · "))
}

/// Returns a period of days, or the day if it is only one.
fn period_words(first: &str, last: &str) -> String {
    if first == last { first.to_owned() } else { format!("{first} to {last}") }
}

fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (body) } }
}

/// A collapsed table that scrolls sideways on a narrow screen.
fn table(summary: &str, columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Markup {
    html! {
        details {
            summary { (summary) }
            div class="scroll" tabindex="0" {
                table {
                    thead { tr { @for column in columns { th scope="col" { (column) } } } }
                    tbody { @for row in rows.take(TABLE_ROWS) { tr { @for cell in row { td { (visible(&cell)) } } } } }
                }
            }
        }
    }
}

fn and_more(all: usize, shown: usize) -> Markup {
    html! { @if all > shown { p class="aside" { "And " (all - shown) " more." } } }
}

/// The ids of runs that something rests on.
fn run_ids(ids: &[String]) -> Markup {
    html! {
        @if !ids.is_empty() {
            div class="runs" {
                "runs " @for (at, id) in ids.iter().enumerate() { @if at > 0 { ", " } code { (visible(id)) } }
            }
        }
    }
}

/// Returns the whole report in a line.
fn headline(report: &Report) -> String {
    let totals = &report.totals;
    match (totals.runs, totals.success.rate) {
        (0, _) => "No runs in this time".to_owned(),
        (runs, Some(rate)) if totals.success.is_enough() => {
            format!("{} runs, {} succeeded", thousands(runs), percent(rate))
        }
        (runs, _) => format!("{} runs, too few to say more", thousands(runs)),
    }
}

fn header(report: &Report, title: &str) -> Markup {
    let period = &report.period;
    let mut about: Vec<String> =
        period.days().iter().map(|(first, last)| period_words(first, last)).collect();
    let only = [("project", &period.project), ("skill", &period.skill), ("session", &period.session)];
    about.extend(only.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_deref()?))));
    about.push(format!("{} log{}", thousands(period.sessions), if period.sessions == 1 { "" } else { "s" }));
    let totals = &report.totals;
    let open = totals.unknown + totals.other;
    html! {
        header {
            p class="eyebrow" { "Retrospective" }
            h1 { (title) }
            p class="lede" { (visible(&about.join(" · "))) }
            @if !report.whole { p class="chip bad" { "Stopped before everything was read" } }
            dl class="tiles" {
                (proportion_tile("Succeeded", &totals.success))
                (proportion_tile("At the first attempt", &totals.first_try))
                (proportion_tile("Checked and good", &totals.verified))
                @if let Some(median) = totals.duration.median_ms {
                    (tile("Median duration", &duration_text(median), &format!("95 of 100 within {}",
                        duration_text(totals.duration.p95_ms.unwrap_or(median)))))
                }
                @if open > 0 {
                    (tile("Outcome unknown", &thousands(open),
                        &format!("{} did not end, {} say it in words unknown here", totals.unknown, totals.other)))
                }
            }
        }
    }
}

fn proportion_tile(name: &str, share: &Proportion) -> Markup {
    match (share.rate, share.low, share.high) {
        (Some(rate), Some(low), Some(high)) if share.is_enough() => {
            let (low, high) = (percent(low), percent(high));
            // Of very many runs both ends are the same number.
            let range = if low == high { String::new() } else { format!("; {low} to {high}") };
            let more = format!("{} of {}{range}", thousands(share.count), thousands(share.of));
            tile(name, &percent(rate), &more)
        }
        _ => tile(name, "-", &too_few_words(share.of)),
    }
}

fn tile(name: &str, figure: &str, more: &str) -> Markup {
    html! {
        div class="tile" { dt { (name) } dd { div class="figure" { (figure) } div class="more" { (more) } } }
    }
}

fn standing_out(report: &Report) -> Markup {
    let is_worth = |one: &&Statement| {
        !matches!(one.topic, Topic::Rate | Topic::TooFew | Topic::Unused | Topic::Failures)
    };
    let all: Vec<&Statement> = report.statements.iter().filter(is_worth).collect();
    let chip = |topic: Topic| match topic {
        Topic::Regression => ("chip bad", "got worse"),
        Topic::Improvement => ("chip good", "got better"),
        Topic::Difference => ("chip", "differs"),
        Topic::Flaky => ("chip bad", "flaky"),
        _ => ("chip", "unknown"),
    };
    let body = html! {
        @if all.is_empty() {
            p class="aside" { "Nothing that the numbers support." }
        } @else {
            ul class="says" {
                @for one in all.iter().take(STATEMENTS) {
                    @let (class, word) = chip(one.topic);
                    li { span class=(class) { (word) } p { (visible(&one.text)) } (run_ids(&one.runs)) }
                }
            }
            (and_more(all.len(), STATEMENTS))
        }
        @if !report.unused.is_empty() {
            p class="aside" { "Never used in this time: " (visible(&report.unused.join(", "))) "." }
        }
    };
    section("stands-out", "What stands out", &body)
}

fn narrative_section(narrative: &Narrative) -> Markup {
    let body = html! {
        p class="aside" {
            "By " (visible(&narrative.model)) ". Each passage names runs that it rests on; " (narrative.unknown_runs)
            " that were not among the facts were struck out, and " (narrative.dropped)
            " passages with nothing behind them left out. Nothing of this was applied."
        }
        @for one in &narrative.passages {
            div class="passage" { p { (visible(&one.text)) } (run_ids(&one.runs)) }
        }
        @for one in &narrative.edits {
            @let lines: Vec<String> = one.text.lines().map(visible).collect();
            div class="passage edit" {
                p { b { (visible(&one.skill)) } ": " (visible(&one.why)) }
                pre { (lines.join("\n")) }
                (run_ids(&one.runs))
            }
        }
    };
    section("narrative", "What a model makes of it", &body)
}

/// Runs by day, or by as many days as make a chart that can be read.
fn over_time(columns: &Columns) -> Markup {
    let each = columns.length_words();
    let count = columns.all.len();
    let gap = (0.006 * float(count as u64)).min(0.16);
    let marks = if count > 2 { vec![0, count / 2, count - 1] } else { vec![0] };
    let body = html! {
        p class="aside" { "Runs " (each) " (UTC). The tallest column is " (columns.most) " runs." }
        ul class="key" {
            li { i class="g" {} "succeeded" }
            li { i class="b" {} "failed" }
            li { i class="o" {} "outcome unknown" }
        }
        // A column is one unit wide, and a run is one unit high.
        svg class="time" viewBox={ "0 0 " (count) " " (columns.most) } preserveAspectRatio="none" role="img"
            aria-label={ "Runs " (each) ": succeeded, failed, outcome unknown" } {
            @for (at, DayCounts { day, success, failure, unknown }) in columns.all.iter().enumerate() {
                g class="column" {
                    title { (day) ": " (success) " succeeded, " (failure) " failed, " (unknown) " unknown" }
                    @let failed_above = columns.most - success - failure;
                    @for (class, top, height) in [
                        ("day-good", columns.most - success, *success),
                        ("day-bad", failed_above, *failure),
                        ("day-open", failed_above - unknown, *unknown),
                    ] {
                        @if height > 0 {
                            rect class=(class) x=(format!("{:.3}", float(at as u64) + gap / 2.0)) y=(top)
                                width=(format!("{:.3}", 1.0 - gap)) height=(height) {}
                        }
                    }
                }
            }
        }
        div class="scale" aria-hidden="true" { @for at in marks { span { (columns.all[at].day) } } }
    };
    section("time", "Over time", &body)
}

/// Days put together to columns without a gap.
struct Columns {
    all: Vec<DayCounts>,
    /// The days in each column.
    days: i64,
    /// The runs in the tallest column.
    most: u64,
}

impl Columns {
    fn of(days: &[DayCounts]) -> Option<Columns> {
        let date = |day: &DayCounts| day.day.parse::<Date>().ok();
        let (first, last) = (days.iter().find_map(date)?, days.iter().rev().find_map(date)?);
        let number = |date: Date| i64::from(first.until(date).map_or(0, |span| span.get_days()));
        let columns_of = |length: i64| (number(last) + length) / length;
        let length = LENGTHS.into_iter().find(|length| columns_of(*length) <= COLUMNS).unwrap_or(LENGTH_MAX);
        let start = |at: i64| {
            first.checked_add((at * length).days()).map_or_else(|_| String::new(), |day| day.to_string())
        };
        let mut all: Vec<DayCounts> =
            (0..columns_of(length)).map(|at| DayCounts { day: start(at), ..DayCounts::default() }).collect();
        for day in days {
            let column = all.get_mut(usize::try_from(number(date(day)?) / length).ok()?)?;
            column.success += day.success;
            column.failure += day.failure;
            column.unknown += day.unknown;
        }
        let most = all.iter().map(|day| day.success + day.failure + day.unknown).max()?.max(1);
        Some(Columns { all, days: length, most })
    }

    fn length_words(&self) -> String {
        match self.days {
            1 => "a day".to_owned(),
            7 => "a week".to_owned(),
            days => format!("in {} weeks each", days / 7),
        }
    }
}

/// A chart of one row; `words` describe it to a screen reader.
fn chart(class: &str, words: &str, marks: &Markup) -> Markup {
    let words = visible(words);
    html! {
        svg class=(class) viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label=(words) {
            title { (words) }
            (marks)
        }
    }
}

/// A bar from the left over a track of the whole width.
fn bar(class: &str, share: f64) -> Markup {
    html! {
        rect class="track" width="100" height="12" {}
        rect class=(class) width=(format!("{:.2}", share * 100.0)) height="12" {}
    }
}

fn group_label(group: &SkillStats) -> Markup {
    html! { b { (visible(skill_name(&group.skill))) } span { (dotted(&[&group.model, &group.phase])) } }
}

/// The success rate of each skill, with its interval.
fn success_rates(report: &Report) -> Markup {
    let body = html! {
        p class="aside" {
            "The bar is the share of ended runs that succeeded; the thin line is where the rate behind it lies 19 \
             times out of 20. Where the lines of two overlap much, the two may well be equal."
        }
        ul class="rows" {
            @for group in report.groups.iter().take(ROWS) { (success_rate(group)) }
            li class="row" aria-hidden="true" {
                div class="scale" { span { "0 %" } span { "50 %" } span { "100 %" } }
            }
        }
        (and_more(report.groups.len(), ROWS))
    };
    section("rates", "How often skills succeed", &body)
}

fn success_rate(group: &SkillStats) -> Markup {
    let open = group.unknown + group.other;
    let open = if open == 0 { String::new() } else { format!(", {open} unknown") };
    let (words, marks, value) = match group.success {
        Proportion { count, of, rate: Some(rate), low: Some(low), high: Some(high) } if group.enough => {
            let (count, of, rate_words) = (thousands(count), thousands(of), percent(rate));
            let between = format!("between {} and {}", percent(low), percent(high));
            let (low, high) = (low * 100.0, high * 100.0);
            let whisker = |top: f64| {
                let bottom = 12.0 - top;
                format!("M{low:.2} 6H{high:.2}M{low:.2} {top}V{bottom}M{high:.2} {top}V{bottom}")
            };
            let marks = html! {
                (bar("bar", rate))
                path class="halo" d=(whisker(2.5)) fill="none" {}
                path class="whisker" d=(whisker(3.0)) fill="none" {}
            };
            let value = html! { (rate_words) span { (count) " of " (of) (open) } };
            (format!("{rate_words} succeeded ({count} of {of}), {between}"), marks, value)
        }
        _ => {
            let few = too_few_words(group.n);
            let track = html! { rect class="track" width="100" height="12" {} };
            let value = html! { span { (few) (open) } };
            (few, track, value)
        }
    };
    let chart = chart("rate", &format!("{}: {words}", group.name()), &marks);
    row(&group_label(group), &chart, &value)
}

/// A row of a chart: its label, its bar, and its value in figures.
fn row(label: &Markup, chart: &Markup, value: &Markup) -> Markup {
    html! { li class="row" { div class="label" { (label) } (chart) div class="value" { (value) } } }
}

/// The number of attempts that successes took.
fn attempts(report: &Report) -> Markup {
    let counts = &report.totals.attempts;
    let all: u64 = counts.iter().sum();
    let last = counts.iter().rposition(|count| *count > 0);
    let Some(last) = last.filter(|_| all >= RUNS_MIN) else { return html! {} };
    let name = |at: usize| match at + 1 {
        1 => "1 attempt".to_owned(),
        most if most == counts.len() => format!("{most} or more attempts"),
        number => format!("{number} attempts"),
    };
    let body = html! {
        p class="aside" { "Of " (all) " runs that succeeded and say what was tried." }
        ul class="rows" {
            @for (at, count) in counts.iter().enumerate().take(last + 1) {
                @let share = float(*count) / float(all);
                @let chart = chart("count", &format!("{}: {count} runs", name(at)), &bar("bar", share));
                (row(&html! { (name(at)) }, &chart, &html! { (percent(share)) span { (count) " runs" } }))
            }
        }
    };
    section("attempts", "Attempts to success", &body)
}

/// The durations of each skill from the median to the 95th percentile, on a logarithmic scale.
fn durations(report: &Report) -> Markup {
    let groups: Vec<(&SkillStats, u64, u64)> = report
        .groups
        .iter()
        .filter(|group| group.duration.n >= RUNS_MIN)
        .filter_map(|group| Some((group, group.duration.median_ms?, group.duration.p95_ms?)))
        .take(ROWS)
        .collect();
    let Some(least) = groups.iter().map(|(_, median, _)| (*median).max(1)).min() else { return html! {} };
    let most = groups.iter().map(|(_, _, p95)| (*p95).max(1)).max().unwrap_or(1);
    let (low, high) = (least.ilog10(), most.ilog10() + 1);
    let position = |ms: u64| (float(ms.max(1)).log10() - f64::from(low)) / f64::from(high - low) * 100.0;
    let grid = |line: u32| format!("M{:.2} 0V12", f64::from(line) / f64::from(high - low) * 100.0);
    let ticks: Vec<u32> = if high - low <= TICKS { (low..=high).collect() } else { vec![low, high] };
    let body = html! {
        p class="aside" {
            "The first mark is the median, the second is what 95 of 100 runs do not exceed. Each line of the grid is \
             ten times the one before."
        }
        ul class="rows" {
            @for (group, median, p95) in groups {
                @let (from, to) = (position(median), position(p95));
                @let (half, nearly) = (duration_text(median), duration_text(p95));
                @let marks = html! {
                    @for line in 0..=(high - low) { path class="grid" d=(grid(line)) {} }
                    path class="reach" d=(format!("M{from:.2} 6H{to:.2}")) {}
                    path class="mark" d=(format!("M{from:.2} 3.5V8.5")) {}
                    path class="mark late" d=(format!("M{to:.2} 3.5V8.5")) {}
                };
                @let words = format!("{}: median {half}, 95 of 100 within {nearly}", group.name());
                @let value = html! { (half) span { (nearly) " for 95 %" } };
                (row(&group_label(group), &chart("span", &words, &marks), &value))
            }
            li class="row" aria-hidden="true" {
                div class="scale" { @for power in ticks { span { (tick(power)) } } }
            }
        }
    };
    section("durations", "How long runs take", &body)
}

/// A power of ten, of milliseconds.
fn tick(power: u32) -> String {
    match power {
        0..3 => format!("{} ms", 10_u64.pow(power)),
        _ => format!("{} s", thousands(10_u64.saturating_pow(power - 3))),
    }
}

fn failures(report: &Report) -> Markup {
    let Some(most) = report.failures.first().map(|one| one.count) else { return html! {} };
    let body = html! {
        p class="aside" {
            "Failures that look the same once paths, numbers, hashes, times and names are taken out."
        }
        @for one in report.failures.iter().take(FAILURES) { (failure(one, most)) }
        (and_more(report.failures.len(), FAILURES))
    };
    section("failures", "What goes wrong", &body)
}

fn failure(one: &FailureCluster, most: u64) -> Markup {
    let times = if one.count == 1 { "once".to_owned() } else { format!("{} times", one.count) };
    let marks = bar("bar bad", float(one.count) / float(most));
    let days = period_words(day_of(one.first.as_deref()), day_of(one.last.as_deref()));
    html! {
        div class="failure" {
            div class="row" {
                (chart("count", &format!("{times}: {}", one.signature), &marks))
                div class="value" { (times) }
            }
            code { (visible(&one.signature)) }
            div class="meta" { (dotted(&[&one.skills.join(", "), &one.models.join(", "), &days])) }
            (run_ids(&one.runs))
        }
    }
}

fn comparisons(report: &Report) -> Markup {
    let tested = report.comparisons.iter().filter(|one| one.chance.is_some()).count();
    let supported = report.comparisons.iter().filter(|one| one.supported).count();
    let columns = ["what", "before", "after", "p", "corrected", "verdict"];
    let cell = |share: &Proportion| format!("{} of {}", thousands(share.count), thousands(share.of));
    let rows = report.comparisons.iter().map(|one| {
        let p = |chance: Option<f64>| chance.map_or_else(|| "-".to_owned(), chance_in_table);
        let (name, verdict) = (compared_name(one), one.verdict_words("different"));
        vec![name, cell(&one.before), cell(&one.after), p(one.chance), p(one.corrected), verdict]
    });
    let body = html! {
        p class="aside" {
            (tested) " comparisons had enough runs on both sides; " (supported) " of them show a difference. The \
             chance that this report calls anything different that is not is under one in twenty."
        }
        (table("All comparisons", &columns, rows))
    };
    section("compared", "What was compared", &body)
}

fn figures(report: &Report) -> Markup {
    let cell = |share: &Proportion| match share.rate {
        Some(rate) if share.is_enough() => format!("{} ({}/{})", percent(rate), share.count, share.of),
        _ => format!("{}/{}", share.count, share.of),
    };
    let rows = report.groups.iter().map(|group| group.table_row(cell));
    section("figures", "All figures", &table("Skill by model by phase", &SkillStats::TABLE_COLUMNS, rows))
}

/// The method behind the figures, and everything that was left out of them.
fn method(report: &Report) -> Markup {
    let body = html! {
        ul class="notes" {
            @for fixed in METHOD { li { (fixed) } }
            @for remark in report.remarks(STATUSES) { li { (visible(&remark)) } }
        }
    };
    section("grounds", "What this rests on", &body)
}

const STYLE: &str = include_str!("style.css");
const METHOD: [&str; 5] = [
    "n is the number of runs that ended: succeeded or failed. Runs of unknown outcome, and with a status that has no \
     meaning here, count as neither.",
    "Intervals are Wilson’s at 95 %. Nothing is concluded from fewer than 5 runs.",
    "Two rates are called different by Fisher’s exact test, corrected for all comparisons of this report (Holm).",
    "A median is the run at half of all in order, exact up to 256 runs and within 1 % beyond.",
    "Flaky means: the same version of a skill, model, input, file and project ended both ways.",
];
/// The most items of each section.
const STATEMENTS: usize = 20;
const ROWS: usize = 40;
const FAILURES: usize = 15;
const TABLE_ROWS: usize = 200;
const STATUSES: usize = 8;
/// The most lines of the time scale that are labelled.
const TICKS: u32 = 6;
/// The most columns of the chart of days, and the days that a column may stand for.
const COLUMNS: i64 = 60;
const LENGTHS: [i64; 5] = [1, 7, 28, 91, 364];
const LENGTH_MAX: i64 = 3640;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_neither_markup_nor_hidden() {
        let hostile = "</script><img src=x onerror=\"alert('1')\">&\u{202e}\u{0}\u{1b}[31m";
        let shown = chart("rate", hostile, &html! {}).into_string();
        let words = "&lt;/script&gt;&lt;img src=x onerror=&quot;alert('1')&quot;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}[31m";
        assert!(shown.contains(&format!("aria-label=\"{words}\"><title>{words}</title></svg>")), "{shown}");
    }
}
