//! Colour, and how much is said: what people set and scripts switch off.

use crate::support::terminal::{on_terminal, run_on_terminal};
use crate::support::{TestEnvironment, records};

fn store() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.append("a", "hello");
    env
}

const ESC: u8 = 0x1b;

#[test]
fn a_pipe_gets_no_colour_unless_it_is_asked_for() {
    let env = store();
    for (args, wanted) in [
        (&["show", "a"][..], false),
        (&["show", "a", "--color", "auto"], false),
        (&["show", "a", "--color", "never"], false),
        (&["show", "a", "--color", "always"], true),
    ] {
        assert_eq!(env.manent(args).stdout_bytes.contains(&ESC), wanted, "{args:?}");
    }
    let error = |color: &str| env.manent(&["show", "b", "--color", color]).stderr_bytes;
    assert!(error("always").contains(&ESC) && !error("auto").contains(&ESC));
}

#[test]
fn json_is_never_coloured() {
    let env = store();
    for args in [&["show", "a"][..], &["sessions"], &["verify"], &["repair"], &["append", "a", "x"]] {
        let output = env.manent(&[args, &["--json", "--color", "always"]].concat());
        assert!(!output.stdout_bytes.contains(&ESC), "{output}");
        serde_json::from_str::<serde_json::Value>(output.stdout().lines().next().unwrap()).unwrap();
    }
}

#[test]
fn a_terminal_gets_colour_unless_it_is_declined() {
    let env = store();
    assert!(on_terminal(&env, &["show", "a"]).bytes.contains(&ESC));
    assert!(!on_terminal(&env, &["show", "a", "--color", "never"]).bytes.contains(&ESC));
    let mut command = env.command(&["show", "a"]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    assert!(!run_on_terminal(command).bytes.contains(&ESC), "NO_COLOR");
    let mut command = env.command(&["show", "a"]);
    command.env("TERM", "dumb");
    assert!(!run_on_terminal(command).bytes.contains(&ESC), "TERM=dumb");
    let mut command = env.command(&["show", "a", "--color", "always"]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    assert!(run_on_terminal(command).bytes.contains(&ESC), "what was typed is stronger than the environment");
}

/// Found by these tests: the parser of the command line knew nothing of `--color`.
#[test]
fn a_usage_error_obeys_the_same_switches() {
    let env = store();
    assert!(on_terminal(&env, &["show"]).bytes.contains(&ESC), "colour on a terminal");
    let mut command = env.command(&["show"]);
    command.env("TERM", "xterm-256color").env("NO_COLOR", "1");
    assert!(!run_on_terminal(command).bytes.contains(&ESC), "NO_COLOR");
    assert!(!on_terminal(&env, &["--color", "never", "show"]).bytes.contains(&ESC), "--color never");
}

#[test]
fn quiet_takes_away_notes_but_neither_warnings_nor_errors_nor_what_was_asked_for() {
    let env = store();
    let torn = || {
        let mut bytes = records::session("torn", &["one", "two"]);
        bytes.truncate(bytes.len() - 30);
        env.plant("torn", bytes);
    };
    torn();
    assert!(
        env.manent(&["append", "torn", "x"]).stderr().contains("note: the end of torn was torn by a crash")
    );
    torn();
    let output = env.manent(&["append", "torn", "x", "-q"]);
    assert_eq!((output.stdout(), output.stderr()), ("torn 2\n".to_owned(), String::new()));

    torn();
    assert!(env.manent(&["show", "torn", "-q"]).stderr().starts_with("warning: torn: "));
    env.manent(&["show", "b", "--quiet"]).assert_fails(4, &["there is no session"]);
    let empty = TestEnvironment::new();
    assert_eq!(empty.manent(&["sessions", "-q"]).stderr(), "");
}

#[test]
fn verbose_says_more() {
    let env = store();
    let (plain, verbose) = (env.manent(&["repair"]), env.manent(&["repair", "-v"]));
    assert_eq!(plain.stdout(), verbose.stdout());
    assert_eq!(plain.stderr(), "");
    assert!(verbose.stderr().starts_with("note: "), "{verbose}");
    assert_eq!(env.manent(&["repair", "-v", "-q"]).stderr(), "", "quiet is stronger");
}

#[test]
fn people_read_ages_and_programs_read_times() {
    let env = store();
    let screen = on_terminal(&env, &["show", "a", "--color", "never"]).text();
    assert!(screen.contains("user  just now"), "{screen}");
    let piped = env.manent(&["show", "a"]).stdout();
    assert!(piped.lines().next().unwrap().ends_with('Z'), "{piped}");
}
