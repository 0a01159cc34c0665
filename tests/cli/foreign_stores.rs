//! Other programs' stores, used in place. After every step the program itself must find its file where it left it, and
//! read in it what it wrote and what we added: here stand small readers, written as those programs read.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;

use crate::support::environment::names_in;
use crate::support::machine::set_mode;
use crate::support::{HANG, Stream, TestEnvironment};

/// The reaction of a program to a line that it does not understand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Strictness {
    Skips,
    Fails,
}

/// Reads a file as such a program does: an object a line, `role` and `content` are strings, what it does not know is
/// no business of its own. A line with `meta` is the head of the file.
fn their_reader(bytes: &[u8], strictness: Strictness) -> Result<Vec<(String, String)>, String> {
    let mut turns = Vec::new();
    for line in bytes.split(|b| *b == b'\n') {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let value = match serde_json::from_slice::<Value>(line) {
            Ok(value) if value["meta"].is_object() => continue,
            Ok(value) => value,
            Err(_) if strictness == Strictness::Skips => continue,
            Err(e) => return Err(format!("{e}: {}", String::from_utf8_lossy(line))),
        };
        match (value["role"].as_str(), value["content"].as_str()) {
            (Some(role), Some(content)) => turns.push((role.to_owned(), content.to_owned())),
            _ if strictness == Strictness::Skips => {}
            _ => return Err(format!("no turn: {value}")),
        }
    }
    Ok(turns)
}

/// Another program's directory, with one of its files.
struct Foreign {
    env: TestEnvironment,
    key: &'static str,
    file: PathBuf,
    strictness: Strictness,
    /// The turns that the program must find.
    turns: Vec<(String, String)>,
}

impl Foreign {
    fn new(key: &'static str, bytes: &[u8], strictness: Strictness) -> Foreign {
        let env = TestEnvironment::new();
        std::fs::create_dir(env.home()).unwrap();
        set_mode(env.home(), 0o700);
        let file = env.home().join(format!("{key}.jsonl"));
        std::fs::write(&file, bytes).unwrap();
        std::fs::write(env.home().join("neighbour.jsonl"), NEIGHBOUR).unwrap();
        let turns = their_reader(bytes, strictness).unwrap();
        Foreign { env, key, file, strictness, turns }
    }

    /// The program reads its file.
    #[track_caller]
    fn assert_theirs(&self) {
        let read = their_reader(&std::fs::read(&self.file).unwrap(), self.strictness);
        assert_eq!(read.as_ref(), Ok(&self.turns), "{}", self.key);
        let neighbour = std::fs::read(self.env.home().join("neighbour.jsonl")).unwrap();
        assert_eq!(neighbour, NEIGHBOUR.as_bytes(), "{}", self.key);
    }

    /// We read it.
    #[track_caller]
    fn assert_ours(&self, name: &str) {
        let texts: Vec<&String> = self.turns.iter().map(|(_, content)| content).collect();
        assert_eq!(self.env.said(name).iter().collect::<Vec<_>>(), texts, "{}", self.key);
    }

    fn append(&mut self, text: &str) {
        self.env.append(self.key, text);
        self.turns.push(("user".to_owned(), text.to_owned()));
    }

    /// The program adds a line, as it does.
    fn they_append(&mut self, text: &str) {
        let mut file = std::fs::OpenOptions::new().append(true).open(&self.file).unwrap();
        writeln!(file, r#"{{"role":"bot","content":"{text}"}}"#).unwrap();
        self.turns.push(("bot".to_owned(), text.to_owned()));
    }

    /// There and back, by key and byte for byte.
    #[track_caller]
    fn assert_round_trip(&self, there: &str, back: &str, place: &str) {
        let before = std::fs::read(&self.file).unwrap();
        let tree = self.env.tree();
        let verified = self.env.manent(&["verify", "--", self.key]).code();
        self.env.done(&[there, "--", self.key]);
        assert!(!self.file.exists(), "{there} {}: the program no longer sees it", self.key);
        assert_eq!(self.env.listed("live").len(), 1, "{there} {}", self.key);
        let id = self.env.id_in(place, self.key);
        self.assert_ours(&format!("@{id}"));
        assert_eq!(self.env.manent(&["verify", &format!("@{id}")]).code(), verified, "{there} {}", self.key);
        self.env.done(&[back, "--", self.key]);
        assert_eq!(std::fs::read(&self.file).unwrap(), before, "{back} {}: byte for byte", self.key);
        assert!(
            self.env.tree() == tree,
            "{back} {}: under its own name: {:?}",
            self.key,
            self.env.tree().keys()
        );
        self.assert_theirs();
    }

    /// Everything that can be done to a session.
    #[track_caller]
    fn live_a_life(&mut self) {
        let keys: Vec<Value> = self.env.listed("live").iter().map(|row| row["key"].clone()).collect();
        assert!(keys.contains(&self.key.into()) && keys.len() == 2, "{keys:?}");
        self.assert_ours(self.key);
        self.append("ours");
        self.assert_theirs();
        self.they_append("theirs again");
        self.append("ours again");
        self.assert_theirs();
        self.assert_ours(self.key);
        self.assert_round_trip("archive", "unarchive", "archived");
        self.assert_round_trip("rm", "restore", "trash");
        self.append("after it came back");
        self.assert_theirs();
        self.assert_fork_is_a_copy();
        // Deleted from the archive, it goes back there, and from there to where it was.
        self.env.done(&["archive", "--", self.key]);
        self.env.done(&["rm", "--", self.key]);
        self.env.done(&["restore", "--", self.key]);
        self.env.done(&["unarchive", "--", self.key]);
        self.assert_theirs();
        self.assert_ours(self.key);
        self.env.done(&["rm", "--purge", "--", self.key]);
        assert_eq!(names_in(self.env.home()), ["archive", "neighbour.jsonl", "trash"]);
        assert_eq!(self.env.tree().len(), 1, "{:?}", self.env.tree().keys());
    }

    fn assert_fork_is_a_copy(&self) {
        let before = std::fs::read(&self.file).unwrap();
        let forked = self.env.manent(&["fork", "--", self.key, "fork"]);
        forked.assert_code(0);
        assert!(forked.stderr().contains("the records were copied"), "{forked}");
        assert_eq!(std::fs::read(&self.file).unwrap(), before, "{}", self.key);
        self.assert_ours("fork");
        // Whatever the program does with its file, the fork stands.
        std::fs::write(&self.file, "").unwrap();
        self.assert_ours("fork");
        self.env.manent(&["verify", "fork"]).assert_code(0);
        std::fs::write(&self.file, before).unwrap();
        self.env.done(&["rm", "--purge", "fork"]);
        self.assert_theirs();
    }
}

const NEIGHBOUR: &str = "{\"role\":\"user\",\"content\":\"leave me alone\"}\n";
/// Names that other programs give, which we would not.
const NAMES: [&str; 7] =
    ["plain", "telegram:Alice", "Big-Name", "a%3Ab", "with space", "café", "20261115_180700_ab3f"];

#[test]
fn a_flat_directory_of_turns() {
    let first = r#"{"role":"user","content":"hello"}"#;
    let bytes = format!("{first}\n{}\n", r#"{"role":"assistant","content":"hi \u00e9","x":[1]}"#);
    for strictness in [Strictness::Fails, Strictness::Skips] {
        for name in NAMES {
            Foreign::new(name, bytes.as_bytes(), strictness).live_a_life();
        }
    }
}

#[test]
fn a_flat_directory_with_lines_that_are_no_turns() {
    let bytes =
        "{\"role\":\"user\",\"content\":\"hello\"}\r\n\n# not JSON\n{\"kind\":\"usage\",\"tokens\":7}\n";
    Foreign::new("a", bytes.as_bytes(), Strictness::Skips).live_a_life();
}

#[test]
fn files_headed_by_their_own_meta() {
    let head = r#"{"meta":{"title":"Trip","created":"2026-11-15","model":"m","id":"abc"}}"#;
    let bytes = format!("{head}\n{{\"role\":\"user\",\"content\":\"hello\",\"tokens\":3}}\n");
    for strictness in [Strictness::Fails, Strictness::Skips] {
        Foreign::new("Trip:2026", bytes.as_bytes(), strictness).live_a_life();
    }
    let theirs = Foreign::new("trip", bytes.as_bytes(), Strictness::Fails);
    theirs.env.append("trip", "ours");
    let text = std::fs::read_to_string(&theirs.file).unwrap();
    assert!(
        text.starts_with(&bytes) && text.matches("meta").count() == 1,
        "their head stays the only one: {text}"
    );
}

/// A program that archives by renaming: `{id}.jsonl` becomes `{id}.jsonl.archived`.
#[test]
fn files_that_the_program_archived_by_renaming() {
    for key in ["old:One", "plain"] {
        let mut theirs = Foreign::new(key, NEIGHBOUR.as_bytes(), Strictness::Fails);
        let renamed = theirs.env.home().join(format!("{key}.jsonl.archived"));
        std::fs::rename(&theirs.file, &renamed).unwrap();
        let env = &theirs.env;
        let archived = env.listed("archived");
        assert_eq!((archived.len(), &archived[0]["key"]), (1, &key.into()), "{archived:?}");
        theirs.assert_ours(key);
        env.manent(&["archive", "--", key]).assert_code(0);
        assert!(renamed.is_file(), "it is archived already, in that program's way");

        env.done(&["rm", "--", key]);
        assert_eq!((env.counts(), renamed.exists()), ([1, 0, 1], false));
        env.done(&["restore", "--", key]);
        assert_eq!(std::fs::read(&renamed).unwrap(), NEIGHBOUR.as_bytes(), "as the program archived it");
        env.done(&["fork", "--", key, "fork"]);
        theirs.assert_ours("fork");
        env.done(&["rm", "--purge", "fork"]);

        // A new one beside it, as the program would begin one.
        env.append(key, "a new session");
        assert_eq!(env.said(key), ["a new session"]);
        env.manent(&["unarchive", "--", key]).assert_fails(6, &["in the way"]);
        env.done(&["archive", "--", key]);
        assert_eq!(env.listed("archived").len(), 2);
        let id = env
            .listed("archived")
            .iter()
            .find_map(|row| row["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned));
        env.done(&["rm", "--purge", &format!("@{}", id.unwrap())]);
        env.done(&["unarchive", "--", key]);
        assert!(!renamed.exists());
        theirs.assert_theirs();
        theirs.append("ours");
        theirs.assert_theirs();
        theirs.assert_round_trip("archive", "unarchive", "archived");
        std::fs::rename(&theirs.file, &renamed).unwrap();
        theirs.env.done(&["rm", "--purge", "--", key]);
        assert_eq!(theirs.env.tree().len(), 1, "only the neighbour is left");
    }
}

/// The program takes no lock, and its handle leads to the file wherever that is moved.
#[test]
fn a_program_that_goes_on_writing_through_its_own_handle_loses_nothing() {
    let theirs = Foreign::new("a", NEIGHBOUR.as_bytes(), Strictness::Fails);
    let mut handle = std::fs::OpenOptions::new().append(true).open(&theirs.file).unwrap();
    let mut line = |n: usize| writeln!(handle, r#"{{"role":"user","content":"late {n}"}}"#).is_ok();
    let mut written = 0;
    let archiving = Stream::start(&theirs.env, &["archive", "a"]);
    let began = Instant::now();
    while theirs.file.exists() {
        assert!(line(written) && began.elapsed() < HANG);
        written += 1;
    }
    // Archived, and not packed as long as the program could still write to it.
    let (status, _, errors) = archiving.finish();
    assert!(!status.success() && errors[0].contains("has it open and may write to it"), "{errors:?}");
    assert!(line(written));
    let said: Vec<String> = (0..=written).map(|n| format!("late {n}")).collect();
    assert_eq!(theirs.env.said("a")[1..], said, "what it wrote before, meanwhile and afterwards");
    drop(handle);
    theirs.env.done(&["archive", "a"]);
    assert_eq!(theirs.env.said("a")[1..], said);
    theirs.env.done(&["unarchive", "a"]);
    let read = their_reader(&std::fs::read(&theirs.file).unwrap(), Strictness::Fails).unwrap();
    assert_eq!(read.len(), said.len() + 1);
}

/// A torn line of the program's own is not ours to cut.
#[test]
fn a_torn_line_of_theirs_goes_along_as_it_is() {
    let bytes = b"{\"role\":\"user\",\"content\":\"hello\"}\n{\"role\":\"user\",\"conte";
    for (there, back) in [("archive", "unarchive"), ("rm", "restore")] {
        let theirs = Foreign::new("a", bytes, Strictness::Skips);
        theirs.env.done(&[there, "a"]);
        theirs.env.done(&[back, "a"]);
        assert_eq!(std::fs::read(&theirs.file).unwrap(), bytes, "{there}");
        theirs.assert_theirs();
    }
}

/// A title is a record without a role, which a strict reader would stumble over.
#[test]
fn a_title_is_not_written_into_another_programs_file() {
    let env = TestEnvironment::new();
    env.plant("theirs", "{\"role\":\"user\",\"content\":\"hello\"}\n");
    let before = env.bytes("theirs");
    env.manent(&["title", "theirs", "mine now"]).assert_fails(1, &["another program's", "fork it"]);
    assert_eq!(env.bytes("theirs"), before);
}
