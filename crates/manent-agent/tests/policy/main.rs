//! The policy from outside: which calls are made, which are asked about, which are refused.
//!
//! | module | about |
//! |---|---|
//! | `shell_lines` | shell lines of every kind, with what must become of them |
//! | `rules` | reading rules, their examples, which one counts |
//! | `approvals` | what a person allowed, for a session and for a project |

#![expect(clippy::disallowed_methods, reason = "the tests lay out the disk")]
#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod approvals;
mod rules;
mod shell_lines;

use std::path::PathBuf;
use std::sync::Arc;

use manent::log::RealDisk;
use manent::{InMemory, SessionKey, Store, StoreOptions, turn};
use manent_agent::policy::{Approvals, Approver, Decision, Permission, PolicyRules, ToolPolicy};
use manent_agent::providers::ToolCall;
use manent_agent::tools::{CommandRequest, CommandResult, PreparedCall, Shell, ToolContext, Tools};
use serde_json::{Value, json};

/// A workspace with some files, and a home for the store.
struct World {
    root: tempfile::TempDir,
    tools: Tools,
}

/// Is never run here.
#[derive(Debug)]
struct NoShell;

impl Shell for NoShell {
    fn run(&self, _: &CommandRequest<'_>, _: &dyn Fn() -> bool) -> Result<CommandResult, String> {
        Err("nothing is run in these tests".to_owned())
    }
}

impl World {
    fn new() -> World {
        let root = tempfile::tempdir().unwrap();
        for dir in ["work/docs/deep", "work/src", "store"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        for file in ["work/docs/a.md", "work/docs/deep/b.md", "work/src/main.rs", "work/secret.env"] {
            std::fs::write(root.path().join(file), "text\n").unwrap();
        }
        let store = Store::on(Arc::new(InMemory::default()), None, StoreOptions::default());
        let session = SessionKey::new("s").unwrap();
        store.append(&session, turn("user", "I like green tea")).unwrap();
        let tools = Tools::new(ToolContext {
            disk: RealDisk::shared(),
            workspace: root.path().join("work"),
            hidden: vec![root.path().join("store")],
            keeper: Arc::new(store.clone()),
            store,
            session,
            shell: Some(Arc::new(NoShell)),
        });
        World { tools: tools.unwrap(), root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    fn prepare(&self, tool: &str, arguments: &Value) -> PreparedCall {
        let call = ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments: arguments.to_string() };
        self.tools.prepare(&call).unwrap()
    }

    fn command(&self, command: &str) -> PreparedCall {
        self.prepare("run_command", &json!({"command": command}))
    }

    fn edit(&self, path: &str) -> PreparedCall {
        self.prepare("edit_file", &json!({"path": path, "old": "text", "new": "texts"}))
    }

    fn store(&self) -> Store {
        Store::open(self.path("store")).unwrap()
    }

    /// With what was allowed in this workspace before.
    fn policy(&self, rules: &str) -> ToolPolicy {
        let approvals = Approvals::load(&self.store(), &self.path("work"));
        ToolPolicy::new(PolicyRules::read(rules).unwrap(), approvals)
    }
}

fn policy(rules: &str) -> ToolPolicy {
    ToolPolicy::new(PolicyRules::read(rules).unwrap(), Approvals::default())
}

fn decide(policy: &ToolPolicy, prepared: &PreparedCall) -> Decision {
    policy.decide(prepared, Approver::Person)
}

fn permission(policy: &ToolPolicy, prepared: &PreparedCall) -> Permission {
    decide(policy, prepared).permission
}
