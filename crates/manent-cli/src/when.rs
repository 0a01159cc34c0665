//! Times as people write and read them: `5s`, `7d`, `2026-11-01`, *3 minutes ago*.

use std::str::FromStr;
use std::time::Duration;

/// A point in the past, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Since {
    pub(crate) ms: i64,
}

/// Reads a length of time: a whole number and `ms`, `s`, `m`, `h`, `d` or `w`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 =
        number.parse().map_err(|_| format!("{text:?} is no time; write 500ms, 5s, 2m, 12h, 7d or 2w"))?;
    let ms = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(format!("{unit:?} is no unit of time; use ms, s, m, h, d or w")),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(|| format!("{text:?} is too long"))
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Since, String> {
        if let Some(ms) = parse_ms(text) {
            return Ok(Since { ms });
        }
        if let Ok(day) = text.parse::<jiff::civil::Date>() {
            let midnight = day.to_zoned(jiff::tz::TimeZone::UTC).map_err(|e| e.to_string())?;
            return Ok(Since { ms: midnight.timestamp().as_millisecond() });
        }
        let ago = i64::try_from(duration(text)?.as_millis()).unwrap_or(i64::MAX);
        Ok(Since { ms: now_ms().saturating_sub(ago) })
    }
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

/// How long ago that was, in the words of a person. A time ahead of our clock is given as it is.
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
        _ => return format_ms(ms).chars().take(10).collect(),
    };
    format!("{number} {unit} ago")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_and_nonsense_is_refused() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2w"), Ok(Duration::from_hours(336)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "s", "5 s", "-5s", "5x", "99999999999999999999s", "18446744073709551615w"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_point_in_time_can_be_a_date_a_timestamp_or_a_length() {
        let ms = |text: &str| text.parse::<Since>().map(|s| s.ms);
        assert_eq!(ms("2026-11-15"), Ok(1_794_700_800_000));
        assert_eq!(ms("2026-11-15T00:00:01Z"), Ok(1_794_700_801_000));
        let week = now_ms() - ms("7d").expect("a length");
        assert!((604_800_000..604_860_000).contains(&week));
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
