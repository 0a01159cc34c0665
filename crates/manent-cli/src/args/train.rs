//! What can be typed about data sets.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use crate::when::{Since, Until};

#[derive(Debug, ClapArgs)]
#[command(after_help = NOTES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that was typed or not")]
pub(crate) struct Train {
    /// For whom; trl-dpo takes pairs, kto verdicts, the others answers that were found good
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Format,
    /// Where: a directory that is new or empty
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Only runs since: 7d, 12h, 2026-11-01
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<Since>,
    /// Only runs until: 7d, 2026-11-01 (that day included)
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Until>,
    /// Only runs in this project, or below it
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<String>,
    /// Only runs of this skill
    #[arg(long, value_name = "NAME")]
    pub(crate) skill: Option<String>,
    /// Only attempts of this model
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// How much is for validation, about: whole projects, else whole sessions
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "10%")]
    pub(crate) validation: u32,
    /// Only pairs of one model with itself
    #[arg(long)]
    pub(crate) same_model_only: bool,
    /// Leave what was remembered in prompts, where nothing of it was forgotten since
    #[arg(long)]
    pub(crate) with_memory: bool,
    /// Also attempts of which only a summary is known; what later attempts were told is put together
    #[arg(long)]
    pub(crate) summaries: bool,
    /// Replace the data set in that directory
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Openai,
    TrlSft,
    TrlDpo,
    Kto,
    Sharegpt,
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

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_a_part_of_a_whole() {
        assert_eq!((share("10%"), share("0.1"), share("0")), (Ok(1000), Ok(1000), Ok(0)));
        assert_eq!((share("100%"), share("2.5%")), (Ok(10_000), Ok(250)));
        for no in ["", "%", "-1%", "101%", "1.5", "NaN", "inf%", "ten"] {
            assert!(share(no).is_err(), "{no}");
        }
    }
}
