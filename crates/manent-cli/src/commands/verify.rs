//! `manent verify [KEY…]`: checks every byte, changes nothing, exits 3 if something is wrong that nobody has
//! acknowledged.

use manent::log::frame::DamageReason;
use manent::log::{TailState, VerifyReport};
use manent::{Damage, MissingSession, Place, Store, StreamStat, Verified};

use super::missing;
use super::side_logs::SideLog;
use crate::commands::prelude::*;
use crate::context;

/// Check every byte of sessions (all, the memory and the runs, if none is named)
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    sessions: SessionNames,
}

pub(crate) fn run(context: &Context<'_>, args: &VerifyArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut verification = Verification { context, output: context.output(), worst: Exit::Done };
    let missing = match missing::find(&store, &args.sessions.keys) {
        Ok(missing) => missing,
        Err(failure) => {
            verification.complain(&failure)?;
            Vec::new()
        }
    };
    if args.sessions.keys.is_empty() {
        verification.all(&store)?;
    } else {
        verification.named(&store, &args.sessions.keys, &missing)?;
    }
    verification.worst = verification.worst.max(missing::print(&missing, &mut verification.output)?);
    verification.output.flush()?;
    Ok(verification.worst)
}

struct Verification<'a> {
    context: &'a Context<'a>,
    output: Output,
    worst: Exit,
}

impl Verification<'_> {
    /// Verifies every session, also those that other processes move meanwhile, and every side log. One that
    /// cannot be read keeps no other from being verified.
    fn all(&mut self, store: &Store) -> Result<(), Failure> {
        let mut sessions = store.verify_all();
        loop {
            match self.context.with_progress(|progress| sessions.next(progress)) {
                None => break,
                Some(Err(e)) => self.complain(&e.into())?,
                Some(Ok(Verified { listed, outcome })) => self.session(&listed, outcome)?,
            }
        }
        match SideLog::all(store) {
            Ok(all) => all.iter().try_for_each(|log| self.side_log(log)),
            Err(e) => self.complain(&e.into()),
        }
    }

    fn named(&mut self, store: &Store, keys: &[String], missing: &[MissingSession]) -> Result<(), Failure> {
        let runs = SideLog::named(store, keys);
        let found = named_or_all(store, keys, &Place::ALL)?;
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
            let verified = self.context.with_progress(|progress| store.verify_moving(&listed.id, progress));
            let (listed, outcome) = match verified {
                Ok(Some((id, report))) => (StreamStat { id, ..listed }, Ok(Some(report))),
                Ok(None) => (listed, Ok(None)),
                Err(e) => (listed, Err(e)),
            };
            self.session(&listed, outcome)?;
        }
        runs.iter().flatten().try_for_each(|runs| self.side_log(runs))
    }

    fn session(
        &mut self,
        listed: &StreamStat,
        outcome: manent::Result<Option<VerifyReport>>,
    ) -> Result<(), Failure> {
        match outcome {
            Ok(Some(report)) => {
                let at = &listed.id;
                let head = json!({"session": at.key.as_str(), "id": at.id, "status": at.place.word()});
                let key = term::line(at.key.as_str());
                let name = match at.place {
                    Place::Live => key.into_owned(),
                    place => format!("{key} ({} @{})", place.word(), term::line(&at.id)),
                };
                self.report(head, &name, at.place, &report)?;
                // A file in the wrong place is checked all the same: where it lies says nothing about its bytes.
                misplaced(listed).map_or(Ok(()), |failure| self.complain(&failure))
            }
            Ok(None) => {
                self.output.flush()?;
                let name = shell_name(&listed.id);
                self.context.note(&format!("{name} was removed while it was being verified"));
                Ok(())
            }
            Err(e) => self.complain(&e.into()),
        }
    }

    fn side_log(&mut self, log: &SideLog) -> Result<(), Failure> {
        match log.verify() {
            Ok(None) => Ok(()),
            Ok(Some(report)) => {
                Ok(self.report(log.json_head(), &term::line(&log.name()), Place::Live, &report)?)
            }
            Err(e) => self.complain(&e.into()),
        }
    }

    /// Prints the report on a log, and counts it. Its JSON begins with the members of `head`.
    fn report(&mut self, head: Value, name: &str, place: Place, report: &VerifyReport) -> io::Result<()> {
        self.worst = self.worst.max(if report.is_sound() { Exit::Done } else { Exit::Damage });
        if self.output.wants_json {
            return self.output.json(&json_of(head, report));
        }
        print(name, place, report, &mut self.output)
    }

    /// Names what could not be verified, and goes on.
    fn complain(&mut self, failure: &Failure) -> Result<(), Failure> {
        self.output.flush()?;
        self.context.complain(failure);
        self.worst = self.worst.max(failure.exit);
        Ok(())
    }
}

fn misplaced(listed: &StreamStat) -> Option<Failure> {
    let found = listed.header_key.as_ref()?.to_string();
    let key = listed.id.key.to_string();
    let path = listed.id.key.plain_file_name().unwrap_or_default().into();
    Some(manent::backend::Error::WrongKey { path, key, found }.into())
}

fn print(name: &str, place: Place, report: &VerifyReport, output: &mut Output) -> io::Result<()> {
    let (word, color) =
        if report.is_sound() { ("ok", AnsiColor::Green) } else { ("damaged", AnsiColor::Red) };
    let plural = if report.records == 1 { "" } else { "s" };
    let bare = match report.unverified {
        0 => String::new(),
        n => format!(", {n} without a checksum"),
    };
    let counted = format!("  {name}  {} record{plural}{bare}", report.records);
    output.line(&[(term::bold(color), &term::pad(word, 7)), (Style::new(), &counted)])?;
    for found in &report.damage {
        let acknowledged = if found.acknowledged { ", acknowledged" } else { "" };
        output.plain(&format!("           {}{acknowledged}", words(&found.damage)))?;
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
    output.plain(&format!("           {end}"))?;
    if matches!(report.tail, TailState::Torn(_)) && place == Place::Live {
        let hint = "           `manent repair` sets them aside; so does the next append";
        output.line(&[(term::FAINT, hint)])?;
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

/// Adds what was found in a log to the members with which its JSON begins.
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
    value["records"] = report.records.into();
    value["unverified"] = report.unverified.into();
    value["damage"] = damage.into();
    value["tail"] = tail.into();
    value
}
