//! Times as people write them: `5s`, `7d`, `2026-11-01`, `yesterday`. One reader for commands and for queries.
//!
//! Days begin at midnight UTC, as the times in records do: a library knows nobody's time zone.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A stretch of time: a day where a day was written, empty where a point was. In milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// The first millisecond of the range.
    pub start_ms: i64,
    /// The first millisecond that is no more in it; its beginning if it is a point.
    pub end_ms: i64,
}

/// A text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// Text that is not a length of time.
    #[error("{0:?} is no time; write 500ms, 5s, 2m, 12h, 7d or 2w")]
    NoLength(String),
    /// A number, but of what?
    #[error("{0:?} is no unit of time; use ms, s, m, h, d or w")]
    NoUnit(String),
    /// Text that is not a point in time.
    #[error("{0:?} is no point in time; write 7d, 2026-11-01, 2026-11-01T10:00, today or yesterday")]
    NoPoint(String),
    /// A span that is too long to be counted.
    #[error("{0:?} is too long")]
    TooLong(String),
}

/// Reads a length of time: a whole number and `ms`, `s`, `m`, `h`, `d` or `w`.
pub fn parse_duration(text: &str) -> Result<Duration, TimeError> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| TimeError::NoLength(brief(text)))?;
    let ms = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(TimeError::NoUnit(brief(unit))),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(|| TimeError::TooLong(brief(text)))
}

/// Reads a point in time, a day, a month or a year: a length before now (`7d`), `2026-11-01`, `2026-11-01T10:00`,
/// `2026-11`, `2026`, `today`, `yesterday`, or a time as records write it.
///
/// ```
/// let now_ms = 1_794_766_020_000; // 2026-11-15T18:07:00Z
/// let yesterday = manent_store::human_time::parse_time("yesterday", now_ms).unwrap();
/// assert_eq!(yesterday, manent_store::human_time::parse_time("2026-11-14", now_ms).unwrap());
/// assert_eq!(manent_store::human_time::parse_time("7d", now_ms).unwrap().start_ms, now_ms - 7 * 86_400_000);
/// ```
pub fn parse_time(text: &str, now_ms: i64) -> Result<TimeRange, TimeError> {
    let no_point = || TimeError::NoPoint(brief(text));
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(point(time.as_millisecond()));
    }
    if let Some(range) = named_day(text, now_ms).or_else(|| month_or_year(text)) {
        return Ok(range);
    }
    // Only what holds a time of day: a date alone would be read as its midnight.
    if text.contains(':') {
        let time: DateTime = text.parse().map_err(|_| no_point())?;
        return Ok(point(ms(time).ok_or_else(no_point)?));
    }
    if let Ok(day) = text.parse::<Date>() {
        let next = day.tomorrow().map_err(|_| no_point())?;
        return between(day, next).ok_or_else(no_point);
    }
    let ago = parse_duration(text).map_err(|_| no_point())?;
    let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
    Ok(point(now_ms.saturating_sub(ago)))
}

fn named_day(text: &str, now_ms: i64) -> Option<TimeRange> {
    let today = Timestamp::from_millisecond(now_ms).ok()?.to_zoned(TimeZone::UTC).date();
    if text.eq_ignore_ascii_case("today") {
        between(today, today.tomorrow().ok()?)
    } else if text.eq_ignore_ascii_case("yesterday") {
        between(today.yesterday().ok()?, today)
    } else {
        None
    }
}

/// `2026` and `2026-11`. A year is told from a number of seconds by its four digits.
fn month_or_year(text: &str) -> Option<TimeRange> {
    let (year, month) = match text.split_once('-') {
        Some((year, month)) if month.len() == 2 => (year, Some(month)),
        Some(_) => return None,
        None => (text, None),
    };
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if year.len() != 4 || !is_number(year) || !month.is_none_or(is_number) {
        return None;
    }
    let first = Date::new(year.parse().ok()?, month.unwrap_or("1").parse().ok()?, 1).ok()?;
    let length = if month.is_some() { 1.month() } else { 1.year() };
    between(first, first.checked_add(length).ok()?)
}

fn point(ms: i64) -> TimeRange {
    TimeRange { start_ms: ms, end_ms: ms }
}

fn between(first: Date, next: Date) -> Option<TimeRange> {
    Some(TimeRange { start_ms: ms(first.at(0, 0, 0, 0))?, end_ms: ms(next.at(0, 0, 0, 0))? })
}

fn ms(time: DateTime) -> Option<i64> {
    time.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp().as_millisecond())
}

/// Returns the part of a text that an error may repeat, with control characters replaced.
fn brief(text: &str) -> String {
    const CHARS_MAX: usize = 24;
    let shown = |c: char| if c.is_alphanumeric() || c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let mut brief: String = text.chars().take(CHARS_MAX).map(shown).collect();
    if text.chars().nth(CHARS_MAX).is_some() {
        brief.push('…');
    }
    brief
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-15T18:07:00Z
    const NOW: i64 = 1_794_766_020_000;
    const DAY: i64 = 86_400_000;

    #[test]
    fn lengths_of_time_are_read_and_nonsense_is_refused() {
        assert_eq!(parse_duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("2w"), Ok(Duration::from_hours(336)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "5 s", "-5s", "5x", "99999999999999999999s", "18446744073709551615w"] {
            assert!(parse_duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_point_in_time_can_be_a_date_a_timestamp_or_a_length() {
        let start = |text: &str| parse_time(text, NOW).map(|range| range.start_ms);
        assert_eq!(start("2026-11-15"), Ok(1_794_700_800_000));
        assert_eq!(start("2026-11-15T00:00:01Z"), Ok(1_794_700_801_000));
        assert_eq!(start("2026-11-15T02:00:01+02:00"), Ok(1_794_700_801_000));
        assert_eq!(start("2026-11-15T10:00"), Ok(1_794_736_800_000));
        assert_eq!(start("2026-11-15 10:00"), Ok(1_794_736_800_000));
        assert_eq!(start("7d"), Ok(NOW - 7 * DAY));
        assert_eq!(start("Today"), Ok(1_794_700_800_000));
        assert_eq!(start("yesterday"), Ok(1_794_700_800_000 - DAY));
        assert_eq!(start("2026-11"), start("2026-11-01"));
        assert_eq!(start("2026"), start("2026-01-01"), "a year, not half an hour ago");
        assert_eq!(start("18446744073709551s"), Ok(NOW - i64::MAX));
    }

    /// A day that is asked for is the whole of it.
    #[test]
    fn days_months_and_years_last_points_do_not() {
        let length = |text: &str| parse_time(text, NOW).map(|range| range.end_ms - range.start_ms);
        assert_eq!(length("2026-11-15"), Ok(DAY));
        assert_eq!(length("yesterday"), Ok(DAY));
        assert_eq!(length("2026-02"), Ok(28 * DAY));
        assert_eq!(length("2028"), Ok(366 * DAY));
        for point in ["7d", "2026-11-15T10:00", "2026-11-15T10:00:00Z"] {
            assert_eq!(length(point), Ok(0), "{point}");
        }
    }

    #[test]
    fn what_is_no_time_is_said_in_few_and_harmless_words() {
        let long = "x\u{1b}]0;".repeat(1000);
        for wrong in ["", "monday", "2026-13-01", "2026-1", "9999-12-31", "25:00", "7 days", "é", &*long] {
            let message = parse_time(wrong, NOW).expect_err(wrong).to_string();
            assert!(message.len() < 200 && !message.contains('\u{1b}'), "{message}");
        }
        for now in [i64::MIN, i64::MAX] {
            assert!(parse_time("7d", now).is_ok());
            assert!(parse_time("today", now).is_err(), "a clock beyond all calendars");
        }
    }
}
