//! `manent skills validate [PATH…]`: every rule that a skill breaks, with its line.

use std::path::{Path, PathBuf};

use manent::tokens::Tokens;
use manent_agent::skills::{Severity, Skill, SkillError, Skills};

use super::SkillsHere;
use crate::commands::prelude::*;

/// Check skills against the specification (all that are found, if none is named)
#[derive(Debug, Args)]
pub(crate) struct SkillsValidateArgs {
    /// A skill's directory, its SKILL.md, or a directory of skills
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(context: &Context<'_>, args: &SkillsValidateArgs) -> Result<Exit, Failure> {
    let here = SkillsHere::open(context)?;
    let mut worst = Exit::Done;
    let mut skills = Vec::new();
    if args.paths.is_empty() {
        skills = here.skills(context).all;
        if skills.is_empty() {
            context.note("no skills were found; name a directory to check what is there");
        }
    }
    for path in &args.paths {
        match at(&here, path) {
            Ok(found) => skills.extend(found),
            Err(failure) => worst = worst.max(context.complain_of(Err(failure))),
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
fn at(here: &SkillsHere, path: &Path) -> Result<Vec<Skill>, Failure> {
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
fn check(skill: &Skill, tokens: &Tokens, output: &mut Output) -> io::Result<bool> {
    let problems = skill.check(tokens);
    let is_fine = problems.iter().all(|problem| problem.rule.grade() == Severity::Advice);
    if output.wants_json {
        output.json(&json!({
            "name": skill.name(), "file": skill.file.to_string_lossy(), "ok": is_fine,
            "problems": problems.iter().map(super::json_of_problem).collect::<Vec<_>>(),
        }))?;
        return Ok(is_fine);
    }
    let (color, word) = if is_fine { (AnsiColor::Green, "ok   ") } else { (AnsiColor::Red, "wrong") };
    let style = term::bold(color);
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

/// The width of most names of rules.
const RULE_COLUMNS: usize = 20;
