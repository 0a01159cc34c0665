//! What a row holds: what the model was given and what it answered, and nothing else.

use manent::context::PromptConfig;
use manent::memory::{Kind, NewItem};
use manent_runs::dataset::{DatasetFormat, Recipe, SkipReason};
use serde_json::{Value, json};

use super::scene::{Scene, key, passage, words};

/// A session with a system text and tools, a call with its result, and an answer.
fn with_tools(scene: &Scene) {
    let mut session = scene.store.session(&key("s")).unwrap();
    let tools = r#"[{"type":"function","function":{"name":"read","description":"d","parameters":{"type":"object"}}}]"#;
    let setting = PromptConfig {
        system: Some("Be brief.".into()),
        tools: Some(tools.into()),
        ..PromptConfig::default()
    };
    session.set_context(&setting).unwrap();
    drop(session);
    assert_eq!(scene.say("s", "user", "what is in a.txt?"), 2);
    let call = json!({"role": "assistant", "content": "", "tool_calls": [
        {"id": "c1", "name": "read", "arguments": {"path": "a.txt"}}]});
    scene.record("s", &call);
    scene.record("s", &json!({"role": "tool", "tool_call_id": "c1", "name": "read", "content": "hello"}));
    assert_eq!(scene.say("s", "assistant", "It says hello."), 5);
}

#[test]
fn a_row_is_what_the_model_was_given_and_what_it_answered() {
    let scene = Scene::new();
    with_tools(&scene);
    let attempt =
        json!({"verified": true, "prompt_ref": passage("s", 2, 2), "output_ref": passage("s", 3, 5)});
    scene.run("s", &json!({ "attempts": [attempt] }));
    let rows = scene.make_all(DatasetFormat::TrlSft).of("train.jsonl");
    assert_eq!(rows.len(), 1);
    let prompt =
        json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "what is in a.txt?"}]);
    assert_eq!(rows[0]["prompt"], prompt);
    let function = json!({"name": "read", "arguments": "{\"path\":\"a.txt\"}"});
    let call = json!({"id": "c1", "type": "function", "function": function});
    let answer = json!([{"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "hello", "tool_call_id": "c1", "name": "read"},
        {"role": "assistant", "content": "It says hello."}]);
    assert_eq!(rows[0]["completion"], answer);
    let tools: Value = serde_json::from_str(rows[0]["tools"].as_str().unwrap()).unwrap();
    assert_eq!(tools[0]["function"]["name"], "read");
    for format in super::scene::FORMATS {
        scene.make_all(format);
    }
    let rows = scene.make_all(DatasetFormat::ShareGpt).of("train.jsonl");
    assert_eq!(rows[0]["system"], "Be brief.");
    let from: Vec<&str> = rows[0]["conversations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["from"].as_str().unwrap())
        .collect();
    assert_eq!(from, ["human", "function_call", "observation", "gpt"]);
}

#[test]
fn a_prompt_is_what_the_context_shows_at_that_record() {
    let scene = Scene::new();
    with_tools(&scene);
    let asked = scene.say("s", "user", "and b.txt?");
    let answered = scene.say("s", "assistant", "There is none.");
    let run = json!({"attempts": [{"verified": true, "prompt_ref": passage("s", 1, asked),
        "output_ref": passage("s", answered, answered)}]});
    scene.run("s", &run);
    let at = manent::StreamId::live(&key("s"));
    let tokens = manent::tokens::Tokens::new(manent::tokens::Counting::Estimate);
    let seen = scene.store.context_at(&at, Some(answered), tokens).unwrap();
    let rows = scene.make_all(DatasetFormat::TrlSft).of("train.jsonl");
    let told: Vec<(&str, &str)> = rows[0]["prompt"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    let expected: Vec<(&str, &str)> =
        seen.messages.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect();
    assert_eq!(told, expected);
    // Only the last answer is learned; those before it are what the model saw.
    let rows = scene.make_all(DatasetFormat::OpenAi).of("train.jsonl");
    let weights: Vec<Option<i64>> = rows[0]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| message.get("weight").and_then(Value::as_i64))
        .collect();
    assert_eq!(weights, [Some(0), Some(0), None]);
}

#[test]
fn a_compacted_prompt_has_its_summary_as_the_model_saw_it() {
    let scene = Scene::new();
    for n in 0..6 {
        scene.say("s", if n % 2 == 0 { "user" } else { "assistant" }, &format!("turn {n} {}", words(n, 30)));
    }
    scene.record("s", &json!({"kind": "compaction", "kept_from": 5, "content": "they spoke of turns"}));
    let asked = scene.say("s", "user", "go on");
    let answered = scene.say("s", "assistant", "gone on");
    for first in [1, 5] {
        scene.run(
            "s",
            &json!({"attempts": [{"verified": true, "prompt_ref": passage("s", first, asked),
            "output_ref": passage("s", answered, answered)}]}),
        );
    }
    let recipe = Recipe { validation: 0, ..Recipe::new(DatasetFormat::TrlSft) };
    let rows = scene.make(&recipe).text("train.jsonl");
    let lines: Vec<&str> = rows.lines().collect();
    assert!(lines[0].contains("they spoke of turns") && !lines[0].contains("turn 3 "), "{}", lines[0]);
}

#[test]
fn what_was_remembered_is_not_in_prompts_and_what_was_forgotten_never_is() {
    let scene = Scene::new();
    let memory = scene.store.memory().unwrap();
    let item = memory.add(&NewItem::new(Kind::Fact, "their cat is called Zebulon")).unwrap();
    let mut session = scene.store.session(&key("s")).unwrap();
    let remembered = PromptConfig {
        memory: Some("they have a cat called Zebulon".into()),
        memory_ids: vec![item.id],
        ..PromptConfig::default()
    };
    session.set_context(&remembered).unwrap();
    drop(session);
    scene.asked("s", "", "what is my cat called?", "As you told me.", true);
    let call = json!({"id": "r", "name": "recall", "arguments": {}});
    let call = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    let first = scene.record("s", &call);
    scene.record(
        "s",
        &json!({"role": "tool", "tool_call_id": "r", "name": "recall", "content": "Zebulon the cat"}),
    );
    let last = scene.say("s", "assistant", "I looked it up for you.");
    let attempt = json!({"verified": true, "output_ref": passage("s", first, last)});
    scene.run("s", &json!({"input": "look it up", "attempts": [attempt]}));

    let holds = |rows: &super::scene::Rows| {
        rows.files().iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("Zebulon"))
    };
    let rows = scene.make_all(DatasetFormat::TrlSft);
    assert_eq!(rows.made.rows("train.jsonl"), 2);
    assert!(!holds(&rows), "by default nothing that was remembered is in a data set");
    assert_eq!(rows.made.counts.memory_left_out, 1);
    let keeping = Recipe { validation: 0, with_memory: true, ..Recipe::new(DatasetFormat::TrlSft) };
    assert!(holds(&scene.make(&keeping)), "whoever asks for it gets it");
    memory.forget(&[item.id]).unwrap();
    assert!(!holds(&scene.make(&keeping)), "but nothing that was forgotten since");
}

#[test]
fn a_deleted_session_gives_nothing() {
    let scene = Scene::new();
    scene.asked("gone", "", &words(1, 20), "answer one", true);
    scene.asked("stays", "", &words(2, 20), "answer two", true);
    scene.run(
        "other",
        &json!({"input": "x", "attempts": [
        {"verified": true, "output_ref": passage("gone", 2, 2)}]}),
    );
    let attempt = json!({"verified": true, "output_summary": "but is of it"});
    scene.run("gone", &json!({"input": "quotes nothing", "attempts": [attempt]}));
    assert_eq!(scene.make_all(DatasetFormat::TrlSft).made.rows("train.jsonl"), 3);
    scene.store.delete(&manent::StreamId::live(&key("gone"))).unwrap();
    let recipe = Recipe { validation: 0, summaries: true, ..Recipe::new(DatasetFormat::TrlSft) };
    let rows = scene.make(&recipe);
    assert_eq!(rows.made.rows("train.jsonl"), 1);
    assert_eq!((rows.left_out("session_deleted"), rows.left_out("reference_not_found")), (2, 1));
    assert!(!rows.text("train.jsonl").contains("answer one"));
}

#[test]
fn an_archived_session_is_quoted_as_before_and_another_of_its_key_is_not() {
    let scene = Scene::new();
    scene.asked("s", "", &words(1, 20), "the archived answer", true);
    let id = scene.store.live(&key("s")).unwrap().unwrap().id.id;
    let of_id = |first: u64| json!({"session": "s", "id": id, "seq": [first, first]});
    scene
        .run("s", &json!({"attempts": [{"verified": true, "prompt_ref": of_id(1), "output_ref": of_id(2)}]}));
    scene.store.archive(&manent::StreamId::live(&key("s")), &mut |_, _| ()).unwrap();
    scene.say("s", "user", "a new session");
    scene.say("s", "assistant", "with another answer");
    let rows = scene.make_all(DatasetFormat::TrlSft);
    let text = rows.text("train.jsonl");
    assert!(text.contains("the archived answer"), "{text}");
}

#[test]
fn summaries_are_taken_only_where_somebody_asks_for_them() {
    let scene = Scene::new();
    let printed = "error[E0308]: mismatched types in the second argument";
    scene.run(
        "s",
        &json!({"input": "mend it", "attempts": [
        {"attempt": 1, "verified": false, "output_summary": "tried a cast", "runner_output": printed},
        {"attempt": 2, "verified": true, "output_summary": "changed the type"}]}),
    );
    let left_out = scene.make_none(&Recipe::new(DatasetFormat::Kto)).left_out;
    assert_eq!((left_out[&SkipReason::OnlySummary], left_out[&SkipReason::UnknownPrompt]), (1, 1));
    let rows = scene.make(&Recipe { validation: 0, summaries: true, ..Recipe::new(DatasetFormat::Kto) });
    assert_eq!(rows.made.counts.from_summaries, 2);
    assert_eq!(rows.of("train.jsonl")[0]["label"], false);
    let repair = &rows.of("repair-train.jsonl")[0];
    assert!(repair["prompt"].to_string().contains("mismatched types") && repair["label"] == true, "{repair}");
}

#[test]
fn a_command_in_which_no_model_had_a_part_is_left_out() {
    let scene = Scene::new();
    let command = |more: Value| {
        let mut attempt = json!({"attempt": 1, "verified": true, "sandbox": "bubblewrap", "exit_code": 0,
            "output_summary": "exit code 0: all is well"});
        attempt.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        attempt
    };
    scene.run("s", &json!({"input": {"command": ["true"]}, "attempts": [command(json!({}))]}));
    scene.run("s", &json!({"input": "mend it", "attempts": [command(json!({"model": "m"}))]}));
    scene.run("s", &json!({"input": "and that", "model_used": "m", "attempts": [command(json!({}))]}));
    let recipe = Recipe { validation: 0, summaries: true, ..Recipe::new(DatasetFormat::TrlSft) };
    let rows = scene.make(&recipe);
    assert_eq!(rows.left_out("no_model"), 1);
    assert!(!rows.text("train.jsonl").contains("command"), "{}", rows.text("train.jsonl"));
    assert_eq!(rows.made.counts.from_summaries, 2, "what a model did in a sandbox is taken");
}
