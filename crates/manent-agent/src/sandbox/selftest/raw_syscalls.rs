//! System calls for which nobody has a safe function, made by an interpreter that takes any number.

use std::ffi::OsString;

use super::super::Sandbox;
use super::super::error::SandboxError;
use super::super::run::SandboxCommand;
use super::stage::TestStage;
use super::{Control, EscapeTrial, TrialResult, attempts, control, has, inside};

/// The name of an attempt, the number of its system call, and the arguments.
pub(super) type SystemCall = (&'static str, i64, &'static [CallArgument]);

/// An argument.
#[derive(Clone, Copy)]
pub(super) enum CallArgument {
    Number(i64),
    /// The number of the process that was planted.
    Victim,
    /// The address of this number of zero bytes.
    Zeros(usize),
}

use CallArgument::{Number, Victim, Zeros};

pub(super) const ALL: &[SystemCall] = &[
    ("ptrace a process", libc::SYS_ptrace, &[Number(16), Victim]),
    (
        "process_vm_readv",
        libc::SYS_process_vm_readv,
        &[Victim, Zeros(16), Number(0), Zeros(16), Number(0), Number(0)],
    ),
    ("io_uring_setup", libc::SYS_io_uring_setup, &[Number(1), Zeros(120)]),
    ("user name space", libc::SYS_unshare, &[Number(libc::CLONE_NEWUSER as i64)]),
    ("keyctl", libc::SYS_keyctl, &[Number(0), Number(-3), Number(0)]),
    ("bpf", libc::SYS_bpf, &[Number(0), Zeros(72), Number(72)]),
    (
        "perf_event_open",
        libc::SYS_perf_event_open,
        &[Zeros(128), Number(0), Number(-1), Number(-1), Number(0)],
    ),
    ("memory without a limit", libc::SYS_memfd_create, &[Zeros(1), Number(0)]),
    // Asks only how much there is, and leaves nothing behind.
    ("System V memory", libc::SYS_shmctl, &[Number(0), Number(3), Zeros(256)]),
    ("TIOCSTI", libc::SYS_ioctl, &[Number(0), Number(libc::TIOCSTI.cast_signed()), Zeros(1)]),
    (
        "vsock",
        libc::SYS_socket,
        &[Number(libc::AF_VSOCK as i64), Number(libc::SOCK_STREAM as i64), Number(0)],
    ),
    (
        "netlink",
        libc::SYS_socket,
        &[Number(libc::AF_NETLINK as i64), Number(libc::SOCK_RAW as i64), Number(0)],
    ),
];

/// Both end as our own attempts do: with 0 if it worked, and with the code for "refused" if not.
const PERL: &str = r#"@a = map { /^zeros:(\d+)$/ ? "\0" x $1 : $_ + 0 } @ARGV; $code = shift @a; $n = shift @a;
$r = syscall($n, @a); if ($r == -1) { print "$!"; exit $code } print "gave $r"; exit 0"#;
const PYTHON: &str = r#"
import ctypes, os, sys
a = [ctypes.create_string_buffer(int(w[6:])) if w.startswith("zeros:") else ctypes.c_long(int(w)) for w in sys.argv[1:]]
code = a.pop(0).value
r = ctypes.CDLL(None, use_errno=True).syscall(*a)
print(os.strerror(ctypes.get_errno()) if r == -1 else "gave %d" % r, end="")
sys.exit(code if r == -1 else 0)
"#;

pub(super) fn trial(sandbox: &Sandbox, call: &SystemCall) -> Result<EscapeTrial, SandboxError> {
    let interpreter = [("/usr/bin/perl", "-e", PERL), ("/usr/bin/python3", "-c", PYTHON)];
    let (&(attempt, number, arguments), expected) = (call, "refused");
    let Some((program, option, script)) = interpreter.into_iter().find(|(program, ..)| has(program)) else {
        let got = "neither perl nor python3 is in /usr/bin; install one".to_owned();
        return Ok(EscapeTrial {
            attempt,
            expected,
            got,
            control: Control::NotTried,
            result: TrialResult::Skipped,
        });
    };
    let words = |stage: &TestStage| -> Vec<OsString> {
        let mut words = vec![program.into(), option.into(), script.into()];
        words.push(attempts::REFUSED.to_string().into());
        words.push(number.to_string().into());
        words.extend(arguments.iter().map(|argument| {
            OsString::from(match argument {
                Number(number) => number.to_string(),
                Victim => stage.targets.victim.to_string(),
                Zeros(length) => format!("zeros:{length}"),
            })
        }));
        words
    };
    let control = control(sandbox, words)?;
    let mut stage = TestStage::new()?;
    let (policy, line) = (stage.policy(&sandbox.helper), SandboxCommand::Program(words(&stage)));
    let (got, result) = inside(sandbox, &policy, &line, &mut stage)?;
    Ok(EscapeTrial { attempt, expected, got, control, result })
}
