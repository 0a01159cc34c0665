//! From a draft to the text of a row. Done in several threads: it depends on the draft and on nothing else.

use super::alike::{Shingles, Signature};
use super::clean::Cleaner;
use super::draft::{Answered, Asked, Draft, Origin, ROW_BYTES_MAX, Role, Said, Verdict};
use super::gather::Counted;
use super::quote::Quoted;
use super::shape::{Part, messages_of_input, push_string, shape, tools};
use super::{DatasetFormat, SkipReason};

/// A row as it waits in the spool: pieces of JSON, of which its file's lines are put together.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) origin: Origin,
    pub(super) verdict: Verdict,
    pub(super) is_repair: bool,
    /// Of the model's name; 0 if that is not known.
    pub(super) model: u32,
    /// Messages, without brackets.
    pub(super) prompt: String,
    pub(super) answer: String,
    /// Members besides, each with a comma before it.
    pub(super) besides: String,
    /// Of everything that the model was given.
    pub(super) prompt_hash: u128,
    /// Of that, and of what it answered.
    pub(super) hash: u64,
    pub(super) signature: Option<Signature>,
    pub(super) counts: Counted,
    pub(super) quoted: Vec<Quoted>,
}

/// What a thread keeps from row to row.
#[derive(Debug, Default)]
pub(super) struct Worker {
    /// Tools are the same in many rows.
    tools: Option<Tools>,
}

/// Tools as they were given, as they are written, and what was found in them.
#[derive(Debug)]
struct Tools {
    given: String,
    written: String,
    cleaner: Cleaner,
}

impl Worker {
    /// Makes rows of drafts, in their order. Those of which nothing can be made are counted.
    pub(super) fn rows(
        &mut self,
        drafts: Vec<Draft>,
        format: DatasetFormat,
        left_out: &mut Vec<(u32, SkipReason, u64)>,
    ) -> Vec<Row> {
        let mut rows = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let run = draft.origin.run;
            match self.row(draft, format) {
                Ok(row) => rows.push(row),
                Err(why) => left_out.push((run, why, 1)),
            }
        }
        rows
    }

    fn row(&mut self, draft: Draft, format: DatasetFormat) -> Result<Row, SkipReason> {
        let is_summary = matches!(draft.answered, Answered::Summary(_));
        let asked = asked(draft.asked);
        let answered = answered(draft.answered);
        check(&asked, &answered)?;
        let mut cleaner = Cleaner::default();
        let tools = match &draft.tools {
            Some(json) => self.tools(json, &mut cleaner)?,
            None => None,
        };
        let prompt = shape(&asked, Part::Prompt, format, &mut cleaner)?;
        let answer = shape(&answered, Part::Answer, format, &mut cleaner)?;
        let mut besides = String::new();
        if let Some(tools) = &tools {
            besides.push_str(",\"tools\":");
            match format {
                DatasetFormat::OpenAi => besides.push_str(tools),
                // As a text: see `arguments`.
                _ => push_string(&mut besides, tools),
            }
        }
        if let Some(system) = &prompt.system {
            besides.push_str(",\"system\":");
            push_string(&mut besides, system);
        }
        let beside_calls = prompt.beside_calls + answer.beside_calls;
        let prompt = cleaner.json(prompt.members)?;
        let answer = cleaner.json(answer.members)?;
        if !besides.is_empty() {
            // Its members are those of an object, and checked as one of a list.
            let checked = cleaner.json(format!("{{{}}}", besides.trim_start_matches(',')))?;
            besides = format!(",{}", checked.trim_start_matches('{').strip_suffix('}').unwrap_or_default());
        }
        if prompt.len() + answer.len() + besides.len() > ROW_BYTES_MAX {
            return Err(SkipReason::TooLong);
        }
        let mut hasher = hasher(&[&prompt, &besides]);
        let prompt_hash = first_half(&hasher);
        hasher.update(answer.as_bytes());
        Ok(Row {
            origin: draft.origin,
            verdict: draft.verdict,
            is_repair: draft.is_repair,
            model: model_number(&draft.model),
            hash: first_half(&hasher) as u64,
            prompt_hash,
            signature: signature(&asked, &answered),
            counts: Counted {
                secrets: cleaner.secrets,
                homes: cleaner.homes,
                beside_calls,
                from_summary: is_summary,
                memory_left_out: draft.memory_left_out,
            },
            quoted: draft.quoted,
            prompt,
            answer,
            besides,
        })
    }

    fn tools(&mut self, json: &str, cleaner: &mut Cleaner) -> Result<Option<String>, SkipReason> {
        let known = self.tools.take().filter(|tools| tools.given == json);
        let tools = if let Some(tools) = known {
            tools
        } else {
            let mut cleaner = Cleaner::default();
            let written = tools(json, &mut cleaner)?;
            Tools { given: json.to_owned(), written, cleaner }
        };
        // Of every row, and not only of the first that has these tools.
        cleaner.take_up(&tools.cleaner);
        let written = Some(tools.written.clone()).filter(|written| written != "[]");
        self.tools = Some(tools);
        Ok(written)
    }
}

fn asked(asked: Asked) -> Vec<Said> {
    let said = |role: Role, content: String| Said { role, content, ..Said::default() };
    match asked {
        Asked::Messages(messages) => messages,
        Asked::Input(input) => messages_of_input(&input),
        Asked::Told(input, told) => {
            let mut messages = messages_of_input(&input);
            for (answered, printed) in told {
                messages.push(said(Role::Assistant, answered));
                messages.push(said(Role::User, printed));
            }
            messages
        }
        // Looked up before.
        Asked::Records(_) => Vec::new(),
    }
}

fn answered(answered: Answered) -> Vec<Said> {
    match answered {
        Answered::Messages(messages) => messages,
        Answered::Summary(content) => vec![Said { role: Role::Assistant, content, ..Said::default() }],
        Answered::Records(_) => Vec::new(),
    }
}

/// A prompt asks, an answer answers.
fn check(asked: &[Said], answered: &[Said]) -> Result<(), SkipReason> {
    let asks = asked.last().is_some_and(|last| matches!(last.role, Role::User | Role::Tool));
    let says = asked.iter().any(|said| said.role != Role::System && !said.content.trim().is_empty());
    let answers = answered.last().is_some_and(|last| last.role == Role::Assistant);
    if !says {
        return Err(SkipReason::NoPrompt);
    }
    if asks && answers { Ok(()) } else { Err(SkipReason::OddShape) }
}

/// Of what tells a row from others: the last thing that was asked, and the answer. A long conversation is in the
/// prompts of all its answers, and a system text in those of all conversations.
fn signature(asked: &[Said], answered: &[Said]) -> Option<Signature> {
    let last = asked.iter().rposition(|said| said.role == Role::Assistant).map_or(0, |at| at + 1);
    let mut shingles = Shingles::new();
    let tail = asked[last..].iter().filter(|said| said.role != Role::System);
    for said in tail.chain(answered) {
        shingles.add(&said.content);
        shingles.add(said.calls.as_deref().unwrap_or_default());
    }
    shingles.signature()
}

/// The same for the same name, nothing for none.
fn model_number(name: &str) -> u32 {
    if name.is_empty() { 0 } else { (first_half(&hasher(&[name])) as u32).max(1) }
}

fn hasher(texts: &[&str]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher
}

fn first_half(hasher: &blake3::Hasher) -> u128 {
    hasher.finalize().as_bytes().first_chunk().map_or(0, |first| u128::from_le_bytes(*first))
}
