//! Many lives from as many seeds, on all cores, as the tests want them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Lives `count` lives from the seed `first` on; gives all that happened in them, added up, and what went wrong, each
/// with how to replay it. Stops early after a few troubles: the rest would say the same.
pub fn live_all<S: Default + Send>(
    first: u64,
    count: u64,
    live: impl Fn(u64) -> Result<S, String> + Sync,
    add: impl Fn(&mut S, &S) + Sync,
) -> (S, Vec<String>) {
    let next = AtomicU64::new(first);
    let lived = Mutex::new((S::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let stop = lived.lock().unwrap_or_else(PoisonError::into_inner).1.len() >= TROUBLES_MAX;
                    if seed >= first + count || stop {
                        break;
                    }
                    let outcome = live(seed);
                    let mut lived = lived.lock().unwrap_or_else(PoisonError::into_inner);
                    match outcome {
                        Ok(stats) => add(&mut lived.0, &stats),
                        Err(trouble) => lived.1.push(trouble),
                    }
                }
            });
        }
    });
    lived.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// A number from the environment, by which somebody asks for more lives, or for one of them. Nothing if it is not set,
/// an error in words if it is no number.
pub fn number(name: &str) -> Result<Option<u64>, String> {
    match std::env::var(name) {
        Ok(text) => text.parse().map(Some).map_err(|_| format!("{name} must be a number, not {text:?}")),
        Err(_) => Ok(None),
    }
}

const TROUBLES_MAX: usize = 3;
