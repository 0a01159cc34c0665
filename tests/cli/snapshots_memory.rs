//! What `manent memory` says, to the letter.

use unicode_width::UnicodeWidthStr;

use crate::support::terminal::on_wide_terminal;
use crate::support::{Output, TestEnvironment};

/// A session, and items of every kind and from everywhere.
fn scene() -> TestEnvironment {
    let env = TestEnvironment::new();
    let lines = [
        r#"{"role":"user","content":"I prefer tabs over spaces"}"#,
        r#"{"role":"assistant","content":"noted: you hate spaces"}"#,
    ];
    env.manent_given(&["append", "work", "--jsonl"], lines.join("\n")).assert_code(0);
    let from = |rest: &[&'static str]| [&["--from", "model", "--session", "work"], rest].concat();
    let add = |text: &str, rest: &[&str]| env.remember(&[&[text], rest].concat());
    add("prefers tabs", &from(&["--seq", "1", "--quote", "prefer tabs", "--model", "m-1"]));
    add("hates spaces", &from(&["--seq", "2", "--quote", "hate spaces"]));
    add("answers in French", &["--kind", "pref", "--tag", "language", "--tag", "style"]);
    add("lives in Lyon", &[]);
    add("lives in Berlin", &["--replaces", "4"]);
    add("moving house\nuntil Friday", &["--kind", "context"]);
    env
}

/// The output without the days on which it was made.
fn steady(output: &Output) -> String {
    let text = output.to_string();
    let is_day = |word: &str| {
        let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        ["0000-00-00", "00:00"].contains(&shape.as_str())
    };
    let words = text.split_inclusive([' ', '\n']).map(|word| {
        let (bare, end) = word.split_at(word.trim_end_matches([' ', '\n']).len());
        if is_day(bare) {
            format!("[{}]{end}", if bare.len() > 5 { "day" } else { "time" })
        } else {
            word.to_owned()
        }
    });
    words.collect()
}

#[test]
fn list_search_and_select_say_what_there_is() {
    let env = scene();
    insta::assert_snapshot!(steady(&env.mem(&["list"])), @"
    6  context  [day]  moving house until Friday
    5  fact     [day]  lives in Berlin
    3  pref     [day]  answers in French  #language  #style
    2  fact     [day]  hates spaces
    1  fact     [day]  prefers tabs
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["list", "--replaced"])), @"
    4  fact     [day]  lives in Lyon
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["list", "--kind", "daily"])), @"
    [stderr]
    note: none of the 5 items is asked for here
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["search", "tabs"])), @"
    1  fact     [day]  prefers tabs
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["search", "spaces", "zebra"])), @"
    2  fact     [day]  hates spaces
    [stderr]
    note: none of these items holds all the words; they fit best
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["search", "zebra"])), @"
    [stderr]
    note: nothing found
    [exit 4]
    ");
    let found = env.mem(&["search", "house", "--json"]).to_string();
    insta::assert_snapshot!(found.split(",\"score\":").next().unwrap(), @r#"{"seq":6,"ts":"[time]","kind":"context","id":6,"idempotency_key":"[id]","source":{"who":"user"},"content":"moving house\nuntil Friday","crc":"[crc]","snippet":"moving house until Friday""#);
    insta::assert_snapshot!(steady(&TestEnvironment::new().mem(&["list"])), @"
    [stderr]
    note: nothing is remembered; `manent memory add TEXT` changes that
    [exit 0]
    ");
}

#[test]
fn why_tells_the_whole_story() {
    let env = scene();
    insta::assert_snapshot!(steady(&env.mem(&["why", "1"])), @"
    1  fact  [day] [time]
    prefers tabs

    from      model (m-1)
    session   work, record 1
    quote     “prefer tabs”
    rests on  what the user said: the quote is there
    recalled  never

    >    1  user       I prefer tabs over spaces
         2  assistant  noted: you hate spaces
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["why", "2"])), @"
    2  fact  [day] [time]
    hates spaces

    from      model
    session   work, record 2
    quote     “hate spaces”
    rests on  what somebody else than the user said: the quote is there
    recalled  never

         1  user       I prefer tabs over spaces
    >    2  assistant  noted: you hate spaces
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["why", "4"])), @"
    4  fact  [day] [time]
    lives in Lyon

    from      user
    rests on  the user, who asked for it to be remembered
    replaced  by 5
    recalled  never
    [exit 0]
    ");
    insta::assert_snapshot!(steady(&env.mem(&["why", "6"])), @"
    6  context  [day] [time]
    moving house
    until Friday

    from      user
    rests on  the user, who asked for it to be remembered
    recalled  never
    [exit 0]
    ");
    insta::assert_snapshot!(env.mem(&["why", "1", "--json"]), @r#"
    {"item":{"seq":1,"ts":"[time]","kind":"fact","id":1,"idempotency_key":"[id]","source":{"who":"model","session":"work","session_id":"[id]","quote":"prefer tabs","model":"m-1","turns":[1,1]},"content":"prefers tabs","crc":"[crc]"},"active":true,"replaced_by":[],"grounds":"quoted","quoted_seq":1,"grounded":true,"session":"work","passage":[{"seq":1,"role":"user","ts":"[time]","content":"I prefer tabs over spaces","source":true},{"seq":2,"role":"assistant","ts":"[time]","content":"noted: you hate spaces","source":false}],"recalls":0,"last_recall":""}
    [exit 0]
    "#);
}

#[test]
fn forget_audit_and_compact_tell_what_they_did() {
    let env = scene();
    insta::assert_snapshot!(env.mem(&["audit"]), @"
    5 active, 1 replaced
    say what another says                  0   0.0 %
    nearly say what another says           0   0.0 %
    may contradict another                 0   0.0 %
    rest on no word of the user            1  20.0 %  2
    of these, quote somebody else          1  20.0 %  2
    look like credentials                  0   0.0 %
    were never put into a context          5 100.0 %  6 5 3 2 1
    have any flaw above but the last       1  20.0 %
    `manent memory why ID` shows where one came from; `manent memory forget ID` lets it go
    [exit 0]
    ");
    insta::assert_snapshot!(env.mem(&["forget", "5", "6", "-v"]), @"
    forgotten 5
    forgotten 6
    [stderr]
    note: item 4, which it had replaced, is active again; `manent memory forget 4` if not
    note: `manent memory compact` removes what is forgotten from the file
    [exit 0]
    ");
    insta::assert_snapshot!(env.mem(&["forget", "3", "99"]), @"
    [stderr]
    error: there is no item 99 in the memory; `manent memory list` shows what is there; nothing was forgotten
    [exit 4]
    ");
    let compacted = env.mem(&["compact"]).to_string();
    insta::assert_snapshot!(compacted.split(';').next().unwrap(), @"removed 2 forgotten items");
    insta::assert_snapshot!(env.mem(&["compact"]), @"
    nothing to remove: nothing in the file is forgotten
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    ok       work  2 records
    ok       the memory  5 records
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["repair"]), @"
    sound    work
    sound    the memory
    [exit 0]
    ");
}

/// A table that does not fit makes two lines of one, and nobody can read it.
#[test]
fn lists_fit_the_terminal_whatever_is_remembered() {
    let env = TestEnvironment::new();
    let tag = "x".repeat(90);
    for text in
        ["needle long ".repeat(40).as_str(), &"needle 日本語".repeat(30), &"needle 👩\u{200d}👧 ".repeat(30)]
    {
        env.remember(&[text, "--tag", &tag, "--tag", "日本"]);
    }
    env.remember(&["\n\n needle\twith\r\nlines and \u{1b}]0;title\u{7}"]);
    for columns in [80, 40] {
        for args in [&["memory", "list"][..], &["memory", "search", "needle"]] {
            let screen = on_wide_terminal(&env, &[args, &["--color", "never"]].concat(), columns);
            assert_eq!(screen.code, Some(0));
            assert_eq!(screen.text().lines().count(), 4, "{}", screen.text());
            for line in screen.text().lines() {
                assert!(
                    line.width() <= usize::from(columns),
                    "{} columns of {columns}: {line}",
                    line.width()
                );
                assert!(line.contains("needle"), "{line}");
            }
        }
    }
}

#[test]
fn help_of_memory() {
    insta::assert_snapshot!(TestEnvironment::new().mem(&["--help"]), @"
    What is remembered across sessions: add, forget, list, search, and where it came from

    Usage: manent memory [OPTIONS] <COMMAND>

    Commands:
      add      Remember something
      forget   Forget items; `compact` then removes them from the file
      list     List what is remembered, newest first
      search   Find items by their words
      why      Show where an item came from, with what was said around it
      select   Show what a model would be given for a question
      audit    Look for duplicates, contradictions, secrets, and what rests on nothing
      compact  Rewrite the file without what was forgotten
      inbox    Show what was proposed to be remembered and waits for you
      accept   Remember what waits in the inbox
      reject   Throw away what waits in the inbox
      help     Print this message or the help of the given subcommand(s)

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
    let add = TestEnvironment::new().mem(&["add", "--help"]).stdout();
    let examples = add.split("Examples:\n").nth(1).unwrap().lines().map(str::trim).collect::<Vec<_>>();
    insta::assert_snapshot!(examples.join("\n"), @"
    manent memory add 'the staging database is read-only on Sundays' --tag ops
    manent memory add --kind pref 'answers in French'
    manent memory add 'lives in Berlin' --replaces 12
    manent memory add 'prefers tabs' --from model --session work --seq 3 --quote 'I prefer tabs'
    ");
}
