//! `manent verify [KEY…]`: checks every byte, changes nothing, exits 3 if something is wrong that nobody has
//! acknowledged.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use manent::SessionKey;
use manent::log::{Damage, Report, TailState, verify_with};
use serde_json::{Value, json};

use crate::args::Keys;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Keys) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let mut output = context.output();
    let mut worst = Exit::Done;
    for (target, trouble) in super::named_or_all(&store, &given.keys)? {
        // A file in the wrong place is checked all the same: where it lies says nothing about its bytes.
        let checked = target.map(|target| {
            let bar = context.progress(store.disk().inspect(&target.path).map_or(0, |info| info.len));
            let report = verify_with(store.disk(), &target.path, |offset| bar.set_position(offset));
            bar.finish_and_clear();
            report.map(|report| (target.key, report)).map_err(Failure::from)
        });
        let mut failures: Vec<Failure> = trouble.into_iter().collect();
        match checked {
            Some(Ok((key, report))) => {
                print(&key, &report, &mut output)?;
                worst = worst.max(if report.is_sound() { Exit::Done } else { Exit::Damage });
            }
            Some(Err(failure)) => failures.push(failure),
            None => {}
        }
        for failure in &failures {
            output.flush()?;
            context.complain(failure);
            worst = worst.max(failure.exit);
        }
    }
    output.flush()?;
    Ok(worst)
}

fn print(key: &SessionKey, report: &Report, output: &mut Output) -> std::io::Result<()> {
    if output.json {
        return output.json(&json_of(key, report));
    }
    let (word, color) =
        if report.is_sound() { ("ok", AnsiColor::Green) } else { ("damaged", AnsiColor::Red) };
    let style = Style::new().fg_color(Some(color.into())).bold();
    let name = term::line(key.as_str());
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
        TailState::Torn(torn) => {
            format!("torn: {} bytes at offset {} are no record", torn.length, torn.offset)
        }
        TailState::InFlight(torn) => {
            format!("in flight: {} bytes at offset {} are being written", torn.length, torn.offset)
        }
    };
    output.line(&[(Style::new(), &format!("           {end}"))])?;
    if matches!(report.tail, TailState::Torn(_)) {
        output
            .line(&[(term::FAINT, "           `manent repair` sets them aside; so does the next append")])?;
    }
    Ok(())
}

fn words(damage: &Damage) -> String {
    match damage.length {
        0 => format!("{}: before offset {}", damage.reason, damage.offset),
        n => format!("{}: {n} bytes at offset {}", damage.reason, damage.offset),
    }
}

fn json_of(key: &SessionKey, report: &Report) -> Value {
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
    json!({
        "session": key.as_str(), "records": report.records, "unverified": report.unverified, "damage": damage,
        "tail": tail,
    })
}
