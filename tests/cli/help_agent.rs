//! What `--help` says of what talks with models, to the letter.

use crate::support::TestEnvironment;

#[test]
fn help_of_chat() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["chat", "--help"]), @"
    Talk with a model; every turn is kept

    Usage: manent chat [OPTIONS] [KEY]

    Arguments:
      [KEY]  The session [default: a new one, named by the time]

    Options:
      -c, --continue          Go on with the session that was written last
          --home <DIR>        The directory of the store [default: manent in the data directory of the
                              user] [env: MANENT_HOME]
          --json              Print JSON, one object a line
      -p, --print <QUESTION>  Ask this, print the answer, and end
          --color <WHEN>      When to use colour [default: auto] [possible values: auto, always, never]
          --no-tools          Only talk: the model gets no tools
          --model <NAME>      The model [default: what `manent config` says]
      -q, --quiet             No notes: only what was asked for and what went wrong
          --provider <WHO>    Who serves it: auto, ollama, openai or recall
      -v, --verbose           Say more
          --any-filesystem    Write also on network and unknown file systems, where appends and locks
                              may not be safe [env: MANENT_ANY_FILESYSTEM]
          --wait <TIME>       How long to wait if another process is writing [default: 5s]
      -h, --help              Print help

    Kill it whenever you like: what you said is on the disk before a model is asked, and an answer
    before
    it counts as given. Without a model server it answers from your own record, and says so.

    Examples:
      manent chat work
      git diff | manent chat review
      manent chat -c -p 'and in one sentence?'
    [exit 0]
    ");
}

#[test]
fn help_of_consolidate() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["consolidate", "--help"]), @"
    Make memory of what was said: what happened, and what is worth remembering, with proof

    Usage: manent consolidate [OPTIONS] [KEY]...

    Arguments:
      [KEY]...  The sessions: keys, or @ and the beginning of an id

    Options:
          --all             Every live session
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --json            Print JSON, one object a line
          --model <NAME>    The model [default: what `manent config` says]
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
          --provider <WHO>  Who serves it: auto, ollama, openai or recall
          --dry-run         Only tell what would be remembered; nothing is written
      -q, --quiet           No notes: only what was asked for and what went wrong
          --inbox           Put what is learned into the inbox, where `manent memory accept` takes it
                            from
      -v, --verbose         Say more
          --again           Also what was looked at before, but nothing twice by the same model and the
                            same prompt
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
          --without-model   Without a model: what happened is noted in the words that were said, and
                            nothing is learned
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
      -h, --help            Print help

    Each passage is looked at once: what happened becomes a daily entry, and what you said that is worth
    remembering becomes a fact, a preference or a context, with your words as its proof. What a model
    says and you did not is not remembered. It can be interrupted at any time, and goes on where it was.

    Examples:
      manent consolidate work --dry-run
      manent consolidate --all --inbox && manent memory inbox
    [exit 0]
    ");
}

#[test]
fn help_of_config() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["config", "--help"]), @"
    Show what can be set, what it is set to, and where

    Usage: manent config [OPTIONS]

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
fn help_of_compact() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["compact", "--help"]), @"
    Make what a model sees of a session smaller; nothing is removed

    Usage: manent compact [OPTIONS] <KEY>

    Arguments:
      <KEY>  The session

    Options:
          --home <DIR>        The directory of the store [default: manent in the data directory of the
                              user] [env: MANENT_HOME]
          --undo              Take the last compaction back
          --json              Print JSON, one object a line
          --max-tokens <N>    What a context may take; it is made a good deal smaller than that
                              [default: what `manent config` says]
          --color <WHEN>      When to use colour [default: auto] [possible values: auto, always, never]
          --max-messages <N>  How many messages it may have [default: what `manent config` says]
      -q, --quiet             No notes: only what was asked for and what went wrong
          --with-model        Have the model of `manent config` sum up; else the sentences that name
                              most are quoted
          --model <NAME>      The model [default: what `manent config` says]
      -v, --verbose           Say more
          --any-filesystem    Write also on network and unknown file systems, where appends and locks
                              may not be safe [env: MANENT_ANY_FILESYSTEM]
          --provider <WHO>    Who serves it: auto, ollama, openai or recall
          --wait <TIME>       How long to wait if another process is writing [default: 5s]
      -h, --help              Print help
    [exit 0]
    ");
}

#[test]
fn help_of_the_inbox() {
    insta::assert_snapshot!(TestEnvironment::new().mem(&["accept", "--help"]), @"
    Remember what waits in the inbox

    Usage: manent memory accept [OPTIONS] <ID>...

    Arguments:
      <ID>...  The items

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
