//! Statistics of counts: an interval for a rate, a test for two rates, and a correction for many tests.

use serde::Serialize;

/// The fewest runs from which anything is concluded.
pub const RUNS_MIN: u64 = 5;
/// The chance that a whole report calls anything changed or different that is not: one in twenty.
pub const FALSE_ALARMS: f64 = 0.05;

/// A share of a count, with the interval in which the rate behind it lies 19 times out of 20 (Wilson's).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Proportion {
    /// The number that have a property.
    pub count: u64,
    /// The number of all.
    pub of: u64,
    /// The share; `None` if there are none to have it.
    pub rate: Option<f64>,
    /// The lower end of the interval.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl Proportion {
    /// Makes the share of `count` among `of`, with its interval.
    pub fn new(count: u64, of: u64) -> Proportion {
        let count = count.min(of);
        let Some((low, high)) = wilson(count, of) else {
            return Proportion { count, of, ..Proportion::default() };
        };
        Proportion { count, of, rate: Some(float(count) / float(of)), low: Some(low), high: Some(high) }
    }

    /// Returns true if there is enough of it to conclude anything.
    pub fn is_enough(&self) -> bool {
        self.of >= RUNS_MIN
    }
}

/// Wilson's interval for a rate, at 95 %. Unlike the plain one it holds at 0 %, at 100 % and for few.
pub fn wilson(count: u64, of: u64) -> Option<(f64, f64)> {
    if of == 0 {
        return None;
    }
    let (n, p) = (float(of), float(count.min(of)) / float(of));
    let z2 = Z95 * Z95;
    let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let half = Z95 / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    // At the ends the sum is 0 or 1 but for rounding.
    let low = if count == 0 { 0.0 } else { (middle - half).max(0.0) };
    let high = if count >= of { 1.0 } else { (middle + half).min(1.0) };
    Some((low, high))
}

/// Returns the p-value of two counts: the chance that they differ as much as these or more, if the rates behind them
/// are the same. Fisher's exact test, two-sided. Where the exact sum would be long (more than 20,000 of either), the
/// normal one with a correction for continuity, which is the same to all digits that anybody looks at.
pub fn different(a: Proportion, b: Proportion) -> f64 {
    if a.of == 0 || b.of == 0 {
        return 1.0;
    }
    if a.of > EXACT_MAX || b.of > EXACT_MAX { normal(a, b) } else { fisher(a, b) }
}

fn fisher(a: Proportion, b: Proportion) -> f64 {
    let (hits, all) = (a.count + b.count, a.of + b.of);
    let (first, last) = (hits.saturating_sub(b.of), hits.min(a.of));
    let logs = ln_factorials(all);
    let choose = |n: u64, k: u64| logs[n as usize] - logs[k as usize] - logs[(n - k) as usize];
    let whole = choose(all, hits);
    let weight = |k: u64| choose(a.of, k) + choose(b.of, hits - k) - whole;
    let seen = weight(a.count);
    let sum: f64 = (first..=last).map(weight).filter(|w| *w <= seen + SAME).map(f64::exp).sum();
    sum.min(1.0)
}

fn normal(a: Proportion, b: Proportion) -> f64 {
    let (n, m) = (float(a.of), float(b.of));
    let pooled = float(a.count + b.count) / (n + m);
    let spread = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
    if spread == 0.0 {
        return 1.0;
    }
    let apart = (float(a.count) / n - float(b.count) / m).abs();
    let corrected = (apart - f64::midpoint(1.0 / n, 1.0 / m)).max(0.0);
    upper_tails(corrected / spread)
}

/// Returns the chance that a normal number is so far from the middle, or farther, on either side. (W. J. Cody's
/// rational form of the complementary error function would be more exact; this is good to seven digits, and never below
/// zero.)
fn upper_tails(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + x / 2.0);
    let terms = [
        0.170_872_77,
        -0.822_152_23,
        1.488_515_87,
        -1.135_203_98,
        0.278_868_07,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_68,
        -1.265_512_23,
    ];
    let sum = terms.iter().fold(0.0, |sum, term| sum * t + term);
    (t * (sum - x * x).exp()).min(1.0)
}

/// The logarithms of 0! to n!.
fn ln_factorials(n: u64) -> Vec<f64> {
    let mut logs = Vec::with_capacity(n as usize + 1);
    logs.push(0.0);
    let mut sum = 0.0;
    for k in 1..=n {
        sum += float(k).ln();
        logs.push(sum);
    }
    logs
}

/// Corrects p-values for asking several questions at once (Holm's method): the chance that any of them is a false alarm
/// is no more than that of one. The result is in the order of `chances`.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut corrected = vec![1.0; chances.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max((chances[at] * float((chances.len() - rank) as u64)).min(1.0));
        corrected[at] = least;
    }
    corrected
}

#[expect(clippy::cast_precision_loss, reason = "counts of runs; 2^53 of them are enough")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

/// The quantile of the normal distribution that leaves one in twenty outside.
const Z95: f64 = 1.959_963_984_540_054;
/// The number of runs above which a sum over all tables takes longer than it is worth.
const EXACT_MAX: u64 = 20_000;
/// Tables that are as likely as the one seen are not told from it by rounding.
const SAME: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, by: f64) -> bool {
        (a - b).abs() <= by
    }

    #[test]
    fn wilson_is_as_in_the_books() {
        // R: prop.test(x, n, correct = FALSE)$conf.int, and binom::binom.confint(methods = "wilson").
        let known = [
            (0, 10, 0.0, 0.277_532_8),
            (1, 10, 0.017_876_2, 0.404_150_0),
            (5, 10, 0.236_593_1, 0.763_406_9),
            (10, 10, 0.722_467_2, 1.0),
            (81, 263, 0.255_284_5, 0.366_178_4),
        ];
        for (count, of, low, high) in known {
            let (l, h) = wilson(count, of).unwrap();
            assert!(near(l, low, 2e-4) && near(h, high, 2e-4), "{count} of {of}: {l} to {h}");
        }
        assert_eq!(wilson(0, 0), None);
        assert_eq!(Proportion::new(9, 3).count, 3, "no more than all");
    }

    #[test]
    fn fisher_is_as_in_the_books() {
        let p = |a, b, c, d| different(Proportion::new(a, a + b), Proportion::new(c, c + d));
        // The lady tasting tea; R: fisher.test(matrix(c(3, 1, 1, 3), 2))$p.value.
        assert!(near(p(3, 1, 1, 3), 0.485_714_3, 1e-6), "{}", p(3, 1, 1, 3));
        // R: fisher.test(matrix(c(1, 9, 11, 3), 2))$p.value.
        assert!(near(p(1, 9, 11, 3), 0.002_759_456, 1e-7), "{}", p(1, 9, 11, 3));
        // R: fisher.test(matrix(c(10, 2, 3, 15), 2))$p.value.
        assert!(near(p(10, 2, 3, 15), 0.000_536_724_1, 1e-8), "{}", p(10, 2, 3, 15));
        assert!(near(p(5, 5, 5, 5), 1.0, 1e-9) && near(p(7, 0, 9, 0), 1.0, 1e-9));
        assert!(near(different(Proportion::new(0, 0), Proportion::new(3, 4)), 1.0, 0.0));
    }

    #[test]
    fn the_long_way_and_the_short_way_agree() {
        let (a, b) = (Proportion::new(9_100, 10_000), Proportion::new(9_000, 10_000));
        assert!(near(fisher(a, b), normal(a, b), 5e-4), "{} {}", fisher(a, b), normal(a, b));
        assert!(near(upper_tails(1.959_963_984_540_054), 0.05, 1e-6));
        assert!(near(upper_tails(0.0), 1.0, 1e-6) && upper_tails(40.0) < 1e-300);
        let huge = different(Proportion::new(900_000, 1_000_000), Proportion::new(500_000, 1_000_000));
        assert!((0.0..1e-12).contains(&huge));
    }

    #[test]
    fn many_questions_have_their_price() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm").
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, wanted) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!(near(*got, wanted, 1e-12), "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }
}
