//! `manent skills trust|untrust [DIR]`: whose skills are used, and as they were when.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use manent::Space;
use manent_agent::skills::{Skill, SkillDifference, SkillError, TrustState, TrustedFolders};
use serde_json::{Value, json};

use super::{Here, diff};
use crate::args::skills::Folder;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn trust(context: &Context<'_>, here: &Here, given: &Folder) -> Result<Exit, Failure> {
    let dir = given.dir.clone().unwrap_or_else(|| here.cwd.clone());
    let folder = here.project(&dir);
    // A path of something else than a directory would wait for one to come.
    here.disk
        .list(&folder)
        .map_err(|source| Failure::from(SkillError::Unreadable { path: dir.clone(), source }))?;
    here.store.check_supports(Space::Ledger)?;
    let trusted = TrustedFolders::load(&here.store);
    if let Some(trouble) = trusted.trouble() {
        return Err(Failure::new(Exit::Failed, trouble));
    }
    let skills = here.skills_of(context, folder.clone());
    let before = trusted.of(&folder);
    // What is shown and what is trusted is the same: it was read once.
    let differing = if before == TrustState::None { Vec::new() } else { diff::of(&before, &skills) };
    let mut output = context.output();
    if !output.json {
        for difference in &differing {
            diff::show(difference, &mut output)?;
        }
        output.flush()?;
    }
    let folder = TrustedFolders::trust(&*here.disk, &here.store, &folder, &skills.copies)?;
    let now = here.skills_of(context, folder.clone());
    let of_folder = now.all.iter().filter(|skill| skill.is_comparable());
    let names: Vec<&str> = of_folder.map(Skill::name).collect();
    tell(&mut output, "trusted", &folder, &names, &differing)?;
    output.flush()?;
    if names.is_empty() {
        context.note(
            "there are no skills in it now; those that come later are held back until you trust it again",
        );
    }
    diff::note_incomparable(context, &now);
    Ok(Exit::Done)
}

pub(crate) fn untrust(context: &Context<'_>, here: &Here, given: &Folder) -> Result<Exit, Failure> {
    let dir = given.dir.clone().unwrap_or_else(|| here.cwd.clone());
    // What is gone is named as it was noted: by its whole path.
    let folder = here.project(&here.cwd.join(dir));
    let trusted = TrustedFolders::load(&here.store);
    if trusted.trouble().is_none() && !trusted.holds(&folder) {
        context.note(&format!("{} was not trusted", folder.display()));
        return Ok(Exit::Done);
    }
    let folder = TrustedFolders::distrust(&*here.disk, &here.store, &folder)?;
    let mut output = context.output();
    tell(&mut output, "untrusted", &folder, &[], &[])?;
    output.flush()?;
    Ok(Exit::Done)
}

fn tell(
    output: &mut Output,
    verb: &str,
    folder: &Path,
    names: &[&str],
    differing: &[SkillDifference],
) -> std::io::Result<()> {
    if output.json {
        let (folder, is_trusted) = (folder.to_string_lossy(), verb == "trusted");
        let differing: Vec<Value> = differing.iter().map(diff::json_of).collect();
        return output.json(
            &json!({"folder": folder, "trusted": is_trusted, "skills": names, "differences": differing}),
        );
    }
    let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    let folder = format!(" {}", term::line(&folder.to_string_lossy()));
    let names = if names.is_empty() { String::new() } else { format!("  {}", term::line(&names.join(" "))) };
    output.line(&[(style, verb), (Style::new(), &folder), (term::FAINT, &names)])
}
