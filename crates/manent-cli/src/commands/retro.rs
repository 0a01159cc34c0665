//! `manent retro`: what the runs of skills say, with how sure one may be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use manent::Store;
use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_agent::skills::SkillStatus;
use manent_runs::Runs;
use manent_runs::retrospective::{LessonChanges, Narrative, Report, ReportQuery};

use super::{retro_every, retro_text};
use crate::args::retro::Retro;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::model::Answering;
use crate::new_file::NewFile;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Retro) -> Result<Exit, Failure> {
    if let Some(every) = &given.every {
        return retro_every::run(context, given, every);
    }
    if let (Some(since), Some(until)) = (given.since, given.until)
        && since.ms >= until.ms
    {
        let words =
            "--since is not before --until, so there is no time between them; swap them, or leave one out";
        return Err(Failure::new(Exit::Usage, words));
    }
    let store = context.store(given.wait.time)?;
    let runs = Runs::open(&store)?;
    if let Some(session) = &given.session
        && !runs.sessions()?.iter().any(|listed| listed.id.key.as_str() == session)
    {
        let hint = "`manent retro` without --session looks at all of them";
        let what = format!("there are no runs of a session {}; {hint}", term::shell_word(session));
        return Err(Failure::new(Exit::NotFound, what));
    }
    let known = known_skills(context, &store);
    let project = given.project.as_deref().map(project_path);
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C tells what was read until then. The second one ends us at once.
    let _ = signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, stop.clone());
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone());
    let question = ReportQuery {
        now_ms: when::now_ms(),
        since_ms: given.since.map(|since| since.ms),
        until_ms: given.until.map(|until| until.ms),
        project: project.as_deref(),
        skill: given.skill.as_deref(),
        session: given.session.as_deref(),
        known_skills: &known,
        stop: Some(&*stop),
        ..ReportQuery::default()
    };
    let bar = context.progress(runs.sessions()?.iter().map(|listed| listed.bytes).sum());
    let report = runs.retrospective(&question, &|done, _| bar.set_position(done))?;
    bar.finish_and_clear();
    if report.totals.runs == 0 && report.whole {
        refuse_unknown_skill(&runs, &question)?;
    }
    let narrative = narrated(context, given, &store, &report)?;
    show(context, given, &report, narrative.as_ref())?;
    if given.remember {
        remember(context, given, &store, &report)?;
    }
    Ok(if stop.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::Done })
}

/// The skills that are used here. Whatever is wrong with them is not our question.
fn known_skills(context: &Context<'_>, store: &Store) -> Vec<String> {
    let Ok(skills) = super::skills::skills_here(context, store) else { return Vec::new() };
    let used = skills.all.iter().filter(|skill| skill.standing == SkillStatus::Used);
    used.map(|skill| skill.name().to_owned()).collect()
}

/// A skill that nobody ever ran and that is not there is a typing mistake, and no empty report.
fn refuse_unknown_skill(runs: &Runs, question: &ReportQuery<'_>) -> Result<(), Failure> {
    let Some(skill) =
        question.skill.filter(|skill| !question.known_skills.iter().any(|known| known == skill))
    else {
        return Ok(());
    };
    let everything = ReportQuery { now_ms: question.now_ms, stop: question.stop, ..ReportQuery::default() };
    let all = runs.retrospective(&everything, &|_, _| {})?;
    let names: BTreeSet<&str> = all.groups.iter().map(|group| group.skill.trim()).collect();
    if names.contains(skill) || !all.whole {
        return Ok(());
    }
    let some: Vec<String> =
        names.iter().filter(|name| !name.is_empty()).take(NAMES).map(|name| term::shell_word(name)).collect();
    let hint = match (some.is_empty(), names.len() > NAMES) {
        (true, _) => "no run names a skill".to_owned(),
        (false, true) => format!("there are runs of {} and others", some.join(", ")),
        (false, false) => format!("there are runs of {}", some.join(", ")),
    };
    let what = format!("there are no runs of a skill {}; {hint}", term::shell_word(skill));
    Err(Failure::new(Exit::NotFound, what))
}

/// What was typed, or where it leads if it says where from here.
pub(super) fn project_path(typed: &str) -> String {
    if typed != "." && !typed.starts_with("./") && !typed.starts_with("..") {
        return typed.to_owned();
    }
    let path = RealDisk.resolve(Path::new(typed)).unwrap_or_else(|_| PathBuf::from(typed));
    path.to_string_lossy().into_owned()
}

fn narrated(
    context: &Context<'_>,
    given: &Retro,
    store: &Store,
    report: &Report,
) -> Result<Option<Narrative>, Failure> {
    if !given.wants_model() || report.totals.runs == 0 {
        return Ok(None);
    }
    let config = context.config_with(&given.model)?;
    let answering = Answering::choose(&config, store)?;
    if !answering.is_model() {
        let why = answering.why.as_deref().unwrap_or("no model is configured");
        context.warn(&format!("{why}; the facts are told without the prose"));
        return Ok(None);
    }
    match report.narrate(&mut answering.asking()) {
        Ok(narrative) => Ok(Some(narrative)),
        Err(why) => {
            context.warn(&format!("{why}; the facts are told without the prose"));
            Ok(None)
        }
    }
}

fn show(
    context: &Context<'_>,
    given: &Retro,
    report: &Report,
    narrative: Option<&Narrative>,
) -> Result<(), Failure> {
    if given.html.as_ref().is_some_and(|file| file.as_os_str() == "-") {
        let mut output = context.output();
        output.block(report.to_html(narrative).trim_end())?;
        return Ok(output.flush()?);
    }
    if let Some(file) = &given.html {
        write_page(file, report.to_html(narrative).as_bytes())?;
        context.note(&format!("{} runs, written to {}", term::count(report.totals.runs), file.display()));
        return Ok(());
    }
    let mut output = context.output();
    if output.json {
        output.json(&report.to_json(narrative))?;
    } else if given.md {
        output.block(report.to_markdown(narrative).trim_end())?;
    } else {
        retro_text::print(&mut output, report, narrative)?;
    }
    Ok(output.flush()?)
}

fn remember(context: &Context<'_>, given: &Retro, store: &Store, report: &Report) -> Result<(), Failure> {
    let done = report.remember(&store.memory()?, given.wait.time)?;
    let words = remembered_words(&done);
    context.note(&format!("{words}; `manent memory list --tag retro` shows them"));
    Ok(())
}

/// What remembering did.
pub(super) fn remembered_words(done: &LessonChanges) -> String {
    let (added, replaced, known) = (done.added.len(), done.replaced.len(), done.known);
    let retired = match done.retired.len() {
        0 => String::new(),
        n => format!(", {n} forgotten because that is no longer so"),
    };
    format!(
        "remembered: {added} new, {replaced} instead of what was said before, {known} known already{retired}"
    )
}

/// Writes the page, in the place of an older one.
fn write_page(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    // Behind a link, the file that it leads to is meant.
    let real = RealDisk.resolve(file).unwrap_or_else(|_| file.to_owned());
    let mut page = NewFile::begin(&real, true)?;
    page.write(bytes).map_err(|e| page.failed(&e))?;
    page.end()
}

/// So many skills are named to whoever names one that is not there.
const NAMES: usize = 8;
