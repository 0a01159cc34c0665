//! `manent repair [KEY…]`: sets a torn end aside, and appends a `gap` record for each damaged place, so that it is
//! known and no longer an alarm. Nothing is rewritten, nothing thrown away, and doing it twice changes nothing.

use anstyle::{AnsiColor, Style};
use manent::log::{Damage, SetAside, TailState, acknowledge_gaps, verify};
use manent::{SessionKey, Store};
use serde_json::json;

use super::Target;
use crate::args::Repair;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

pub(crate) fn run(context: &Context<'_>, given: &Repair) -> Result<Exit, Failure> {
    let store = context.store(given.wait)?;
    let mut output = context.output();
    let mut worst = Exit::Done;
    for (target, trouble) in super::named_or_all(&store, &given.keys.keys)? {
        let repaired = match (target, trouble) {
            // What lies in the wrong place is not touched: its key leads to another file.
            (_, Some(trouble)) => Err(trouble),
            (Some(target), None) => repair(&store, &target).map(|done| (target.key, done)),
            (None, None) => continue,
        };
        match repaired {
            Ok((key, done)) => print(&key, &done, &mut output)?,
            Err(failure) => {
                output.flush()?;
                context.complain(&failure);
                worst = worst.max(failure.exit);
            }
        }
    }
    output.flush()?;
    context.detail("damage stays in the files where it is; `manent verify` goes on listing it");
    Ok(worst)
}

#[derive(Default)]
struct Done {
    set_aside: Option<SetAside>,
    acknowledged: Vec<Damage>,
}

fn repair(store: &Store, target: &Target) -> Result<Done, Failure> {
    let report = verify(store.disk(), &target.path)?;
    // A sound session is not even opened for writing. One with bytes in flight is: its writer decides what they are.
    if report.is_sound() && report.tail == TailState::Clean {
        return Ok(Done::default());
    }
    let mut session = store.write_existing(&target.key)?;
    let set_aside = session.log().set_aside().cloned();
    let acknowledged = acknowledge_gaps(session.log(), &manent::now())?;
    Ok(Done { set_aside, acknowledged })
}

fn print(key: &SessionKey, done: &Done, output: &mut Output) -> std::io::Result<()> {
    let name = term::line(key.as_str());
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
        return output.json(&json!({"session": key.as_str(), "set_aside": aside, "acknowledged": gaps}));
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
        let text = format!(
            "           acknowledged: {} bytes at offset {} ({})",
            damage.length, damage.offset, damage.reason
        );
        output.line(&[(Style::new(), &text)])?;
    }
    Ok(())
}
