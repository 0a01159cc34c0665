//! Commands in each kind of sandbox that works on this machine, run as an agent would run them.
//!
//! Whether the sandbox holds is asked by the selftest (`tests/security/sandbox.rs` at the root); here is what a command
//! can do, what its outcome says, and that nothing is left of it.

#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "the tests look at files as any other program does: they are not what is simulated"
)]
#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod repositories;

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use manent_agent::sandbox::{
    CommandEnd, CommandOutcome, Isolation, Limit, Network, NewEntries, OutputStreams, Sandbox,
    SandboxCommand, SandboxError, SandboxPolicy, StopFlag,
};

/// The example, which is built with the tests: a program that calls `enter_if_asked`.
fn helper() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join("examples/sandboxed")
}

/// A sandbox with a place to work in.
struct Place {
    sandbox: Sandbox,
    root: tempfile::TempDir,
}

impl Place {
    fn policy(&self) -> SandboxPolicy {
        let mut policy = SandboxPolicy::new(self.root.path().join("work"), self.root.path().join("store"));
        policy.home = Some(self.root.path().to_owned());
        policy
    }

    fn run_with(&self, policy: &SandboxPolicy, line: &str) -> CommandOutcome {
        self.sandbox.run(policy, &SandboxCommand::Shell(line.to_owned()), &StopFlag::new().unwrap()).unwrap()
    }

    fn run(&self, line: &str) -> CommandOutcome {
        self.run_with(&self.policy(), line)
    }

    fn store(&self) -> PathBuf {
        self.root.path().join("store")
    }

    fn work(&self, name: &str) -> PathBuf {
        self.root.path().join("work").join(name)
    }
}

/// Every kind that works here; what does not is said, around the harness, which would keep it to itself.
fn each(test: &str, check: impl Fn(&Place)) {
    for kind in Isolation::ALL {
        match Sandbox::probe_with(kind, &helper()) {
            Ok(sandbox) => {
                let root = tempfile::tempdir().unwrap();
                std::fs::create_dir(root.path().join("work")).unwrap();
                std::fs::create_dir(root.path().join("store")).unwrap();
                check(&Place { sandbox, root });
            }
            Err(e) => {
                assert!(std::env::var_os("MANENT_NO_SKIP").is_none(), "{test} may not be skipped, but {e}");
                let _ = writeln!(std::io::stderr(), "\nSKIPPED {test}: {e}");
            }
        }
    }
}

#[test]
fn a_command_works_in_its_workspace_and_says_how_it_ended() {
    each("a_command_works_in_its_workspace_and_says_how_it_ended", |place| {
        let outcome = place.run("pwd; echo hello > made; mkdir -p a/b; mv made a/b; cat a/b/made; exit 7");
        assert_eq!(outcome.ending, CommandEnd::Exit(7));
        let text = outcome.stdout.text();
        assert_eq!(text, format!("{}\nhello\n", place.work("").canonicalize().unwrap().display()));
        assert_eq!(std::fs::read(place.work("a/b/made")).unwrap(), b"hello\n");
        assert!(outcome.sandbox.starts_with(&place.sandbox.kind().to_string()), "{}", outcome.sandbox);
        assert_eq!(place.run("kill -SEGV $$").ending, CommandEnd::Signal(11));
        let found = SandboxCommand::Program(vec!["no-such-program".into()]);
        let outcome = place.sandbox.run(&place.policy(), &found, &StopFlag::new().unwrap()).unwrap();
        assert_eq!(outcome.ending, CommandEnd::Exit(127));
        assert!(outcome.stdout.text().contains("no-such-program cannot be started"));
    });
}

#[test]
fn common_tools_work_inside() {
    each("common_tools_work_inside", |place| {
        let line = "set -e; git init -q .; echo x > f; git add f; \
                    git -c user.name=a -c user.email=a@b commit -qm first; git log --oneline | wc -l; \
                    seq 1 3 | sort -r | head -1; cat <(echo substituted); mktemp > /dev/null; \
                    (echo a; echo b) | xargs -n1 echo got; test -w ~; find . -name f; \
                    mkdir -p d/e; cp -p f d; mv d/f d/e; ln d/e/f g; tar cf t.tar d; tar xf t.tar; touch f; \
                    python3 -c 'import subprocess; print(subprocess.check_output([\"echo\", \"py\"]))'";
        let policy = SandboxPolicy { new_entries: NewEntries::Allowed, ..place.policy() };
        let outcome = place.run_with(&policy, line);
        assert_eq!(outcome.ending, CommandEnd::Exit(0), "{}", outcome.stdout.text());
        assert_eq!(outcome.stdout.text(), "1\n3\nsubstituted\ngot a\ngot b\n./f\nb'py\\n'\n");
    });
}

#[test]
fn streams_come_merged_in_order_or_apart() {
    each("streams_come_merged_in_order_or_apart", |place| {
        let line = "echo one; echo two >&2; echo three";
        let merged = place.run(line);
        assert_eq!((merged.stdout.text().as_str(), merged.stderr.text().as_str()), ("one\ntwo\nthree\n", ""));
        let apart = place.run_with(&SandboxPolicy { streams: OutputStreams::Apart, ..place.policy() }, line);
        assert_eq!((apart.stdout.text().as_str(), apart.stderr.text().as_str()), ("one\nthree\n", "two\n"));
    });
}

#[test]
fn of_much_output_the_end_is_kept_and_the_rest_counted() {
    each("of_much_output_the_end_is_kept_and_the_rest_counted", |place| {
        let mut policy = place.policy();
        policy.limits.output_bytes = 4000;
        let outcome = place.run_with(&policy, "seq 1 2000000");
        assert_eq!(outcome.ending, CommandEnd::Exit(0));
        let text = outcome.stdout.text();
        assert!(text.starts_with("1\n2\n3\n") && text.ends_with("\n1999999\n2000000\n"), "{text}");
        let all: u64 = (1..=2_000_000_u64).map(|n| n.to_string().len() as u64 + 1).sum();
        assert_eq!(outcome.stdout.cut_bytes, all - 4000);
        assert!(text.len() < 4100, "{}", text.len());
    });
}

#[test]
fn the_store_is_hidden_wherever_it_is() {
    each("the_store_is_hidden_wherever_it_is", |place| {
        let store = place.work("deep/store");
        std::fs::create_dir_all(&store).unwrap();
        std::fs::write(store.join("log"), "secret").unwrap();
        let policy = SandboxPolicy { store: store.clone(), ..place.policy() };
        if place.sandbox.kind() == Isolation::Landlock {
            let line = SandboxCommand::Shell("true".to_owned());
            let refused = place.sandbox.run(&policy, &line, &StopFlag::new().unwrap()).unwrap_err();
            assert!(matches!(refused, SandboxError::Refused { .. }), "{refused}");
            assert!(refused.to_string().contains("install bubblewrap"), "{refused}");
            return;
        }
        let line = "cat deep/store/log; ls deep/store; mv deep aside; mv deep/store aside; echo x > deep/store/y; \
                    echo free > deep/free; grep -rs secret . ; true";
        let outcome = place.run_with(&policy, line);
        assert!(!outcome.stdout.text().contains("secret"), "{}", outcome.stdout.text());
        assert_eq!(std::fs::read(store.join("log")).unwrap(), b"secret", "it is where it was");
        assert!(!store.join("y").exists() && place.work("deep/free").exists());
    });
}

#[test]
fn a_place_that_is_no_workspace_is_refused() {
    each("a_place_that_is_no_workspace_is_refused", |place| {
        let inside_store = place.root.path().join("store/in");
        std::fs::create_dir(&inside_store).unwrap();
        std::fs::write(place.work("file"), "").unwrap();
        std::os::unix::fs::symlink("/usr/lib", place.work("link")).unwrap();
        let (root, usr) = (PathBuf::from("/"), PathBuf::from("/usr/share"));
        for workspace in [
            root,
            usr,
            inside_store,
            place.work("file"),
            place.work("link"),
            place.work("gone"),
            "/run".into(),
        ] {
            let policy = SandboxPolicy { workspace: workspace.clone(), ..place.policy() };
            let line = SandboxCommand::Shell("true".to_owned());
            let run = place.sandbox.run(&policy, &line, &StopFlag::new().unwrap());
            let refused = run.expect_err(&workspace.display().to_string());
            assert!(matches!(refused, SandboxError::Refused { .. } | SandboxError::Path { .. }), "{refused}");
        }
        for line in [
            SandboxCommand::Program(Vec::new()),
            SandboxCommand::Shell("x".repeat(200_000)),
            SandboxCommand::Shell("a\0b".to_owned()),
        ] {
            let run = place.sandbox.run(&place.policy(), &line, &StopFlag::new().unwrap());
            assert!(matches!(run, Err(SandboxError::Command(_))), "{run:?}");
        }
    });
}

#[test]
fn the_network_is_there_only_if_it_is_allowed() {
    each("the_network_is_there_only_if_it_is_allowed", |place| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = format!("exec 3<> /dev/tcp/127.0.0.1/{port} && echo connected");
        assert_ne!(place.run(&line).ending, CommandEnd::Exit(0));
        let allowed = SandboxPolicy { network: Network::Allowed, ..place.policy() };
        let outcome = place.run_with(&allowed, &line);
        assert_eq!(outcome.stdout.text(), "connected\n", "{}", outcome.ending);
    });
}

#[test]
fn what_was_allowed_of_the_environment_is_there_and_nothing_else() {
    each("what_was_allowed_of_the_environment_is_there_and_nothing_else", |place| {
        let mut policy = place.policy();
        // Cargo sets these for its tests.
        policy.environment.push("CARGO_PKG_NAME".to_owned());
        assert!(std::env::var_os("CARGO_PKG_VERSION").is_some());
        let outcome =
            place.run_with(&policy, "echo ${CARGO_PKG_NAME-no} ${CARGO_PKG_VERSION-no}; test -d \"$HOME\"");
        assert_eq!(outcome.stdout.text(), "manent-agent no\n");
        assert_eq!(outcome.ending, CommandEnd::Exit(0), "a home of its own");
    });
}

#[test]
fn limits_end_a_command_and_say_which_it_was() {
    each("limits_end_a_command_and_say_which_it_was", |place| {
        let with = |change: &dyn Fn(&mut SandboxPolicy), line: &str| {
            let mut policy = place.policy();
            change(&mut policy);
            place.run_with(&policy, line).ending
        };
        let many =
            with(&|policy| policy.limits.processes = 10, "for i in $(seq 30); do sleep 20 & done; wait");
        assert_eq!(many, CommandEnd::Limit(Limit::Processes));
        let large = with(&|policy| policy.limits.file_bytes = 1000, "exec head -c 5000 /dev/zero > large");
        assert_eq!(large, CommandEnd::Limit(Limit::FileSize));
        assert_eq!(std::fs::metadata(place.work("large")).unwrap().len(), 1000);
        let busy = with(&|policy| policy.limits.cpu_seconds = 1, "while :; do :; done");
        assert_eq!(busy, CommandEnd::Limit(Limit::Cpu));
        let long = with(&|policy| policy.limits.wall = Duration::from_millis(300), "sleep 60");
        assert_eq!(long, CommandEnd::Timeout);
        let narrow = |policy: &mut SandboxPolicy| policy.limits.address_space_bytes = Some(64 << 20);
        assert_eq!(
            with(&narrow, "head -c 200M /dev/zero | tail > /dev/null"),
            CommandEnd::Exit(1),
            "out of memory"
        );
    });
}

#[test]
fn a_command_can_be_stopped_from_elsewhere_and_by_dropping() {
    each("a_command_can_be_stopped_from_elsewhere_and_by_dropping", |place| {
        let stop = StopFlag::new().unwrap();
        let guard = stop.on_drop();
        let begun = Instant::now();
        let outcome = std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                place.sandbox.run(
                    &place.policy(),
                    &SandboxCommand::Shell("echo up; sleep 60".to_owned()),
                    &stop,
                )
            });
            std::thread::sleep(Duration::from_millis(300));
            drop(guard);
            run.join().unwrap().unwrap()
        });
        assert_eq!(outcome.ending, CommandEnd::Stopped);
        assert!(begun.elapsed() < Duration::from_secs(50), "it did not run to its end");
    });
}

/// An agent that is killed leaves no command behind.
#[test]
fn nothing_outlives_a_killed_agent() {
    each("nothing_outlives_a_killed_agent", |place| {
        let marker = format!("marker-{}-{}", std::process::id(), place.sandbox.kind());
        let line = format!(
            "trap '' HUP TERM; echo $HOME > home; echo > up; (setsid sleep 60 &); sleep 60; : {marker}"
        );
        let mut agent = Command::new(helper());
        agent.arg(place.sandbox.kind().to_string()).args([place.work(""), place.store()]).arg(line);
        let mut agent =
            agent.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the command is up", || place.work("up").exists());
        assert!(running(&marker) > 0);
        agent.kill().unwrap();
        agent.wait().unwrap();
        wait_until("everything is gone", || running(&marker) == 0);
        let home = std::fs::read_to_string(place.work("home")).unwrap();
        let made = place.sandbox.kind() == Isolation::Landlock;
        wait_until("its home too", || !made || !Path::new(home.trim()).exists());
    });
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !done() {
        assert!(Instant::now() < deadline, "it hangs: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Counts the processes that have `marker` on their command line.
fn running(marker: &str) -> usize {
    let entries = std::fs::read_dir(Path::new("/proc")).unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(marker)).count()
}
