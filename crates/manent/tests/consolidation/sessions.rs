//! Sessions of any kind and size.

use manent::consolidate::Rules;
use manent::{Durability, Expect, Place, StreamId, turn};

use super::{
    Model, at, contents, dailies, expect_grounded, files, home, key, learned, look, look_at, open, say,
};

/// A model is shown at most as many tokens as it takes, at four bytes a token.
fn expect_bounded(model: &Model<'_>) {
    for shown in model.transcripts.iter().chain(&model.evidence) {
        assert!(shown.len() as u64 <= model.max * 4 + 4, "{} bytes, {} tokens", shown.len(), model.max);
    }
}

#[test]
fn a_long_session_is_looked_at_in_steps_and_every_turn_once() {
    let dir = home();
    let store = open(dir.path());
    for n in 0..60 {
        say(&store, "work", "user", &format!("I own boat{n}. {}", "It goes and goes. ".repeat(n % 7)));
        say(&store, "work", "assistant", &"Well. ".repeat(20 * (n % 5)));
    }
    for max in [60, 300, 4000] {
        let mut model = Model::honest();
        (model.max, model.prompt) = (max, format!("with {max}"));
        let done =
            look_at(&store, &at(&store, "work"), &mut model, Rules { again: true, ..Rules::default() });
        let done = done.unwrap();
        expect_bounded(&model);
        let mut next = 1;
        for (nth, done_one) in done.iter().enumerate() {
            assert_eq!(done_one.turns.0, next, "without a hole");
            assert_eq!(done_one.more, nth + 1 < done.len());
            next = done_one.turns.1 + 1;
        }
        assert_eq!(next, 121);
        if max == 60 {
            assert!(
                done.len() > 30 && dailies(&store).len() == done.iter().filter(|d| d.daily.is_some()).count()
            );
        }
        let shown: String = model.evidence.concat();
        assert!((0..60).all(|n| shown.contains(&format!("boat{n}."))));
    }
    assert_eq!(contents(&store).len(), 60);
    expect_grounded(&store);
}

#[test]
fn no_size_of_a_turn_makes_what_is_asked_larger() {
    let dir = home();
    let store = open(dir.path());
    let sentences = "I own a very small boat here.\n".repeat(10 << 20 >> 5);
    say(&store, "work", "user", &sentences);
    say(&store, "work", "user", &"x".repeat(10 << 20));
    say(&store, "work", "user", &"I like tea and \u{1}\"\\ ".repeat(300));
    say(&store, "work", "assistant", &"y z ".repeat(3 << 20));
    say(&store, "work", "tool", &"I am output. ".repeat(1 << 20));
    say(&store, "work", "user", &"我".repeat(100_000));
    say(&store, "work", "user", "I play the cello.");
    for max in [40, 200, 4000] {
        let mut model = Model::honest();
        (model.max, model.prompt) = (max, format!("with {max}"));
        // Cut in the middle, a line need not be what a model can point at.
        look_at(&store, &at(&store, "work"), &mut model, Rules { again: true, ..Rules::default() }).unwrap();
        expect_bounded(&model);
        assert!(model.evidence.concat().contains("cello"));
    }
    assert!(contents(&store).contains(&"I play the cello.".to_owned()));
    assert!(learned(&store).iter().all(|item| item.content.len() < 500));
    expect_grounded(&store);
}

#[test]
fn ten_thousand_turns_of_tools_are_passed_over_and_the_user_behind_them_is_heard() {
    let dir = home();
    let store = open(dir.path());
    let bodies: Vec<_> =
        (0..10_000).map(|n| turn("tool", format!("I am output {n}.")).string("name", "cat").into()).collect();
    store.append_with(&key("work"), &bodies, Durability::Flush, Expect::Any).unwrap();
    let bodies: Vec<_> = (0..3_000).map(|_| turn("tool", "I am output.").into()).collect();
    store.append_with(&key("work"), &bodies, Durability::Flush, Expect::Any).unwrap();
    say(&store, "work", "user", "I play the cello.");
    let mut model = Model::honest();
    let done = look(&store, "work", &mut model);
    expect_bounded(&model);
    assert_eq!(model.asked(), 2, "only about the passage in which somebody says something");
    assert_eq!(done.iter().filter(|done| done.daily.is_some()).count(), 1);
    assert_eq!(contents(&store), ["I play the cello."]);
    expect_grounded(&store);
}

#[test]
fn where_no_user_speaks_nothing_is_written() {
    let dir = home();
    let store = open(dir.path());
    store.session(&key("empty")).unwrap();
    for role in ["tool", "assistant", "system"] {
        say(&store, "tools", role, "I am output.");
    }
    say(&store, "blank", "user", " \n ... \n");
    say(&store, "image", "user", "");
    let mut model = Model::honest();
    for name in ["tools", "blank", "image"] {
        let done = look(&store, name, &mut model);
        assert!(done.len() == 1 && done[0].daily.is_none(), "{name}: {done:?}");
        assert!(look(&store, name, &mut model).is_empty());
    }
    let never = StreamId::live(&key("never"));
    assert_eq!(look_at(&store, &never, &mut model, Rules::default()).unwrap(), []);
    assert_eq!(look_at(&store, &StreamId::live(&key("empty")), &mut model, Rules::default()).unwrap(), []);
    assert_eq!(model.asked(), 0);
    assert!(contents(&store).is_empty() && dailies(&store).is_empty());
}

#[test]
fn other_programs_sessions_are_looked_at_and_what_tools_put_out_in_them_is_not_the_users() {
    let dir = home();
    let store = open(dir.path());
    let lines = r#"{"role":"user","content":"I live in Lyon."}
{"role":"user","content":[{"type":"tool_result","content":"a zqx."},{"type":"text","text":"I like \"tea\"\nand rum."}]}
{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"I am zqx output."}]}]}
{"role":"user","content":{"text":"I am zqx."}}
{"role":"assistant","content":[{"type":"text","text":"Fine."}]}
{"broken
{"role":"human","content":"I play the cello."}
"#;
    std::fs::create_dir_all(dir.path().join("sessions")).unwrap();
    std::fs::write(dir.path().join("sessions/theirs.jsonl"), lines).unwrap();
    let mut model = Model::honest();
    let done = look(&store, "theirs", &mut model);
    assert_eq!(done.len(), 1, "{done:?}");
    assert!(!model.evidence.concat().contains("zqx"), "{:?}", model.evidence);
    assert_eq!(contents(&store), ["I live in Lyon.", "I like \"tea\" and rum.", "I play the cello."]);
    expect_grounded(&store);
    assert!(look(&store, "theirs", &mut model).is_empty());
    // Their line is written anew: it is another one, and what it says now is heard.
    let changed = lines.replace("I play the cello.", "I play the flute.");
    std::fs::write(dir.path().join("sessions/theirs.jsonl"), changed).unwrap();
    let done = look(&store, "theirs", &mut model);
    assert_eq!(done.len(), 1);
    assert!(contents(&store).contains(&"I play the flute.".to_owned()));
}

#[test]
fn a_session_goes_on_where_it_was_when_it_is_archived() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "work", "user", "I live in Lyon.");
    let mut model = Model::honest();
    look(&store, "work", &mut model);
    say(&store, "work", "user", "I play the cello.");
    let archived = store.archive(&at(&store, "work"), &mut |_, _| {}).unwrap();
    assert_eq!(archived.place, Place::Archive);
    let done = look_at(&store, &archived, &mut model, Rules::default()).unwrap();
    assert_eq!(done[0].turns, (2, 2));
    assert!(look_at(&store, &archived, &mut model, Rules::default()).unwrap().is_empty());
    assert_eq!(contents(&store).len(), 2);
    expect_grounded(&store);
    // Another session of the same key is another session.
    say(&store, "work", "user", "I own a boat.");
    assert_eq!(look(&store, "work", &mut model)[0].turns, (1, 1));
    assert_eq!(contents(&store).len(), 3);
}

#[test]
fn of_a_fork_only_what_is_its_own_is_looked_at() {
    let dir = home();
    let store = open(dir.path());
    say(&store, "work", "user", "I live in Lyon.");
    say(&store, "work", "user", "I like tea.");
    let fork = store.fork(&at(&store, "work"), Some(2), &key("fork")).unwrap();
    say(&store, "fork", "user", "I play the cello.");
    let again = store.fork(&fork.id, None, &key("again")).unwrap();
    say(&store, "again", "user", "I own a boat.");
    let mut model = Model::honest();
    for rules in [Rules::default(), Rules { again: true, ..Rules::default() }] {
        look_at(&store, &again.id, &mut model, rules).unwrap();
        assert_eq!(contents(&store), ["I own a boat."]);
    }
    assert_eq!(look(&store, "fork", &mut model)[0].turns, (3, 3));
    assert_eq!(look(&store, "work", &mut model)[0].turns, (1, 2));
    assert!(look(&store, "fork", &mut model).is_empty());
    assert_eq!((contents(&store).len(), dailies(&store).len()), (4, 3));
    expect_grounded(&store);
}

#[test]
fn damage_hides_nothing_of_the_rest() {
    let dir = home();
    let store = open(dir.path());
    for text in ["I live in Lyon.", "I like tea.", "I play the cello."] {
        say(&store, "work", "user", text);
    }
    let path = files(dir.path()).into_keys().find(|path| path.ends_with("work.jsonl")).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("I like tea.", "I like rum.")).unwrap();
    let store = open(dir.path());
    let mut model = Model::honest();
    assert_eq!(look(&store, "work", &mut model).len(), 1);
    assert!(!model.evidence.concat().contains("rum"), "what cannot be trusted was not said");
    assert_eq!(contents(&store), ["I live in Lyon.", "I play the cello."]);
    expect_grounded(&store);
    assert!(look(&store, "work", &mut model).is_empty());
}
