//! Stands for `search/` in a build without the feature `search`: there is no index, so nothing is noted in it.

#![expect(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the signatures are those of the build with an index"
)]

use std::sync::Arc;
use std::time::Duration;

use manent_store::{Blobs, SessionKey, StreamId, Streams};

use crate::error::Result;

/// Says whether a store may start a thread that keeps its index near the logs. Without an index it is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Background {
    Allowed,
    Never,
}

/// The index that this build does not have.
#[derive(Debug, Clone)]
pub(crate) struct SessionIndex;

pub(crate) fn session_index(
    _streams: &Arc<dyn Streams>,
    _blobs: Option<&Arc<dyn Blobs>>,
    _elsewhere: Option<Arc<dyn Blobs>>,
    _wait: Duration,
    _background: Background,
) -> SessionIndex {
    SessionIndex
}

impl SessionIndex {
    pub(crate) fn note_written(&self, _key: &SessionKey) {}

    pub(crate) fn announce_purge(&self, _sessions: &[StreamId]) {}

    pub(crate) fn forget(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) fn once(&self, _at: &StreamId) -> Result<Option<(u64, u64)>> {
        Ok(None)
    }

    pub(crate) fn acknowledge(&self, _at: &StreamId) -> Result<()> {
        Ok(())
    }
}
