//! `manent retro`: what the runs of skills say, with how sure one may be.

mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use manent::Store;
use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_agent::config::{Config, ConfigError, ConsolidationTrigger, RetroInterval, format_duration};
use manent_agent::kernel::{Kernel, RetroEvent, RetroReport};
use manent_agent::model_selection::SelectedModel;
use manent_agent::providers::{Model, Recall};
use manent_agent::skills::SkillStatus;
use manent_runs::Runs;
use manent_runs::retrospective::{LessonChanges, Narrative, Report, ReportQuery, Reports};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::commands::prelude::*;
use crate::hints;
use crate::model::{self, BlockingModel};
use crate::new_file::NewFile;

/// Look back on what skills did: how often they succeed, what goes wrong, what changed
#[derive(Debug, Args)]
#[command(after_help = RETRO_NOTES)]
pub(crate) struct RetroArgs {
    /// Only runs since: 30d, 2026-11-01. They are compared with those of as long before
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only runs until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<i64>,
    /// Only in this project, or below it: its path, or the end of it; '.' is the current one
    #[arg(long, value_name = "PATH")]
    project: Option<String>,
    /// Only of this skill
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// Print Markdown
    #[arg(long, conflicts_with_all = ["json", "html"])]
    md: bool,
    /// Write a page with charts to this file (-: standard output): one file for any browser, without a network
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// Keep what has enough runs behind it in the memory; said again, it replaces what was said before
    #[arg(long)]
    remember: bool,
    /// Have a model tell what stands out and propose changes to skills; nothing is applied
    #[arg(long)]
    with_model: bool,
    /// Stay, and keep a report in the store up to date: look this often whether there are new runs
    #[arg(long, value_name = "TIME")]
    #[arg(conflicts_with_all = ["until", "project", "skill", "session", "md", "html", "json"])]
    every: Option<String>,
    #[command(flatten)]
    model: ModelChoice,
    #[command(flatten)]
    wait: Wait,
}

impl RetroArgs {
    /// Returns true if a model is to be asked, which naming one implies.
    fn wants_model(&self) -> bool {
        self.with_model || self.model.is_some()
    }
}

pub(crate) fn run(context: &Context<'_>, args: &RetroArgs) -> Result<Exit, Failure> {
    if let Some(every) = &args.every {
        return keep_up_to_date(context, args, every);
    }
    if let (Some(since), Some(until)) = (args.since, args.until)
        && since.ms >= until
    {
        let words =
            "--since is not before --until, so there is no time between them; swap them, or leave one out";
        return Err(Failure::usage(words));
    }
    let store = context.store(args.wait.time)?;
    let runs = Runs::open(&store)?;
    if let Some(session) = &args.session
        && !runs.sessions()?.iter().any(|listed| listed.id.key.as_str() == session)
    {
        let hint = "`manent retro` without --session looks at all of them";
        let what = format!("there are no runs of a session {}; {hint}", term::shell_word(session));
        return Err(Failure::not_found(what));
    }
    let known_skills = known_skills(context, &store);
    let project = args.project.as_deref().map(project_path);
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C tells what was read until then. The second one ends us at once.
    let _ = signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, stop.clone());
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone());
    let question = ReportQuery {
        now_ms: when::now_ms(),
        since_ms: args.since.map(|since| since.ms),
        until_ms: args.until,
        project: project.as_deref(),
        skill: args.skill.as_deref(),
        session: args.session.as_deref(),
        known_skills: &known_skills,
        stop: Some(&*stop),
        ..ReportQuery::default()
    };
    let bar = context.progress(runs.sessions()?.iter().map(|listed| listed.bytes).sum());
    let mut report = runs.retrospective(&question, &|done, _| bar.set_position(done))?;
    report.notes.iter_mut().for_each(hints::complete_note);
    bar.finish_and_clear();
    if report.totals.runs == 0 && report.whole {
        refuse_unknown_skill(&runs, &question)?;
    }
    let narrative = narrated(context, args, &store, &report)?;
    show(context, args, &report, narrative.as_ref())?;
    if args.remember {
        remember(context, args, &store, &report)?;
    }
    Ok(if stop.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::Done })
}

/// Returns the names of the skills that are used here. Errors are ignored: they say nothing about the runs.
fn known_skills(context: &Context<'_>, store: &Store) -> Vec<String> {
    let Ok(skills) = super::skills::skills_here(context, store) else { return Vec::new() };
    let used = skills.all.iter().filter(|skill| skill.standing == SkillStatus::Used);
    used.map(|skill| skill.name().to_owned()).collect()
}

/// Refuses a skill that does not exist and has no runs: it is a typing mistake, and not an empty report.
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
    Err(Failure::not_found(format!("there are no runs of a skill {}; {hint}", term::shell_word(skill))))
}

/// Returns the path of a project. A relative one is resolved; the end of a path is left as it is.
pub(super) fn project_path(typed: &str) -> String {
    if typed != "." && !typed.starts_with("./") && !typed.starts_with("..") {
        return typed.to_owned();
    }
    let path = RealDisk.resolve(Path::new(typed)).unwrap_or_else(|_| PathBuf::from(typed));
    path.to_string_lossy().into_owned()
}

fn narrated(
    context: &Context<'_>,
    args: &RetroArgs,
    store: &Store,
    report: &Report,
) -> Result<Option<Narrative>, Failure> {
    if !args.wants_model() || report.totals.runs == 0 {
        return Ok(None);
    }
    let config = context.config_with(&args.model)?;
    let model = BlockingModel::choose(&config, store)?;
    let narrative = if model.is_model() {
        report.narrate(&mut model.asking())
    } else {
        Err(model.why.unwrap_or_else(|| "no model is configured".to_owned()))
    };
    let warn = |why: &String| context.warn(&format!("{why}; the facts are told without the prose"));
    Ok(narrative.inspect_err(warn).ok())
}

fn show(
    context: &Context<'_>,
    args: &RetroArgs,
    report: &Report,
    narrative: Option<&Narrative>,
) -> Result<(), Failure> {
    let mut output = context.output();
    match &args.html {
        Some(file) if file.as_os_str() == "-" => output.block(report.to_html(narrative).trim_end())?,
        Some(file) => {
            write_page(file, report.to_html(narrative).as_bytes())?;
            context.note(&format!("{} runs, written to {}", term::count(report.totals.runs), file.display()));
        }
        None if output.wants_json => output.json(&report.to_json(narrative))?,
        None if args.md => output.block(report.to_markdown(narrative).trim_end())?,
        None => text::print(&mut output, report, narrative)?,
    }
    Ok(output.flush()?)
}

fn remember(context: &Context<'_>, args: &RetroArgs, store: &Store, report: &Report) -> Result<(), Failure> {
    let done = report.remember(&store.memory()?, args.wait.time)?;
    let words = remembered_words(&done);
    context.note(&format!("{words}; `manent memory list --tag retro` shows them"));
    Ok(())
}

/// Describes what was added to the memory.
fn remembered_words(done: &LessonChanges) -> String {
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

/// Keeps the report up to date as a worker in the foreground, until a signal ends it. The kernel does the work, as in a
/// chat; this starts it and prints its events.
fn keep_up_to_date(context: &Context<'_>, args: &RetroArgs, every: &str) -> Result<Exit, Failure> {
    let config = configured(context, args, every)?;
    let store = context.store(args.wait.time)?;
    let reports = Reports::open(&store)?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let model = worker_model(context, &runtime, &config, &store)?;
    let kernel = Kernel::start(runtime.handle(), store, model, config.clone(), String::new(), None);
    let Some(mut reviews) = kernel.retro_events() else {
        return Err(Failure::usage("--every off does nothing; give a time, such as 1d"));
    };
    context.note(&format!(
        "looking every {} whether there are new runs; the report of the last {} is {}; Ctrl-C ends this",
        config.retro.every,
        format_duration(config.retro.since),
        reports.page().display()
    ));
    runtime.block_on(async {
        tokio::select! {
            () = print_events(context, &mut reviews) => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        kernel.end(Duration::ZERO).await;
        // A report that is being made stops by itself, and its event is printed. If it does not stop, the next worker
        // clears up behind it.
        let _ = tokio::time::timeout(END_WITHIN, print_events(context, &mut reviews)).await;
    });
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(Exit::Done)
}

/// Returns the configuration with the options that were typed.
fn configured(context: &Context<'_>, args: &RetroArgs, every: &str) -> Result<Config, Failure> {
    let mut config = context.config_with(&args.model)?;
    let usage = |e: ConfigError| Failure::usage(e.to_string());
    config.set_flag("retro.every", every).map_err(usage)?;
    if config.retro.every == RetroInterval::Off {
        return Err(Failure::usage("--every off does nothing; give a time, such as 1d"));
    }
    if let Some(since) = args.since {
        let Some(length) = since.length else {
            let what =
                "with --every, --since is a length of time, such as 30d: each report looks back as far";
            return Err(Failure::usage(what));
        };
        config.set_flag("retro.since", &format_duration(length)).map_err(usage)?;
    }
    config.retro.remember |= args.remember;
    config.retro.with_model |= args.wants_model();
    // There is no conversation to consolidate.
    config.consolidate = ConsolidationTrigger::Off;
    Ok(config)
}

/// Returns the model of the worker. Without `--with-model` no server is asked.
fn worker_model(
    context: &Context<'_>,
    runtime: &Runtime,
    config: &Config,
    store: &Store,
) -> Result<Model, Failure> {
    if !config.retro.with_model {
        return Ok(Recall::new(store.clone()).into());
    }
    let SelectedModel { model, why } = model::select(runtime, config, store)?;
    if let Some(why) = why {
        context.warn(&format!("{why}; the facts are told without the prose"));
    }
    Ok(model)
}

/// Prints the events of the worker, a line each, until there are no more.
async fn print_events(context: &Context<'_>, reviews: &mut Receiver<RetroEvent>) {
    loop {
        match reviews.recv().await {
            Ok(RetroEvent::Made(review)) => note_report(context, &review),
            Ok(RetroEvent::Failed(why)) => context.warn(&format!("no report this time: {why}")),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn note_report(context: &Context<'_>, review: &RetroReport) {
    let runs = term::count(review.runs);
    let plural = if review.runs == 1 { "run" } else { "runs" };
    let alarms = match review.alarms {
        0 => "nothing got worse".to_owned(),
        1 => "1 skill got worse or is flaky".to_owned(),
        n => format!("{n} times a skill got worse or is flaky"),
    };
    let whole = if review.whole { "" } else { "; there was no time to read all of them" };
    let remembered =
        review.remembered.as_ref().map_or_else(String::new, |r| format!("; {}", remembered_words(r)));
    context
        .note(&format!("{runs} {plural}, {alarms}{whole}{remembered}; written to {}", review.page.display()));
    for trouble in &review.troubles {
        context.warn(trouble);
    }
}

const END_WITHIN: Duration = Duration::from_secs(2);

/// The number of skills that the error for an unknown skill names.
const NAMES: usize = 8;

const RETRO_NOTES: &str = "\
Nothing is concluded from fewer than 5 runs. Two rates are called different only if a test says so,
corrected for all that was compared; each statement names runs that it rests on. Runs of unknown
outcome are neither successes nor failures: they are counted apart.

A chat, and --every in a process of its own, make a report of the last 30 days once a day if there
are new runs, and keep it: retro/latest.html and retro/latest.json in the store. However many
processes there are, one makes it. `manent config` has the settings (retro.*).

Examples:
  manent retro --since 30d
  manent retro --since 2026-11 --html november.html
  manent retro --skill review --json | jq '.statements[].text'
  manent retro --every 1d --remember";
