//! `manent show KEY`: what a session holds, from the beginning, the end or a number, and along as it grows.

use manent::{Growth, Place, Reader, Record, SessionKey, Start};

use super::read_session::{for_each_record, open_session, warn_of_torn_end};
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
    let (at, mut reader) = open_session(&store, &args.key, start)?;
    let grows = at.place == Place::Live;
    let mut printer = RecordPrinter { context, key: &at.key, raw: args.raw, now_ms: when::now_ms() };
    loop {
        printer.rest(&mut reader, &mut output)?;
        output.flush()?;
        if !args.follow || !grows {
            break;
        }
        wait_for_growth(&reader, &at.key)?;
        printer.now_ms = when::now_ms();
    }
    if args.follow && !grows {
        context.note(&format!("{} is {} and does not grow", at.key, at.place.word()));
    }
    warn_of_torn_end(context, &at, &reader);
    Ok(Exit::Done)
}

struct RecordPrinter<'a> {
    context: &'a Context<'a>,
    key: &'a SessionKey,
    raw: bool,
    now_ms: i64,
}

impl RecordPrinter<'_> {
    /// Shows everything up to the end of the file.
    fn rest(&self, reader: &mut Reader, output: &mut Output) -> Result<(), Failure> {
        for_each_record(self.context, self.key, reader, |item| match item {
            Err(damage) => {
                output.flush()?;
                self.context.warn_of_damage(self.key, damage);
                Ok(())
            }
            Ok(record) => self.record(record, output),
        })
    }

    fn record(&self, record: &Record<'_>, output: &mut Output) -> io::Result<()> {
        if output.wants_json {
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
}

/// Waits until there is something to read; fails if the session is no longer the one that was opened.
fn wait_for_growth(reader: &Reader, key: &SessionKey) -> Result<(), Failure> {
    loop {
        match reader.wait(FOLLOW_WAIT)? {
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

const FOLLOW_WAIT: Duration = Duration::from_hours(1);
const TOOL_CALLS_COLUMNS: usize = 160;

const SHOW_EXAMPLES: &str = "\
Examples:
  manent show work --tail 10
  manent show work -f
  manent show work --json | jq -r 'select(.role == \"user\") | .content'";
