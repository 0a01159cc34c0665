//! From a run to what may become rows.
//!
//! An attempt has a verdict if somebody checked it. What it was given is what it quotes; the first attempt of a run
//! that quotes nothing was given the run's input. A later one was given more, usually how the one before it failed, and
//! nothing says what: it is left out. A summary is not what a model said: what has nothing else is left out, too.
//! Whoever wants both all the same says so, and gets them counted.

use crate::runs::{Attempt, Passage, Run, bare};

use super::{Reason, Recipe};

/// What one attempt may become.
#[derive(Debug)]
pub(super) struct Draft {
    /// Which log it is from.
    pub(super) source: u32,
    /// Which run of that log.
    pub(super) seq: u64,
    /// In which group.
    pub(super) node: u32,
    pub(super) verdict: Verdict,
    pub(super) model: String,
    pub(super) asked: Asked,
    pub(super) answered: Answered,
    /// How the attempts before it failed.
    pub(super) failures: Vec<Failure>,
    /// Whether the prompt holds one of these failures.
    pub(super) is_repair: bool,
    pub(super) tools: Option<String>,
}

/// How an attempt came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    Good,
    Bad,
}

/// One message as a data set has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// `system`, `user`, `assistant` or `tool`.
    pub(super) role: Role,
    pub(super) content: String,
    /// Calls of tools, as JSON.
    pub(super) calls: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) name: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Role {
    System,
    #[default]
    User,
    Assistant,
    Tool,
}

/// What a model was given.
#[derive(Debug)]
pub(super) enum Asked {
    /// A passage of a session, to be looked up.
    Passage(Passage),
    /// The input of the run: JSON.
    Input(String),
    /// The input, and behind it what earlier attempts answered and how that failed.
    Told(String, Vec<(String, String)>),
    Messages(Vec<Said>),
}

/// What it answered.
#[derive(Debug)]
pub(super) enum Answered {
    Passage(Passage),
    Summary(String),
    Messages(Vec<Said>),
}

/// How an earlier attempt failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// What it had answered.
    pub(super) output: Option<Passage>,
    /// What whoever checked it printed.
    pub(super) printed: String,
}

impl Draft {
    /// How much memory it holds, about.
    pub(super) fn bytes(&self) -> usize {
        let of_said = |said: &Vec<Said>| -> usize {
            said.iter().map(|one| one.content.len() + one.calls.as_ref().map_or(0, String::len) + 100).sum()
        };
        let asked = match &self.asked {
            Asked::Passage(_) => 0,
            Asked::Input(input) => input.len(),
            Asked::Told(input, told) => {
                input.len() + told.iter().map(|(a, b)| a.len() + b.len()).sum::<usize>()
            }
            Asked::Messages(said) => of_said(said),
        };
        let answered = match &self.answered {
            Answered::Passage(_) => 0,
            Answered::Summary(text) => text.len(),
            Answered::Messages(said) => of_said(said),
        };
        let failures: usize = self.failures.iter().map(|failure| failure.printed.len()).sum();
        asked + answered + failures + self.tools.as_ref().map_or(0, String::len) + 300
    }
}

/// The drafts of a run, and why its other attempts give none.
pub(super) fn drafts(
    run: &Run<'_>,
    recipe: &Recipe,
    node: u32,
    source: u32,
    mut take: impl FnMut(Result<Draft, Reason>),
) {
    let mut order: Vec<usize> = (0..run.attempts.len()).collect();
    order.sort_by_key(|at| run.attempts[*at].attempt.unwrap_or(*at as u64 + 1));
    let mut before: Vec<&Attempt<'_>> = Vec::new();
    for at in order {
        let attempt = &run.attempts[at];
        if before.contains(&attempt) {
            take(Err(Reason::Repeated));
            continue;
        }
        take(draft(run, attempt, &before, recipe).map(|draft| Draft { source, node, ..draft }));
        before.push(attempt);
        if before.len() >= ATTEMPTS_MAX {
            break;
        }
    }
}

fn draft(
    run: &Run<'_>,
    attempt: &Attempt<'_>,
    before: &[&Attempt<'_>],
    recipe: &Recipe,
) -> Result<Draft, Reason> {
    let model = if attempt.model.is_empty() { &run.model_used } else { &attempt.model };
    if recipe.model.as_deref().is_some_and(|wanted| wanted != model) {
        return Err(Reason::Filtered);
    }
    let verdict = verdict(attempt)?;
    if verdict == Verdict::Bad && !recipe.format.takes_failures() {
        return Err(Reason::Failed);
    }
    let is_first = before.is_empty() && attempt.attempt.is_none_or(|number| number <= 1);
    let asked = match (&attempt.prompt_ref, run.input) {
        (Some(passage), _) => Asked::Passage(passage.clone()),
        (None, None) => return Err(Reason::NoPrompt),
        (None, Some(input)) if input.len() > ROW_BYTES_MAX => return Err(Reason::TooLong),
        (None, Some(input)) if is_first => Asked::Input(input.to_owned()),
        (None, Some(input)) if recipe.summaries && !before.is_empty() => {
            Asked::Told(input.to_owned(), told(before)?)
        }
        (None, Some(_)) => return Err(Reason::UnknownPrompt),
    };
    let answered = match &attempt.output_ref {
        Some(passage) => Answered::Passage(passage.clone()),
        None if attempt.output_summary.trim().is_empty() => return Err(Reason::NoOutput),
        None if !recipe.summaries => return Err(Reason::OnlySummary),
        None if attempt.output_summary.len() > ROW_BYTES_MAX => return Err(Reason::TooLong),
        None => Answered::Summary(attempt.output_summary.to_string()),
    };
    let is_repair = matches!(asked, Asked::Told(..));
    let failures = if matches!(asked, Asked::Passage(_)) { failures(attempt, before) } else { Vec::new() };
    let (seq, model) = (run.seq, model.to_string());
    Ok(Draft { source: 0, seq, node: 0, verdict, model, asked, answered, failures, is_repair, tools: None })
}

/// Only what was checked has a verdict; that nobody complained is none.
fn verdict(attempt: &Attempt<'_>) -> Result<Verdict, Reason> {
    let ended_badly = !attempt.error_class.is_empty() || attempt.exit_code.is_some_and(|code| code != 0);
    match attempt.verified {
        Some(true) if ended_badly => Err(Reason::Doubtful),
        Some(true) => Ok(Verdict::Good),
        Some(false) => Ok(Verdict::Bad),
        None if ended_badly => Ok(Verdict::Bad),
        None => Err(Reason::Unverified),
    }
}

fn failed(attempt: &Attempt<'_>) -> bool {
    matches!(verdict(attempt), Ok(Verdict::Bad))
}

/// How those before it failed that were given something else: what was given the same cannot know of them.
fn failures(attempt: &Attempt<'_>, before: &[&Attempt<'_>]) -> Vec<Failure> {
    let other = before.iter().filter(|earlier| earlier.prompt_ref != attempt.prompt_ref);
    let failed = other.filter(|earlier| failed(earlier));
    let short = failed.filter(|attempt| attempt.runner_output.len() <= ROW_BYTES_MAX);
    short
        .map(|attempt| Failure {
            output: attempt.output_ref.clone(),
            printed: attempt.runner_output.trim().to_owned(),
        })
        .collect()
}

/// What earlier attempts answered, and how each failed. One of which that is not known makes the rest unknown.
fn told(before: &[&Attempt<'_>]) -> Result<Vec<(String, String)>, Reason> {
    let mut told = Vec::with_capacity(before.len());
    for attempt in before {
        let (answered, printed) = (attempt.output_summary.trim(), attempt.runner_output.trim());
        if answered.is_empty() || printed.is_empty() || !failed(attempt) {
            return Err(Reason::UnknownPrompt);
        }
        if answered.len() + printed.len() > ROW_BYTES_MAX {
            return Err(Reason::TooLong);
        }
        told.push((answered.to_owned(), printed.to_owned()));
    }
    Ok(told)
}

/// Whether a run is among those that are wanted.
pub(super) fn is_wanted(run: &Run<'_>, recipe: &Recipe) -> bool {
    let since = recipe.since_ms.is_none_or(|since| run.at_ms.is_some_and(|at| at >= since));
    let until = recipe.until_ms.is_none_or(|until| run.at_ms.is_some_and(|at| at < until));
    let skill = recipe.skill.as_deref().is_none_or(|skill| run.skill == skill);
    let project = recipe.project.as_deref().is_none_or(|project| run.is_in(project));
    since && until && skill && project
}

/// A project by its directory: without a slash at its end, however it was written.
pub(super) fn project_of<'a>(run: &'a Run<'_>) -> &'a str {
    bare(&run.project_root)
}

/// No model is given more at once: about a million tokens.
pub(super) const ROW_BYTES_MAX: usize = 4 << 20;
/// Nobody tries more often; whoever wrote such a run made it up.
const ATTEMPTS_MAX: usize = 1000;
