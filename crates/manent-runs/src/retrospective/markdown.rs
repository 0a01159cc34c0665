//! The report as Markdown, for a note, an issue or a model.

use std::fmt::Write;

use super::narrative::Narrative;
use super::report::{Report, SkillStats};
use super::statements::{Statement, Topic, chance_in_table, compared_name, is_hidden, percent, thousands};
use super::statistics::Proportion;

impl Report {
    /// The report as Markdown, with what a model made of it, if one did.
    pub fn to_markdown(&self, narrative: Option<&Narrative>) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write_markdown(narrative, &mut out);
        out
    }

    fn write_markdown(&self, narrative: Option<&Narrative>, out: &mut String) -> std::fmt::Result {
        let totals = &self.totals;
        writeln!(out, "# Retrospective\n")?;
        let (runs_word, ended) = (thousands(totals.runs), share(&totals.success));
        let unknown = totals.unknown + totals.other;
        writeln!(out, "{runs_word} runs; succeeded: {ended}; outcome unknown: {unknown}.")?;
        if let (Some(first), Some(last)) = (&self.period.first, &self.period.last) {
            writeln!(out, "From {} to {}.", plain(first), plain(last))?;
        }
        writeln!(out, "\n## What stands out\n")?;
        let is_notable = |one: &&Statement| !matches!(one.topic, Topic::Rate | Topic::TooFew);
        for one in self.statements.iter().filter(is_notable) {
            let (topic, text, n) = (one.topic.word(), plain(&one.text), one.n);
            writeln!(out, "- **{topic}**: {text} (n = {n}){}", runs(&one.runs))?;
        }
        if !self.statements.iter().any(|one| is_notable(&one)) {
            writeln!(out, "Nothing that the numbers support.")?;
        }
        if let Some(narrative) = narrative {
            narrative.write_markdown(out)?;
        }
        if !self.groups.is_empty() {
            writeln!(out, "\n## Skills\n")?;
            writeln!(out, "| {} |", SkillStats::TABLE_COLUMNS.join(" | "))?;
            writeln!(out, "|{}", "---|".repeat(SkillStats::TABLE_COLUMNS.len()))?;
        }
        for group in &self.groups {
            let cells: Vec<String> = group.table_row(share).iter().map(|cell| plain(cell)).collect();
            writeln!(out, "| {} |", cells.join(" | "))?;
        }
        if !self.failures.is_empty() {
            writeln!(out, "\n## What goes wrong\n")?;
        }
        for one in self.failures.iter().take(FAILURES) {
            writeln!(out, "- {} times: {}{}", one.count, plain(&one.signature), runs(&one.runs))?;
        }
        self.write_grounds(out)
    }

    fn write_grounds(&self, out: &mut String) -> std::fmt::Result {
        if !self.comparisons.is_empty() {
            writeln!(
                out,
                "\n## What was compared\n\n| what | before | after | corrected p | different |\n|---|---|---|---|---|"
            )?;
        }
        for one in self.comparisons.iter().take(COMPARISONS) {
            let verdict = one.verdict_words("yes");
            let p = one.corrected.map_or_else(|| "-".to_owned(), chance_in_table);
            let name = plain(&compared_name(one));
            writeln!(out, "| {name} | {} | {} | {p} | {verdict} |", share(&one.before), share(&one.after))?;
        }
        writeln!(out, "\n## What this rests on\n")?;
        writeln!(
            out,
            "- n: runs that ended. Intervals: Wilson, 95 %. Nothing is concluded from fewer than 5 runs."
        )?;
        writeln!(out, "- Differences: Fisher's exact test, corrected for all comparisons here (Holm).")?;
        for remark in self.remarks(usize::MAX) {
            writeln!(out, "- {}", plain(&remark))?;
        }
        Ok(())
    }
}

impl Narrative {
    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n## What {} makes of it\n", plain(&self.model))?;
        for one in &self.passages {
            writeln!(out, "{}{}\n", plain(&one.text), runs(&one.runs))?;
        }
        for one in &self.edits {
            writeln!(out, "- **{}**: {}{}", plain(&one.skill), plain(&one.why), runs(&one.runs))?;
            for line in one.text.lines() {
                writeln!(out, "  > {}", plain(line))?;
            }
        }
        let (unknown, dropped) = (self.unknown_runs, self.dropped);
        writeln!(
            out,
            "\n{unknown} runs that it named do not exist; {dropped} passages had nothing behind them. \
             Nothing was applied."
        )
    }
}

fn share(share: &Proportion) -> String {
    match (share.rate, share.low, share.high) {
        (Some(rate), Some(low), Some(high)) if share.is_enough() => {
            let (rate, low, high) = (percent(rate), percent(low), percent(high));
            format!("{rate} ({} of {}; {low} to {high})", share.count, share.of)
        }
        _ if share.of == 0 => "-".to_owned(),
        _ => format!("{} of {}: too few", share.count, share.of),
    }
}

fn runs(ids: &[String]) -> String {
    if ids.is_empty() {
        return String::new();
    }
    format!("; runs {}", ids.iter().map(|id| plain(id)).collect::<Vec<_>>().join(", "))
}

/// Escapes Markdown and HTML, and replaces characters that a reader cannot see.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' | '\r' => out.push(' '),
            c if is_hidden(c) => out.push('\u{fffd}'),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '!' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

const FAILURES: usize = 20;
const COMPARISONS: usize = 100;
