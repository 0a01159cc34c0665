//! How what was counted of different runs is put together, and which of it is let go first when a table is full.

use super::capped::Counted;
use super::tally::{Cluster, Input, SkillTally, Version, Word, earlier, keep_first, later};

impl Counted for SkillTally {
    fn weight(&self) -> u64 {
        self.ends.all() + self.before.all()
    }

    fn merge(&mut self, other: SkillTally) {
        self.ends.merge(other.ends);
        self.before.merge(other.before);
        self.with_attempts += other.with_attempts;
        self.first_try += other.first_try;
        self.verified += other.verified;
        self.attempts.iter_mut().zip(other.attempts).for_each(|(mine, theirs)| *mine += theirs);
        self.attempts_sum += other.attempts_sum;
        self.durations.merge(&other.durations);
        self.good.merge(other.good);
        self.bad.merge(other.bad);
        self.open.merge(other.open);
    }
}

impl Counted for Version {
    fn weight(&self) -> u64 {
        self.ends.all()
    }

    fn merge(&mut self, other: Version) {
        self.ends.merge(other.ends);
        other.first_ms.into_iter().for_each(|ms| earlier(&mut self.first_ms, ms));
        other.last_ms.into_iter().for_each(|ms| later(&mut self.last_ms, ms));
        self.good.merge(other.good);
        self.bad.merge(other.bad);
    }
}

impl Counted for Input {
    fn weight(&self) -> u64 {
        let mixed = self.success > 0 && self.failure > 0;
        u64::from(self.success) + u64::from(self.failure) + if mixed { MIXED_WEIGHT } else { 0 }
    }

    fn merge(&mut self, other: Input) {
        self.success = self.success.saturating_add(other.success);
        self.failure = self.failure.saturating_add(other.failure);
        for (kept, met) in [(&mut self.good, other.good), (&mut self.bad, other.bad)] {
            if let Some((spot, id)) = met {
                keep_first(kept, spot, &id);
            }
        }
    }
}

impl Counted for Cluster {
    fn weight(&self) -> u64 {
        self.count
    }

    fn merge(&mut self, other: Cluster) {
        self.count += other.count;
        other.first_ms.into_iter().for_each(|ms| earlier(&mut self.first_ms, ms));
        other.last_ms.into_iter().for_each(|ms| later(&mut self.last_ms, ms));
        self.skills.merge(&other.skills);
        self.models.merge(&other.models);
        self.examples.merge(other.examples);
    }
}

impl Counted for Word {
    fn weight(&self) -> u64 {
        self.count
    }

    fn merge(&mut self, other: Word) {
        self.count += other.count;
        self.examples.merge(other.examples);
    }
}

/// An input that ended both ways is what the table is for, and goes last. Less than what is let go is told by.
const MIXED_WEIGHT: u64 = 1 << 20;
