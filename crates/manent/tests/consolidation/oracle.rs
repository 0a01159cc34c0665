//! What may be remembered of what was said: a table, written by hand, and nothing clever.

use std::collections::HashSet;

use manent::Store;
use manent::memory::{Filter, Item, Kind, Source, SourceKind};

/// Sentences that users say, and how else they may be told.
pub(crate) const SAID: [(&str, &[&str]); 20] = [
    ("I live in Lyon.", &["The user lives in Lyon", "User lives in Lyon.", "the user lives in Lyon."]),
    ("I don't live in Berlin.", &["The user doesn't live in Berlin."]),
    ("I worked at Acme for a year.", &["The user worked at Acme for a year"]),
    ("My brother works at Umbrella.", &["The user's brother works at Umbrella."]),
    ("I'm allergic to nuts.", &["The user is allergic to nuts", "User is allergic to nuts."]),
    ("I like C.", &["The user likes C"]),
    ("My budget is 500 euro.", &["The user's budget is 500 euro"]),
    ("If I lived in Oslo, I would ski.", &["If the user lived in Oslo, they would ski"]),
    ("She said \"I hate tea. I drink rum.\" to me.", &[]),
    ("It is not true that e.g. I smoke.", &["It is not true that e.g. the user smokes"]),
    ("My boss hates me.", &["The user's boss hates them", "The user's boss hates the user"]),
    ("the office is in Porto.", &[]),
    ("I prefer tabs over spaces.", &["The user prefers tabs over spaces"]),
    ("我住在里昂。", &[]),
    ("Ich wohne nicht in Köln.", &[]),
    ("My cafe\u{301} is called Nord.", &["The user's cafe\u{301} is called Nord"]),
    ("I use \u{202e}kcart\u{202c} and a\u{200b}b.", &["The user uses \u{202e}kcart\u{202c} and a\u{200b}b"]),
    ("I never eat <b>meat</b> & fish.", &["The user never eats <b>meat</b> & fish"]),
    ("I have \u{1b}[31mtwo\u{1b}[0m dogs.", &["The user has \u{1b}[31mtwo\u{1b}[0m dogs"]),
    ("I moved here in 2019!", &["The user moved here in 2019"]),
];

/// Sentences of users that must not become items.
pub(crate) const IDLE: [&str; 6] = [
    "Do I live in Rome?",
    "thanks!",
    "ok.",
    "my password is hunter2secret99",
    "The key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD.",
    "...",
];

/// A word that only others say.
pub(crate) const OTHERS: &str = "zqx";

fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Some whole sentences that stand together.
fn sentences_in(quote: &str) -> Option<Vec<&'static str>> {
    let all = SAID.iter().map(|(said, _)| *said).chain(IDLE);
    let (mut rest, mut found) = (quote, Vec::new());
    let all: Vec<&str> = all.collect();
    while !rest.is_empty() {
        let next = all.iter().find(|said| rest.starts_with(**said))?;
        rest = rest[next.len()..].trim_start();
        found.push(*next);
    }
    (1..=6).contains(&found.len()).then_some(found)
}

/// Describes what is wrong with an item.
fn judge(item: &Item, said: &[(u64, String, String)]) -> Result<(), String> {
    let Source { who, seqs, quote, .. } = &item.source;
    let quote = quote.as_deref().ok_or("no quote")?;
    let (first, last) = seqs.ok_or("no turn")?;
    if *who != SourceKind::Model {
        return Err("a model said it".into());
    }
    let theirs = said
        .iter()
        .filter(|(seq, role, _)| (first..=last).contains(seq) && matches!(role.as_str(), "user" | "human"));
    if !theirs.clone().any(|(_, _, text)| plain(text).contains(&plain(quote))) {
        return Err("the user did not say so".into());
    }
    if [&item.content, quote].into_iter().any(|text| !manent::secrets(text).is_empty()) {
        return Err("it gives a secret away".into());
    }
    if item.kind == Kind::Daily {
        return judge_daily(item, said);
    }
    if first != last || [&*item.content, quote].into_iter().any(|text| text.contains(OTHERS)) {
        return Err("the word of others".into());
    }
    let whole = sentences_in(quote).ok_or("half a sentence")?;
    let as_said = item.content == format!("The user said: {quote}");
    let alike = SAID.iter().find(|(said, _)| [*said] == *whole).map_or(&[][..], |(_, alike)| alike);
    // Not as people write it, but word for word.
    let end = |text: &str| text.trim_end_matches(['.', '!']).to_owned();
    let told_plainly = end(&item.content) == end(&quote.replacen("I ", "The user ", 1));
    if !as_said && !told_plainly && !alike.contains(&item.content.as_str()) {
        return Err("not what was said".into());
    }
    Ok(())
}

/// A day names nothing that nobody named.
fn judge_daily(item: &Item, said: &[(u64, String, String)]) -> Result<(), String> {
    let named = |word: &str| {
        let word = word.to_lowercase();
        // In whatever form: Lyon, and what is like Lyone.
        let word = if word.len() > 4 { &word[..word.floor_char_boundary(word.len() - 1)] } else { &word };
        said.iter().any(|(_, _, text)| text.to_lowercase().contains(word))
            || [
                "the",
                "user",
                "assistant",
                "secret",
                "also",
                "named",
                "do",
                "i",
                "if",
                "it",
                "my",
                "in",
                "she",
            ]
            .contains(&word)
    };
    // Behind the minute.
    let told = item.content.get(17..).ok_or("no minute")?;
    for word in told.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let is_name = word.chars().any(|c| c.is_numeric() || c.is_uppercase());
        if is_name && !named(word) && word.parse::<u64>().is_err() {
            return Err(format!("nobody named {word}"));
        }
    }
    Ok(())
}

/// Checks that every item may be there, active or replaced or proposed.
pub(crate) fn judge_all(store: &Store, said: &[(u64, String, String)]) -> Result<usize, String> {
    let (mut learned, mut seen) = (0, HashSet::new());
    for memory in [store.memory().unwrap(), store.inbox().unwrap()] {
        for replaced in [false, true] {
            for item in memory.items(&Filter { replaced, ..Filter::default() }).unwrap() {
                judge(&item, said).map_err(|what| format!("{what}: {item:?}"))?;
                learned += usize::from(item.kind != Kind::Daily);
                if !seen.insert((item.kind, item.content.clone())) && item.kind != Kind::Daily {
                    return Err(format!("twice: {item:?}"));
                }
            }
        }
        let audit = memory.audit().unwrap();
        if audit.ungrounded.items + audit.secret.items > 0 {
            return Err(format!("the audit finds {audit:?}"));
        }
    }
    Ok(learned)
}
