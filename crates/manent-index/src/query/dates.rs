//! Dates that a question names, and how far a turn is from them.
//!
//! The day on which something was said is part of no text, so a question that names one is answered by the times of the
//! turns: those of the day itself fit best, then those soon after it, because people report what happened.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use crate::english::stem;

/// A stretch of days that a question names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DateSpan {
    /// From the first day up to, and not including, the other.
    Days(Date, Date),
    /// A month of any year, or one day of it.
    Yearly { month: i8, day: Option<i8> },
    /// A day of any week.
    Weekly(Weekday),
}

impl DateSpan {
    /// Returns how many days after the span a day lies, or three times as many as it lies before it. 0 for a day of the
    /// span.
    fn gap(self, day: Date) -> i64 {
        match self {
            DateSpan::Days(first, end) => gap(first, end, day),
            DateSpan::Yearly { month, day: of_month } => {
                let in_year = |year: i16| {
                    let first = Date::new(year, month, of_month.unwrap_or(1)).ok()?;
                    let end = match of_month {
                        Some(_) => first.tomorrow(),
                        None => first.checked_add(1.month()),
                    };
                    Some(gap(first, end.ok()?, day))
                };
                [-1, 0, 1].iter().filter_map(|more| in_year(day.year() + more)).min().unwrap_or(i64::MAX)
            }
            DateSpan::Weekly(weekday) => match i64::from(weekday.until(day.weekday())) {
                behind @ 0..=1 => behind,
                _ => i64::MAX,
            },
        }
    }
}

fn gap(first: Date, end: Date, day: Date) -> i64 {
    let days = |from: Date, to: Date| i64::from(from.until(to).map_or(0, |span| span.get_days()));
    if day < first {
        3 * days(day, first)
    } else if day < end {
        0
    } else {
        days(end, day) + 1
    }
}

/// Computes how well the times of turns fit the dates of a question.
#[derive(Debug)]
pub(crate) struct DateFit<'a> {
    spans: &'a [DateSpan],
    /// The last day that was asked for, and its factor: turns of one day follow each other.
    last: Option<(u32, f32)>,
}

impl<'a> DateFit<'a> {
    pub(crate) fn new(spans: &'a [DateSpan]) -> DateFit<'a> {
        DateFit { spans, last: None }
    }

    /// Returns the factor for the score of a turn of this time, in seconds since 1970: from 1 for one that has nothing
    /// to do with the dates up to [`DATE_FACTOR_MAX`].
    pub(crate) fn factor(&mut self, second: u32) -> f32 {
        if self.spans.is_empty() {
            return 1.0;
        }
        let number = second / DAY_SECONDS;
        match self.last {
            Some((day, factor)) if day == number => factor,
            _ => {
                let time = Timestamp::from_second(i64::from(second)).ok();
                let day = time.map(|time| time.to_zoned(TimeZone::UTC).date());
                let gap = day.and_then(|day| self.spans.iter().map(|span| span.gap(day)).min());
                let factor =
                    gap.map_or(1.0, |gap| 1.0 + (DATE_FACTOR_MAX - 1.0) * (-days(gap) / DECAY_DAYS).exp());
                self.last = Some((number, factor));
                factor
            }
        }
    }
}

/// A number of days as factors are reckoned with: beyond a year, nothing is left of them.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn days(gap: i64) -> f32 {
    gap.min(366) as f32
}

/// Finds the dates among the words of a question, which come folded and in order. Returns them, and for each word
/// whether it is part of one.
pub(crate) fn dates_in(words: &[String], now_ms: i64) -> (Vec<DateSpan>, Vec<bool>) {
    let today = Timestamp::from_millisecond(now_ms).map(|now| now.to_zoned(TimeZone::UTC).date());
    let mut parser = DateParser {
        words,
        today: today.unwrap_or_default(),
        used: vec![false; words.len()],
        spans: Vec::new(),
    };
    for at in 0..words.len() {
        if !parser.used[at] {
            parser.take(at);
        }
    }
    (parser.spans, parser.used)
}

struct DateParser<'a> {
    words: &'a [String],
    today: Date,
    used: Vec<bool>,
    spans: Vec<DateSpan>,
}

impl DateParser<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    fn before(&self, at: usize, back: usize) -> &str {
        at.checked_sub(back).map_or("", |at| self.word(at))
    }

    /// Takes the date that begins at a word, or whose month stands there.
    fn take(&mut self, at: usize) {
        if let Some((span, range)) =
            self.iso(at).or_else(|| self.month(at)).or_else(|| self.relative(at)).or_else(|| self.year(at))
        {
            self.spans.push(span);
            self.used[range].fill(true);
        }
    }

    /// 2025-03-09: a year, a month and a day as numbers.
    fn iso(&self, at: usize) -> Option<Found> {
        let two = |at: usize| self.word(at).parse::<i8>().ok().filter(|_| self.word(at).len() == 2);
        let first = Date::new(year(self.word(at))?, two(at + 1)?, two(at + 2)?).ok()?;
        Some((DateSpan::Days(first, first.tomorrow().ok()?), at..at + 3))
    }

    /// A month, with a day before or behind it and a year behind that, where they are given.
    fn month(&self, at: usize) -> Option<Found> {
        let month = month(self.word(at))?;
        // The 14th of February: one word may stand between.
        let before = match self.before(at, 1) {
            "of" => day_number(self.before(at, 2)).map(|day| (day, at - 2)),
            word => day_number(word).map(|day| (day, at - 1)),
        };
        let behind = day_number(self.word(at + 1)).map(|day| (day, at + 2));
        let (day, start, mut end) = match (before, behind) {
            (Some((day, start)), _) => (Some(day), start, at + 1),
            (None, Some((day, end))) => (Some(day), at, end),
            (None, None) => (None, at, at + 1),
        };
        let year = year(self.word(end));
        // “may” and “march” are words too, unless a number or a little word says otherwise.
        let is_date = !AMBIGUOUS.contains(&self.word(at))
            || day.is_some()
            || year.is_some()
            || LEADING.contains(&self.before(at, 1));
        if !is_date {
            return None;
        }
        end += usize::from(year.is_some());
        let Some(year) = year else { return Some((DateSpan::Yearly { month, day }, start..end)) };
        let first = Date::new(year, month, day.unwrap_or(1)).ok()?;
        let next = if day.is_some() { first.tomorrow() } else { first.checked_add(1.month()) };
        Some((DateSpan::Days(first, next.ok()?), start..end))
    }

    /// A day or a stretch of days told from today, or a day of the week.
    fn relative(&self, at: usize) -> Option<Found> {
        let (word, next) = (self.word(at), self.word(at + 1));
        let today = self.today;
        let span = |first: Date, end: Date, words: usize| Some((DateSpan::Days(first, end), at..at + words));
        match word {
            "today" | "tonight" => return span(today, today.tomorrow().ok()?, 1),
            "yesterday" => return span(today.yesterday().ok()?, today, 1),
            _ => {}
        }
        if let Some(weekday) = weekday(word) {
            return Some((DateSpan::Weekly(weekday), at..at + 1));
        }
        if matches!(word, "last" | "past" | "this") {
            if let (Some(weekday), true) = (weekday(next), word != "this") {
                let first = today.nth_weekday(-1, weekday).ok()?;
                return span(first, first.tomorrow().ok()?, 2);
            }
            let monday = today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).ok()?;
            let (first, length) = match next {
                "week" => (monday, 1.week()),
                "month" => (today.first_of_month(), 1.month()),
                "year" => (today.first_of_year(), 1.year()),
                _ => return None,
            };
            let first = if word == "this" { first } else { first.checked_sub(length).ok()? };
            return span(first, first.checked_add(length).ok()?, 2);
        }
        if self.word(at + 2) == "ago" {
            let count = small_number(word)?;
            let (day, width) = match next {
                "day" | "days" => (today.checked_sub(count.days()), 1.day()),
                "week" | "weeks" => (today.checked_sub(count.weeks()), 1.week()),
                "month" | "months" => (today.checked_sub(count.months()), 1.month()),
                "year" | "years" => (today.checked_sub(count.years()), 1.year()),
                _ => return None,
            };
            // "Three weeks ago" does not mean one day: the span has half of the unit on both sides.
            let half = if next.starts_with("day") { 0 } else { i64::from(half_of(width)) };
            let day = day.ok()?;
            let (first, end) = (day.checked_sub(half.days()).ok()?, day.checked_add((half + 1).days()).ok()?);
            return span(first, end, 3);
        }
        None
    }

    /// A year that stands alone; another number unless a little word stands before it.
    fn year(&self, at: usize) -> Option<Found> {
        let year = year(self.word(at)).filter(|_| LEADING.contains(&self.before(at, 1)))?;
        let first = Date::new(year, 1, 1).ok()?;
        Some((DateSpan::Days(first, first.checked_add(1.year()).ok()?), at..at + 1))
    }
}

/// A date, and the words that it was made of.
type Found = (DateSpan, std::ops::Range<usize>);

/// Returns half of a week, a month or a year, in days.
fn half_of(width: jiff::Span) -> u16 {
    match (width.get_weeks(), width.get_months(), width.get_years()) {
        (1, ..) => 3,
        (_, 1, _) => 15,
        _ => 182,
    }
}

fn small_number(word: &str) -> Option<i64> {
    const WORDS: [&str; 12] =
        ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let written = || (1..).zip(WORDS).find(|(_, name)| *name == word).map(|(count, _)| count);
    match word {
        "a" | "an" => Some(1),
        _ => word.parse().ok().filter(|count| (1..=1000).contains(count)).or_else(written),
    }
}

fn year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1970..2100).contains(year))
}

/// Reads `14`, `14th` and `1st`.
fn day_number(word: &str) -> Option<i8> {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    let ending = &word[digits.len()..];
    let plain = ending.is_empty() || ["st", "nd", "rd", "th"].contains(&ending);
    digits.parse().ok().filter(|day| plain && digits.len() <= 2 && (1..=31).contains(day))
}

fn month(word: &str) -> Option<i8> {
    let is_it = |names: &&[&str]| names.contains(&word) || names.iter().any(|name| stem(name) == word);
    MONTHS.iter().position(|names| is_it(&names.as_slice())).map(|at| at as i8 + 1)
}

fn weekday(word: &str) -> Option<Weekday> {
    let at = WEEKDAYS.iter().position(|names| names.contains(&word))?;
    Weekday::from_monday_zero_offset(at as i8).ok()
}

/// Names of months that are also other words.
const AMBIGUOUS: [&str; 7] = ["may", "march", "mar", "mai", "sept", "dec", "jan"];
/// Words after which “may” is a month, and 2024 a year.
const LEADING: [&str; 16] = [
    "in", "since", "until", "last", "this", "of", "during", "im", "en", "by", "before", "after", "from",
    "year", "early", "late",
];

/// The names of the months in English, German, French and Spanish, without accents.
const MONTHS: [[&str; 5]; 12] = [
    ["january", "jan", "januar", "janvier", "enero"],
    ["february", "feb", "februar", "fevrier", "febrero"],
    ["march", "mar", "marz", "mars", "marzo"],
    ["april", "apr", "april", "avril", "abril"],
    ["may", "may", "mai", "mai", "mayo"],
    ["june", "jun", "juni", "juin", "junio"],
    ["july", "jul", "juli", "juillet", "julio"],
    ["august", "aug", "august", "aout", "agosto"],
    ["september", "sep", "sept", "septembre", "septiembre"],
    ["october", "oct", "oktober", "octobre", "octubre"],
    ["november", "nov", "november", "novembre", "noviembre"],
    ["december", "dec", "dezember", "decembre", "diciembre"],
];

const WEEKDAYS: [[&str; 4]; 7] = [
    ["monday", "montag", "lundi", "lunes"],
    ["tuesday", "dienstag", "mardi", "martes"],
    ["wednesday", "mittwoch", "mercredi", "miercoles"],
    ["thursday", "donnerstag", "jeudi", "jueves"],
    ["friday", "freitag", "vendredi", "viernes"],
    ["saturday", "samstag", "samedi", "sabado"],
    ["sunday", "sonntag", "dimanche", "domingo"],
];

/// The factor of a turn that was written within a date of the question.
pub(crate) const DATE_FACTOR_MAX: f32 = 3.0;
/// So many days after a date, the factor has fallen to a third of what it adds.
const DECAY_DAYS: f32 = 3.0;
const DAY_SECONDS: u32 = 24 * 60 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    /// A Sunday.
    const NOW_MS: i64 = 1_794_766_020_000; // 2026-11-15T18:07:00Z

    fn of(question: &str) -> Vec<DateSpan> {
        dates_in(&question.split(' ').map(str::to_owned).collect::<Vec<_>>(), NOW_MS).0
    }

    fn days(first: &str, end: &str) -> DateSpan {
        DateSpan::Days(first.parse().unwrap(), end.parse().unwrap())
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        assert_eq!(of("what did i cook on 14 february"), [DateSpan::Yearly { month: 2, day: Some(14) }]);
        assert_eq!(of("on february 14th 2025"), [days("2025-02-14", "2025-02-15")]);
        assert_eq!(of("the 1st of may"), [DateSpan::Yearly { month: 5, day: Some(1) }]);
        assert_eq!(of("in march 2025"), [days("2025-03-01", "2025-04-01")]);
        assert_eq!(of("in march"), [DateSpan::Yearly { month: 3, day: None }]);
        assert_eq!(of("on 2025 03 09"), [days("2025-03-09", "2025-03-10")]);
        assert_eq!(of("since 2024"), [days("2024-01-01", "2025-01-01")]);
        assert_eq!(of("im juli"), [DateSpan::Yearly { month: 7, day: None }]);
        assert_eq!(of("on tuesday"), [DateSpan::Weekly(Weekday::Tuesday)]);
        assert_eq!(
            of("8 may 2023 or 25 june"),
            [days("2023-05-08", "2023-05-09"), DateSpan::Yearly { month: 6, day: Some(25) }]
        );
    }

    #[test]
    fn relative_dates_are_told_from_today() {
        assert_eq!(of("what broke yesterday"), [days("2026-11-14", "2026-11-15")]);
        assert_eq!(of("last tuesday"), [days("2026-11-10", "2026-11-11")]);
        assert_eq!(of("last week"), [days("2026-11-02", "2026-11-09")]);
        assert_eq!(of("this month"), [days("2026-11-01", "2026-12-01")]);
        assert_eq!(of("two days ago"), [days("2026-11-13", "2026-11-14")]);
        assert_eq!(of("3 weeks ago"), [days("2026-10-22", "2026-10-29")]);
        assert_eq!(of("last year"), [days("2025-01-01", "2026-01-01")]);
    }

    #[test]
    fn words_that_only_look_like_dates_are_words() {
        for question in ["you may go", "march on", "port 2049", "the last one", "32 bits", "at 7", "a day"] {
            assert_eq!(of(question), [], "{question}");
        }
    }

    #[test]
    fn words_of_a_date_are_told_from_the_others() {
        let words: Vec<String> =
            "did we meet on the 3rd of may 2024 in rome".split(' ').map(str::to_owned).collect();
        let (_, used) = dates_in(&words, NOW_MS);
        let left: Vec<&str> =
            words.iter().zip(used).filter(|(_, used)| !used).map(|(w, _)| w.as_str()).collect();
        assert_eq!(left, ["did", "we", "meet", "on", "the", "in", "rome"]);
    }

    #[test]
    fn turns_of_the_day_fit_best_and_later_ones_better_than_earlier_ones() {
        let spans = of("on 8 may 2023");
        let mut fit = DateFit::new(&spans);
        let mut at =
            |time: &str| fit.factor(u32::try_from(time.parse::<Timestamp>().unwrap().as_second()).unwrap());
        let (day, next, before) =
            (at("2023-05-08T10:00:00Z"), at("2023-05-09T10:00:00Z"), at("2023-05-07T10:00:00Z"));
        assert!(day > DATE_FACTOR_MAX - 0.001, "{day}");
        assert!(day > next && next > before && before > 1.0, "{day} {next} {before}");
        assert!(at("2024-05-08T10:00:00Z") < 1.001, "another year");
    }
}
