//! The tools of a chat: those of the current directory, the rules for them, and the sandbox for commands.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use manent::Store;
use manent::log::RealDisk;
use manent_agent::kernel::{CallStyle, Toolbox};
use manent_agent::policy::{Approvals, Approver, PolicyRules, ToolPolicy};
use manent_agent::tools::{CommandRequest, CommandResult, Shell};

use crate::commands::skills::skills_here;
use crate::context::Context;
use crate::exit::Failure;

/// Returns the tools of this directory. `asking` says whether somebody is there to be asked.
pub(crate) fn toolbox(
    context: &Context<'_>,
    store: &Store,
    asking: Approver,
    calling: CallStyle,
) -> Result<Toolbox, Failure> {
    let disk = RealDisk::shared();
    // Approvals name the workspace by its path behind all links.
    let workspace = std::env::current_dir()
        .and_then(|dir| disk.resolve(&dir))
        .map_err(|e| Failure::failed(format!("the current directory is not there: {e}; go elsewhere")))?;
    let home = context.home()?;
    let rules = match context.config_text()? {
        Some(text) => PolicyRules::read(&text).map_err(|e| Failure::failed(e.to_string()))?,
        None => PolicyRules::default(),
    };
    let mut approvals = Approvals::load(store, &workspace);
    if let Some(trouble) = approvals.trouble() {
        context.warn(trouble);
    }
    // Told once, and so not kept back by --quiet.
    if let Some(note) = approvals.take_note() {
        context.warn(&note);
    }
    let mut hidden = vec![home.clone()];
    if let Some(user) = std::env::home_dir() {
        hidden.extend(SECRETS.iter().map(|name| user.join(name)));
    }
    Ok(Toolbox {
        shell: shell(&workspace, &home),
        unreadable: rules.unreadable(),
        skills: skills_here(context, store)?,
        policy: Mutex::new(ToolPolicy::new(rules, approvals)),
        disk,
        workspace,
        hidden,
        asking,
        calling,
    })
}

#[cfg(target_os = "linux")]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
fn shell(workspace: &std::path::Path, home: &std::path::Path) -> Option<Arc<dyn Shell>> {
    Some(Arc::new(Sandboxed {
        workspace: workspace.to_owned(),
        home: home.to_owned(),
        found: OnceLock::new(),
    }))
}

/// Returns no shell: other systems have no sandbox, so no command is run.
#[cfg(not(target_os = "linux"))]
fn shell(_workspace: &std::path::Path, _home: &std::path::Path) -> Option<Arc<dyn Shell>> {
    None
}

/// A sandbox that is looked for when the first command is run: a chat need not wait for that.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Sandboxed {
    workspace: PathBuf,
    home: PathBuf,
    found: OnceLock<Result<manent_agent::sandbox::SandboxShell, String>>,
}

#[cfg(target_os = "linux")]
impl Shell for Sandboxed {
    fn run(&self, order: &CommandRequest<'_>, stop: &dyn Fn() -> bool) -> Result<CommandResult, String> {
        use manent_agent::sandbox::{Sandbox, SandboxPolicy, SandboxShell};
        let found = self.found.get_or_init(|| {
            let sandbox = Sandbox::probe().map_err(|e| e.to_string())?;
            Ok(SandboxShell::new(sandbox, SandboxPolicy::new(&self.workspace, &self.home)))
        });
        found.as_ref().map_err(Clone::clone)?.run(order, stop)
    }
}

/// Files and directories in the home of the user that hold credentials.
const SECRETS: [&str; 8] =
    [".ssh", ".gnupg", ".aws", ".azure", ".kube", ".netrc", ".config/gcloud", ".docker/config.json"];
