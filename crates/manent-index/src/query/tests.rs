//! What would break for a user if a query were read otherwise.

use super::{Clause, Phrase, QUERY_BYTES_MAX, QUERY_CLAUSES_MAX, Query, QueryError, SessionMatch};

/// 2026-11-15T18:07:00Z
const NOW: i64 = 1_794_766_020_000;
/// 2026-11-15
const TODAY: i64 = 1_794_700_800_000;
const DAY: i64 = 86_400_000;

fn query(text: &str) -> Query {
    Query::parse(text, NOW).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn shown(clauses: &[Clause]) -> String {
    let phrase = |phrase: &Phrase| phrase.terms.join(" ") + if phrase.prefix { "*" } else { "" };
    let clause = |clause: &Clause| clause.any.iter().map(phrase).collect::<Vec<_>>().join(" | ");
    clauses.iter().map(clause).collect::<Vec<_>>().join(", ")
}

/// The clauses that must occur, and after a minus those that must not.
fn read(text: &str) -> String {
    let query = query(text);
    let not = shown(&query.not);
    if not.is_empty() { shown(&query.must) } else { format!("{} - {not}", shown(&query.must)) }
}

#[test]
fn words_phrases_beginnings_and_exclusions() {
    let cases = [
        ("Café menu", "cafe, menu"),
        ("\"to the letter\" x", "to the letter, x"),
        ("“to the letter” x", "to the letter, x"),
        ("\"open end -x role:user", "open end x role user"),
        ("migrat*", "migrat*"),
        ("\"data bas*\" x", "data bas*, x"),
        ("\"data bas\"* x", "data bas*, x"),
        ("foo -bar", "foo - bar"),
        ("foo -\"not this\" -b*", "foo - not this, b*"),
        ("well-known foo_bar src/main.rs", "well known, foo bar, src main rs"),
        ("don't", "don t"),
        ("数据库 -会话", "数 据 库 - 会 话"),
        ("foo foo \"foo\"", "foo"),
        ("\"well\"-known", "well, known"),
    ];
    for (typed, expected) in cases {
        assert_eq!(read(typed), expected, "{typed}");
    }
}

/// Text is pasted from logs, code and chats; whatever it holds, its words are looked for.
#[test]
fn signs_that_mean_nothing_are_ignored() {
    let cases = [
        ("- foo -- bar ---", "foo, bar"),
        ("--force", "force"),
        ("!!! 🦀 foo", "foo"),
        ("foo \"\" \"!\" -!!!", "foo"),
        ("print(\"hello world\")", "print hello, world"),
        ("a\0b\u{1b}[31mc\u{7f}d", "a, b, 31mc, d"),
        ("^(.*)\\d+[a-z]{2}$", "d a z 2"),
        ("C:\\dir\\file", "c dir file"),
        ("**bold** *so* * foo*,", "bold, so, foo*"),
        ("https://example.com/a?b=c", "https example com a b c"),
        ("foo:bar since: role: session:", "foo bar, since, role, session"),
        ("NOT x OR", "not, x, or"),
    ];
    for (typed, expected) in cases {
        assert_eq!(read(typed), expected, "{typed:?}");
    }
}

#[test]
fn or_offers_a_choice_where_it_stands_between_two() {
    let cases = [
        ("red OR green apple", "red | green, apple"),
        ("a OR b OR \"c d\"", "a | b | c d"),
        ("a AND b", "a, b"),
        ("red or green", "red, or, green"),
        ("OR a", "or, a"),
        ("a OR -b", "a, or - b"),
        ("-a OR b", "or, b - a"),
        ("a \"OR\" b", "a, or, b"),
        ("a OR OR b", "a, or, b"),
        ("数 OR 据", "数 | 据"),
        ("FOR YOUR EYES OR NOSE AND EARS", "for, your, eyes, or, nose, and, ears"),
    ];
    for (typed, expected) in cases {
        assert_eq!(read(typed), expected, "{typed}");
    }
}

#[test]
fn roles_are_any_of_those_given() {
    let some = query("x role:user,Tool Role:assistant -role:system");
    assert_eq!(some.roles, ["user", "tool", "assistant"]);
    assert_eq!(some.not_roles, ["system"]);
    assert_eq!(query("role:\"odd role\"").roles, ["odd role"]);
}

#[test]
fn sessions_are_named_as_everywhere_else() {
    let some = query(
        "session:telegram:alice session:\"a key, with “spaces\" session:tele* session:@0193 -session:@ab",
    );
    let Query { sessions, not_sessions, .. } = some;
    assert_eq!(
        sessions,
        [
            SessionMatch::Key("telegram:alice".into()),
            SessionMatch::Key("a key, with ".into()),
            SessionMatch::KeyPrefix("tele".into()),
            SessionMatch::Id("0193".into()),
        ]
    );
    assert_eq!(not_sessions, [SessionMatch::Id("ab".into())]);
    assert_eq!(query("session:\"@a*\"").sessions, [SessionMatch::Key("@a*".into())], "quotes make it a key");
    assert_eq!(query("session:\"a b\"*").sessions, [SessionMatch::KeyPrefix("a b".into())]);
    assert_eq!(query("session:@").sessions, [SessionMatch::Key("@".into())], "not every id there is");
}

#[test]
fn times_include_the_day_that_is_named() {
    let bounds = |text: &str| (query(text).since_ms, query(text).until_ms);
    assert_eq!(bounds("since:7d"), (Some(NOW - 7 * DAY), None));
    assert_eq!(bounds("after:2026-11-15"), (Some(TODAY), None));
    assert_eq!(bounds("since:2026-11-15T10:00"), (Some(TODAY + 10 * 3_600_000), None));
    assert_eq!(bounds("since:\"2026-11-15 10:00\""), (Some(TODAY + 10 * 3_600_000), None));
    assert_eq!(bounds("since:yesterday until:yesterday"), (Some(TODAY - DAY), Some(TODAY)), "that one day");
    assert_eq!(bounds("before:yesterday"), (None, Some(TODAY - DAY)));
    assert_eq!(bounds("before:2026-11-15T10:00"), bounds("until:2026-11-15T10:00"), "a point is no day");
    assert_eq!(
        bounds("since:7d since:today until:today until:1h"),
        (Some(TODAY), Some(NOW - 3_600_000)),
        "all hold"
    );
    assert_eq!(bounds("-since:today"), bounds("before:today"));
    assert_eq!(bounds("-until:yesterday"), bounds("since:today"));
    assert_eq!(bounds("-before:today"), bounds("since:today"));
}

/// A query that matches nothing exactly is repeated by its words, but not one with a phrase or an exclusion.
#[test]
fn only_bare_words_may_be_looked_for_one_by_one() {
    for plain in ["what did we decide?", "foo_bar x", "database since:7d role:user", "NOT SO"] {
        assert!(query(plain).plain, "{plain}");
    }
    for exact in ["\"a b\"", "a -b", "a*", "a OR b", "a \"b\"", "role:user", "a AND b"] {
        assert!(!query(exact).plain, "{exact}");
    }
    assert_eq!(query("What's foo_bar? role:user -x \"y\"").typed, ["What's", "foo_bar?"]);
    assert!(query("what broke").is_question() && Query::of_question("migration").unwrap().is_question());
    assert!(!query("migration").is_question(), "a single word is looked for as it is");
}

#[test]
fn a_query_that_finds_everything_is_refused() {
    let error = |text: &str| Query::parse(text, NOW).expect_err(text);
    for nothing in ["", "  \n", "!!!", "\"\"", "-", "--", "-\"", "*", "\0", "🦀", "-!", "role:,"] {
        assert_eq!(error(nothing), QueryError::Nothing, "{nothing:?}");
    }
    for without in ["-a", "-\"a b\" -c*"] {
        assert_eq!(error(without), QueryError::OnlyExcluded);
    }
    for enough in ["-a role:user", "-role:tool", "since:7d", "session:x -a"] {
        assert!(Query::parse(enough, NOW).is_ok(), "{enough}");
    }
}

#[test]
fn mistakes_are_named_without_repeating_what_was_pasted() {
    let hostile = format!("x since:\u{1b}]0;{}", "y".repeat(3000));
    assert!(matches!(Query::parse(&hostile, NOW), Ok(_) | Err(QueryError::Time { .. })));
    for wrong in
        ["since:monday", "until:2026-13-01", "x before:soon", &*format!("after:é{}", "y".repeat(3000))]
    {
        let error = Query::parse(wrong, NOW).expect_err(wrong);
        assert!(matches!(error, QueryError::Time { .. }), "{error:?}");
        let message = error.to_string();
        assert!(
            message.len() < 250 && message.contains("2026-11-01") && message.contains("quotes"),
            "{message}"
        );
    }
    assert_eq!(
        Query::parse("since:monday", NOW).unwrap_err().to_string(),
        "since: \"monday\" is no point in time; write 7d, 2026-11-01, 2026-11-01T10:00, today or yesterday; or put it \
         in quotes to look for the words"
    );
}

#[test]
fn size_has_limits_that_are_named() {
    assert!(Query::parse(&"x".repeat(QUERY_BYTES_MAX), NOW).is_ok());
    let spaces = " ".repeat(1 << 20);
    assert_eq!(read(&format!("{spaces}x{spaces}")), "x", "spaces around do not count");
    for huge in
        ["x".repeat(1 << 20), "\" ".repeat(1 << 19), "-a ".repeat(1 << 18), "session:".repeat(1 << 17)]
    {
        let error = Query::parse(&huge, NOW).unwrap_err();
        assert!(matches!(error, QueryError::TooLong { .. }) && error.to_string().contains("4096"), "{error}");
    }
    let words = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
    assert_eq!(query(&words(QUERY_CLAUSES_MAX)).must.len(), QUERY_CLAUSES_MAX);
    let many = [
        words(QUERY_CLAUSES_MAX + 1),
        words(65).replace(' ', " OR "),
        "role:a,".to_owned() + &"b,".repeat(64),
    ];
    for many in many {
        assert_eq!(Query::parse(&many, NOW), Err(QueryError::TooMany), "{many}");
    }
    assert!(Query::parse(&format!("\"{}\"", words(500)), NOW).is_ok(), "a long phrase is one");
}

/// Every sign in every order: nothing panics, and a phrase always has a term to look up.
#[test]
fn whatever_is_typed_is_read() {
    let parts = [
        "a", "\"", "-", "*", " ", ":", "role:", "session:", "since:", "@", "OR", "“", "数", "é", "\\", "7d",
        "\0",
    ];
    let mut typed = vec![String::new()];
    for _ in 0..4 {
        typed = typed.iter().flat_map(|start| parts.map(|part| format!("{start}{part}"))).collect();
        for text in &typed {
            if let Ok(query) = Query::parse(text, NOW) {
                for clause in query.must.iter().chain(&query.not) {
                    assert!(!clause.any.is_empty(), "{text:?}");
                    let terms = clause.any.iter().map(|phrase| &phrase.terms);
                    assert!(terms.clone().all(|terms| terms.iter().all(|term| !term.is_empty())), "{text:?}");
                    assert!(terms.clone().all(|terms| !terms.is_empty()), "{text:?}");
                }
            }
        }
    }
}

/// A beginning longer than what is kept of a long word would never be found.
#[test]
fn the_beginning_of_a_long_word_is_cut_to_what_is_kept() {
    let word = "я".repeat(60);
    let [Clause { any }] = &query(&format!("{word}*")).must[..] else { panic!("one") };
    assert_eq!(any[0].terms, ["я".repeat(18)]);
}
