//! What of the report that is kept somebody should hear of: that a skill got worse, or ends both ways. Each once.
//!
//! What was told stands in a file beside the report, by what it is about: a later report that says the same of the same
//! thing is no news.

use std::collections::HashSet;

use super::kept::{Reports, Said, TOLD};
use super::statements::Topic;

impl Reports {
    /// What nobody was told yet, in the words of the report; from now on it counts as told. Where that cannot be noted,
    /// it is told again.
    pub fn take_alerts(&self) -> Vec<String> {
        let words = [Topic::Regression, Topic::Flaky].map(Topic::word);
        let is_alarm = |said: &Said| words.contains(&said.topic.as_str()) && is_mark(&said.about);
        let alarms: Vec<Said> = self.said().into_iter().filter(is_alarm).take(TOLD_MAX).collect();
        let told = self.told();
        let is_new = |said: &&Said| !told.contains(&said.about);
        let text = |said: &Said| said.text.chars().take(TEXT_CHARS_MAX).collect();
        let news: Vec<String> = alarms.iter().filter(is_new).map(text).collect();
        if !news.is_empty() {
            let marks: Vec<&str> = alarms.iter().map(|said| said.about.as_str()).collect();
            let _ = self.put_told(marks.join("\n").as_bytes());
        }
        news
    }

    fn told(&self) -> HashSet<String> {
        let bytes = self.bytes_of(TOLD, TOLD_BYTES_MAX).unwrap_or_default();
        String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
    }
}

/// Whether it is what our reports have there.
fn is_mark(about: &str) -> bool {
    !about.is_empty() && about.len() <= MARK_BYTES_MAX && about.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// No statement of ours is as long.
const TEXT_CHARS_MAX: usize = 2000;
const TOLD_MAX: usize = 1000;
const TOLD_BYTES_MAX: u64 = 1 << 20;
const MARK_BYTES_MAX: usize = 64;
