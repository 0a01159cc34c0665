//! Who may write a stream, and who may move streams; whoever comes second waits.
//!
//! A lease is the name of a key in a set, whether the stream exists or not: a stream that was never written
//! is not there, for readers, for lists and for the next writer.

use std::fmt;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use manent_log::{Body, Durability, Expect, Fate};

use super::stream::Stream;
use super::{NAME, Shared, Spot, State, not_found, path_of};
use crate::backend::{Address, Exclusive, Lease, NewHeader, Position, Receipt};
use crate::error::{Error, Result};
use crate::key::SessionKey;
use crate::sync::lock;

impl Shared {
    /// Waits until nobody writes the live stream of a key.
    pub(super) fn wait_for_writer(&self, key: &SessionKey, wait: Duration) -> Result<MutexGuard<'_, State>> {
        let (state, held) = self.wait_while(wait, |state| state.leased.contains(key));
        if held {
            let pid = Some(std::process::id());
            return Err(manent_log::Error::Held { path: path_of(key), pid }.into());
        }
        Ok(state)
    }

    /// Waits at most so long for something to end; whether it goes on still.
    fn wait_while(&self, wait: Duration, goes_on: impl Fn(&State) -> bool) -> (MutexGuard<'_, State>, bool) {
        let state = lock(&self.state);
        let waited = self.freed.wait_timeout_while(state, wait, |state| goes_on(state));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, timeout.timed_out())
    }
}

/// A key whose live stream nobody else may write until this is dropped, also by a panic.
struct Claim {
    shared: Arc<Shared>,
    key: SessionKey,
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&self.shared.state).leased.remove(&self.key);
        self.shared.freed.notify_all();
    }
}

/// The right to write the live stream of a key.
pub(super) struct MemoryLease {
    claim: Claim,
    stream: Arc<Stream>,
    /// Whether the stream has no record yet, so that nobody may see it.
    unborn: bool,
}

impl MemoryLease {
    pub(super) fn take(
        shared: &Arc<Shared>,
        key: &SessionKey,
        new: Option<NewHeader<'_>>,
        wait: Duration,
    ) -> Result<MemoryLease> {
        let mut state = shared.wait_for_writer(key, wait)?;
        state.leased.insert(key.clone());
        let live = state.live(key).map(|spot| spot.stream.clone());
        drop(state);
        let claim = Claim { shared: shared.clone(), key: key.clone() };
        match (live, new) {
            (Some(stream), _) => Ok(MemoryLease { claim, stream, unborn: false }),
            // Made without the lock: the caller may want to look at this store for it.
            (None, Some(new)) => {
                let stream = Arc::new(Stream::new(&new())?);
                Ok(MemoryLease { claim, stream, unborn: true })
            }
            (None, None) => Err(not_found(&Address::live(key))),
        }
    }
}

impl Lease for MemoryLease {
    fn append(&mut self, bodies: &[Body], durability: Durability, expect: Expect) -> Result<Vec<Receipt>> {
        let next = self.next_seq();
        let (fates, fresh) = manent_log::sort_out(bodies, |key| self.stream.with_key(key));
        if let (Expect::Seq(expected), None | Some(Fate::Written(_))) = (expect, fates.first())
            && expected != next
        {
            return Err(manent_log::Error::Conflict { path: path_of(&self.claim.key), expected, next }.into());
        }
        let first = self.stream.append(&self.claim.key, &fresh)?;
        if self.unborn && !fresh.is_empty() {
            lock(&self.claim.shared.state).put(&self.claim.key, Spot::live(self.stream.clone()));
            self.unborn = false;
        }
        let receipt = |fate: Fate<(u64, u64)>| {
            let (seq, position) = match fate {
                Fate::Known(place) => place,
                Fate::Written(nth) => (next + nth as u64, first + nth as u64),
            };
            Receipt { id: self.id().clone(), seq, position: Position::new(position), durability }
        };
        Ok(fates.into_iter().map(receipt).collect())
    }

    fn keep_from(&mut self, _position: Position) -> Result<()> {
        Ok(())
    }

    fn next_seq(&self) -> u64 {
        self.stream.next_seq()
    }

    fn id(&self) -> &Arc<str> {
        self.stream.id()
    }
}

impl fmt::Debug for MemoryLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLease").field("key", &self.claim.key).finish_non_exhaustive()
    }
}

/// The right to move, make and remove streams.
pub(super) struct Moving {
    shared: Arc<Shared>,
}

impl Moving {
    pub(super) fn take(shared: &Arc<Shared>, wait: Duration) -> Result<Moving> {
        let (mut state, busy) = shared.wait_while(wait, |state| state.moving);
        if busy {
            return Err(Error::Busy { path: NAME.into(), pid: Some(std::process::id()) });
        }
        state.moving = true;
        drop(state);
        Ok(Moving { shared: shared.clone() })
    }
}

impl Exclusive for Moving {}

impl Drop for Moving {
    fn drop(&mut self) {
        lock(&self.shared.state).moving = false;
        self.shared.freed.notify_all();
    }
}

impl fmt::Debug for Moving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Moving")
    }
}
