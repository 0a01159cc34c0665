//! Which system calls a command may make at all. What is not here does not exist for it: a call that a newer kernel
//! invents is refused until somebody has looked at it.

/// Names of system calls as their numbers.
macro_rules! numbers {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// On every processor that we know.
#[rustfmt::skip]
pub(super) const ALLOWED: &[i64] = numbers! {
    // Files and directories.
    SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
    SYS_openat SYS_close SYS_close_range SYS_lseek SYS_fstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs
    SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_mkdirat SYS_mknodat SYS_unlinkat SYS_linkat SYS_symlinkat
    SYS_renameat2 SYS_readlinkat SYS_faccessat SYS_faccessat2 SYS_truncate SYS_ftruncate SYS_fallocate SYS_fadvise64
    SYS_readahead SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs SYS_copy_file_range SYS_sendfile SYS_splice SYS_tee
    SYS_vmsplice SYS_flock SYS_fcntl SYS_ioctl SYS_umask SYS_dup SYS_dup3 SYS_pipe2
    SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_utimensat
    SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr
    SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr
    SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
    SYS_io_setup SYS_io_destroy SYS_io_submit SYS_io_cancel SYS_io_getevents
    // Waiting.
    SYS_pselect6 SYS_ppoll SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2 SYS_eventfd2
    SYS_signalfd4 SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
    // Memory.
    SYS_mmap SYS_munmap SYS_mprotect SYS_mremap SYS_msync SYS_mincore SYS_madvise SYS_brk SYS_mlock SYS_mlock2
    SYS_munlock SYS_mlockall SYS_munlockall SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free SYS_mbind
    SYS_get_mempolicy SYS_set_mempolicy SYS_membarrier SYS_mseal SYS_remap_file_pages
    // Processes and threads of its own.
    SYS_clone SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid SYS_set_tid_address SYS_gettid
    SYS_futex SYS_futex_waitv SYS_set_robust_list SYS_get_robust_list SYS_rseq SYS_restart_syscall SYS_prctl
    SYS_getpid SYS_getppid SYS_getpgid SYS_setpgid SYS_getsid SYS_setsid SYS_getuid SYS_geteuid SYS_getgid
    SYS_getegid SYS_getresuid SYS_getresgid SYS_getgroups SYS_setuid SYS_setgid SYS_setreuid SYS_setregid
    SYS_setresuid SYS_setresgid SYS_setfsuid SYS_setfsgid SYS_setgroups SYS_capget SYS_capset SYS_personality
    SYS_pidfd_open SYS_prlimit64 SYS_getrusage SYS_times SYS_getpriority SYS_setpriority SYS_ioprio_get
    SYS_ioprio_set SYS_getcpu SYS_sched_yield SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_getparam
    SYS_sched_setparam SYS_sched_getscheduler SYS_sched_setscheduler SYS_sched_getattr SYS_sched_setattr
    SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval
    // Signals; that they reach nobody outside is the work of the namespace, or of Landlock.
    SYS_kill SYS_tkill SYS_tgkill SYS_pidfd_send_signal SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn
    SYS_rt_sigpending SYS_rt_sigtimedwait SYS_rt_sigsuspend SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo
    SYS_sigaltstack
    // Time and chance.
    SYS_nanosleep SYS_clock_nanosleep SYS_clock_gettime SYS_clock_getres SYS_gettimeofday SYS_getitimer
    SYS_setitimer SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete
    SYS_getrandom SYS_uname SYS_sysinfo
    // Sockets; which of them is decided by their kind.
    SYS_socket SYS_socketpair SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_getsockname
    SYS_getpeername SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg SYS_setsockopt
    SYS_getsockopt SYS_shutdown
    // What only takes more away from whoever asks.
    SYS_seccomp SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
};

/// Older forms of the same, which this processor still has.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_OLD: &[i64] = numbers! {
    SYS_open SYS_creat SYS_stat SYS_lstat SYS_access SYS_mkdir SYS_rmdir SYS_mknod SYS_link SYS_unlink SYS_symlink
    SYS_readlink SYS_rename SYS_renameat SYS_chmod SYS_fchmodat2 SYS_chown SYS_lchown SYS_utime SYS_utimes
    SYS_futimesat SYS_getdents SYS_dup2 SYS_pipe SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd
    SYS_signalfd SYS_inotify_init SYS_fork SYS_vfork SYS_getpgrp SYS_getrlimit SYS_setrlimit SYS_alarm SYS_pause
    SYS_time SYS_arch_prctl SYS_sync_file_range
};
/// `renameat`, `sync_file_range`, `getrlimit` and `setrlimit`, which libc has no names for here.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED_OLD: &[i64] = &[38, 84, 163, 164];

/// Known, and refused with "not permitted", so that whoever reads the error knows that it was us. Most of them need
/// rights that the command does not have; they stand here so that it does not hang on that alone.
#[rustfmt::skip]
pub(super) const REFUSED: &[i64] = numbers! {
    // Into other processes.
    SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise SYS_process_mrelease SYS_pidfd_getfd
    SYS_kcmp SYS_migrate_pages SYS_move_pages SYS_perf_event_open SYS_userfaultfd
    // Other name spaces, other views of the file system.
    SYS_unshare SYS_setns SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_open_tree SYS_move_mount SYS_fsopen
    SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr SYS_name_to_handle_at SYS_open_by_handle_at
    SYS_fanotify_init SYS_fanotify_mark SYS_quotactl SYS_quotactl_fd
    // Around the filter: what a ring or a program in the kernel does is not seen here.
    SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register SYS_bpf
    // Keys, and memory that no limit counts or that outlives its makers.
    SYS_add_key SYS_request_key SYS_keyctl SYS_memfd_create SYS_memfd_secret SYS_shmget SYS_shmat SYS_shmctl
    SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_semget SYS_semop SYS_semtimedop SYS_semctl SYS_mq_open
    SYS_mq_unlink
    // The machine itself.
    SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load SYS_reboot SYS_swapon
    SYS_swapoff SYS_acct SYS_syslog SYS_settimeofday SYS_clock_settime SYS_clock_adjtime SYS_adjtimex
    SYS_sethostname SYS_setdomainname SYS_vhangup
};

/// The same, where it depends on the processor.
#[cfg(target_arch = "x86_64")]
pub(super) const REFUSED_OLD: &[i64] = numbers! { SYS_iopl SYS_ioperm SYS_modify_ldt SYS_uselib };
#[cfg(not(target_arch = "x86_64"))]
pub(super) const REFUSED_OLD: &[i64] = &[];

/// Attributes of files: Landlock does not look at these, and a path cannot be seen here. So under Landlock there are
/// none, as on some file systems.
pub(super) const ATTRIBUTES: &[i64] = numbers! {
    SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_removexattr SYS_lremovexattr SYS_fremovexattr
};

/// Owners, modes and times of files, for the same reason. Under Landlock these do nothing and say that they did, as on
/// file systems that have none: an error would end every `git init`, `cp -p` and `tar x`.
#[cfg(target_arch = "x86_64")]
pub(super) const WITHOUT_EFFECT: &[i64] = numbers! {
    SYS_fchmod SYS_fchmodat SYS_fchmodat2 SYS_chmod SYS_fchown SYS_fchownat SYS_chown SYS_lchown
    SYS_utimensat SYS_utime SYS_utimes SYS_futimesat
};
#[cfg(not(target_arch = "x86_64"))]
pub(super) const WITHOUT_EFFECT: &[i64] =
    numbers! { SYS_fchmod SYS_fchmodat SYS_fchown SYS_fchownat SYS_utimensat };
