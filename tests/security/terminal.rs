//! Acceptance list 61: text from a transcript never drives the terminal. Everything here runs on a pseudo-terminal,
//! and every byte that reaches it is looked at.

use crate::support::terminal::{Screen, on_terminal};
use crate::support::{TestEnvironment, records};

/// Sequences that terminals obey, and characters that make a reader see something else than what is there.
pub(super) const HOSTILE: [&str; 24] = [
    "\u{1b}[2J\u{1b}[31m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;http://evil.example\u{1b}\\",
    "\u{1b}]52;c;ZXZpbA==\u{7}",
    "\u{1b}P+q544e\u{1b}\\",
    "\u{1b}_apc\u{1b}\\",
    "\u{1b}^pm\u{1b}\\",
    "\u{1b}c",
    "\u{9b}31m",
    "\u{9d}0;title\u{9c}",
    "\u{90}dcs\u{9c}",
    "\u{85}",
    "\u{7}",
    "\u{8}\u{8}\u{8}",
    "honest\rhonesty",
    "\u{b}\u{c}",
    "\u{7f}",
    "\u{202e}reversed\u{202c}",
    "\u{2066}isolated\u{2069}",
    "\u{200f}\u{200e}\u{61c}",
    "\u{e0001}\u{e0041}\u{e007f}",
    "\u{200b}\u{2060}\u{feff}",
    "\u{2028}\u{2029}",
    "\0",
];

/// Returns true if a terminal or an eye would obey the character. Newlines and tabs are text.
fn obeyed(c: char) -> bool {
    let invisible = matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    invisible || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Takes out the colours that the command itself adds: `ESC [ digits and semicolons m`.
fn without_colours(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let behind = &rest[at + 2..];
        let digits = behind.find(|c: char| !(c.is_ascii_digit() || c == ';')).unwrap_or(behind.len());
        let is_colour = behind[digits..].starts_with('m');
        out.push_str(&rest[..if is_colour { at } else { at + 2 }]);
        rest = if is_colour { &behind[digits + 1..] } else { behind };
    }
    out + rest
}

/// Looks at everything a command sent to a terminal, with and without colours.
#[track_caller]
pub(super) fn assert_harmless(env: &TestEnvironment, args: &[&str]) -> Screen {
    let plain = on_terminal(env, &[&["--color", "never"], args].concat());
    let coloured = on_terminal(env, &[&["--color", "always"], args].concat());
    for (text, how) in [(plain.text(), "plain"), (without_colours(&coloured.text()), "coloured")] {
        let found: Vec<char> = text.chars().filter(|c| obeyed(*c)).collect();
        assert!(found.is_empty(), "{args:?} ({how}) sent {found:?} to the terminal: {text:?}");
    }
    assert!(!coloured.text().contains("\u{1b}[31m\u{1b}[2J"), "a colour of the transcript's");
    plain
}

/// A session in which every field that is ever printed is hostile.
fn hostile_session(key: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let all = HOSTILE.join("|");
    let json = |text: &str| serde_json::to_string(text).unwrap();
    let mut lines = vec![
        format!(r#"{{"role":{0},"model":{0},"content":{0}}}"#, json(&all)),
        format!(r#"{{"role":"user","ts":{0},"content":{0}}}"#, json(&all)),
        format!(
            r#"{{"role":"tool","name":{0},"tool_calls":[{{"name":{0},"arguments":{{{0}:1}}}}],"content":""}}"#,
            json(&all)
        ),
        format!(r#"{{"kind":{0},{0}:{0}}}"#, json(&all)),
        format!(r#"{{"kind":"title","title":{}}}"#, json(&all)),
    ];
    lines.extend(HOSTILE.map(|text| format!(r#"{{"role":"user","content":{}}}"#, json(text))));
    let output =
        env.manent_given(&["append", "--jsonl", "--durability", "flush", "--", key], lines.join("\n"));
    output.assert_code(0);
    env
}

#[test]
fn nothing_in_a_transcript_reaches_the_terminal_as_a_command() {
    let key = format!("key {}", HOSTILE.join("").replace('\0', ""));
    let env = hostile_session(&key);
    let shown = assert_harmless(&env, &["show", "--", &key]);
    assert!(shown.text().contains(r"\u{1b}]52;c;ZXZpbA==\u{7}"), "it is shown, escaped");
    assert_harmless(&env, &["show", "--tail", "3", "--", &key]);
    assert_harmless(&env, &["sessions"]);
    let found = assert_harmless(&env, &["search", "honest", "--limit", "100"]);
    assert!(found.text().contains("honest"), "{}", found.text());
    for word in ["reversed", "isolated", "evil", "title", "31m", "role:user"] {
        assert_eq!(assert_harmless(&env, &["search", word]).code, Some(0), "{word}");
    }
    for junk in HOSTILE {
        assert_harmless(&env, &["search", "--", &junk.replace('\0', "")]);
        assert_harmless(&env, &["search", "x", "--session", &junk.replace('\0', "x")]);
    }
    assert_harmless(&env, &["stats"]);
    assert_harmless(&env, &["doctor"]);
    assert_harmless(&env, &["verify"]);
    assert_harmless(&env, &["repair", "--", &key]);
    assert_harmless(&env, &["append", "--", &key, HOSTILE[1]]);
}

#[test]
fn errors_and_warnings_are_as_harmless_as_what_they_are_about() {
    let key: String = HOSTILE.join("").replace('\0', "");
    let env = TestEnvironment::new();
    assert_eq!(assert_harmless(&env, &["show", "--", &key]).code, Some(4));
    // A damaged session with a hostile name, which every reader warns of.
    let mut lines = vec![records::header(&key), records::turn(1, "one"), records::turn(3, "three")];
    lines[2].truncate(60);
    lines.push(records::turn(4, "four"));
    env.append(&key, "to learn the name of its file");
    let name = env.file_names().remove(0);
    std::fs::write(env.sessions().join(&name), [records::file(&lines), b"\x1b]0;torn\x07".to_vec()].concat())
        .unwrap();
    assert_harmless(&env, &["show", "--", &key]);
    assert_harmless(&env, &["sessions"]);
    assert_harmless(&env, &["search", "four"]);
    assert_harmless(&env, &["stats"]);
    assert_eq!(assert_harmless(&env, &["doctor"]).code, Some(3));
    assert_eq!(assert_harmless(&env, &["verify"]).code, Some(3));
    assert_harmless(&env, &["append", "--expect-seq", "99", "--", &key, "x"]);
    assert_harmless(&env, &["repair", "-v"]);
    // A file whose header names a hostile session, under another name; and a file with a hostile name.
    env.plant("other", records::session(&key, &["one"]));
    assert_eq!(assert_harmless(&env, &["show", "other"]).code, Some(1));
    std::fs::write(
        env.sessions().join("\u{1b}]0;evil\u{7}\u{202e}.jsonl"),
        "{\"role\":\"\u{9b}31m\"}\n\x1f\x1b[2J\n{}\n",
    )
    .unwrap();
    assert_harmless(&env, &["sessions"]);
    assert_harmless(&env, &["verify"]);
}

/// Arguments of a script can come from a transcript too.
#[test]
fn a_mistyped_command_line_is_not_echoed_raw() {
    let env = TestEnvironment::new();
    let evil = "\u{1b}]0;evil\u{7}\u{9b}31m\u{202e}";
    for args in [
        &["append", "a", "x", "--wait", evil][..],
        &["append", "a", "x", "--durability", evil],
        &["append", "a", "x", &format!("--{evil}")],
        &["append", "a", "x", evil],
        &["sessions", "--since", evil],
        &[evil],
    ] {
        let screen = on_terminal(&env, args);
        assert_eq!(screen.code, Some(2), "{args:?}");
        let text = without_colours(&screen.text());
        let found: Vec<char> = text.chars().filter(|c| obeyed(*c)).collect();
        assert!(found.is_empty(), "{args:?} sent {found:?} to the terminal: {text:?}");
    }
}

#[test]
fn a_home_with_a_hostile_name_is_harmless() {
    let env = TestEnvironment::new();
    let home = env.root().join("\u{1b}]0;evil\u{7}\u{202e}");
    let home = home.to_str().unwrap();
    for args in [
        &["sessions"][..],
        &["show", "a"],
        &["append", "a", "x", "--expect-seq", "7"],
        &["doctor"],
        &["append", "a", "x"],
        &["doctor"],
        &["search", "y"],
    ] {
        assert_harmless(&env, &[args, &["--home", home]].concat());
    }
}

#[test]
fn json_on_a_terminal_is_harmless_and_the_same_value() {
    let env = hostile_session("a");
    // Another program's lines may have control characters between their tokens, too.
    let foreign = "{\"role\":\"user\",\t\"content\":\"\u{9b}31m \u{7f}\u{202e}\",\t\"x\":[1,\t2]}";
    env.plant("b", format!("{foreign}\n"));
    for args in [
        &["show", "a", "--json"][..],
        &["show", "b", "--json"],
        &["sessions", "--json"],
        &["search", "honest", "--json"],
        &["search", "31m", "--json"],
        &["stats", "--json"],
        &["verify", "--json"],
    ] {
        let screen = assert_harmless(&env, args).text();
        let piped = env.manent(args).stdout();
        assert_eq!(screen.lines().count(), piped.lines().count(), "{args:?}");
        for (shown, meant) in screen.lines().zip(piped.lines()) {
            let value = |line: &str| serde_json::from_str::<serde_json::Value>(line);
            let shown =
                value(shown).unwrap_or_else(|e| panic!("{args:?} is no JSON on a terminal: {e}: {shown:?}"));
            assert_eq!(shown, value(meant).unwrap());
        }
    }
    assert!(
        env.manent(&["show", "b", "--json"]).stdout().starts_with(foreign),
        "a pipe gets it byte for byte"
    );
}

#[test]
fn raw_text_is_refused_on_a_terminal() {
    let env = hostile_session("a");
    let screen = assert_harmless(&env, &["show", "a", "--raw"]);
    assert_eq!(screen.code, Some(2));
    assert!(screen.text().contains("--raw is not for a terminal"), "{}", screen.text());
    assert!(!screen.text().contains("honest"), "nothing of it was printed");
    env.manent(&["show", "a", "--raw"]).assert_code(0);
}

/// Into a file or a pager the text goes escaped as well; only `--raw` and `--json` are byte for byte.
#[test]
fn what_is_shown_into_a_pipe_is_harmless_to_whoever_prints_it_later() {
    let env = hostile_session("a");
    for args in
        [&["show", "a"][..], &["sessions"], &["search", "honest"], &["stats"], &["doctor"], &["verify"]]
    {
        let text = env.manent(args).stdout();
        let found: Vec<char> = text.chars().filter(|c| obeyed(*c)).collect();
        assert!(found.is_empty(), "{args:?}: {found:?}");
    }
}

#[test]
fn ordinary_writing_is_left_alone() {
    let env = TestEnvironment::new();
    let text = "naïve café, 日本語, العربية, עברית, 👩\u{200d}👧, e\u{301}\n\ttabs and lines";
    env.append("a", text);
    assert!(assert_harmless(&env, &["show", "a"]).text().contains(text));
}
