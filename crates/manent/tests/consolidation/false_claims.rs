//! Lies that were thought out by hand.

use manent::consolidate::Refusal;

use super::{Model, contents, dailies, expect_grounded, facts, home, learned, look, open, say};

/// Returns what is remembered of a turn when a model makes a claim, or the refusal.
fn claimed(said: &str, content: &str, quote: &str) -> Result<String, Refusal> {
    let dir = home();
    let store = open(dir.path());
    say(&store, "work", "assistant", "You live in Rome. I live in Rome.");
    say(&store, "work", "tool", "I live in Oslo, says the tool.");
    say(&store, "work", "user", said);
    let done = look(&store, "work", &mut Model::claiming(&[(content, quote)]));
    expect_grounded(&store);
    let done = done.last().unwrap();
    match done.refused.first() {
        Some((why, _)) => {
            assert!(learned(&store).is_empty());
            Err(*why)
        }
        None => Ok(learned(&store)[0].content.clone()),
    }
}

#[test]
fn no_cut_turns_round_what_was_said() {
    for (said, quote) in [
        ("I don't live in Lyon.", "live in Lyon"),
        ("I don't think that\nI live in Lyon.", "I live in Lyon."),
        ("It is a widespread rumour among all of my friends that\nI live in Lyon.", "I live in Lyon."),
        ("It is false that, e.g. I live in Lyon.", "I live in Lyon."),
        ("She wrote \"I moved. I live in Lyon. Bye!\" to me.", "I live in Lyon."),
        ("If only I could say: I live in Lyon!", "I live in Lyon"),
        ("My brother says he would never\nlive in Lyon.", "live in Lyon."),
    ] {
        let whole = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for content in ["The user lives in Lyon", "I live in Lyon.", "live in Lyon", ""] {
            assert_eq!(claimed(said, content, quote), Ok(format!("The user said: {whole}")), "{said}");
        }
    }
}

#[test]
fn no_quote_of_others_and_none_that_was_made_up_is_one() {
    let said = "I like tea.\n> I live in Bonn.\n```\nI live in Kiel.\n```\nI play the cello.";
    for quote in [
        "I live in Rome.",
        "You live in Rome",
        "I live in Oslo",
        "I live in Bonn.",
        "I live in Kiel.",
        "i like tea.",
        "I LIKE TEA.",
        "I like  tea, and rum",
        "I like tea. I play the cello.",
        "I like tea.\n> I live in Bonn.",
        "I l\u{200b}ike tea.",
        "I like te\u{430}.",
        "",
        " ",
        "\"\"",
        "\u{202e}.aet ekil I",
    ] {
        assert_eq!(claimed(said, "The user likes tea", quote), Err(Refusal::NotSaid), "{quote:?}");
    }
    // Blanks and quotation marks around it are no matter.
    for quote in ["I like tea.", " I\tlike\n tea. ", "“I like tea.”", "'I like tea'", "like t"] {
        assert_eq!(claimed(said, "The user likes tea", quote), Ok("The user likes tea".into()), "{quote:?}");
    }
}

#[test]
fn no_secret_is_remembered_anywhere() {
    let secret = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    let dir = home();
    let store = open(dir.path());
    for (name, text) in [
        ("one", format!("My key is {secret}. I like tea.")),
        ("two", format!("{secret} is what I have.")),
        ("three", secret.to_owned()),
        ("four", "my password is hunter2secret99".to_owned()),
    ] {
        say(&store, name, "user", &text);
        for told in [String::new(), format!("The user said {text}")] {
            let mut model = Model { prompt: told.clone(), ..Model::honest() };
            model.daily = Box::new(move |_| Ok(told.clone()));
            let quote = text.clone();
            model.facts =
                Box::new(move |_| Ok(facts(&[("", &quote), (secret, "I like tea."), ("", "My key")])));
            look(&store, name, &mut model);
        }
    }
    for (path, bytes) in super::files(dir.path()) {
        let is_said = path.to_string_lossy().contains("/sessions/");
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            is_said || !(text.contains(secret) || text.contains("hunter2")),
            "{}: {text}",
            path.display()
        );
    }
    expect_grounded(&store);
    assert!(dailies(&store).len() >= 3);
}

#[test]
fn an_answer_that_cannot_be_read_is_asked_for_once_more_and_then_done_without() {
    for broken in
        ["", "no", "{\"facts\":", "[[[", "{\"facts\":3}", "{\"facts\":[{\"quote\":\"I like tea.\"}]}"]
    {
        let dir = home();
        let store = open(dir.path());
        say(&store, "work", "user", "I like tea.");
        let mut model = Model::honest();
        model.facts = Box::new(move |_| Ok(broken.to_owned()));
        let done = look(&store, "work", &mut model);
        assert!(done[0].unreadable && done[0].items.is_empty() && done[0].daily.is_some());
        assert_eq!((model.evidence.len(), model.complaints.len()), (2, 1));
        assert!(model.complaints[0].0 == broken && !model.complaints[0].1.is_empty());
        assert!(look(&store, "work", &mut model).is_empty(), "and not for ever");
        // One that is put right counts.
        say(&store, "other", "user", "I like tea.");
        let mut tries = 0;
        let mut model = Model::honest();
        model.facts = Box::new(move |evidence| {
            tries += 1;
            Ok(if tries == 1 { broken.to_owned() } else { super::all_said(evidence) })
        });
        assert!(!look(&store, "other", &mut model)[0].unreadable);
        assert_eq!((contents(&store), dailies(&store).len()), (vec!["I like tea.".to_owned()], 2));
    }
}

#[test]
fn a_huge_answer_is_shown_back_in_part() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "work", "user", "I like tea.");
    let mut model = Model::honest();
    model.daily = Box::new(|_| Ok("tea ".repeat(2 << 20)));
    model.facts = Box::new(|_| Ok("é[{".repeat(1 << 20)));
    let done = look(&store, "work", &mut model);
    assert!(done[0].daily_extracted && done[0].unreadable);
    assert!(model.complaints[0].0.len() <= 2000);
    assert!(dailies(&store)[0].content.len() < 1000);
}

#[test]
fn many_claims_of_one_thing_are_one() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "work", "user", "I like green tea. I own a boat.");
    let claims: Vec<(&str, &str)> =
        [("", "I like green tea."), ("The user likes green tea", "green tea"), ("", "I own a boat.")]
            .repeat(1000);
    let done = look(&store, "work", &mut Model::claiming(&claims));
    assert_eq!(contents(&store), ["I like green tea.", "I own a boat."]);
    assert_eq!(done[0].items.len(), 2);
    let journal = std::fs::metadata(dir.path().join("consolidation.jsonl")).unwrap();
    assert!(journal.len() < 4000, "{}", journal.len());
}

#[test]
fn a_day_is_not_told_with_what_nobody_named() {
    for told in [
        "Anna talked of tea and a boat.",
        "The user likes tea and sold a boat to Anna.",
        "The user likes tea and has 3 boats.",
        "The user likes tea. Berlin was nice.",
        "Everything went wonderfully well in every conceivable respect.",
        "",
        "...",
        "\u{202e}",
    ] {
        let dir = home();
        let store = open(dir.path());
        say(&store, "work", "user", "I like tea. I own a boat.");
        let mut model = Model::honest();
        model.daily = Box::new(move |_| Ok(told.to_owned()));
        let done = look(&store, "work", &mut model);
        assert!(done[0].daily_extracted, "{told}");
        let day = &dailies(&store)[0];
        assert!(day.content.contains("I like tea") && day.source.model.is_none(), "{day:?}");
    }
}
