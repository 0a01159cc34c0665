//! `manent verify [KEY…]`: checks every byte, changes nothing, exits 3 if something is wrong that nobody has
//! acknowledged.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::log::frame::DamageReason;
use manent::log::{TailState, VerifyReport};
use manent::{Damage, MissingSession, Place, Store, StreamId, StreamStat, Verified};
use serde_json::{Value, json};

use super::beside::Beside;
use super::{missing, word_for};
use crate::args::Keys;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Keys) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut verifying = Verifying { context, output: context.output(), worst: Exit::Done };
    let missing = match missing::of(&store, &given.keys) {
        Ok(missing) => missing,
        Err(failure) => {
            verifying.complain(&failure)?;
            Vec::new()
        }
    };
    if given.keys.is_empty() {
        verifying.all(&store)?;
    } else {
        verifying.named(&store, &given.keys, &missing)?;
    }
    verifying.worst = verifying.worst.max(missing::print(&missing, &mut verifying.output)?);
    verifying.output.flush()?;
    Ok(verifying.worst)
}

struct Verifying<'a> {
    context: &'a Context<'a>,
    output: Output,
    worst: Exit,
}

impl Verifying<'_> {
    /// Verifies every session, also those that other processes move meanwhile, and every log beside them. One that
    /// cannot be read keeps no other from being verified.
    fn all(&mut self, store: &Store) -> Result<(), Failure> {
        let mut sessions = store.verify_all();
        loop {
            let mut bar = self.context.catching_up();
            let verified = sessions.next(&mut |done, all| bar.tell(done, all));
            drop(bar);
            match verified {
                None => break,
                Some(Err(e)) => self.complain(&e.into())?,
                Some(Ok(Verified { listed, outcome })) => self.session(&listed, outcome)?,
            }
        }
        match Beside::all(store) {
            Ok(all) => all.iter().try_for_each(|beside| self.beside(beside)),
            Err(e) => self.complain(&e.into()),
        }
    }

    fn named(&mut self, store: &Store, keys: &[String], missing: &[MissingSession]) -> Result<(), Failure> {
        let runs = Beside::named(store, keys);
        let found = super::named_or_all(store, keys, &Place::ALL)?;
        for ((found, key), runs) in found.into_iter().zip(keys).zip(&runs) {
            let is_missing = missing.iter().any(|missing| missing::is_named(missing, key));
            let listed = match found {
                Ok(listed) => listed,
                Err(failure) if (runs.is_some() || is_missing) && failure.exit == Exit::NotFound => continue,
                Err(failure) => {
                    self.complain(&failure)?;
                    continue;
                }
            };
            let mut bar = self.context.catching_up();
            let verified = store.verify_moving(&listed.id, &mut |done, all| bar.tell(done, all));
            drop(bar);
            let (listed, outcome) = match verified {
                Ok(Some((id, report))) => (StreamStat { id, ..listed }, Ok(Some(report))),
                Ok(None) => (listed, Ok(None)),
                Err(e) => (listed, Err(e)),
            };
            self.session(&listed, outcome)?;
        }
        runs.iter().flatten().try_for_each(|runs| self.beside(runs))
    }

    fn session(
        &mut self,
        listed: &StreamStat,
        outcome: manent::Result<Option<VerifyReport>>,
    ) -> Result<(), Failure> {
        match outcome {
            Ok(Some(report)) => {
                print_session(&listed.id, &report, &mut self.output)?;
                self.worst = self.worst.max(if report.is_sound() { Exit::Done } else { Exit::Damage });
                // A file in the wrong place is checked all the same: where it lies says nothing about its bytes.
                misplaced(listed).map_or(Ok(()), |failure| self.complain(&failure))
            }
            Ok(None) => {
                let name = word_for(&listed.id);
                self.output.flush()?;
                self.context.note(&format!("{name} was removed while it was being verified"));
                Ok(())
            }
            Err(e) => self.complain(&e.into()),
        }
    }

    fn beside(&mut self, beside: &Beside) -> Result<(), Failure> {
        match verify_beside(beside, &mut self.output) {
            Ok(exit) => self.worst = self.worst.max(exit),
            Err(failure) => self.complain(&failure)?,
        }
        Ok(())
    }

    /// Names what could not be verified, and goes on.
    fn complain(&mut self, failure: &Failure) -> Result<(), Failure> {
        self.output.flush()?;
        self.context.complain(failure);
        self.worst = self.worst.max(failure.exit);
        Ok(())
    }
}

fn verify_beside(beside: &Beside, output: &mut Output) -> Result<Exit, Failure> {
    let Some(report) = beside.verify()? else { return Ok(Exit::Done) };
    if output.json {
        output.json(&json_of(beside.head(), &report))?;
    } else {
        print(&term::line(&beside.name()), Place::Live, &report, output)?;
    }
    Ok(if report.is_sound() { Exit::Done } else { Exit::Damage })
}

fn misplaced(listed: &StreamStat) -> Option<Failure> {
    let found = listed.header_key.as_ref()?.to_string();
    let key = listed.id.key.to_string();
    let path = listed.id.key.plain_file_name().unwrap_or_default().into();
    Some(manent::backend::Error::WrongKey { path, key, found }.into())
}

fn print_session(at: &StreamId, report: &VerifyReport, output: &mut Output) -> std::io::Result<()> {
    if output.json {
        let head = json!({"session": at.key.as_str(), "id": at.id, "status": at.place.word()});
        return output.json(&json_of(head, report));
    }
    let name = match at.place {
        Place::Live => term::line(at.key.as_str()).into_owned(),
        place => format!("{} ({} @{})", term::line(at.key.as_str()), place.word(), term::line(&at.id)),
    };
    print(&name, at.place, report, output)
}

fn print(name: &str, place: Place, report: &VerifyReport, output: &mut Output) -> std::io::Result<()> {
    let (word, color) =
        if report.is_sound() { ("ok", AnsiColor::Green) } else { ("damaged", AnsiColor::Red) };
    let style = Style::new().fg_color(Some(color.into())).bold();
    let plural = if report.records == 1 { "" } else { "s" };
    let bare = match report.unverified {
        0 => String::new(),
        n => format!(", {n} without a checksum"),
    };
    let counted = format!("  {name}  {} record{plural}{bare}", report.records);
    output.line(&[(style, &term::pad(word, 7)), (Style::new(), &counted)])?;
    for found in &report.damage {
        let known = if found.acknowledged { ", acknowledged" } else { "" };
        output.line(&[(Style::new(), &format!("           {}{known}", words(&found.damage)))])?;
    }
    let end = match report.tail {
        TailState::Clean => return Ok(()),
        TailState::Torn(torn) if place == Place::Archive => {
            format!("lost: what stood behind offset {} of the plain file, if anything did", torn.offset)
        }
        TailState::Torn(torn) => {
            format!("torn: {} bytes at offset {} are no record", torn.length, torn.offset)
        }
        TailState::InFlight(torn) => {
            format!("in flight: {} bytes at offset {} are being written", torn.length, torn.offset)
        }
    };
    output.line(&[(Style::new(), &format!("           {end}"))])?;
    if matches!(report.tail, TailState::Torn(_)) && place == Place::Live {
        output
            .line(&[(term::FAINT, "           `manent repair` sets them aside; so does the next append")])?;
    }
    Ok(())
}

fn words(damage: &Damage) -> String {
    match damage.length {
        _ if damage.reason.is_about_parent() => {
            format!("{}: {}", damage.reason, context::parent_words(damage))
        }
        _ if damage.reason == DamageReason::Shorter => context::shorter_words(damage),
        0 if damage.reason == DamageReason::ArchiveTable => {
            format!("{}: the archive's table; what it holds can be read", damage.reason)
        }
        0 => format!("{}: before offset {}", damage.reason, damage.offset),
        n => format!("{}: {n} bytes at offset {}", damage.reason, damage.offset),
    }
}

/// `value`: what it begins with.
fn json_of(mut value: Value, report: &VerifyReport) -> Value {
    let place = |d: &Damage, reason: &str, acknowledged: bool| {
        let Damage { offset, length, .. } = d;
        json!({"offset": offset, "length": length, "reason": reason, "acknowledged": acknowledged})
    };
    let mut damage: Vec<Value> =
        report.damage.iter().map(|f| place(&f.damage, f.damage.reason.word(), f.acknowledged)).collect();
    let tail = match report.tail {
        TailState::Clean => "clean",
        TailState::InFlight(_) => "in_flight",
        TailState::Torn(torn) => {
            damage.push(place(&torn, "torn", false));
            "torn"
        }
    };
    value["records"] = json!(report.records);
    value["unverified"] = json!(report.unverified);
    value["damage"] = json!(damage);
    value["tail"] = json!(tail);
    value
}
