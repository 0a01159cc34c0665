//! Where the store is: as typed, as set, or where the system keeps such things; ours, or another program's.

use crate::support::TestEnvironment;

#[test]
fn the_store_is_where_it_was_typed_else_set_else_in_the_data_directory() {
    let env = TestEnvironment::new();
    let places = ["typed", "set", "xdg/manent", ".local/share/manent"];
    for (n, place) in places.iter().enumerate() {
        let mut command = std::process::Command::new(crate::support::MANENT);
        env.clean(&mut command);
        for (step, (name, value)) in [("MANENT_HOME", "set"), ("XDG_DATA_HOME", "xdg")].iter().enumerate() {
            if n <= step + 1 {
                command.env(name, env.root().join(value));
            }
        }
        if n == 0 {
            command.arg("--home").arg(env.root().join("typed"));
        }
        command.args(["append", "a", "x"]);
        env.output(command, b"").assert_code(0);
        assert!(env.root().join(place).join("sessions/a.jsonl").is_file(), "{place}");
    }
}

#[test]
fn reading_makes_no_store() {
    let env = TestEnvironment::new();
    for args in [&["show", "a"][..], &["sessions"], &["verify"], &["repair"]] {
        env.manent(args);
        assert!(!env.home().exists(), "{args:?}");
    }
}

#[test]
fn a_home_that_is_a_file_is_named() {
    let env = TestEnvironment::new();
    std::fs::write(env.home(), "not a directory").unwrap();
    for args in [&["append", "a", "x"][..], &["sessions"], &["show", "a"]] {
        let output = env.manent(args);
        output.assert_fails(1, &["/home", "Not a directory"]);
    }
}

/// Other programs keep `{"role","content"}` lines, one file a session, in a directory of their own.
#[test]
fn another_programs_directory_is_read_and_appended_to_as_it_is() {
    let env = TestEnvironment::new();
    std::fs::create_dir(env.home()).unwrap();
    crate::support::machine::set_mode(env.home(), 0o700);
    let path = env.home().join("telegram:alice.jsonl");
    let theirs = "{\"role\":\"user\",\"content\":\"hello\"}\r\n\n{\"role\":\"assistant\",\"content\":\"hi\"}";
    std::fs::write(&path, theirs).unwrap();

    let listed = env.manent(&["sessions", "--json"]).stdout();
    assert!(listed.contains(r#""key":"telegram:alice""#) && listed.contains(r#""turns":2"#), "{listed}");
    let shown = env.manent(&["show", "telegram:alice"]).stdout();
    assert!(shown.contains("    1  user    (unverified)\nhello\n"), "{shown:?}");
    let output = env.manent(&["append", "telegram:alice", "more"]);
    assert_eq!(output.stdout(), "telegram:alice 3\n");

    let after = std::fs::read_to_string(&path).unwrap();
    let added =
        after.strip_prefix(theirs).expect("their bytes stay").strip_prefix('\n').expect("a line of its own");
    assert!(
        added.starts_with(r#"{"seq":3,"ts":""#) && added.contains(r#""role":"user","content":"more""#),
        "{added}"
    );
    assert!(!after.contains("meta"), "no header is added to another program's file");
    let (report, code) = env.verify("telegram:alice");
    assert_eq!((code, &report["records"], &report["unverified"]), (0, &3.into(), &2.into()), "{report}");
    assert_eq!(crate::support::environment::names_in(env.home()), ["telegram:alice.jsonl"]);
}

/// A copy by hand lies where no key leads to. It is checked like any file, named, and left alone.
#[test]
fn a_copy_under_another_name_is_checked_and_named_and_not_repaired() {
    let env = TestEnvironment::new();
    env.append("work", "hello");
    let torn = [env.bytes("work"), b"{\"seq\":2,\"torn".to_vec()].concat();
    env.plant("copy", &torn);
    let output = env.manent(&["verify"]);
    assert!(matches!(output.code(), Some(1 | 3)), "{output}");
    assert!(
        output.stdout().contains("ok       work") && output.stdout().contains("damaged  copy"),
        "{output}"
    );
    assert!(
        output.stderr().contains("copy.jsonl says it holds the session \"work\", not \"copy\""),
        "{output}"
    );
    assert_eq!(env.manent(&["repair"]).code(), Some(1));
    assert_eq!(env.bytes("copy"), torn);
    assert_eq!(env.records("work").len(), 1, "the session itself is what its key leads to");
}

/// A session that names itself in its header is found under that name, whatever another program called the file.
#[test]
fn a_session_is_listed_under_the_name_in_its_header() {
    let env = TestEnvironment::new();
    env.append("Work/2026 Q4", "hello");
    let names = env.file_names();
    assert_eq!(names.len(), 1);
    assert!(names[0].starts_with("Work%2f2026%20Q4~"), "{names:?}");
    assert!(env.manent(&["sessions"]).stdout().contains("Work/2026 Q4"));
    assert_eq!(env.records("Work/2026 Q4").len(), 1);
}
