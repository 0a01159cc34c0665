//! `manent skills doctor`: what models are told of the skills, to the letter, and what they are not told.

use manent::tokens::Tokens;
use manent_agent::skills::{Catalogue, SkillStatus, Skills, budget};

use super::SkillsHere;
use crate::commands::prelude::*;

/// Show what models are told of the skills, to the letter, and what was cut, skipped or held back
#[derive(Debug, Args)]
pub(crate) struct SkillsDoctorArgs {
    /// What the catalogue may take [default: 2 % of a context of 32,000, but at least 1,000]
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
}

pub(crate) fn run(context: &Context<'_>, args: &SkillsDoctorArgs) -> Result<Exit, Failure> {
    let here = SkillsHere::open(context)?;
    let skills = here.skills(context);
    let budget = match args.budget {
        Some(budget) => budget,
        None => budget(context.config()?.limits.max_tokens),
    };
    let catalogue = skills.catalogue(budget, &Tokens::default());
    let findings = findings(&skills, &catalogue);
    let mut output = context.output();
    if output.wants_json {
        output.json(&json!({
            "kind": "catalogue", "text": catalogue.text, "tokens": catalogue.tokens,
            "budget": catalogue.budget, "names": catalogue.names,
        }))?;
        for Finding { kind, name, what } in &findings {
            output.json(&json!({"kind": kind, "name": name, "what": what}))?;
        }
    } else {
        print(&catalogue, &findings, &mut output)?;
    }
    output.flush()?;
    super::note_untrusted(context, &skills);
    Ok(Exit::Done)
}

/// A skill that a model is not told of, or not in full.
struct Finding {
    kind: &'static str,
    name: String,
    what: String,
}

fn findings(skills: &Skills, catalogue: &Catalogue) -> Vec<Finding> {
    let finding = |kind, name: &str, what: String| Finding { kind, name: name.to_owned(), what };
    let mut all = Vec::new();
    for cut in &catalogue.shortened {
        let what = format!("{} of {} characters of its description are told", cut.shown, cut.of);
        all.push(finding("shortened", &cut.name, what));
    }
    for name in &catalogue.left_out {
        let what = format!("no room within {} tokens; it comes last in the order", catalogue.budget);
        all.push(finding("left-out", name, what));
    }
    for skill in &skills.all {
        let dir = skill.dir.display();
        match super::reason(skill) {
            Some(why) => all.push(finding(skill.standing.word(), skill.name(), format!("{dir}: {why}"))),
            None if skill.manifest.disable_model_invocation => {
                let what = "disable-model-invocation: only you call it".to_owned();
                all.push(finding("user-only", skill.name(), what));
            }
            None => {}
        }
        let is_skipped = matches!(skill.standing, SkillStatus::Skipped(_));
        if !is_skipped && !skill.problems.is_empty() {
            let rules: Vec<&str> = skill.problems.iter().map(|problem| problem.rule.word()).collect();
            all.push(finding("warnings", skill.name(), rules.join(", ")));
        }
    }
    for note in &skills.notes {
        all.push(finding("note", &note.path.to_string_lossy(), note.what.clone()));
    }
    all
}

fn print(catalogue: &Catalogue, findings: &[Finding], output: &mut Output) -> io::Result<()> {
    if !catalogue.text.is_empty() {
        output.block(catalogue.text.trim_end())?;
        output.line(&[])?;
    }
    let (count, used) = (catalogue.names.len() as u64, catalogue.tokens);
    let total = format!(
        "{} {} told to models, in {} of {} tokens",
        term::count(count),
        if count == 1 { "skill is" } else { "skills are" },
        term::count(used),
        term::count(catalogue.budget)
    );
    output.line(&[(Style::new().bold(), &total)])?;
    for Finding { kind, name, what } in findings {
        let kind = term::pad(kind, KIND_COLUMNS);
        let rest = format!("  {}: {}", term::line(name), term::line(what));
        output.line(&[(term::FAINT, &kind), (Style::new(), &rest)])?;
    }
    Ok(())
}

const KIND_COLUMNS: usize = 9;
