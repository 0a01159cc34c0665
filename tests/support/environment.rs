//! A store of its own for each test, and the binary run in it as a user would run it: real files, real processes,
//! nothing of the developer's environment.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::normalise;

/// The binary under test.
pub(crate) const MANENT: &str = env!("CARGO_BIN_EXE_manent");

/// Longer than any command here may take. One that takes longer hangs, and a hang is a failure of its own.
pub(crate) const HANG: Duration = Duration::from_mins(1);

/// The exit code of a command whose record was written, and whose sync failed.
pub(crate) const SYNC_FAILED: i32 = 7;

/// The memory that all tests on a RAM disk may need together.
const MEMORY_BYTES_MIN: u64 = 4 << 30;

/// A temporary home, gone when the test ends.
pub(crate) struct TestEnvironment {
    root: tempfile::TempDir,
    home: PathBuf,
}

impl TestEnvironment {
    /// An empty place where no store exists yet.
    pub(crate) fn new() -> TestEnvironment {
        TestEnvironment::within(&std::env::temp_dir())
    }

    /// In memory, for tests that move hundreds of megabytes and are not about a disk.
    pub(crate) fn in_memory() -> TestEnvironment {
        let memory = Path::new("/dev/shm");
        let free = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        if free >= MEMORY_BYTES_MIN { TestEnvironment::within(memory) } else { TestEnvironment::new() }
    }

    /// In a directory that somebody else looks after, such as a mount.
    pub(crate) fn within(parent: &Path) -> TestEnvironment {
        let root = tempfile::Builder::new().prefix("manent-").tempdir_in(parent).unwrap();
        let home = root.path().join("home");
        TestEnvironment { root, home }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.home.join("sessions")
    }

    /// The file of a session with an ordinary key.
    pub(crate) fn log(&self, key: &str) -> PathBuf {
        self.sessions().join(format!("{key}.jsonl"))
    }

    pub(crate) fn bytes(&self, key: &str) -> Vec<u8> {
        std::fs::read(self.log(key)).unwrap()
    }

    /// Puts a file in the place of a session, by hand, as a crash or a vandal would.
    pub(crate) fn plant(&self, key: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.make_directories();
        let path = self.log(key);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Makes the directories of the store as the binary would.
    pub(crate) fn make_directories(&self) {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(self.sessions()).unwrap();
    }

    /// The names in the directory of sessions, sorted.
    pub(crate) fn file_names(&self) -> Vec<String> {
        names_in(&self.sessions())
    }

    /// The contents of the copies of torn bytes, sorted by name.
    pub(crate) fn torn_copies(&self, key: &str) -> Vec<Vec<u8>> {
        let start = format!("{key}.jsonl.torn-");
        let names = self.file_names();
        let copies = names.iter().filter(|name| name.starts_with(&start));
        copies.map(|name| std::fs::read(self.sessions().join(name)).unwrap()).collect()
    }

    /// The command line `manent --home HOME ARGS`, in an empty environment and in the root directory (the header of a
    /// session notes where it was begun, and its length must not depend on who runs the tests).
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        self.command_under::<&str, A>(&[], args)
    }

    /// The same, started by another program: `prlimit --nofile=4 manent …`.
    pub(crate) fn command_under<W: AsRef<OsStr>, A: AsRef<OsStr>>(
        &self,
        wrapper: &[W],
        args: &[A],
    ) -> Command {
        let mut command = match wrapper {
            [] => Command::new(MANENT),
            [program, rest @ ..] => {
                let mut command = Command::new(program);
                command.args(rest).arg(MANENT);
                command
            }
        };
        self.clean(&mut command);
        command.arg("--home").arg(&self.home).args(args);
        command
    }

    /// Takes the developer's environment away from a command.
    pub(crate) fn clean(&self, command: &mut Command) {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.root.path()).current_dir("/");
    }

    /// Runs `manent ARGS` without input.
    pub(crate) fn manent<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        self.output(self.command(args), b"")
    }

    /// Runs `manent ARGS` with this on standard input.
    pub(crate) fn manent_given<A: AsRef<OsStr>>(&self, args: &[A], input: impl AsRef<[u8]>) -> Output {
        self.output(self.command(args), input.as_ref())
    }

    /// Runs `WRAPPER manent ARGS`.
    pub(crate) fn manent_under<W: AsRef<OsStr>, A: AsRef<OsStr>>(&self, wrapper: &[W], args: &[A]) -> Output {
        self.output(self.command_under(wrapper, args), b"")
    }

    /// Runs `manent`, which must succeed, as somebody with this umask would.
    #[track_caller]
    pub(crate) fn manent_with_umask(&self, umask: &str, args: &[&str]) {
        let mut command = Command::new("sh");
        self.clean(&mut command);
        command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh", MANENT, "--home"]);
        command.arg(self.home()).args(args);
        self.output(command, b"").assert_code(0);
    }

    /// Runs a prepared command to its end.
    pub(crate) fn output(&self, command: Command, input: &[u8]) -> Output {
        let mut output = run(command, input);
        output.home = self.home.display().to_string();
        output
    }

    /// Appends a turn and gives its number.
    #[track_caller]
    pub(crate) fn append(&self, key: &str, text: &str) -> u64 {
        let output = self.manent(&["append", "--durability", "flush", "--", key, text]);
        output.assert_code(0);
        let line = output.stdout();
        line.trim().rsplit(' ').next().and_then(|seq| seq.parse().ok()).expect("a receipt ends with a number")
    }

    /// The records of a session as `show --json` prints them, one a line.
    #[track_caller]
    pub(crate) fn records(&self, key: &str) -> Vec<String> {
        let output = self.manent(&["show", "--json", "--", key]);
        output.assert_code(0);
        output.stdout().lines().map(str::to_owned).collect()
    }

    /// Returns the output of `verify --json` for a session, and the exit code.
    #[track_caller]
    pub(crate) fn verify(&self, key: &str) -> (serde_json::Value, i32) {
        let output = self.manent(&["verify", "--json", "--", key]);
        let code = output.code().expect("verify ends by itself");
        let report = serde_json::from_slice(&output.stdout_bytes).unwrap_or_else(|e| panic!("{e}: {output}"));
        (report, code)
    }

    #[track_caller]
    pub(crate) fn assert_clean(&self, key: &str) {
        let output = self.manent(&["verify", "--json", "--", key]);
        output.assert_code(0);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout_bytes).unwrap();
        assert_eq!(report["tail"], "clean", "{output}");
    }
}

/// The names in a directory, sorted.
pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().expect("an ASCII name")).collect();
    names.sort();
    names
}

/// Everything a command left behind.
pub(crate) struct Output {
    pub(crate) stdout_bytes: Vec<u8>,
    pub(crate) stderr_bytes: Vec<u8>,
    pub(crate) status: ExitStatus,
    home: String,
}

impl Output {
    #[track_caller]
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.stdout_bytes.clone()).expect("standard output is UTF-8")
    }

    #[track_caller]
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.stderr_bytes.clone()).expect("standard error is UTF-8")
    }

    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) {
        assert_eq!(self.code(), Some(code), "the exit code of:\n{self}");
    }

    /// An exit code, and words that an error must say.
    #[track_caller]
    pub(crate) fn assert_fails(&self, code: i32, words: &[&str]) {
        self.assert_code(code);
        let stderr = self.stderr();
        assert!(stderr.starts_with("error: "), "an error says so:\n{self}");
        for word in words {
            assert!(stderr.contains(word), "the error does not say {word:?}:\n{self}");
        }
    }
}

/// The whole outcome, with what changes from run to run replaced: for snapshots.
impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tidy = |bytes: &[u8]| normalise::normalise(&String::from_utf8_lossy(bytes), &self.home);
        write!(f, "{}", tidy(&self.stdout_bytes))?;
        if !self.stderr_bytes.is_empty() {
            write!(f, "[stderr]\n{}", tidy(&self.stderr_bytes))?;
        }
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "[exit {code}]"),
            (None, signal) => write!(f, "[killed by signal {}]", signal.unwrap_or_default()),
        }
    }
}

/// Runs a command to its end; one that hangs is killed and fails the test.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = piped.unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    let mut stdin = child.stdin.take().expect("it was piped");
    let input = input.to_vec();
    // A command that does not read its input closes it; that is its right.
    std::thread::spawn(move || drop(stdin.write_all(&input)));
    let stdout = drain(child.stdout.take().expect("it was piped"));
    let stderr = drain(child.stderr.take().expect("it was piped"));
    let status = wait(&mut child, HANG).unwrap_or_else(|| panic!("{command:?} hangs"));
    let read = |from: mpsc::Receiver<Vec<u8>>| from.recv_timeout(HANG).expect("the pipe closes");
    Output { stdout_bytes: read(stdout), stderr_bytes: read(stderr), status, home: String::new() }
}

/// Waits for a child for a while. Nothing: it went on, and was killed.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn drain(mut from: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}
