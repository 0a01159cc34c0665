//! The signature of a failure: what it printed, without everything that differs from one time to the next, such as
//! paths, numbers, hashes, times, addresses and quoted names. Failures with one signature have, as far as anybody can
//! tell from outside, one cause.
//!
//! Only the end of an output is read: that is where programs say what went wrong, and an output may be huge.
//!
//! Credentials are taken out first, of the few lines that are used: in lower case and without its digits a key is no
//! longer recognised, but still of use to whoever reads it.

use std::borrow::Cow;
use std::sync::LazyLock;

use manent::{REDACTED, redact};
use memchr::memmem::Finder;
use regex::Regex;

use crate::runs::{Attempt, Run, Status};

/// The signature of a run that failed: in one line, of bounded length.
pub(super) fn signature(run: &Run<'_>) -> String {
    if run.judged.is_some() && Status::of_word(&run.final_status) != Status::Failure {
        return judged_bad(run);
    }
    let last = last_attempt(run);
    let class = last.map_or("", |attempt| &*attempt.error_class).trim();
    let class = if class.is_empty() { run.final_status.trim() } else { class };
    let mut out = String::new();
    normalise(tail(&redact(tail(class, LOOKED_AT_BYTES)), CLASS_BYTES), &mut out);
    if let Some(code) = last.and_then(|attempt| attempt.exit_code) {
        out.push_str(" (exit ");
        out.push_str(&code.to_string());
        out.push(')');
    }
    let output = last.map_or("", |attempt| match attempt.runner_output.trim_ascii() {
        "" => &attempt.output_summary,
        _ => &attempt.runner_output,
    });
    for (at, line) in meaningful(&end_of(output)).into_iter().enumerate() {
        out.push_str(if at == 0 { ": " } else { " | " });
        let line = without_escapes(line);
        let line = redact(&line);
        normalise(&line[..line.floor_char_boundary(LINE_BYTES)], &mut out);
        if out.len() > SIGNATURE_BYTES {
            break;
        }
    }
    out.truncate(out.floor_char_boundary(SIGNATURE_BYTES));
    let out = out.trim().trim_start_matches([':', ' ']).to_owned();
    if out.is_empty() { NOTHING_SAID.to_owned() } else { out }
}

/// Returns the signature of a run that went well as far as it knew, and that somebody judged bad: only the note says
/// what is wrong.
fn judged_bad(run: &Run<'_>) -> String {
    let mut out = JUDGED_BAD.to_owned();
    if !run.judged_note.is_empty() {
        out.push_str(": ");
        normalise(&run.judged_note, &mut out);
    }
    out.truncate(out.floor_char_boundary(SIGNATURE_BYTES));
    out.trim_end().to_owned()
}

/// The attempt that came last by its number, or by where it stands.
pub(super) fn last_attempt<'r, 'a>(run: &'r Run<'a>) -> Option<&'r Attempt<'a>> {
    let numbered = run.attempts.iter().all(|attempt| attempt.attempt.is_some());
    if numbered { run.attempts.iter().max_by_key(|attempt| attempt.attempt) } else { run.attempts.last() }
}

/// The last lines that say what went wrong: those with a word for it, else the very last. In the order of the text.
/// Somewhat more of each than is kept, so that it is seen what a credential is whose end is not.
fn meaningful(text: &str) -> Vec<&str> {
    let mut telling = Vec::new();
    let mut last = Vec::new();
    for line in text.lines().rev().map(str::trim) {
        if line.chars().filter(|c| c.is_alphanumeric()).take(2).count() < 2 || matches(&NOISE, line) {
            continue;
        }
        let looked_at = &line[..line.floor_char_boundary(LOOKED_AT_BYTES)];
        if last.len() < LINES {
            last.push(looked_at);
        }
        if matches(&TELLING, &line[..line.floor_char_boundary(LINE_BYTES)]) {
            telling.push(looked_at);
            if telling.len() == LINES {
                break;
            }
        }
    }
    let mut chosen = if telling.is_empty() { last } else { telling };
    chosen.reverse();
    chosen
}

/// Compiles an alternation of words that match in any case.
fn any_of(words: &str) -> Option<Regex> {
    Regex::new(&format!("(?i-u:{words})")).ok()
}

fn matches(words: &LazyLock<Option<Regex>>, line: &str) -> bool {
    words.as_ref().is_some_and(|words| words.is_match(line))
}

/// Appends a line to a signature.
fn normalise(line: &str, out: &mut String) {
    let line = &*without_escapes(line);
    let mut rest = line;
    let mut before = String::new();
    // Where the word before ended.
    let mut gap_at = 0;
    while let Some(c) = rest.chars().next() {
        if c.is_whitespace() || c.is_control() {
            space(out);
            rest = &rest[c.len_utf8()..];
        } else if let Some(after) = after_quoted(rest) {
            out.push_str("<name>");
            rest = after;
        } else if is_part_of_word(c) {
            let end = rest.find(|c: char| !is_part_of_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let inner = word.trim_end_matches(['.', ':', '!', '?', '-']);
            if is_given_password(&before, &line[gap_at..line.len() - rest.len()], inner) {
                out.push_str(REDACTED);
            } else {
                word_to(inner, &before, out);
            }
            out.push_str(&word[inner.len()..]);
            gap_at = line.len() - rest.len() + inner.len();
            before = inner.to_ascii_lowercase();
            rest = after;
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
}

fn space(out: &mut String) {
    if !out.is_empty() && !out.ends_with(' ') {
        out.push(' ');
    }
}

fn is_part_of_word(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"()[]{}<>,;\"'`=|“”‘’«»*#".contains(c)
}

/// Returns the text behind a quoted name, if it begins with one. An apostrophe inside a word is part of a word.
fn after_quoted(text: &str) -> Option<&str> {
    let open = text.chars().next()?;
    let close = match open {
        '\'' | '"' | '`' => open,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    let inside = &text[open.len_utf8()..];
    let end = inside[..inside.floor_char_boundary(QUOTE_BYTES)].find(close)?;
    let after = &inside[end + close.len_utf8()..];
    // `don't … can't` has two apostrophes and no name.
    let goes_on = close == '\'' && after.chars().next().is_some_and(char::is_alphanumeric);
    (end > 0 && !goes_on).then_some(after)
}

/// Appends what stands for a word.
fn word_to(word: &str, before: &str, out: &mut String) {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if word.contains("://") {
        out.push_str("<url>");
    } else if is_path(word) {
        out.push_str("<path>");
    } else if digits == 0 {
        out.extend(word.chars().flat_map(char::to_lowercase));
    } else if is_uuid(word) || is_hash(word) {
        out.push_str("<id>");
    } else if word.len() > 2 && word.as_bytes()[..2].eq_ignore_ascii_case(b"0x") {
        out.push_str("<address>");
    } else if is_time(word) {
        out.push_str("<time>");
    } else if is_code(word) || (KEEPS_NUMBER.contains(&before) && digits == word.len() && digits <= 5) {
        out.push_str(word);
    } else if word.bytes().next().is_some_and(|b| b.is_ascii_digit() || b"+-.".contains(&b)) {
        // A number, a size, an address with a port: `12`, `3.5s`, `127.0.0.1:8080`, `10/12`.
        out.push_str("<n>");
    } else {
        let mut in_number = false;
        for c in word.chars().flat_map(char::to_lowercase) {
            if !c.is_ascii_digit() {
                out.push(c);
            } else if !in_number {
                out.push_str("<n>");
            }
            in_number = c.is_ascii_digit();
        }
    }
}

/// `/a/b`, `C:\a`, `src/main.rs:12:5`, `main.rs`; not `requests.exceptions.Timeout`, which says what happened.
fn is_path(word: &str) -> bool {
    if word.len() > 1 && word.contains(['/', '\\']) {
        return true;
    }
    let name = word.split(':').next().unwrap_or(word);
    name.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty() && EXTENSIONS.iter().any(|known| end.eq_ignore_ascii_case(known))
    })
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

fn is_hash(word: &str) -> bool {
    let hex = word.rsplit_once(':').map_or(word, |(_, hex)| hex);
    hex.len() >= 7
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && hex.bytes().any(|b| b.is_ascii_digit())
        && hex.bytes().any(|b| b.is_ascii_alphabetic())
}

/// `2026-11-16T10:00:00Z`, `10:22:33.5`, `2026-11-16`.
fn is_time(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_digit() || b"-:.TZ+".contains(&b))
        && word.bytes().filter(|b| b"-:".contains(b)).count() >= 2
}

/// `E0432`, `TS2304`, `SIG11`: codes that name the error.
fn is_code(word: &str) -> bool {
    let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = &word.as_bytes()[letters..];
    (1..=5).contains(&letters) && (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// The signature of a failure of which nothing is known.
const NOTHING_SAID: &str = "(nothing is said)";
const JUDGED_BAD: &str = "judged bad";
/// Words behind which a number says what went wrong.
const KEEPS_NUMBER: [&str; 6] = ["status", "code", "http", "errno", "signal", "http/1.1"];
/// Words of lines that say what went wrong.
static TELLING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    any_of(
        "error|fail|panic|exception|cannot|can't|could not|couldn't|not found|no such|denied|refused|timed out|timeout|\
         deadline|assert|fatal|undefined|unexpected|invalid|missing|unable|abort|killed|out of memory|mismatch",
    )
});
/// Words of lines that stand at the end of many outputs and say nothing of the cause.
static NOISE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    any_of(
        "rust_backtrace|for more information|could not compile|test result:|failures:|exit status|\
         npm err! a complete log|build failed, waiting|short test summary",
    )
});
const EXTENSIONS: [&str; 46] = [
    "rs", "py", "js", "ts", "tsx", "jsx", "mjs", "go", "c", "h", "cc", "cpp", "hpp", "java", "kt", "rb",
    "php", "swift", "cs", "json", "jsonl", "toml", "yaml", "yml", "md", "txt", "log", "lock", "sh", "html",
    "css", "sql", "xml", "csv", "cfg", "ini", "so", "o", "exe", "dll", "pdf", "png", "jpg", "tmp", "zip",
    "gz",
];
const LINES: usize = 2;
const CLASS_BYTES: usize = 80;
const LINE_BYTES: usize = 400;
const QUOTE_BYTES: usize = 160;
const SIGNATURE_BYTES: usize = 240;

/// The end of an output, without credentials that no line shows alone: keys over many lines, and what stands in a line
/// whose beginning is not looked at.
fn end_of(output: &str) -> Cow<'_, str> {
    let end = tail(output, TAIL_BYTES);
    if end.len() < output.len() && !output[..output.len() - end.len()].ends_with('\n') {
        let more = redact(tail(output, TAIL_BYTES + LOOKED_AT_BYTES));
        return Cow::Owned(tail(&more, TAIL_BYTES).to_owned());
    }
    if PRIVATE_KEY.find(end.as_bytes()).is_none() {
        return Cow::Borrowed(end);
    }
    // A key that began further above ends here.
    let cut = match (end.find("-----END "), end.find("-----BEGIN ")) {
        (Some(at), begin) if begin.is_none_or(|begin| at < begin) => &end[at..],
        _ => end,
    };
    redact(cut)
}

/// Removes colours and other commands to a terminal: they may stand between a name and its value.
fn without_escapes(line: &str) -> Cow<'_, str> {
    ESCAPE.as_ref().map_or(Cow::Borrowed(line), |escape| escape.replace_all(line, ""))
}

/// The end of a text, from the beginning of a line on where there is one.
fn tail(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let cut = &text[text.ceil_char_boundary(text.len() - bytes)..];
    // One line that is longer than that is better than nothing.
    cut.split_once('\n').map_or(cut, |(_, rest)| if rest.trim().is_empty() { cut } else { rest })
}

/// Returns true if a word is the value of a password, also one that looks like an ordinary word. Elsewhere that would
/// take out too much; a signature loses nothing, as the value differs from one failure to the next.
fn is_given_password(before: &str, gap: &str, word: &str) -> bool {
    let is_name = |name: &str| PASSWORDS.iter().any(|end| name.ends_with(end));
    let is_odd = |value: &str| value.chars().skip(1).any(|c| !c.is_lowercase());
    if let Some((name, value)) = word.split_once(':')
        && is_odd(value)
        && is_name(&name.to_ascii_lowercase())
    {
        return true;
    }
    is_name(before)
        && match gap.trim() {
            "=" => gap.len() == 1 || is_odd(word),
            // `password: required` says what is wrong.
            ":" => is_odd(word),
            "" => before.starts_with("--"),
            _ => false,
        }
}

/// An escape sequence; of one without an end, its beginning.
static ESCAPE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\x1b(?:\[(?:[^@-~]*[@-~])?)?").ok());
static PRIVATE_KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"PRIVATE KEY"));
/// Endings of the names of passwords.
const PASSWORDS: [&str; 7] = ["password", "passwd", "passphrase", "pwd", "_pass", "-pass", "secret"];
const TAIL_BYTES: usize = 8 << 10;
/// The bytes of a line, and before it, that are searched for credentials: more than any takes.
const LOOKED_AT_BYTES: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: &'static str, code: Option<i64>, output: &str) -> String {
        let attempt = Attempt {
            error_class: class.into(),
            exit_code: code,
            runner_output: output.to_owned().into(),
            ..Attempt::default()
        };
        signature(&Run { attempts: vec![attempt], final_status: "failed".into(), ..Run::default() })
    }

    #[test]
    fn one_cause_in_many_places_is_one_signature() {
        let same = [
            "error: cannot open /home/ann/proj-1/src/main.rs: No such file or directory (os error 2)",
            "error: cannot open /tmp/x9/lib.rs: No such file or directory (os error 2)",
            "\u{1b}[31merror\u{1b}[0m: cannot open C:\\Users\\bob\\a.txt: No such file or directory (os error 2)",
            "  Error:  cannot open ./deep/er/than.rs: No such file or directory (os error 2)\n\n----\n",
        ];
        let all: Vec<String> = same.iter().map(|text| of("io", Some(1), text)).collect();
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{all:#?}");
        let a = "2026-11-16T10:00:00Z worker12: request 550e8400-e29b-41d4-a716-446655440000 to \
                 10.0.0.7:8080 timed out after 30.5s (commit 9fceb02d, at 0x7ffde0)";
        let b = "2025-01-02T23:59:59.5Z worker7: request 123e4567-e89b-12d3-a456-426614174000 to \
                 192.168.1.1:443 timed out after 9s (commit 4b825dc642cb6eb9, at 0xdeadbeef)";
        assert_eq!(of("timeout", None, a), of("timeout", None, b));
        assert_eq!(of("", None, "KeyError: 'ann'"), of("", None, "KeyError: \"bob\""));
    }

    #[test]
    fn other_causes_stay_apart() {
        let apart = [
            of("io", Some(1), "error: cannot open /a/b.rs: No such file or directory"),
            of("io", Some(1), "error: cannot open /a/b.rs: Permission denied"),
            of("io", Some(2), "error: cannot open /a/b.rs: Permission denied"),
            of("compile", Some(101), "error[E0432]: unresolved import `foo`"),
            of("compile", Some(101), "error[E0308]: mismatched types"),
            of("", None, "HTTP status 404 from http://x/y: error"),
            of("", None, "HTTP status 500 from http://x/y: error"),
            of("", None, "requests.exceptions.ConnectionError: refused"),
            of("", None, "requests.exceptions.ReadTimeout: refused"),
            of("", None, "assertion failed: left == right"),
            of("", None, ""),
        ];
        for (at, one) in apart.iter().enumerate() {
            assert!(!apart[..at].contains(one), "{one} twice in {apart:#?}");
        }
    }

    #[test]
    fn what_went_wrong_is_found_above_what_comes_behind_it() {
        let output = "running 3 tests\ntest a ... ok\nthread 'main' panicked at src/lib.rs:12:5:\n\
                      assertion failed: got 3\nnote: run with `RUST_BACKTRACE=1`\n\ntest result: FAILED. 1 passed\n";
        assert_eq!(
            of("", None, output),
            "failed: thread <name> panicked at <path>: | assertion failed: got <n>"
        );
        assert_eq!(of("", None, "doing\nthis\nthat"), "failed: this | that");
    }

    #[test]
    fn nothing_is_too_long_too_odd_or_too_empty() {
        for odd in ["", "\0\0\0", "''''", "'", "\u{1b}", "\u{1b}[", "日本語 エラー '", "::::", "----", "0x"]
        {
            assert!(!of("", Some(-1), odd).is_empty(), "{odd:?}");
        }
        let huge = format!("{}\nerror: it broke\n", "é".repeat(30 << 20));
        assert_eq!(of("x", None, &huge), "x: error: it broke");
        let line = "é".repeat(1 << 20);
        assert!(of("x", None, &line).len() <= SIGNATURE_BYTES);
        assert_eq!(signature(&Run::default()), NOTHING_SAID);
    }

    #[test]
    fn credentials_are_taken_out_before_anything_else() {
        let wanted = "failed: login failed: password=[secret]";
        assert_eq!(of("", None, "login failed: password=CorrectHorseBattery"), wanted);
        assert_eq!(
            of("", None, "login failed: \u{1b}[1mpassword\u{1b}[0m\u{1b}[K=CorrectHorseBattery"),
            wanted
        );
        for given in ["DB_PASSWORD=hunter", "--password hunter", "pwd: CorrectHorse", "password:CorrectHorse"]
        {
            let signature = of("", None, given);
            assert!(signature.ends_with("[secret]") || signature == "failed: [secret]", "{signature}");
        }
        for word in ["password: required", "invalid password", "password is wrong", "no such secret"] {
            assert_eq!(of("", None, word), format!("failed: {word}"));
        }
        let class = of("password=CorrectHorseBattery", None, "");
        assert_eq!(class, "password=[secret]");
        let token = format!("error: /{} ghp_{}", "x".repeat(379), "aBcDeFgHiJ".repeat(4));
        assert!(!of("", None, &token).contains("ghp_a"), "cut in the middle");
        // A line of which the name of the password is not looked at.
        for blanks in 0..40 {
            let name = format!("{}password=", "y ".repeat(100));
            let line = format!("{name}C0rrectHorseBattery error {}", "z".repeat(TAIL_BYTES - 40 + blanks));
            assert!(!of("", None, &line).contains("battery"), "{blanks}");
        }
    }

    #[test]
    fn a_private_key_is_in_no_signature() {
        let body = "qWeRtYuIoPaSdFgHjKlZxCvBnMqWeRtYuIoPaSdFgHjKlZxCvBnMqWeRtYuIoPa\n";
        let key = |lines: usize| {
            format!("-----BEGIN PRIVATE KEY-----\n{}-----END PRIVATE KEY-----\n", body.repeat(lines))
        };
        for text in
            [key(5), key(60), key(200), format!("{}ok then\n", key(3)), key(5).replace("-----END", "")]
        {
            assert!(!of("", None, &text).contains("qwerty"), "{}", of("", None, &text));
        }
    }
}
