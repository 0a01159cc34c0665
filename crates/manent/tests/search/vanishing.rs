//! Logs of ours that vanish in random lives: each must be named until it is acknowledged, and nothing else.

use std::collections::BTreeSet;

use manent::Place;
use manent::backend::Selector;
use manent::log::fs::Disk;

use super::clocks::{Done, Life, path, said};
use super::scenes::open;

/// A session of ours: its id and its key.
type Session = (String, String);

/// The program that acted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Us,
    Others,
}

#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// The catalogue on the disk had seen them, and nobody acknowledged the loss.
    known: BTreeSet<Session>,
    /// They vanished, and whether the catalogue had seen them is not known.
    perhaps: BTreeSet<Session>,
    /// Keys of sessions of which there were two files with one id.
    pub(crate) doubled: BTreeSet<String>,
}

impl Life {
    /// The sessions with an id, wherever they are.
    pub(crate) fn ids(&self) -> Result<BTreeSet<Session>, String> {
        let mut ids = BTreeSet::new();
        for place in Place::ALL {
            for listed in self.handles[0].list(place).map_err(said)? {
                ids.insert((listed.id.id, listed.id.key.to_string()));
            }
        }
        ids.retain(|(id, _)| !id.is_empty());
        Ok(ids)
    }

    /// Notes what another program made vanish, and what came back.
    pub(crate) fn note_vanished(&mut self, before: &BTreeSet<Session>, by: By) -> Done {
        let now = self.ids()?;
        self.losses.known.retain(|lost| !now.contains(lost));
        if by == By::Us {
            return Ok(());
        }
        let went = before.difference(&now).filter(|went| !self.losses.known.contains(*went));
        self.losses.perhaps.extend(went.cloned().collect::<Vec<_>>());
        Ok(())
    }

    /// A log that the catalogue has seen is removed, emptied, or another file takes its place; or somebody acknowledges
    /// what is lost.
    pub(crate) fn lose_or_acknowledge(&mut self) -> Done {
        if self.rng.chance(1, 4) {
            let store = open(&self.disk);
            self.did.push("acknowledges what is missing".to_owned());
            store.acknowledge_missing(Selector::All).map_err(said)?;
            // Whoever acknowledges looks first.
            self.losses.perhaps.append(&mut self.losses.known);
            return Ok(());
        }
        let mut live = self.handles[0].list(Place::Live).map_err(said)?;
        live.retain(|listed| !listed.id.id.is_empty() && listed.header_key.is_none());
        live.sort_by(|a, b| a.id.key.cmp(&b.id.key));
        if live.is_empty() {
            return Ok(());
        }
        let listed = live.swap_remove(self.rng.below(live.len() as u64) as usize);
        let file = path(&listed.id.key.file_name());
        // The catalogue sees it.
        open(&self.disk).stats(&mut |_, _| {}).map_err(said)?;
        let dice = self.rng.below(4);
        self.did.push(format!("{} vanishes, {dice}", file.display()));
        match dice {
            0 | 1 => self.disk.remove(&file).map_err(said)?,
            2 => self.disk.poke(&file, "").map_err(said)?,
            _ => {
                let line = "{\"role\":\"user\",\"content\":\"alpha\"}\n";
                self.disk.poke("/elsewhere/other", line).map_err(said)?;
                self.disk.rename(std::path::Path::new("/elsewhere/other"), &file).map_err(said)?;
            }
        }
        let lost = (listed.id.id, listed.id.key.to_string());
        if !self.ids()?.contains(&lost) {
            self.losses.known.insert(lost);
            self.stats.losses += 1;
        }
        Ok(())
    }

    /// Every session that a program reports as missing must be missing.
    pub(crate) fn check_losses(&self, at: usize) -> Done {
        let missing = self.handles[at].missing().map_err(said)?;
        let ours = missing.into_iter().filter(|missing| missing.ours);
        let named: BTreeSet<Session> =
            ours.map(|missing| (missing.id.id, missing.id.key.to_string())).collect();
        let is_single = |session: &&Session| !self.losses.doubled.contains(&session.1);
        let silent: Vec<_> = self.losses.known.difference(&named).filter(is_single).collect();
        let vanished = self.losses.known.union(&self.losses.perhaps).cloned().collect();
        let wrong: Vec<_> = named.difference(&vanished).filter(is_single).collect();
        if silent.is_empty() && wrong.is_empty() {
            return Ok(());
        }
        Err(format!("program {at} is silent about {silent:?}, and says that {wrong:?} are missing"))
    }
}
