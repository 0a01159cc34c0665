//! A new session and its first turn, on the disk: what the first message of a conversation costs.
//!
//! The floor is what no store can do without: create a file, write the same bytes, sync the file, sync the
//! directory so that its name survives too. What is above it is the price of the name, the header, the lease
//! and the looks at what is there. The store is opened once, as a server would.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use manent::{SessionKey, Store, turn_body};

use crate::append::CONTENT_BYTES;
use crate::data::Turns;
use crate::measure::{interleaved, micros_each};
use crate::row::{Goal, Row};
use crate::session::file_of;
use crate::{Bench, Result};

pub(crate) fn run(bench: &Bench) -> Result<Vec<Row>> {
    let dir = bench.place("create")?;
    let home = dir.join("store");
    let store = Store::open(&home)?;
    let turns = Turns::of_one_size(5, SESSIONS, CONTENT_BYTES);
    let mut made = 0;
    let mut create = || -> Result<f64> {
        micros_each(SESSIONS, || {
            turns.iter().try_for_each(|turn| {
                made += 1;
                let key = SessionKey::new(format!("create-{made:06}"))?;
                store.append(&key, turn_body(&turn.ts, turn.role, &turn.content))?;
                Ok(())
            })
        })
    };
    create()?;
    // Keys and ids are all of one length, so these are as many bytes as any of them has.
    let bytes = std::fs::read(file_of(&home, &SessionKey::new("create-000001")?)?)?;
    let bare_dir = dir.join("bare");
    std::fs::create_dir(&bare_dir)?;
    let mut bare_made = 0;
    let [ours, bare] = interleaved(
        bench.rounds(91),
        [&mut create, &mut || {
            micros_each(SESSIONS, || {
                turns.iter().try_for_each(|_| {
                    bare_made += 1;
                    bare(&bare_dir, &format!("create-{bare_made:06}.jsonl"), &bytes)
                })
            })
        }],
    )?;
    let peer = "bare create + write + fsync both";
    Ok(vec![Row::new("new session, 1 KB, Sync", ours, "us", peer, bare, Goal::Within(1.3))])
}

fn bare(dir: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new().create_new(true).append(true).open(dir.join(name))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    File::open(dir)?.sync_all()?;
    Ok(())
}

/// Short rounds: a disk has slow moments, and they should fall on both.
const SESSIONS: usize = 10;
