//! What `--help` says, to the letter: it is the manual most people read.

use crate::support::TestEnvironment;

#[test]
fn help_of_the_whole() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["--help"]), @"
    Keep what AI agents say and do, in plain files that lose nothing

    Usage: manent [OPTIONS] <COMMAND>

    Commands:
      append    Append to a session; a new key starts a new one
      show      Show what a session holds
      sessions  List the sessions, newest first
      verify    Check every byte of sessions (all, if none is named)
      repair    Set torn ends aside and acknowledge damage, so that it is known and no longer an alarm
      help      Print this message or the help of the given subcommand(s)

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --json            Print JSON, one object a line
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
      -q, --quiet           No notes: only what was asked for and what went wrong
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help
      -V, --version         Print version

    Exit codes: 0 done, 1 failed, 2 usage, 3 damage found, 4 not found, 5 held by another writer,
                6 conflict (expected seq), 130 interrupted
    [exit 0]
    ");
}

#[test]
fn help_of_append() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["append", "--help"]), @"
    Append to a session; a new key starts a new one

    Usage: manent append [OPTIONS] <KEY> [TEXT]

    Arguments:
      <KEY>   The session
      [TEXT]  What to append; from standard input if it is left out or '-'

    Options:
          --home <DIR>          The directory of the store [default: manent in the data directory of the
                                user] [env: MANENT_HOME]
          --role <ROLE>         Who said it [default: user]
          --json                Print JSON, one object a line
          --jsonl               Read one JSON record a line from standard input; receipts come as soon
                                as records are durable
          --color <WHEN>        When to use colour [default: auto] [possible values: auto, always,
                                never]
          --durability <LEVEL>  What a receipt promises: sync and group survive power loss, flush
                                survives kill -9 [default: sync] [possible values: sync, group, flush]
          --expect-seq <N>      Append only if the (first) record gets this number; 1: the session must
                                be new
      -q, --quiet               No notes: only what was asked for and what went wrong
      -v, --verbose             Say more
          --wait <TIME>         How long to wait if another process is writing [default: 5s]
          --any-filesystem      Write also on network and unknown file systems, where appends and locks
                                may not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help                Print help

    Examples:
      manent append work 'remember the milk'
      git diff | manent append work --role tool
      manent show old --json | manent append new --jsonl
    [exit 0]
    ");
}

#[test]
fn help_of_show() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["show", "--help"]), @r#"
    Show what a session holds

    Usage: manent show [OPTIONS] <KEY>

    Arguments:
      <KEY>  The session

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --tail <N>        Only the last N turns
          --from <SEQ>      From this record on
          --json            Print JSON, one object a line
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
      -f, --follow          Go on as the session grows, until Ctrl-C
      -q, --quiet           No notes: only what was asked for and what went wrong
          --raw             Only the texts, as they are, one after the other; never to a terminal
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help

    Examples:
      manent show work --tail 10
      manent show work -f
      manent show work --json | jq -r 'select(.role == "user") | .content'
    [exit 0]
    "#);
}

#[test]
fn help_of_sessions() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["sessions", "--help"]), @"
    List the sessions, newest first

    Usage: manent sessions [OPTIONS]

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --since <TIME>    Only those with something newer: 7d, 12h, 2026-11-01
          --json            Print JSON, one object a line
          --limit <N>       At most so many
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
      -q, --quiet           No notes: only what was asked for and what went wrong
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help
    [exit 0]
    ");
}

#[test]
fn help_of_verify() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["verify", "--help"]), @"
    Check every byte of sessions (all, if none is named)

    Usage: manent verify [OPTIONS] [KEY]...

    Arguments:
      [KEY]...  The sessions

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --json            Print JSON, one object a line
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
      -q, --quiet           No notes: only what was asked for and what went wrong
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help
    [exit 0]
    ");
}

#[test]
fn help_of_repair() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["repair", "--help"]), @"
    Set torn ends aside and acknowledge damage, so that it is known and no longer an alarm

    Usage: manent repair [OPTIONS] [KEY]...

    Arguments:
      [KEY]...  The sessions

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
          --json            Print JSON, one object a line
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
      -q, --quiet           No notes: only what was asked for and what went wrong
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help
    [exit 0]
    ");
}

#[test]
fn the_version_is_told() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["--version"]), @"
    manent [version]
    [exit 0]
    ");
}

#[test]
fn nothing_typed_shows_how_to_begin() {
    let output = TestEnvironment::new().manent::<&str>(&[]);
    output.assert_code(2);
    assert!(output.stderr().contains("Usage: manent [OPTIONS] <COMMAND>"), "{output}");
}
