//! `manent skills untrust [DIR]`: the skills of a folder are no longer used.

use manent_agent::skills::TrustedFolders;

use super::trust::print_trust;
use super::{Folder, SkillsHere};
use crate::commands::prelude::*;

pub(crate) type SkillsUntrustArgs = Folder;

pub(crate) fn run(context: &Context<'_>, args: &SkillsUntrustArgs) -> Result<Exit, Failure> {
    let here = SkillsHere::open(context)?;
    let dir = args.dir.clone().unwrap_or_else(|| here.cwd.clone());
    // A folder that is gone was noted by its whole path.
    let folder = here.project(&here.cwd.join(dir));
    let trusted = TrustedFolders::load(&here.store);
    if trusted.trouble().is_none() && !trusted.holds(&folder) {
        context.note(&format!("{} was not trusted", folder.display()));
        return Ok(Exit::Done);
    }
    let folder = TrustedFolders::distrust(&*here.disk, &here.store, &folder)?;
    let mut output = context.output();
    print_trust(&mut output, "untrusted", &folder, &[], &[])?;
    output.flush()?;
    Ok(Exit::Done)
}
