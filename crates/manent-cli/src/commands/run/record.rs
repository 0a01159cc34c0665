//! `manent run record [SESSION] [JSON|-]`: entries that other programs made, each once.
//!
//! What arrives together is committed together, by session. One entry that cannot be recorded keeps none of the others
//! out: it is named, and the exit code says that there was one.

use std::io::{self, BufRead, IsTerminal, Read};

use manent::log::frame::RECORD_BYTES_MAX;
use manent::{Durability, SessionKey};
use manent_runs::{NewEntry, Oddity, RunReceipt, Runs};
use serde_json::json;

use crate::args::Level;
use crate::args::run::Record;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Record) -> Result<Exit, Failure> {
    let (session, entry) = what_is_what(given)?;
    let durability = match given.durability {
        Level::Sync => Durability::Sync,
        Level::Group => Durability::Group,
        Level::Flush => Durability::Flush,
    };
    let mut recorder = Recorder {
        context,
        runs: super::runs(context, given.wait.time)?,
        session,
        durability,
        output: Some(context.output()),
        batch: Vec::new(),
        worst: Exit::Done,
        troubles: 0,
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

/// Which of the two words is the session, and which the entry. Nothing for an entry: standard input.
fn what_is_what(given: &Record) -> Result<(Option<SessionKey>, Option<&str>), Failure> {
    let is_entry = |word: &str| word == "-" || word.trim_start().starts_with('{');
    let (session, entry) = match (given.first.as_deref(), given.second.as_deref()) {
        (Some(word), None) if is_entry(word) => (None, Some(word)),
        (session, entry) => (session, entry),
    };
    let session = session.map(context::key).transpose()?;
    Ok((session, entry.filter(|entry| *entry != "-")))
}

struct Recorder<'a> {
    context: &'a Context<'a>,
    runs: Runs,
    /// Nothing: the one that each entry names.
    session: Option<SessionKey>,
    durability: Durability,
    /// Where receipts go, as long as somebody reads them.
    output: Option<Output>,
    batch: Vec<Waiting>,
    worst: Exit,
    /// How often something was complained of, and how often something was odd.
    troubles: u64,
    oddities: u64,
    /// How many entries were recorded before, and may be lost.
    unsure: u64,
    refused: u64,
}

/// An entry that came and is not recorded yet.
struct Waiting {
    /// Where it stands on standard input.
    line: Option<u64>,
    session: SessionKey,
    /// Until it is recorded.
    entry: Option<NewEntry>,
    oddities: Vec<Oddity>,
}

impl Recorder<'_> {
    fn stream(&mut self) -> Result<(), Failure> {
        if io::stdin().is_terminal() {
            self.context.note("reading from the terminal; end with Ctrl-D on a line of its own");
        }
        let mut input = io::BufReader::with_capacity(256 << 10, io::stdin().lock());
        let mut number = 0_u64;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = read_line(&mut input, &mut line);
            number += 1;
            let outcome = match read {
                Ok(Came::Nothing) => return self.commit(),
                Ok(Came::TooLong(bytes)) => {
                    self.complain(Some(number), &too_large(bytes));
                    Ok(())
                }
                Ok(Came::Line) => {
                    if !line.iter().all(u8::is_ascii_whitespace) {
                        self.take(Some(number), &line);
                    }
                    Ok(())
                }
                Err(e) => Err(e),
            };
            // Nothing waits for a line that has not come yet; and what came before an error is kept.
            let waiting = input.buffer().contains(&b'\n');
            if !waiting || self.batch.len() >= BATCH_ENTRIES_MAX || outcome.is_err() {
                self.commit()?;
            }
            outcome?;
        }
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
        self.troubles += 1;
        if self.troubles <= TOLD_MAX {
            let place = line.map_or_else(String::new, |line| format!("line {line} of standard input: "));
            self.context.complain(&Failure::new(failure.exit, format!("{place}{}", failure.message)));
        }
    }

    /// Records what came, session by session, and gives the receipts in the order in which it came.
    fn commit(&mut self) -> Result<(), Failure> {
        let mut batch = std::mem::take(&mut self.batch);
        let mut receipts: Vec<Option<RunReceipt>> = vec![None; batch.len()];
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_by(|a, b| batch[*a].session.cmp(&batch[*b].session));
        let of_one = order.chunk_by(|a, b| batch[*a].session == batch[*b].session);
        let groups: Vec<Vec<usize>> = of_one.map(<[usize]>::to_vec).collect();
        for group in groups {
            let session = batch[group[0]].session.clone();
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
            self.tell(waiting, &recorded)?;
        }
        if let Some(output) = &mut self.output {
            match output.flush() {
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => self.output = None,
                flushed => flushed?,
            }
        }
        Ok(())
    }

    /// Names an entry that was recorded before, and of which nobody knows whether it is as durable as asked.
    fn doubt(&mut self, waiting: &Waiting, recorded: &RunReceipt) {
        if recorded.receipt.durability == self.durability {
            return;
        }
        self.worst = self.worst.max(Exit::Unknown);
        self.unsure += 1;
        if self.unsure <= TOLD_MAX {
            let place = waiting.line.map_or_else(|| "the entry".to_owned(), |line| format!("line {line}"));
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
        if self.oddities <= TOLD_MAX {
            let place = waiting.line.map_or_else(|| "the entry".to_owned(), |line| format!("line {line}"));
            let odd: Vec<String> = waiting.oddities.iter().map(Oddity::to_string).collect();
            self.context.warn(&format!("{place} is kept, but odd: {}", odd.join("; ")));
        }
    }

    fn tell(&mut self, waiting: &Waiting, recorded: &RunReceipt) -> io::Result<()> {
        let Some(output) = &mut self.output else { return Ok(()) };
        let RunReceipt { run_id, receipt, repeated, .. } = recorded;
        let session = &waiting.session;
        let told = if output.json {
            let odd: Vec<String> = waiting.oddities.iter().map(Oddity::to_string).collect();
            output.json(&json!({
                "session": session.as_str(), "id": &*receipt.id, "seq": receipt.seq,
                "offset": receipt.position.raw(), "durability": receipt.durability.word(),
                "run_id": run_id, "repeated": repeated, "oddities": odd,
            }))
        } else {
            let before = if *repeated { "  recorded before" } else { "" };
            let text = format!("{} {}  {}", term::line(session.as_str()), receipt.seq, term::line(run_id));
            output.line(&[(anstyle::Style::new(), &text), (term::FAINT, before)])
        };
        match told {
            // Nobody reads the receipts any more. The entries go on being kept: that is what was asked for.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {
                self.output = None;
                Ok(())
            }
            told => told,
        }
    }

    fn sum_up(&self) {
        if self.troubles > TOLD_MAX {
            let message =
                format!("{} entries were not recorded; the first are named above", term::count(self.refused));
            self.context.complain(&Failure::new(self.worst, message));
        }
        if self.unsure > TOLD_MAX {
            let unsure = term::count(self.unsure);
            self.context.warn(&format!("of {unsure} entries it is unknown whether they survive a power cut"));
        }
        if self.oddities > TOLD_MAX {
            self.context.warn(&format!("{} entries are odd in some way", term::count(self.oddities)));
        }
    }
}

/// What standard input gave.
enum Came {
    Line,
    TooLong(u64),
    Nothing,
}

/// Reads one line, at most as long as a record may be. Of a longer one nothing is kept, and all of it is passed over.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<Came, Failure> {
    let n = input.by_ref().take(RECORD_BYTES_MAX as u64 + 1).read_until(b'\n', line)?;
    if n <= RECORD_BYTES_MAX {
        return Ok(if n == 0 { Came::Nothing } else { Came::Line });
    }
    let mut bytes = n as u64;
    while !line.ends_with(b"\n") {
        line.clear();
        let n = input.by_ref().take(SKIPPED_BYTES).read_until(b'\n', line)?;
        bytes += n as u64;
        if n == 0 {
            break;
        }
    }
    // What was read of it need not be kept in memory until a longer one comes.
    *line = Vec::new();
    Ok(Came::TooLong(bytes))
}

fn too_large(bytes: u64) -> Failure {
    manent::log::Error::TooLarge { bytes, max: RECORD_BYTES_MAX as u64 }.into()
}

const BATCH_ENTRIES_MAX: usize = 256;
/// After so many complaints, the rest is counted.
const TOLD_MAX: u64 = 20;
const SKIPPED_BYTES: u64 = 1 << 20;
