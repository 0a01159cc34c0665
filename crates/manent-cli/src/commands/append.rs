//! `manent append KEY [TEXT|-]`: one turn, or a stream of records with `--jsonl`.

use std::io::{IsTerminal, Read};

use manent::log::frame::RECORD_BYTES_MAX;
use manent::{Body, Durability, Expect, Place, Session, SessionKey, Store};

use super::missing;
use crate::commands::prelude::*;
use crate::input::{InputLine, InputLines, too_large};
use crate::output::ReceiptOutput;

/// Append to a session; a new key starts a new one
#[derive(Debug, Args)]
#[command(after_help = APPEND_EXAMPLES)]
pub(crate) struct AppendArgs {
    /// The session
    key: String,
    /// What to append; from standard input if it is left out or '-'
    text: Option<String>,
    /// Who said it
    #[arg(long, default_value = "user", value_name = "ROLE")]
    role: String,
    /// Read one JSON record a line from standard input; receipts come as soon as records are durable
    #[arg(long, conflicts_with_all = ["role", "text"])]
    jsonl: bool,
    /// What a receipt promises: sync and group survive power loss, flush survives kill -9
    #[arg(long, value_parser = durability(), default_value = "sync", value_name = "LEVEL")]
    durability: Durability,
    /// Append only if the (first) record gets this number; 1: the session must be new
    #[arg(long, value_name = "N")]
    expect_seq: Option<u64>,
    /// Idempotency key: a retry with the same key adds no second record and returns the first receipt. With
    /// --jsonl, each turn may have one as its member `idempotency_key`
    #[arg(long = "key", value_name = "NAME", conflicts_with = "jsonl")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &AppendArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    let key = live_key(&store, &args.key)?;
    // Input first: the lease is not held while somebody types.
    let first = if args.jsonl { None } else { Some(text_of(context, args)?) };
    let session = store.session(&key)?;
    let mut writer = Writer {
        key,
        session,
        durability: args.durability,
        expect: args.expect_seq.map_or(Expect::Any, Expect::Seq),
        output: ReceiptOutput(Some(context.output())),
    };
    if writer.session.next_seq() == 1 {
        missing::warn_of(context, &store, &writer.key);
    }
    if writer.session.names()? > 1 {
        let what = "has a second name (a hard link): whoever has that reads along";
        context.warn(&format!("{} {what}", writer.key));
    }
    if let Some(aside) = writer.session.set_aside() {
        let copy = format!("its {} bytes are kept in {}", aside.length, aside.copy.display());
        context.note(&format!("the end of {} was torn by a crash; {copy}", writer.key));
    }
    match first {
        Some(text) => {
            let mut body = Body::new();
            body.string("ts", &manent::now()).string("role", &args.role);
            if let Some(key) = &args.idempotency_key {
                body.idempotent(key);
            }
            body.string("content", &text);
            writer.append(std::slice::from_ref(&body))?;
        }
        None => stream(&mut writer)?,
    }
    Ok(Exit::Done)
}

/// Returns the key to append to. A name that is an id means that session, as it does for every command.
fn live_key(store: &Store, text: &str) -> Result<SessionKey, Failure> {
    let Some(id) = id_prefix(text) else { return session_key(text) };
    match store.find_id(id) {
        Ok(listed) if listed.id.place == Place::Live => Ok(listed.id.key),
        Ok(listed) => {
            let hint = "`manent unarchive` or `manent restore` makes it live; its key begins a new session";
            Err(Failure::not_live(&listed.id, hint))
        }
        // A key that looks like an id.
        Err(e) if e.is_not_found() => session_key(text),
        Err(e) => Err(e.into()),
    }
}

fn text_of(context: &Context<'_>, args: &AppendArgs) -> Result<String, Failure> {
    if let Some(text) = args.text.as_deref().filter(|text| *text != "-") {
        return Ok(text.to_owned());
    }
    if io::stdin().is_terminal() {
        context.note("reading from the terminal; end with Ctrl-D on a line of its own");
    }
    let mut bytes = Vec::new();
    // One byte more than fits is enough to know that it does not.
    io::stdin().lock().take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(too_large(bytes.len() as u64));
    }
    let mut text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let what = format!("standard input is not UTF-8 (byte {at}); convert it, for example with iconv");
        Failure::failed(what)
    })?;
    // The line break that `echo` adds is not part of the text.
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

struct Writer {
    key: SessionKey,
    session: Session,
    durability: Durability,
    expect: Expect,
    output: ReceiptOutput,
}

impl Writer {
    fn append(&mut self, bodies: &[Body]) -> Result<(), Failure> {
        let receipts = self.session.append_with(bodies, self.durability, self.expect)?;
        // `--expect-seq` is about the first record only.
        self.expect = Expect::Any;
        Ok(self.output.write(|output| {
            receipts.iter().try_for_each(|receipt| output.receipt(&self.key, receipt))?;
            output.flush()
        })?)
    }
}

/// Appends a record for each line of standard input. Lines that arrive together are committed together; nothing
/// waits for a line that has not come yet.
fn stream(writer: &mut Writer) -> Result<(), Failure> {
    let mut input = InputLines::new();
    loop {
        let mut bodies = Vec::new();
        let batch = read_batch(&mut input, &mut bodies);
        // The records before a bad line are appended.
        writer.append(&bodies)?;
        if batch? == InputLine::End {
            return Ok(());
        }
    }
}

/// Reads the lines that have come. Returns the last of them.
fn read_batch(input: &mut InputLines, bodies: &mut Vec<Body>) -> Result<InputLine, Failure> {
    loop {
        match input.next()? {
            InputLine::Complete => {}
            InputLine::TooLong => return Err(too_large(input.line.len() as u64)),
            InputLine::End => return Ok(InputLine::End),
        }
        if !input.line.trim_ascii().is_empty() {
            let body = manent::body_of_json(&input.line, &manent::now())
                .map_err(|e| Failure::failed(format!("line {} of standard input: {e}", input.number)))?;
            bodies.push(body);
        }
        if !input.has_more() || bodies.len() >= BATCH_RECORDS_MAX {
            return Ok(InputLine::Complete);
        }
    }
}

const BATCH_RECORDS_MAX: usize = 256;

const APPEND_EXAMPLES: &str = "\
Examples:
  manent append work 'remember the milk'
  git diff | manent append work --role tool
  manent append work 'done' --key job-17    # exit code 7, or killed? The same again is safe
  manent show old --json | manent append new --jsonl";
