//! `manent memory audit`: how good the memory is.

use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent::memory::{Audit, Pair, Rate};
use manent::{Memory, Place, Store};

use crate::commands::prelude::*;

/// Look for duplicates, contradictions, secrets, and what rests on nothing
#[derive(Debug, Args)]
pub(crate) struct MemoryAuditArgs {}

pub(crate) fn run(context: &Context<'_>, _args: &MemoryAuditArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let memory = store.memory()?;
    let spinner = context.spinner(bytes_read(&store, &memory)?);
    let audit = memory.audit();
    spinner.finish_and_clear();
    let audit = audit?;
    super::warn_of_damage(context, &memory)?;
    context.print(&json_of(&audit), |output| print(&audit, output))?;
    Ok(Exit::Done)
}

/// Returns the bytes that an audit reads: the memory, and every session in which an item may have been recalled.
fn bytes_read(store: &Store, memory: &Memory) -> Result<u64, Failure> {
    let mut bytes = RealDisk.inspect(memory.path()).map_or(0, |info| info.len);
    for place in [Place::Live, Place::Archive] {
        bytes += store.list(place)?.iter().map(|listed| listed.bytes).sum::<u64>();
    }
    Ok(bytes)
}

fn print(audit: &Audit, output: &mut Output) -> io::Result<()> {
    let counts = &audit.counts;
    let mut there = format!("{} active", term::count(counts.active as u64));
    let one_or = |count: usize, one, many| if count == 1 { one } else { many };
    for (count, word) in [
        (counts.replaced as u64, "replaced"),
        (counts.forgotten as u64, "forgotten and still in the file"),
        (counts.unknown as u64, one_or(counts.unknown, "of an unknown kind", "of unknown kinds")),
        (counts.double_ids as u64, one_or(counts.double_ids, "number given twice", "numbers given twice")),
        (audit.damaged, "damaged"),
    ] {
        if count > 0 {
            there = format!("{there}, {} {word}", term::count(count));
        }
    }
    output.line(&[(Style::new().bold(), &there)])?;
    if counts.active == 0 {
        return Ok(());
    }
    let pairs = |pairs: &[Pair]| {
        let shown: Vec<String> =
            pairs.iter().take(SHOWN).map(|p| format!("{}/{}", p.older, p.newer)).collect();
        // Only some of very many are known here.
        let more = if pairs.len() > SHOWN { " and more" } else { "" };
        shown.join(" ") + more
    };
    let ids = |rate: &Rate| {
        let shown = &rate.ids[..rate.ids.len().min(SHOWN)];
        let more = match rate.items.saturating_sub(shown.len()) {
            0 => String::new(),
            rest => format!(" and {} more", term::count(rest as u64)),
        };
        term::numbers(shown, " ") + &more
    };
    for (name, rate, which) in [
        ("say what another says", &audit.same, pairs(&audit.same_pairs)),
        ("nearly say what another says", &audit.near, pairs(&audit.near_pairs)),
        ("may contradict another", &audit.contradictory, pairs(&audit.contradictions)),
        ("rest on no word of the user", &audit.ungrounded, ids(&audit.ungrounded)),
        ("of these, quote somebody else", &audit.not_said_by_user, ids(&audit.not_said_by_user)),
        ("look like credentials", &audit.secret, ids(&audit.secret)),
        ("were never put into a context", &audit.never_recalled, ids(&audit.never_recalled)),
    ] {
        let which = if which.is_empty() { which } else { format!("  {which}") };
        output.line(&[(Style::new(), &row(name, rate)), (term::FAINT, &which)])?;
    }
    output.line(&[(Style::new().bold(), &row("have any flaw above but the last", &audit.flawed))])?;
    if audit.flawed.items > 0 {
        let hint = "`manent memory why ID` shows where one came from; `manent memory forget ID` lets it go";
        output.line(&[(term::FAINT, hint)])?;
    }
    Ok(())
}

fn row(name: &str, rate: &Rate) -> String {
    let percent = format!("{:.1} %", rate.rate * 100.0);
    format!("{name:32}{:>8}{percent:>8}", term::count(rate.items as u64))
}

fn json_of(audit: &Audit) -> Value {
    let rate = |rate: &Rate| json!({"items": rate.items, "rate": rate.rate, "ids": rate.ids});
    let pairs = |pairs: &[Pair]| pairs.iter().map(|pair| json!([pair.older, pair.newer])).collect::<Vec<_>>();
    let with_pairs = |of: &Rate, which: &[Pair]| {
        let mut value = rate(of);
        value["pairs"] = json!(pairs(which));
        value
    };
    let counts = &audit.counts;
    json!({
        "active": counts.active, "replaced": counts.replaced, "forgotten": counts.forgotten,
        "unknown": counts.unknown, "double_ids": counts.double_ids, "damaged": audit.damaged,
        "exact_duplicates": with_pairs(&audit.same, &audit.same_pairs),
        "near_duplicates": with_pairs(&audit.near, &audit.near_pairs),
        "contradictory": with_pairs(&audit.contradictory, &audit.contradictions),
        "ungrounded": rate(&audit.ungrounded), "not_said_by_user": rate(&audit.not_said_by_user),
        "secret": rate(&audit.secret), "never_recalled": rate(&audit.never_recalled),
        "flawed": rate(&audit.flawed),
    })
}

const SHOWN: usize = 5;
