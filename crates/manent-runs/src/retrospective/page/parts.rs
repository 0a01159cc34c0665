//! The parts of the page that are text: the headline, what stands out, tables, and what all of it rests on.

use super::safe::safe;
use crate::retrospective::compare::{Comparison, ComparisonKind};
use crate::retrospective::narrative::Narrative;
use crate::retrospective::report::{Report, SkillStats, runs_word};
use crate::retrospective::statistics::Proportion;
use crate::retrospective::words::chance_in_table;
use crate::retrospective::words::{Statement, Topic, percent, skill_name, too_few_words, version_name, with};

pub(super) fn open(title: &str, id: &str, page: &mut String) {
    put!(page, "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>\n");
}

pub(super) fn close(page: &mut String) {
    page.push_str("</section>\n");
}

/// The whole report in a line.
pub(super) fn headline(report: &Report) -> String {
    let totals = &report.totals;
    match (totals.runs, totals.success.rate) {
        (0, _) => "No runs in this time".to_owned(),
        (runs, Some(rate)) if totals.success.is_enough() => {
            format!("{} runs, {} succeeded", counted(runs), percent(rate))
        }
        (runs, _) => format!("{} runs, too few to say more", counted(runs)),
    }
}

pub(super) fn head(report: &Report, title: &str, page: &mut String) {
    let period = &report.period;
    let mut about = Vec::new();
    match period.days() {
        Some((first, last)) if first == last => about.push(first),
        Some((first, last)) => about.push(format!("{first} to {last}")),
        None => {}
    }
    let only = [("project", &period.project), ("skill", &period.skill), ("session", &period.session)];
    about.extend(only.iter().filter_map(|(what, name)| Some(format!("{what} {}", name.as_deref()?))));
    about.push(if period.sessions == 1 {
        "1 log".to_owned()
    } else {
        format!("{} logs", counted(period.sessions))
    });
    put!(
        page,
        "<header>\n<p class=\"eyebrow\">Retrospective</p>\n<h1>{}</h1>\n<p class=\"lede\">{}</p>\n",
        safe(title),
        safe(&about.join(" · "))
    );
    if !report.whole {
        page.push_str("<p class=\"chip bad\">Stopped before everything was read</p>\n");
    }
    page.push_str("<dl class=\"tiles\">\n");
    let totals = &report.totals;
    tile("Succeeded", &totals.success, page);
    tile("At the first attempt", &totals.first_try, page);
    tile("Checked and good", &totals.verified, page);
    if let Some(median) = totals.duration.median_ms {
        let more = format!("95 of 100 within {}", lasting(totals.duration.p95_ms.unwrap_or(median)));
        plain_tile("Median duration", &lasting(median), &more, page);
    }
    if totals.unknown + totals.other > 0 {
        let more = format!("{} did not end, {} say it in words unknown here", totals.unknown, totals.other);
        plain_tile("Outcome unknown", &counted(totals.unknown + totals.other), &more, page);
    }
    page.push_str("</dl>\n</header>\n");
}

fn tile(name: &str, share: &Proportion, page: &mut String) {
    match (share.rate, share.low, share.high) {
        (Some(rate), Some(low), Some(high)) if share.is_enough() => {
            let (count, of) = (counted(share.count), counted(share.of));
            let (low, high) = (percent(low), percent(high));
            // Of very many runs both ends are the same number.
            let range = if low == high { String::new() } else { format!("; {low} to {high}") };
            let more = format!("{count} of {of}{range}");
            plain_tile(name, &percent(rate), &more, page);
        }
        _ => plain_tile(name, "-", &too_few_words(share.of), page),
    }
}

fn plain_tile(name: &str, figure: &str, more: &str, page: &mut String) {
    put!(
        page,
        "<div class=\"tile\"><dt>{name}</dt><dd><div class=\"figure\">{}</div>\
         <div class=\"more\">{}</div></dd></div>\n",
        safe(figure),
        safe(more)
    );
}

pub(super) fn standing_out(report: &Report, page: &mut String) {
    open("What stands out", "stands-out", page);
    let worth = |one: &&Statement| {
        !matches!(one.topic, Topic::Rate | Topic::TooFew | Topic::Unused | Topic::Failures)
    };
    let all: Vec<&Statement> = report.statements.iter().filter(worth).collect();
    if all.is_empty() {
        page.push_str("<p class=\"aside\">Nothing that the numbers support.</p>\n");
    } else {
        page.push_str("<ul class=\"says\">\n");
        for one in all.iter().take(STATEMENTS) {
            let (chip, class) = match one.topic {
                Topic::Regression => ("got worse", " bad"),
                Topic::Improvement => ("got better", " good"),
                Topic::Difference => ("differs", ""),
                Topic::Flaky => ("flaky", " bad"),
                _ => ("unknown", ""),
            };
            put!(
                page,
                "<li><span class=\"chip{class}\">{chip}</span><p>{}</p>{}</li>\n",
                safe(&one.text),
                runs(&one.runs)
            );
        }
        page.push_str("</ul>\n");
        if all.len() > STATEMENTS {
            put!(page, "<p class=\"aside\">And {} more.</p>\n", all.len() - STATEMENTS);
        }
    }
    if !report.unused.is_empty() {
        let names: Vec<String> = report.unused.iter().map(|name| safe(name)).collect();
        put!(page, "<p class=\"aside\">Never used in this time: {}.</p>\n", names.join(", "));
    }
    close(page);
}

/// Runs that something rests on.
pub(super) fn runs(ids: &[String]) -> String {
    if ids.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = ids.iter().map(|id| format!("<code>{}</code>", safe(id))).collect();
    format!("<div class=\"runs\">runs {}</div>", shown.join(", "))
}

pub(super) fn narrative(told: &Narrative, page: &mut String) {
    open("What a model makes of it", "narrative", page);
    put!(
        page,
        "<p class=\"aside\">By {}. Each passage names runs that it rests on; {} that were not among the facts were \
         struck out, and {} passages with nothing behind them left out. Nothing of this was applied.</p>\n",
        safe(&told.model),
        told.unknown_runs,
        told.dropped
    );
    for one in &told.passages {
        put!(page, "<div class=\"passage\"><p>{}</p>{}</div>\n", safe(&one.text), runs(&one.runs));
    }
    for one in &told.edits {
        let lines: Vec<String> = one.text.lines().map(safe).collect();
        put!(
            page,
            "<div class=\"passage edit\"><p><b>{}</b>: {}</p><pre>{}</pre>{}</div>\n",
            safe(&one.skill),
            safe(&one.why),
            lines.join("\n"),
            runs(&one.runs)
        );
    }
    close(page);
}

pub(super) fn comparisons(report: &Report, page: &mut String) {
    if report.comparisons.is_empty() {
        return;
    }
    open("What was compared", "compared", page);
    let asked = report.comparisons.iter().filter(|one| one.chance.is_some()).count();
    let supported = report.comparisons.iter().filter(|one| one.supported).count();
    put!(
        page,
        "<p class=\"aside\">{asked} comparisons had enough runs on both sides; {supported} of them show a difference. \
         The \
         chance that this report calls anything different that is not is under one in twenty.</p>\n"
    );
    page.push_str(
        "<details><summary>All comparisons</summary><div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>\
         <th scope=\"col\">what</th><th scope=\"col\">before</th><th scope=\"col\">after</th><th scope=\"col\">p</th>\
         <th scope=\"col\">corrected</th><th scope=\"col\">verdict</th></tr></thead><tbody>\n",
    );
    for one in report.comparisons.iter().take(TABLE_ROWS) {
        let cell = |share: &Proportion| format!("{} of {}", counted(share.count), counted(share.of));
        let p = |chance: Option<f64>| chance.map_or_else(|| "-".to_owned(), chance_in_table);
        let verdict = match (one.supported, one.chance) {
            (true, _) => "different".to_owned(),
            (false, Some(_)) => "may be equal".to_owned(),
            (false, None) => too_few_words(one.before.of.min(one.after.of)),
        };
        put!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{verdict}</td></tr>\n",
            safe(&compared_name(one)),
            cell(&one.before),
            cell(&one.after),
            p(one.chance),
            p(one.corrected)
        );
    }
    page.push_str("</tbody></table></div></details>\n");
    close(page);
}

/// What a comparison is between.
pub(in crate::retrospective) fn compared_name(one: &Comparison) -> String {
    let skill = skill_name(&one.skill);
    match one.differs {
        ComparisonKind::Period => {
            format!("{}, period before and this", with(&one.skill, &one.model, &one.phase))
        }
        ComparisonKind::Version => {
            let (from, to) = (version_name(&one.from), version_name(&one.to));
            format!("{}, version {from} and {to}", with(&one.skill, &one.model, ""))
        }
        ComparisonKind::Model | ComparisonKind::ModelBeside => {
            format!("{skill}, {} and {}", one.from, one.to)
        }
    }
}

pub(super) fn figures(report: &Report, page: &mut String) {
    if report.groups.is_empty() {
        return;
    }
    open("All figures", "figures", page);
    page.push_str(
        "<details><summary>Skill by model by phase</summary><div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>\
         <th scope=\"col\">skill</th><th scope=\"col\">n</th><th scope=\"col\">success</th>\
         <th scope=\"col\">first attempt</th><th scope=\"col\">checked and good</th><th scope=\"col\">attempts</th>\
         <th scope=\"col\">median</th><th scope=\"col\">p95</th><th scope=\"col\">unknown</th></tr></thead><tbody>\n",
    );
    for group in report.groups.iter().take(TABLE_ROWS) {
        let cell = |share: &Proportion| match share.rate {
            Some(rate) if share.is_enough() => format!("{} ({}/{})", percent(rate), share.count, share.of),
            _ => format!("{}/{}", share.count, share.of),
        };
        let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), lasting);
        let mean = group.attempts_mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.1}"));
        put!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{mean}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>\n",
            safe(&group_name(group)),
            group.n,
            cell(&group.success),
            cell(&group.first_try),
            cell(&group.verified),
            time(group.duration.median_ms),
            time(group.duration.p95_ms),
            group.unknown + group.other
        );
    }
    page.push_str("</tbody></table></div></details>\n");
    close(page);
}

pub(super) fn grounds(report: &Report, page: &mut String) {
    open("What this rests on", "grounds", page);
    page.push_str("<ul class=\"notes\">\n");
    for fixed in GROUNDS {
        put!(page, "<li>{fixed}</li>\n");
    }
    for note in &report.notes {
        put!(page, "<li>{}</li>\n", safe(note));
    }
    for odd in report.statuses.iter().take(FEW) {
        put!(
            page,
            "<li>{} with the status “{}”, which has no meaning here</li>\n",
            runs_word(odd.count),
            safe(&odd.what)
        );
    }
    for odd in &report.oddities {
        put!(page, "<li>{}: {}</li>\n", runs_word(odd.count), safe(&odd.what));
    }
    page.push_str("</ul>\n");
    close(page);
}

pub(super) fn group_name(group: &SkillStats) -> String {
    with(&group.skill, &group.model, &group.phase)
}

pub(super) fn share_words(share: &Proportion) -> String {
    match (share.rate, share.low, share.high) {
        (Some(rate), Some(low), Some(high)) => {
            let (rate, low, high) = (percent(rate), percent(low), percent(high));
            let (count, of) = (counted(share.count), counted(share.of));
            format!("{rate} succeeded ({count} of {of}), between {low} and {high}")
        }
        _ => too_few_words(share.of),
    }
}

/// A duration as a person reads it.
pub(in crate::retrospective) fn lasting(ms: u64) -> String {
    let tenths = |ms: u64, unit: u64| format!("{}.{}", ms / unit, ms % unit * 10 / unit).replace(".0", "");
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{} s", tenths(ms, 1000)),
        60_000..3_600_000 => format!("{} min", tenths(ms, 60_000)),
        3_600_000..86_400_000 => format!("{} h", tenths(ms, 3_600_000)),
        _ => format!("{} d", tenths(ms, 86_400_000)),
    }
}

/// A number as a person reads it: `12,345`.
pub(in crate::retrospective) fn counted(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

const GROUNDS: [&str; 5] = [
    "n is the number of runs that ended: succeeded or failed. Runs of unknown outcome, and with a status that has no \
     meaning here, count as neither.",
    "Intervals are Wilson’s at 95 %. Nothing is concluded from fewer than 5 runs.",
    "Two rates are called different by Fisher’s exact test, corrected for all comparisons of this report (Holm).",
    "A median is the run at half of all in order, exact up to 256 runs and within 1 % beyond.",
    "Flaky means: the same version of a skill, model, input, file and project ended both ways.",
];
const STATEMENTS: usize = 20;
const TABLE_ROWS: usize = 200;
const FEW: usize = 8;
