//! What programs do to a memory, one act at a time.

use std::io::Write as _;

use manent::Error;
use manent::memory::{Kind, NewItem};

use super::lives::{Life, Writer};
use super::{fact, open};

type Done = Result<(), String>;

fn said(e: impl std::fmt::Display) -> String {
    e.to_string()
}

impl Life {
    pub(crate) fn act(&mut self) -> Done {
        match self.rng.below(20) {
            0..=5 => self.add(),
            6..=8 => self.forget(),
            9 | 10 => self.replace(),
            11 => self.compact(),
            12 => {
                self.reopen();
                Ok(())
            }
            13 | 14 => self.append_as_another(),
            15 => self.hold_for_long(),
            16 => self.refused(),
            17 => self.tear(),
            18 => self.forget_many(),
            _ => self.forget_nothing(),
        }
    }

    fn word(&mut self) -> String {
        self.words += 1;
        format!("qx{}zw", self.words)
    }

    /// Any item that is there, or nothing.
    fn any_id(&mut self) -> Option<u64> {
        let ids: Vec<u64> =
            self.model.items.iter().filter(|item| !item.forgotten).map(|item| item.id).collect();
        let nth = self.rng.below(ids.len().max(1) as u64) as usize;
        ids.get(nth).copied()
    }

    fn added(&mut self, item: &manent::memory::Item, word: &str) -> Done {
        self.did.push(format!("  {} is {word}", item.id));
        if item.id <= self.model.highest {
            return Err(format!("{} was given, and {} was taken", item.id, self.model.highest));
        }
        self.model.add(item.id, word, item.at_ms, item.replaces);
        self.stats.added += 1;
        Ok(())
    }

    fn new_item(&mut self) -> (NewItem, String) {
        let word = self.word();
        let kind = Kind::ALL[self.rng.below(4) as usize];
        (NewItem::new(kind, format!("about {word}, in a sentence\nof two lines")).tag("t"), word)
    }

    fn add(&mut self) -> Done {
        self.did.push("add".to_owned());
        let (item, word) = self.new_item();
        let memory = self.handle();
        let added = memory.add(&item).map_err(said)?;
        self.added(&added, &word)
    }

    fn replace(&mut self) -> Done {
        let Some(id) = self.any_id() else { return Ok(()) };
        self.did.push(format!("replace {id}"));
        let (item, word) = self.new_item();
        let is_replaced = self.model.is_replaced(id);
        match self.handle().add(&item.replacing(id)) {
            Ok(added) if !is_replaced => self.added(&added, &word),
            Err(Error::Replaced { .. }) if is_replaced => Ok(()),
            other => Err(format!("replacing {id}, which is replaced: {is_replaced}: {other:?}")),
        }
    }

    fn forget(&mut self) -> Done {
        let Some(id) = self.any_id() else { return Ok(()) };
        self.forget_all(&[id])
    }

    fn forget_many(&mut self) -> Done {
        let ids: Vec<u64> = (0..self.rng.range(2..=5)).filter_map(|_| self.any_id()).collect();
        self.forget_all(&ids)
    }

    fn forget_all(&mut self, ids: &[u64]) -> Done {
        self.did.push(format!("forget {ids:?}"));
        let forgotten = self.handle().forget(ids).map_err(said)?;
        let hidden: Vec<u64> = self.model.replaced().iter().map(|item| item.id).collect();
        for id in ids {
            self.model.forget(*id);
        }
        // Tombstones take numbers too; how many, the next item shows.
        self.model.highest += forgotten.ids.len() as u64;
        self.stats.forgotten += forgotten.ids.len() as u64;
        let mut again: Vec<u64> =
            self.model.active().iter().map(|item| item.id).filter(|id| hidden.contains(id)).collect();
        again.sort_unstable();
        again.dedup();
        if again == forgotten.active_again {
            return Ok(());
        }
        Err(format!("active again: {again:?}, and told were {:?}", forgotten.active_again))
    }

    fn forget_nothing(&mut self) -> Done {
        let id = self.model.highest + 1000;
        self.did.push(format!("forget {id}, which is not there"));
        let before = std::fs::read(self.path()).ok();
        match self.handle().forget(&[id]) {
            Err(Error::NoItem { id: told }) if told == id => {}
            other => return Err(format!("forgetting nothing: {other:?}")),
        }
        if std::fs::read(self.path()).ok() == before { Ok(()) } else { Err("it wrote something".to_owned()) }
    }

    fn compact(&mut self) -> Done {
        self.did.push("compact".to_owned());
        let compacted = self.handle().compact().map_err(said)?;
        let dropped = self.model.compact();
        self.stats.compacted += 1;
        if compacted.dropped != dropped {
            return Err(format!("{} were dropped, and {dropped} were to be", compacted.dropped));
        }
        for word in &self.model.gone {
            let files = super::files_with(self.home(), word);
            if !files.is_empty() {
                return Err(format!("{word} was forgotten and compacted away, and is in {files:?}"));
            }
        }
        Ok(())
    }

    fn reopen(&mut self) {
        let at = self.rng.below(self.handles.len() as u64) as usize;
        self.did.push(format!("open {at} anew"));
        self.handles[at] = open(self.home());
    }

    /// A program that knows nothing of our lease, and counts on from the highest id that it finds.
    fn append_as_another(&mut self) -> Done {
        if self.writer == Writer::Ours {
            return Ok(());
        }
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        let of_line = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("id")?.as_u64();
        let highest = text.lines().filter_map(of_line).max().unwrap_or(0);
        if highest < self.model.highest && self.model.is_there(highest + 1) {
            return Err(format!("another program would give {} again", highest + 1));
        }
        let (id, word) = (highest + 1, self.word());
        let target = self.any_id().filter(|_| self.rng.chance(1, 3));
        let double = self.any_id().filter(|_| self.rng.chance(1, 6));
        let line = match (target, double) {
            (Some(target), _) => {
                self.model.forget(target);
                self.model.highest = self.model.highest.max(id);
                format!("{{\"id\":{id},\"kind\":\"forget\",\"target\":{target}}}\n")
            }
            (None, double) => {
                let id = double.unwrap_or(id);
                let at_ms = 1_700_000_000_000 + self.rng.below(3) as i64 * 1000;
                self.model.add(id, &word, at_ms, None);
                let (ts, tail) = (at_ms / 1000, "\"tags\":[\"a\"]");
                format!(
                    "{{\"id\":{id},\"kind\":\"fact\",\"content\":\"theirs {word}\",\"ts\":{ts},{tail}}}\n"
                )
            }
        };
        self.did.push(format!("another program: {}", line.trim()));
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(self.path()).unwrap();
        file.write_all(line.as_bytes()).map_err(said)?;
        self.stats.foreign += 1;
        Ok(())
    }

    /// One holds it for several records; others are refused at once.
    fn hold_for_long(&mut self) -> Done {
        self.did.push("hold".to_owned());
        let (memory, other) = (self.handle(), self.handle());
        let mut hold = memory.writer(std::time::Duration::ZERO).map_err(said)?;
        for _ in 0..self.rng.range(1..=3) {
            let (item, word) = self.new_item();
            let added = hold.add(&item).map_err(said)?;
            self.added(&added, &word)?;
            match other.add(&fact("never")) {
                Err(Error::MemoryHeld { .. }) => {}
                other => return Err(format!("a second writer was let in: {other:?}")),
            }
        }
        Ok(())
    }

    fn refused(&mut self) -> Done {
        self.did.push("bad items".to_owned());
        let memory = self.handle();
        for bad in [fact(" \n"), fact("x").tag("a\nb"), fact("x").tag(""), fact("x").replacing(1 << 40)] {
            if memory.add(&bad).is_ok() {
                return Err(format!("{bad:?} was taken"));
            }
        }
        Ok(())
    }

    /// A writer dies in the middle of a record, which nobody was told is there.
    fn tear(&mut self) -> Done {
        let torn = r#"{"seq":900,"ts":"2026-11-16T00:00:00.000Z","kind":"fact","id":900,"source":{"who":"us"#;
        let length = self.rng.range(8..=torn.len() as u64) as usize;
        let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(self.path()) else { return Ok(()) };
        self.did.push(format!("a writer dies after {length} bytes"));
        file.write_all(&torn.as_bytes()[..length]).map_err(said)?;
        drop(file);
        if self.writer == Writer::Both {
            // Another program would write behind it, on the same line; not while we are looking.
            self.add()?;
        }
        self.stats.torn += 1;
        Ok(())
    }
}
