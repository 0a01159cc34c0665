//! A terminal with nobody in front of it: a pseudo-terminal whose every byte is kept.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::environment::{HANG, TestEnvironment, wait};

/// What a terminal was sent, and how the command ended.
pub(crate) struct Screen {
    pub(crate) bytes: Vec<u8>,
    pub(crate) code: Option<i32>,
}

impl Screen {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes.clone()).expect("what goes to a terminal is UTF-8")
    }
}

/// Runs `manent ARGS` with standard output and standard error on a terminal.
pub(crate) fn on_terminal<A: AsRef<OsStr>>(env: &TestEnvironment, args: &[A]) -> Screen {
    let mut command = env.command(args);
    command.env("TERM", "xterm-256color");
    run_on_terminal(command)
}

/// Runs a prepared command on a terminal that passes every byte on as it is.
pub(crate) fn run_on_terminal(mut command: Command) -> Screen {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OpenptFlags::NOCTTY.bits().cast_signed());
    let slave = options.open(OsStr::from_bytes(name.as_bytes())).unwrap();
    let mut modes = tcgetattr(&slave).unwrap();
    modes.make_raw();
    tcsetattr(&slave, OptionalActions::Now, &modes).unwrap();

    command.stdin(Stdio::null()).stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // The command holds copies of the terminal; only when all are closed does reading end.
    drop(command);
    let reader = std::thread::spawn(move || read_all(File::from(master)));
    let status = wait(&mut child, HANG).expect("it ends by itself");
    Screen { bytes: reader.join().unwrap(), code: status.code() }
}

/// A terminal whose other side was closed answers with an error, not with an end.
fn read_all(mut master: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = master.read_to_end(&mut bytes);
    bytes
}
