//! Dates in a question: the day on which something was said is part of what is asked for, and stands in no text.

use crate::words::stem;

/// A part of a date that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Year(i16),
    /// From 1.
    Month(i8),
    Day(i8),
    /// From Monday, which is 0.
    Weekday(i8),
}

impl Part {
    pub(crate) fn is_of(self, date: jiff::civil::Date) -> bool {
        match self {
            Part::Year(year) => date.year() == year,
            Part::Month(month) => date.month() == month,
            Part::Day(day) => date.day() == day,
            Part::Weekday(day) => date.weekday().to_monday_zero_offset() == day,
        }
    }
}

/// The parts of dates among the words of a question, which come folded and in order.
pub(crate) fn parts(words: &[String]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut note = |part: Part| {
        if !parts.contains(&part) {
            parts.push(part);
        }
    };
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| words[before].as_str());
        // The 14th of February: one word may stand between.
        let before_that = at.checked_sub(2).filter(|_| before == Some("of")).map(|at| words[at].as_str());
        let after = words.get(at + 1).map(String::as_str);
        let day = [before, before_that, after].into_iter().flatten().find_map(day_number);
        if let Some(year) = year(word) {
            note(Part::Year(year));
        } else if let Some(month) = month(word) {
            // “may” and “march” are words too, unless a number or a little word says otherwise.
            let is_date = !is_stale(word)
                || day.is_some()
                || after.and_then(year).is_some()
                || before.is_some_and(|before| LEADING.contains(&before));
            if is_date {
                note(Part::Month(month));
                if let Some(day) = day {
                    note(Part::Day(day));
                }
            }
        } else if let Some(day) = WEEKDAYS.iter().position(|names| names.contains(&word.as_str())) {
            note(Part::Weekday(day as i8));
        }
    }
    note_numbers(words, &mut parts);
    parts
}

/// 2025-03-09: a year, a month and a day as numbers.
fn note_numbers(words: &[String], parts: &mut Vec<Part>) {
    for three in words.windows(3) {
        let number = |at: usize| three[at].parse::<i8>().ok().filter(|_| three[at].len() == 2);
        if let (Some(_), Some(month @ 1..=12), Some(day @ 1..=31)) = (year(&three[0]), number(1), number(2)) {
            parts.extend([Part::Month(month), Part::Day(day)]);
        }
    }
}

fn year(word: &str) -> Option<i16> {
    word.parse().ok().filter(|year| word.len() == 4 && (1970..2100).contains(year))
}

/// 14, 14th, 1st.
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

fn is_stale(word: &str) -> bool {
    ["may", "march", "mar", "mai", "sept", "dec", "jan"].contains(&word)
}

/// Words after which “may” is a month.
const LEADING: [&str; 9] = ["in", "since", "until", "last", "this", "of", "during", "im", "en"];

/// As people write them in English, German, French and Spanish, without accents.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(question: &str) -> Vec<Part> {
        parts(&question.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        assert_eq!(of("what did i cook on 14 february"), [Part::Month(2), Part::Day(14)]);
        assert_eq!(of("on february 14th 2025"), [Part::Month(2), Part::Day(14), Part::Year(2025)]);
        assert_eq!(of("the 1st of may"), [Part::Month(5), Part::Day(1)]);
        assert_eq!(of("in march 2025"), [Part::Month(3), Part::Year(2025)]);
        assert_eq!(of("on 2025 03 09"), [Part::Year(2025), Part::Month(3), Part::Day(9)]);
        assert_eq!(of("last tuesday"), [Part::Weekday(1)]);
        assert_eq!(of("im juli"), [Part::Month(7)]);
    }

    #[test]
    fn words_that_only_look_like_dates_are_words() {
        assert_eq!(of("may i march on"), []);
        assert_eq!(of("port 8080 and 32 of 14"), []);
        assert_eq!(of("error 14 in module 2"), []);
    }
}
