//! What programs do to a store, through the library.

use manent::{Durability, Expect, Place, StreamStat};

use super::key;
use super::lives::{Life, open};
use super::oracle::pick;

const KEYS: [&str; 5] = ["k0", "k1", "k2", "telegram:a b", "f1"];

type Done = Result<(), String>;

pub(crate) fn said(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl Life {
    /// One act of one program.
    pub(crate) fn act(&mut self) -> Done {
        match self.rng.below(20) {
            0..=5 => self.append(),
            6 => self.append_many(),
            7 => self.title(),
            8..=14 => self.change(),
            15 | 16 => {
                let at = self.rng.below(self.handles.len() as u64) as usize;
                self.did.push(format!("open {at} anew"));
                self.handles[at] = open(self.home());
                Ok(())
            }
            17 => {
                self.did.push("reindex".to_owned());
                self.handle().reindex(&mut |_, _| {}).map(drop).map_err(said)
            }
            18 => {
                self.did.push("verify and repair".to_owned());
                let name = key(pick(&mut self.rng, &KEYS));
                self.handle().repair(&name).map(drop).map_err(said)
            }
            _ => {
                self.did.push("list and count".to_owned());
                let store = self.handle();
                store.stats(&mut |_, _| {}).map_err(said)?;
                store.sessions(Place::Live, None, 10).map(drop).map_err(said)
            }
        }
    }

    fn append(&mut self) -> Done {
        let name = pick(&mut self.rng, &KEYS);
        self.did.push(format!("append to {name}"));
        let store = self.handle();
        for _ in 0..self.rng.range(1..=4) {
            let body = self.body();
            store.append_with(&key(name), &[body], Durability::Flush, Expect::Any).map_err(said)?;
        }
        Ok(())
    }

    /// So many that lists have blocks.
    fn append_many(&mut self) -> Done {
        let name = pick(&mut self.rng, &KEYS);
        self.did.push(format!("append many to {name}"));
        let bodies: Vec<_> = (0..self.rng.range(60..=200)).map(|_| self.body()).collect();
        let store = self.handle();
        store.append_with(&key(name), &bodies, Durability::Flush, Expect::Any).map(drop).map_err(said)
    }

    fn title(&mut self) -> Done {
        let (name, title) = (pick(&mut self.rng, &KEYS), self.text());
        self.did.push(format!("title of {name}"));
        self.handle().set_title(&key(name), &title).map(drop).map_err(said)
    }

    /// Any session, wherever it is.
    fn any_session(&mut self) -> Option<StreamStat> {
        let mut all = Vec::new();
        for place in Place::ALL {
            all.extend(self.handles[0].list(place).ok()?);
        }
        all.sort_by(|a, b| {
            let order = |listed: &StreamStat| {
                let at = &listed.id;
                (at.place, at.key.to_string(), at.id.clone())
            };
            order(a).cmp(&order(b))
        });
        let nth = self.rng.below(all.len().max(1) as u64) as usize;
        (nth < all.len()).then(|| all.swap_remove(nth))
    }

    /// Moves, forks or purges a session.
    fn change(&mut self) -> Done {
        let Some(listed) = self.any_session() else { return Ok(()) };
        let at = &listed.id;
        let what = format!("{} {} {}", at.place.word(), at.key, at.id);
        let dice = self.rng.below(10);
        if dice < 2 {
            let to = pick(&mut self.rng, &["k0", "k1", "fork a", "fork b"]);
            let upto = self.rng.chance(1, 2).then(|| self.rng.range(1..=3));
            self.did.push(format!("fork {what} at {upto:?} to {to}"));
            return self.handle().fork(at, upto, &key(to)).map(drop).map_err(said);
        }
        if dice == 2 {
            let with_forks = self.rng.chance(1, 3);
            self.did.push(format!("purge {what}, with forks: {with_forks}"));
            return self.handle().purge(std::slice::from_ref(at), with_forks).map(drop).map_err(said);
        }
        let store = self.handle();
        let (word, done) = match at.place {
            Place::Live if dice < 7 => ("archive", store.archive(at, &mut |_, _| {})),
            Place::Archive if dice < 7 => ("unarchive", store.unarchive(at)),
            Place::Live | Place::Archive => ("delete", store.delete(at)),
            Place::Trash => ("restore", store.restore(&listed)),
        };
        self.did.push(format!("{word} {what}"));
        done.map(drop).map_err(said)
    }
}
