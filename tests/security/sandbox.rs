//! The sandbox from outside: `manent sandbox` finds one, and `manent sandbox selftest` does not get out of it; as root
//! and as an ordinary user, in every kind that works on this machine.

use serde_json::Value;

use crate::support::{Output, TestEnvironment, machine};

const KINDS: [(&str, &str); 2] = [("bubblewrap", "bwrap"), ("landlock", "landlock")];

/// Attempts that must work without a sandbox, so that their failure in it means something.
const WORKS_OUTSIDE: [&str; 12] = [
    "write outside",
    "chmod outside",
    "hard link in",
    "rename the workspace",
    "read ~/.ssh",
    "read the store",
    "TCP connect",
    "UDP send",
    "abstract Unix socket",
    "pathname Unix socket",
    "signal a process",
    "files left open",
];

#[test]
fn no_attempt_gets_out_of_the_sandbox() {
    let env = TestEnvironment::new();
    let test = if machine::is_root() { "as root" } else { "as this user" };
    hold(test, &|args| env.manent(args));
}

#[test]
fn no_attempt_of_an_ordinary_user_gets_out_of_the_sandbox() {
    let Some(nobody) = machine::Nobody::new() else {
        return machine::skip(
            "no_attempt_of_an_ordinary_user_gets_out_of_the_sandbox",
            "we cannot become another user",
        );
    };
    hold("as an ordinary user", &|args| nobody.manent(args));
}

/// Runs the selftest in every kind that works.
fn hold(who: &str, manent: &dyn Fn(&[&str]) -> Output) {
    let probed = json_lines(&manent(&["sandbox", "--json"]));
    for (kind, option) in KINDS {
        let found = probed.iter().find(|line| line["kind"] == kind).expect("every kind is told of");
        if found["works"] != true {
            machine::skip(
                &format!("the selftest of {kind} {who}"),
                found["found"].as_str().unwrap_or_default(),
            );
            let refused = manent(&["sandbox", "selftest", "--kind", option]);
            refused.assert_fails(1, &["does not work here"]);
            continue;
        }
        let output = manent(&["sandbox", "selftest", "--kind", option, "--json"]);
        let lines = json_lines(&output);
        let (total, trials) = lines.split_last().expect("a line for each attempt, and one for all");
        for trial in trials {
            assert_eq!(trial["verdict"], "held", "{who}, in {kind}: {trial}");
        }
        for name in WORKS_OUTSIDE {
            let trial = trials.iter().find(|trial| trial["attempt"] == name).expect("it was tried");
            assert_eq!(trial["outside"], "works", "{who}, in {kind}: {trial}");
        }
        assert!(trials.len() >= 50, "{output}");
        assert_eq!((total["escaped"].as_u64(), total["skipped"].as_u64()), (Some(0), Some(0)), "{total}");
        output.assert_code(0);
    }
}

fn json_lines(output: &Output) -> Vec<Value> {
    output.stdout().lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Takes away what each kind rests on.
const NO_BUBBLEWRAP: &str = "inject=pivot_root:error=EPERM";
const NO_LANDLOCK: &str = "inject=landlock_create_ruleset:error=EOPNOTSUPP";
const STRACE: [&str; 7] =
    ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pivot_root,landlock_create_ruleset"];

/// Without a working sandbox no command is run, and the error says what to do.
#[test]
fn without_a_sandbox_nothing_is_run() {
    if !machine::can_trace() {
        return machine::skip("without_a_sandbox_nothing_is_run", "strace cannot trace here");
    }
    let env = TestEnvironment::new();
    let strace = |faults: &[&'static str], args: &[&str]| {
        let faults = faults.iter().flat_map(|fault| ["-e", fault]);
        let wrapper: Vec<&str> = STRACE.into_iter().chain(faults).collect();
        env.manent_under(&wrapper, args)
    };
    let nothing = [NO_BUBBLEWRAP, NO_LANDLOCK];
    for args in [&["sandbox"][..], &["sandbox", "selftest"]] {
        let words = ["no sandbox works", "no command is run", "apt-get install bubblewrap", "Linux 6.12"];
        strace(&nothing, args).assert_fails(1, &words);
    }
    strace(&nothing, &["sandbox", "selftest", "--kind", "landlock"]).assert_fails(1, &["does not work here"]);
    let landlock_works = json_lines(&env.manent(&["sandbox", "--json"]))[1]["works"] == true;
    if landlock_works {
        let probed = json_lines(&strace(&nothing[..1], &["sandbox", "--json"]));
        assert_eq!((&probed[0]["used"], &probed[1]["used"]), (&Value::Bool(false), &Value::Bool(true)));
    }
}

#[test]
fn the_way_in_is_not_for_people() {
    let env = TestEnvironment::new();
    for args in
        [&["__sandbox"][..], &["__sandbox", "keep"], &["__sandbox", "become", "{}"], &["__sandbox", "x"]]
    {
        let mut command = std::process::Command::new(crate::support::MANENT);
        env.clean(&mut command);
        command.args(args);
        let output = env.output(command, b"");
        output.assert_code(125);
        assert!(output.stdout_bytes.is_empty() && !output.stderr_bytes.is_empty(), "{output}");
    }
}
