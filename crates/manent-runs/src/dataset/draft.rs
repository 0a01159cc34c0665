//! Makes drafts of rows from the attempts of a run.
//!
//! An attempt has a verdict if somebody checked it, then or afterwards. What it was given is what it quotes; the first
//! attempt of a run that quotes nothing was given the run's input. A later one was given more, usually how the one
//! before it failed, and nothing says what: it is left out. A summary is not what a model said: what has nothing else
//! is left out, too. A recipe can ask for both, and they are counted.

use manent::words;

use crate::runs::{Attempt, INTERRUPTED, NOT_CHECKED, NOT_RUN, RecordRange, Run};

use super::messages::messages_of_input;
use super::quote::QuotedRange;
use super::{Recipe, SkipReason};

/// The run that a draft comes from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowOrigin {
    /// The number of the log.
    pub(super) source: u32,
    /// The number of the run's record in that log.
    pub(super) seq: u64,
    pub(super) at_ms: Option<i64>,
    /// The place among all drafts of the log.
    pub(super) order: u32,
    /// The node of the log's session among the groups of the split.
    pub(super) node: u32,
}

/// A row in the making: one attempt with a verdict.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) origin: RowOrigin,
    pub(super) verdict: AttemptVerdict,
    pub(super) model: String,
    pub(super) prompt: MessageSource,
    pub(super) answer: MessageSource,
    /// True if the answer is a summary of what the model said.
    pub(super) from_summary: bool,
    /// The failures of the attempts before it.
    pub(super) failures: Vec<EarlierFailure>,
    /// True if the prompt holds one of these failures.
    pub(super) is_repair: bool,
    pub(super) tools: Option<String>,
    /// The records that were looked up for it.
    pub(super) quoted: Vec<QuotedRange>,
    /// A block of memory was left out of the prompt.
    pub(super) memory_left_out: bool,
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AttemptVerdict {
    Good,
    Bad,
}

/// One message as a data set has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ChatMessage {
    pub(super) role: Role,
    pub(super) content: String,
    /// Calls of tools, as JSON.
    pub(super) calls: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) name: Option<String>,
}

words! {
    /// The role of a message.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(super) enum Role {
        System = "system",
        #[default]
        User = "user",
        Assistant = "assistant",
        Tool = "tool",
    }
}

impl Role {
    pub(super) fn parse(word: &str) -> Option<Role> {
        [Role::System, Role::User, Role::Assistant, Role::Tool].into_iter().find(|role| role.word() == word)
    }
}

impl ChatMessage {
    pub(super) fn new(role: Role, content: impl Into<String>) -> ChatMessage {
        ChatMessage { role, content: content.into(), ..ChatMessage::default() }
    }
}

/// The messages of a prompt or an answer.
#[derive(Debug)]
pub(super) enum MessageSource {
    /// Records of a session, to be looked up.
    Records(RecordRange),
    Messages(Vec<ChatMessage>),
}

impl MessageSource {
    /// Returns the messages; none if they were not looked up.
    pub(super) fn into_messages(self) -> Vec<ChatMessage> {
        match self {
            MessageSource::Records(_) => Vec::new(),
            MessageSource::Messages(messages) => messages,
        }
    }

    fn bytes(&self) -> usize {
        let of_one = |one: &ChatMessage| one.content.len() + one.calls.as_ref().map_or(0, String::len) + 100;
        match self {
            MessageSource::Records(_) => 0,
            MessageSource::Messages(messages) => messages.iter().map(of_one).sum(),
        }
    }
}

/// The failure of an earlier attempt.
#[derive(Debug)]
pub(super) struct EarlierFailure {
    /// The records of its answer.
    pub(super) output: Option<RecordRange>,
    /// The beginning and the end of what its checker printed: programs that tell a model of a failure cut what is long.
    /// Empty if the output is so short that it stands everywhere.
    pub(super) printed: Vec<String>,
}

impl Draft {
    /// Returns the approximate memory that the draft takes.
    pub(super) fn bytes(&self) -> usize {
        let failures = self.failures.iter().flat_map(|failure| &failure.printed).map(|ends| ends.len() + 100);
        let failures: usize = failures.sum();
        self.prompt.bytes()
            + self.answer.bytes()
            + failures
            + self.tools.as_ref().map_or(0, String::len)
            + 300
    }
}

/// The drafts of a run, and why its other attempts give none.
pub(super) fn drafts<E>(
    run: &Run<'_>,
    recipe: &Recipe,
    mut take: impl FnMut(Result<Draft, SkipReason>) -> Result<(), E>,
) -> Result<(), E> {
    let mut order: Vec<usize> = (0..run.attempts.len()).collect();
    order.sort_by_key(|at| run.attempts[*at].attempt.unwrap_or(*at as u64 + 1));
    let mut attempts: Vec<&Attempt<'_>> = Vec::new();
    for attempt in order.into_iter().map(|at| &run.attempts[at]) {
        match attempts.iter_mut().find(|other| is_repeated(other, attempt)) {
            Some(other) => {
                // Of an attempt that is written twice, the one with a later verdict counts.
                if other.judged.is_none() {
                    *other = attempt;
                }
                take(Err(SkipReason::Repeated))?;
            }
            None => attempts.push(attempt),
        }
        if attempts.len() >= ATTEMPTS_MAX {
            break;
        }
    }
    for (nth, attempt) in attempts.iter().enumerate() {
        take(draft(run, attempt, &attempts[..nth], recipe))?;
    }
    Ok(())
}

/// Returns true if two entries are the same attempt, whatever the verdicts on them.
fn is_repeated(a: &Attempt<'_>, b: &Attempt<'_>) -> bool {
    // The cheap members first: a run may have a thousand attempts.
    (a.attempt, a.duration_ms) == (b.attempt, b.duration_ms)
        && Attempt { verified: b.verified, judged: b.judged, ..a.clone() } == *b
}

fn draft(
    run: &Run<'_>,
    attempt: &Attempt<'_>,
    before: &[&Attempt<'_>],
    recipe: &Recipe,
) -> Result<Draft, SkipReason> {
    let model = if attempt.model.is_empty() { &run.model_used } else { &attempt.model };
    if recipe.model.as_deref().is_some_and(|wanted| wanted != model) {
        return Err(SkipReason::Filtered);
    }
    // As `manent run exec` records them: what a command printed is nothing that a model said.
    if model.is_empty() && !attempt.sandbox.is_empty() && attempt.output_ref.is_none() {
        return Err(SkipReason::NoModel);
    }
    let verdict = verdict(attempt)?;
    if verdict == AttemptVerdict::Bad && !recipe.format.takes_failures() {
        return Err(SkipReason::Failed);
    }
    let is_first = before.is_empty() && attempt.attempt.is_none_or(|number| number <= 1);
    let mut is_repair = false;
    let prompt = match (&attempt.prompt_ref, run.input) {
        (Some(passage), _) => MessageSource::Records(passage.clone()),
        (None, None) => return Err(SkipReason::NoPrompt),
        (None, Some(input)) if input.len() > ROW_BYTES_MAX => return Err(SkipReason::TooLong),
        (None, Some(input)) if is_first => MessageSource::Messages(messages_of_input(input)),
        (None, Some(input)) if recipe.summaries && !before.is_empty() => {
            is_repair = true;
            let mut messages = messages_of_input(input);
            messages.extend(failed_exchanges(before)?);
            MessageSource::Messages(messages)
        }
        (None, Some(_)) => return Err(SkipReason::UnknownPrompt),
    };
    let answer = match &attempt.output_ref {
        Some(passage) => MessageSource::Records(passage.clone()),
        None if attempt.output_summary.trim().is_empty() => return Err(SkipReason::NoOutput),
        None if !recipe.summaries => return Err(SkipReason::OnlySummary),
        None if attempt.output_summary.len() > ROW_BYTES_MAX => return Err(SkipReason::TooLong),
        None => MessageSource::Messages(vec![ChatMessage::new(Role::Assistant, &*attempt.output_summary)]),
    };
    let failures = if attempt.prompt_ref.is_some() { failures(attempt, before) } else { Vec::new() };
    let model = model.to_string();
    Ok(Draft {
        origin: RowOrigin { seq: run.seq, at_ms: run.at_ms, ..RowOrigin::default() },
        verdict,
        model,
        prompt,
        answer,
        from_summary: attempt.output_ref.is_none(),
        failures,
        is_repair,
        tools: None,
        quoted: Vec::new(),
        memory_left_out: false,
    })
}

/// Returns the verdict on an attempt that was checked. One that was not checked, was interrupted, or could not be run
/// has none, unless a verdict was given afterwards.
fn verdict(attempt: &Attempt<'_>) -> Result<AttemptVerdict, SkipReason> {
    if let (Some(_), Some(is_good)) = (attempt.judged, attempt.verified) {
        return Ok(if is_good { AttemptVerdict::Good } else { AttemptVerdict::Bad });
    }
    let ended_badly = !attempt.error_class.is_empty() || attempt.exit_code.is_some_and(|code| code != 0);
    match attempt.verified {
        Some(true) if ended_badly => Err(SkipReason::Doubtful),
        Some(true) => Ok(AttemptVerdict::Good),
        None if [NOT_CHECKED, NOT_RUN].contains(&&*attempt.error_class) => Err(SkipReason::Unverified),
        _ if attempt.error_class == INTERRUPTED => Err(SkipReason::Unverified),
        Some(false) => Ok(AttemptVerdict::Bad),
        None if ended_badly => Ok(AttemptVerdict::Bad),
        None => Err(SkipReason::Unverified),
    }
}

fn failed(attempt: &Attempt<'_>) -> bool {
    matches!(verdict(attempt), Ok(AttemptVerdict::Bad))
}

/// Returns the failures of earlier attempts that were given another prompt: one with the same prompt cannot know of
/// them.
fn failures(attempt: &Attempt<'_>, before: &[&Attempt<'_>]) -> Vec<EarlierFailure> {
    let other = before.iter().filter(|earlier| earlier.prompt_ref != attempt.prompt_ref);
    let failed = other.filter(|earlier| failed(earlier));
    failed
        .map(|attempt| EarlierFailure {
            output: attempt.output_ref.clone(),
            printed: ends_of(attempt.runner_output.trim()),
        })
        .collect()
}

fn ends_of(printed: &str) -> Vec<String> {
    if printed.len() < PRINTED_BYTES_MIN {
        return Vec::new();
    }
    let head = &printed[..printed.floor_char_boundary(PRINTED_BYTES)];
    let tail = &printed[printed.ceil_char_boundary(printed.len().saturating_sub(PRINTED_BYTES))..];
    if head == tail { vec![head.to_owned()] } else { vec![head.to_owned(), tail.to_owned()] }
}

/// Returns the answers of earlier attempts and the output of their checkers. If one of these is not known, the prompt
/// is not.
fn failed_exchanges(before: &[&Attempt<'_>]) -> Result<Vec<ChatMessage>, SkipReason> {
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for attempt in before {
        let (answered, printed) = (attempt.output_summary.trim(), attempt.runner_output.trim());
        if answered.is_empty() || printed.is_empty() || !failed(attempt) {
            return Err(SkipReason::UnknownPrompt);
        }
        bytes += answered.len() + printed.len();
        if bytes > ROW_BYTES_MAX {
            return Err(SkipReason::TooLong);
        }
        messages.push(ChatMessage::new(Role::Assistant, answered));
        messages.push(ChatMessage::new(Role::User, printed));
    }
    Ok(messages)
}

/// Returns true if a run passes the filters.
pub(super) fn is_wanted(run: &Run<'_>, recipe: &Recipe) -> bool {
    let since = recipe.since_ms.is_none_or(|since| run.at_ms.is_some_and(|at| at >= since));
    let until = recipe.until_ms.is_none_or(|until| run.at_ms.is_some_and(|at| at < until));
    let skill = recipe.skill.as_deref().is_none_or(|skill| run.skill == skill);
    let project = recipe.project.as_deref().is_none_or(|project| run.is_in(project));
    since && until && skill && project
}

/// The longest row: about a million tokens, more than models take at once.
pub(super) const ROW_BYTES_MAX: usize = 4 << 20;
/// The most attempts of a run that are read; no real run has more.
const ATTEMPTS_MAX: usize = 1000;
/// The bytes of printed output that a prompt must contain to count as one that quotes it.
const PRINTED_BYTES: usize = 200;
/// Shorter outputs occur in any prompt by chance.
const PRINTED_BYTES_MIN: usize = 8;
