//! `manent verify [KEY…]`: checks every byte, changes nothing, exits 3 if something is wrong that nobody has
//! acknowledged.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::log::frame::Reason;
use manent::log::{Report, TailState};
use manent::{Address, Damage, Error, Listed, Place};
use serde_json::{Value, json};

use super::beside::Beside;
use super::missing;
use crate::args::Keys;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Keys) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut output = context.output();
    let mut worst = Exit::Done;
    let mut named = Beside::named(&store, &given.keys);
    let missing = missing::of(&store, &given.keys)?;
    for (nth, found) in super::named_or_all(&store, &given.keys, &Place::ALL)?.into_iter().enumerate() {
        let has_runs = named.get(nth).is_some_and(Option::is_some);
        let is_missing =
            given.keys.get(nth).is_some_and(|name| missing.iter().any(|m| missing::is_named(m, name)));
        if (has_runs || is_missing) && found.as_ref().is_err_and(|failure| failure.exit == Exit::NotFound) {
            continue;
        }
        let checked = found.and_then(|listed| {
            let bar = context.progress(listed.bytes);
            let report = store.verify(&listed.address, &mut |done, all| {
                bar.set_length(all);
                bar.set_position(done);
            });
            bar.finish_and_clear();
            Ok((report?, listed))
        });
        let failure = match checked {
            Ok((report, listed)) => {
                print_session(&listed.address, &report, &mut output)?;
                worst = worst.max(if report.is_sound() { Exit::Done } else { Exit::Damage });
                // A file in the wrong place is checked all the same: where it lies says nothing about its bytes.
                misplaced(&listed)
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            output.flush()?;
            context.complain(&failure);
            worst = worst.max(failure.exit);
        }
    }
    worst = worst.max(missing::print(&missing, &mut output)?);
    if given.keys.is_empty() {
        named = Beside::all(&store)?.into_iter().map(Some).collect();
    }
    for beside in named.into_iter().flatten() {
        let checked = verify_beside(&beside, &mut output);
        output.flush()?;
        worst = worst.max(checked.unwrap_or_else(|failure| {
            context.complain(&failure);
            failure.exit
        }));
    }
    output.flush()?;
    Ok(worst)
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

fn misplaced(listed: &Listed) -> Option<Failure> {
    let found = listed.says.as_ref()?.to_string();
    let key = listed.address.key.to_string();
    let path = listed.address.key.plain_file_name().unwrap_or_default().into();
    Some(Error::WrongKey { path, key, found }.into())
}

fn print_session(at: &Address, report: &Report, output: &mut Output) -> std::io::Result<()> {
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

fn print(name: &str, place: Place, report: &Report, output: &mut Output) -> std::io::Result<()> {
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
        _ if damage.reason == Reason::Shorter => context::shorter_words(damage),
        0 if damage.reason == Reason::ArchiveTable => {
            format!("{}: the archive's table; what it holds can be read", damage.reason)
        }
        0 => format!("{}: before offset {}", damage.reason, damage.offset),
        n => format!("{}: {n} bytes at offset {}", damage.reason, damage.offset),
    }
}

/// `value`: what it begins with.
fn json_of(mut value: Value, report: &Report) -> Value {
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
