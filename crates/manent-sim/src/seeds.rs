//! Runs many simulated lives, one for each seed, on all cores.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

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

/// Lives the lives that the environment asks for, or so many, and gives what happened and how many there were. What
/// went wrong in them is an error, in words.
///
/// The names are of the variables that ask for one seed, for the first seed, and for a number of lives.
pub fn live_as_asked<S: Default + Send>(
    [seed, first, count]: [&str; 3],
    lives: u64,
    live: impl Fn(u64) -> Result<S, String> + Sync,
    add: impl Fn(&mut S, &S) + Sync,
) -> Result<(S, u64), String> {
    let (first, count) = match number(seed)? {
        Some(one) => (one, 1),
        None => (number(first)?.unwrap_or(0), number(count)?.unwrap_or(lives)),
    };
    let described = |n: u64| live(n).map_err(|what| format!("seed {n}, again with {seed}={n}: {what}"));
    let (total, troubles) = live_all(first, count, described, add);
    if troubles.is_empty() {
        return Ok((total, count));
    }
    Err(format!("{} lives broke a promise:\n{}", troubles.len(), troubles.join("\n")))
}

/// Does something that could hang, and gives what it gave; an error in words if it does not come to its end.
pub fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let given = work();
        let _ = done.send(());
        given
    });
    match is_done.recv_timeout(HANGS_AFTER) {
        Err(mpsc::RecvTimeoutError::Timeout) => Err(format!("it hangs: nothing came for {HANGS_AFTER:?}")),
        // Done, or it panicked, and said why.
        _ => thread.join().map_err(|_| "it panicked; see above".to_owned()),
    }
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
/// Longer than anything takes on the slowest machine.
const HANGS_AFTER: Duration = Duration::from_mins(3);
