//! The layers: each crate depends only on those below it.

use std::collections::BTreeMap;

use super::tree::files;

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

/// The crates of the workspace, and those that each needs to be built. What only its tests need does not count.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let manifests = files(&["toml"]).into_iter().filter(|file| {
        let parts: Vec<&str> = file.path.split('/').collect();
        matches!(parts[..], ["crates", _, "Cargo.toml"])
    });
    let needs = |text: &str| {
        let mut section = "";
        let mut needs = Vec::new();
        for line in text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if matches!(section, "[dependencies]") && line.starts_with("manent") {
                needs.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
            }
        }
        needs
    };
    let name = |path: &str| path.split('/').nth(1).unwrap_or_default().to_owned();
    manifests.map(|file| (name(&file.path), needs(&file.text))).collect()
}
