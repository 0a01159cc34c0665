//! What an audit says of good items and of bad ones.

use manent::context::PromptConfig;
use manent::memory::{Audit, Kind, NewItem, Pair, Source, SourceKind};
use manent::{Memory, SessionKey, Store, turn};

use super::{fact, home, open};

/// Items of a memory of a few months, all of them correct.
const ORDINARY: [&str; 60] = [
    "Anna is the user's sister",
    "The user's daughter Mia is seven years old",
    "The user's son Jonas is nine years old",
    "Works as a nurse at the children's hospital",
    "Works from home on Mondays",
    "Lives in Lyon with two cats",
    "The cat Minka is allergic to chicken",
    "The cat Felix takes a pill every morning",
    "Prefers answers in French",
    "Prefers short answers with examples",
    "Likes tea in the morning",
    "Likes coffee in the afternoon",
    "Likes hiking in the mountains",
    "Likes swimming in the lake",
    "Doesn't like cilantro",
    "Doesn't eat meat on Fridays",
    "Is learning Spanish with an app",
    "Is learning the violin since March",
    "Uses tabs in Go and spaces in Python",
    "Uses Neovim as the main editor",
    "Uses fish as the default shell",
    "The main branch is called trunk",
    "The main database is PostgreSQL 16",
    "The staging database runs on port 5433",
    "The production database runs on port 5432",
    "The API listens on port 8080",
    "The metrics endpoint listens on port 9090",
    "The frontend is written in TypeScript",
    "The backend is written in Rust",
    "Deploys happen on Tuesdays",
    "Never deploys on Fridays",
    "Tests run in CI before every merge",
    "Releases are tagged by Ben",
    "Ben is the team lead",
    "Carla is on parental leave until June",
    "Team meeting is every Monday at 10",
    "One on one with Ben is every second Thursday at 14",
    "The deadline of the tax return is 31 May",
    "The deadline of the grant proposal is 15 September",
    "Dentist appointment on 12 December at 9",
    "Flight to Oslo on 3 January at 7",
    "Returns from Oslo on 10 January",
    "The wifi at the cabin is slow",
    "The key of the cabin hangs behind the door",
    "Budget for the kitchen is 8000 euro",
    "Budget for the bathroom is 5000 euro",
    "The plumber is called Weber",
    "The electrician is called Maier",
    "Mother's birthday is 4 April",
    "Father's birthday is 9 August",
    "Wants to read more novels this year",
    "Wants to run a half marathon in autumn",
    "Ran 10 km today",
    "Slept badly because of the storm",
    "Finished the migration of the billing service",
    "Started the migration of the search service",
    "The password manager is Bitwarden",
    "Reviews pull requests in the morning",
    "Does not want emoji in commit messages",
    "Wants emoji in the family chat",
];

fn audit_of(texts: &[&str]) -> Audit {
    let dir = home();
    let memory = open(dir.path());
    let mut hold = memory.writer(std::time::Duration::ZERO).unwrap();
    for text in texts {
        hold.add(&fact(text)).unwrap();
    }
    drop(hold);
    memory.audit().unwrap()
}

fn told(pairs: &[Pair], texts: &[&str]) -> Vec<String> {
    pairs
        .iter()
        .map(|pair| format!("{} / {}", texts[pair.older as usize - 1], texts[pair.newer as usize - 1]))
        .collect()
}

#[test]
fn sixty_ordinary_items_are_not_complained_of() {
    let audit = audit_of(&ORDINARY);
    assert_eq!(told(&audit.contradictions, &ORDINARY), Vec::<String>::new());
    assert_eq!(told(&audit.near_pairs, &ORDINARY), Vec::<String>::new());
    assert_eq!(told(&audit.same_pairs, &ORDINARY), Vec::<String>::new());
    assert_eq!(audit.secret.ids, Vec::<u64>::new());
    assert_eq!((audit.ungrounded.items, audit.flawed.items), (0, 0), "a person said so");
    assert_eq!(audit.never_recalled.items, 60);
}

#[test]
fn what_is_said_twice_is_found() {
    for (older, newer) in [
        ("Prefers answers in French", "prefers answers in french."),
        ("Uses tabs, not spaces", "uses tabs not spaces"),
    ] {
        let audit = audit_of(&[older, "something else", newer]);
        assert_eq!(
            (audit.same_pairs, audit.same.ids),
            (vec![Pair { older: 1, newer: 3 }], vec![3]),
            "{newer}"
        );
    }
    for (older, newer) in [
        ("The deploy script needs the staging credentials", "deploy script needs staging credentials"),
        ("The cat Minka is allergic to chicken and fish", "the cat Minka is allergic to fish and chicken"),
        ("User likes long hikes in the mountains", "The user likes a long hike in the mountains"),
    ] {
        let audit = audit_of(&[older, "something else", newer]);
        assert_eq!(audit.near_pairs, [Pair { older: 1, newer: 3 }], "{older} / {newer}");
        assert_eq!((audit.near.ids, audit.same.items), (vec![3], 0));
    }
}

#[test]
fn what_may_contradict_is_found_and_both_are_named() {
    for (a, b) in [
        ("The user likes long answers", "The user does not like long answers"),
        ("The user likes long answers", "The user doesn't like long answers"),
        ("The API listens on port 8080", "The API listens on port 9090"),
        ("Anna lives in Lyon", "Anna lives in Berlin"),
        ("Lives in Lyon", "Lives in Berlin"),
        ("The budget is 300 euro per month", "The budget is 500 euro per month"),
        ("Works at Initech", "Works at Globex"),
        ("The main branch is called trunk", "The main branch is called master"),
        ("Deploys on Fridays", "Never deploys on Fridays"),
    ] {
        let audit = audit_of(&[a, "nothing of the kind was said", b]);
        assert_eq!(audit.contradictions, [Pair { older: 1, newer: 3 }], "{a} / {b}");
        assert_eq!((audit.contradictory.ids, audit.near.items), (vec![3, 1], 0), "{a} / {b}");
    }
}

#[test]
fn what_can_be_true_at_once_is_no_contradiction_and_no_duplicate() {
    for (a, b) in [
        ("Works with Anna", "Works with Ben"),
        ("Works on billing", "Works on search"),
        ("Lives with Anna", "Lives with cats"),
        ("Ticket 123 is closed", "Ticket 124 is closed"),
        ("PR 12 was merged", "PR 13 was merged"),
        ("The room 4 has a projector", "The room 5 has a projector"),
        ("Likes jazz", "Likes blues"),
        ("Has visited Rome", "Has visited Oslo"),
        ("Speaks French", "Speaks German"),
        ("Not available on Mondays", "Available on Tuesdays"),
        ("The tests take 5 minutes on Linux", "The tests take 9 minutes on Windows"),
        ("Anna lives in Lyon", "Ben lives in Berlin"),
        ("Meets Anna on Monday about the budget", "Meets Anna on Tuesday about the budget"),
    ] {
        let audit = audit_of(&[a, b]);
        assert_eq!(
            (audit.contradictions, audit.near_pairs, audit.same_pairs),
            (vec![], vec![], vec![]),
            "{a} / {b}"
        );
    }
}

#[test]
fn what_a_day_brought_is_compared_with_that_day_alone() {
    let mut text = String::new();
    let days = [
        ("2026-11-14", "ran 10 km today"),
        ("2026-11-15", "ran 10 km today"),
        ("2026-11-15", "Ran 10 km today"),
    ];
    for ((day, said), id) in days.iter().zip(1..) {
        let line =
            format!("{{\"id\":{id},\"kind\":\"daily\",\"content\":\"{said}\",\"ts\":\"{day}T20:00:00Z\"}}\n");
        text.push_str(&line);
    }
    for (id, (day, said)) in (4..).zip([("2026-11-15", "slept well"), ("2026-11-16", "not slept well")]) {
        let line =
            format!("{{\"id\":{id},\"kind\":\"daily\",\"content\":\"{said}\",\"ts\":\"{day}T20:00:00Z\"}}\n");
        text.push_str(&line);
    }
    let (_dir, memory) = super::with_file(text);
    let audit = memory.audit().unwrap();
    assert_eq!(audit.same_pairs, [Pair { older: 2, newer: 3 }]);
    assert_eq!((audit.contradictions, audit.near_pairs), (vec![], vec![]));
}

fn from(memory: &Memory, seq: u64, quote: Option<&str>, text: &str) -> u64 {
    let source = Source {
        session: Some("work".into()),
        seqs: Some((seq, seq)),
        quote: quote.map(str::to_owned),
        ..Source::by(SourceKind::Model)
    };
    memory.add(&NewItem::new(Kind::Fact, text).from(source)).unwrap().id
}

#[test]
fn what_rests_on_nothing_was_not_said_by_the_user_or_is_a_secret_is_found() {
    let dir = home();
    let store = Store::open(dir.path()).unwrap();
    let key = SessionKey::new("work").unwrap();
    store.append(&key, turn("user", "I moved to Lyon last week")).unwrap();
    store.append(&key, turn("assistant", "Then you surely love cheese")).unwrap();
    let memory = store.memory().unwrap();
    let good = from(&memory, 1, Some("moved to Lyon"), "lives in Lyon");
    let invented = from(&memory, 2, Some("you surely love cheese"), "loves cheese");
    let without = from(&memory, 1, None, "is a student");
    let wrong = from(&memory, 1, Some("I hate trains"), "hates trains");
    let nowhere = from(&memory, 77, Some("moved to Lyon"), "came by train");
    let secret = memory.add(&fact("the key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD")).unwrap().id;
    let told = memory.add(&fact("drinks tea")).unwrap().id;
    let audit = memory.audit().unwrap();
    assert_eq!(audit.ungrounded.ids, [nowhere, wrong, without, invented]);
    assert_eq!(audit.not_said_by_user.ids, [invented]);
    assert_eq!(audit.secret.ids, [secret]);
    assert_eq!(audit.flawed.items, 5);
    assert!((audit.ungrounded.rate - 4.0 / 7.0).abs() < 1e-9);
    assert_eq!(audit.never_recalled.items, 7);
    let chosen = memory.select("tea in Lyon", 120).unwrap();
    assert!(chosen.ids.contains(&told) && chosen.ids.contains(&good), "{chosen:?}");
    let given = PromptConfig::default().remembering(&chosen);
    store.session(&key).unwrap().set_context(&given).unwrap();
    assert_eq!(memory.audit().unwrap().never_recalled.items, 7 - chosen.ids.len());
    // What is gone is not complained of.
    memory.forget(&[nowhere, wrong, without, invented, secret]).unwrap();
    let audit = memory.audit().unwrap();
    assert_eq!((audit.flawed.items, audit.counts.active, audit.damaged), (0, 2, 0));
}

#[test]
fn an_audit_of_nothing_says_nothing() {
    let dir = home();
    let audit = open(dir.path()).audit().unwrap();
    assert_eq!(audit, Audit::default());
}
