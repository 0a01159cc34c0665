//! `manent show KEY`: what a session holds, from the beginning, the end or a number, and along as it grows.

use manent::{Damage, Growth, LogEnd, LogItem, Place, Reader, Record, SessionKey, Start, Store, StreamId};

use super::missing;
use crate::commands::prelude::*;

/// Show what a session holds
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArgs {
    /// The session: its key (the live one, else the newest archived), or @ and the beginning of its id
    key: String,
    /// Only the last N turns
    #[arg(long, value_name = "N", conflicts_with = "from")]
    tail: Option<u64>,
    /// From this record on
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Go on as the session grows, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
    /// Only the texts, as they are, one after the other; never to a terminal
    #[arg(long, conflicts_with = "json")]
    raw: bool,
}

pub(crate) fn run(context: &Context<'_>, args: &ShowArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut output = context.output();
    if args.raw && output.terminal {
        let why = "--raw is not for a terminal: a transcript can hold sequences that drive it";
        return Err(Failure::usage(format!("{why}; send it to a file or a pipe")));
    }
    let start = match (args.tail, args.from) {
        (Some(count), _) => Start::Tail { count, before: None },
        (None, Some(seq)) => Start::Seq(seq),
        (None, None) => Start::First,
    };
    let (at, mut reader) = open(&store, &args.key, start)?;
    let grows = at.place == Place::Live;
    let mut printer = RecordPrinter { context, key: at.key, raw: args.raw, now_ms: when::now_ms() };
    loop {
        printer.rest(&mut reader, &mut output)?;
        output.flush()?;
        if !args.follow || !grows {
            break;
        }
        wait_for_growth(&reader, &printer.key)?;
        printer.now_ms = when::now_ms();
    }
    if args.follow && !grows {
        context.note(&format!("{} is {} and does not grow", printer.key, at.place.word()));
    }
    if let LogEnd::Torn(torn) = reader.end() {
        printer.warn_of_torn_end(&torn, at.place);
    }
    Ok(Exit::Done)
}

/// Opens the session that was named. It may be archived between our look and our open: then we look again.
pub(super) fn open(store: &Store, name: &str, start: Start) -> Result<(StreamId, Reader), Failure> {
    let mut looks = LOOKS_MAX;
    loop {
        let found = find_session(store, name);
        let at = found.map_err(|failure| missing::explain(store, name, failure))?.id;
        looks -= 1;
        match store.read(&at, start) {
            Err(e) if e.is_not_found() && looks > 0 => {}
            read => return Ok((at, read?)),
        }
    }
}

/// Calls `act` for every record but the header, which is the store's own, and for every place that is damaged.
pub(super) fn for_each_record(
    context: &Context<'_>,
    key: &SessionKey,
    reader: &mut Reader,
    mut act: impl FnMut(Result<&Record<'_>, &Damage>) -> io::Result<()>,
) -> Result<(), Failure> {
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Damage(damage) => act(Err(&damage))?,
            LogItem::Entry(entry) if entry.seq == 0 && entry.verified => {}
            LogItem::Entry(entry) => match Record::of(&entry) {
                Some(record) => act(Ok(&record))?,
                None => context.warn(&format!("{key}: record {} is not UTF-8", entry.seq)),
            },
        }
    }
    Ok(())
}

struct RecordPrinter<'a> {
    context: &'a Context<'a>,
    key: SessionKey,
    raw: bool,
    now_ms: i64,
}

impl RecordPrinter<'_> {
    /// Shows everything up to the end of the file.
    fn rest(&self, reader: &mut Reader, output: &mut Output) -> Result<(), Failure> {
        for_each_record(self.context, &self.key, reader, |item| match item {
            Err(damage) => {
                output.flush()?;
                self.context.warn_of_damage(&self.key, damage);
                Ok(())
            }
            Ok(record) => self.record(record, output),
        })
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
                return Err(Failure::failed(what));
            }
            Growth::Replaced => {
                let what =
                    format!("{key} was moved, replaced or deleted; start again to follow what is there now");
                return Err(Failure::failed(what));
            }
        }
    }
}

const LOOKS_MAX: u32 = 8;
const FOLLOW_LOOK: Duration = Duration::from_hours(1);
const TOOL_CALLS_COLUMNS: usize = 160;

const SHOW_EXAMPLES: &str = "\
Examples:
  manent show work --tail 10
  manent show work -f
  manent show work --json | jq -r 'select(.role == \"user\") | .content'";
