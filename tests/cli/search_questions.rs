//! Plain questions to `manent search`: what is found by what words, what comes first, and what is shown of it.

use serde_json::Value;

use crate::support::TestEnvironment;

fn say(env: &TestEnvironment, key: &str, role: &str, ts: &str, content: &str) {
    let line = serde_json::json!({"ts": ts, "role": role, "content": content}).to_string();
    env.manent_given(&["append", "--jsonl", "--durability", "flush", "--", key], line).assert_code(0);
}

/// Returns the hits of a question as `key:seq`, best first.
#[track_caller]
fn found(env: &TestEnvironment, question: &str) -> Vec<String> {
    let output = env.manent(&["search", "--json", "--", question]);
    let hits = output.stdout();
    let hits = hits.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    hits.map(|hit| format!("{}:{}", hit["session"].as_str().unwrap(), hit["seq"])).collect()
}

#[test]
fn identifiers_are_found_whole_and_by_their_parts() {
    let env = TestEnvironment::new();
    env.append("code", "the delay is computed in retryBackoff");
    env.append("code", "parse_header_line was renamed in src/parser/lexer.rs");
    env.append("code", "retry later, and back off from the header of that line");
    env.append("code", "run it with --no-verify, error E0382 of v2.14.1");
    for (question, best) in [
        ("where is retryBackoff used", "code:1"),
        ("what does the backoff depend on", "code:1"),
        ("when was parse_header_line renamed", "code:2"),
        ("changes in src/parser/lexer.rs", "code:2"),
        ("which lexer", "code:2"),
        ("what needs --no-verify", "code:4"),
        ("what broke in v2.14.1", "code:4"),
        ("meaning of E0382", "code:4"),
    ] {
        assert_eq!(found(&env, question).first().map(String::as_str), Some(best), "{question}");
    }
    assert_eq!(found(&env, "backoff"), ["code:1"], "a part alone is a word");
}

#[test]
fn other_scripts_are_found_by_their_words_and_from_two_characters_on() {
    let env = TestEnvironment::new();
    env.append("notes", "Встреча с бухгалтером в четверг, взять договор");
    env.append("notes", "Поезд уходит в полночь");
    env.append("notes", "明天下午开会讨论预算");
    env.append("notes", "周末去爬山");
    assert_eq!(found(&env, "когда встреча с бухгалтером")[0], "notes:1");
    assert_eq!(found(&env, "в полночь")[0], "notes:2", "the rare word counts more");
    assert_eq!(found(&env, "预算会议什么时候开会")[0], "notes:3");
    assert_eq!(found(&env, "爬山"), ["notes:4"]);
    assert_eq!(found(&env, "договор"), ["notes:1"]);
}

#[test]
fn forms_of_a_word_are_the_word() {
    let env = TestEnvironment::new();
    env.append("diary", "we went to the mountains with the children");
    env.append("diary", "the train to the sea was late");
    assert_eq!(found(&env, "which child is going to a mountain"), ["diary:1", "diary:2"]);
}

#[test]
fn days_that_a_question_names_are_those_of_the_turns() {
    let env = TestEnvironment::new();
    for (day, what) in [("2025-03-03", "soup"), ("2025-03-14", "pancakes"), ("2025-06-14", "dumplings")] {
        say(&env, "kitchen", "user", &format!("{day}T18:00:00Z"), &format!("I cooked {what} for dinner"));
    }
    let best = |question: &str| found(&env, question)[0].clone();
    assert_eq!(best("what did I cook for dinner on 14 March 2025"), "kitchen:2");
    assert_eq!(best("what did I cook for dinner in June"), "kitchen:3");
    assert_eq!(best("dinner cooked on 2025-03-03"), "kitchen:1");
}

#[test]
fn who_asks_about_themselves_gets_their_own_words_first() {
    let env = TestEnvironment::new();
    say(&env, "plan", "assistant", "2025-03-03T10:00:00Z", "A sprint often ends on a Friday afternoon.");
    say(&env, "other", "user", "2025-03-02T10:00:00Z", "The sprint ends on a Monday this time, I decided.");
    assert_eq!(found(&env, "when does my sprint end")[0], "other:1");
    assert_eq!(found(&env, "when did you say a sprint often ends")[0], "plan:1");
}

#[test]
fn repeated_and_neighbouring_turns_are_one_entry_and_name_what_they_repeat() {
    let env = TestEnvironment::new();
    let text = "the staging certificate expires on the ninth of May, renew it before the release";
    say(&env, "ops", "user", "2025-03-03T10:00:00Z", text);
    say(&env, "ops", "assistant", "2025-03-03T10:01:00Z", "Noted: certificate of staging.");
    say(&env, "copy", "user", "2025-03-02T10:00:00Z", text);
    let question = "when does the staging certificate expire";
    let output = env.manent(&["search", "--json", "--", question]).stdout();
    let hits: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(hits.len(), 3);
    let repeat = hits.iter().find(|hit| !hit["repeats"].is_null()).unwrap();
    assert_eq!((&repeat["session"], &repeat["repeats"]["session"]), (&"copy".into(), &"ops".into()));
    assert!(hits.iter().all(|hit| hit["passage"] == 1), "{output}");
    let shown = env.manent(&["search", "--", question]).stdout();
    assert!(shown.contains("(+1 around it; said again in copy #1)"), "{shown}");
    assert_eq!(shown.lines().filter(|line| line.contains('#')).count(), 1, "{shown}");
}

/// The snippet of a long turn is the passage that matched, not its beginning.
#[test]
fn snippet_of_a_long_turn_is_the_passage_that_matches_best() {
    let env = TestEnvironment::new();
    let filler = "The plan has many steps and the budget is one of them. ".repeat(40);
    env.append("long", &format!("{filler}The invoice of the plumber was 430 euros. {filler}"));
    let shown = env.manent(&["search", "how much was the invoice of the plumber in the budget"]).stdout();
    assert!(shown.contains("invoice of the plumber was 430 euros"), "{shown}");
}
