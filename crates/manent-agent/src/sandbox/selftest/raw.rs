//! System calls for which nobody has a safe function, made by an interpreter that takes any number.

use std::ffi::OsString;

use super::super::Sandbox;
use super::super::error::SandboxError;
use super::super::run::CommandLine;
use super::stage::TestStage;
use super::{Control, EscapeTrial, TrialResult, attempts, control, has, inside};

/// A system call with its arguments.
pub(super) struct SystemCall {
    attempt: &'static str,
    number: i64,
    arguments: &'static [Argument],
}

/// An argument.
#[derive(Clone, Copy)]
enum Argument {
    Number(i64),
    /// The number of the process that was planted.
    Victim,
    /// So many zeros, by their address.
    Zeros(usize),
}

use Argument::{Number, Victim, Zeros};

pub(super) const ALL: &[SystemCall] = &[
    SystemCall { attempt: "ptrace a process", number: libc::SYS_ptrace, arguments: &[Number(16), Victim] },
    SystemCall {
        attempt: "process_vm_readv",
        number: libc::SYS_process_vm_readv,
        arguments: &[Victim, Zeros(16), Number(0), Zeros(16), Number(0), Number(0)],
    },
    SystemCall {
        attempt: "io_uring_setup",
        number: libc::SYS_io_uring_setup,
        arguments: &[Number(1), Zeros(120)],
    },
    SystemCall {
        attempt: "user name space",
        number: libc::SYS_unshare,
        arguments: &[Number(libc::CLONE_NEWUSER as i64)],
    },
    SystemCall {
        attempt: "keyctl",
        number: libc::SYS_keyctl,
        arguments: &[Number(0), Number(-3), Number(0)],
    },
    SystemCall { attempt: "bpf", number: libc::SYS_bpf, arguments: &[Number(0), Zeros(72), Number(72)] },
    SystemCall {
        attempt: "perf_event_open",
        number: libc::SYS_perf_event_open,
        arguments: &[Zeros(128), Number(0), Number(-1), Number(-1), Number(0)],
    },
    SystemCall {
        attempt: "memory without a limit",
        number: libc::SYS_memfd_create,
        arguments: &[Zeros(1), Number(0)],
    },
    SystemCall {
        attempt: "System V memory",
        // Asks only how much there is, and leaves nothing behind.
        number: libc::SYS_shmctl,
        arguments: &[Number(0), Number(3), Zeros(256)],
    },
    SystemCall {
        attempt: "TIOCSTI",
        number: libc::SYS_ioctl,
        arguments: &[Number(0), Number(libc::TIOCSTI.cast_signed()), Zeros(1)],
    },
    SystemCall {
        attempt: "vsock",
        number: libc::SYS_socket,
        arguments: &[Number(libc::AF_VSOCK as i64), Number(libc::SOCK_STREAM as i64), Number(0)],
    },
    SystemCall {
        attempt: "netlink",
        number: libc::SYS_socket,
        arguments: &[Number(libc::AF_NETLINK as i64), Number(libc::SOCK_RAW as i64), Number(0)],
    },
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
    let (attempt, expected) = (call.attempt, "refused");
    let Some((program, option, script)) = interpreter.into_iter().find(|(program, ..)| has(program)) else {
        let got = "neither perl nor python3 is in /usr/bin; install one".to_owned();
        return Ok(EscapeTrial {
            attempt,
            expected,
            got,
            control: Control::NotTried,
            verdict: TrialResult::Skipped,
        });
    };
    let words = |stage: &TestStage| -> Vec<OsString> {
        let mut words = vec![program.into(), option.into(), script.into()];
        words.push(attempts::REFUSED.to_string().into());
        words.push(call.number.to_string().into());
        words.extend(call.arguments.iter().map(|argument| {
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
    let (policy, line) = (stage.policy(&sandbox.helper), CommandLine::Program(words(&stage)));
    let (got, verdict) = inside(sandbox, &policy, &line, &mut stage)?;
    Ok(EscapeTrial { attempt, expected, got, control, verdict })
}
