//! What this machine lets a test do. What it does not let us do is skipped, and said so where everybody sees it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::environment::{MANENT, TestEnvironment};

/// Says that a test proves nothing on this machine. Goes around the test harness, which would keep it to itself.
///
/// With `MANENT_NO_SKIP` set it is a failure: for machines that are known to be able to do everything.
pub(crate) fn skip(test: &str, why: &str) {
    assert!(std::env::var_os("MANENT_NO_SKIP").is_none(), "{test} may not be skipped, but {why}");
    let _ = writeln!(std::io::stderr(), "\nSKIPPED {test}: {why}");
}

/// Returns true if the tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns true if a program is installed and starts.
pub(crate) fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns true if strace is installed and the kernel lets it trace.
pub(crate) fn can_trace() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=write", "-e", "inject=write:error=EIO"]);
        command.arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    })
}

/// A file system of its own in memory, unmounted when dropped.
pub(crate) struct Mount {
    path: PathBuf,
}

impl Mount {
    /// Mounts a new file system on a new directory. Nothing: this machine does not let us.
    pub(crate) fn new(parent: &Path, kind: &str, options: &str) -> Option<Mount> {
        Mount::on(parent.join(format!("mounted-{kind}")), kind, options)
    }

    /// The same on a new directory of this name.
    pub(crate) fn on(path: PathBuf, kind: &str, options: &str) -> Option<Mount> {
        std::fs::create_dir(&path).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", kind, "-o", options, "manent-test"]).arg(&path).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success()).then(|| Mount { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Mounts it again with other options.
    pub(crate) fn again(&self, options: &str) {
        let status =
            Command::new("mount").arg("-o").arg(format!("remount,{options}")).arg(&self.path).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot mount again with {options}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}

/// An ordinary user, for what root may do anyway.
pub(crate) struct Nobody {
    pub(crate) env: TestEnvironment,
    binary: PathBuf,
}

impl Nobody {
    pub(crate) const UID: u32 = 65534;

    /// A store that belongs to an ordinary user, and a copy of the binary where that user finds it. Nothing: we are
    /// not root, and cannot become somebody else.
    pub(crate) fn new() -> Option<Nobody> {
        if !is_root() || !has("setpriv") {
            return None;
        }
        let env = TestEnvironment::new();
        set_mode(env.root(), 0o755);
        let binary = env.root().join("manent");
        // Not by ourselves: a child that another test forks meanwhile would hold the copy open for writing, and a file
        // that is open for writing cannot be started.
        let copied = Command::new("cp").arg(MANENT).arg(&binary).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot copy {MANENT}");
        set_mode(&binary, 0o755);
        std::fs::create_dir(env.home()).unwrap();
        set_mode(env.home(), 0o700);
        give(env.home(), Nobody::UID);
        Some(Nobody { env, binary })
    }

    /// Runs `manent ARGS` as that user.
    pub(crate) fn manent(&self, args: &[&str]) -> super::Output {
        let uid = Nobody::UID.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--"]).arg(&self.binary);
        self.env.clean(&mut command);
        command.arg("--home").arg(self.env.home()).args(args);
        self.env.output(command, b"")
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

pub(crate) fn give(path: &Path, uid: u32) {
    std::os::unix::fs::chown(path, Some(uid), Some(uid)).unwrap();
}
