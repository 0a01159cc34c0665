//! Finds the records that fit a query best when none holds all its words.
//!
//! Words count by their stems, without stop words. A record is taken together with those just before it, with
//! decreasing weight, because a question and its answer seldom share their words. Words elsewhere in the session count
//! a little, and so does the day of a record if the query names a date: that is part of no text.

use crate::corpus::ScoreScope;
use crate::error::IndexResult;
use crate::query::score::{Scored, TopK};
use crate::query::{Query, score};
use crate::segment::dictionary::TermEntry;
use crate::segment::view::{QueryFilter, SegmentView};
use crate::words::{is_stop, stem, stem_prefix};

/// Returns the best records, and the stems that were searched.
pub(crate) fn related(
    views: &[SegmentView],
    query: &Query,
    filter: &QueryFilter<'_>,
    rows: usize,
    scope: ScoreScope,
    mut best: TopK<'_>,
) -> IndexResult<(Vec<Scored>, Vec<String>)> {
    let stems = stems_of(&query.words);
    let all: u64 = views.iter().map(SegmentView::turns).sum();
    let sought =
        stems.iter().map(|stem| ResolvedStem::new(views, stem, rows)).collect::<IndexResult<Vec<_>>>()?;
    let dates = Dates::all_of(views, &date_parts(&query.words))?;
    for (number, view) in views.iter().enumerate() {
        let scores = scores_in(view, number, &sought, &dates, all, scope)?;
        let of_segment = filter.of_segment(view)?;
        let seconds = view.segment.seconds()?;
        for (doc, score) in (0..).zip(scores).filter(|(_, score)| *score > 0.0) {
            let second = seconds.of(doc);
            if best.could_take(score, second) && of_segment.takes(doc) {
                best.offer(Scored { score, second, segment: number as u32, doc });
            }
        }
    }
    Ok((best.into_best(), stems))
}

/// Returns the stems of all words but stop words, each once. If all are stop words, of all words.
fn stems_of(words: &[String]) -> Vec<String> {
    let telling: Vec<&String> = words.iter().filter(|word| !is_stop(word)).collect();
    let telling = if telling.is_empty() { words.iter().collect() } else { telling };
    let mut stems: Vec<String> = Vec::new();
    for word in telling {
        let stem = stem(word).into_owned();
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    stems
}

/// A stem, looked up in every segment.
struct ResolvedStem {
    /// The posting lists of all words with this stem, for each segment.
    entries: Vec<Vec<TermEntry>>,
    /// In how many turns any of them stands, about.
    count: u64,
    /// In which sessions.
    rows: Vec<bool>,
}

impl ResolvedStem {
    fn new(views: &[SegmentView], stem_sought: &str, rows: usize) -> IndexResult<ResolvedStem> {
        let mut sought =
            ResolvedStem { entries: Vec::with_capacity(views.len()), count: 0, rows: vec![false; rows] };
        for view in views {
            let mut found = Vec::new();
            view.segment.words.with_prefix(stem_prefix(stem_sought), |word, entry| {
                if std::str::from_utf8(word).is_ok_and(|word| stem(word) == stem_sought) {
                    found.push(entry);
                }
            })?;
            for entry in &found {
                sought.count += view.count_of(entry)?;
                sought.note_rows(view, entry)?;
            }
            sought.entries.push(found);
        }
        Ok(sought)
    }

    fn note_rows(&mut self, view: &SegmentView, entry: &TermEntry) -> IndexResult<()> {
        let mut list = view.segment.list(entry)?;
        for (run, row) in view.segment.runs.iter().zip(&view.rows) {
            let found = list.seek(run.first + run.echo)?;
            if let Some(slot) =
                row.filter(|_| found < run.end()).and_then(|row| self.rows.get_mut(row as usize))
            {
                *slot = true;
            }
        }
        Ok(())
    }
}

/// Parts of a date that the query names, and the number of records that were written on such a day.
struct Dates {
    parts: Vec<DatePart>,
    turns: u64,
    /// The weight compared with a word.
    factor: f32,
}

impl Dates {
    /// Each part on its own, and all of them together: who names a day wants that day, but may be wrong about it.
    fn all_of(views: &[SegmentView], parts: &[DatePart]) -> IndexResult<Vec<Dates>> {
        let single = parts.iter().map(|part| (vec![*part], DATE_PART));
        let whole = (parts.len() > 1).then(|| (parts.to_vec(), DATE_WHOLE));
        single.chain(whole).map(|(parts, factor)| Dates::new(views, parts, factor)).collect()
    }

    fn new(views: &[SegmentView], parts: Vec<DatePart>, factor: f32) -> IndexResult<Dates> {
        let mut dates = Dates { parts, turns: 0, factor };
        for view in views {
            let mut days = Days::default();
            let seconds = view.segment.seconds()?;
            let fits = |doc: &u32| !view.is_dead(*doc) && days.fit(&dates.parts, seconds.of(*doc));
            dates.turns += (0..view.segment.turns).filter(fits).count() as u64;
        }
        Ok(dates)
    }
}

/// Turns of one day follow each other: whether it fits is worked out once.
#[derive(Default)]
struct Days {
    last: Option<(u32, bool)>,
}

impl Days {
    fn fit(&mut self, parts: &[DatePart], second: u32) -> bool {
        let day = second / DAY_SECONDS;
        match self.last {
            Some((last, fits)) if last == day => fits,
            _ => {
                let time = jiff::Timestamp::from_second(i64::from(second)).ok();
                let date = time.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).date());
                let fits = date.is_some_and(|date| parts.iter().all(|part| part.is_of(date)));
                self.last = Some((day, fits));
                fits
            }
        }
    }
}

/// Returns the score of every record of a segment.
fn scores_in(
    view: &SegmentView,
    number: usize,
    sought: &[ResolvedStem],
    dates: &[Dates],
    all: u64,
    scope: ScoreScope,
) -> IndexResult<Vec<f32>> {
    let turns = view.segment.turns as usize;
    let mut scores = vec![0.0; turns];
    let (neighbours, of_session) = match scope {
        ScoreScope::Alone => (0, 0.0),
        ScoreScope::Conversation => (NEIGHBOURS, SESSION),
    };
    let lengths = lengths_with_neighbours(view, scope)?;
    let mut times = vec![0.0_f32; turns];
    for stem in sought {
        times.fill(0.0);
        for entry in &stem.entries[number] {
            let mut list = view.segment.list(entry)?;
            for block in 0..list.blocks() {
                list.unpack(block)?;
                let (docs, counts) = list.unpacked();
                for (doc, count) in docs.iter().zip(counts) {
                    if let Some(slot) = times.get_mut(*doc as usize) {
                        *slot += score::rounded(*count);
                    }
                }
            }
        }
        let weight = score::weight(stem.count.min(all), all);
        for (run, row) in view.segment.runs.iter().zip(&view.rows) {
            let in_session = row.is_some_and(|row| stem.rows.get(row as usize).is_some_and(|is_in| *is_in));
            if !in_session {
                continue;
            }
            let (first, end) = (run.first as usize, run.end() as usize);
            for (doc, score) in scores.iter_mut().enumerate().take(end).skip(first) {
                let near = &times[doc.saturating_sub(neighbours).max(first)..=doc];
                let sum = near.iter().rev().zip(NEARNESS).fold(0.0, |sum, (times, near)| sum + times * near);
                *score += weight * of_session;
                if sum > 0.0 {
                    *score += weight * score::impact_of_length(sum, lengths[doc]);
                }
            }
        }
    }
    let seconds = view.segment.seconds()?;
    for date in dates {
        let weight = date.factor * score::weight(date.turns.min(all), all);
        let mut days = Days::default();
        for (doc, score) in (0..).zip(&mut scores) {
            if days.fit(&date.parts, seconds.of(doc)) {
                *score += weight * score::impact_of_length(1.0, lengths[doc as usize]);
            }
        }
    }
    Ok(scores)
}

/// Returns the length of each record, taken together with the one before it.
fn lengths_with_neighbours(view: &SegmentView, scope: ScoreScope) -> IndexResult<Vec<f32>> {
    let norms = view.segment.norms()?;
    let mut lengths = Vec::with_capacity(norms.len());
    for run in &view.segment.runs {
        let mut before = 0.0;
        for norm in &norms[run.first as usize..run.end() as usize] {
            let own = score::rounded(score::length_of(*norm));
            lengths.push(own + before / 2.0);
            before = if scope == ScoreScope::Alone { 0.0 } else { own };
        }
    }
    Ok(lengths)
}

/// The number of preceding records that count towards the score of a record.
pub(crate) const NEIGHBOURS: usize = 4;
/// The weights of a word in the record itself, the one before it, and so on.
const NEARNESS: [f32; NEIGHBOURS + 1] = [1.0, 0.6, 0.36, 0.22, 0.13];
/// The weight of a word that is somewhere in the session.
const SESSION: f32 = 0.2;
/// The weights of one part of a date that the query names, and of all parts together, compared with a word.
const DATE_PART: f32 = 0.5;
const DATE_WHOLE: f32 = 2.0;
const DAY_SECONDS: u32 = 24 * 60 * 60;

/// A part of a date that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatePart {
    Year(i16),
    /// From 1.
    Month(i8),
    Day(i8),
    /// From Monday, which is 0.
    Weekday(i8),
}

impl DatePart {
    fn is_of(self, date: jiff::civil::Date) -> bool {
        match self {
            DatePart::Year(year) => date.year() == year,
            DatePart::Month(month) => date.month() == month,
            DatePart::Day(day) => date.day() == day,
            DatePart::Weekday(day) => date.weekday().to_monday_zero_offset() == day,
        }
    }
}

/// The parts of dates among the words of a question, which come folded and in order.
fn date_parts(words: &[String]) -> Vec<DatePart> {
    let mut parts = Vec::new();
    let mut note = |part: DatePart| {
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
            note(DatePart::Year(year));
        } else if let Some(month) = month(word) {
            // “may” and “march” are words too, unless a number or a little word says otherwise.
            let is_date = !is_ambiguous(word)
                || day.is_some()
                || after.and_then(year).is_some()
                || before.is_some_and(|before| LEADING.contains(&before));
            if is_date {
                note(DatePart::Month(month));
                if let Some(day) = day {
                    note(DatePart::Day(day));
                }
            }
        } else if let Some(day) = WEEKDAYS.iter().position(|names| names.contains(&word.as_str())) {
            note(DatePart::Weekday(day as i8));
        }
    }
    note_numbers(words, &mut parts);
    parts
}

/// 2025-03-09: a year, a month and a day as numbers.
fn note_numbers(words: &[String], parts: &mut Vec<DatePart>) {
    for three in words.windows(3) {
        let number = |at: usize| three[at].parse::<i8>().ok().filter(|_| three[at].len() == 2);
        if let (Some(_), Some(month @ 1..=12), Some(day @ 1..=31)) = (year(&three[0]), number(1), number(2)) {
            parts.extend([DatePart::Month(month), DatePart::Day(day)]);
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

fn is_ambiguous(word: &str) -> bool {
    ["may", "march", "mar", "mai", "sept", "dec", "jan"].contains(&word)
}

/// Words after which “may” is a month.
const LEADING: [&str; 9] = ["in", "since", "until", "last", "this", "of", "during", "im", "en"];

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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(question: &str) -> Vec<DatePart> {
        date_parts(&question.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn dates_are_read_as_people_write_them() {
        assert_eq!(of("what did i cook on 14 february"), [DatePart::Month(2), DatePart::Day(14)]);
        assert_eq!(
            of("on february 14th 2025"),
            [DatePart::Month(2), DatePart::Day(14), DatePart::Year(2025)]
        );
        assert_eq!(of("the 1st of may"), [DatePart::Month(5), DatePart::Day(1)]);
        assert_eq!(of("in march 2025"), [DatePart::Month(3), DatePart::Year(2025)]);
        assert_eq!(of("on 2025 03 09"), [DatePart::Year(2025), DatePart::Month(3), DatePart::Day(9)]);
        assert_eq!(of("last tuesday"), [DatePart::Weekday(1)]);
        assert_eq!(of("im juli"), [DatePart::Month(7)]);
    }

    #[test]
    fn words_that_only_look_like_dates_are_words() {
        assert_eq!(of("may i march on"), []);
        assert_eq!(of("port 8080 and 32 of 14"), []);
        assert_eq!(of("error 14 in module 2"), []);
    }
}
