//! The charts: bars with whiskers, days as columns, spans of time on a scale of powers of ten.

use jiff::ToSpan;
use jiff::civil::Date;

use super::parts::{close, counted, group_name, lasting, open, share_words};
use super::safe::safe;
use crate::retrospective::report::{DayCounts, FailureCluster, Report, SkillStats};
use crate::retrospective::statistics::{RUNS_MIN, float};
use crate::retrospective::words::{percent, too_few_words};

/// Runs by day, or by as many days as make a chart that can be read.
pub(super) fn over_time(report: &Report, page: &mut String) {
    let Some(columns) = Columns::of(&report.days) else { return };
    open("Over time", "time", page);
    let each = columns.length_words();
    put!(page, "<p class=\"aside\">Runs {each} (UTC). The tallest column is {} runs.</p>\n", columns.most);
    page.push_str(KEY);
    let width = 100.0 / float(columns.all.len() as u64);
    let gap = (width * 0.16).min(0.6);
    put!(
        page,
        "<svg class=\"time\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"Runs {each}: \
         succeeded, failed, outcome unknown\">\n"
    );
    for (at, column) in columns.all.iter().enumerate() {
        let left = width * float(at as u64) + gap / 2.0;
        let words = format!(
            "{}: {} succeeded, {} failed, {} unknown",
            column.day, column.success, column.failure, column.unknown
        );
        put!(page, "<g class=\"column\"><title>{}</title>", safe(&words));
        let mut bottom = 100.0;
        for (count, class) in
            [(column.success, "day-good"), (column.failure, "day-bad"), (column.unknown, "day-open")]
        {
            if count > 0 {
                let height = float(count) / float(columns.most) * 100.0;
                bottom -= height;
                let wide = width - gap;
                put!(
                    page,
                    "<rect class=\"{class}\" x=\"{left:.3}\" y=\"{bottom:.3}\" width=\"{wide:.3}\" \
                     height=\"{height:.3}\"/>"
                );
            }
        }
        page.push_str("</g>\n");
    }
    page.push_str("</svg>\n<div class=\"scale\" aria-hidden=\"true\">");
    let middle = columns.all.len() / 2;
    for at in if columns.all.len() > 2 { vec![0, middle, columns.all.len() - 1] } else { vec![0] } {
        put!(page, "<span>{}</span>", safe(&columns.all[at].day));
    }
    page.push_str("</div>\n");
    close(page);
}

/// Days put together to columns without a gap.
struct Columns {
    all: Vec<DayCounts>,
    days: i64,
    most: u64,
}

impl Columns {
    fn of(days: &[DayCounts]) -> Option<Columns> {
        let date = |day: &DayCounts| day.day.parse::<Date>().ok();
        let (first, last) = (days.iter().find_map(date)?, days.iter().rev().find_map(date)?);
        let number = |date: Date| i64::from(first.until(date).map_or(0, |span| span.get_days()));
        let span = number(last) + 1;
        let length =
            LENGTHS.into_iter().find(|length| columns_of(span, *length) <= COLUMNS).unwrap_or(LENGTH_MAX);
        let count = usize::try_from(columns_of(span, length)).unwrap_or(1);
        let mut all = vec![DayCounts::default(); count];
        for (at, column) in (0..).zip(&mut all) {
            column.day =
                first.checked_add((at * length).days()).map_or_else(|_| String::new(), |day| day.to_string());
        }
        for day in days {
            let at = usize::try_from(number(date(day)?) / length).ok()?;
            let column = all.get_mut(at)?;
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

/// How many columns of so many days a span takes.
fn columns_of(span: i64, length: i64) -> i64 {
    (span + length - 1) / length
}

/// How often each skill succeeds, with the interval.
pub(super) fn rates(report: &Report, page: &mut String) {
    if report.groups.is_empty() {
        return;
    }
    open("How often skills succeed", "rates", page);
    page.push_str(
        "<p class=\"aside\">The bar is the share of ended runs that succeeded; the thin line is where the rate \
         behind it lies 19 times out of 20. Where the lines of two overlap much, the two may well be equal.</p>\n\
         <ul class=\"rows\">\n",
    );
    for group in report.groups.iter().take(ROWS) {
        put!(page, "<li class=\"row\">{}", label(group));
        if let (true, Some(rate), Some(low), Some(high)) =
            (group.enough, group.success.rate, group.success.low, group.success.high)
        {
            let words = format!("{}: {}", group_name(group), share_words(&group.success));
            page.push_str(&rate_bar(&words, rate, low, high));
            let (count, n, open) = (counted(group.success.count), counted(group.n), open_words(group));
            put!(page, "<div class=\"value\">{}<span>{count} of {n}{open}</span></div>", percent(rate));
        } else {
            let few = too_few_words(group.n);
            page.push_str(&empty_bar(&format!("{}: {few}", group_name(group))));
            put!(page, "<div class=\"value\"><span>{few}{}</span></div>", open_words(group));
        }
        page.push_str("</li>\n");
    }
    page.push_str(
        "<li class=\"row\" aria-hidden=\"true\"><div class=\"scale\">\
        <span>0 %</span><span>50 %</span><span>100 %</span></div></li>\n</ul>\n",
    );
    and_more(report.groups.len(), ROWS, page);
    close(page);
}

fn open_words(group: &SkillStats) -> String {
    match group.unknown + group.other {
        0 => String::new(),
        count => format!(", {count} unknown"),
    }
}

fn label(group: &SkillStats) -> String {
    let skill = crate::retrospective::words::skill_name(&group.skill);
    let more: Vec<&str> =
        [&*group.model, &*group.phase].into_iter().filter(|part| !part.is_empty()).collect();
    format!("<div class=\"label\"><b>{}</b><span>{}</span></div>", safe(skill), safe(&more.join(" · ")))
}

fn rate_bar(words: &str, rate: f64, low: f64, high: f64) -> String {
    let (rate, low, high) = (rate * 100.0, low * 100.0, high * 100.0);
    format!(
        "<svg class=\"rate\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{words}\">\
         <title>{words}</title><rect class=\"track\" width=\"100\" height=\"12\"/>\
         <rect class=\"bar\" width=\"{rate:.2}\" height=\"12\"/>\
         <path class=\"halo\" d=\"M{low:.2} 6H{high:.2}M{low:.2} 2.5V9.5M{high:.2} 2.5V9.5\" fill=\"none\"/>\
         <path class=\"whisker\" d=\"M{low:.2} 6H{high:.2}M{low:.2} 3V9M{high:.2} 3V9\" fill=\"none\"/></svg>",
        words = safe(words)
    )
}

fn empty_bar(words: &str) -> String {
    format!(
        "<svg class=\"rate\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{words}\">\
         <title>{words}</title><rect class=\"track\" width=\"100\" height=\"12\"/></svg>",
        words = safe(words)
    )
}

fn count_bar(words: &str, share: f64, class: &str) -> String {
    format!(
        "<svg class=\"count\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{words}\">\
         <title>{words}</title><rect class=\"track\" width=\"100\" height=\"12\"/>\
         <rect class=\"bar{class}\" width=\"{share:.2}\" height=\"12\"/></svg>",
        share = share * 100.0,
        words = safe(words)
    )
}

/// How many attempts successes took.
pub(super) fn attempts(report: &Report, page: &mut String) {
    let all: u64 = report.totals.attempts.iter().sum();
    let last = report.totals.attempts.iter().rposition(|count| *count > 0);
    let Some(last) = last.filter(|_| all >= RUNS_MIN) else { return };
    open("Attempts to success", "attempts", page);
    put!(
        page,
        "<p class=\"aside\">Of {all} runs that succeeded and say what was tried.</p>\n<ul class=\"rows\">\n"
    );
    for (at, count) in report.totals.attempts.iter().enumerate().take(last + 1) {
        let more = if at + 1 == report.totals.attempts.len() { " or more" } else { "" };
        let name = if at == 0 { "1 attempt".to_owned() } else { format!("{}{more} attempts", at + 1) };
        let share = float(*count) / float(all);
        let bar = count_bar(&format!("{name}: {count} runs"), share, "");
        put!(
            page,
            "<li class=\"row\"><div class=\"label\">{name}</div>{bar}\
             <div class=\"value\">{}<span>{count} runs</span></div></li>\n",
            percent(share)
        );
    }
    page.push_str("</ul>\n");
    close(page);
}

/// From the median to the 95th of a hundred, on a scale of powers of ten.
pub(super) fn durations(report: &Report, page: &mut String) {
    let known: Vec<(&SkillStats, u64, u64)> = report
        .groups
        .iter()
        .filter(|group| group.duration.n >= RUNS_MIN)
        .filter_map(|group| Some((group, group.duration.median_ms?, group.duration.p95_ms?)))
        .take(ROWS)
        .collect();
    let Some(least) = known.iter().map(|(_, median, _)| (*median).max(1)).min() else { return };
    let most = known.iter().map(|(_, _, p95)| (*p95).max(1)).max().unwrap_or(1);
    let (low, high) = (least.ilog10(), most.ilog10() + 1);
    let place = |ms: u64| (float(ms.max(1)).log10() - f64::from(low)) / f64::from(high - low) * 100.0;
    open("How long runs take", "durations", page);
    page.push_str(
        "<p class=\"aside\">The first mark is the median, the second is what 95 of 100 runs do not exceed. Each \
         line of \
         the grid is ten times the one before.</p>\n<ul class=\"rows\">\n",
    );
    for (group, median, p95) in known {
        let (half, nearly) = (lasting(median), lasting(p95));
        let words = format!("{}: median {half}, 95 of 100 within {nearly}", group_name(group));
        let (from, to) = (place(median), place(p95));
        put!(
            page,
            "<li class=\"row\">{}<svg class=\"span\" viewBox=\"0 0 100 12\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{words}\"><title>{words}</title>",
            label(group),
            words = safe(&words)
        );
        for line in 0..=(high - low) {
            let x = f64::from(line) / f64::from(high - low) * 100.0;
            put!(page, "<path class=\"grid\" d=\"M{x:.2} 0V12\"/>");
        }
        put!(
            page,
            "<path class=\"reach\" d=\"M{from:.2} 6H{to:.2}\"/><path class=\"mark\" d=\"M{from:.2} 3.5V8.5\"/>\
             <path class=\"mark late\" d=\"M{to:.2} 3.5V8.5\"/></svg>\
             <div class=\"value\">{half}<span>{nearly} for 95 %</span></div></li>\n"
        );
    }
    page.push_str("<li class=\"row\" aria-hidden=\"true\"><div class=\"scale\">");
    let step = (high - low).div_ceil(TICKS).max(1);
    if step == 1 {
        for power in low..=high {
            put!(page, "<span>{}</span>", tick(power));
        }
    } else {
        put!(page, "<span>{}</span><span>{}</span>", tick(low), tick(high));
    }
    page.push_str("</div></li>\n</ul>\n");
    close(page);
}

/// A power of ten, of milliseconds.
fn tick(power: u32) -> String {
    match power {
        0..3 => format!("{} ms", 10_u64.pow(power)),
        _ => format!("{} s", counted(10_u64.saturating_pow(power - 3))),
    }
}

/// Failures that look the same.
pub(super) fn failures(report: &Report, page: &mut String) {
    let Some(most) = report.failures.first().map(|one| one.count) else { return };
    open("What goes wrong", "failures", page);
    page.push_str(
        "<p class=\"aside\">Failures that look the same once paths, numbers, hashes, times and names are taken \
         out.</p>\n",
    );
    for one in report.failures.iter().take(FAILURES) {
        failure(one, most, page);
    }
    and_more(report.failures.len(), FAILURES, page);
    close(page);
}

fn failure(one: &FailureCluster, most: u64, page: &mut String) {
    let times = if one.count == 1 { "once".to_owned() } else { format!("{} times", one.count) };
    let bar = count_bar(&format!("{times}: {}", one.signature), float(one.count) / float(most), " bad");
    let day = |time: &Option<String>| {
        time.as_deref().map_or_else(|| "?".to_owned(), |time| time.chars().take(10).collect())
    };
    let when = if day(&one.first) == day(&one.last) {
        day(&one.first)
    } else {
        format!("{} to {}", day(&one.first), day(&one.last))
    };
    let meta = [one.skills.join(", "), one.models.join(", "), when];
    let meta: Vec<&str> = meta.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    put!(
        page,
        "<div class=\"failure\"><div class=\"row\">{bar}<div class=\"value\">{times}</div></div><code>{}</code>\
         <div class=\"meta\">{}</div>{}</div>\n",
        safe(&one.signature),
        safe(&meta.join(" · ")),
        super::parts::runs(&one.runs)
    );
}

fn and_more(all: usize, shown: usize, page: &mut String) {
    if all > shown {
        put!(page, "<p class=\"aside\">And {} more.</p>\n", all - shown);
    }
}

const KEY: &str = "<ul class=\"key\"><li><i class=\"g\"></i>succeeded</li><li><i class=\"b\"></i>failed</li>\
    <li><i class=\"o\"></i>outcome unknown</li></ul>\n";
/// Rows that anybody reads.
const ROWS: usize = 40;
const FAILURES: usize = 15;
const TICKS: u32 = 6;
const COLUMNS: i64 = 60;
/// In days.
const LENGTHS: [i64; 5] = [1, 7, 28, 91, 364];
const LENGTH_MAX: i64 = 3640;
