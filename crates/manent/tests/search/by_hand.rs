//! What people, other programs and failing disks do to the files of a store.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::actions::said;
use super::check::Like;
use super::lives::Life;
use super::oracle::{ROLES, WORDS, pick};

type Done = Result<(), String>;

impl Life {
    pub(crate) fn by_hand(&mut self) -> Done {
        match self.rng.below(24) {
            0..=4 => self.foreign_lines(),
            5 | 6 => self.foreign_in_place(),
            7 => self.foreign_replaced(),
            8 | 9 => self.cut(),
            10 => self.cut_and_grown(),
            11 => self.glued(),
            12 => self.rotten(),
            13 => self.removed(),
            14 => self.moved(),
            15 => self.copied(),
            _ => self.index_by_hand(),
        }
    }

    /// The files in a directory whose names end so, sorted.
    pub(crate) fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.is_file() && path.to_str().unwrap().ends_with(end)).collect();
        files.sort();
        files
    }

    fn one_of(&mut self, files: &[PathBuf]) -> Option<PathBuf> {
        (!files.is_empty()).then(|| files[self.rng.below(files.len() as u64) as usize].clone())
    }

    /// A live session; one of another program where that is asked for.
    fn log(&mut self, start: &str) -> Option<PathBuf> {
        let mut files = Life::files(&self.sessions(), ".jsonl");
        files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(start));
        self.one_of(&files)
    }

    fn foreign_line(&mut self) -> String {
        let (role, text) = (pick(&mut self.rng, &ROLES), self.text());
        let role = if self.rng.chance(1, 8) { role.to_uppercase() } else { role.to_owned() };
        let (role, text) = (serde_json::json!(role), serde_json::json!(text));
        match self.rng.below(12) {
            0 => format!("{{\"type\":\"event\",\"content\":{text}}}"),
            1 => "{\"role\":\"user\",\"cont".to_owned(),
            2 => "\u{0}\u{0} no record at all".to_owned(),
            3 => String::new(),
            4 => format!("{{\"role\":{role},\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}"),
            5..=7 => format!("{{\"role\":{role},\"content\":{text}}}"),
            _ => format!("{{\"role\":{role},\"content\":{text},\"ts\":\"{}\"}}", self.ts()),
        }
    }

    /// Another program goes on with its session, or begins one.
    fn foreign_lines(&mut self) -> Done {
        let name = pick(&mut self.rng, &["f0.jsonl", "f1.jsonl", "f2:x.jsonl", "f3.jsonl.archived"]);
        self.did.push(format!("another program writes {name}"));
        let mut lines = String::new();
        for _ in 0..self.rng.range(1..=6) {
            lines += &self.foreign_line();
            lines.push('\n');
        }
        if self.rng.chance(1, 6) {
            lines.pop();
        }
        let path = self.sessions().join(name);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).map_err(said)?;
        file.write_all(lines.as_bytes()).map_err(said)
    }

    /// Another program changes a word of what it wrote, where it stands.
    fn foreign_in_place(&mut self) -> Done {
        let Some(path) = self.log("f") else { return Ok(()) };
        let bytes = fs::read(&path).map_err(said)?;
        if is_ours(&bytes) && self.like == Like::Exactly {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut places: Vec<usize> = Vec::new();
        for word in WORDS.iter().filter(|word| word.len() == 5) {
            places.extend(text.match_indices(word).map(|(at, _)| at));
        }
        if places.is_empty() {
            return Ok(());
        }
        let at = places[self.rng.below(places.len() as u64) as usize];
        let five: Vec<&str> = WORDS.iter().copied().filter(|word| word.len() == 5).collect();
        let word = pick(&mut self.rng, &five);
        self.did.push(format!("byte {at} of {} is {word} now", path.display()));
        write_at(&path, at as u64, word.as_bytes())
    }

    /// Another program writes its session anew: under the same name, or into the same file.
    fn foreign_replaced(&mut self) -> Done {
        let Some(path) = self.log("f") else { return Ok(()) };
        let rename = self.rng.chance(1, 2);
        self.did.push(format!("{} is written anew, renamed: {rename}", path.display()));
        let old = fs::read_to_string(&path).unwrap_or_default();
        let mut lines: Vec<String> = old.lines().map(str::to_owned).collect();
        let at = self.rng.below(lines.len() as u64 + 1) as usize;
        let line = self.foreign_line();
        if at < lines.len() && self.rng.chance(1, 2) {
            lines[at] = line;
        } else {
            lines.insert(at, line);
        }
        let text = lines.join("\n") + "\n";
        if rename {
            let beside = self.home().join("beside");
            fs::write(&beside, text).map_err(said)?;
            fs::rename(beside, path).map_err(said)
        } else {
            fs::write(path, text).map_err(said)
        }
    }

    fn cut(&mut self) -> Done {
        let Some(path) = self.log("") else { return Ok(()) };
        let bytes = fs::read(&path).map_err(said)?;
        let len = self.rng.below(bytes.len() as u64 + 1);
        self.did.push(format!("{} is cut to {len}", path.display()));
        let file = fs::OpenOptions::new().write(true).open(path).map_err(said)?;
        file.set_len(len).map_err(said)
    }

    /// Replaces the last records by others, as after a power cut.
    fn cut_and_grown(&mut self) -> Done {
        let Some(path) = self.log("k") else { return Ok(()) };
        let bytes = fs::read(&path).map_err(said)?;
        let ends: Vec<usize> = (1..=bytes.len()).filter(|at| bytes[at - 1] == b'\n').collect();
        if ends.len() < 2 {
            return Ok(());
        }
        let keep = ends[self.rng.below(ends.len() as u64 - 1) as usize];
        self.did.push(format!("{} is cut to {keep} and grows", path.display()));
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_len(keep as u64))
            .map_err(said)?;
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let store = super::lives::open(self.home());
        for _ in 0..self.rng.range(1..=ends.len() as u64) {
            let body = self.body();
            store
                .append_with(&super::key(&name), &[body], manent::Durability::Flush, manent::Expect::Any)
                .map_err(said)?;
        }
        Ok(())
    }

    /// A newline is lost.
    fn glued(&mut self) -> Done {
        let Some(path) = self.log("") else { return Ok(()) };
        let mut bytes = fs::read(&path).map_err(said)?;
        let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
        if ends.is_empty() {
            return Ok(());
        }
        let at = ends[self.rng.below(ends.len() as u64) as usize];
        self.did.push(format!("{} loses its newline at {at}", path.display()));
        bytes.remove(at);
        fs::write(path, bytes).map_err(said)
    }

    /// A bit flips, in a log of ours or in an archive.
    fn rotten(&mut self) -> Done {
        if self.like == Like::Exactly {
            return self.index_by_hand();
        }
        let mut files = Life::files(&self.sessions(), ".jsonl");
        files.extend(Life::files(&self.home().join("archive"), ".zst"));
        let Some(path) = self.one_of(&files) else { return Ok(()) };
        let bytes = fs::read(&path).map_err(said)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let at = self.rng.below(bytes.len() as u64) as usize;
        // Never out of ASCII, which is all that the oracle reads.
        let bit = if bytes.is_ascii() { 1 << self.rng.below(5) } else { 1 << self.rng.below(8) };
        self.did.push(format!("byte {at} of {} rots", path.display()));
        write_at(&path, at as u64, &[bytes[at] ^ bit])
    }

    fn removed(&mut self) -> Done {
        let mut files = Life::files(&self.sessions(), ".jsonl");
        for dir in ["archive", "trash"] {
            files.extend(Life::files(&self.home().join(dir), ".jsonl"));
            files.extend(Life::files(&self.home().join(dir), ".zst"));
        }
        let Some(path) = self.one_of(&files) else { return Ok(()) };
        self.did.push(format!("{} is removed", path.display()));
        fs::remove_file(path).map_err(said)
    }

    /// A file is brought to the trash or back by hand.
    fn moved(&mut self) -> Done {
        let (archive, trash) = (self.home().join("archive"), self.home().join("trash"));
        let (from, to) = if self.rng.chance(1, 2) { (archive, trash) } else { (trash, archive) };
        let files = Life::files(&from, "");
        let Some(path) = self.one_of(&files) else { return Ok(()) };
        self.did.push(format!("{} is moved to {}", path.display(), to.display()));
        fs::create_dir_all(&to).map_err(said)?;
        fs::rename(&path, to.join(path.file_name().unwrap())).map_err(said)
    }

    /// A session of another program is copied.
    fn copied(&mut self) -> Done {
        let Some(path) = self.log("f") else { return Ok(()) };
        self.did.push(format!("{} is copied", path.display()));
        fs::copy(path, self.sessions().join("f4.jsonl")).map(drop).map_err(said)
    }

    fn index_by_hand(&mut self) -> Done {
        let index = self.index();
        let files = Life::files(&index, "");
        let file = self.one_of(&files);
        let dice = self.rng.below(12);
        self.did.push(format!("the index, {dice}: {file:?}"));
        match (dice, file) {
            (0, _) => remove_anything(&index),
            (1, Some(file)) => fs::remove_file(file).map_err(said),
            (2 | 3, Some(file)) => {
                let bytes = fs::read(&file).map_err(said)?;
                let at = self.rng.below(bytes.len().max(1) as u64);
                let byte = bytes.get(at as usize).copied().unwrap_or(0);
                write_at(&file, at, &[byte ^ (1 << self.rng.below(8))])
            }
            (4, Some(file)) => {
                let len = self.rng.below(fs::metadata(&file).map_err(said)?.len() + 1);
                let file = fs::OpenOptions::new().write(true).open(file).map_err(said)?;
                file.set_len(len).map_err(said)
            }
            (5, Some(file)) => {
                let mut file = fs::OpenOptions::new().append(true).open(file).map_err(said)?;
                file.write_all(b"more").map_err(said)
            }
            (6 | 7, _) => {
                let read = |path: PathBuf| fs::read(&path).map(|bytes| (path, bytes));
                self.backup = files.into_iter().map(read).collect::<std::io::Result<_>>().ok();
                Ok(())
            }
            (8, _) => self.restore_index(),
            (9, _) => {
                remove_anything(&index)?;
                fs::write(index, "a file").map_err(said)
            }
            (10, _) => {
                remove_anything(&index)?;
                fs::create_dir_all(self.home().join("elsewhere")).map_err(said)?;
                std::os::unix::fs::symlink(self.home().join("elsewhere"), index).map_err(said)
            }
            _ => {
                let mode = if self.rng.chance(1, 2) { 0o777 } else { 0o700 };
                fs::set_permissions(index, fs::Permissions::from_mode(mode)).map_err(said)
            }
        }
    }

    /// A backup of the index comes back: all of its files, or some, beside those that are there or instead of them.
    fn restore_index(&mut self) -> Done {
        let Some(backup) = self.backup.clone() else { return Ok(()) };
        if self.rng.chance(1, 2) {
            remove_anything(&self.index())?;
        }
        fs::create_dir_all(self.index()).map_err(said)?;
        fs::set_permissions(self.index(), fs::Permissions::from_mode(0o700)).map_err(said)?;
        for (path, bytes) in backup {
            if self.rng.chance(7, 8) {
                fs::write(path, bytes).map_err(said)?;
            }
        }
        Ok(())
    }
}

/// Returns true if the file begins with a header.
fn is_ours(log: &[u8]) -> bool {
    log.starts_with(b"{\"seq\":0,")
}

fn remove_anything(path: &Path) -> Done {
    match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).map_err(said),
        Ok(_) => fs::remove_file(path).map_err(said),
    }
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) -> Done {
    let mut file = fs::OpenOptions::new().write(true).open(path).map_err(said)?;
    file.seek(SeekFrom::Start(at)).map_err(said)?;
    file.write_all(bytes).map_err(said)
}
