//! What each format documents, read by somebody who knows nothing of how it was written.
//!
//! OpenAI: the per-line schema of chat fine-tuning (`messages`, `tools`; `weight` of answers 0 or 1; no other members).
//! TRL 1.16: prompt-completion, preference and unpaired preference in conversational form; `tools` as a list or its
//! JSON. `ShareGPT` as LLaMA-Factory reads it: by turns, beginning with a human, ending with the model.

use manent_runs::dataset::DatasetFormat;
use serde_json::Value;

use super::scene::Rows;

pub(crate) fn check(format: DatasetFormat, rows: &Rows) {
    let names =
        ["train", "validation", "unpaired-train", "unpaired-validation", "repair-train", "repair-validation"];
    for name in names.map(|name| format!("{name}.jsonl")) {
        if !rows.dir.join(&name).exists() {
            assert!(name.starts_with("unpaired") && format != DatasetFormat::TrlDpo, "{name} is missing");
            continue;
        }
        let text = rows.text(&name);
        assert!(text.is_empty() || text.ends_with('\n'), "{name} ends with a line");
        for row in rows.of(&name) {
            check_row(format, &name, &row);
        }
        assert_eq!(rows.made.rows(&name), text.lines().count() as u64);
    }
}

fn check_row(format: DatasetFormat, file: &str, row: &Value) {
    match format {
        DatasetFormat::OpenAi => {
            only(row, &["messages", "tools"]);
            messages(&row["messages"], format);
            assert_eq!(row["messages"].as_array().unwrap().last().unwrap()["role"], "assistant");
            if let Some(tools) = row.get("tools") {
                check_tools(tools);
            }
        }
        DatasetFormat::ShareGpt => sharegpt(row),
        DatasetFormat::TrlSft => pair_of(row, &["prompt", "completion"], &[]),
        DatasetFormat::Kto => pair_of(row, &["prompt", "completion"], &["label"]),
        DatasetFormat::TrlDpo if file.starts_with("unpaired") => {
            pair_of(row, &["prompt", "completion"], &["label"]);
        }
        DatasetFormat::TrlDpo if file.starts_with("repair") => pair_of(row, &["prompt", "completion"], &[]),
        DatasetFormat::TrlDpo => pair_of(row, &["prompt", "chosen", "rejected"], &["same_model"]),
    }
}

fn pair_of(row: &Value, lists: &[&str], flags: &[&str]) {
    only(row, &[lists, flags, &["tools"]].concat());
    for (at, list) in lists.iter().enumerate() {
        messages(&row[list], DatasetFormat::TrlSft);
        let list = row[list].as_array().unwrap();
        if at == 0 {
            let asks = list.last().unwrap()["role"].as_str().unwrap();
            assert!(["user", "tool"].contains(&asks), "TRL adds the beginning of an answer behind {asks}");
        } else {
            assert_eq!(list[0]["role"], "assistant");
            assert_eq!(list.last().unwrap()["role"], "assistant");
        }
    }
    for flag in flags {
        assert!(row[flag].is_boolean(), "{flag}");
    }
    if let Some(tools) = row.get("tools") {
        check_tools(&serde_json::from_str(tools.as_str().unwrap()).unwrap());
    }
}

fn messages(list: &Value, format: DatasetFormat) {
    let list = list.as_array().expect("a list of messages");
    assert!(!list.is_empty());
    for message in list {
        let role = message["role"].as_str().expect("a role");
        assert!(message["content"].is_string(), "TRL looks for content in every message");
        match role {
            "system" | "user" => only(message, &["role", "content"]),
            "assistant" => {
                let weight: &[&str] = if format == DatasetFormat::OpenAi { &["weight"] } else { &[] };
                only(message, &[&["role", "content", "tool_calls"], weight].concat());
                assert!(message.get("weight").is_none_or(|weight| weight == 0 || weight == 1));
                for call in message.get("tool_calls").map_or(&Vec::new(), |calls| calls.as_array().unwrap()) {
                    only(call, &["id", "type", "function"]);
                    only(&call["function"], &["name", "arguments"]);
                    assert!(call["id"].is_string() && call["type"] == "function");
                    let arguments: Value =
                        serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
                    assert!(arguments.is_object());
                }
            }
            "tool" => {
                let name: &[&str] = if format == DatasetFormat::OpenAi { &[] } else { &["name"] };
                only(message, &[&["role", "content", "tool_call_id"], name].concat());
                assert!(message["tool_call_id"].is_string());
            }
            other => panic!("{other} is no role"),
        }
    }
}

fn sharegpt(row: &Value) {
    only(row, &["conversations", "system", "tools"]);
    let turns = row["conversations"].as_array().unwrap();
    assert!(turns.len().is_multiple_of(2), "LLaMA-Factory passes over the rest");
    for (at, turn) in turns.iter().enumerate() {
        only(turn, &["from", "value"]);
        let from = turn["from"].as_str().unwrap();
        let allowed: &[&str] =
            if at.is_multiple_of(2) { &["human", "observation"] } else { &["gpt", "function_call"] };
        assert!(allowed.contains(&from), "{from} at {at}");
        if from == "function_call" {
            let calls: Vec<Value> = serde_json::from_str(turn["value"].as_str().unwrap()).unwrap();
            assert!(calls.iter().all(|call| call["name"].is_string() && call["arguments"].is_object()));
        }
    }
    if let Some(tools) = row.get("tools") {
        check_tools(&serde_json::from_str(tools.as_str().unwrap()).unwrap());
    }
}

fn check_tools(tools: &Value) {
    for tool in tools.as_array().unwrap() {
        only(tool, &["type", "function"]);
        assert!(tool["type"] == "function" && tool["function"]["name"].is_string());
    }
}

fn only(object: &Value, names: &[&str]) {
    let members = object.as_object().expect("an object");
    for name in members.keys() {
        assert!(names.contains(&name.as_str()), "{name} is not documented; {names:?} are");
    }
}
