//! The files of the project, as git sees them, or as they lie there where there is no git.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of text, with its path from the root of the project.
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl TextFile {
    pub(crate) fn has_extension(&self, wanted: &[&str]) -> bool {
        let extension = Path::new(&self.path).extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| wanted.contains(&extension))
    }
}

/// The root of the project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files of text with one of these extensions, sorted by path.
pub(crate) fn files(extensions: &[&str]) -> Vec<TextFile> {
    let root = root();
    let mut paths = listed_by_git(&root).unwrap_or_else(|| walked(&root));
    paths.sort();
    paths.dedup();
    let files: Vec<TextFile> = paths
        .into_iter()
        // A file that was deleted and not committed is still listed.
        .filter_map(|path| Some(TextFile { text: std::fs::read_to_string(root.join(&path)).ok()?, path }))
        .filter(|file| file.has_extension(extensions))
        .collect();
    assert!(!files.is_empty(), "a project without a file that ends in {extensions:?}");
    files
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.is_empty()).then(|| text.lines().map(str::to_owned).collect())
}

fn walked(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if path.is_dir() && !hidden && !path.ends_with("target") {
                left.push(path);
            } else if path.is_file() {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found
}

/// Compares the files that break a rule with the list of those that may.
#[track_caller]
pub(crate) fn assert_ratchet(rule: &str, breaking: &[String], allowed: &[&str]) {
    let is_allowed = |found: &String| allowed.iter().any(|known| found == known);
    let new: Vec<&String> = breaking.iter().filter(|found| !is_allowed(found)).collect();
    assert!(new.is_empty(), "{rule}; these do not keep to it: {new:#?}");
    let mended: Vec<_> =
        allowed.iter().filter(|known| !breaking.iter().any(|found| found == *known)).collect();
    assert!(mended.is_empty(), "{rule}; these keep to it now, so take them off the list: {mended:#?}");
}
