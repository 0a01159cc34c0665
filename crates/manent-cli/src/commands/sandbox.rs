//! `manent sandbox`: shows the sandbox in which the commands of an agent would run. `manent sandbox selftest` tries to
//! get out of it.

use manent_agent::sandbox::selftest::{Control, EscapeTrial, TrialResult, selftest};
use manent_agent::sandbox::{Isolation, Sandbox, SandboxError};

use crate::commands::prelude::*;

/// Show where the commands of an agent would run, and try to get out of there
#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    command: Option<SandboxCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Make real attempts to get out, and say what came of each; exits with 0 only if all of them were held
    Selftest(SelftestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SelftestArgs {
    /// Which sandbox to try [default: the one that would be used]
    #[arg(long, value_name = "KIND")]
    #[arg(value_parser = one_of([("bwrap", Isolation::Bubblewrap), ("landlock", Isolation::Landlock)]))]
    kind: Option<Isolation>,
}

pub(crate) fn run(context: &Context<'_>, args: &SandboxArgs) -> Result<Exit, Failure> {
    match &args.command {
        None => show(context),
        Some(SandboxCommand::Selftest(args)) => run_selftest(context, args),
    }
}

/// Tries each kind; the first that works is the one that is used.
fn show(context: &Context<'_>) -> Result<Exit, Failure> {
    let mut output = context.output();
    let mut tried = Vec::new();
    let mut used = None;
    for kind in Isolation::ALL {
        let (works, found) = match Sandbox::probe_kind(kind) {
            Ok(sandbox) => (true, sandbox.details().to_owned()),
            Err(SandboxError::Unusable { why, .. }) => (false, why),
            Err(e) => (false, e.to_string()),
        };
        let is_used = works && used.is_none();
        if is_used {
            used = Some(kind);
        }
        if output.wants_json {
            let kind = kind.to_string();
            output.json(&json!({"kind": kind, "works": works, "used": is_used, "found": found}))?;
        } else {
            let (word, color) = match (works, is_used) {
                (true, true) => ("used", AnsiColor::Green),
                (true, false) => ("works", AnsiColor::Cyan),
                (false, _) => ("no", AnsiColor::Yellow),
            };
            let rest = format!("  {}  {}", term::pad(&kind.to_string(), KIND_COLUMNS), term::line(&found));
            output.line(&[(term::bold(color), &term::pad(word, 5)), (Style::new(), &rest)])?;
        }
        if !works {
            tried.push((kind, found));
        }
    }
    output.flush()?;
    match used {
        Some(_) => Ok(Exit::Done),
        None => Err(SandboxError::NoneWorks { tried }.into()),
    }
}

fn run_selftest(context: &Context<'_>, args: &SelftestArgs) -> Result<Exit, Failure> {
    let sandbox = match args.kind {
        Some(kind) => Sandbox::probe_kind(kind)?,
        None => Sandbox::probe()?,
    };
    let mut output = context.output();
    let mut printed = print_heads(&mut output, &sandbox);
    let trials = selftest(&sandbox, &mut |trial| {
        if printed.is_ok() {
            printed = print_trial(&mut output, trial);
        }
    })?;
    printed?;
    let of = |result: TrialResult| trials.iter().filter(|trial| trial.result == result).count();
    let (held, escaped, skipped) =
        (of(TrialResult::Held), of(TrialResult::Escaped), of(TrialResult::Skipped));
    let kind = sandbox.kind().to_string();
    let json = json!({
        "kind": kind, "sandbox": sandbox.to_string(), "held": held, "escaped": escaped, "skipped": skipped,
    });
    let text = format!("{held} held, {escaped} escaped, {skipped} skipped");
    context.print(&json, |output| output.plain(&text))?;
    match (escaped, skipped) {
        (0, 0) => Ok(Exit::Done),
        (0, n) => Err(Failure::failed(format!(
            "{n} attempts could not be made, so nothing is known of them; see above"
        ))),
        (n, _) => {
            let hint = "do not run commands of an agent in it, and report this";
            Err(Failure::failed(format!("{n} attempts got through {kind}; {hint}")))
        }
    }
}

fn print_heads(output: &mut Output, sandbox: &Sandbox) -> io::Result<()> {
    if output.wants_json {
        return Ok(());
    }
    output.plain(&term::line(&sandbox.to_string()))?;
    let heads = row(["attempt", "expected", "outside", "got"]);
    output.line(&[(Style::new().bold(), &format!("{}{heads}", term::pad("", VERDICT_COLUMNS)))])?;
    output.flush()
}

fn print_trial(output: &mut Output, trial: &EscapeTrial) -> io::Result<()> {
    let (outside, why) = match &trial.control {
        Control::Works => ("works", ""),
        Control::Refused(why) => ("refused too", why.as_str()),
        Control::NotTried => ("not tried", ""),
    };
    if output.wants_json {
        output.json(&json!({
            "attempt": trial.attempt, "expected": trial.expected, "got": trial.got,
            "outside": outside, "outside_why": why, "verdict": trial.result.word().to_lowercase(),
        }))?;
        return output.flush();
    }
    let color = match trial.result {
        TrialResult::Held => AnsiColor::Green,
        TrialResult::Escaped => AnsiColor::Red,
        TrialResult::Skipped => AnsiColor::Yellow,
    };
    let rest = row([trial.attempt, trial.expected, outside, &term::line(&trial.got)]);
    let word = term::pad(trial.result.word(), VERDICT_COLUMNS);
    output.line(&[(term::bold(color), &word), (Style::new(), &rest)])?;
    // Attempts take a while, so each is shown at once.
    output.flush()
}

fn row(cells: [&str; 4]) -> String {
    let [attempt, expected, outside, got] = cells;
    format!("{attempt:30}{expected:20}{outside:13}{got}")
}

const KIND_COLUMNS: usize = 10;
const VERDICT_COLUMNS: usize = 9;
