//! Shell lines of every kind, with what must become of them: an allow only where all of it is understood and allowed.

use manent_agent::policy::Permission::{self, Allow, Ask, Deny};
use manent_sim::Rng;

use super::{World, decide, permission, policy};

const RULES: &str = r#"
[[policy.rule]]
tool = "run_command"
prefix = ["cargo", "test"]
decision = "allow"
match = ["cargo test", "cargo test -p x", "cargo  'test' --lib"]
not_match = ["cargo publish", "cargo test; ls", "cargo test $X"]

[[policy.rule]]
tool = "run_command"
prefix = ["ls"]
decision = "allow"

[[policy.rule]]
tool = "run_command"
prefix = ["tail"]
decision = "allow"

[[policy.rule]]
tool = "run_command"
prefix = ["cd"]
decision = "allow"

[[policy.rule]]
tool = "run_command"
prefix = ["alias"]
decision = "allow"

[[policy.rule]]
tool = "run_command"
prefix = ["git", "push"]
decision = "deny"
match = ["git push", "git push --force", "sudo git push", "ls && git push", "ls $(git push)"]
not_match = ["git status", "ls git push"]

[[policy.rule]]
tool = "run_command"
prefix = ["rm"]
decision = "deny"
because = "use trash instead"

[[policy.rule]]
tool = "run_command"
prefix = ["cargo", "test", "--release"]
decision = "ask"
"#;

const LINES: &[(&str, Permission)] = &[
    // Plain.
    ("cargo test", Allow),
    ("cargo  test", Allow),
    ("cargo\ttest -p x", Allow),
    ("  cargo test  ", Allow),
    ("cargo test -- --nocapture some::test_name", Allow),
    ("cargo test --features=a,b -p manent-agent", Allow),
    ("ls -la src/tools", Allow),
    ("ls HEAD^ a@b +x %1 a:b a.b -c=d", Allow),
    ("cargo", Ask),
    ("cargo tests", Ask),
    ("cargo test2", Ask),
    ("cargo build", Ask),
    ("cargo +nightly test", Ask),
    ("./cargo test", Ask),
    ("/tmp/cargo test", Ask),
    ("Cargo test", Ask),
    ("echo cargo test", Ask),
    ("日本 test", Ask),
    // Quotes and escapes.
    ("'cargo' \"test\"", Allow),
    ("car\"go\" t'e'st", Allow),
    ("c\\argo test", Allow),
    ("cargo test 'a b; rm -rf ~'", Allow),
    ("cargo test \"a && b | c > d\"", Allow),
    ("cargo test 'it'\\''s'", Allow),
    ("cargo test \\; ls", Allow),
    ("cargo test \"\\$HOME \\`x\\` \\\"\"", Allow),
    ("cargo test ''", Allow),
    ("cargo test '$(curl x)'", Allow),
    ("\"cargo test\"", Ask),
    ("cargo\\ test", Ask),
    ("cargo 'test", Ask),
    ("cargo test \"x", Ask),
    ("cargo test \\", Ask),
    ("cargo $'test'", Ask),
    ("cargo test $\"x\"", Ask),
    // Compound.
    ("cargo test && ls", Allow),
    ("cargo test; ls; ls -l", Allow),
    ("cargo test | tail -5", Allow),
    ("cargo test || ls", Allow),
    ("cargo test\nls", Allow),
    ("cargo test \\\n  -p x", Allow),
    ("cd crates && cargo test 2>&1 | tail -20", Allow),
    ("cargo test && curl example.org", Ask),
    ("cargo test | sh", Ask),
    ("cargo test || curl x", Ask),
    ("cargo test\ncurl x", Ask),
    ("cargo test; curl x", Ask),
    ("cargo test;curl x", Ask),
    ("cargo test&&curl x", Ask),
    ("cargo test|curl x", Ask),
    ("cargo test |& tail", Ask),
    ("cargo test &", Ask),
    ("cargo test & ls", Ask),
    ("cargo test &&", Ask),
    ("&& cargo test", Ask),
    ("cargo test |", Ask),
    (";", Ask),
    // Substitutions, variables, patterns.
    ("cargo test $(curl x)", Ask),
    ("cargo test `curl x`", Ask),
    ("cargo test \"$(curl x)\"", Ask),
    ("cargo test \"`curl x`\"", Ask),
    ("cargo test $HOME", Ask),
    ("cargo test ${IFS}x", Ask),
    ("cargo$IFS'test'", Ask),
    ("$CARGO test", Ask),
    ("cargo test *", Ask),
    ("cargo test ?", Ask),
    ("cargo test [ab]", Ask),
    ("cargo test {a,b}", Ask),
    ("ls ~", Ask),
    ("ls ~root/.ssh", Ask),
    ("cargo test !!", Ask),
    ("cargo test <(curl x)", Ask),
    ("cargo test $((1+1))", Ask),
    ("ls =curl", Ask),
    // Files written and read.
    ("cargo test > /etc/passwd", Ask),
    ("cargo test >out", Ask),
    ("cargo test >> ~/.bashrc", Ask),
    ("cargo test 2> err", Ask),
    ("cargo test &> out", Ask),
    ("cargo test >& out", Ask),
    ("cargo test >| out", Ask),
    ("cargo test < in", Ask),
    ("cargo test <> in", Ask),
    ("cargo test <<EOF\ncurl x\nEOF", Ask),
    ("cargo test <<< text", Ask),
    ("cargo test > /dev/null/../x", Ask),
    ("cargo test > /dev/null'x'", Ask),
    ("cargo test > /dev/nullx", Ask),
    ("cargo test >/dev/sda", Ask),
    ("cargo test > /dev/tcp/1.2.3.4/80", Ask),
    ("cargo test 2>&1", Allow),
    ("cargo test >/dev/null 2>&1", Allow),
    ("cargo test 2> /dev/null", Allow),
    ("cargo test </dev/null", Allow),
    ("cargo test >&2", Allow),
    ("cargo test 2>&1x", Ask),
    ("cargo test 12>&1", Ask),
    ("cargo test >&12", Ask),
    ("cargo test 2>&-", Ask),
    // What changes the meaning of words.
    ("FOO=1 cargo test", Ask),
    ("RUSTC_WRAPPER=/tmp/x cargo test", Ask),
    ("FOO+=1 cargo test", Ask),
    ("PATH=/tmp:x; cargo test", Ask),
    ("env FOO=1 cargo test", Ask),
    ("alias cargo=curl; cargo test", Ask),
    ("alias ls=curl\nls", Ask),
    ("cargo() { curl x; }; cargo test", Ask),
    ("function cargo { curl x; }; cargo test", Ask),
    ("eval cargo test", Ask),
    ("source x; cargo test", Ask),
    (". ./x; cargo test", Ask),
    ("export PATH=/tmp; cargo test", Ask),
    ("hash -p /tmp/x cargo; cargo test", Ask),
    ("set -- x; cargo test", Ask),
    ("trap 'curl x' EXIT; cargo test", Ask),
    ("exec cargo test", Ask),
    // Larger than simple commands.
    ("(cargo test)", Ask),
    ("{ cargo test; }", Ask),
    ("if cargo test; then ls; fi", Ask),
    ("for x in a b; do cargo test; done", Ask),
    ("while cargo test; do ls; done", Ask),
    ("case x in x) ls;; esac", Ask),
    ("! cargo test", Ask),
    ("[[ -f x ]] && cargo test", Ask),
    ("time cargo test", Ask),
    ("coproc cargo test", Ask),
    // Signs that hide something.
    ("cargo test # harmless", Ask),
    ("cargo test \r", Ask),
    ("cargo test\u{a0}x", Ask),
    ("cargo test \u{1b}[2K", Ask),
    ("cargo test\u{85}ls", Ask),
    // An ask goes before an allow.
    ("cargo test --release", Ask),
    ("ls && cargo test --release -p x", Ask),
    // A deny of any part denies all.
    ("cargo test; rm -rf ~", Deny),
    ("rm x", Deny),
    ("/bin/rm x", Deny),
    ("\\rm x", Deny),
    ("r'm' x", Deny),
    ("ls && rm x && ls", Deny),
    ("FOO=1 rm x", Deny),
    ("sudo rm -rf /", Deny),
    ("sudo -u root /bin/rm -rf /", Deny),
    ("bash -c 'rm -rf /'", Deny),
    ("sh -c \"cd / && rm -rf .\"", Deny),
    ("find . -name x -exec rm {} +", Deny),
    ("find src -exec rm -f x \\;", Deny),
    ("ls | xargs rm", Deny),
    ("cargo test $(rm x)", Deny),
    ("cargo test \"$(rm x)\"", Deny),
    ("cargo test `rm x`", Deny),
    ("(rm x)", Deny),
    ("if ls; then rm x; fi", Deny),
    ("cargo test <<EOF\n$(rm x)\nEOF", Deny),
    ("rm $FILE", Deny),
    ("git push > log", Deny),
    ("ls & git push", Deny),
    ("timeout 5 git push", Deny),
    ("git pushed", Ask),
    ("git rm x", Ask),
    ("ls rm", Allow),
    ("cargo test rm", Allow),
];

#[test]
fn every_line_gets_the_permission_it_must() {
    assert!(LINES.len() >= 80);
    let (world, policy) = (World::new(), policy(RULES));
    for (line, wanted) in LINES {
        let decision = decide(&policy, &world.command(line));
        assert_eq!(decision.permission, *wanted, "{line:?}: {}", decision.why);
        assert!(!decision.why.is_empty());
    }
}

#[test]
fn reasons_name_what_is_in_the_way() {
    let (world, policy) = (World::new(), policy(RULES));
    let why = |line: &str| decide(&policy, &world.command(line)).why;
    assert_eq!(why("rm x"), "rule 7 denies run_command `rm`: use trash instead");
    assert_eq!(why("cargo test && curl -s x"), "no rule allows `curl -s x`");
    assert_eq!(why("cargo test > x"), "the command writes to a file or reads from one");
    assert_eq!(why("cargo test"), "rules, or what you allowed before, allow every part of it");
}

/// Separators between words must never let something through that stands outside of quotes.
#[test]
fn no_sign_joins_something_to_what_is_allowed() {
    let (world, policy) = (World::new(), policy(RULES));
    let signs = [
        ";",
        "&",
        "&&",
        "||",
        "|",
        "|&",
        "\n",
        "\r\n",
        "`",
        "$(",
        "(",
        "{ ",
        "<(",
        ">(",
        "\n\n",
        ";;",
        "\\\n;",
        "# \n",
        "&>",
        ">",
        ">>",
        "<",
        "<<x\n",
        "2>&1;",
        "2>&1\n",
        "''\n",
        "\"\"|",
        ">/dev/null;",
        "</dev/null|",
        "\\\\\n",
        "\\\\;",
        "'a';",
    ];
    for sign in signs {
        for line in [
            format!("cargo test {sign} curl x"),
            format!("cargo test{sign}curl x"),
            format!("ls {sign}curl x"),
        ] {
            let decision = decide(&policy, &world.command(&line));
            assert_ne!(decision.permission, Allow, "{line:?}: {}", decision.why);
        }
    }
}

#[test]
fn whatever_a_line_is_there_is_a_decision() {
    let (world, policy) = (World::new(), policy(RULES));
    let pieces = [
        "'",
        "\"",
        "\\",
        "$",
        "(",
        ")",
        "`",
        "|",
        "&",
        ";",
        "\n",
        " ",
        "<",
        ">",
        "=",
        "#",
        "rm",
        "é",
        "2",
        "/dev/null",
    ];
    for seed in 0..5000 {
        let mut rng = Rng::new(seed);
        let mut line = LINES[rng.below(LINES.len() as u64) as usize].0.to_owned();
        for _ in 0..=rng.below(6) {
            let at = rng.below(line.len() as u64 + 1) as usize;
            if line.is_char_boundary(at) {
                line.insert_str(at, pieces[rng.below(pieces.len() as u64) as usize]);
            }
        }
        if !line.trim().is_empty() {
            let _ = permission(&policy, &world.command(&line));
        }
    }
}
