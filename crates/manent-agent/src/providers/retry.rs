//! Limits of time, tries and size for what a server sends.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Limits of time, tries and size. [`Config::retry_policy`](crate::config::Config::retry_policy) makes them of the
/// settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The time for a connection.
    pub connect: Duration,
    /// The time for the first part of an answer, and later for each further part: a server that only says that it is
    /// still there has this long. A large model takes minutes to load, and others to read a long prompt.
    pub first_byte: Duration,
    /// The time for the next byte of an answer that has begun, whatever it says: `agent.max_silence`.
    pub between: Duration,
    /// The same, where tools may be called: some servers say nothing until a call is whole, and a call may have a whole
    /// file in it.
    pub call: Duration,
    /// The time for a server to say that it is there.
    pub probe: Duration,
    /// The number of attempts if a server is busy or fails (429, 500, 502, 503, 504).
    pub tries: u32,
    /// The number of attempts if a server refuses the connection or closes it without a response.
    pub reach_tries: u32,
    /// The wait before the second try; doubled for each further one, and up to a quarter less by chance, so that many
    /// who were
    /// turned away together do not come back together.
    pub first_wait: Duration,
    /// The longest wait, also where the server asks for a longer one.
    pub longest_wait: Duration,
    /// The longest answer, with thoughts and calls: `agent.max_answer_bytes`. A server that goes on is cut off. On the
    /// wire an answer may take `WIRE_FACTOR` times as much: each piece of it comes in an object of JSON.
    pub answer_bytes: usize,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(10),
            between: Duration::from_mins(1),
            call: Duration::from_mins(5),
            probe: Duration::from_secs(2),
            tries: 6,
            reach_tries: 1,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            answer_bytes: 4 << 20,
        }
    }
}

impl RetryPolicy {
    /// Returns the largest size of an answer on the wire.
    pub(super) fn wire_bytes(&self) -> usize {
        self.answer_bytes.saturating_mul(WIRE_FACTOR)
    }

    /// Returns the delay before the next attempt after `tries` attempts. `asked` is the delay that the server asked
    /// for.
    pub(super) fn wait(&self, tries: u32, asked: Option<Duration>, random: u64) -> Duration {
        if let Some(asked) = asked {
            // Never earlier than asked.
            return asked.min(self.longest_wait);
        }
        let doubled = self.first_wait.saturating_mul(1 << tries.saturating_sub(1).min(DOUBLINGS_MAX));
        let wait = doubled.min(self.longest_wait);
        wait.saturating_sub(wait / 4 / PARTS * (random % u64::from(PARTS)) as u32)
    }
}

/// Parses a `Retry-After` header: a number of seconds, or a date.
pub(super) fn retry_after(header: &str) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(header).ok()?;
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

/// A number that nobody can foresee, good enough to scatter waits and to tell ids apart.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A token of a few bytes comes in some 200 bytes of JSON.
pub(super) const WIRE_FACTOR: usize = 256;
const DOUBLINGS_MAX: u32 = 16;
const PARTS: u32 = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_scatter_and_end() {
        let retry_policy = RetryPolicy::default();
        assert_eq!(retry_policy.wait(1, None, 0), Duration::from_millis(500));
        assert_eq!(retry_policy.wait(3, None, 0), Duration::from_secs(2));
        assert_eq!(retry_policy.wait(u32::MAX, None, 0), retry_policy.longest_wait);
        assert!(retry_policy.wait(1, None, u64::from(PARTS) - 1) >= Duration::from_millis(375));
        assert!(
            (0..100).any(|_| retry_policy.wait(1, None, random()) != retry_policy.wait(1, None, random()))
        );
    }

    #[test]
    fn a_server_may_ask_for_time_but_not_for_all_of_it() {
        let retry_policy = RetryPolicy::default();
        let wait = |header| retry_policy.wait(1, retry_after(header), 0);
        assert_eq!(wait("7"), Duration::from_secs(7));
        assert_eq!(wait(" 0.25 "), Duration::from_millis(250));
        assert_eq!(wait("100000000000000000000000"), retry_policy.first_wait, "no number of seconds");
        assert_eq!(wait("86400"), retry_policy.longest_wait);
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Duration::ZERO, "is past");
        assert_eq!(wait("Fri, 21 Oct 2095 07:28:00 GMT"), retry_policy.longest_wait);
        for nonsense in ["", "-1", "NaN", "inf", "soon", "\u{0}"] {
            assert_eq!(wait(nonsense), retry_policy.first_wait, "{nonsense:?}");
        }
    }
}
