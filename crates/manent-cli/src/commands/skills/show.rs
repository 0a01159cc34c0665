//! `manent skills show NAME`: what a model gets when a skill is called.

use std::path::Path;

use manent::tokens::Tokens;
use manent_agent::skills::{Skill, SkillError, SkillStatus};

use super::SkillsHere;
use crate::commands::prelude::*;

/// Show what a model gets when a skill is called
#[derive(Debug, Args)]
pub(crate) struct SkillsShowArgs {
    /// The skill: its name, or a path with a slash in it
    name: String,
}

pub(crate) fn run(context: &Context<'_>, args: &SkillsShowArgs) -> Result<Exit, Failure> {
    let here = SkillsHere::open(context)?;
    let skill = find(context, &here, &args.name)?;
    let text = match &skill.standing {
        // A skipped skill has no instructions for models; its file is shown all the same.
        SkillStatus::Skipped(_) => skill.read().0.body,
        _ => skill.activate()?.text,
    };
    let tokens = Tokens::default().count(&text);
    let mut json = super::json_of(&skill);
    let manifest = &skill.manifest;
    json["license"] = json!(manifest.license);
    json["compatibility"] = json!(manifest.compatibility);
    json["metadata"] = json!(manifest.metadata);
    json["allowed_tools"] = json!(manifest.allowed_tools);
    json["extra"] = json!(manifest.extra);
    json["tokens"] = json!(tokens);
    json["text"] = json!(text);
    context.print(&json, |output| print(&skill, tokens, &text, output))?;
    if let Some(why) = super::reason(&skill) {
        context.warn(&format!("{} is {}: {why}", skill.name(), skill.standing.word()));
    }
    if !skill.problems.is_empty() {
        let (count, path) = (skill.problems.len(), term::shell_word(&skill.dir.to_string_lossy()));
        context.note(&format!("{count} of the rules are broken; `manent skills validate {path}` has them"));
    }
    Ok(Exit::Done)
}

/// The skill that was named: by its path if it looks like one.
fn find(context: &Context<'_>, here: &SkillsHere, name: &str) -> Result<Skill, Failure> {
    if name.contains('/') {
        return Ok(Skill::at(&here.disk, Path::new(name))?);
    }
    let skills = here.skills(context);
    Ok(skills.get(name).cloned().ok_or_else(|| SkillError::NoSuch(name.to_owned()))?)
}

fn print(skill: &Skill, tokens: u64, text: &str, output: &mut Output) -> io::Result<()> {
    let manifest = &skill.manifest;
    let mut fields = vec![
        ("from", format!("{}, {}", skill.origin.word(), skill.dir.display())),
        ("description", manifest.description.clone()),
        ("license", manifest.license.clone().unwrap_or_default()),
        ("needs", manifest.compatibility.clone().unwrap_or_default()),
        ("tools", manifest.allowed_tools.join(" ")),
        ("hash", skill.hash.clone()),
        ("tokens", term::count(tokens)),
    ];
    if manifest.disable_model_invocation {
        fields.push(("called", "by you only".to_owned()));
    }
    let metadata: Vec<(String, String)> =
        manifest.metadata.iter().map(|(key, value)| (format!("metadata.{key}"), value.clone())).collect();
    output.line(&[(Style::new().bold(), &term::line(skill.name()))])?;
    let metadata = metadata.iter().map(|(key, value)| (key.as_str(), value.clone()));
    for (name, value) in fields.into_iter().chain(metadata).filter(|(_, value)| !value.is_empty()) {
        let name = term::pad(&term::line(name), FIELD_COLUMNS);
        output.line(&[(term::FAINT, &format!("{name}  ")), (Style::new(), &term::line(&value))])?;
    }
    output.line(&[])?;
    output.block(text.trim_end())
}

const FIELD_COLUMNS: usize = 11;
