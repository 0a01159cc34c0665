//! `manent train --format FORMAT -o DIR`: what skills did becomes data to train models on.

use std::time::Duration;

use anstyle::Style;
use manent::dataset::{DatasetError, Existing, Format, Made, Reason, Recipe, make};
use manent::log::RealDisk;
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
    let made = made?;
    tell(context, &made)?;
    let rows: u64 = made.files.iter().map(|file| file.rows).sum();
    if rows == 0 {
        context.warn(&nothing(&made));
    } else if given.validation > 0 && made.validation_groups == 0 {
        let one = "nothing is for validation: whole projects are on one side, else whole sessions, and there are few";
        context.warn(&format!("{one} ({}); a larger --validation may take one", made.groups));
    } else if made.validation_groups == made.groups && given.validation < WHOLE {
        let few = "everything is for validation: whole projects are on one side, and there are few";
        context.warn(&format!("{few}; a smaller --validation, or 0, trains on them"));
    }
    Ok(Exit::Done)
}

fn recipe(given: &Train) -> Recipe {
    let format = match given.format {
        train::Format::Openai => Format::OpenAi,
        train::Format::TrlSft => Format::TrlSft,
        train::Format::TrlDpo => Format::TrlDpo,
        train::Format::Kto => Format::Kto,
        train::Format::Sharegpt => Format::ShareGpt,
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

fn tell(context: &Context<'_>, made: &Made) -> Result<(), Failure> {
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
    let left: Vec<String> = made
        .counts
        .left_out
        .iter()
        .map(|(why, count)| format!("{} {}", term::count(*count), words(*why)))
        .collect();
    if !left.is_empty() {
        context.note(&format!("left out: {}", left.join(", ")));
    }
    if made.counts.secrets > 0 {
        let secrets = term::count(made.counts.secrets);
        context.note(&format!("{secrets} likely credentials were replaced; read it before you publish it"));
    }
    if made.counts.unreadable > 0 {
        let lines = term::count(made.counts.unreadable);
        context.warn(&format!("{lines} lines of logs of runs could not be read as runs"));
    }
    Ok(())
}

/// A reason as people read it.
fn words(why: Reason) -> String {
    why.word().replace('_', " ")
}

fn nothing(made: &Made) -> String {
    let why = match made.counts.runs {
        0 => "there are no runs of skills",
        _ => {
            "of no attempt it is known what the model was given, what it answered, and that somebody checked it"
        }
    };
    format!("there are no rows: {why}")
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
