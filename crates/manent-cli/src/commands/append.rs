//! `manent append KEY [TEXT|-]`: one turn, or a stream of records with `--jsonl`.

use std::io::{self, BufRead, IsTerminal, Read};

use manent::log::frame::RECORD_BYTES_MAX;
use manent::{Body, Durability, Expect, Place, Receipt, Session, SessionKey, Store};
use serde_json::json;

use super::missing;
use crate::args::{Append, Level};
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Append) -> Result<Exit, Failure> {
    let store = context.store(given.wait)?;
    let key = live_key(&store, &given.key)?;
    let durability = match given.durability {
        Level::Sync => Durability::Sync,
        Level::Group => Durability::Group,
        Level::Flush => Durability::Flush,
    };
    // Input first: the lease is not held while somebody types.
    let first = if given.jsonl { None } else { Some(text_of(context, given)?) };
    let session = store.session(&key)?;
    let mut writer = Writer {
        key,
        session,
        durability,
        expect: given.expect_seq.map_or(Expect::Any, Expect::Seq),
        output: Some(context.output()),
    };
    if writer.session.next_seq() == 1 {
        missing::warn_of(context, &store, &writer.key);
    }
    if writer.session.names()? > 1 {
        context
            .warn(&format!("{} has a second name (a hard link): whoever has that reads along", writer.key));
    }
    if let Some(aside) = writer.session.set_aside() {
        let (bytes, copy) = (aside.length, aside.copy.display());
        context.note(&format!(
            "the end of {} was torn by a crash; its {bytes} bytes are kept in {copy}",
            writer.key
        ));
    }
    match first {
        Some(text) => {
            let mut body = Body::new();
            body.string("ts", &manent::now()).string("role", &given.role);
            if let Some(key) = &given.idempotency_key {
                body.idempotent(key);
            }
            body.string("content", &text);
            writer.append(std::slice::from_ref(&body))?;
        }
        None => stream(&mut writer)?,
    }
    Ok(Exit::Done)
}

/// The key to append to. What names a session by its id means that one, as it does for every command.
fn live_key(store: &Store, text: &str) -> Result<SessionKey, Failure> {
    let Some(id) = super::id_in(text) else { return context::key(text) };
    match store.find_id(id) {
        Ok(listed) if listed.id.place == Place::Live => Ok(listed.id.key),
        Ok(listed) => {
            let hint = "`manent unarchive` or `manent restore` makes it live; its key begins a new session";
            Err(Failure::not_live(&listed.id, hint))
        }
        // Somebody's nickname after all.
        Err(e) if e.is_not_found() => context::key(text),
        Err(e) => Err(e.into()),
    }
}

fn text_of(context: &Context<'_>, given: &Append) -> Result<String, Failure> {
    if let Some(text) = given.text.as_deref().filter(|text| *text != "-") {
        return Ok(text.to_owned());
    }
    if io::stdin().is_terminal() {
        context.note("reading from the terminal; end with Ctrl-D on a line of its own");
    }
    let mut bytes = Vec::new();
    // One byte more than fits is enough to know that it does not.
    io::stdin().lock().take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > RECORD_BYTES_MAX {
        let error = manent::log::Error::TooLarge { bytes: bytes.len() as u64, max: RECORD_BYTES_MAX as u64 };
        return Err(error.into());
    }
    let mut text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::new(
            Exit::Failed,
            format!("standard input is not UTF-8 (byte {at}); convert it, for example with iconv"),
        )
    })?;
    // What `echo` adds is not part of what was said.
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
    /// Where receipts go, as long as somebody reads them.
    output: Option<Output>,
}

impl Writer {
    fn append(&mut self, bodies: &[Body]) -> Result<(), Failure> {
        let receipts = self.session.append_with(bodies, self.durability, self.expect)?;
        // Only the first record was spoken of.
        self.expect = Expect::Any;
        let Some(output) = &mut self.output else { return Ok(()) };
        let printed = print(&self.key, &receipts, output);
        match printed {
            // Nobody reads the receipts any more. The records go on being kept: that is what was asked for.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => self.output = None,
            printed => printed?,
        }
        Ok(())
    }
}

fn print(key: &SessionKey, receipts: &[Receipt], output: &mut Output) -> io::Result<()> {
    for Receipt { id, seq, position, durability } in receipts {
        if output.json {
            output.json(&json!({
                "session": key.as_str(), "id": &**id, "seq": seq, "offset": position.raw(),
                "durability": durability.word(),
            }))?;
        } else {
            let key = term::line(key.as_str());
            output.line(&[(anstyle::Style::new(), &format!("{key} {seq}"))])?;
        }
    }
    output.flush()
}

/// Appends a record for each line of standard input. Lines that arrive together are committed together; nothing
/// waits for a line that has not come yet.
fn stream(writer: &mut Writer) -> Result<(), Failure> {
    let mut input = io::BufReader::with_capacity(256 << 10, io::stdin().lock());
    let mut number = 0_u64;
    let mut line = Vec::new();
    loop {
        let mut bodies = Vec::new();
        let outcome = loop {
            line.clear();
            match read_line(&mut input, &mut line) {
                Ok(0) => break Ok(More::No),
                Ok(_) => {}
                Err(failure) => break Err(failure),
            }
            number += 1;
            if !line.iter().all(u8::is_ascii_whitespace) {
                match manent::body_of_json(&line, &manent::now()) {
                    Ok(body) => bodies.push(body),
                    Err(e) => {
                        break Err(Failure::new(
                            Exit::Failed,
                            format!("line {number} of standard input: {e}"),
                        ));
                    }
                }
            }
            let waiting = input.buffer().contains(&b'\n');
            if !waiting || bodies.len() >= BATCH_RECORDS_MAX {
                break Ok(More::Yes);
            }
        };
        // What came before a bad line is good, and is kept.
        writer.append(&bodies)?;
        if let More::No = outcome? {
            return Ok(());
        }
    }
}

enum More {
    Yes,
    No,
}

/// Reads one line, at most as long as a record may be.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<usize, Failure> {
    let n = input.take(RECORD_BYTES_MAX as u64 + 1).read_until(b'\n', line)?;
    if n > RECORD_BYTES_MAX {
        return Err(manent::log::Error::TooLarge { bytes: n as u64, max: RECORD_BYTES_MAX as u64 }.into());
    }
    Ok(n)
}

const BATCH_RECORDS_MAX: usize = 256;
