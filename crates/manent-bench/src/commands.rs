//! Whole programs, from their start to their end, as someone at a terminal waits for them: the `manent` command, and
//! ripgrep. What they print goes nowhere, but for a page of which is measured when it is there.
//!
//! Neither is a part of the bench. If one is not there, that is said, and its rows are left out.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Result;

/// The `manent` binary that was built into the directory of this one.
#[derive(Debug)]
pub(crate) struct Manent {
    path: PathBuf,
    home: PathBuf,
}

impl Manent {
    /// Returns `None`, and a note about it, if there is no binary or it lacks a command.
    pub(crate) fn with_command(name: &str, home: &Path) -> Result<Option<Manent>> {
        let path = std::env::current_exe()?.with_file_name("manent");
        let shown = path.display();
        let hint = "build it with `cargo build --release -p manent-cli`";
        if !path.is_file() {
            eprintln!("manent-bench: there is no {shown}, so whole commands are left out; {hint}");
            return Ok(None);
        }
        if !is_well(Command::new(&path).args([name, "--help"])) {
            eprintln!("manent-bench: {shown} has no {name} that works, so it is left out; {hint}");
            return Ok(None);
        }
        Ok(Some(Manent { path, home: home.to_owned() }))
    }

    /// Runs a command and returns its time in milliseconds.
    pub(crate) fn ms(&self, words: &[&str]) -> Result<f64> {
        timed(&mut self.command(words))
    }

    /// Returns the time until a command has shown so many lines, and until it has ended, in milliseconds.
    pub(crate) fn ms_until_shown(&self, words: &[&str], lines: usize) -> Result<[f64; 2]> {
        let mut command = self.command(words);
        quiet(&mut command).stdout(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("there is no pipe")?);
        let mut shown = 0;
        while shown < lines && output.read_line(&mut String::new())? > 0 {
            shown += 1;
        }
        let shown_ms = ms_since(start);
        std::io::copy(&mut output, &mut std::io::sink())?;
        let status = child.wait()?;
        let ended_ms = ms_since(start);
        if shown < lines || !status.success() {
            return Err(format!("{command:?}: {shown} lines instead of {lines}, {status}").into());
        }
        Ok([shown_ms, ended_ms])
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--home").arg(&self.home).args(words);
        command
    }
}

/// ripgrep, over the files of a directory.
#[derive(Debug)]
pub(crate) struct Ripgrep {
    dir: PathBuf,
}

impl Ripgrep {
    /// Returns `None`, and a note about it, if there is none.
    pub(crate) fn over(dir: PathBuf) -> Option<Ripgrep> {
        if is_well(Command::new("rg").arg("--version")) {
            return Some(Ripgrep { dir });
        }
        eprintln!("manent-bench: there is no rg, so what is compared with it is left out");
        None
    }

    /// Returns the time to find the lines with all of these, in milliseconds. The rarest comes first; a pipe is how
    /// one asks for several.
    pub(crate) fn ms(&self, parts: &[&str]) -> Result<f64> {
        match parts {
            // It would find nothing at all below a directory that some .gitignore names.
            [part] => timed(Command::new("rg").args(["--no-ignore", "-i", "-c", "-F", part]).arg(&self.dir)),
            [first, second, third] => {
                let pipe = r#"rg --no-ignore -i -F "$1" "$0" | rg -i -F "$2" | rg -i -F "$3""#;
                timed(Command::new("sh").args(["-c", pipe]).arg(&self.dir).args([first, second, third]))
            }
            _ => Err("one part, or three".into()),
        }
    }
}

fn is_well(command: &mut Command) -> bool {
    quiet(command).status().is_ok_and(|status| status.success())
}

/// Milliseconds from start to end. Having found nothing is a failure too: there is something to find.
fn timed(command: &mut Command) -> Result<f64> {
    let command = quiet(command);
    let start = Instant::now();
    let status = command.status()?;
    let ms = ms_since(start);
    if status.success() { Ok(ms) } else { Err(format!("{command:?}: {status}").into()) }
}

fn ms_since(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}
