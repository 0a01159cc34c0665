//! Dependencies: known licences, one registry, no wildcards. Cargo tells what would be built on the systems that are
//! supported, with all features.

use std::process::Command;

use serde_json::Value;

use super::tree::root;

#[test]
fn every_dependency_has_an_allowed_licence_a_known_source_and_a_version() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let built = built(&metadata);
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| built.contains(&package["id"].as_str().unwrap())) {
        let name = format!("{} {}", package["name"], package["version"]);
        match package["license"].as_str() {
            None => wrong.push(format!("{name} does not say its licence")),
            Some(licence) if !is_allowed(licence) => wrong.push(format!("{name} has the licence {licence}")),
            Some(_) => {}
        }
        // The members of the workspace have none.
        if let Some(source) = package["source"].as_str().filter(|source| !SOURCES.contains(source)) {
            wrong.push(format!("{name} comes from {source}"));
        }
        let wildcards =
            package["dependencies"].as_array().unwrap().iter().filter(|needed| is_wildcard(needed));
        wrong.extend(wildcards.map(|needed| format!("{name} takes any version of {}", needed["name"])));
    }
    assert!(built.len() > 100, "cargo tells what is built: {built:?}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the packages that are built for any of the targets. Those that only other systems need are downloaded.
fn metadata() -> Value {
    let targets = TARGETS.iter().flat_map(|target| ["--filter-platform", *target]);
    cargo_metadata(&["--all-features"].into_iter().chain(targets).collect::<Vec<_>>())
}

/// Returns the view that cargo has of the workspace.
pub(super) fn cargo_metadata(options: &[&str]) -> Value {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["metadata", "--locked", "--format-version", "1"]).args(options);
    let output = command.current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The ids of the packages that are built for any of the targets.
fn built(metadata: &Value) -> Vec<&str> {
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["id"].as_str().unwrap()).collect()
}

/// Whether any version would do. A member of the workspace is what it is, whatever its version.
fn is_wildcard(dependency: &Value) -> bool {
    dependency["req"] == "*" && dependency["path"].is_null()
}

/// Whether an SPDX expression leaves a choice of licences that are all allowed.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    // What is left over was not understood.
    any_of(&mut rest).is_some_and(|allowed| allowed) && rest.is_empty()
}

/// `a OR b OR …`. None: it is no expression.
fn any_of(rest: &mut &[&str]) -> Option<bool> {
    let mut allowed = all_of(rest)?;
    while let ["OR", behind @ ..] = *rest {
        *rest = behind;
        allowed |= all_of(rest)?;
    }
    Some(allowed)
}

/// `a AND b AND …`, which binds more tightly.
fn all_of(rest: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(rest)?;
    while let ["AND", behind @ ..] = *rest {
        *rest = behind;
        allowed &= one(rest)?;
    }
    Some(allowed)
}

/// A licence, one with an exception, or an expression in brackets.
fn one(rest: &mut &[&str]) -> Option<bool> {
    match *rest {
        ["(", behind @ ..] => {
            *rest = behind;
            let allowed = any_of(rest)?;
            *rest = rest.strip_prefix(&[")"])?;
            Some(allowed)
        }
        [")" | "OR" | "AND" | "WITH", ..] | [] => None,
        [licence, "WITH", exception, behind @ ..] => {
            *rest = behind;
            Some(LICENCES.contains(&format!("{licence} WITH {exception}").as_str()))
        }
        [licence, behind @ ..] => {
            *rest = behind;
            Some(LICENCES.contains(licence))
        }
    }
}

#[test]
fn licence_expressions_are_read_as_spdx_says() {
    let allowed = [
        "MIT",
        "MIT OR GPL-3.0-only",
        "GPL-3.0-only OR MIT",
        "MIT/Apache-2.0",
        "(MIT OR GPL-3.0-only) AND Unicode-3.0",
        "GPL-3.0-only AND Unlicense OR MIT AND ISC",
        "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
        "((MIT))",
    ];
    let refused = [
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "(MIT OR ISC) AND GPL-3.0-only",
        "GPL-3.0-only OR MPL-2.0",
        "GPL-3.0-only WITH LLVM-exception",
        "MIT WITH LLVM-exception",
        "mit",
        "MIT OR",
        "AND MIT",
        "(MIT",
        "MIT)",
        "MIT ISC",
        "",
    ];
    for (expressions, expected) in [(&allowed[..], true), (&refused[..], false)] {
        for expression in expressions {
            assert_eq!(is_allowed(expression), expected, "{expression:?}");
        }
    }
}

const LICENCES: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
const SOURCES: [&str; 2] =
    ["registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/"];
/// Where it is meant to run; what other systems would bring along is not built.
const TARGETS: [&str; 4] =
    ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-apple-darwin", "aarch64-apple-darwin"];
