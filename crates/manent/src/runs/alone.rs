//! Being the only one at work on a run: an flock on a small file beside the logs.
//!
//! The log cannot be locked for that long, because others record to it meanwhile. The kernel lets go of the lock when
//! its holder dies, however it dies, so that the file may be left behind and means nothing: only the lock does.

use manent_log::Hold;

use super::Runs;
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::key::SessionKey;

/// The right to be the only one at work on a run, until it is dropped.
#[derive(Debug)]
pub struct Alone {
    _hold: Hold,
}

impl Runs {
    /// Makes sure that nobody else is at work on the run of this key, in any process: whoever asks meanwhile is told
    /// [`Error::Running`] at once. Take it before [`Runs::begin`], and keep it until the end is recorded.
    pub fn alone(&self, session: &SessionKey, idempotency_key: &str) -> Result<Alone> {
        self.core.home.make_room()?;
        self.core.files.make_room()?;
        // Both may be of any length, and hold anything.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(session.as_str().len() as u64).to_le_bytes());
        let hash = hasher.update(session.as_str().as_bytes()).update(idempotency_key.as_bytes()).finalize();
        let path = self.core.files.home().join(format!("{}{MARK}", &hash.to_hex()[..HASH_DIGITS]));
        match Hold::take(&self.core.disk, &path, self.core.trust) {
            Err(manent_log::Error::Held { pid, .. }) => Err(Error::Running { pid }),
            taken => Ok(Alone { _hold: taken? }),
        }
    }
}

/// Behind the names of such files. No log is called so.
const MARK: &str = ".running";
const HASH_DIGITS: usize = 32;
