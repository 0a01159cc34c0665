//! A program that is there, but not in the sandbox: where it is, and how it is let in.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use manent::log::RealDisk;
use manent::log::fs::Disk;
use manent_agent::sandbox::SandboxPolicy;

/// What to say of a program that could not be started, if the sandbox hides it.
pub(super) fn hint(policy: &SandboxPolicy, program: &OsStr) -> Option<String> {
    let found = candidates(Path::new(program)).into_iter().find(|path| path.is_file())?;
    let real = RealDisk.resolve(&found).ok()?;
    if policy.shows(&real) {
        return None;
    }
    let home = policy.home.as_deref();
    let mut dirs = vec![to_let_in(&real, home)];
    // What rustup puts there only starts what is in its own directory.
    let rustup = std::env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".rustup")));
    if found.with_file_name("rustup").is_file() {
        dirs.extend(rustup.filter(|dir| dir.is_dir()));
    }
    let options: Vec<String> = dirs.iter().map(|dir| format!("--read {}", dir.display())).collect();
    let (name, options) = (Path::new(program).display(), options.join(" "));
    Some(format!(
        "{name} is at {}, which the sandbox hides; `{options}` lets it in, to be read",
        found.display()
    ))
}

/// Where it would be started from without a sandbox.
fn candidates(program: &Path) -> Vec<PathBuf> {
    if program.components().count() != 1 {
        return vec![program.to_owned()];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).collect()
}

/// The directory that has to be let in for a program: with what lies beside its `bin`, unless that is half of the home.
fn to_let_in(program: &Path, home: Option<&Path>) -> PathBuf {
    let dir = program.parent().unwrap_or(program);
    let around = dir.parent().filter(|_| dir.ends_with("bin"));
    let is_too_much = |around: &Path| {
        around.parent().is_none() || home.is_some_and(|home| around == home || around == home.join(".local"))
    };
    around.filter(|around| !is_too_much(around)).unwrap_or(dir).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_of_a_home_is_let_in_than_a_program_needs() {
        let of = |program: &str| to_let_in(program.as_ref(), Some("/home/ann".as_ref()));
        assert_eq!(of("/home/ann/.cargo/bin/cargo"), Path::new("/home/ann/.cargo"));
        assert_eq!(of("/home/ann/bin/tool"), Path::new("/home/ann/bin"));
        assert_eq!(of("/home/ann/.local/bin/tool"), Path::new("/home/ann/.local/bin"));
        assert_eq!(of("/opt/tool"), Path::new("/opt"));
        assert_eq!(of("/bin/tool"), Path::new("/bin"));
    }
}
