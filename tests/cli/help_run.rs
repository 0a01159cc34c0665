//! What `--help` says of runs, to the letter.

use crate::support::TestEnvironment;

#[test]
fn help_of_run() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["run", "--help"]), @"
    What skills did, with every attempt: run and record, list, show, judge

    Usage: manent run [OPTIONS] <COMMAND>

    Commands:
      exec    Run a command in the sandbox as a skill, and record it with its output; also if it is cut
              off
      record  Record runs that another program made: one JSON entry, or one a line on standard input
      list    List runs, newest first
      show    Show everything of one run
      judge   Say of a run afterwards whether it was good; the last word counts
      help    Print this message or the help of the given subcommand(s)

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
fn help_of_run_exec() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["run", "exec", "--help"]), @"
    Run a command in the sandbox as a skill, and record it with its output; also if it is cut off

    Usage: manent run exec [OPTIONS] <SKILL> -- <COMMAND>...

    Arguments:
      <SKILL>       What it is a run of; if a skill of this name is known here, its version is recorded
      <COMMAND>...  The command and its arguments

    Options:
          --home <DIR>             The directory of the store [default: manent in the data directory of
                                   the user] [env: MANENT_HOME]
          --session <KEY>          The session that the run belongs to [default: runs]
          --json                   Print JSON, one object a line
          --phase <PHASE>          In which phase of some work
          --attempts <N>           How often to try, until it succeeds [default: 1]
          --color <WHEN>           When to use colour [default: auto] [possible values: auto, always,
                                   never]
      -q, --quiet                  No notes: only what was asked for and what went wrong
          --verify <COMMAND>       A line of shell that says by its exit code whether an attempt is
                                   good; in the sandbox too
          --timeout <TIME>         How long an attempt may take, and its verification [default: 10m]
      -v, --verbose                Say more
          --any-filesystem         Write also on network and unknown file systems, where appends and
                                   locks may not be safe [env: MANENT_ANY_FILESYSTEM]
          --read <DIR>             Let a directory into the sandbox, to be read; if it is or has a bin,
                                   that is on the PATH; repeatable
          --writable <.git>        Let git make commits and branches in this repository, a directory
                                   called .git; whatever else changes in it is put back; repeatable
          --new-repo               Keep repositories and protected files, such as AGENTS.md, that appear
                                   during the command
          --idempotency-key <KEY>  A run that came to its end under this key, or is under way, is not
                                   run again
          --wait <TIME>            How long to wait if another process is writing [default: 5s]
      -h, --help                   Print help

    That it begins is on the disk before it begins: if manent is killed, the run is listed with an
    unknown outcome. Exits with 0 if an attempt succeeded, with 1 if none did, with 5 while a run of the
    same key is under way, with 6 if one has ended, and with 128 and its number after a signal.

    In the sandbox it sees programs of the system, the current directory, and what --read lets in, but
    not your home; it has no network, no standard input, and of the environment PATH, LANG and the like.

    It cannot change what your own programs would execute afterwards: repositories (.git at any depth),
    and at the root of the directory and of each repository in it AGENTS.md, .envrc, .vscode and the
    like. Repositories and such files that appear are moved to quarantine/ in the home of the store
    before the command's end is told, and a warning says so; --new-repo keeps them. Commands in one
    directory, or in one below another, run one after another.

    Examples:
      manent run exec lint --read ~/.cargo --read ~/.rustup -- cargo clippy --offline
      manent run exec fix --attempts 3 --verify 'make test' -- ./fix.sh
      manent run exec release --writable .git -- git commit -am 'Version 2'
    [exit 0]
    ");
}

#[test]
fn help_of_run_record() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["run", "record", "--help"]), @r#"
    Record runs that another program made: one JSON entry, or one a line on standard input

    Usage: manent run record [OPTIONS] [SESSION] [JSON]

    Arguments:
      [SESSION]  The session [default: the `session_id` of each entry]
      [JSON]     A JSON object; one a line from standard input if it is left out or '-'

    Options:
          --durability <LEVEL>  What a receipt promises: sync and group survive power loss, flush
                                survives kill -9 [default: sync] [possible values: sync, group, flush]
          --home <DIR>          The directory of the store [default: manent in the data directory of the
                                user] [env: MANENT_HOME]
          --json                Print JSON, one object a line
          --wait <TIME>         How long to wait if another process is writing [default: 5s]
          --color <WHEN>        When to use colour [default: auto] [possible values: auto, always,
                                never]
      -q, --quiet               No notes: only what was asked for and what went wrong
      -v, --verbose             Say more
          --any-filesystem      Write also on network and unknown file systems, where appends and locks
                                may not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help                Print help

    An entry with an idempotency_key (or a run_id) that was recorded before is not recorded again, and
    gets the receipt of then. What cannot be recorded is named, and the rest goes in.

    Examples:
      manent run record '{"session_id":"work","skill":"lint","final_status":"success"}'
      cat runs.jsonl | manent run record --json
    [exit 0]
    "#);
}

#[test]
fn help_of_run_list() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["run", "list", "--help"]), @"
    List runs, newest first

    Usage: manent run list [OPTIONS]

    Options:
          --home <DIR>       The directory of the store [default: manent in the data directory of the
                             user] [env: MANENT_HOME]
          --skill <SKILL>    Only of this skill
          --json             Print JSON, one object a line
          --model <MODEL>    Only those in which this model was used
          --color <WHEN>     When to use colour [default: auto] [possible values: auto, always, never]
          --status <STATUS>  Only those that ended so; unknown: begun, and never heard of again
                             [possible values: success, failed, unknown, other]
          --project <DIR>    Only in this project, or below it
      -q, --quiet            No notes: only what was asked for and what went wrong
          --since <TIME>     Only since: 7d, 12h, 2026-11-01
      -v, --verbose          Say more
          --any-filesystem   Write also on network and unknown file systems, where appends and locks may
                             not be safe [env: MANENT_ANY_FILESYSTEM]
          --until <TIME>     Only until: 7d, 2026-11-01 (that day included)
          --session <KEY>    Only of this session
          --limit <N>        At most so many [default: 20]
      -h, --help             Print help
    [exit 0]
    ");
}

#[test]
fn help_of_run_show() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["run", "show", "--help"]), @"
    Show everything of one run

    Usage: manent run show [OPTIONS] <RUN_ID|SESSION:SEQ>

    Arguments:
      <RUN_ID|SESSION:SEQ>  Its id or at least eight characters of it, or its session and number:
                            work:12

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
fn help_of_run_judge() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["run", "judge", "--help"]), @"
    Say of a run afterwards whether it was good; the last word counts

    Usage: manent run judge [OPTIONS] <RUN_ID|SESSION:SEQ> <VERDICT>

    Arguments:
      <RUN_ID|SESSION:SEQ>  Its id or at least eight characters of it, or its session and number:
                            work:12
      <VERDICT>             What it was worth; none takes back what was said before [possible values:
                            good, bad, none]

    Options:
          --attempt <N>     On which attempt [default: the last one, which makes it the verdict on the
                            run]
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --json            Print JSON, one object a line
          --note <TEXT>     What there is to say about it
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
          --session <KEY>   Look for the run in this session only
      -q, --quiet           No notes: only what was asked for and what went wrong
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help

    A verdict counts from then on: in lists, in `manent retro`, and in `manent train`, which takes only
    what has one. It also settles how a run ended that was cut off. Nothing of the run is changed: the
    verdict is a record of its own, on the disk when the command returns.

    Examples:
      manent run judge work:12 good
      manent run judge 0197c2d4 bad --attempt 2 --note 'it deleted the test'
    [exit 0]
    ");
}
