//! A directory of its own for a command, gone when it ends: its home and its place for temporary files.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::Mode;

use super::error::SandboxError;

/// A directory that nobody else can enter.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub(super) fn new() -> Result<Scratch, SandboxError> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
        let count = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("manent-sandbox-{}-{count}-{since:08x}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails if there is something of that name already: nobody can have put it there for us.
        let made = rustix::fs::mkdir(&path, Mode::RWXU);
        made.map_err(SandboxError::io("make a temporary directory"))?;
        Ok(Scratch { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// Removes a directory with all that is in it, as far as that goes.
pub(super) fn remove(dir: &Path) {
    // `rm` follows no link and has no trouble with trees that are a thousand directories deep.
    let mut remove = Command::new("/bin/rm");
    remove.args(["-rf", "--one-file-system", "--"]).arg(dir).env_clear();
    let _ = remove.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
