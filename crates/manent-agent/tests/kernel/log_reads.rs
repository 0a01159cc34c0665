//! The log is read once for each question, counted at the backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use manent::backend::{
    AppendOptions, Changes, Cursor, IfMissing, KnownStreams, Lock, LockMode, LockName, NewHeader, Result,
    StreamFilter, StreamHeader, StreamParts, StreamReader, StreamWriter, Target,
};
use manent::{
    Body, Files, Place, Receipt, SessionKey, Space, Store, StoreOptions, StreamId, StreamStat, Streams,
};
use manent_sim::model_server::{Request, Script, replies};
use serde_json::json;

use crate::fixture::{Fixture, LONG, ask_with_events, is_chat, key, log, messages, question, quiet, start};
use crate::sent_requests::assert_sent_as_logged;

/// Files that count how often a session is opened to be read.
#[derive(Debug)]
struct Counting {
    files: Files,
    opened: Arc<AtomicUsize>,
}

impl Streams for Counting {
    fn name(&self) -> String {
        self.files.name()
    }

    fn supports(&self, space: Space) -> bool {
        self.files.supports(space)
    }

    fn open(&self, at: Target<'_>) -> Result<Box<dyn StreamReader>> {
        if matches!(at, Target::Id(StreamId { space: Space::Sessions, .. })) {
            self.opened.fetch_add(1, Ordering::SeqCst);
        }
        self.files.open(at)
    }

    fn lease(&self, id: &StreamId, missing: IfMissing<'_>, wait: Duration) -> Result<Box<dyn StreamWriter>> {
        self.files.lease(id, missing, wait)
    }

    fn append(
        &self,
        id: &StreamId,
        new: NewHeader<'_>,
        records: &[Body],
        how: &AppendOptions,
    ) -> Result<Vec<Receipt>> {
        self.files.append(id, new, records, how)
    }

    fn list(&self, which: &StreamFilter<'_>) -> Result<Vec<StreamStat>> {
        self.files.list(which)
    }

    fn changes(&self, space: Space, known: &dyn KnownStreams, since: &Cursor) -> Result<Changes> {
        self.files.changes(space, known, since)
    }

    fn create(&self, id: &StreamId, header: &StreamHeader, parts: StreamParts<'_>) -> Result<()> {
        self.files.create(id, header, parts)
    }

    fn relocate(&self, id: &StreamId, to: Place, wait: Duration) -> Result<StreamId> {
        self.files.relocate(id, to, wait)
    }

    fn delete(&self, id: &StreamId, wait: Duration) -> Result<()> {
        self.files.delete(id, wait)
    }

    fn sync(&self, id: &StreamId) -> Result<()> {
        self.files.sync(id)
    }

    fn lock(&self, name: LockName<'_>, mode: LockMode, wait: Duration) -> Result<Lock> {
        self.files.lock(name, mode, wait)
    }
}

/// Calls a tool before each answer of the conversation.
fn answer(request: &Request) -> Script {
    let is_new = messages(request).last().is_some_and(|(role, _)| role == "user");
    if !is_chat(request) || !is_new {
        return replies::ollama(&format!("I heard: {}", question(request)));
    }
    let call = json!({"function": {"name": "look", "arguments": {"at": "bertha"}}});
    let said = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    Script::new().chunk(replies::ollama_line(&said)).chunk(replies::ollama_done("stop", 100, 10))
}

#[tokio::test(flavor = "multi_thread")]
async fn question_with_tools_and_compaction_reads_the_log_once() {
    let fixture = Fixture::new(answer);
    let opened = Arc::new(AtomicUsize::new(0));
    let files = Files::open(fixture.dir.path().join("counted")).unwrap();
    let counting = Counting { files, opened: opened.clone() };
    let options = StoreOptions { wait: LONG, ..StoreOptions::default() };
    let store = Store::on(Arc::new(counting), None, options);
    let mut config = quiet();
    config.limits.max_messages = 12;
    let kernel = start(store.clone(), fixture.model(), &config);
    let k: SessionKey = key("a");
    let conversation = kernel.conversation(&k);
    for n in 0..20 {
        let text = format!("{n}: tell me of ships. {}", "She is a ship. ".repeat(10));
        let before = opened.load(Ordering::SeqCst);
        ask_with_events(&conversation, &text).await.1.unwrap();
        assert_eq!(opened.load(Ordering::SeqCst) - before, 1, "question {n}");
    }
    kernel.end(LONG).await;
    let lines = log(&store, &k);
    assert!(lines.iter().filter(|line| line.role == "compaction").count() > 1, "it was compacted");
    assert!(lines.iter().filter(|line| line.role == "tool").count() > 10, "tools were called");
    assert!(assert_sent_as_logged(&fixture, &store, &k) > 30);
}
