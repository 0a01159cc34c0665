//! Times as people read them: *3 minutes ago*. Those that they write are read by [`manent::human_time`].

use std::str::FromStr;
use std::time::Duration;

use manent::human_time::{TimeError, parse_duration, parse_time};

/// A point in the past, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) ms: i64,
    /// The length of time before now, if a length was typed and not a day.
    pub(crate) length: Option<Duration>,
}

impl FromStr for Since {
    type Err = TimeError;

    fn from_str(text: &str) -> Result<Since, TimeError> {
        // A bare number may be a year.
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        let length = parse_duration(text).ok().filter(|_| has_unit);
        parse_time(text, now_ms()).map(|range| Since { ms: range.start_ms, length })
    }
}

/// Reads the end of a stretch of time, in milliseconds since 1970: of a day, the end of that day.
pub(crate) fn until(text: &str) -> Result<i64, TimeError> {
    parse_time(text, now_ms()).map(|range| range.end_ms)
}

/// The time now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Reads a time as records write it.
pub(crate) fn parse_ms(ts: &str) -> Option<i64> {
    ts.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

/// Writes a time as records write it.
pub(crate) fn format_ms(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| "-".to_owned(), |t| format!("{t:.3}"))
}

/// The day, as `2026-11-01`.
pub(crate) fn day(ms: i64) -> String {
    format_ms(ms).chars().take(10).collect()
}

/// The day and the minute, as `2026-11-01 10:22`.
pub(crate) fn minute(ms: i64) -> String {
    format_ms(ms).chars().take(16).collect::<String>().replace('T', " ")
}

/// Returns a time for a terminal, as an age, or for a file, as records write it.
pub(crate) fn age_or_timestamp(ms: i64, now: i64, is_terminal: bool) -> String {
    if is_terminal { ago(ms, now) } else { format_ms(ms) }
}

/// Returns the age of a time in words, such as `3 h ago`. A time ahead of the clock is returned as it is.
pub(crate) fn ago(ms: i64, now: i64) -> String {
    let seconds = (now - ms) / 1000;
    if seconds < -1 {
        return format_ms(ms);
    }
    let (number, unit) = match seconds {
        ..=4 => return "just now".to_owned(),
        5..=59 => (seconds, "s"),
        60..=3599 => (seconds / 60, "min"),
        3600..=86_399 => (seconds / 3600, "h"),
        86_400..=2_591_999 => (seconds / 86_400, "d"),
        _ => return day(ms),
    };
    format!("{number} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_counted_from_now() {
        let week = now_ms() - "7d".parse::<Since>().expect("a length").ms;
        assert!((604_800_000..604_860_000).contains(&week));
        let length = |text: &str| text.parse::<Since>().expect("a time").length;
        assert_eq!(length("7d"), Some(Duration::from_hours(168)));
        assert_eq!((length("2026"), length("today"), length("2026-11-01")), (None, None, None));
    }

    #[test]
    fn ages_read_as_a_person_says_them() {
        let now = 1_794_700_800_000;
        let before = |seconds: i64| ago(now - seconds * 1000, now);
        assert_eq!(before(0), "just now");
        assert_eq!(before(59), "59 s ago");
        assert_eq!(before(3 * 3600 + 5), "3 h ago");
        assert_eq!(before(40 * 86_400), "2026-10-06");
        assert_eq!(before(-60), "2026-11-15T00:01:00.000Z", "a clock that was wrong is not hidden");
    }
}
