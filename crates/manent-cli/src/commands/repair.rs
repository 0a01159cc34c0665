//! `manent repair [KEY…]`: sets a torn end aside, and appends a `gap` record for each damaged place, so that it is
//! known and no longer an alarm. Nothing is rewritten, nothing thrown away, and doing it twice changes nothing.

use anstyle::{AnsiColor, Style};
use manent::log::frame::DamageReason;
use manent::{Place, Repaired, Store, StreamStat};
use serde_json::{Value, json};

use super::beside::Beside;
use super::missing;
use crate::args::Repair;
use crate::context::{self, Context};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Repair) -> Result<Exit, Failure> {
    let store = context.store(given.wait)?;
    let mut output = context.output();
    let mut worst = Exit::Done;
    let mut named = Beside::named(&store, &given.keys.keys);
    let missing = missing::of(&store, &given.keys.keys)?;
    for (nth, found) in super::named_or_all(&store, &given.keys.keys, &[Place::Live])?.into_iter().enumerate()
    {
        let has_runs = named.get(nth).is_some_and(Option::is_some);
        let name = given.keys.keys.get(nth);
        let is_missing = name.is_some_and(|name| missing.iter().any(|m| missing::is_named(m, name)));
        if (has_runs || is_missing) && found.as_ref().is_err_and(|failure| failure.exit == Exit::NotFound) {
            continue;
        }
        let repaired = found.and_then(|listed| Ok((repair(&store, &listed)?, listed.id.key)));
        match repaired {
            Ok((done, key)) => print(&json!({"session": key.as_str()}), key.as_str(), &done, &mut output)?,
            Err(failure) => {
                output.flush()?;
                context.complain(&failure);
                worst = worst.max(failure.exit);
            }
        }
    }
    if let Err(failure) = missing::acknowledge(&store, &given.keys.keys, &mut output) {
        output.flush()?;
        context.complain(&failure);
        worst = worst.max(failure.exit);
    }
    if given.keys.keys.is_empty() {
        match Beside::all(&store) {
            Ok(all) => named = all.into_iter().map(Some).collect(),
            Err(e) => {
                let failure = Failure::from(e);
                output.flush()?;
                context.complain(&failure);
                worst = worst.max(failure.exit);
            }
        }
    }
    for beside in named.into_iter().flatten() {
        if let Err(failure) = repair_beside(&beside, &mut output) {
            output.flush()?;
            context.complain(&failure);
            worst = worst.max(failure.exit);
        }
    }
    output.flush()?;
    context.detail("damage stays in the files where it is; `manent verify` goes on listing it");
    Ok(worst)
}

fn repair(store: &Store, listed: &StreamStat) -> Result<Repaired, Failure> {
    if listed.id.place != Place::Live {
        let hint = "`manent unarchive` or `manent restore` makes it live, then it can be repaired";
        return Err(Failure::not_live(&listed.id, hint));
    }
    Ok(store.repair(&listed.id.key)?)
}

fn repair_beside(beside: &Beside, output: &mut Output) -> Result<(), Failure> {
    if beside.verify()?.is_none() {
        return Ok(());
    }
    Ok(print(&beside.head(), &beside.name(), &beside.repair()?, output)?)
}

/// `head`: what the JSON of it begins with.
fn print(head: &Value, name: &str, done: &Repaired, output: &mut Output) -> std::io::Result<()> {
    let name = term::line(name);
    if output.json {
        let aside = done
            .set_aside
            .as_ref()
            .map(|a| json!({"offset": a.offset, "length": a.length, "copy": a.copy.to_string_lossy()}));
        let gaps: Vec<_> = done
            .acknowledged
            .iter()
            .map(|d| json!({"offset": d.offset, "length": d.length, "reason": d.reason.word()}))
            .collect();
        let mut value = head.clone();
        value["set_aside"] = json!(aside);
        value["acknowledged"] = json!(gaps);
        return output.json(&value);
    }
    if done.set_aside.is_none() && done.acknowledged.is_empty() {
        return output.line(&[(term::FAINT, "sound   "), (Style::new(), &format!(" {name}"))]);
    }
    let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    output.line(&[(style, "repaired"), (Style::new(), &format!(" {name}"))])?;
    if let Some(aside) = &done.set_aside {
        let copy = aside.copy.display().to_string();
        let text = format!("           {} torn bytes are kept in {}", aside.length, term::line(&copy));
        output.line(&[(Style::new(), &text)])?;
    }
    for damage in &done.acknowledged {
        let what = match damage.reason {
            DamageReason::Shorter => context::shorter_words(damage),
            reason => format!("{} bytes at offset {} ({reason})", damage.length, damage.offset),
        };
        let text = format!("           acknowledged: {what}");
        output.line(&[(Style::new(), &text)])?;
    }
    Ok(())
}
