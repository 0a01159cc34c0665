//! Rounds in which the variants take turns, and the median of each.
//!
//! The machine is shared: a slow second would fall on one variant if each ran all its rounds at once. Taking turns
//! spreads it over all of them, and the median drops it. The first round only warms up.

use std::time::Instant;

use crate::Result;

/// A variant: does its work once and says what it cost.
pub(crate) type Run<'a> = &'a mut dyn FnMut() -> Result<f64>;

/// Runs the variants in turn, round after round, and gives the median cost of each.
pub(crate) fn interleaved<const N: usize>(rounds: usize, mut runs: [Run<'_>; N]) -> Result<[f64; N]> {
    let mut costs: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..=rounds {
        for (run, costs) in runs.iter_mut().zip(&mut costs) {
            let cost = run()?;
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    Ok(costs.map(median))
}

/// Microseconds for one of `count` things that happen in `work`.
pub(crate) fn micros_each(count: usize, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
}

/// The middle value; the mean of the two middle ones of an even number.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.is_empty() {
        f64::NAN
    } else if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}
