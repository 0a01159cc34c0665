//! The time, as it stands in records: UTC, to the millisecond.

/// Now, as records write it: `2026-11-15T18:07:00.123Z`.
pub fn now() -> String {
    at(jiff::Timestamp::now())
}

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// A time as a record gives it, in milliseconds since 1970.
pub(crate) fn parse_ms(ts: &str) -> Option<i64> {
    ts.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

fn at(time: jiff::Timestamp) -> String {
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_milliseconds_and_end_in_z() {
        let second = jiff::Timestamp::from_second(1_794_766_020).expect("in range");
        assert_eq!(at(second), "2026-11-15T18:07:00.000Z");
    }
}
