//! A command in the sandbox of a large workspace next to one in an empty workspace: before and after each command the
//! workspace is searched for repositories and protected names.

use std::path::Path;
use std::time::Instant;

use manent_agent::sandbox::{CommandEnd, Isolation, Sandbox, SandboxCommand, SandboxPolicy, StopFlag};

use crate::measure::interleaved;
use crate::row::{Goal, Row};
use crate::{Bench, Effort, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let place = bench.place("sandbox")?;
    let helper = std::env::current_exe()?.with_file_name("manent");
    let files = match bench.effort {
        Effort::Quick => FILES / 10,
        Effort::Full => FILES,
    };
    let (large, empty) = (place.join("large"), place.join("empty"));
    std::fs::create_dir_all(&empty)?;
    fill(&large, files)?;
    let mut rows = Vec::new();
    for kind in Isolation::ALL {
        let sandbox = match Sandbox::probe_with(kind, &helper) {
            Ok(sandbox) => sandbox,
            Err(error) => {
                eprintln!("manent-bench: {error}, so it is left out");
                continue;
            }
        };
        let ms = |workspace: &Path| -> Result<f64> {
            let policy = SandboxPolicy::new(workspace, place.join("store"));
            let start = Instant::now();
            let outcome =
                sandbox.run(&policy, &SandboxCommand::Program(vec!["true".into()]), &StopFlag::new()?)?;
            let ms = start.elapsed().as_secs_f64() * 1e3;
            if outcome.ending == CommandEnd::Exit(0) {
                Ok(ms)
            } else {
                Err(outcome.ending.to_string().into())
            }
        };
        let [of_large, of_empty] = interleaved(bench.rounds(31), [&mut || ms(&large), &mut || ms(&empty)])?;
        let more = (of_large - of_empty).max(f64::EPSILON);
        let (name, goal) =
            (format!("command among {files} files, {kind}: more than in none"), Goal::Within(1.0));
        rows.push(Row::new(name, more, "ms", "what it may take", MORE_MS_MAX, bench.at_full_size(goal)));
        rows.push(Row::new(
            format!("command among {files} files, {kind}"),
            of_large,
            "ms",
            "in none",
            of_empty,
            Goal::Inform,
        ));
    }
    Ok(rows)
}

/// Makes a repository with a work tree of so many files, twenty in a directory, five levels deep.
fn fill(root: &Path, files: usize) -> Result<()> {
    for name in [".git/objects", ".git/refs", ".git/hooks"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    std::fs::write(root.join(".git/HEAD"), "ref: refs/heads/main\n")?;
    std::fs::write(root.join(".gitignore"), "target/\n*.log\n")?;
    std::fs::write(root.join("AGENTS.md"), "text\n")?;
    for directory in 0..files / FILES_A_DIRECTORY {
        let parts = [directory % 4, directory % 16, directory % 64, directory % 256, directory];
        let path = parts.iter().fold(root.to_owned(), |path, part| path.join(format!("dir-{part}")));
        std::fs::create_dir_all(&path)?;
        for file in 0..FILES_A_DIRECTORY {
            std::fs::write(path.join(format!("file-{file}.rs")), "")?;
        }
    }
    Ok(())
}

const FILES: usize = 50_000;
const FILES_A_DIRECTORY: usize = 20;
/// The time that a command may take more in a workspace of that size.
const MORE_MS_MAX: f64 = 100.0;
