//! Tools from outside: what a model that calls them gets, and what becomes of the files.
//!
//! | module | about |
//! |---|---|
//! | `arguments` | calls as models write them, right and wrong |
//! | `mutations` | thousands of damaged calls: always an answer |
//! | `read_file`, `search_files` | files of every kind, bounds, what is passed over |
//! | `write_file`, `edit_file` | what changes, what is shown before, what stays as it is |
//! | `crashes` | a disk that refuses, and a power cut: the old file or the new one |
//! | `paths` | no way out of the workspace |
//! | `memory` | `recall` and `remember` |
//! | `run_command` | commands, given to a shell that only records them |

#![expect(clippy::disallowed_methods, reason = "the tests lay out the disk")]
#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod arguments;
mod crashes;
mod edit_file;
mod memory;
mod mutations;
mod paths;
mod read_file;
mod run_command;
mod search_files;
mod write_file;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use manent::log::RealDisk;
use manent::{SessionKey, Store};
use manent_agent::providers::ToolCall;
use manent_agent::tools::{
    CommandRequest, CommandResult, GitPermissions, PreparedCall, Shell, ToolContext, ToolError, ToolResult,
    Tools,
};
use serde_json::{Value, json};

/// A workspace, a store, and something hidden inside of the workspace.
struct World {
    root: tempfile::TempDir,
    store: Store,
    session: SessionKey,
    shell: Arc<RecordingShell>,
}

/// Runs nothing, and notes what it was told to.
#[derive(Debug, Default)]
struct RecordingShell {
    commands: Mutex<Vec<(String, Duration)>>,
    answer: Mutex<Option<Result<CommandResult, String>>>,
    /// The permissions of the last command.
    extras: Mutex<GitPermissions>,
}

impl Shell for RecordingShell {
    fn run(&self, order: &CommandRequest<'_>, _: &dyn Fn() -> bool) -> Result<CommandResult, String> {
        let CommandRequest { command, timeout, extras } = *order;
        *self.extras.lock().unwrap() = extras;
        self.commands.lock().unwrap().push((command.to_owned(), timeout));
        let usual = CommandResult {
            output: format!("ran {command}\n"),
            exit_code: Some(0),
            ended: "exit code 0".to_owned(),
            sandbox: "none (test)".to_owned(),
            duration: Duration::from_millis(1500),
            notes: Vec::new(),
        };
        self.answer.lock().unwrap().take().unwrap_or(Ok(usual))
    }
}

impl World {
    fn new() -> World {
        let root = tempfile::tempdir().unwrap();
        for dir in ["work/src", "work/private", "elsewhere", "store"] {
            std::fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        let store = Store::open(root.path().join("store")).unwrap();
        World { root, store, session: SessionKey::new("s1").unwrap(), shell: Arc::default() }
    }

    fn surroundings(&self) -> ToolContext {
        ToolContext {
            disk: RealDisk::shared(),
            workspace: self.path("work"),
            hidden: vec![self.path("store"), self.path("work/private"), self.path("work/not/yet")],
            store: self.store.clone(),
            keeper: Arc::new(self.store.clone()),
            session: self.session.clone(),
            shell: Some(Arc::clone(&self.shell) as Arc<dyn Shell>),
        }
    }

    fn tools(&self) -> Tools {
        Tools::new(self.surroundings()).unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(path)
    }

    /// Writes a file of the workspace.
    fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path("work").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Reads a file of the workspace.
    fn read(&self, path: &str) -> String {
        String::from_utf8(std::fs::read(self.path("work").join(path)).unwrap()).unwrap()
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.path("work").join(path)).unwrap();
    }

    fn prepare(&self, tool: &str, arguments: &Value) -> Result<PreparedCall, ToolError> {
        self.tools().prepare(&call(tool, arguments))
    }

    /// Makes a call that can be made.
    fn done(&self, tool: &str, arguments: &Value) -> ToolResult {
        self.prepare(tool, arguments).unwrap().run(&|| false)
    }

    /// Makes a call that works, and gives what the model gets.
    fn gets(&self, tool: &str, arguments: &Value) -> String {
        let done = self.done(tool, arguments);
        assert!(!done.failed, "{}", done.content);
        done.content
    }

    /// Makes a call that does not work, and gives what the model is told.
    fn fails(&self, tool: &str, arguments: &Value) -> String {
        match self.prepare(tool, arguments) {
            Err(e) => e.to_string(),
            Ok(prepared) => {
                let done = prepared.run(&|| false);
                assert!(done.failed, "{}", done.content);
                done.content
            }
        }
    }

    fn reads(&self, path: &str) -> String {
        self.gets("read_file", &json!({"path": path}))
    }

    /// No file was left behind that nobody asked for.
    fn leaves_nothing(&self) {
        let left =
            walk(&self.path("work")).into_iter().filter(|path| path.to_string_lossy().contains(".manent"));
        assert_eq!(left.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .flat_map(
            |entry| {
                if entry.file_type().unwrap().is_dir() { walk(&entry.path()) } else { vec![entry.path()] }
            },
        )
        .collect()
}

fn call(tool: &str, arguments: &Value) -> ToolCall {
    ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments: arguments.to_string() }
}

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in {text:?}");
}
