//! Files of any shape, read by a parser and a list: the memory must say the same, before and after compacting.

use manent::memory::Filter;
use manent_sim::seeds::live_all;
use manent_sim::{Rng, SimDisk};
use serde_json::Value;

use super::scenes::{FILE, HOME, open};
use super::{fact, number};

/// A line as another program, a newer version, or a disaster may have written it.
fn line(rng: &mut Rng) -> String {
    let (id, target) = (rng.below(12), rng.below(12));
    let kind = ["fact", "pref", "context", "daily", "skill", "Fact", ""][rng.below(7) as usize];
    let ts = [
        "",
        ",\"ts\":\"2026-11-16T00:00:00Z\"",
        ",\"ts\":1700000000",
        ",\"ts\":\"yesterday\"",
        ",\"ts\":null",
    ];
    let ts = ts[rng.below(5) as usize];
    let odd_id = ["-1", "1.5", "\"4\"", "18446744073709551616", "9223372036854775808", "null", "[]"];
    match rng.below(16) {
        0..=5 => format!("{{\"id\":{id},\"kind\":\"{kind}\",\"content\":\"c{id}\"{ts}}}"),
        6 | 7 => format!("{{\"kind\":\"fact\",\"replaces\":{target},\"content\":\"r\"{ts},\"id\":{id}}}"),
        8..=10 => format!("{{\"id\":{},\"kind\":\"forget\",\"target\":{target}}}", 20 + id),
        11 => format!("{{\"kind\":\"forget\",\"target\":{target}}}"),
        12 => format!("{{\"id\":{},\"kind\":\"fact\",\"content\":\"odd\"}}", odd_id[rng.below(7) as usize]),
        13 => format!("{{\"id\":{id},\"kind\":\"forget\",\"target\":\"{target}\"}}"),
        14 => ["{\"id\":1,\"kind\":\"fa", "\u{0}\u{0}", "[1,2]", "}}}}", "", "  "][rng.below(6) as usize]
            .to_owned(),
        _ => ["{\"meta\":{\"id\":9}}", "{}", "{\"id\":3}", "{\"note\":\"x\"}"][rng.below(4) as usize]
            .to_owned(),
    }
}

/// The meaning of the lines, taken one by one: ids and texts of the active items, unknown ones, the highest id.
fn naive(lines: &[String]) -> (Vec<(u64, String)>, Vec<String>, u64) {
    let mut items: Vec<(u64, String, Option<u64>)> = Vec::new();
    let (mut unknown, mut highest) = (Vec::new(), 0);
    for line in lines {
        let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(line) else { continue };
        let id = value["id"].as_u64();
        highest = id.filter(|id| *id < 1 << 53).map_or(highest, |id| highest.max(id));
        match (value["kind"].as_str(), id, value["target"].as_u64()) {
            (Some("forget"), _, Some(target)) => items.retain(|(id, ..)| *id != target),
            (Some("fact" | "pref" | "context" | "daily"), Some(id), _) => {
                let replaces = value["replaces"].as_u64().filter(|replaced| *replaced < id);
                items.push((id, value["content"].as_str().unwrap_or_default().to_owned(), replaces));
            }
            (_, Some(_), _) => unknown.push(line.clone()),
            _ => {}
        }
    }
    let hidden: Vec<u64> = items.iter().filter_map(|(.., replaces)| *replaces).collect();
    items.retain(|(id, ..)| !hidden.contains(id));
    let mut active: Vec<(u64, String)> = items.into_iter().map(|(id, text, _)| (id, text)).collect();
    active.sort();
    (active, unknown, highest)
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, told: &T, known: &T, text: &str) -> Result<(), String> {
    if told == known {
        Ok(())
    } else {
        Err(format!("{what}: {told:?}, and it should be {known:?}, in\n{text}"))
    }
}

fn live(seed: u64) -> Result<u64, String> {
    let mut rng = Rng::new(seed);
    let lines: Vec<String> = (0..rng.range(1..=30)).map(|_| line(&mut rng)).collect();
    let text = lines.join("\n") + if rng.chance(3, 4) { "\n" } else { "" };
    let (active, unknown, highest) = naive(&lines);
    let disk = SimDisk::new(seed);
    disk.poke_dir(HOME).unwrap();
    disk.poke(FILE, text.as_bytes()).unwrap();
    let memory = open(&disk);
    let told = || -> Result<Vec<(u64, String)>, String> {
        let items = memory.items(&Filter::default()).map_err(|e| format!("{e}, in\n{text}"))?;
        let mut told: Vec<_> = items.into_iter().map(|item| (item.id, item.content)).collect();
        told.sort();
        Ok(told)
    };
    expect("listed", &told()?, &active, &text)?;
    expect("unknown", &memory.counts().unwrap().unknown, &unknown.len(), &text)?;
    // Where nothing at all can be read, it is nobody's memory, and is not written.
    let Ok(compacted) = memory.compact() else {
        return if active.is_empty() { Ok(0) } else { Err(format!("it cannot be compacted:\n{text}")) };
    };
    expect("listed after compacting", &told()?, &active, &text)?;
    let after = String::from_utf8_lossy(&disk.peek(FILE).unwrap()).into_owned();
    for line in &unknown {
        expect("kept", &after.contains(line.as_str()), &true, &format!("{text}\n{line}\n{after}"))?;
    }
    expect("dropped again", &memory.compact().unwrap().dropped, &0, &text)?;
    let (there, _, now_highest) = naive(&after.lines().map(str::to_owned).collect::<Vec<_>>());
    expect("what they read", &there, &active, &format!("{text}\n{after}"))?;
    expect("numbers of theirs rise", &(now_highest >= highest), &true, &format!("{text}\n{after}"))?;
    if let Ok(added) = open(&disk).add(&fact("new")) {
        expect("numbers of ours rise", &(added.id > highest), &true, &format!("{} in {text}", added.id))?;
        expect("one more", &told()?.len(), &(active.len() + 1), &text)?;
    }
    Ok(compacted.dropped)
}

#[test]
fn a_file_of_any_shape_means_what_its_lines_say_one_by_one() {
    let (first, count) = match number("MANENT_MEMORY_SEED") {
        Some(seed) => (seed, 1),
        None => {
            (number("MANENT_MEMORY_FIRST").unwrap_or(0), number("MANENT_MEMORY_LIVES").unwrap_or(200) * 10)
        }
    };
    let one = |seed| live(seed).map_err(|what| format!("seed {seed}: {what}"));
    let (dropped, troubles) = live_all(first, count, one, |all: &mut u64, one| *all += one);
    for trouble in &troubles {
        eprintln!("{trouble}");
    }
    assert!(troubles.is_empty(), "{} files were misread; MANENT_MEMORY_SEED replays one", troubles.len());
    assert!(count < 100 || dropped > count / 2, "too little is forgotten: {dropped} in {count} files");
}
