//! `manent skills trust [DIR]`: the skills of a folder are used as they are now.

use std::path::Path;

use manent::Space;
use manent_agent::skills::{Skill, SkillDifference, SkillError, TrustState, TrustedFolders};

use super::{Folder, SkillsHere, diff};
use crate::commands::prelude::*;

pub(crate) type SkillsTrustArgs = Folder;

pub(crate) fn run(context: &Context<'_>, args: &SkillsTrustArgs) -> Result<Exit, Failure> {
    let here = SkillsHere::open(context)?;
    let dir = args.dir.clone().unwrap_or_else(|| here.cwd.clone());
    let folder = here.project(&dir);
    // A path of something else than a directory would wait for one to come.
    here.disk
        .list(&folder)
        .map_err(|source| Failure::from(SkillError::Unreadable { path: dir.clone(), source }))?;
    here.store.check_supports(Space::Ledger)?;
    let trusted = TrustedFolders::load(&here.store);
    if let Some(trouble) = trusted.trouble() {
        return Err(Failure::failed(trouble));
    }
    let skills = here.skills_of(context, folder.clone());
    let before = trusted.of(&folder);
    // The skills are read once, so that those shown are those trusted.
    let differing = if before == TrustState::None { Vec::new() } else { diff::of(&before, &skills) };
    let mut output = context.output();
    if !output.wants_json {
        for difference in &differing {
            diff::show(difference, &mut output)?;
        }
        output.flush()?;
    }
    let folder = TrustedFolders::trust(&*here.disk, &here.store, &folder, &skills.copies)?;
    let now = here.skills_of(context, folder.clone());
    let of_folder = now.all.iter().filter(|skill| skill.is_comparable());
    let names: Vec<&str> = of_folder.map(Skill::name).collect();
    print_trust(&mut output, "trusted", &folder, &names, &differing)?;
    output.flush()?;
    if names.is_empty() {
        context.note(
            "there are no skills in it now; those that come later are held back until you trust it again",
        );
    }
    diff::note_incomparable(context, &now);
    Ok(Exit::Done)
}

pub(super) fn print_trust(
    output: &mut Output,
    verb: &str,
    folder: &Path,
    names: &[&str],
    differing: &[SkillDifference],
) -> io::Result<()> {
    if output.wants_json {
        let (folder, is_trusted) = (folder.to_string_lossy(), verb == "trusted");
        let differing: Vec<Value> = differing.iter().map(diff::json_of).collect();
        return output.json(
            &json!({"folder": folder, "trusted": is_trusted, "skills": names, "differences": differing}),
        );
    }
    let names = if names.is_empty() { String::new() } else { format!("  {}", term::line(&names.join(" "))) };
    output.done(verb, &term::line(&folder.to_string_lossy()), &names)
}
