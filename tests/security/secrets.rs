//! Acceptance list 62: what stands in a damaged line may be a secret. Its place and length are told, its content never.

use crate::support::{TestEnvironment, records};

const SECRET: &str = "sk-live-4242424242424242";

#[track_caller]
fn assert_silent(env: &TestEnvironment, args: &[&str], input: &str) {
    for verbosity in ["-v", "--json", "--color=always"] {
        let output = env.manent_given(&[args, &[verbosity]].concat(), input);
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout_bytes), output.stderr());
        assert!(!said.contains("sk-live"), "{args:?} {verbosity} told the secret: {said}");
        assert!(!said.contains("4242"), "{args:?} {verbosity} told a part of the secret: {said}");
    }
}

#[test]
fn a_damaged_line_is_never_quoted() {
    let whole = records::turn(2, SECRET);
    let at = whole.find(SECRET).unwrap();
    let hurt: [(&str, Vec<u8>); 7] = [
        ("a wrong checksum", whole.replacen("user", "used", 1).into_bytes()),
        ("cut in the secret", whole.as_bytes()[..at + 20].to_vec()),
        ("no JSON", format!("password={SECRET}").into_bytes()),
        ("not UTF-8", [&whole.as_bytes()[..at], b"\xff", &whole.as_bytes()[at..]].concat()),
        ("NULs", [&whole.as_bytes()[..at], b"\0\0", &whole.as_bytes()[at..]].concat()),
        ("half marked", format!(r#"{{"seq":2,"role":"user","content":"{SECRET}"}}"#).into_bytes()),
        ("not an object", format!(r#"["{SECRET}"]"#).into_bytes()),
    ];
    for (what, line) in hurt {
        for behind in [records::file(&[records::turn(3, "three")]), vec![]] {
            let env = TestEnvironment::new();
            let plant = || {
                env.plant(
                    "a",
                    [records::session("a", &["one"]), records::file(&[&line]), behind.clone()].concat(),
                )
            };
            for args in [
                &["show", "a"][..],
                &["show", "a", "--tail", "5"],
                &["sessions"],
                &["search", "live"],
                &["search", "one", "role:user"],
                &["stats"],
                &["doctor"],
                &["verify"],
                &["repair"],
                &["append", "a", "x"],
            ] {
                plant();
                assert_silent(&env, args, "");
            }
            plant();
            assert_eq!(env.verify("a").1, 3, "{what}: it is named all the same");
        }
    }
}

#[test]
fn a_refused_line_of_input_is_never_quoted() {
    let env = TestEnvironment::new();
    for line in [
        format!(r#"{{"role":"user","content":"{SECRET}""#),
        format!(r#"{{"role":"user","content":"{SECRET}","content":"{SECRET}"}}"#),
        format!(r#"{{"role":"user","content":["{SECRET}"]}}"#),
        format!(r#"{{"role":{{"token":"{SECRET}"}},"content":""}}"#),
        format!(r#"{{"content":"{SECRET}"}}"#),
        format!(r#"{{"role":"user","content":"{SECRET}\ud800"}}"#),
        format!(r#"{{"meta":"{SECRET}","role":"user"}}"#),
        format!(r#""{SECRET}""#),
        format!("token: {SECRET}"),
    ] {
        assert_silent(&env, &["append", "a", "--jsonl"], &line);
    }
}

#[test]
fn no_error_repeats_what_was_to_be_appended() {
    let env = TestEnvironment::new();
    env.append("a", "one");
    assert_silent(&env, &["append", "a", SECRET, "--expect-seq", "7"], "");
    let _holder = crate::support::Stream::hold(&env, "b");
    assert_silent(&env, &["append", "b", SECRET, "--wait", "0s"], "");
    env.plant("c", [0x1f, 0x8b]);
    assert_silent(&env, &["append", "c", SECRET], "");
}
