//! `manent repair [KEY…]`: sets a torn end aside, and appends a `gap` record for each damaged place, so that it is
//! known and no longer an alarm. Nothing is rewritten, nothing thrown away, and doing it twice changes nothing.

use manent::log::frame::DamageReason;
use manent::{Damage, Place, Repaired, Store, StreamStat};

use super::missing;
use super::side_logs::SideLog;
use crate::commands::prelude::*;
use crate::context;

/// Set torn ends aside and acknowledge damage, so that it is known and no longer an alarm
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    sessions: SessionNames,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &RepairArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    let names = &args.sessions.keys;
    let mut output = context.output();
    let mut worst = Exit::Done;
    // Prints the failure of a step, behind what the steps before it printed, and goes on.
    let mut finish_step = |output: &mut Output, step: Result<(), Failure>| -> Result<(), Failure> {
        output.flush()?;
        worst = worst.max(context.complain_of(step));
        Ok(())
    };
    let mut side_logs = SideLog::named(&store, names);
    let missing = missing::find(&store, names)?;
    for (nth, found) in named_or_all(&store, names, &[Place::Live])?.into_iter().enumerate() {
        let has_runs = side_logs.get(nth).is_some_and(Option::is_some);
        let is_missing =
            names.get(nth).is_some_and(|name| missing.iter().any(|m| missing::is_named(m, name)));
        if (has_runs || is_missing) && found.as_ref().is_err_and(|failure| failure.exit == Exit::NotFound) {
            continue;
        }
        let repaired = found.and_then(|listed| {
            let (done, key) = (repair(&store, &listed)?, listed.id.key.as_str());
            Ok(print(json!({"session": key}), key, &done, &mut output)?)
        });
        finish_step(&mut output, repaired)?;
    }
    let acknowledged = missing::acknowledge(&store, names, &mut output);
    finish_step(&mut output, acknowledged)?;
    if names.is_empty() {
        match SideLog::all(&store) {
            Ok(all) => side_logs = all.into_iter().map(Some).collect(),
            Err(e) => finish_step(&mut output, Err(e.into()))?,
        }
    }
    for log in side_logs.into_iter().flatten() {
        let repaired = repair_side_log(&log, &mut output);
        finish_step(&mut output, repaired)?;
    }
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

fn repair_side_log(log: &SideLog, output: &mut Output) -> Result<(), Failure> {
    if log.verify()?.is_none() {
        return Ok(());
    }
    Ok(print(log.json_head(), &log.name(), &log.repair()?, output)?)
}

/// Prints what was repaired in a log. Its JSON begins with the members of `value`.
fn print(mut value: Value, name: &str, done: &Repaired, output: &mut Output) -> io::Result<()> {
    let name = term::line(name);
    if output.wants_json {
        value["set_aside"] = done.set_aside.as_ref().map_or(Value::Null, |aside| {
            json!({"offset": aside.offset, "length": aside.length, "copy": aside.copy.to_string_lossy()})
        });
        let gap = |d: &Damage| json!({"offset": d.offset, "length": d.length, "reason": d.reason.word()});
        value["acknowledged"] = done.acknowledged.iter().map(gap).collect();
        return output.json(&value);
    }
    if done.set_aside.is_none() && done.acknowledged.is_empty() {
        return output.line(&[(term::FAINT, "sound   "), (Style::new(), &format!(" {name}"))]);
    }
    output.done("repaired", &name, "")?;
    if let Some(aside) = &done.set_aside {
        let copy = aside.copy.display().to_string();
        output.plain(&format!("           {} torn bytes are kept in {}", aside.length, term::line(&copy)))?;
    }
    for damage in &done.acknowledged {
        let what = match damage.reason {
            DamageReason::Shorter => context::shorter_words(damage),
            reason => format!("{} bytes at offset {} ({reason})", damage.length, damage.offset),
        };
        output.plain(&format!("           acknowledged: {what}"))?;
    }
    Ok(())
}
