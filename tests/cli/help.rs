//! What `--help` says, to the letter: it is the manual most people read.

use crate::support::TestEnvironment;

#[test]
fn help_of_the_whole() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["--help"]), @"");
}

#[test]
fn help_of_append() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["append", "--help"]), @"");
}

#[test]
fn help_of_show() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["show", "--help"]), @"");
}

#[test]
fn help_of_sessions() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["sessions", "--help"]), @"");
}

#[test]
fn help_of_verify() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["verify", "--help"]), @"");
}

#[test]
fn help_of_repair() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["repair", "--help"]), @"");
}

#[test]
fn the_version_is_told() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["--version"]), @"");
}

#[test]
fn nothing_typed_shows_how_to_begin() {
    let output = TestEnvironment::new().manent::<&str>(&[]);
    output.assert_code(2);
    assert!(output.stderr().contains("Usage: manent [OPTIONS] <COMMAND>"), "{output}");
}
