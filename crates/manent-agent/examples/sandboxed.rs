//! Runs a command in a sandbox: `sandboxed KIND WORKSPACE STORE LINE`. Also the program through which the tests of this
//! crate enter one.

use std::io::Write;
use std::process::ExitCode;

use manent_agent::sandbox::{
    Isolation, Sandbox, SandboxCommand, SandboxError, SandboxPolicy, StopFlag, enter_if_asked,
};

fn main() -> ExitCode {
    if let Some(code) = enter_if_asked() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, workspace, store, line] = words.as_slice() else {
        let _ = writeln!(std::io::stderr(), "sandboxed KIND WORKSPACE STORE LINE");
        return ExitCode::from(2);
    };
    match run(kind, workspace, store, line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(std::io::stderr(), "{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(kind: &str, workspace: &str, store: &str, line: &str) -> Result<(), SandboxError> {
    let sandbox = match kind {
        "bubblewrap" => Sandbox::probe_kind(Isolation::Bubblewrap)?,
        "landlock" => Sandbox::probe_kind(Isolation::Landlock)?,
        _ => Sandbox::probe()?,
    };
    let policy = SandboxPolicy::new(workspace, store);
    let outcome = sandbox.run(&policy, &SandboxCommand::Shell(line.to_owned()), &StopFlag::new()?)?;
    let mut stdout = std::io::stdout().lock();
    let _ = write!(stdout, "{}", outcome.stdout.text());
    for note in &outcome.notes {
        let _ = writeln!(stdout, "[{}]", note.text);
    }
    let _ = writeln!(stdout, "[{} after {:?}, in {}]", outcome.ending, outcome.duration, outcome.sandbox);
    Ok(())
}
