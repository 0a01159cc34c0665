//! Reading the records of a session, for every command that does: finding and opening it, going through its records,
//! and warning of a torn end.

use manent::{Damage, LogEnd, LogItem, Place, Reader, Record, SessionKey, Start, Store, StreamId};

use super::missing;
use crate::commands::prelude::*;

/// Opens the session that `name` means: the live one of a key, else the newest archived. The error for one that is not
/// found says whether its log vanished.
pub(super) fn open_session(store: &Store, name: &str, start: Start) -> Result<(StreamId, Reader), Failure> {
    let mut attempts = OPEN_ATTEMPTS;
    loop {
        let found = find_session(store, name);
        let at = found.map_err(|failure| missing::explain(store, name, failure))?.id;
        attempts -= 1;
        match store.read(&at, start) {
            // Another process archived it after it was found: it is looked for again.
            Err(e) if e.is_not_found() && attempts > 0 => {}
            read => return Ok((at, read?)),
        }
    }
}

/// Calls `act` for every record but the header, which is the store's own, and for every damaged place. Warns of records
/// that are not UTF-8.
pub(super) fn for_each_record(
    context: &Context<'_>,
    key: &SessionKey,
    reader: &mut Reader,
    mut act: impl FnMut(Result<&Record<'_>, &Damage>) -> io::Result<()>,
) -> Result<(), Failure> {
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Damage(damage) => act(Err(&damage))?,
            LogItem::Entry(entry) if entry.seq == 0 && entry.verified => {}
            LogItem::Entry(entry) => match Record::of(&entry) {
                Some(record) => act(Ok(&record))?,
                None => context.warn(&format!("{key}: record {} is not UTF-8", entry.seq)),
            },
        }
    }
    Ok(())
}

/// Warns if a log that was read to its end has bytes behind its last record.
pub(super) fn warn_of_torn_end(context: &Context<'_>, at: &StreamId, reader: &Reader) {
    let key = &at.key;
    match reader.end() {
        LogEnd::Torn(_) if at.place == Place::Archive => {
            context.warn(&format!("{key}: the end of the archive is lost; `manent verify` tells"));
        }
        LogEnd::Torn(torn) => {
            let what = "bytes at the end are no record: torn by a crash, or being written now";
            context.warn(&format!("{key}: the last {} {what}; `manent verify` tells", torn.length));
        }
        LogEnd::Clean => {}
    }
}

const OPEN_ATTEMPTS: u32 = 8;
