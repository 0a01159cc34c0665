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

#[test]
fn help_of_export() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["export", "--help"]), @"
    Write a session as a transcript to read, or as its records, to a file or elsewhere

    Usage: manent export [OPTIONS] <KEY>

    Arguments:
      <KEY>  The session: its key (the live one, else the newest archived), or @ and the beginning of
             its id

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --to <FORM>       What to write: a transcript to read, or the records, one a line [default:
                            md] [possible values: md, json]
          --json            Print JSON, one object a line
      -o, --output <FILE>   Write to this file, whole or not at all [default: standard output]
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
          --force           Replace the file if it is there
      -q, --quiet           No notes: only what was asked for and what went wrong
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
      -h, --help            Print help

    Examples:
      manent export work -o work.md
      manent export work --to json | jq -r .content
    [exit 0]
    ");
}

#[test]
fn help_of_train() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["train", "--help"]), @"
    Make data sets of what skills did, to train models on

    Usage: manent train [OPTIONS] --format <FORMAT> --output <DIR>

    Options:
          --format <FORMAT>     For whom; trl-dpo takes pairs, kto verdicts, the others answers that
                                were found good [possible values: openai, trl-sft, trl-dpo, kto,
                                sharegpt]
          --home <DIR>          The directory of the store [default: manent in the data directory of the
                                user] [env: MANENT_HOME]
          --json                Print JSON, one object a line
      -o, --output <DIR>        Where: a directory that is new or empty
          --color <WHEN>        When to use colour [default: auto] [possible values: auto, always,
                                never]
          --since <TIME>        Only runs since: 7d, 12h, 2026-11-01
      -q, --quiet               No notes: only what was asked for and what went wrong
          --until <TIME>        Only runs until: 7d, 2026-11-01 (that day included)
          --project <DIR>       Only runs in this project, or below it
      -v, --verbose             Say more
          --any-filesystem      Write also on network and unknown file systems, where appends and locks
                                may not be safe [env: MANENT_ANY_FILESYSTEM]
          --skill <NAME>        Only runs of this skill
          --model <NAME>        Only attempts of this model
          --validation <SHARE>  How much is for validation, about: whole projects, else whole sessions
                                [default: 10%]
          --same-model-only     Only pairs of one model with itself
          --with-memory         Leave what was remembered in prompts, where nothing of it was forgotten
                                since
          --summaries           Also attempts of which only a summary is known; what later attempts were
                                told is put together
          --force               Replace the data set in that directory
      -h, --help                Print help

    Only what was checked is taken: attempts that were verified; for trl-dpo and kto, failed ones too.
    A pair is two answers to the very same prompt. An answer whose prompt tells of a failure is a
    repair, in files of its own. All rows of a project are on one side, training or validation.
    Likely credentials and names in home directories are replaced. Read it before you publish it.

    Examples:
      manent train --format trl-sft -o data
      manent train --format trl-dpo -o pairs --skill fix --same-model-only
      manent train --format openai -o tuned --since 30d --validation 20% --force
    [exit 0]
    ");
}

#[test]
fn help_of_retro() {
    insta::assert_snapshot!(TestEnvironment::new().manent(&["retro", "--help"]), @"
    Look back on what skills did: how often they succeed, what goes wrong, what changed

    Usage: manent retro [OPTIONS]

    Options:
          --home <DIR>      The directory of the store [default: manent in the data directory of the
                            user] [env: MANENT_HOME]
          --since <TIME>    Only runs since: 30d, 2026-11-01. They are compared with those of as long
                            before
          --json            Print JSON, one object a line
          --until <TIME>    Only runs until: 7d, 2026-11-01 (that day included)
          --color <WHEN>    When to use colour [default: auto] [possible values: auto, always, never]
          --project <PATH>  Only in this project, or below it: its path, or the end of it; '.' is the
                            current one
      -q, --quiet           No notes: only what was asked for and what went wrong
          --skill <NAME>    Only of this skill
          --session <KEY>   Only of this session
      -v, --verbose         Say more
          --any-filesystem  Write also on network and unknown file systems, where appends and locks may
                            not be safe [env: MANENT_ANY_FILESYSTEM]
          --md              Print Markdown
          --html <FILE>     Write a page with charts to this file (-: standard output): one file for any
                            browser, without a network
          --remember        Keep what has enough runs behind it in the memory; said again, it replaces
                            what was said before
          --with-model      Have a model tell what stands out and propose changes to skills; nothing is
                            applied
          --every <TIME>    Stay, and keep a report in the store up to date: look this often whether
                            there are new runs
          --model <NAME>    The model [default: what `manent config` says]
          --provider <WHO>  Who serves it: auto, ollama, openai or recall
          --wait <TIME>     How long to wait if another process is writing [default: 5s]
      -h, --help            Print help

    Nothing is concluded from fewer than 5 runs. Two rates are called different only if a test says so,
    corrected for all that was compared; each statement names runs that it rests on. Runs of unknown
    outcome are neither successes nor failures: they are counted apart.

    A chat, and --every in a process of its own, make a report of the last 30 days once a day if there
    are new runs, and keep it: retro/latest.html and retro/latest.json in the store. However many
    processes there are, one makes it. `manent config` has the settings (retro.*).

    Examples:
      manent retro --since 30d
      manent retro --since 2026-11 --html november.html
      manent retro --skill review --json | jq '.statements[].text'
      manent retro --every 1d --remember
    [exit 0]
    ");
}
