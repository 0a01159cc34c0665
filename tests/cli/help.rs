//! What `--help` says, to the letter: it is the manual most people read.

use crate::support::TestEnvironment;

#[test]
fn help_of_the_whole() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["--help"]), @"
    Keep what AI agents say and do, in plain files that lose nothing

    Usage: manent [OPTIONS] <COMMAND>

    Commands:
      chat         Talk with a model; every turn is kept
      append       Append to a session; a new key starts a new one
      show         Show what a session holds
      export       Write a session as a transcript to read, or as its records, to a file or elsewhere
      search       Find turns by their words, in live and archived sessions
      context      Show exactly what a model sees of a session, and what it takes
      compact      Make what a model sees of a session smaller; nothing is removed
      consolidate  Make memory of what was said: what happened, and what is worth remembering, with
                   proof
      sessions     List the sessions, newest first
      archive      Put sessions away, packed; they are read as before
      unarchive    Make archived sessions live again
      rm           Move sessions to the trash, or remove them for good
      restore      Bring sessions back from the trash
      fork         Begin a new session that goes on from a record of another, without copying it
      title        Give a session a title
      memory       What is remembered across sessions: add, forget, list, search, and where it came from
      skills       What models can be taught by files: list, show, check skills, and whose are used
      run          What skills did, with every attempt: run and record, list, show, judge
      retro        Look back on what skills did: how often they succeed, what goes wrong, what changed
      train        Make data sets of what skills did, to train models on
      sandbox      Show where the commands of an agent would run, and try to get out of there
      stats        Count what there is, and say what could be put away
      verify       Check every byte of sessions (all, the memory and the runs, if none is named)
      repair       Set torn ends aside and acknowledge damage, so that it is known and no longer an
                   alarm
      doctor       Look whether everything is as it should be: store, sessions, memory, runs, index,
                   disk, clock
      config       Show what can be set, what it is set to, and where
      reindex      Make the index anew from the sessions
      completions  Print completions for a shell
      man          Print a manual page
      help         Print this message or the help of the given subcommand(s)

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
                6 conflict (expected seq, or a session in the way), 7 unknown (the record may be kept),
                130 interrupted, 129 hung up, 143 terminated
    [exit 0]
    ");
}

#[test]
fn help_of_append() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["append", "--help"]), @r#"
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
          --key <NAME>          Idempotency key: a retry with the same key adds no second record and
                                returns the first receipt. With --jsonl, each turn may have one as its
                                member `idempotency_key`
      -v, --verbose             Say more
          --any-filesystem      Write also on network and unknown file systems, where appends and locks
                                may not be safe [env: MANENT_ANY_FILESYSTEM]
          --wait <TIME>         How long to wait if another process is writing [default: 5s]
      -h, --help                Print help

    Examples:
      manent append work 'remember the milk'
      git diff | manent append work --role tool
      manent append work 'done' --key job-17    # exit code 7, or killed? The same again is safe
      manent show old --json | manent append new --jsonl
    [exit 0]
    "#);
}

#[test]
fn help_of_show() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["show", "--help"]), @r#"
    Show what a session holds

    Usage: manent show [OPTIONS] <KEY>

    Arguments:
      <KEY>  The session: its key (the live one, else the newest archived), or @ and the beginning of
             its id

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
fn help_of_search() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["search", "--help"]), @r#"
    Find turns by their words, in live and archived sessions

    Usage: manent search [OPTIONS] [QUERY]...

    Arguments:
      [QUERY]...  What to look for: a question, or words; the turns that fit best come first

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --role <ROLE>     Only what these roles said: user, or user,assistant
          --json            Print JSON, one object a line
          --since <TIME>    Only what was said since: 7d, 12h, 2026-11-01
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
          --until <TIME>    Only what was said until: 7d, 2026-11-01 (that day included)
      -q, --quiet           No notes: only what was asked for and what went wrong
          --session <KEY>   Only in the sessions of this key, of keys that begin so ('tele*'), or in @
                            and the beginning of an id
          --limit <N>       At most so many [default: 20]
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help

    In a query:
      milk eggs          a question: turns that fit best, by forms of the words and dates they name
      milk AND eggs      both words, in any order, whatever their case and accents
      '"to the letter"'  these words in a row
      'migrat*'          words that begin so
      red OR green       one of them
      -- milk -eggs      the first without the second; after --, because it looks like an option
      role:user  session:work  since:7d  until:2026-11-01    as the options
    A single word is looked for as it is. Of a question, turns close together are one entry.

    Examples:
      manent search what did we decide about the database
      manent search --since 7d --role assistant 'deadlock OR timeout'
      manent search milk --json | jq -r .session | sort | uniq -c
    [exit 0]
    "#);
}

#[test]
fn help_of_stats() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["stats", "--help"]), @"
    Count what there is, and say what could be put away

    Usage: manent stats [OPTIONS]

    Options:
          --days <N>        Over how many days to count turns [default: 14]
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
fn help_of_doctor() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["doctor", "--help"]), @"
    Look whether everything is as it should be: store, sessions, memory, runs, index, disk, clock

    Usage: manent doctor [OPTIONS]

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
fn help_of_reindex() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["reindex", "--help"]), @"
    Make the index anew from the sessions

    Usage: manent reindex [OPTIONS]

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
fn help_of_sessions() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["sessions", "--help"]), @"
    List the sessions, newest first

    Usage: manent sessions [OPTIONS]

    Options:
          --archived        Those that were archived
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --json            Print JSON, one object a line
          --trash           Those in the trash
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
          --since <TIME>    Only those with something newer: 7d, 12h, 2026-11-01
          --limit <N>       At most so many
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
    Check every byte of sessions (all, the memory and the runs, if none is named)

    Usage: manent verify [OPTIONS] [KEY]...

    Arguments:
      [KEY]...  The sessions: keys, or @ and the beginning of an id

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
      [KEY]...  The sessions: keys, or @ and the beginning of an id

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
fn help_of_archive() {
    insta::assert_snapshot!(own_part(&["archive", "--help"]), @"
    Put sessions away, packed; they are read as before

    Usage: manent archive [OPTIONS] <KEY>...

    Arguments:
      <KEY>...  The sessions: keys, or @ and the beginning of an id

    Options:
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
    ");
}

#[test]
fn help_of_unarchive() {
    insta::assert_snapshot!(own_part(&["unarchive", "--help"]), @"
    Make archived sessions live again

    Usage: manent unarchive [OPTIONS] <KEY>...

    Arguments:
      <KEY>...  The sessions: keys, or @ and the beginning of an id

    Options:
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
    ");
}

#[test]
fn help_of_rm() {
    insta::assert_snapshot!(own_part(&["rm", "--help"]), @"
    Move sessions to the trash, or remove them for good

    Usage: manent rm [OPTIONS] <KEY>...

    Arguments:
      <KEY>...  The sessions: keys, or @ and the beginning of an id

    Options:
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
          --purge           Remove for good: every session of the key, live, archived and in the trash
                            (with @ID, that one)
          --with-forks      With --purge: their forks too, which would otherwise keep a copy of what
                            they share
      -y, --yes             Do not ask

    What is in the trash stays there until it is purged; `manent restore` brings it back.
    A purge cannot be undone; on a terminal it asks.
    ");
}

#[test]
fn help_of_restore() {
    insta::assert_snapshot!(own_part(&["restore", "--help"]), @"
    Bring sessions back from the trash

    Usage: manent restore [OPTIONS] <KEY>...

    Arguments:
      <KEY>...  The sessions: keys, or @ and the beginning of an id

    Options:
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
    ");
}

#[test]
fn help_of_fork() {
    insta::assert_snapshot!(own_part(&["fork", "--help"]), @"
    Begin a new session that goes on from a record of another, without copying it

    Usage: manent fork [OPTIONS] <KEY> [NEWKEY]

    Arguments:
      <KEY>     The session: its key, or @ and the beginning of its id
      [NEWKEY]  The key of the new session [default: the old one with -fork behind it]

    Options:
          --at <SEQ>        The last record to share [default: the last there is]
          --wait <TIME>     How long to wait if another process is writing [default: 5s]

    Examples:
      manent fork work                    # go on from the end, as work-fork
      manent fork work --at 12 other-way  # go on from record 12
    ");
}

#[test]
fn help_of_title() {
    insta::assert_snapshot!(own_part(&["title", "--help"]), @"
    Give a session a title

    Usage: manent title [OPTIONS] <KEY> <TEXT>

    Arguments:
      <KEY>   The session
      <TEXT>  The title; empty: the first thing the user said, as before

    Options:
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
    ");
}

#[test]
fn help_of_completions() {
    insta::assert_snapshot!(own_part(&["completions", "--help"]), @"
    Print completions for a shell

    Usage: manent completions [OPTIONS] <SHELL>

    Arguments:
      <SHELL>  The shell [possible values: bash, elvish, fish, powershell, zsh]

    Options:
    ");
}

#[test]
fn help_of_man() {
    insta::assert_snapshot!(own_part(&["man", "--help"]), @"
    Print a manual page

    Usage: manent man [OPTIONS] [COMMAND]

    Arguments:
      [COMMAND]  The page of this command [default: the page of manent itself]

    Options:
    ");
}

/// The help of a command without the options that all of them have.
fn own_part(args: &[&str]) -> String {
    let output = TestEnvironment::new().manent(args);
    output.assert_code(0);
    let text = output.stdout();
    let mut kept: Vec<&str> = Vec::new();
    let mut common = false;
    for line in text.lines() {
        let begins = line.starts_with("      --") || line.starts_with("  -");
        if begins {
            common = COMMON.iter().any(|option| line.contains(option));
        }
        // An option may go on in the next line; an empty one ends it.
        common &= !line.is_empty();
        if !common {
            kept.push(line);
        }
    }
    kept.join("\n")
}

const COMMON: [&str; 7] =
    ["--home", "--json", "--color", "--quiet", "--verbose", "--any-filesystem", "--help"];

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
