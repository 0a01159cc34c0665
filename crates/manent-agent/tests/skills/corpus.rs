//! A `SKILL.md` of every kind that people and vandals write, and what becomes of it.

use std::fmt::Write as _;

use manent_agent::skills::SkillRule::{self, *};
use manent_agent::skills::{Severity, SkillDocument};

/// Files of a directory `my-skill`, with the problems that must be found in them.
struct Case {
    what: &'static str,
    bytes: Vec<u8>,
    /// The name and the beginning of the description; nothing if it is skipped.
    used: Option<(&'static str, &'static str)>,
    rules: &'static [SkillRule],
}

fn case(
    what: &'static str,
    text: impl AsRef<[u8]>,
    used: Option<(&'static str, &'static str)>,
    rules: &'static [SkillRule],
) -> Case {
    Case { what, bytes: text.as_ref().to_vec(), used, rules }
}

const FINE: Option<(&str, &str)> = Some(("my-skill", "Does it."));

/// A whole file around some fields.
fn with(fields: &str) -> String {
    format!("---\nname: my-skill\ndescription: Does it.\n{fields}---\n# Do\n\nit.\n")
}

/// The same with another name.
fn named(name: &str) -> String {
    with("").replace("my-skill", name)
}

/// The same with another description, as it is written.
fn described(description: &str) -> String {
    format!("---\nname: my-skill\ndescription: {description}\n---\nx")
}

fn forms() -> Vec<Case> {
    let text = with("license: MIT\n");
    let rule_in_body = text.replace("\n\nit.", "\n\nit.\n---\nname: other\n---\n");
    let long_body = text.replace("\n\nit.\n", &"\nmore".repeat(600));
    vec![
        case("by the book", &text, FINE, &[]),
        case("CRLF", text.replace('\n', "\r\n"), FINE, &[]),
        case("BOM", format!("\u{feff}{text}"), FINE, &[NotFirst]),
        case("blank lines first", format!("\n  \n{text}"), FINE, &[NotFirst]),
        case("a rule in the body", rule_in_body, FINE, &[]),
        case("a rule in a block", with("license: |\n  a\n  ---\n  b\n"), FINE, &[]),
        case("a rule in a value", with("license: a --- b\n"), FINE, &[]),
        case("comments", with("# why: not\nlicense: MIT # or not\n"), FINE, &[]),
        case("nothing to do", "---\nname: my-skill\ndescription: Does it.\n---\n", FINE, &[BodyEmpty]),
        case("a long body", long_body, FINE, &[BodyLong]),
        case("folded", described(">-\n  Does it.\n  And more."), FINE, &[]),
        case("on two lines", described("Does it.\n  And more."), FINE, &[]),
        case("a colon", described("Does it. Use when: asked"), FINE, &[Mended]),
        case("colons on more lines", described("Does it.\n  Example: this\n  and: that"), FINE, &[Mended]),
        case("a star", described("Does it.\nlicense: *MIT* or so"), FINE, &[Mended]),
        case("old Mac line ends", text.replace('\n', "\r"), None, &[NoFrontmatter]),
    ]
}

fn fields() -> Vec<Case> {
    let all = "license: MIT\ncompatibility: git\nmetadata:\n  a: \"1\"\nallowed-tools: Read\n";
    let long = format!("compatibility: {}\n", "x".repeat(501));
    let aliases = format!("metadata: [{}]\n", "*x, ".repeat(1000));
    vec![
        case("all fields", with(all), FINE, &[]),
        case("a float as version", with("version: 1.0\n"), FINE, &[Unknown]),
        case("numbers in metadata", with("metadata:\n  version: 1.0\n  n: 3\n"), FINE, &[Metadata; 2]),
        case("depth in metadata", with("metadata:\n  a: {b: [c]}\n"), FINE, &[Metadata]),
        case("metadata as text", with("metadata: none\n"), FINE, &[Metadata]),
        case("unknown fields", with("author: me\nargument-hint: '[x]'\n"), FINE, &[Unknown, Unknown]),
        case("a number as licence", with("license: 2\n"), FINE, &[NotString]),
        case("tools as a list", with("allowed-tools: [Read, Grep]\n"), FINE, &[AllowedTools]),
        case("tools with commas", with("allowed-tools: Read, Bash(git:*)\n"), FINE, &[AllowedTools]),
        case("long compatibility", with(&long), FINE, &[CompatibilityLength]),
        case("a long description", described(&"Does it. ".repeat(120)), FINE, &[DescriptionLength]),
        case("a field twice", with("license: a\nlicense: b\n"), FINE, &[Duplicate]),
        case("yes instead of true", with("disable-model-invocation: yes\n"), FINE, &[Disable]),
        case("aliases without end", with(&aliases), FINE, &[Metadata]),
        case("a map as a key", with("? {a: b}\n: c\n"), FINE, &[NotString]),
    ]
}

fn names() -> Vec<Case> {
    let (form, both) = (&[NameDirectory][..], &[NameForm, NameDirectory][..]);
    vec![
        case("another directory", named("other"), Some(("other", "")), form),
        case("capitals", named("My-Skill"), Some(("My-Skill", "")), both),
        case("two hyphens", named("my--skill"), Some(("my--skill", "")), both),
        case("a title", named("My Skill!"), FINE, both),
        case("no name", "---\ndescription: Does it.\n---\nx", FINE, &[NameMissing]),
        case("a number", named("42"), Some(("42", "")), &[NotString, NameDirectory]),
        case("a long name", named(&"x".repeat(65)), FINE, &[NameLength, NameDirectory]),
        case("a name that leads out", named("../../etc"), FINE, both),
        case("a name of two lines", named("\"a\\nb\""), FINE, both),
        case("an escape in the name", named("\"\\e[2Ja\""), FINE, both),
        case("a name from right to left", named("a\u{202e}b"), FINE, &[NameForm, NameDirectory, Hidden]),
    ]
}

fn hopeless() -> Vec<Case> {
    let deep = |sign: &str| with(&format!("license:\n {}\n", sign.repeat(20_000)));
    vec![
        case("empty", "", None, &[NoFrontmatter]),
        case("only text", "# Title\n\nWhat to do.\n", None, &[NoFrontmatter]),
        case("no end", "---\nname: my-skill\ndescription: x\n", None, &[NoEnd]),
        case("an indented end", "---\nname: my-skill\ndescription: x\n ---\nbody", None, &[NoEnd]),
        case("no description", "---\nname: my-skill\n---\nx", None, &[NoDescription]),
        case("an empty description", described("'  '"), None, &[NoDescription]),
        case("a null description", described("~"), None, &[NoDescription]),
        case("a list as description", described("[a]"), None, &[NotString, NoDescription]),
        case("an alias as description", described("*name"), None, &[NotString, NoDescription]),
        case("a list", "---\n- name\n- description\n---\nx", None, &[NotFields]),
        case("a word", "---\nhello\n---\nx", None, &[NotFields]),
        case("brackets", "---\nname: [my-skill\ndescription: x\n---\nx", None, &[Yaml]),
        case("two documents", "---\nname: my-skill\n...\ndescription: x\n---\nx", None, &[Yaml]),
        case("a directive", "---\n%YAML 1.2\nname: x\n---\nx", None, &[Yaml]),
        case("depth by brackets", deep("["), None, &[Yaml]),
        case("depth by hyphens", deep("- "), None, &[Yaml]),
        case("much frontmatter", with(&format!("a: {}\n", "x".repeat(70_000))), None, &[FrontmatterLong]),
    ]
}

fn bytes() -> Vec<Case> {
    let text = with("");
    vec![
        case("UTF-16", [0xff, 0xfe, b'-', 0, b'-', 0], None, &[NotText]),
        case("NUL", described("a\0b"), None, &[NotText]),
        case("not UTF-8", b"---\nname: my-skill\ndescription: caf\xe9\n---\nx", None, &[NotText]),
        case("a program", [0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0], None, &[NotText]),
        case("megabytes", vec![b'a'; 3 << 20], None, &[TooLong]),
        case("tag characters", text.replace("\n\nit.", "\n\nit.\u{e0041}"), FINE, &[Hidden]),
        case("reversed text", text.replace("# Do", "# \u{202e}oD"), FINE, &[Hidden]),
        case("an escape in the body", text.replace("# Do", "\u{1b}]0;x\u{7}"), FINE, &[Hidden]),
    ]
}

#[test]
fn every_kind_of_file_has_its_answer() {
    let cases: Vec<Case> = [forms(), fields(), names(), hopeless(), bytes()].into_iter().flatten().collect();
    assert!(cases.len() >= 60, "{}", cases.len());
    for Case { what, bytes, used, rules } in cases {
        let document = SkillDocument::read(&bytes, "my-skill");
        let found: Vec<SkillRule> = document.problems.iter().map(|problem| problem.rule).collect();
        assert_eq!(found, rules, "{what}: {:?}", document.problems);
        match used {
            Some((name, description)) => {
                assert_eq!(document.fatal(), None, "{what}");
                assert_eq!(document.manifest.name, name, "{what}");
                assert!(document.manifest.description.starts_with(description), "{what}: {document:?}");
            }
            None => assert!(document.fatal().is_some(), "{what}"),
        }
        for problem in &document.problems {
            assert!(problem.what.len() > 20 && problem.what.len() < 600, "{what}: {problem}");
        }
    }
}

#[test]
fn values_are_kept_as_they_were_written() {
    let text = "---\nname: my-skill\ndescription: |\n  One.\n\n  Two: three.\nversion: 1.0\n\
                metadata:\n  version: 1.10\n  \
                tags: [a, b]\nallowed-tools: Bash(git add:*) Read\nlicense: '2'\nextra:\n  deep: [1, ~]\n---\nDo.\n";
    let document = SkillDocument::read(text.as_bytes(), "my-skill");
    let manifest = &document.manifest;
    assert_eq!(manifest.description, "One.\n\nTwo: three.");
    assert_eq!(manifest.metadata["version"], "1.10", "a float would have become 1.1");
    assert_eq!(manifest.metadata["tags"], r#"["a","b"]"#);
    assert_eq!(manifest.allowed_tools, ["Bash(git add:*)", "Read"]);
    assert_eq!(manifest.license.as_deref(), Some("2"));
    assert_eq!(manifest.extra["version"], "1.0");
    assert_eq!(manifest.extra["extra"], serde_json::json!({"deep": ["1", null]}));
}

#[test]
fn problems_name_their_line() {
    let text = "\n---\nname: Other\ndescription: a\nversion: 1.0\nmetadata:\n  a: 1\nlicense: &x [y]\n\
                ---\nBody\n\u{202e}\n";
    let document = SkillDocument::read(text.as_bytes(), "my-skill");
    let lines = |rule: SkillRule| {
        let of = document.problems.iter().filter(move |problem| problem.rule == rule);
        of.map(|problem| problem.line.unwrap()).collect::<Vec<u32>>()
    };
    assert_eq!(lines(NotFirst), [1]);
    assert_eq!(lines(NameForm), [3]);
    assert_eq!(lines(Unknown), [5]);
    assert_eq!(lines(Metadata), [7]);
    assert_eq!(lines(NotString), [8]);
    assert_eq!(lines(Hidden), [11]);
    let broken =
        SkillDocument::read(b"---\nname: my-skill\nmetadata:\n  a: [\ndescription: x\n---\n", "my-skill");
    assert!((4..=6).contains(&broken.fatal().unwrap().line.unwrap()), "{broken:?}");
    let binary = SkillDocument::read(b"---\nname: a\n\xff", "a");
    assert_eq!(binary.fatal().unwrap().line, Some(3));
}

#[test]
fn a_bomb_is_as_small_as_its_text() {
    let mut text = "---\nname: my-skill\ndescription: x\na0: &a0 [x]\n".to_owned();
    for i in 1..200 {
        let _ = writeln!(text, "a{i}: &a{i} [{}]", format!("*a{}, ", i - 1).repeat(9));
    }
    let document = SkillDocument::read(format!("{text}---\nx").as_bytes(), "my-skill");
    assert_eq!(document.fatal(), None);
    assert_eq!(document.manifest.extra.len(), 200, "each is one field, however large it would be");
    assert_eq!(document.problems.len(), 101, "and not all of them are named");
    assert_eq!(document.problems[100].rule, More);
}

#[test]
fn without_frontmatter_the_text_can_still_be_shown() {
    for text in ["# Title\n\nWhat to do.\n", "---\nname: [\n---\n# Title\n\nWhat to do.\n"] {
        let document = SkillDocument::read(text.as_bytes(), "my-skill");
        assert_eq!(document.body, "# Title\n\nWhat to do.");
        assert_eq!(document.manifest.name, "my-skill");
        assert!(document.fatal().is_some());
    }
}

#[test]
fn only_a_clear_no_lets_models_call_what_was_held_back() {
    let read = |value: &str| {
        let text = format!("---\nname: a\ndescription: b\ndisable-model-invocation: {value}\n---\nx");
        let document = SkillDocument::read(text.as_bytes(), "a");
        (document.manifest.disable_model_invocation, document.problems.len())
    };
    assert_eq!(read("true"), (true, 0));
    assert_eq!(read("false"), (false, 0));
    assert_eq!(read("no"), (false, 1));
    for odd in ["'true'", "yes", "maybe", "[true]", "1"] {
        assert_eq!(read(odd), (true, 1), "{odd}");
    }
}

#[test]
fn every_rule_has_a_word_of_its_own_and_a_weight() {
    let mut words: Vec<&str> = SkillRule::ALL.iter().map(|rule| rule.word()).collect();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), SkillRule::ALL.len());
    assert!(SkillRule::ALL.iter().any(|rule| rule.grade() == Severity::Advice));
}
