//! The layers: each crate depends only on those below it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::dependencies::cargo_metadata;

/// The crates that people use, the lowest first.
const LAYERS: [&str; 7] =
    ["manent-log", "manent-store", "manent-index", "manent", "manent-runs", "manent-agent", "manent-cli"];
/// The crates for developers, and the highest layer that each may use. None of them is a dependency of a layer.
const FOR_DEVELOPERS: [(&str, &str); 3] =
    [("manent-sim", "manent-log"), ("manent-contract", "manent-store"), ("manent-bench", "manent-agent")];

#[test]
fn crates_depend_only_on_lower_layers() {
    let dependencies = dependencies();
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut wrong = Vec::new();
    for (name, needs) in &dependencies {
        let highest = match FOR_DEVELOPERS.iter().find(|(other, _)| other == name) {
            Some((_, highest)) => rank(highest).map(|highest| highest + 1),
            None => rank(name),
        };
        let Some(below) = highest else {
            wrong.push(format!("{name} is in no layer: add it to this test and to docs/ARCHITECTURE.md"));
            continue;
        };
        for need in needs {
            let is_tool = name == "manent-bench" && need == "manent-sim";
            if !is_tool && rank(need).is_none_or(|need| need >= below) {
                wrong.push(format!("{name} depends on {need}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(dependencies.len(), LAYERS.len() + FOR_DEVELOPERS.len(), "{:?}", dependencies.keys());
}

#[test]
fn dependencies_of_other_targets_of_build_scripts_and_under_other_names_count() {
    let dependency = |name: &str, more: Value| {
        let mut dependency =
            json!({"name": name, "kind": null, "rename": null, "target": null, "path": "/x"});
        dependency.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        dependency
    };
    let package = json!({"name": "manent-log", "dependencies": [
        dependency("manent-a", json!({})),
        dependency("manent-b", json!({"kind": "build"})),
        dependency("manent-c", json!({"target": "cfg(windows)"})),
        dependency("manent-d", json!({"rename": "other"})),
        dependency("manent-e", json!({"optional": true})),
        dependency("manent-f", json!({"kind": "dev"})),
        dependency("serde", json!({"path": null})),
    ]});
    let (name, needs) = dependencies_of(&package);
    assert_eq!(name, "manent-log");
    assert_eq!(needs, ["manent-a", "manent-b", "manent-c", "manent-d", "manent-e"]);
}

/// Returns the crates of the workspace, and those of them that each needs to be built.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let metadata = cargo_metadata(&["--no-deps"]);
    metadata["packages"].as_array().unwrap().iter().map(dependencies_of).collect()
}

/// Returns the name of a package, and the crates of the workspace that it needs to be built, with any feature, on any
/// system. Those that only its tests need do not count.
fn dependencies_of(package: &Value) -> (String, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let needs = package["dependencies"].as_array().unwrap().iter();
    // A crate of the workspace is found by its path; other crates come from a registry.
    let needs = needs.filter(|needed| needed["kind"] != "dev" && needed["path"].is_string());
    (text(&package["name"]), needs.map(|needed| text(&needed["name"])).collect())
}
