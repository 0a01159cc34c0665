//! Compares answers with the truth.

use std::collections::{BTreeMap, BTreeSet};

use manent::{Hit, Query, SearchResults, Store};

use super::NOW_MS;
use super::oracle::{Ask, Spot, Truth, Turn, spot};

/// A limit that no answer reaches.
pub(crate) const ALL: usize = 1_000_000;

/// Selects how closely two answers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Like {
    /// To the last bit: hits, their order, scores, titles, snippets.
    Exactly,
    /// The same turns.
    Turns,
}

pub(crate) fn search(store: &Store, ask: &Ask, limit: usize) -> Result<SearchResults, String> {
    let text = ask.text();
    let query = Query::parse(&text, NOW_MS).map_err(|e| format!("{text:?} is no question: {e}"))?;
    store.search(&query, limit).map_err(|e| format!("searching {text:?}: {e}"))
}

/// Asks a store, and compares what it answers with the truth. Gives the answer.
pub(crate) fn check(store: &Store, truth: &Truth, ask: &Ask) -> Result<SearchResults, String> {
    let found = check_all(store, truth, ask)?;
    for limit in [0, 1, 2, 5, found.hits.len() / 2, found.hits.len()] {
        let few = search(store, ask, limit)?;
        let first = &found.hits[..limit.min(found.hits.len())];
        if few.hits != first {
            let show = |hits: &[Hit]| -> Vec<String> {
                hits.iter().map(|hit| format!("{:?} {}", spot(&hit.id, hit.seq), hit.score)).collect()
            };
            return Err(format!(
                "{:?}: the best {limit} are {:#?}, and not the first of all: {:#?}",
                ask.text(),
                show(&few.hits),
                show(first)
            ));
        }
    }
    Ok(found)
}

/// A turn, as far as an answer tells. A log that was tampered with may hold a number twice, so turns are counted.
type Told = (Spot, String, String);
type Counted = BTreeMap<Told, usize>;

fn count(turns: impl Iterator<Item = Told>) -> Counted {
    let mut counted = Counted::new();
    for turn in turns {
        *counted.entry(turn).or_default() += 1;
    }
    counted
}

fn told(turn: &Turn) -> Told {
    (spot(&turn.id, turn.seq), turn.role.clone(), turn.ts.clone())
}

/// Returns the turns that are in one answer more often than in the other.
fn beyond<'a>(these: &'a Counted, those: &Counted) -> Vec<&'a Told> {
    these.iter().filter(|(turn, n)| those.get(*turn).is_none_or(|m| m < n)).map(|(turn, _)| turn).collect()
}

/// Checks like [`check`], but asks for all hits only.
pub(crate) fn check_all(store: &Store, truth: &Truth, ask: &Ask) -> Result<SearchResults, String> {
    let found = search(store, ask, ALL)?;
    compare(&found, truth, ask).map_err(|what| format!("{:?}: {what}", ask.text()))?;
    Ok(found)
}

fn compare(found: &SearchResults, truth: &Truth, ask: &Ask) -> Result<(), String> {
    if found.hits.windows(2).any(|pair| pair[0].score < pair[1].score) {
        return Err("a later hit scores higher".to_owned());
    }
    let of_hit = |hit: &Hit| (spot(&hit.id, hit.seq), hit.role.clone(), hit.ts.clone());
    let hits = count(found.hits.iter().map(of_hit));
    let such = |takes: fn(Option<bool>) -> bool| {
        count(truth.findable().filter(|turn| takes(ask.takes(turn))).map(told))
    };
    let (wanted, perhaps) = (such(|takes| takes == Some(true)), such(|takes| takes != Some(false)));
    let is_question = Query::parse(&ask.text(), NOW_MS).is_ok_and(|query| query.is_question());
    if is_question || (ask.is_plain() && wanted.is_empty()) {
        if found.related && !wanted.is_empty() {
            return Err(format!(
                "there are turns with all the words, and it says there are none; {wanted:?}"
            ));
        }
        let near = count(truth.findable().filter(|turn| ask.admits(turn) != Some(false)).map(told));
        let (missed, invented) = (beyond(&wanted, &hits), beyond(&hits, &near));
        if !missed.is_empty() || !invented.is_empty() {
            return Err(format!("missed {missed:?}, and near, but not there: {invented:?}"));
        }
        return check_passages(&found.hits);
    }
    if found.related {
        return Err("only a plain question is answered by what is near".to_owned());
    }
    let (missed, invented) = (beyond(&wanted, &hits), beyond(&hits, &perhaps));
    if !missed.is_empty() || !invented.is_empty() {
        return Err(format!("missed {missed:?} of {}, invented {invented:?}", wanted.len()));
    }
    let all: usize = wanted.values().sum();
    match found.total {
        Some(total) if wanted == perhaps && total != all as u64 => {
            return Err(format!("{total} in all, it says, and there are {all}"));
        }
        _ => {}
    }
    let unread: BTreeSet<Spot> = found.unread.iter().map(|(at, _)| spot(at, 0)).collect();
    if unread != truth.unread {
        return Err(format!("could not read {unread:?}, where that is so of {:?}", truth.unread));
    }
    Ok(())
}

/// Checks that the first hits say different things, and that hits that repeat others name them and share their passage.
fn check_passages(hits: &[Hit]) -> Result<(), String> {
    for (at, hit) in hits.iter().enumerate() {
        let (before, first) = (&hits[..at], hits[..at].iter().filter(|hit| hit.repeats.is_none()).count());
        let Some((id, seq)) = &hit.repeats else { continue };
        let named = before.iter().find(|other| other.id == *id && other.seq == *seq);
        let Some(named) = named else {
            return Err(format!("hit {at} repeats {seq} of {id:?}, which is no better hit"));
        };
        let begins = before.iter().find(|other| other.passage == named.passage) == Some(named);
        if begins && named.passage != hit.passage {
            return Err(format!(
                "hit {at} repeats the first hit of passage {}, and is not in it",
                named.passage
            ));
        }
        let different_left = hits[at..].iter().any(|hit| hit.repeats.is_none());
        if first < 10 && different_left {
            return Err(format!("hit {at} repeats another, and only {first} different ones are before it"));
        }
    }
    Ok(())
}

/// Compares two answers to one question.
pub(crate) fn same(here: &SearchResults, there: &SearchResults, like: Like) -> Result<(), String> {
    let spots = |found: &SearchResults| found.hits.iter().map(|hit| spot(&hit.id, hit.seq)).collect();
    let (a, b): (Vec<Spot>, Vec<Spot>) = (spots(here), spots(there));
    let sets = |spots: &[Spot]| spots.iter().cloned().collect::<BTreeSet<Spot>>();
    if !here.related && sets(&a) != sets(&b) {
        return Err(format!("other turns: {a:?}\nand {b:?}"));
    }
    if like == Like::Turns {
        return Ok(());
    }
    if a != b {
        return Err(format!("another order: {a:?}\nand {b:?}"));
    }
    if let Some((hit, other)) = here.hits.iter().zip(&there.hits).find(|(hit, other)| hit != other) {
        return Err(format!("the same turn looks different: {hit:#?}\nand {other:#?}"));
    }
    if here.related != there.related {
        return Err("only one of them is of what is near".to_owned());
    }
    match (here.total, there.total) {
        (Some(a), Some(b)) if a != b => Err(format!("{a} in all, or {b}")),
        _ => Ok(()),
    }
}
