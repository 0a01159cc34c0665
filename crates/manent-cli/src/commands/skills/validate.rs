//! `manent skills validate [PATH…]`: every rule that a skill breaks, with its line.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use manent::tokens::Tokens;
use manent_agent::skills::{Severity, Skill, SkillError, Skills};
use serde_json::json;

use super::Here;
use crate::args::skills::Validate;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, here: &Here, given: &Validate) -> Result<Exit, Failure> {
    let mut worst = Exit::Done;
    let mut skills = Vec::new();
    if given.paths.is_empty() {
        skills = here.skills(context).all;
        if skills.is_empty() {
            context.note("no skills were found; name a directory to check what is there");
        }
    }
    for path in &given.paths {
        match at(here, path) {
            Ok(found) => skills.extend(found),
            Err(failure) => {
                context.complain(&failure);
                worst = worst.max(failure.exit);
            }
        }
    }
    let mut output = context.output();
    let tokens = Tokens::default();
    for skill in &skills {
        if !check(skill, &tokens, &mut output)? {
            worst = worst.max(Exit::Failed);
        }
    }
    output.flush()?;
    Ok(worst)
}

/// The skill at a path, or all those under it.
fn at(here: &Here, path: &Path) -> Result<Vec<Skill>, Failure> {
    let none = match Skill::at(&here.disk, path) {
        Err(none @ SkillError::NoFile { .. }) => none,
        found => return Ok(vec![found?]),
    };
    let under = Skills::under(&here.disk, path).map(|skills| skills.all).unwrap_or_default();
    if under.is_empty() {
        let what = format!("{} is no skill and holds none: there is no SKILL.md", path.display());
        return Err(Failure::new(Failure::from(none).exit, what));
    }
    Ok(under)
}

/// Tells what is wrong with a skill; whether nothing is, but for advice.
fn check(skill: &Skill, tokens: &Tokens, output: &mut Output) -> std::io::Result<bool> {
    let problems = skill.check(tokens);
    let is_fine = problems.iter().all(|problem| problem.rule.grade() == Severity::Advice);
    if output.json {
        output.json(&json!({
            "name": skill.name(), "file": skill.file.to_string_lossy(), "ok": is_fine,
            "problems": problems.iter().map(super::json_of_problem).collect::<Vec<_>>(),
        }))?;
        return Ok(is_fine);
    }
    let (color, word) = if is_fine { (AnsiColor::Green, "ok   ") } else { (AnsiColor::Red, "wrong") };
    let style = Style::new().fg_color(Some(color.into())).bold();
    let file = format!("  {}", term::line(&skill.file.to_string_lossy()));
    output.line(&[(style, word), (Style::new(), &file)])?;
    for problem in &problems {
        let line = problem.line.map_or_else(|| "-".to_owned(), |line| line.to_string());
        let (rule, grade) = (problem.rule.word(), problem.rule.grade().word());
        let front = format!("  {line:>4}  {grade:6}  {}  ", term::pad(rule, RULE_COLUMNS));
        output.line(&[(term::FAINT, &front), (Style::new(), &term::line(&problem.what))])?;
    }
    Ok(is_fine)
}

/// As wide as most names of rules.
const RULE_COLUMNS: usize = 20;
