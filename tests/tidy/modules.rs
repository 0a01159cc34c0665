//! No test is forgotten: every file under a `tests/` directory is reached from a test target.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::tree::{files, root};

#[test]
fn every_test_file_is_run() {
    let root = root();
    let manifests = files(&["toml"]).into_iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let mut reached = BTreeSet::new();
    for manifest in manifests {
        let package = root.join(&manifest.path).parent().unwrap().to_owned();
        for target in declared_targets(&manifest.text).iter().map(|path| package.join(path)) {
            reach(&target, true, &mut reached);
        }
        for target in found_targets(&package.join("tests")) {
            reach(&target, true, &mut reached);
        }
        // Unit tests may have a directory of their own inside a library.
        reach(&package.join("src/lib.rs"), true, &mut reached);
    }
    let forgotten: Vec<String> = files(&["rs"])
        .into_iter()
        .map(|file| file.path)
        .filter(|path| path.starts_with("tests/") || path.contains("/tests/"))
        .filter(|path| !reached.contains(&root.join(path).canonicalize().unwrap()))
        .collect();
    assert!(
        forgotten.is_empty(),
        "no `mod` leads to these files, so their tests are never run: {forgotten:#?}"
    );
    assert!(
        reached.contains(&root.join(file!().trim_start_matches("crates/manent-cli/../../"))),
        "this file, at least"
    );
}

/// The paths of `[[test]]` targets in a manifest.
fn declared_targets(manifest: &str) -> Vec<String> {
    let tables = manifest.split("[[test]]").skip(1);
    let path = |table: &str| {
        let own = table.split("\n[").next().unwrap_or_default();
        let line = own.lines().find_map(|line| line.trim().strip_prefix("path"))?;
        Some(line.trim_start_matches([' ', '=']).trim().trim_matches('"').to_owned())
    };
    tables.filter_map(path).collect()
}

/// The targets that cargo finds by itself: `tests/*.rs` and `tests/*/main.rs` of a package.
fn found_targets(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let target = |path: PathBuf| if path.is_dir() { path.join("main.rs") } else { path };
    paths.map(target).filter(|path| path.extension().is_some_and(|e| e == "rs") && path.is_file()).collect()
}

/// Follows the modules of a file. The root of a target, and `mod.rs`, look beside themselves; any other file in the
/// directory of its name.
fn reach(path: &Path, is_root: bool, reached: &mut BTreeSet<PathBuf>) {
    let Ok(path) = path.canonicalize() else { return };
    let text = std::fs::read_to_string(&path).unwrap();
    if !reached.insert(path.clone()) {
        return;
    }
    let beside = path.parent().unwrap();
    let inside = match path.file_stem().unwrap() {
        stem if is_root || stem == "mod" => beside.to_owned(),
        stem => beside.join(stem),
    };
    let modules = text.lines().filter_map(|line| {
        let code = line.trim().trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        code.strip_prefix("mod ")?.strip_suffix(';')
    });
    for module in modules {
        reach(&inside.join(format!("{module}.rs")), false, reached);
        reach(&inside.join(module).join("mod.rs"), false, reached);
    }
}
