//! Other programs' files: read whatever their habits are, never rewritten.

use crate::support::{TestEnvironment, records};

fn turns(env: &TestEnvironment, key: &str) -> Vec<String> {
    let shown = env.manent(&["show", key, "--raw"]);
    shown.assert_code(0);
    shown.stdout().lines().map(str::to_owned).collect()
}

/// Acceptance list 52: read, never written, and no damage.
#[test]
fn byte_order_marks_carriage_returns_and_blank_lines_are_read_and_left_alone() {
    let env = TestEnvironment::new();
    let (one, two) = (r#"{"role":"user","content":"one"}"#, r#"{"role":"user","content":"two"}"#);
    let theirs = format!("\u{feff}{one}\r\n\r\n   \n\t\n  {two}  \r\n");
    env.plant("a", &theirs);
    assert_eq!(turns(&env, "a"), ["one", "two"]);
    let (report, code) = env.verify("a");
    assert_eq!((code, &report["records"], &report["unverified"]), (0, &2.into(), &2.into()), "{report}");
    assert_eq!(env.append("a", "three"), 3);
    let after = env.bytes("a");
    let ours = after.strip_prefix(theirs.as_bytes()).expect("their bytes stay");
    assert!(ours.starts_with(b"{\"seq\":3,") && ours.ends_with(b"\"}\n") && !ours.contains(&b'\r'));
    assert_eq!(turns(&env, "a"), ["one", "two", "three"]);
}

/// Acceptance list 52: a file of ours that an editor or a version control system converted.
#[test]
fn a_session_of_ours_with_carriage_returns_still_verifies() {
    let env = TestEnvironment::new();
    let text = String::from_utf8(records::session("a", &["one", "two"])).unwrap();
    env.plant("a", format!("\u{feff}{}", text.replace('\n', "\r\n\r\n")));
    env.assert_clean("a");
    assert_eq!(turns(&env, "a"), ["one", "two"]);
    assert_eq!(env.append("a", "three"), 3);
    env.assert_clean("a");
}

/// Acceptance list 49: in another program's file half a surrogate pair is that program's business.
#[test]
fn half_a_surrogate_pair_in_another_programs_line_is_kept_and_shown_as_it_stands() {
    let env = TestEnvironment::new();
    let line = r#"{"role":"user","content":"\ud800 lonely"}"#;
    env.plant("a", records::file(&[line, r#"{"role":"user","content":"next"}"#]));
    assert_eq!(env.records("a")[0], line);
    assert!(env.manent(&["show", "a"]).stdout().contains(r"\ud800 lonely"));
    env.append("a", "more");
    assert!(env.bytes("a").starts_with(line.as_bytes()));
    assert_eq!(env.records("a").len(), 3);
}

/// A line of theirs that cannot be read hides no other, and their tail is not ours to cut.
#[test]
fn another_programs_damage_is_named_and_its_tail_never_cut() {
    let env = TestEnvironment::new();
    let (one, two) = (r#"{"role":"user","content":"one"}"#, r#"{"role":"user","content":"two"}"#);
    let theirs = format!("{one}\nnot JSON\n{two}\n{{\"role\":\"us");
    env.plant("a", &theirs);
    assert_eq!(turns(&env, "a"), ["one", "two"]);
    let (report, code) = env.verify("a");
    assert_eq!((code, report["damage"].as_array().unwrap().len()), (3, 2), "{report}");
    env.append("a", "three");
    assert!(
        env.bytes("a").starts_with(format!("{theirs}\n{{\"seq\":").as_bytes()),
        "a line of its own, behind theirs"
    );
    assert_eq!(env.file_names(), ["a.jsonl"], "nothing was set aside");
    assert_eq!(turns(&env, "a"), ["one", "two", "three"]);
}

/// Lines that another program appends meanwhile are read before the next write.
#[test]
fn lines_that_another_program_appends_while_we_hold_the_session_are_counted() {
    let env = TestEnvironment::new();
    let mut writer = crate::support::Stream::hold(&env, "a");
    let mut file = std::fs::OpenOptions::new().append(true).open(env.log("a")).unwrap();
    std::io::Write::write_all(&mut file, b"{\"role\":\"user\",\"content\":\"theirs\"}\n").unwrap();
    writer.send(&records::plain("ours"));
    assert_eq!(writer.line(), "a 3", "theirs is 2");
    assert_eq!(turns(&env, "a"), ["held", "theirs", "ours"]);
    env.manent(&["verify", "a"]).assert_code(0);
}
