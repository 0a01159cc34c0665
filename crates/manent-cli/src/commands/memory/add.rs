//! `manent memory add [TEXT]`: remembers something.

use std::io::{IsTerminal, Read};

use anstyle::{AnsiColor, Style};
use manent::memory::{ItemError, NewItem, Provenance, Source};
use manent::{LogItem, Start, Store, StreamId};

use crate::args::memory::Add;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Add) -> Result<Exit, Failure> {
    let text = match given.text.as_deref() {
        Some(text) if text != "-" => text.to_owned(),
        _ => typed(context)?,
    };
    let store = context.store(given.wait.time)?;
    let memory = store.memory()?;
    let source = source(&store, given)?;
    if source.quote.is_some() {
        match memory.provenance(&source)? {
            Provenance::Quoted { role, .. } if role != "user" => {
                context.warn(&format!(
                    "the quote is of the {role}, not of the user; `manent memory audit` will say so"
                ));
            }
            Provenance::Quoted { .. } => {}
            _ => return Err(manent::Error::from(ItemError::Quote(passage(given))).into()),
        }
    }
    let item = NewItem {
        kind: given.kind,
        content: text,
        tags: given.tags.clone(),
        source,
        replaces: given.replaces,
    };
    let secret = !manent::secrets(&item.content).is_empty();
    let added = memory.add(&item)?;
    let mut output = context.output();
    if output.json {
        output.json_line(&added.line)?;
    } else {
        let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
        let what = format!(" {}  {}", added.id, added.kind);
        output.line(&[(style, "remembered"), (Style::new(), &what)])?;
    }
    output.flush()?;
    if secret {
        let forget =
            format!("`manent memory forget {}`, then `manent memory compact`, takes it out", added.id);
        context.warn(&format!("this looks like a credential, and memories are shown to models; {forget}"));
    }
    Ok(Exit::Done)
}

/// What comes through standard input, without its last line break.
fn typed(context: &Context<'_>) -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        context.note("type what to remember; Ctrl-D ends it");
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::new(
            Exit::Failed,
            format!("standard input is not UTF-8 at byte {at}; nothing was remembered"),
        )
    })?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// What was typed about where it comes from. A session that is named must be there.
fn source(store: &Store, given: &Add) -> Result<Source, Failure> {
    let mut source = Source::by(given.who.clone());
    source.model.clone_from(&given.model);
    source.seqs = given.seq;
    source.quote.clone_from(&given.quote);
    if source.quote.as_ref().is_some_and(|quote| quote.trim().is_empty()) {
        let what = "the quote is empty; quote what was said, or leave --quote out";
        return Err(Failure::new(Exit::Usage, what));
    }
    if let Some(name) = &given.session {
        let at = crate::commands::named(store, name, |key| store.find(key))?.id;
        if let Some((_, last)) = given.seq {
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

fn passage(given: &Add) -> String {
    let session = given.session.as_deref().unwrap_or_default();
    match given.seq {
        Some((first, last)) if first == last => format!("record {first} of {}", term::line(session)),
        Some((first, last)) => format!("records {first} to {last} of {}", term::line(session)),
        None => term::line(session).into_owned(),
    }
}
