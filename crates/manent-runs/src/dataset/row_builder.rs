//! Makes the text of a row from a draft. The text depends on the draft and on nothing else.

use manent::similarity::{MinHash, Signature};

use super::clean::Cleaner;
use super::draft::{AttemptVerdict, ChatMessage, Draft, ROW_BYTES_MAX, Role, RowOrigin};
use super::messages::{RowPart, format_messages, push_string, tools};
use super::quote::QuotedRange;
use super::{DatasetFormat, SkipReason};

/// A row as it waits in the spool: pieces of JSON, of which its file's lines are put together.
#[derive(Debug)]
pub(super) struct DatasetRow {
    pub(super) origin: RowOrigin,
    pub(super) verdict: AttemptVerdict,
    pub(super) is_repair: bool,
    /// A hash of the model's name; 0 if that is not known.
    pub(super) model: u32,
    /// Messages, without brackets.
    pub(super) prompt: String,
    pub(super) answer: String,
    /// Members besides, each with a comma before it.
    pub(super) besides: String,
    /// A hash of everything that the model was given.
    pub(super) prompt_hash: u128,
    /// A hash of the prompt and the answer.
    pub(super) hash: u64,
    pub(super) signature: Option<Signature>,
    /// Credentials, names in paths and texts beside calls that were taken out.
    pub(super) secrets: u64,
    pub(super) homes: u64,
    pub(super) beside_calls: u64,
    pub(super) from_summary: bool,
    pub(super) memory_left_out: bool,
    pub(super) quoted: Vec<QuotedRange>,
}

/// Makes rows, with a cache that a thread keeps from row to row.
#[derive(Debug, Default)]
pub(super) struct RowBuilder {
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

impl RowBuilder {
    /// Makes a row of a draft whose quotes were looked up.
    pub(super) fn row(&mut self, draft: Draft, format: DatasetFormat) -> Result<DatasetRow, SkipReason> {
        let (asked, answered) = (draft.prompt.into_messages(), draft.answer.into_messages());
        check(&asked, &answered)?;
        let mut cleaner = Cleaner::default();
        let tools = match &draft.tools {
            Some(json) => self.tools(json, &mut cleaner)?,
            None => None,
        };
        let prompt = format_messages(&asked, RowPart::Prompt, format, &mut cleaner)?;
        let answer = format_messages(&answered, RowPart::Answer, format, &mut cleaner)?;
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
        Ok(DatasetRow {
            origin: draft.origin,
            verdict: draft.verdict,
            is_repair: draft.is_repair,
            model: model_number(&draft.model),
            hash: first_half(&hasher) as u64,
            prompt_hash,
            signature: signature(&asked, &answered),
            secrets: cleaner.secrets,
            homes: cleaner.homes,
            beside_calls,
            from_summary: draft.from_summary,
            memory_left_out: draft.memory_left_out,
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
        cleaner.absorb(&tools.cleaner);
        let written = Some(tools.written.clone()).filter(|written| written != "[]");
        self.tools = Some(tools);
        Ok(written)
    }
}

/// A prompt asks, an answer answers.
fn check(asked: &[ChatMessage], answered: &[ChatMessage]) -> Result<(), SkipReason> {
    let asks = asked.last().is_some_and(|last| matches!(last.role, Role::User | Role::Tool));
    let says = asked.iter().any(|said| said.role != Role::System && !said.content.trim().is_empty());
    let answers = answered.last().is_some_and(|last| last.role == Role::Assistant);
    if !says {
        return Err(SkipReason::NoPrompt);
    }
    if asks && answers { Ok(()) } else { Err(SkipReason::OddShape) }
}

/// Returns the signature of what tells a row from others: the last thing that was asked, and the answer. A long
/// conversation is in the prompts of all its answers, and a system text in those of all conversations.
fn signature(asked: &[ChatMessage], answered: &[ChatMessage]) -> Option<Signature> {
    let last = asked.iter().rposition(|said| said.role == Role::Assistant).map_or(0, |at| at + 1);
    let mut triples = WordTriples::default();
    let tail = asked[last..].iter().filter(|said| said.role != Role::System);
    for said in tail.chain(answered) {
        triples.add(&said.content);
        triples.add(said.calls.as_deref().unwrap_or_default());
    }
    triples.signature()
}

/// The set of the word triples of a text, for its `MinHash` signature.
#[derive(Debug, Default)]
pub(super) struct WordTriples {
    set: MinHash,
    /// The hashes of the last two words.
    before: (u64, u64),
    words: u64,
}

impl WordTriples {
    /// Adds a text. Case and punctuation do not count.
    pub(super) fn add(&mut self, text: &str) {
        let mut word = 0_u64;
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || byte >= 0x80 {
                word = (word.rotate_left(5) ^ u64::from(byte | 0x20)).wrapping_mul(WORD_MULTIPLIER);
            } else if word != 0 {
                self.add_word(word);
                word = 0;
            }
        }
        if word != 0 {
            self.add_word(word);
        }
    }

    fn add_word(&mut self, word: u64) {
        self.words += 1;
        let (first, second) = self.before;
        self.before = (second, word);
        if self.words >= 3 {
            let triple =
                first.wrapping_mul(3).rotate_left(17) ^ second.wrapping_mul(5).rotate_left(31) ^ word;
            self.set.insert(triple);
        }
    }

    /// Returns the signature, or `None` for a text too short to be compared but to the letter.
    pub(super) fn signature(&self) -> Option<Signature> {
        (self.words >= WORDS_MIN).then(|| self.set.rotated_signature())
    }
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

/// A text of fewer words is like many others.
const WORDS_MIN: u64 = 8;
const WORD_MULTIPLIER: u64 = 0xFF51_AFD7_ED55_8CCD;
