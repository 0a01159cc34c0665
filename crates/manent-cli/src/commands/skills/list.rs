//! `manent skills list`: all skills that were found, and which are used.

use manent::tokens::Tokens;
use manent_agent::skills::Skill;

use super::SkillsHere;
use crate::commands::prelude::*;

/// List the skills, and say which are used
#[derive(Debug, Args)]
pub(crate) struct SkillsListArgs {}

pub(crate) fn run(context: &Context<'_>, _args: &SkillsListArgs) -> Result<Exit, Failure> {
    let here = SkillsHere::open(context)?;
    let skills = here.skills(context);
    let mut output = context.output();
    if output.wants_json {
        for skill in &skills.all {
            let mut line = super::json_of(skill);
            line["tokens"] = json!(tokens_of(skill));
            output.json(&line)?;
        }
    } else if !skills.all.is_empty() {
        table(&skills.all, &mut output)?;
    }
    output.flush()?;
    if skills.all.is_empty() {
        let dir = here.home.join("skills");
        context.note(&format!("no skills; put directories with a SKILL.md in {}", dir.display()));
    }
    for note in &skills.notes {
        context.note(&format!("{}: {}", note.path.display(), note.what));
    }
    super::note_untrusted(context, &skills);
    Ok(Exit::Done)
}

/// Returns the tokens of the instructions of a skill.
fn tokens_of(skill: &Skill) -> u64 {
    Tokens::default().count(&skill.read().0.body)
}

fn table(skills: &[Skill], output: &mut Output) -> io::Result<()> {
    let mut cells = vec![["SKILL", "FROM", "TOKENS", "WARNINGS", "STATE"].map(str::to_owned).to_vec()];
    cells.extend(skills.iter().map(|skill| {
        let state = match super::reason(skill) {
            Some(why) => format!("{}: {why}", skill.standing.word()),
            None if skill.manifest.disable_model_invocation => "used, by you only".to_owned(),
            None => "used".to_owned(),
        };
        vec![
            term::fit(&term::line(skill.name()), NAME_COLUMNS).into_owned(),
            skill.origin.word().to_owned(),
            term::count(tokens_of(skill)),
            skill.problems.len().to_string(),
            term::line(&state).into_owned(),
        ]
    }));
    output.table(cells, |column| matches!(column, 2 | 3), STATE_COLUMNS_MIN)
}

const NAME_COLUMNS: usize = 64;
const STATE_COLUMNS_MIN: usize = 12;
