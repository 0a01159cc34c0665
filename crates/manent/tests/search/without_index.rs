//! A store that keeps no index, so that it reads every log anew: what answers are compared with.

use std::sync::Arc;

use manent::{Files, Store, StoreOptions};

/// A store that knows nothing yet of what is in a directory, and never leaves anything there.
pub(crate) fn fresh(home: &std::path::Path) -> Store {
    fresh_on(Files::open(home).unwrap())
}

/// Opens a store like [`fresh`] on the backend of another store.
pub(crate) fn fresh_on(files: Files) -> Store {
    Store::on(Arc::new(files), None, StoreOptions::default())
}
