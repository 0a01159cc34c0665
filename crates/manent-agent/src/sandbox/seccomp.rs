//! The filter of system calls, for the keeper and everything it starts.
//!
//! Filters, of which the kernel takes the strictest answer, and of equals that of the last: one says which calls exist
//! at all (`syscalls.rs`), under Landlock others which have no effect, and the last refuses some by their arguments.
//! None of them can be taken off again.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::Isolation;
use super::policy::Network;
use super::syscalls::{ALLOWED, ALLOWED_OLD, ATTRIBUTES, REFUSED, REFUSED_OLD, WITHOUT_EFFECT};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Built<T> = Result<T, seccompiler::BackendError>;

/// Puts the filters on this thread and all that comes from it. Sets `no_new_privs` too.
pub(super) fn install(kind: Isolation, network: Network) -> Result<(), String> {
    let program = |rules, otherwise, matched| -> Result<BpfProgram, String> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)
            .map_err(|_| format!("there is no filter for {}", std::env::consts::ARCH))?;
        let filter = SeccompFilter::new(rules, otherwise, matched, arch);
        filter.and_then(TryInto::try_into).map_err(|e| format!("the filter cannot be built: {e}"))
    };
    let exists = ALLOWED.iter().chain(ALLOWED_OLD).chain(REFUSED).chain(REFUSED_OLD);
    let exists = exists.map(|call| (*call, Vec::new())).collect();
    // "No such call" makes libraries try an older one, as they would on an older kernel.
    let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let refused = refused(kind, network).map_err(|e| format!("the filter cannot be built: {e}"))?;
    let mut programs = vec![program(exists, absent, SeccompAction::Allow)?];
    if kind == Isolation::Landlock {
        for (calls, answer) in [(WITHOUT_EFFECT, 0), (ATTRIBUTES, libc::EOPNOTSUPP)] {
            let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
            let answer = SeccompAction::Errno(answer.unsigned_abs());
            programs.push(program(rules, SeccompAction::Allow, answer)?);
        }
    }
    programs.push(program(refused, SeccompAction::Allow, refuse)?);
    for program in &programs {
        seccompiler::apply_filter(program).map_err(|e| format!("the kernel takes no filter: {e}"))?;
    }
    Ok(())
}

/// Returns the rules for system calls that exist but are refused, some of them by their arguments.
fn refused(kind: Isolation, network: Network) -> Built<Rules> {
    let mut rules: Rules = REFUSED.iter().chain(REFUSED_OLD).map(|call| (*call, Vec::new())).collect();
    namespaces(&mut rules)?;
    sockets(&mut rules, kind, network)?;
    terminals(&mut rules)?;
    setuid_files(&mut rules)?;
    // Any other personality switches off what the kernel does against exploits.
    let known = [0, 0x0008, 0x0002_0000, 0x0002_0008, 0xffff_ffff];
    let other = known.iter().map(|value| condition(0, SeccompCmpOp::Ne, *value)).collect::<Built<_>>()?;
    rules.insert(libc::SYS_personality, vec![SeccompRule::new(other)?]);
    if kind == Isolation::Landlock {
        unseen_by_landlock(&mut rules)?;
    }
    Ok(rules)
}

/// No new name spaces. `clone3` hides its flags in memory, so it does not exist at all.
fn namespaces(rules: &mut Rules) -> Built<()> {
    let flags = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ];
    for flag in flags {
        refuse_if(rules, libc::SYS_clone, &[(0, has(flag.unsigned_abs().into()))])?;
    }
    Ok(())
}

/// Restricts the kinds of sockets. Sockets with a name on this machine are always refused: whoever listens there is
/// outside of the sandbox, or might be. Connected pairs behave like pipes and are allowed, except datagram pairs, which
/// can be redirected afterwards.
fn sockets(rules: &mut Rules, kind: Isolation, network: Network) -> Built<()> {
    let own_network = kind == Isolation::Bubblewrap;
    if network == Network::Allowed || own_network {
        let internet = [libc::AF_INET, libc::AF_INET6]
            .map(|family| condition(0, SeccompCmpOp::Ne, family.unsigned_abs().into()));
        let other = internet.into_iter().collect::<Built<_>>()?;
        rules.insert(libc::SYS_socket, vec![SeccompRule::new(other)?]);
        for kind in (0..16).filter(|kind| ![libc::SOCK_STREAM, libc::SOCK_DGRAM].contains(kind)) {
            refuse_if(rules, libc::SYS_socket, &[(1, masked(0xf, kind.unsigned_abs().into()))])?;
        }
    } else {
        for call in [libc::SYS_socket, libc::SYS_connect, libc::SYS_bind, libc::SYS_listen] {
            rules.insert(call, Vec::new());
        }
    }
    let not_local = (SeccompCmpOp::Ne, libc::AF_UNIX.unsigned_abs().into());
    refuse_if(rules, libc::SYS_socketpair, &[(0, not_local)])?;
    for kind in (0..16).filter(|kind| ![libc::SOCK_STREAM, libc::SOCK_SEQPACKET].contains(kind)) {
        refuse_if(rules, libc::SYS_socketpair, &[(1, masked(0xf, kind.unsigned_abs().into()))])?;
    }
    Ok(())
}

/// Refuses to type into a terminal on behalf of its user.
fn terminals(rules: &mut Rules) -> Built<()> {
    for request in [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSETD, libc::TIOCSCTTY] {
        refuse_if(rules, libc::SYS_ioctl, &[(1, (SeccompCmpOp::Eq, request))])?;
    }
    Ok(())
}

/// No file that gives its starter the rights of whoever made it: it would outlive the sandbox.
fn setuid_files(rules: &mut Rules) -> Built<()> {
    for bit in [libc::S_ISUID, libc::S_ISGID].map(u64::from) {
        for (call, mode) in [(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (libc::SYS_mknodat, 2)] {
            refuse_if(rules, call, &[(mode, has(bit))])?;
        }
        for making in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
            // Without these flags, nobody says what stands where the mode would.
            let flags = has(making.unsigned_abs().into());
            refuse_if(rules, libc::SYS_openat, &[(2, flags), (3, has(bit))])?;
            #[cfg(target_arch = "x86_64")]
            refuse_if(rules, libc::SYS_open, &[(1, has(making.unsigned_abs().into())), (2, has(bit))])?;
        }
        #[cfg(target_arch = "x86_64")]
        for (call, mode) in
            [(libc::SYS_chmod, 1), (libc::SYS_fchmodat2, 2), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)]
        {
            refuse_if(rules, call, &[(mode, has(bit))])?;
        }
    }
    Ok(())
}

/// Refuses what a name space would keep away from other processes and Landlock does not control.
fn unseen_by_landlock(rules: &mut Rules) -> Built<()> {
    // Who is told of changes in a directory learns names in it.
    rules.insert(libc::SYS_inotify_add_watch, Vec::new());
    // Flags of files (immutable, append-only), which need only a file that is open for reading.
    for request in [0x4008_6602, 0x4004_6602, 0x401c_5820, 0x4008_7602, 0x4004_7602] {
        refuse_if(rules, libc::SYS_ioctl, &[(1, (SeccompCmpOp::Eq, request))])?;
    }
    // Limits, priority and place of other processes of the same user: 0 is whoever asks. A limit can kill.
    let other = (SeccompCmpOp::Ne, 0);
    for (call, argument) in [
        (libc::SYS_prlimit64, 0),
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_sched_setattr, 0),
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
    ] {
        refuse_if(rules, call, &[(argument, other.clone())])?;
    }
    // And those that name all processes of a user.
    refuse_if(rules, libc::SYS_setpriority, &[(0, (SeccompCmpOp::Eq, 2))])?;
    refuse_if(rules, libc::SYS_ioprio_set, &[(0, (SeccompCmpOp::Eq, 3))])
}

/// Refuses a call if all of these hold for its arguments.
fn refuse_if(rules: &mut Rules, call: i64, all: &[(u8, (SeccompCmpOp, u64))]) -> Built<()> {
    let conditions = all.iter().map(|(argument, (how, value))| condition(*argument, how.clone(), *value));
    let rule = SeccompRule::new(conditions.collect::<Built<_>>()?)?;
    match rules.get_mut(&call) {
        // Refused whatever its arguments are; a rule would make that less.
        Some(always) if always.is_empty() => {}
        Some(some) => some.push(rule),
        None => drop(rules.insert(call, vec![rule])),
    }
    Ok(())
}

/// The arguments compared here are all of 32 bits; the kernel does not look at the rest either.
fn condition(argument: u8, how: SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)
}

fn has(bit: u64) -> (SeccompCmpOp, u64) {
    masked(bit, bit)
}

fn masked(mask: u64, value: u64) -> (SeccompCmpOp, u64) {
    (SeccompCmpOp::MaskedEq(mask), value)
}
