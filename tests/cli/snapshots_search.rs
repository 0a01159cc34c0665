//! What `search`, `stats`, `reindex` and `doctor` say, to the letter.

use crate::support::terminal::{on_terminal, on_wide_terminal};
use crate::support::{Output, TestEnvironment, records};

/// Two live sessions and an archived one, all said at the same time.
fn kitchen() -> TestEnvironment {
    kitchen_at(&format!(r#""ts":"{}","#, records::TS))
}

/// The same, said at another time; now, if that is empty.
fn kitchen_at(ts: &str) -> TestEnvironment {
    let env = TestEnvironment::new();
    let say = |key: &str, role: &str, content: &str| {
        let line = format!(r#"{{{ts}"role":"{role}","content":{}}}"#, serde_json::json!(content));
        env.manent_given(&["append", "--jsonl", "--", key], line).assert_code(0);
    };
    say("kitchen", "user", "remember the milk, the eggs and the flour");
    let answer = "Noted: milk, eggs, flour. I will not remember anything else today, I am afraid.";
    say("kitchen", "assistant", answer);
    say("old garden", "user", "the milk thistle has grown");
    say("-notes", "user", "nothing about food");
    env.done(&["archive", "old garden"]);
    env
}

/// A number that depends on how the index is written.
fn without_index_size(output: &Output) -> String {
    let text = output.to_string();
    let lines = text.lines().map(|line| match line.split_once("of sessions, ") {
        Some((before, _)) => format!("{before}of sessions, [size] of index"),
        None if line.trim_start().starts_with("index ") => "  index [size]".to_owned(),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn search_shows_what_was_said_by_session_and_how_to_open_it() {
    let env = kitchen();
    insta::assert_snapshot!(env.manent(&["search", "milk"]), @"
    old garden  the milk thistle has grown  archived  2026-11-15
      #1  user  2026-11-15 18:07  the milk thistle has grown
      manent show @[id] --from 1

    kitchen  remember the milk, the eggs and the flour  2026-11-15
      #1  user       2026-11-15 18:07  remember the milk, the eggs and the flour
      #2  assistant  2026-11-15 18:07  Noted: milk, eggs, flour. I will not remember anything else today, I am afraid.
      manent show kitchen --from 1
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["search", "food"]), @"
    -notes  nothing about food  2026-11-15
      #1  user  2026-11-15 18:07  nothing about food
      manent show --from 1 -- -notes
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["search", "milk", "--limit", "1"]), @"
    old garden  the milk thistle has grown  archived  2026-11-15
      #1  user  2026-11-15 18:07  the milk thistle has grown
      manent show @[id] --from 1
    [stderr]
    note: 1 of 3; --limit N for more
    [exit 0]
    ");
}

#[test]
fn search_says_when_nothing_or_not_all_of_it_is_found() {
    let env = kitchen();
    insta::assert_snapshot!(env.manent(&["search", "where", "is", "the", "thistle", "soup"]), @"
    old garden  the milk thistle has grown  archived  2026-11-15
      #1  user  2026-11-15 18:07  the milk thistle has grown
      manent show @[id] --from 1
    [stderr]
    note: none of these turns holds all the words; they fit best
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["search", "unheard"]), @"
    [stderr]
    note: nothing found
    [exit 4]
    ");
    insta::assert_snapshot!(env.manent(&["search", "-q", "unheard"]), @"[exit 4]");
    insta::assert_snapshot!(env.manent(&["search"]), @"
    [stderr]
    error: there is nothing to look for; give a word, or a filter such as since:7d or role:user
    [exit 2]
    ");
    insta::assert_snapshot!(env.manent(&["search", "--", "-milk"]), @"
    [stderr]
    error: that only says what to leave out; add a word to look for, or a filter such as since:7d
    [exit 2]
    ");
    insta::assert_snapshot!(env.manent(&["search", "milk", "since:soon"]), @r#"
    [stderr]
    error: since: "soon" is no point in time; write 7d, 2026-11-01, 2026-11-01T10:00, today or yesterday; or put it in quotes to look for the words
    [exit 2]
    "#);
    insta::assert_snapshot!(env.manent(&["search", "milk", "--session", "kitchn"]), @r#"
    [stderr]
    error: there is no session "kitchn" in [home]; `manent sessions` lists what is there
    [exit 4]
    "#);
}

#[test]
fn search_json_has_the_documented_fields() {
    let env = kitchen();
    let output = env.manent(&["search", "thistle", "--json"]);
    let text = output.to_string();
    let (before, score) = text.split_once(r#""score":"#).unwrap();
    let digits = score.find([',', '}']).unwrap();
    assert!(score[..digits].parse::<f64>().unwrap() > 0.0, "{text}");
    insta::assert_snapshot!(format!("{before}\"score\":[score]{}", &score[digits..]), @r#"
    {"session":"old garden","id":"[id]","seq":1,"role":"user","ts":"[time]","snippet":"the milk thistle has grown","score":[score],"passage":1}
    [exit 0]
    "#);
}

#[test]
fn search_on_a_terminal_marks_what_it_found() {
    let env = kitchen();
    let shown = on_terminal(&env, &["search", "--color", "always", "flour", "role:user"]);
    let marked = "remember the milk, the eggs and the \u{1b}[1m\u{1b}[31mflour\u{1b}[0m";
    assert!(shown.text().contains(marked), "{:?}", shown.text());
    let plain = on_terminal(&env, &["search", "--color", "never", "flour", "role:user"]);
    assert!(!plain.text().contains('\u{1b}'), "{:?}", plain.text());
}

/// Whoever reads on a narrow terminal sees one hit in two lines, what was found included, and no line that wraps.
#[test]
fn search_keeps_to_the_width_of_the_terminal() {
    let env = TestEnvironment::new();
    let long = format!("{} needle {}", "before ".repeat(15), "after ".repeat(15));
    env.append("work", &long);
    env.append("a key that is as long as a key can be, and then longer than that", "needle");
    for columns in [40, 80, 120, 200] {
        let shown = on_wide_terminal(&env, &["search", "--color", "never", "needle"], columns).text();
        for line in shown.lines().filter(|line| !line.starts_with("  manent show")) {
            assert!(line.trim_end().chars().count() <= usize::from(columns), "{columns}: {line:?}");
        }
        assert_eq!(shown.lines().filter(|line| line.contains("needle")).count(), 3, "{columns}: {shown}");
        let lines = shown.lines().filter(|line| line.contains("before")).count();
        assert_eq!(lines, 2, "the title and the hit: {shown}");
    }
}

#[test]
fn stats_count_what_there_is_and_say_what_to_put_away() {
    let env = kitchen_at("");
    let old = r#"{"ts":"2024-02-03T04:05:06Z","role":"user","content":"long ago"}"#;
    env.manent_given(&["append", "--jsonl", "long ago"], old).assert_code(0);
    env.append("gone", "away and never seen again");
    env.done(&["rm", "gone"]);
    let packed = &env.listed("archived")[0]["bytes"];
    let output = env.manent(&["stats"]);
    output.assert_code(0);
    // The days move on.
    let is_day = |line: &&str| line.starts_with("  20");
    let days = output.stdout().lines().filter(is_day).count();
    assert_eq!(days, 14, "{output}");
    let text = without_index_size(&output);
    let text: Vec<&str> = text.lines().filter(|line| !is_day(line)).collect();
    let today = text.iter().find_map(|line| line.strip_prefix("  gone  278 B  last written ")).unwrap();
    let text = text.join("\n").replace(today, "[today]").replace(&format!("{packed} B"), "... B");
    insta::assert_snapshot!(text, @"
              SESSIONS  TURNS  TOKENS     SIZE
    live             3      4      38   1001 B
    archived         1      1       7    ... B
    trash            1      1       7    278 B
    all              5      6      52  1.5 KiB

    Turns by role
      user       5
      assistant  1

    Turns a day, the last 14 days

    Largest sessions
      kitchen     467 B  2 turns
      gone        278 B  1 turn, in the trash
      -notes      273 B  1 turn
      long ago    261 B  1 turn
      old garden  ... B  1 turn, archived

    Storage
      sessions  1.5 KiB
      index [size]

    Could be archived: 1 session not written for 30 days, 261 B
      long ago  261 B  last written 2024-02-03
      manent archive 'long ago'

    Could be removed for good: 1 session in the trash, 278 B
      gone  278 B  last written [today]
      manent rm --purge @[id]
    [exit 0]
    ");
}

/// The busiest day, today, has the longest bar.
#[test]
fn stats_draw_a_bar_for_each_day() {
    let env = TestEnvironment::new();
    env.append("a", "today");
    let output = env.manent(&["stats", "--days", "3"]);
    let days: Vec<String> =
        output.stdout().lines().filter(|line| line.starts_with("  20")).map(str::to_owned).collect();
    assert_eq!(days.len(), 3, "{output}");
    // Midnight may have passed since.
    let bars: Vec<&String> = days.iter().filter(|day| day.ends_with(" 1")).collect();
    assert_eq!(bars.len(), 1, "{output}");
    assert!(bars[0].contains(&"#".repeat(40)), "{output}");
    let blocks = on_terminal(&env, &["stats", "--days", "2"]).text();
    assert!(blocks.contains(&"█".repeat(20)), "{blocks}");
}

#[test]
fn stats_json_is_one_object() {
    let env = kitchen();
    let output = env.manent(&["stats", "--json", "--days", "1"]);
    output.assert_code(0);
    let mut stats: serde_json::Value = serde_json::from_slice(&output.stdout_bytes).unwrap();
    assert!(stats["storage"]["index"].as_u64().unwrap() > 0, "{output}");
    for field in ["days", "largest", "storage", "places", "archivable", "purgeable"] {
        assert!(!stats[field].take().is_null(), "{field} is there: {output}");
    }
    stats["total"]["bytes"].take();
    insta::assert_snapshot!(stats, @r#"{"total":{"sessions":3,"turns":4,"tokens":43,"bytes":null},"places":null,"roles":{"assistant":1,"user":3},"days":null,"largest":null,"storage":null,"archivable":null,"purgeable":null}"#);
}

#[test]
fn reindex_says_what_it_made() {
    let env = TestEnvironment::new();
    env.plant("work", records::session("work", &["one", "two"]));
    insta::assert_snapshot!(without_index_size(&env.manent(&["reindex"])), @"
    indexed 1 session, 2 turns: 314 B of sessions, [size] of index
    [exit 0]
    ");
    let output = env.manent(&["reindex", "--json"]);
    let made: serde_json::Value = serde_json::from_slice(&output.stdout_bytes).unwrap();
    assert_eq!((&made["sessions"], &made["turns"]), (&1.into(), &2.into()), "{output}");
    assert_eq!(made["log_bytes"], env.bytes("work").len(), "{output}");
    assert!(made["index_bytes"].as_u64().unwrap() > 0, "{output}");
}

/// The disk and the index differ from machine to machine and from day to day.
fn steady(output: &Output) -> String {
    let text = output.to_string();
    let lines = text.lines().map(|line| match line.get(..17).map(str::trim_end) {
        Some("ok    disk") => "ok    disk         [free]".to_owned(),
        // A session that was written a moment ago is looked at again, so that it counts as behind.
        Some("ok    index") => "ok    index        [home]/index, [size], written [time], …".to_owned(),
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn doctor_says_how_everything_is() {
    let env = TestEnvironment::in_memory();
    insta::assert_snapshot!(env.manent(&["doctor"]), @"
    warn  store        [home] does not exist yet; the first `manent append KEY TEXT` makes it
    [exit 0]
    ");
    env.append("work", "one");
    env.plant("hurt", b"{\"seq\":1,\"ts\":\"\",\"role\":\"user\",\"content\":\"x\",\"crc\":\"00000000\"}\n");
    env.done(&["reindex"]);
    insta::assert_snapshot!(steady(&env.manent(&["doctor"])), @"
    ok    store        [home], yours alone
    ok    directory    [home]/sessions, yours alone
    ok    file system  local
    ok    disk         [free]
    ok    index        [home]/index, [size], written [time], …
    ok    sessions     2 live, 0 archived, 0 in the trash; 1 with something wrong
    bad   session      hurt is damaged; `manent verify hurt` tells more, `manent repair hurt` acknowledges it
    ok    clock        [time]
    [exit 3]
    ");
    let json = env.manent(&["doctor", "--json"]).to_string();
    insta::assert_snapshot!(json.lines().filter(|line| !line.contains(r#""ok""#)).collect::<Vec<_>>().join("\n"), @r#"
    {"health":"bad","what":"session","found":"hurt is damaged","do":"`manent verify hurt` tells more, `manent repair hurt` acknowledges it"}
    [exit 3]
    "#);
}

/// A session that lost its end: every command that could notice says so, until somebody has acknowledged it.
#[test]
fn a_session_that_became_shorter_is_named_until_it_is_acknowledged() {
    let env = TestEnvironment::in_memory();
    for text in ["one", "two"] {
        env.append("work", text);
    }
    let shorter = env.bytes("work");
    env.append("work", "three");
    env.done(&["reindex"]);
    env.plant("work", shorter);
    insta::assert_snapshot!(env.manent(&["sessions"]), @"
    SESSION  TURNS  UPDATED                    SIZE  TITLE
    work         2  [time]  345 B  one
    [stderr]
    warning: work: shorter than last seen: it had records up to 3; `manent verify` tells more
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    damaged  work  2 records
               shorter than last seen: record 3 and 91 bytes are missing
    [exit 3]
    ");
    insta::assert_snapshot!(steady(&env.manent(&["doctor"])), @"
    ok    store        [home], yours alone
    ok    directory    [home]/sessions, yours alone
    ok    file system  local
    ok    disk         [free]
    ok    index        [home]/index, [size], written [time], …
    ok    sessions     1 live, 0 archived, 0 in the trash; 1 with something wrong
    bad   session      work is shorter than it was: it had records up to 3; `manent verify work` tells more; bring it back from a backup, or `manent repair work` takes it as it is
    ok    clock        [time]
    [exit 3]
    ");
    insta::assert_snapshot!(env.manent(&["repair"]), @"
    repaired work
               acknowledged: shorter than last seen: record 3 and 91 bytes are missing
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["verify"]), @"
    ok       work  2 records
    [exit 0]
    ");
    insta::assert_snapshot!(env.manent(&["sessions"]), @"
    SESSION  TURNS  UPDATED                    SIZE  TITLE
    work         2  [time]  345 B  one
    [exit 0]
    ");
}
