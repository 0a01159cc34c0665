//! `manent skills trust|untrust [DIR]`: whose skills are used.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use manent_agent::skills::{Decision, Origin, Skill, SkillError, Trusted};
use serde_json::json;

use super::Here;
use crate::args::skills::Folder;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn trust(context: &Context<'_>, here: &Here, given: &Folder) -> Result<Exit, Failure> {
    let dir = given.dir.clone().unwrap_or_else(|| here.cwd.clone());
    let folder = here.project(&dir);
    let user = here.user.as_ref().and_then(|user| here.disk.resolve(user).ok());
    if user.as_ref() == Some(&folder) {
        context.note("this is your home, and skills in it are your own: they are used without this");
        return Ok(Exit::Done);
    }
    // A path of something else than a directory would wait for one to come.
    here.disk
        .list(&folder)
        .map_err(|source| Failure::from(SkillError::Unreadable { path: dir.clone(), source }))?;
    let folder = Trusted::decide(&*here.disk, &here.store, &folder, Decision::Trust)?;
    let skills = here.skills_of(context, folder.clone());
    let of_folder = skills.all.iter().filter(|skill| skill.origin == Origin::Project);
    let names: Vec<&str> = of_folder.map(Skill::name).collect();
    let mut output = context.output();
    tell(&mut output, "trusted", &folder, &names)?;
    output.flush()?;
    if names.is_empty() {
        context.note("there are no skills in it now; those that come later will be used");
    }
    Ok(Exit::Done)
}

pub(crate) fn untrust(context: &Context<'_>, here: &Here, given: &Folder) -> Result<Exit, Failure> {
    let dir = given.dir.clone().unwrap_or_else(|| here.cwd.clone());
    // What is gone is named as it was noted: by its whole path.
    let folder = here.project(&here.cwd.join(dir));
    let trusted = Trusted::load(&*here.disk, &here.store);
    if trusted.trouble().is_none() && !trusted.holds(&folder) {
        context.note(&format!("{} was not trusted", folder.display()));
        return Ok(Exit::Done);
    }
    let folder = Trusted::decide(&*here.disk, &here.store, &folder, Decision::Distrust)?;
    let mut output = context.output();
    tell(&mut output, "untrusted", &folder, &[])?;
    output.flush()?;
    Ok(Exit::Done)
}

fn tell(output: &mut Output, verb: &str, folder: &Path, names: &[&str]) -> std::io::Result<()> {
    if output.json {
        let folder = folder.to_string_lossy();
        return output.json(&json!({"folder": folder, "trusted": verb == "trusted", "skills": names}));
    }
    let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    let folder = format!(" {}", term::line(&folder.to_string_lossy()));
    let names = if names.is_empty() { String::new() } else { format!("  {}", term::line(&names.join(" "))) };
    output.line(&[(style, verb), (Style::new(), &folder), (term::FAINT, &names)])
}
