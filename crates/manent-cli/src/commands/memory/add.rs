//! `manent memory add [TEXT]`: remembers something.

use std::io::{IsTerminal, Read};

use manent::memory::{ItemError, Kind, NewItem, Provenance, Source, SourceKind};
use manent::{LogItem, Start, Store, StreamId};

use crate::commands::prelude::*;

/// Remember something
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct MemoryAddArgs {
    /// What to remember; from standard input if it is left out or '-'
    text: Option<String>,
    /// fact, pref, context or daily
    #[arg(long, default_value = "fact", value_name = "KIND")]
    kind: Kind,
    /// A label; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The item that this one replaces; it is hidden until this one is forgotten
    #[arg(long, value_name = "ID")]
    replaces: Option<u64>,
    /// Who says so: user, model or import
    #[arg(long = "from", default_value = "user", value_name = "WHO")]
    who: SourceKind,
    /// The session in which it was said: its key, or @ and the beginning of its id
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// The record in which it was said, or the first and the last: 12, 12-14
    #[arg(long, value_name = "SEQ", requires = "session", value_parser = range)]
    seq: Option<(u64, u64)>,
    /// The words it rests on, as they were said there
    #[arg(long, value_name = "WORDS", requires = "seq")]
    quote: Option<String>,
    /// The model that took it from there
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last && first > 0 => Ok((first, last)),
        _ => Err("a record has a number, and a passage two: 12, 12-14".to_owned()),
    }
}

pub(crate) fn run(context: &Context<'_>, args: &MemoryAddArgs) -> Result<Exit, Failure> {
    let text = match args.text.as_deref() {
        Some(text) if text != "-" => text.to_owned(),
        _ => typed(context)?,
    };
    let store = context.store(args.wait.time)?;
    let memory = store.memory()?;
    let source = source(&store, args)?;
    if source.quote.is_some() {
        match memory.provenance(&source)? {
            Provenance::Quoted { role, .. } if role != "user" => {
                context.warn(&format!(
                    "the quote is of the {role}, not of the user; `manent memory audit` will say so"
                ));
            }
            Provenance::Quoted { .. } => {}
            _ => return Err(manent::Error::from(ItemError::Quote(passage(args))).into()),
        }
    }
    let item =
        NewItem { kind: args.kind, content: text, tags: args.tags.clone(), source, replaces: args.replaces };
    let secret = !manent::secrets(&item.content).is_empty();
    let added = memory.add(&item)?;
    let mut output = context.output();
    if output.wants_json {
        output.json_line(&added.line)?;
    } else {
        output.done("remembered", &format!("{}  {}", added.id, added.kind), "")?;
    }
    output.flush()?;
    if secret {
        let forget =
            format!("`manent memory forget {}`, then `manent memory compact`, takes it out", added.id);
        context.warn(&format!("this looks like a credential, and memories are shown to models; {forget}"));
    }
    Ok(Exit::Done)
}

/// Reads standard input, without its last line break.
fn typed(context: &Context<'_>) -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        context.note("type what to remember; Ctrl-D ends it");
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::failed(format!("standard input is not UTF-8 at byte {at}; nothing was remembered"))
    })?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// Returns the source of an item as it was typed. A session that is named must exist.
fn source(store: &Store, args: &MemoryAddArgs) -> Result<Source, Failure> {
    let mut source = Source::by(args.who.clone());
    source.model.clone_from(&args.model);
    source.seqs = args.seq;
    source.quote.clone_from(&args.quote);
    if source.quote.as_ref().is_some_and(|quote| quote.trim().is_empty()) {
        return Err(Failure::usage("the quote is empty; quote what was said, or leave --quote out"));
    }
    if let Some(name) = &args.session {
        let at = find_session(store, name)?.id;
        if let Some((_, last)) = args.seq {
            refuse_beyond(store, &at, last)?;
        }
        source.session = Some(at.key.to_string());
        source.session_id = Some(at.id).filter(|id| !id.is_empty());
    }
    Ok(source)
}

/// Refuses a record that the session does not have: nobody could ever look there.
fn refuse_beyond(store: &Store, at: &StreamId, seq: u64) -> Result<(), Failure> {
    let mut reader = store.read(at, Start::Tail { count: 1, before: None })?;
    let mut last = None;
    while let Some(found) = reader.next()? {
        if let LogItem::Entry(entry) = found {
            last = Some(entry.seq).max(last);
        }
    }
    if last.is_some_and(|last| seq <= last) {
        return Ok(());
    }
    Err(manent::Error::NoSuchRecord { name: at.key.to_string(), seq, last }.into())
}

fn passage(args: &MemoryAddArgs) -> String {
    let session = args.session.as_deref().unwrap_or_default();
    match args.seq {
        Some((first, last)) if first == last => format!("record {first} of {}", term::line(session)),
        Some((first, last)) => format!("records {first} to {last} of {}", term::line(session)),
        None => term::line(session).into_owned(),
    }
}

const ADD_EXAMPLES: &str = "\
Examples:
  manent memory add 'the staging database is read-only on Sundays' --tag ops
  manent memory add --kind pref 'answers in French'
  manent memory add 'lives in Berlin' --replaces 12
  manent memory add 'prefers tabs' --from model --session work --seq 3 --quote 'I prefer tabs'";
