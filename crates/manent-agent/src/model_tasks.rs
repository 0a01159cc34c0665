//! What the library has a model do: sum up a conversation, tell what happened in it, find what is worth remembering.
//!
//! The library decides what is asked and what is believed; here is how it is asked. It waits for answers, so it is
//! used where waiting hurts nobody: in a command, or in a thread of its own.

use manent::consolidate::{self, Extractor, ExtractorError, ExtractorReply, TokensSpent};
use manent::context::Summariser;
use manent::tokens::Tokens;
use manent_runs::retrospective::{self, Narrator};
use serde_json::Value;

use crate::providers::{Message, ModelError, Reply, Request};

/// Asks a model, and waits for the answer.
pub type Ask<'a> = dyn FnMut(&Request) -> Result<Reply, ModelError> + 'a;

/// A model at work for the library.
pub struct ModelTasks<'a> {
    model: String,
    window: u64,
    ask: Box<Ask<'a>>,
}

impl<'a> ModelTasks<'a> {
    /// A model of this name, with a window of so many tokens.
    pub fn new(
        model: &str,
        window: u64,
        ask: impl FnMut(&Request) -> Result<Reply, ModelError> + 'a,
    ) -> ModelTasks<'a> {
        ModelTasks { model: model.to_owned(), window, ask: Box::new(ask) }
    }

    fn ask(
        &mut self,
        task: &str,
        given: &str,
        max_tokens: u64,
        format: Option<Value>,
    ) -> Result<Reply, ModelError> {
        let messages = vec![Message::new("system", task), Message::new("user", given)];
        let tokens = Tokens::default();
        let request = Request {
            counted: tokens.count(task) + tokens.count(given),
            messages,
            format,
            // Thinking aloud takes the room of the answer, and is of no use for it.
            think: Some(false),
            max_tokens: Some(max_tokens),
            temperature: Some(0.0),
            seed: Some(SEED),
            ..Request::default()
        };
        (self.ask)(&request)
    }
}

impl std::fmt::Debug for ModelTasks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ModelTasks")
            .field("model", &self.model)
            .field("window", &self.window)
            .finish_non_exhaustive()
    }
}

impl Summariser for ModelTasks<'_> {
    fn name(&self) -> &str {
        &self.model
    }

    fn prompt(&self) -> &'static str {
        SUMMARISE
    }

    fn max_input(&self) -> u64 {
        // The summary before, what is asked and the answer need room too.
        self.window / 2
    }

    fn summarise(&mut self, before: &str, transcript: &str, max_tokens: u64) -> Result<String, String> {
        let before = if before.is_empty() { "(none yet)" } else { before };
        let given = format!(
            "Summary so far:\n{before}\n\nWhat was said since:\n{transcript}\n\nWrite the new summary, in at most \
             {max_tokens} tokens."
        );
        let reply = self.ask(SUMMARISE, &given, max_tokens, None).map_err(|e| e.to_string())?;
        match (reply.truncated, reply.text.trim()) {
            (Some(cut), _) => {
                Err(format!("the server read only {} of some {} tokens", cut.read, cut.counted))
            }
            (None, "") => Err("the model said nothing".to_owned()),
            (None, text) => Ok(text.to_owned()),
        }
    }
}

impl Extractor for ModelTasks<'_> {
    fn name(&self) -> &str {
        &self.model
    }

    fn prompt(&self) -> &'static str {
        CONSOLIDATE
    }

    fn max_input(&self) -> u64 {
        (self.window / 2).min(PASSAGE_TOKENS)
    }

    fn daily(&mut self, transcript: &str) -> Result<ExtractorReply, ExtractorError> {
        let task = part(CONSOLIDATE, 0);
        said(self.ask(task, transcript, DAILY_TOKENS, None))
    }

    fn facts(
        &mut self,
        evidence: &str,
        complaint: Option<(&str, &str)>,
    ) -> Result<ExtractorReply, ExtractorError> {
        let task = part(CONSOLIDATE, 1);
        let given = with_complaint(evidence, complaint);
        said(self.ask(task, &given, FACTS_TOKENS, Some(consolidate::schema())))
    }
}

impl Narrator for ModelTasks<'_> {
    fn name(&self) -> &str {
        &self.model
    }

    fn max_bytes(&self) -> usize {
        // A token of JSON is two bytes and a half; half of the window is for what is asked and answered.
        usize::try_from(self.window).unwrap_or(usize::MAX / 4).saturating_mul(5) / 4
    }

    fn tell(&mut self, facts: &str, complaint: Option<(&str, &str)>) -> Result<String, String> {
        let given = with_complaint(facts, complaint);
        let format = Some(retrospective::schema());
        let reply = self.ask(retrospective::TASK, &given, NARRATIVE_TOKENS, format);
        reply.map(|reply| reply.text).map_err(|e| e.to_string())
    }
}

/// The text for a model: with its answer and what was wrong with it, if it answers again.
fn with_complaint(given: &str, complaint: Option<(&str, &str)>) -> String {
    let Some((answer, wrong)) = complaint else { return given.to_owned() };
    format!(
        "{given}\nYou answered before:\n{answer}\n\nThat cannot be read: {wrong}. Answer again, with the JSON alone."
    )
}

fn said(reply: Result<Reply, ModelError>) -> Result<ExtractorReply, ExtractorError> {
    let reply = reply.map_err(|error| {
        let why = error.to_string();
        match error {
            // The fault is not in the passage that was to be read.
            ModelError::Unreachable { .. }
            | ModelError::Address { .. }
            | ModelError::NoSuchModel { .. }
            | ModelError::Refused { .. }
            | ModelError::Busy { .. } => ExtractorError::Unavailable(why),
            _ => ExtractorError::Refused(why),
        }
    })?;
    let spent =
        TokensSpent { input: reply.usage.input.unwrap_or(0), output: reply.usage.output.unwrap_or(0) };
    Ok(ExtractorReply { text: reply.text, spent })
}

/// One of the two tasks.
fn part(prompt: &'static str, nth: usize) -> &'static str {
    prompt.split(BETWEEN).nth(nth).unwrap_or(prompt).trim()
}

const SUMMARISE: &str = "You keep the summary of a conversation between a user and an assistant that uses tools. You \
    are given the summary so far and what was said since, and write the summary anew, complete. Keep, word for word: \
    what the user wants and decided, file paths, names, numbers, ids, commands, error messages, what was tried and \
    failed, and what is still to be done. Drop greetings and outputs that led nowhere. Do not continue the \
    conversation, do not answer it, do not invent anything. Write short plain sentences under the headings: Goal, \
    Decided, Done, Failed, Open, Facts.";

const CONSOLIDATE: &str = "Tell in one or two plain sentences what happened in this conversation, for a diary: what \
    the user wanted and what came of it. Use the words that were used. Name nothing that is not in it. Write the \
    sentences alone.\
    \n=====\n\
    You are given what a user said, one turn a line. Find what is worth remembering in later conversations: lasting \
    facts about the user and their work (kind \"fact\"), what they like to have and how (kind \"pref\"), plans and \
    projects under way (kind \"context\"). Not: questions, requests of the moment, thanks. Most turns hold nothing: \
    then answer {\"facts\":[]}. For each: \"quote\" is the whole sentence of the user, copied letter for letter; \
    \"content\" is the same sentence in the third person (\"The user …\"), with the same words. Answer with JSON \
    alone: {\"facts\":[{\"kind\":…,\"quote\":…,\"content\":…}]}.";

const BETWEEN: &str = "\n=====\n";
const SEED: u64 = 1;
/// A passage that small models still have an eye for.
const PASSAGE_TOKENS: u64 = 3000;
const DAILY_TOKENS: u64 = 200;
const FACTS_TOKENS: u64 = 1000;
const NARRATIVE_TOKENS: u64 = 1200;
