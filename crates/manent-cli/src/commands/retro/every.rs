//! `manent retro --every TIME`: a worker in the foreground that keeps the report of what skills did up to date, until
//! it is told to end. The work itself is the kernel's, as in a chat; here it is started, and what it does is told.

use manent::Store;
use manent_agent::config::{Config, ConsolidationTrigger, RetroInterval, format_duration};
use manent_agent::kernel::{Kernel, RetroEvent, RetroReport};
use manent_agent::model_selection::SelectedModel;
use manent_agent::providers::{Model, Recall};
use manent_runs::retrospective::Reports;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{RetroArgs, remembered_words};
use crate::commands::prelude::*;

pub(crate) fn run(context: &Context<'_>, args: &RetroArgs, every: &str) -> Result<Exit, Failure> {
    let config = configured(context, args, every)?;
    let store = context.store(args.wait.time)?;
    let reports = Reports::open(&store)?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _guard = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let model = model(context, &runtime, &config, &store)?;
    let kernel = Kernel::start(runtime.handle(), store, model, config.clone(), String::new());
    let Some(mut reviews) = kernel.reviews() else {
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
            () = tell(context, &mut reviews) => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        kernel.end(Duration::ZERO).await;
        // What it was at stops by itself; what it had just done is told. If it does not stop, the next worker clears up
        // behind it.
        let _ = tokio::time::timeout(END_WITHIN, tell(context, &mut reviews)).await;
    });
    runtime.shutdown_timeout(Duration::ZERO);
    Ok(Exit::Done)
}

/// Returns the configuration with the options that were typed.
fn configured(context: &Context<'_>, args: &RetroArgs, every: &str) -> Result<Config, Failure> {
    let mut config = context.config_with(&args.model)?;
    let usage = |e: manent_agent::config::ConfigError| Failure::usage(e.to_string());
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
    // Nobody talks here.
    config.consolidate = ConsolidationTrigger::Off;
    Ok(config)
}

/// Nobody is asked unless that is wanted.
fn model(context: &Context<'_>, runtime: &Runtime, config: &Config, store: &Store) -> Result<Model, Failure> {
    if !config.retro.with_model {
        return Ok(Recall::new(store.clone()).into());
    }
    let SelectedModel { model, why } = crate::model::select(runtime, config, store)?;
    if let Some(why) = why {
        context.warn(&format!("{why}; the facts are told without the prose"));
    }
    Ok(model)
}

/// Tells what is done, a line each time, until there is no more.
async fn tell(context: &Context<'_>, reviews: &mut Receiver<RetroEvent>) {
    loop {
        match reviews.recv().await {
            Ok(RetroEvent::Made(review)) => tell_of(context, &review),
            Ok(RetroEvent::Failed(why)) => context.warn(&format!("no report this time: {why}")),
            Ok(_) | Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return,
        }
    }
}

fn tell_of(context: &Context<'_>, review: &RetroReport) {
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
