//! `manent run record [SESSION] [JSON|-]`: entries that other programs made, each once.
//!
//! Entries that arrive together are committed together, by session. One entry that cannot be recorded keeps none of the
//! others out: it is named, and the exit code says that there was one.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use manent::{Durability, SessionKey};
use manent_runs::{NewEntry, Oddity, RunReceipt, Runs};

use crate::commands::prelude::*;
use crate::input::{InputLine, InputLines, too_large};
use crate::output::{ReceiptOutput, receipt_json};

/// Record runs that another program made: one JSON entry, or one a line on standard input
#[derive(Debug, Args)]
#[command(after_help = RECORD_NOTES)]
pub(crate) struct RunRecordArgs {
    /// The session [default: the `session_id` of each entry]
    #[arg(value_name = "SESSION")]
    first: Option<String>,
    /// A JSON object; one a line from standard input if it is left out or '-'
    #[arg(value_name = "JSON")]
    second: Option<String>,
    /// What a receipt promises: sync and group survive power loss, flush survives kill -9
    #[arg(long, value_parser = durability(), default_value = "sync", value_name = "LEVEL")]
    durability: Durability,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &RunRecordArgs) -> Result<Exit, Failure> {
    let (session, entry) = session_and_entry(args)?;
    let mut recorder = Recorder {
        context,
        runs: super::runs(context, args.wait.time)?,
        session,
        durability: args.durability,
        output: ReceiptOutput(Some(context.output())),
        batch: Vec::new(),
        worst: Exit::Done,
        oddities: 0,
        unsure: 0,
        refused: 0,
    };
    match entry {
        Some(entry) => {
            recorder.take(None, entry.as_bytes());
            recorder.commit()?;
        }
        None => recorder.stream()?,
    }
    recorder.sum_up();
    Ok(recorder.worst)
}

/// Tells the two words apart: the session, and the entry, which is `None` for standard input.
fn session_and_entry(args: &RunRecordArgs) -> Result<(Option<SessionKey>, Option<&str>), Failure> {
    let is_entry = |word: &str| word == "-" || word.trim_start().starts_with('{');
    let (session, entry) = match (args.first.as_deref(), args.second.as_deref()) {
        (Some(word), None) if is_entry(word) => (None, Some(word)),
        (session, entry) => (session, entry),
    };
    let session = session.map(session_key).transpose()?;
    Ok((session, entry.filter(|entry| *entry != "-")))
}

struct Recorder<'a> {
    context: &'a Context<'a>,
    runs: Runs,
    /// `None` for the session that each entry names.
    session: Option<SessionKey>,
    durability: Durability,
    output: ReceiptOutput,
    batch: Vec<Waiting>,
    worst: Exit,
    /// The number of entries with oddities.
    oddities: u64,
    /// The number of entries that were recorded before, and may not survive a power cut.
    unsure: u64,
    refused: u64,
}

/// An entry that came and is not recorded yet.
struct Waiting {
    /// The line on standard input.
    line: Option<u64>,
    session: SessionKey,
    /// `None` once it is being recorded.
    entry: Option<NewEntry>,
    oddities: Vec<Oddity>,
}

impl Waiting {
    fn place(&self) -> String {
        self.line.map_or_else(|| "the entry".to_owned(), |line| format!("line {line}"))
    }
}

impl Recorder<'_> {
    fn stream(&mut self) -> Result<(), Failure> {
        if io::stdin().is_terminal() {
            self.context.note("reading from the terminal; end with Ctrl-D on a line of its own");
        }
        let mut input = InputLines::new();
        loop {
            let step = self.read_line(&mut input);
            // Entries do not wait for a line that has not come yet, and those before an error are recorded.
            if !input.has_more() || self.batch.len() >= BATCH_ENTRIES_MAX || step.is_err() {
                self.commit()?;
            }
            if step? == InputLine::End {
                return self.commit();
            }
        }
    }

    fn read_line(&mut self, input: &mut InputLines) -> Result<InputLine, Failure> {
        let read = input.next()?;
        match read {
            InputLine::TooLong => {
                let bytes = input.skip_rest()?;
                self.complain(Some(input.number), &too_large(bytes));
            }
            InputLine::Complete if !input.line.trim_ascii().is_empty() => {
                self.take(Some(input.number), &input.line);
            }
            InputLine::Complete | InputLine::End => {}
        }
        Ok(read)
    }

    /// Checks an entry and puts it with those that are going to be recorded.
    fn take(&mut self, line: Option<u64>, bytes: &[u8]) {
        // A file from elsewhere may begin with a mark of its encoding.
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let checked = NewEntry::parse(bytes).map_err(manent_runs::Error::from).and_then(|entry| {
            let session = match &self.session {
                Some(session) => session.clone(),
                None => entry.session()?,
            };
            entry.check_size(&session)?;
            let oddities = entry.oddities.clone();
            Ok(Waiting { line, session, entry: Some(entry), oddities })
        });
        match checked {
            Ok(waiting) => self.batch.push(waiting),
            Err(e) => self.complain(line, &e.into()),
        }
    }

    fn complain(&mut self, line: Option<u64>, failure: &Failure) {
        self.worst = self.worst.max(failure.exit);
        self.refused += 1;
        if self.refused <= MESSAGES_MAX {
            let place = line.map_or_else(String::new, |line| format!("line {line} of standard input: "));
            self.context.complain(&Failure::new(failure.exit, format!("{place}{}", failure.message)));
        }
    }

    /// Records the batch, session by session, and prints the receipts in the order of the entries.
    fn commit(&mut self) -> Result<(), Failure> {
        let mut batch = std::mem::take(&mut self.batch);
        let mut receipts: Vec<Option<RunReceipt>> = vec![None; batch.len()];
        let mut groups: BTreeMap<SessionKey, Vec<usize>> = BTreeMap::new();
        for (nth, waiting) in batch.iter().enumerate() {
            groups.entry(waiting.session.clone()).or_default().push(nth);
        }
        for (session, group) in groups {
            let entries: Vec<NewEntry> = group.iter().filter_map(|nth| batch[*nth].entry.take()).collect();
            match self.runs.record(&session, &entries, self.durability) {
                Ok(recorded) => {
                    for (nth, recorded) in group.iter().zip(recorded) {
                        receipts[*nth] = Some(recorded);
                    }
                }
                Err(e) => {
                    let failure = Failure::from(e);
                    for nth in &group {
                        self.complain(batch[*nth].line, &failure);
                    }
                }
            }
        }
        for (waiting, recorded) in batch.iter().zip(receipts) {
            let Some(recorded) = recorded else { continue };
            if !recorded.repeated {
                self.remark(waiting);
            }
            self.doubt(waiting, &recorded);
            self.output.write(|output| print(output, waiting, &recorded))?;
        }
        Ok(self.output.write(Output::flush)?)
    }

    /// Names an entry that was recorded before, and of which nobody knows whether it is as durable as asked.
    fn doubt(&mut self, waiting: &Waiting, recorded: &RunReceipt) {
        if recorded.receipt.durability == self.durability {
            return;
        }
        self.worst = self.worst.max(Exit::Unknown);
        self.unsure += 1;
        if self.unsure <= MESSAGES_MAX {
            let place = waiting.place();
            self.context.warn(&format!(
                "{place} is recorded already, in another program's file, in which nothing is written again: it is \
                 unknown whether it survives a power cut"
            ));
        }
    }

    /// Names what is odd about an entry that was recorded.
    fn remark(&mut self, waiting: &Waiting) {
        if waiting.oddities.is_empty() {
            return;
        }
        self.oddities += 1;
        if self.oddities <= MESSAGES_MAX {
            let odd: Vec<String> = waiting.oddities.iter().map(Oddity::to_string).collect();
            self.context.warn(&format!("{} is kept, but odd: {}", waiting.place(), odd.join("; ")));
        }
    }

    fn sum_up(&self) {
        if self.refused > MESSAGES_MAX {
            let message =
                format!("{} entries were not recorded; the first are named above", term::count(self.refused));
            self.context.complain(&Failure::new(self.worst, message));
        }
        if self.unsure > MESSAGES_MAX {
            let unsure = term::count(self.unsure);
            self.context.warn(&format!("of {unsure} entries it is unknown whether they survive a power cut"));
        }
        if self.oddities > MESSAGES_MAX {
            self.context.warn(&format!("{} entries are odd in some way", term::count(self.oddities)));
        }
    }
}

fn print(output: &mut Output, waiting: &Waiting, recorded: &RunReceipt) -> io::Result<()> {
    let RunReceipt { run_id, receipt, repeated, .. } = recorded;
    let session = &waiting.session;
    if output.wants_json {
        let mut line = receipt_json(session, Some(receipt));
        line["run_id"] = run_id.as_str().into();
        line["repeated"] = (*repeated).into();
        line["oddities"] = waiting.oddities.iter().map(Oddity::to_string).collect();
        return output.json(&line);
    }
    let before = if *repeated { "  recorded before" } else { "" };
    let text = format!("{} {}  {}", term::line(session.as_str()), receipt.seq, term::line(run_id));
    output.line(&[(Style::new(), &text), (term::FAINT, before)])
}

const BATCH_ENTRIES_MAX: usize = 256;
/// The number of messages of a kind that are printed; the rest is counted.
const MESSAGES_MAX: u64 = 20;

const RECORD_NOTES: &str = "\
An entry with an idempotency_key (or a run_id) that was recorded before is not recorded again, and
gets the receipt of then. What cannot be recorded is named, and the rest goes in.

Examples:
  manent run record '{\"session_id\":\"work\",\"skill\":\"lint\",\"final_status\":\"success\"}'
  cat runs.jsonl | manent run record --json";
