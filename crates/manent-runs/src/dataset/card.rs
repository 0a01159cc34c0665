//! The card (`README.md`), which Hugging Face shows, and reads to load a data set. The columns are declared there: a
//! loader that had to guess them from the first rows would fail at the first row that has more.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::manifest::files_of;
use super::select::RowSet;
use super::{Dataset, DatasetFormat, Recipe, SkipReason};

/// The text of `README.md`.
pub(super) fn card(recipe: &Recipe, made: &Dataset) -> String {
    let mut out = String::from("---\n");
    let sets = [(RowSet::Main, "default"), (RowSet::Unpaired, "unpaired"), (RowSet::Repair, "repair")];
    let (mut configs, mut infos) = (String::new(), String::new());
    for (set, config) in sets {
        // Files without rows are not declared: loaders take an empty file for a broken one.
        let files: Vec<(&str, bool)> = files_of(recipe.format)
            .filter(|(name, of, _)| *of == set && made.rows(name) > 0)
            .map(|(name, _, in_validation)| (name, in_validation))
            .collect();
        if files.is_empty() {
            continue;
        }
        let _ = write!(configs, "- config_name: {config}\n  data_files:\n");
        for (name, in_validation) in files {
            let split = if in_validation { "validation" } else { "train" };
            let _ = write!(configs, "  - split: {split}\n    path: {name}\n");
        }
        let _ = write!(infos, "- config_name: {config}\n  features:\n{}", features(recipe.format, set));
    }
    if !configs.is_empty() {
        let _ = write!(out, "configs:\n{configs}dataset_info:\n{infos}");
    }
    let _ = write!(out, "size_categories:\n- {}\n---\n\n", size(made));
    body(recipe, made, &mut out);
    out
}

/// The columns of a set, as YAML.
fn features(format: DatasetFormat, set: RowSet) -> String {
    let text = |name: &str| format!("  - name: {name}\n    dtype: string\n");
    let flag = |name: &str| format!("  - name: {name}\n    dtype: bool\n");
    let list = |name: &str, of: &str| format!("  - name: {name}\n    list:\n{of}");
    let message = |more: &str| format!("{MESSAGE}{more}");
    let name = "    - name: name\n      dtype: string\n";
    let weight = "    - name: weight\n      dtype: int64\n";
    match (format, set) {
        (DatasetFormat::OpenAi, _) => {
            format!("{}  - name: tools\n    dtype: json\n", list("messages", &message(weight)))
        }
        (DatasetFormat::ShareGpt, _) => {
            let turn = "    - name: from\n      dtype: string\n    - name: value\n      dtype: string\n";
            format!("{}{}{}", list("conversations", turn), text("tools"), text("system"))
        }
        (DatasetFormat::TrlDpo, RowSet::Main) => {
            let lists = ["prompt", "chosen", "rejected"].map(|column| list(column, &message(name)));
            format!("{}{}{}", lists.concat(), flag("same_model"), text("tools"))
        }
        (DatasetFormat::TrlSft | DatasetFormat::TrlDpo | DatasetFormat::Kto, _) => {
            let lists = ["prompt", "completion"].map(|column| list(column, &message(name)));
            let labelled = format == DatasetFormat::Kto || set == RowSet::Unpaired;
            let label = if labelled { flag("label") } else { String::new() };
            format!("{}{label}{}", lists.concat(), text("tools"))
        }
    }
}

fn size(made: &Dataset) -> &'static str {
    match made.files.iter().map(|file| file.rows).sum::<u64>() {
        0..1000 => "n<1K",
        1000..10_000 => "1K<n<10K",
        10_000..100_000 => "10K<n<100K",
        100_000..1_000_000 => "100K<n<1M",
        _ => "1M<n<10M",
    }
}

fn body(recipe: &Recipe, made: &Dataset, out: &mut String) {
    let _ = write!(
        out,
        "# Attempts of skills, as {} wants them\n\n{}\n\n",
        recipe.format.word(),
        about(recipe.format)
    );
    out.push_str("| file | rows |\n|---|---|\n");
    for file in &made.files {
        let _ = writeln!(out, "| `{}` | {} |", file.name, file.rows);
    }
    let _ = write!(
        out,
        "\nAll rows of a session, and all sessions of a project, are on one side: {} of {} groups are for validation. \
         Rows for validation whose prompt, or nearly whose text, is in a row to train on were left out. Rows that say \
         nearly the same as another were left out.\n\n",
        made.validation_groups, made.groups
    );
    let _ = write!(
        out,
        "In `repair-*` the prompt holds how an earlier attempt failed, and the answer is the one that was found good \
         then. They are kept apart: a prompt with a failure in it and one without are not the same prompt.\n\n\
         {} likely credentials were replaced by `[secret]`, and {} names in paths of home directories by `user`. That \
         finds what can be told from ordinary text; read it before you publish it. What was remembered of the user \
         {}.\n",
        made.counts.secrets,
        made.counts.homes,
        if recipe.with_memory {
            "is in prompts where nothing of it was forgotten"
        } else {
            "is not in the prompts"
        },
    );
    if !made.counts.left_out.is_empty() {
        out.push_str("\n| left out | attempts |\n|---|---|\n");
        for (why, count) in &made.counts.left_out {
            let _ = writeln!(out, "| {} | {count} |", SkipReason::word(*why));
        }
    }
    out.push_str(
        "\n`manifest.json` has the filters, the hashes of the files and the records that they came from.\n",
    );
}

fn about(format: DatasetFormat) -> &'static str {
    match format {
        DatasetFormat::OpenAi => {
            "Each line is a conversation whose last answer was checked and found good. Earlier answers have the weight \
             0: they are what the model saw, not what it shall learn."
        }
        DatasetFormat::TrlSft => "Each line is a prompt and an answer to it that was checked and found good.",
        DatasetFormat::TrlDpo => {
            "Each line is a prompt with two answers to it: one was checked and found good, the other failed. Both were \
             given the very same prompt. `same_model` says whether one model gave both. What found no partner is in \
             `unpaired-*`, with a verdict each."
        }
        DatasetFormat::Kto => "Each line is a prompt, an answer to it, and whether that was found good.",
        DatasetFormat::ShareGpt => {
            "Each line is a conversation whose last answer was checked and found good. `dataset_info.json` tells \
             LLaMA-Factory how to read it; train on the last turn alone (`mask_history: true`). In Axolotl: \
             `type: chat_template`, `field_messages: conversations`, and `from` and `value` as role and content."
        }
    }
}

/// Returns the description by which LLaMA-Factory finds the files.
pub(super) fn dataset_info(made: &Dataset) -> Value {
    let mut info = Map::new();
    for file in made.files.iter().filter(|file| file.rows > 0) {
        let name = file.name.trim_end_matches(".jsonl");
        info.insert(
            name.to_owned(),
            json!({
                "file_name": file.name,
                "formatting": "sharegpt",
                "columns": {"messages": "conversations", "system": "system", "tools": "tools"},
                "tags": {
                    "role_tag": "from",
                    "content_tag": "value",
                    "user_tag": "human",
                    "assistant_tag": "gpt",
                    "observation_tag": "observation",
                    "function_tag": "function_call",
                },
            }),
        );
    }
    Value::Object(info)
}

const MESSAGE: &str = "    - name: role
      dtype: string
    - name: content
      dtype: string
    - name: tool_calls
      list:
      - name: id
        dtype: string
      - name: type
        dtype: string
      - name: function
        struct:
        - name: name
          dtype: string
        - name: arguments
          dtype: string
    - name: tool_call_id
      dtype: string
";
