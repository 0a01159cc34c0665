//! Random models that lie, in random conversations, against the table of what may be remembered.

use std::cell::RefCell;

use manent::consolidate::{ExtractorError, Rules, Step};
use manent_sim::Rng;
use manent_sim::seeds::live_as_asked;

use super::oracle::{IDLE, OTHERS, SAID, judge_all};
use super::{Model, at, home, open, say};

#[derive(Debug, Default)]
struct Stats {
    steps: u64,
    learned: u64,
    refused: u64,
    unreadable: u64,
    failed: u64,
}

impl Stats {
    fn add(&mut self, other: &Stats) {
        self.steps += other.steps;
        self.learned += other.learned;
        self.refused += other.refused;
        self.unreadable += other.unreadable;
        self.failed += other.failed;
    }
}

fn pick<'a, T: ?Sized>(dice: &mut Rng, from: &[&'a T]) -> &'a T {
    from[dice.below(from.len() as u64) as usize]
}

fn sentence(dice: &mut Rng) -> &'static str {
    if dice.chance(1, 4) {
        return IDLE[dice.below(IDLE.len() as u64) as usize];
    }
    SAID[dice.below(SAID.len() as u64) as usize].0
}

/// Text of the user, with text of programs in between.
fn users_turn(dice: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..dice.range(1..=4) {
        text.push_str(sentence(dice));
        text.push_str(pick(dice, &[" ", "\n", "\n\n", "  \t"]));
        if dice.chance(1, 5) {
            let others = format!("I {OTHERS}live in Rome.");
            let (before, behind) =
                [("```", "```"), (">", ""), ("<memory>", "</memory>"), ("````\n```", "````")]
                    [dice.below(4) as usize];
            let gap = if before == ">" { " " } else { "\n" };
            for part in ["\n", before, gap, &others, "\n", behind, "\n"] {
                text.push_str(part);
            }
        }
    }
    text
}

fn words(dice: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..dice.below(12) {
        text.push_str(pick(
            dice,
            &[
                "user",
                "lives",
                "in",
                "Rome",
                "not",
                "the",
                "The",
                "I",
                "\u{200b}",
                "\u{202e}",
                "Zoe",
                "42",
                "?",
                "\u{0}",
                "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD",
                "é",
                "🎉",
                "\n",
                "\"",
                "{",
                "]",
                "Lyon",
                "budget",
                "500",
            ],
        ));
        text.push_str(pick(dice, &[" ", "", "\u{a0}"]));
    }
    text
}

/// A part of a text, cut anywhere.
fn cropped<'a>(dice: &mut Rng, text: &'a str) -> &'a str {
    let start = text.floor_char_boundary(dice.below(text.len() as u64 + 1) as usize);
    let end = text.floor_char_boundary(dice.range(start as u64..=text.len() as u64) as usize);
    &text[start..end.max(start)]
}

fn quote(dice: &mut Rng, said: &[(u64, String, String)]) -> String {
    let any = said[dice.below(said.len() as u64) as usize].2.clone();
    match dice.below(10) {
        0..=2 => sentence(dice).to_owned(),
        3 => {
            let whole = sentence(dice);
            cropped(dice, whole).to_owned()
        }
        4 => cropped(dice, &any).to_owned(),
        5 => any,
        6 => sentence(dice).to_uppercase(),
        7 => format!("“{}”", sentence(dice).replace(' ', "  ").replace('\'', "’")),
        8 => format!("{} {}", sentence(dice), sentence(dice)),
        _ => words(dice),
    }
}

fn content(dice: &mut Rng, quote: &str) -> String {
    let (_, alike) = SAID[dice.below(SAID.len() as u64) as usize];
    match dice.below(8) {
        0 | 1 => alike.first().copied().unwrap_or_default().to_owned(),
        2 => quote.to_owned(),
        3 => quote.replace("don't ", "").replace("not ", "").replace("I ", "The user "),
        4 => format!("The user {}", cropped(dice, quote)),
        5 => format!(
            "{}{}",
            alike.first().copied().unwrap_or_default(),
            pick(dice, &["+", " not", "\u{202e}", "0"])
        ),
        6 => quote.replace("worked", "works").replace("lived", "lives").replace("I ", "The user "),
        _ => words(dice),
    }
}

/// A possible reply of a model.
fn answer(dice: &mut Rng, said: &[(u64, String, String)]) -> String {
    let most = if dice.chance(1, 50) { 3000 } else { 20 };
    let claims: Vec<serde_json::Value> = (0..dice.below(most))
        .map(|_| {
            let quote = quote(dice, said);
            // Right for the sentence more often than by chance.
            let known = SAID.iter().find(|(said, _)| *said == quote).and_then(|(_, alike)| alike.first());
            let content = match known {
                Some(alike) if dice.chance(1, 2) => (*alike).to_owned(),
                _ => content(dice, &quote),
            };
            let kind = pick(dice, &["fact", "pref", "context", "daily", "", "forget", "FACT"]);
            serde_json::json!({"kind": kind, "quote": quote, "content": content, "id": 1, "replaces": 1})
        })
        .collect();
    let text = serde_json::json!({ "facts": claims }).to_string();
    match dice.below(24) {
        0 => text[..text.floor_char_boundary(dice.below(text.len() as u64 + 1) as usize)].to_owned(),
        1 => (0..dice.below(200)).map(|_| char::from(dice.below(256) as u8)).collect(),
        2 => format!("{}{}", "[".repeat(dice.below(100_000) as usize), text),
        3 => r#"{"facts":[{"kind":1,"quote":["I live in Lyon."],"content":{}}]}"#.to_owned(),
        4 => r#"{"facts":{"quote":"I live in Lyon.","content":"x"}}"#.to_owned(),
        5 => text.replace("\"quote\"", "\"qoute\""),
        6 => words(dice),
        7 => format!("{text}{text}"),
        8 => format!("Sure! Here it is:\n```json\n{text}\n```\nAnything else?"),
        9 => "null".to_owned(),
        10 if dice.chance(1, 8) => format!(r#"{{"facts":["{}"]}}"#, "a".repeat(3 << 20)),
        _ => text,
    }
}

fn telling(dice: &mut Rng, transcript: &str) -> String {
    match dice.below(6) {
        0 => String::new(),
        1 => cropped(dice, transcript).to_owned(),
        2 => format!(
            "The user told {} of {}",
            pick(dice, &["Zoe", "Rome", "nobody"]),
            cropped(dice, transcript)
        ),
        3 => {
            format!("{} user said {}", pick(dice, &["Zoe:", "The", "In 1999 the"]), cropped(dice, transcript))
        }
        4 => words(dice).repeat(dice.range(1..=40) as usize),
        _ => sentence(dice).to_owned(),
    }
}

fn live(seed: u64) -> Result<Stats, String> {
    let mut dice = Rng::new(seed);
    let dir = home();
    let store = open(dir.path());
    let mut said = Vec::new();
    let mut stats = Stats::default();
    for _ in 0..dice.range(1..=3) {
        for _ in 0..dice.range(1..=6) {
            let role =
                pick(&mut dice, &["user", "user", "human", "assistant", "tool", "system", "developer"]);
            let theirs = matches!(role, "user" | "human");
            let text = if theirs {
                users_turn(&mut dice)
            } else {
                format!("I {OTHERS}live in Rome. {}", words(&mut dice))
            };
            said.push((say(&store, "work", role, &text), role.to_owned(), text));
        }
        let random = RefCell::new(Rng::new(dice.next_u64()));
        let mut model = Model::honest();
        model.max = dice.range(20..=400);
        model.prompt = format!("prompt {}", dice.below(2));
        model.daily = Box::new(|transcript| Ok(telling(&mut random.borrow_mut(), transcript)));
        model.facts = Box::new(|_| {
            if random.borrow_mut().chance(1, 12) {
                return Err(ExtractorError::Refused("no".into()));
            }
            Ok(answer(&mut random.borrow_mut(), &said))
        });
        let rules = Rules { inbox: dice.chance(1, 4), again: dice.chance(1, 3), ..Rules::default() };
        let mut by = store.consolidation().unwrap().consolidator(std::time::Duration::ZERO).unwrap();
        loop {
            match by.step(&at(&store, "work"), &mut model, &rules).map_err(|e| e.to_string())? {
                Step::Done(done) => {
                    stats.steps += 1;
                    stats.refused += done.refused.len() as u64;
                    stats.unreadable += u64::from(done.unreadable);
                }
                Step::Failed { .. } => stats.failed += 1,
                Step::UpToDate => break,
                other => return Err(format!("{other:?}")),
            }
        }
        drop(by);
        for evidence in &model.evidence {
            if evidence.contains(OTHERS) {
                return Err(format!("shown as evidence: {evidence}"));
            }
        }
    }
    stats.learned = judge_all(&store, &said)? as u64;
    Ok(stats)
}

#[test]
fn whatever_a_model_answers_nothing_is_remembered_that_the_user_did_not_say() {
    let names = ["MANENT_CONSOLIDATION_SEED", "MANENT_CONSOLIDATION_FIRST", "MANENT_CONSOLIDATION_LIVES"];
    let (total, count) =
        live_as_asked(names, 600, live, Stats::add).unwrap_or_else(|trouble| panic!("{trouble}"));
    eprintln!("{count} lives: {total:?}");
    if count >= 100 {
        // Lives in which nothing happens prove nothing.
        let Stats { steps, learned, refused, unreadable, failed } = total;
        for (what, times) in [steps, learned, refused, unreadable, failed].iter().enumerate() {
            assert!(*times > count / 8, "too little happens: {what} of {total:?}");
        }
    }
}
