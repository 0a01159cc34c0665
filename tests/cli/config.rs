//! `manent config` and `config.toml`: what is set, where, and what is wrong with it.

use serde_json::Value;

use crate::support::{Output, TestEnvironment};

fn origin(output: &Output, name: &str) -> (String, String) {
    output.assert_code(0);
    let rows = output.stdout();
    let row = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|row| row["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {rows}"));
    (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
}

fn pair(value: &str, origin: &str) -> (String, String) {
    (value.to_owned(), origin.to_owned())
}

#[test]
fn every_setting_says_where_it_comes_from() {
    let env = TestEnvironment::new();
    let output = env.manent(&["config", "--json"]);
    assert_eq!(origin(&output, "agent.provider"), pair("auto", "default"));
    assert!(!env.home().exists(), "looking makes nothing");
    env.configure(
        "[agent]\nmodel = \"of-the-file\"\nmax_context_tokens = 9000\n[consolidation]\ninbox = true\n",
    );
    let output = env.manent(&["config", "--json"]);
    assert_eq!(origin(&output, "agent.model"), pair("of-the-file", "config.toml"));
    assert_eq!(origin(&output, "agent.max_context_tokens"), pair("9000", "config.toml"));
    assert_eq!(origin(&output, "consolidation.inbox"), pair("true", "config.toml"));
    assert_eq!(origin(&output, "openai.key_env"), pair("OPENAI_API_KEY", "default"));
    let text = env.manent(&["config"]);
    text.assert_code(0);
    assert!(text.stdout().contains("of-the-file") && text.stderr().contains("config.toml"), "{text}");
}

#[test]
fn the_environment_counts_more_than_the_file() {
    let env = TestEnvironment::new();
    env.configure("[agent]\nmodel = \"of-the-file\"\nprovider = \"ollama\"\n");
    let twins = [
        ("MANENT_MODEL", "agent.model", "m", "m"),
        ("MANENT_PROVIDER", "agent.provider", "recall", "recall"),
        ("OLLAMA_HOST", "ollama.url", "0.0.0.0:7", ""),
        ("OPENAI_BASE_URL", "openai.url", "http://localhost:1/v1", "http://localhost:1/v1"),
    ];
    for (variable, name, value, shown) in twins {
        let mut command = env.command(&["config", "--json"]);
        command.env(variable, value);
        let found = origin(&env.output(command, b""), name);
        assert_eq!(found.1, format!("${variable}"));
        assert!(shown.is_empty() || found.0 == shown, "{found:?}");
        // Set to nothing is not set.
        let mut command = env.command(&["config", "--json"]);
        command.env(variable, "");
        assert!(!origin(&env.output(command, b""), name).1.starts_with('$'));
    }
    let mut command = env.command(&["config"]);
    command.env("MANENT_PROVIDER", "nonsense");
    env.output(command, b"").assert_fails(1, &["agent.provider", "$MANENT_PROVIDER", "auto, ollama"]);
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    let env = TestEnvironment::new();
    let cases = [
        ("[agent", "no TOML"),
        ("model = \"x\"\n", "\"model\", which nobody knows; `manent config` lists what can be set"),
        ("[agent]\nmodle = \"x\"\n", "\"agent.modle\", which nobody knows"),
        ("[agent]\nmodel = [1]\n", "it must be"),
        ("[agent]\nmax_context_tokens = 1\n", "1000 or more"),
        ("[agent]\nmax_context_tokens = -5\n", "1000 or more"),
        ("[consolidation]\nwhen = \"later\"\n", "turn, every N"),
        ("[ollama]\nurl = \"not an address\"\n", "an address like"),
        ("[openai]\nkey_env = \"sk-1234567890abcdef\"\n", "not the key itself"),
    ];
    for (text, said) in cases {
        env.configure(text);
        let output = env.manent(&["config"]);
        output.assert_fails(1, &[said]);
        assert!(output.stdout_bytes.is_empty(), "{output}");
        env.chat(&["a"], "x").assert_fails(1, &[said]);
        assert!(!env.log("a").exists());
    }
    // Whoever only keeps and reads records does not need it.
    env.append("a", "x");
    env.manent(&["show", "a"]).assert_code(0);
    env.manent(&["search", "x"]).assert_code(0);
}

#[test]
fn a_file_kept_elsewhere_is_followed_and_what_is_no_file_is_named() {
    let env = TestEnvironment::new();
    env.make_directories();
    let path = env.home().join("config.toml");
    let elsewhere = env.root().join("dotfiles.toml");
    std::fs::write(&elsewhere, "[agent]\nmodel = \"linked\"\n").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let output = env.manent(&["config", "--json"]);
    assert_eq!(origin(&output, "agent.model"), pair("linked", "config.toml"));
    std::fs::remove_file(&elsewhere).unwrap();
    env.manent(&["config"]).assert_code(0);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    env.manent(&["config"]).assert_fails(1, &["cannot read", "config.toml", "move it away"]);
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    env.manent(&["config"]).assert_fails(1, &["config.toml"]);
    std::fs::write(&path, b"[agent]\nmodel = \"caf\xe9\"\n").unwrap();
    let output = env.manent(&["config"]);
    assert!(output.code().is_some_and(|code| code <= 1), "{output}");
    rustix::fs::mkfifoat(rustix::fs::CWD, env.root().join("pipe"), rustix::fs::Mode::RUSR).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(env.root().join("pipe"), &path).unwrap();
    let output = env.manent(&["config"]);
    output.assert_fails(1, &["config.toml"]);
}
