//! `manent train --format FORMAT -o DIR`: what skills did becomes data to train models on.

use std::time::Duration;

use anstyle::Style;
use manent::log::RealDisk;
use manent_runs::dataset::{
    Dataset, DatasetCounts, DatasetError, DatasetFormat, Existing, Recipe, SkipReason, make,
};
use serde_json::{Map, Value, json};

use super::retro::project_path;
use crate::args::train::{self, Train};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Train) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut bar = context.catching_up();
    let existing = if given.force { Existing::Replace } else { Existing::Keep };
    let disk = RealDisk::shared();
    let made =
        make(&store, &recipe(given), &disk, &given.output, existing, &mut |done, all| bar.tell(done, all));
    drop(bar);
    let made = match made {
        Err(DatasetError::NoRows { counts }) => {
            tell_of_counts(context, &counts);
            return Err(Failure::new(Exit::NotFound, nothing(&counts)));
        }
        made => made?,
    };
    tell(context, &made)?;
    if given.validation > 0 && made.validation_groups == 0 {
        let drawn = "nothing is for validation: whole projects, else whole sessions, are drawn by their names, and of";
        context.warn(&format!("{drawn} {} none was; a larger --validation may take one", made.groups));
    } else if made.validation_groups == made.groups && given.validation < WHOLE {
        let few = "everything is for validation: whole projects are on one side, and there are few";
        context.warn(&format!("{few}; a smaller --validation, or 0, trains on them"));
    }
    Ok(Exit::Done)
}

fn recipe(given: &Train) -> Recipe {
    let format = match given.format {
        train::Format::Openai => DatasetFormat::OpenAi,
        train::Format::TrlSft => DatasetFormat::TrlSft,
        train::Format::TrlDpo => DatasetFormat::TrlDpo,
        train::Format::Kto => DatasetFormat::Kto,
        train::Format::Sharegpt => DatasetFormat::ShareGpt,
    };
    Recipe {
        since_ms: given.since.map(|since| since.ms),
        until_ms: given.until.map(|until| until.ms),
        project: given.project.as_deref().map(project_path),
        skill: given.skill.clone(),
        model: given.model.clone(),
        validation: given.validation,
        same_model_only: given.same_model_only,
        with_memory: given.with_memory,
        summaries: given.summaries,
        ..Recipe::new(format)
    }
}

fn tell(context: &Context<'_>, made: &Dataset) -> Result<(), Failure> {
    let mut output = context.output();
    if output.json {
        let files: Map<String, Value> =
            made.files.iter().map(|file| (file.name.to_owned(), json!(file.rows))).collect();
        let left_out: Map<String, Value> =
            made.counts.left_out.iter().map(|(why, count)| (why.word().to_owned(), json!(count))).collect();
        output.json(&json!({
            "dir": made.dir.to_string_lossy(),
            "rows": files,
            "runs": made.counts.runs,
            "attempts": made.counts.attempts,
            "left_out": left_out,
            "secrets": made.counts.secrets,
            "groups": made.groups,
            "validation_groups": made.validation_groups,
        }))?;
    } else {
        for file in &made.files {
            let rows =
                format!("{:>12} row{}  ", term::count(file.rows), if file.rows == 1 { " " } else { "s" });
            let size = format!("  {}", term::size(file.bytes));
            output.line(&[(Style::new(), &rows), (Style::new().bold(), file.name), (term::FAINT, &size)])?;
        }
    }
    output.flush()?;
    tell_of_counts(context, &made.counts);
    Ok(())
}

/// What is not in it, and what was changed.
fn tell_of_counts(context: &Context<'_>, counts: &DatasetCounts) {
    let left: Vec<String> = counts
        .left_out
        .iter()
        .map(|(why, count)| format!("{} {}", term::count(*count), words(*why)))
        .collect();
    if !left.is_empty() {
        context.note(&format!("left out: {}", left.join(", ")));
    }
    if counts.secrets > 0 {
        let secrets = term::count(counts.secrets);
        context.note(&format!("{secrets} likely credentials were replaced; read it before you publish it"));
    }
    match counts.unreadable {
        0 => {}
        1 => context.warn("a line of a log of runs could not be read as a run"),
        lines => {
            let lines = term::count(lines);
            context.warn(&format!("{lines} lines of logs of runs could not be read as runs"));
        }
    }
}

/// A reason as people read it.
fn words(why: SkipReason) -> String {
    why.word().replace('_', " ")
}

/// Why there are no rows, by what most attempts lacked, and what helps.
fn nothing(counts: &DatasetCounts) -> String {
    let most = counts.left_out.iter().max_by_key(|(_, count)| **count).map(|(why, _)| *why);
    let why = match most {
        _ if counts.runs == 0 => {
            "there are no runs of skills; `manent run exec` and skills in a chat make some"
        }
        Some(SkipReason::Filtered) => "no run is one that was asked for; ask for more",
        Some(SkipReason::Unverified) => {
            "nobody checked what was done; `manent run judge RUN good` says which was good"
        }
        Some(SkipReason::Failed) => "what was checked had failed, and this format takes only what is good",
        Some(SkipReason::OnlySummary) => {
            "of the answers only summaries are on record; --summaries takes them all the same, and `output_ref` in an \
             entry (docs/FORMAT.md) says where the answer stands"
        }
        Some(SkipReason::NoPrompt | SkipReason::UnknownPrompt) => {
            "nothing says what the model was given; `prompt_ref` or `input` in an entry does (docs/FORMAT.md)"
        }
        _ => {
            "of no attempt it is known what the model was given, what it answered, and that somebody checked it"
        }
    };
    format!("there are no rows, so nothing is written: {why}")
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Failure {
        let exit = match error {
            DatasetError::Store(error) => return error.into(),
            DatasetError::NotEmpty { .. } | DatasetError::NotOurs { .. } => Exit::Conflict,
            DatasetError::NoDirectory { .. } => Exit::Usage,
            DatasetError::Busy { .. } => Exit::Held,
            _ => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

/// All of it, in hundredths of a percent.
const WHOLE: u32 = 10_000;
