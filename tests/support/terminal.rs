//! A terminal with nobody in front of it: a pseudo-terminal whose every byte is kept.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use super::environment::{HANG, TestEnvironment, wait};

/// The bytes that a terminal was sent, and the exit code of the command.
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

/// Runs a command like [`on_terminal`], on a terminal of a known width.
pub(crate) fn on_wide_terminal<A: AsRef<OsStr>>(env: &TestEnvironment, args: &[A], columns: u16) -> Screen {
    let (master, slave) = pair(Typing::Raw);
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).unwrap();
    let mut command = env.command(args);
    command.env("TERM", "xterm-256color").stdin(Stdio::null());
    finish(command, master, slave)
}

/// Runs `manent ARGS` with everything on a terminal, at which somebody types this.
pub(crate) fn answering<A: AsRef<OsStr>>(env: &TestEnvironment, args: &[A], typed: &str) -> Screen {
    let (master, slave) = pair(Typing::InLines);
    let mut command = env.command(args);
    command.env("TERM", "xterm-256color").stdin(slave.try_clone().unwrap());
    // Typed ahead: the terminal keeps it until it is read.
    (&master).write_all(typed.as_bytes()).unwrap();
    finish(command, master, slave)
}

/// Runs a prepared command on a terminal that passes every byte on as it is.
pub(crate) fn run_on_terminal(mut command: Command) -> Screen {
    let (master, slave) = pair(Typing::Raw);
    command.stdin(Stdio::null());
    finish(command, master, slave)
}

fn finish(mut command: Command, master: File, slave: File) -> Screen {
    command.stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    // The command holds copies of the terminal; only when all are closed does reading end.
    drop(command);
    let reader = std::thread::spawn(move || read_all(master));
    let status = wait(&mut child, HANG).expect("it ends by itself");
    Screen { bytes: reader.join().unwrap(), code: status.code() }
}

/// Both ends of a terminal at which somebody edits lines.
pub(crate) fn for_typing() -> (File, File) {
    let (master, slave) = pair(Typing::InLines);
    tcsetwinsize(&slave, Winsize { ws_row: 40, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (master, slave)
}

/// The mode in which a terminal hands on what is typed.
#[derive(Clone, Copy)]
enum Typing {
    /// Byte for byte.
    Raw,
    /// Line by line, with Ctrl-D for the end.
    InLines,
}

/// Both ends of a new terminal that sends every byte on as it is, and does not echo.
fn pair(typing: Typing) -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OpenptFlags::NOCTTY.bits().cast_signed());
    let slave = options.open(OsStr::from_bytes(name.as_bytes())).unwrap();
    let mut modes = tcgetattr(&slave).unwrap();
    modes.make_raw();
    if let Typing::InLines = typing {
        modes.local_modes |= LocalModes::ICANON;
    }
    tcsetattr(&slave, OptionalActions::Now, &modes).unwrap();
    (File::from(master), slave)
}

/// A terminal whose other side was closed answers with an error, not with an end.
fn read_all(mut master: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = master.read_to_end(&mut bytes);
    bytes
}
