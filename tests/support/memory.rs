//! What is remembered, from outside: the file, what a script is told of it, and files that other programs wrote.

use std::path::PathBuf;

use serde_json::Value;

use super::{Output, TestEnvironment, records};

impl TestEnvironment {
    /// The file of the memory.
    pub(crate) fn memory(&self) -> PathBuf {
        self.home().join("memory.jsonl")
    }

    pub(crate) fn memory_bytes(&self) -> Vec<u8> {
        std::fs::read(self.memory()).unwrap()
    }

    /// Puts a file in the place of the memory, as another program or a vandal would.
    pub(crate) fn plant_memory(&self, bytes: impl AsRef<[u8]>) {
        self.make_directories();
        std::fs::write(self.memory(), bytes).unwrap();
    }

    /// Runs `manent memory ARGS`.
    pub(crate) fn mem(&self, args: &[&str]) -> Output {
        self.manent(&[&["memory"], args].concat())
    }

    /// Remembers something, as typed, and gives its number.
    #[track_caller]
    pub(crate) fn remember(&self, args: &[&str]) -> u64 {
        let output = self.mem(&[&["add", "--json"], args].concat());
        output.assert_code(0);
        let item: Value =
            serde_json::from_slice(&output.stdout_bytes).unwrap_or_else(|e| panic!("{e}: {output}"));
        item["id"].as_u64().expect("an item has a number")
    }

    /// Returns the JSON lines of a command.
    #[track_caller]
    pub(crate) fn mem_json(&self, args: &[&str]) -> Vec<Value> {
        let output = self.mem(&[args, &["--json"]].concat());
        output.assert_code(0);
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        output.stdout().lines().map(read).collect()
    }

    /// The numbers of what is remembered, newest first.
    #[track_caller]
    pub(crate) fn remembered(&self) -> Vec<u64> {
        self.mem_json(&["list"]).iter().map(|item| item["id"].as_u64().unwrap()).collect()
    }
}

/// A whole memory of ours: a header, and these items from number 1 on.
pub(crate) fn memory_of(contents: &[&str]) -> Vec<u8> {
    let meta =
        r#""format":1,"id":"01a1e14a-05ca-731a-9829-bf4cb9d544dd","kind":"memory","next_id":1,"at_seq":1"#;
    let mut lines = vec![records::sealed(&format!(r#""seq":0,"ts":"{}","meta":{{{meta}}}"#, records::TS))];
    lines.extend((1..).zip(contents).map(|(id, content)| item(id, content)));
    records::file(&lines)
}

/// An item of ours that stands in the line of its number.
pub(crate) fn item(id: u64, content: &str) -> String {
    let (ts, content) = (records::TS, serde_json::to_string(content).unwrap());
    let source = r#""source":{"who":"user"}"#;
    records::sealed(&format!(
        r#""seq":{id},"ts":"{ts}","kind":"fact","id":{id},{source},"content":{content}"#
    ))
}
