//! Search, lists and counts: the index of `manent-index` over the sessions of a store.
//!
//! The index knows streams and documents; this module tells it which text of a record is searched
//! ([`RecordCorpus`]), and is the part of [`Store`] that answers from it.

mod corpus;
mod text;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use manent_index::Background;
use manent_index::{
    Index, IndexDir, IndexState, Listing, MissingSession, Query, ReindexReport, SearchResults, StoreStats,
};
use manent_store::{Blobs, Place, ProgressFn, Selector, SessionKey, Streams};

use crate::error::Result;
use crate::store::Store;

pub(crate) use corpus::RecordCorpus;

/// The index of the sessions of a store.
pub(crate) type SessionIndex = Arc<Index>;

/// Makes the index of a store. It is kept in the store's blobs, else in `elsewhere`, else in memory.
pub(crate) fn session_index(
    streams: &Arc<dyn Streams>,
    blobs: Option<&Arc<dyn Blobs>>,
    elsewhere: Option<Arc<dyn Blobs>>,
    wait: Duration,
    background: Background,
) -> SessionIndex {
    let own = blobs.map(|blobs| IndexDir::new(blobs.clone(), FOLDER));
    let elsewhere = || elsewhere.map(|blobs| IndexDir::new(blobs, ""));
    let corpus = Arc::new(RecordCorpus::sessions(streams.clone(), wait));
    Index::new(corpus, own.or_else(elsewhere), background, wait)
}

/// Makes an index over another space of a store, in a folder of its own.
pub(crate) fn index_of(
    corpus: RecordCorpus,
    blobs: Option<&Arc<dyn Blobs>>,
    folder: &str,
    wait: Duration,
) -> Arc<Index> {
    let dir = blobs.map(|blobs| IndexDir::new(blobs.clone(), format!("{FOLDER}/{folder}")));
    Index::new(Arc::new(corpus), dir, Background::Never, wait)
}

impl Store {
    /// Finds turns, the best first.
    ///
    /// The answer is that of the logs at this moment, other programs' included: the index catches up first, and every
    /// hit was read from its log.
    pub fn search(&self, query: &Query, limit: usize) -> Result<SearchResults> {
        self.search_with(query, limit, &mut |_, _| {})
    }

    /// Finds turns like [`Store::search`], and tells how far the index is with catching up.
    pub fn search_with(
        &self,
        query: &Query,
        limit: usize,
        progress: ProgressFn<'_>,
    ) -> Result<SearchResults> {
        Ok(self.index().search(query, limit, progress, None)?)
    }

    /// Finds turns among what the index knows at once, without waiting until it has caught up.
    ///
    /// Where much is still to be read, as in the first search of a large store, a thread reads it from now on, and
    /// [`SearchResults::partial`] says how far that thread is. Where little is to be read, the answer is that of
    /// [`Store::search`], and [`SearchResults::partial`] is `None`.
    pub fn search_partial(&self, query: &Query, limit: usize) -> Result<SearchResults> {
        Ok(self.index().search_partial(query, limit)?)
    }

    /// Lists the sessions of a place, the one that was written last first: at most `limit`, none last written before
    /// `since_ms`. Every stream is looked at first, and what changed is read.
    pub fn sessions(&self, place: Place, since_ms: Option<i64>, limit: usize) -> Result<Listing> {
        self.sessions_with(place, since_ms, limit, &mut |_, _| {})
    }

    /// Lists sessions like [`Store::sessions`], and tells how far the catalogue is with catching up.
    pub fn sessions_with(
        &self,
        place: Place,
        since_ms: Option<i64>,
        limit: usize,
        progress: ProgressFn<'_>,
    ) -> Result<Listing> {
        Ok(self.index().sessions(place, since_ms, limit, progress)?)
    }

    /// Lists sessions that the index knows at once, without waiting until it has caught up. [`Listing::partial`] is as
    /// in [`Store::search_partial`].
    pub fn sessions_partial(&self, place: Place, since_ms: Option<i64>, limit: usize) -> Result<Listing> {
        Ok(self.index().sessions_so_far(place, since_ms, limit)?)
    }

    /// Lists live sessions like [`Store::sessions`], from the catalogue and without looking at every stream. Sessions
    /// that this and other processes of Manent wrote are up to date; what other programs wrote since
    /// [`Listing::as_of_ms`] may be missing. Returns `None` where the store is not so large that this would help, or
    /// where that cannot be told: then ask [`Store::sessions`].
    pub fn sessions_at_once(&self, since_ms: Option<i64>, limit: usize) -> Result<Option<Listing>> {
        Ok(self.index().sessions_at_once(since_ms, limit)?)
    }

    /// Counts what the store holds.
    pub fn stats(&self, progress: ProgressFn<'_>) -> Result<StoreStats> {
        Ok(self.index().stats(progress)?)
    }

    /// Makes the index anew from the logs.
    pub fn reindex(&self, progress: ProgressFn<'_>) -> Result<ReindexReport> {
        Ok(self.index().reindex(progress)?)
    }

    /// Compares the index on the disk with the logs. Changes nothing.
    pub fn index_state(&self) -> Result<IndexState> {
        Ok(self.index().index_state()?)
    }

    /// Returns the sessions that the catalogue once read, and that are nowhere now although no purge removed them:
    /// their logs were removed, emptied, or replaced by something else. Only what the catalogue knows can be missed:
    /// after [`Store::reindex`], nothing is.
    pub fn missing(&self) -> Result<Vec<MissingSession>> {
        Ok(self.index().missing()?)
    }

    /// Acknowledges missing sessions, so that they are no longer reported, and returns them.
    pub fn acknowledge_missing(&self, which: Selector<'_>) -> Result<Vec<MissingSession>> {
        Ok(self.index().acknowledge_missing(which)?)
    }

    /// Returns the missing sessions of ours that the last search or list came upon and that were never returned by this
    /// before, by any process.
    pub fn newly_missing(&self) -> Vec<MissingSession> {
        self.index().newly_missing()
    }

    /// Looks for the missing sessions that [`Store::newly_missing`] would return after a search or a list, for a
    /// program that does neither. Compares names and time stamps; records are read only if a session is missing.
    pub fn look_for_newly_missing(&self) -> Result<Vec<MissingSession>> {
        Ok(self.index().look_for_newly_missing()?)
    }

    /// Returns a live session of a key that the catalogue knows, and that is nowhere now. Asks for one key alone, so
    /// that it can be asked whenever a session is begun or not found.
    pub fn missing_of(&self, key: &SessionKey) -> Result<Option<MissingSession>> {
        Ok(self.index().missing_of(key)?)
    }
}

/// The folder of the index in the blobs of a store.
const FOLDER: &str = "index";
