//! `manent train --format FORMAT -o DIR`: what skills did becomes data to train models on.

use std::path::PathBuf;

use manent::log::RealDisk;
use manent_runs::dataset::{
    Dataset, DatasetCounts, DatasetError, DatasetFormat, Existing, Recipe, SkipReason, make,
};
use serde_json::Map;

use super::retro::project_path;
use crate::commands::prelude::*;
use crate::hints;

/// Make data sets of what skills did, to train models on
#[derive(Debug, Args)]
#[command(after_help = NOTES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that was typed or not")]
pub(crate) struct TrainArgs {
    /// For whom; trl-dpo takes pairs, kto verdicts, the others answers that were found good
    #[arg(long, value_parser = one_of(FORMATS.map(|format| (format.word(), format))), value_name = "FORMAT")]
    format: DatasetFormat,
    /// Where: a directory that is new or empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Only runs since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only runs until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Option<i64>,
    /// Only runs in this project, or below it
    #[arg(long, value_name = "DIR")]
    project: Option<String>,
    /// Only runs of this skill
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// Only attempts of this model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// How much is for validation, about: whole projects, else whole sessions
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "10%")]
    validation: u32,
    /// Only pairs of one model with itself
    #[arg(long)]
    same_model_only: bool,
    /// Leave what was remembered in prompts, where nothing of it was forgotten since
    #[arg(long)]
    with_memory: bool,
    /// Also attempts of which only a summary is known; what later attempts were told is put together
    #[arg(long)]
    summaries: bool,
    /// Replace the data set in that directory
    #[arg(long)]
    force: bool,
}

/// Reads `10%` or `0.1`, in hundredths of a percent.
fn share(text: &str) -> Result<u32, String> {
    let (number, whole) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let number: f64 = number.trim().parse().map_err(|_| NO_SHARE.to_owned())?;
    if !(0.0..=whole).contains(&number) {
        return Err(NO_SHARE.to_owned());
    }
    #[expect(clippy::cast_sign_loss, reason = "it is between 0 and 1")]
    let hundredths = (number / whole * 10_000.0).round() as u32;
    Ok(hundredths)
}

pub(crate) fn run(context: &Context<'_>, args: &TrainArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let disk = RealDisk::shared();
    let recipe = recipe(args);
    let made =
        context.with_progress(|progress| make(&store, &recipe, &disk, &args.output, existing, progress));
    let made = match made {
        Err(DatasetError::NoRows { counts }) => {
            tell_of_counts(context, &counts);
            return Err(Failure::not_found(nothing(&counts)));
        }
        made => made?,
    };
    tell(context, &made)?;
    if args.validation > 0 && made.validation_groups == 0 {
        let drawn = "nothing is for validation: whole projects, else whole sessions, are drawn by their names, and of";
        context.warn(&format!("{drawn} {} none was; a larger --validation may take one", made.groups));
    } else if made.validation_groups == made.groups && args.validation < WHOLE {
        let few = "everything is for validation: whole projects are on one side, and there are few";
        context.warn(&format!("{few}; a smaller --validation, or 0, trains on them"));
    }
    Ok(Exit::Done)
}

fn recipe(args: &TrainArgs) -> Recipe {
    Recipe {
        since_ms: args.since.map(|since| since.ms),
        until_ms: args.until,
        project: args.project.as_deref().map(project_path),
        skill: args.skill.clone(),
        model: args.model.clone(),
        validation: args.validation,
        same_model_only: args.same_model_only,
        with_memory: args.with_memory,
        summaries: args.summaries,
        ..Recipe::new(args.format)
    }
}

fn tell(context: &Context<'_>, made: &Dataset) -> Result<(), Failure> {
    let files: Map<String, Value> =
        made.files.iter().map(|file| (file.name.to_owned(), json!(file.rows))).collect();
    let left_out: Map<String, Value> =
        made.counts.left_out.iter().map(|(why, count)| (why.word().to_owned(), json!(count))).collect();
    let json = json!({
        "dir": made.dir.to_string_lossy(), "rows": files, "runs": made.counts.runs,
        "attempts": made.counts.attempts, "left_out": left_out, "secrets": made.counts.secrets,
        "groups": made.groups, "validation_groups": made.validation_groups,
    });
    context.print(&json, |output| {
        made.files.iter().try_for_each(|file| {
            let plural = if file.rows == 1 { " " } else { "s" };
            let rows = format!("{:>12} row{plural}  ", term::count(file.rows));
            let size = format!("  {}", term::size(file.bytes));
            output.line(&[(Style::new(), &rows), (Style::new().bold(), file.name), (term::FAINT, &size)])
        })
    })?;
    tell_of_counts(context, &made.counts);
    Ok(())
}

/// Notes what was left out of a data set, and what was changed in it.
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

/// Explains why there are no rows, by what most attempts lacked.
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
        Failure::new(exit, hints::message_of_dataset(&error))
    }
}

/// The formats in the order in which the help lists them.
const FORMATS: [DatasetFormat; 5] = [
    DatasetFormat::OpenAi,
    DatasetFormat::TrlSft,
    DatasetFormat::TrlDpo,
    DatasetFormat::Kto,
    DatasetFormat::ShareGpt,
];
/// The whole, in hundredths of a percent.
const WHOLE: u32 = 10_000;

const NO_SHARE: &str = "a share is between 0% and 100%; write 10% or 0.1";

const NOTES: &str = "\
Only what was checked is taken: attempts that were verified; for trl-dpo and kto, failed ones too.
A pair is two answers to the very same prompt. An answer whose prompt tells of a failure is a
repair, in files of its own. All rows of a project are on one side, training or validation.
Likely credentials and names in home directories are replaced. Read it before you publish it.

Examples:
  manent train --format trl-sft -o data
  manent train --format trl-dpo -o pairs --skill fix --same-model-only
  manent train --format openai -o tuned --since 30d --validation 20% --force";
