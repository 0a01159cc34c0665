//! `manent skills diff [DIR]`: how skills differ from what was trusted.

use manent_agent::skills::{
    FileDifference, SkillDifference, SkillStatus, Skills, TrustState, TrustedCopies, TrustedFolders,
    differences,
};

use super::{Folder, SkillsHere};
use crate::commands::prelude::*;

pub(crate) type SkillsDiffArgs = Folder;

pub(crate) fn run(context: &Context<'_>, args: &SkillsDiffArgs) -> Result<Exit, Failure> {
    let here = SkillsHere::open(context)?;
    let dir = args.dir.clone().unwrap_or_else(|| here.cwd.clone());
    let folder = here.project(&dir);
    let skills = here.skills_of(context, folder.clone());
    let trust = TrustedFolders::load(&here.store).of(&folder);
    let mut output = context.output();
    let differing = of(&trust, &skills);
    for difference in &differing {
        show(difference, &mut output)?;
    }
    output.flush()?;
    match trust {
        TrustState::None => context.note(&format!("{} is not trusted", folder.display())),
        TrustState::WithoutCopy(why) => context.note(&format!("{why}; all of it is new")),
        TrustState::As(_) if differing.is_empty() => context.note("all skills are as they were trusted"),
        TrustState::As(_) => context.note("`manent skills trust` trusts them as they are now"),
    }
    note_incomparable(context, &skills);
    Ok(Exit::Done)
}

/// Returns what differs from what was trusted; without a copy, that is everything.
pub(super) fn of(trust: &TrustState, skills: &Skills) -> Vec<SkillDifference> {
    match trust {
        TrustState::None | TrustState::WithoutCopy(_) => differences(&TrustedCopies::new(), &skills.copies),
        TrustState::As(before) => differences(before, &skills.copies),
    }
}

/// Names skills that cannot be trusted because they cannot be compared later.
pub(super) fn note_incomparable(context: &Context<'_>, skills: &Skills) {
    for skill in &skills.all {
        if let SkillStatus::Held { why } = &skill.standing
            && !skill.is_comparable()
        {
            context.warn(&format!("{} cannot be trusted: {why}", skill.name()));
        }
    }
}

pub(super) fn json_of(difference: &SkillDifference) -> Value {
    let file = |file: &FileDifference| json!({"path": file.path, "change": file.word, "diff": file.shown});
    let files: Vec<Value> = difference.files.iter().map(file).collect();
    json!({"dir": difference.dir, "change": difference.word, "files": files})
}

pub(super) fn show(difference: &SkillDifference, output: &mut Output) -> io::Result<()> {
    if output.wants_json {
        return output.json(&json_of(difference));
    }
    let bold = Style::new().bold();
    let (word, dir) = (term::pad(difference.word, WORD_COLUMNS), term::line(&difference.dir));
    output.line(&[(bold, &format!("{word}  {dir}"))])?;
    for file in &difference.files {
        let (word, path) = (term::pad(file.word, WORD_COLUMNS), term::line(&file.path));
        output.line(&[(term::FAINT, &format!("  {word}  ")), (Style::new(), &path)])?;
        let lines: Vec<&str> = file.shown.lines().collect();
        for line in lines.iter().take(LINES_MAX) {
            output.line(&[(Style::new(), "    "), (term::diff_style(line), &term::line(line))])?;
        }
        if lines.len() > LINES_MAX {
            let more = format!("    … and {} lines more; --json has them", lines.len() - LINES_MAX);
            output.line(&[(term::FAINT, &more)])?;
        }
    }
    Ok(())
}

const WORD_COLUMNS: usize = 7;
const LINES_MAX: usize = 400;
