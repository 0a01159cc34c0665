//! `manent show KEY`: what a session holds, from the beginning, the end or a number, and along as it grows.

use std::io;
use std::time::Duration;

use anstyle::Style;
use manent::{Damage, Growth, LogEnd, LogItem, Place, Reader, Record, SessionKey, Start, Store, StreamId};

use super::{missing, named};
use crate::args::Show;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{term, when};

pub(crate) fn run(context: &Context<'_>, given: &Show) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut output = context.output();
    if given.raw && output.terminal {
        let why = "--raw is not for a terminal: a transcript can hold sequences that drive it";
        return Err(Failure::new(Exit::Usage, format!("{why}; send it to a file or a pipe")));
    }
    let start = match (given.tail, given.from) {
        (Some(count), _) => Start::Tail { count, before: None },
        (None, Some(seq)) => Start::Seq(seq),
        (None, None) => Start::First,
    };
    let (at, mut reader) = open(&store, &given.key, start)?;
    let grows = at.place == Place::Live;
    let mut shown = Shown { context, key: at.key, raw: given.raw, now_ms: when::now_ms() };
    loop {
        shown.rest(&mut reader, &mut output)?;
        output.flush()?;
        if !given.follow || !grows {
            break;
        }
        wait_for_growth(&reader, &shown.key)?;
        shown.now_ms = when::now_ms();
    }
    if given.follow && !grows {
        context.note(&format!("{} is {} and does not grow", shown.key, at.place.word()));
    }
    if let LogEnd::Torn(torn) = reader.end() {
        shown.warn_of_torn_end(&torn, at.place);
    }
    Ok(Exit::Done)
}

/// Opens the session that was named. It may be archived between our look and our open: then we look again.
pub(super) fn open(store: &Store, name: &str, start: Start) -> Result<(StreamId, Reader), Failure> {
    let mut looks = LOOKS_MAX;
    loop {
        let found = named(store, name, |key| store.find(key));
        let at = found.map_err(|failure| missing::explain(store, name, failure))?.id;
        looks -= 1;
        match store.read(&at, start) {
            Err(e) if e.is_not_found() && looks > 0 => {}
            read => return Ok((at, read?)),
        }
    }
}

struct Shown<'a> {
    context: &'a Context<'a>,
    key: SessionKey,
    raw: bool,
    now_ms: i64,
}

impl Shown<'_> {
    /// Shows everything up to the end of the file.
    fn rest(&self, reader: &mut Reader, output: &mut Output) -> Result<(), Failure> {
        while let Some(item) = reader.next()? {
            match item {
                LogItem::Damage(damage) => {
                    output.flush()?;
                    self.context.warn_of_damage(&self.key, &damage);
                }
                // The header is the store's own.
                LogItem::Entry(entry) if entry.seq == 0 && entry.verified => {}
                LogItem::Entry(entry) => match Record::of(&entry) {
                    Some(record) => self.record(&record, output)?,
                    None => self.context.warn(&format!("{}: record {} is not UTF-8", self.key, entry.seq)),
                },
            }
        }
        Ok(())
    }

    fn record(&self, record: &Record<'_>, output: &mut Output) -> io::Result<()> {
        if output.json {
            return output.json_line(record.line());
        }
        if self.raw {
            output.raw(record.content().as_bytes())?;
            return output.raw(b"\n");
        }
        let role = record.role();
        let name = role
            .as_deref()
            .map_or_else(|| record.kind().unwrap_or_else(|| "record".into()).into_owned(), str::to_owned);
        let style = if role.is_some() { term::role_style(&name) } else { term::FAINT };
        let ts = record.ts().unwrap_or_default();
        let time = match when::parse_ms(&ts) {
            Some(ms) if output.terminal => when::ago(ms, self.now_ms),
            _ => ts.into_owned(),
        };
        let unverified = if record.verified() { "" } else { "  (unverified)" };
        let number = format!("{:>5}  ", record.seq());
        let faint = format!("  {}{unverified}", term::line(&time));
        output.line(&[(term::FAINT, &number), (style, &term::line(&name)), (term::FAINT, &faint)])?;
        let content = record.content();
        if role.is_none() {
            output.line(&[(term::FAINT, &term::line(record.line()))])?;
        } else if !content.is_empty() {
            output.block(&content)?;
        }
        if let Some(calls) = record.member("tool_calls") {
            output.line(&[(term::FAINT, &term::fit(&term::line(calls), TOOL_CALLS_COLUMNS))])?;
        }
        output.line(&[(Style::new(), "")])
    }

    fn warn_of_torn_end(&self, torn: &Damage, place: Place) {
        if place == Place::Archive {
            self.context
                .warn(&format!("{}: the end of the archive is lost; `manent verify` tells", self.key));
            return;
        }
        let what = "bytes at the end are no record: torn by a crash, or being written now";
        self.context.warn(&format!("{}: the last {} {what}; `manent verify` tells", self.key, torn.length));
    }
}

/// Waits until there is something to read; fails if the session is no longer the one that was opened.
fn wait_for_growth(reader: &Reader, key: &SessionKey) -> Result<(), Failure> {
    loop {
        match reader.wait(FOLLOW_LOOK)? {
            Growth::More => return Ok(()),
            Growth::Nothing => {}
            Growth::Truncated => {
                let what = format!("{key} became shorter than what was shown; run `manent verify {key}`");
                return Err(Failure::new(Exit::Failed, what));
            }
            Growth::Replaced => {
                let what =
                    format!("{key} was moved, replaced or deleted; start again to follow what is there now");
                return Err(Failure::new(Exit::Failed, what));
            }
        }
    }
}

const LOOKS_MAX: u32 = 8;
const FOLLOW_LOOK: Duration = Duration::from_hours(1);
const TOOL_CALLS_COLUMNS: usize = 160;
