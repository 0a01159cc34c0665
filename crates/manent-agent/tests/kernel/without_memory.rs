//! A memory that is slow or cannot be read: answers come without it, the user is told once an answer, and the log says
//! what was sent.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use manent::memory::{Filter, Kind, NewItem};
use manent::{Store, StoreOptions};
use manent_agent::kernel::{CallStyle, Event, Kernel};
use manent_agent::policy::Approver;
use manent_agent::providers::Recall;
use manent_sim::model_server::replies;
use serde_json::json;
use tokio::runtime::Handle;

use crate::fixture::{Fixture, LONG, SYSTEM, ask, ask_with_events, key, quiet, start};
use crate::hooked_disk::HookedDisk;
use crate::sent_requests::assert_sent_as_logged;
use crate::tools::{calls, result, toolbox};

/// The behaviour of the disk under the file of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fine,
    Fails,
    /// Blocks until the switch is set again.
    Hangs,
}

#[derive(Clone)]
struct Switch(Arc<(Mutex<Fate>, Condvar)>);

impl Switch {
    fn set(&self, fate: Fate) {
        *self.0.0.lock().unwrap() = fate;
        self.0.1.notify_all();
    }

    fn pass(&self) -> io::Result<()> {
        let fate = self.0.1.wait_while(self.0.0.lock().unwrap(), |fate| *fate == Fate::Hangs).unwrap();
        if *fate == Fate::Fails { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

/// A store whose memory has one item, on a disk whose memory does as the switch says.
fn store(fixture: &Fixture) -> (Store, Switch) {
    let item = NewItem::new(Kind::Fact, "The harbour is in Lisbon.");
    fixture.store.memory().unwrap().add(&item).unwrap();
    let switch = Switch(Arc::new((Mutex::new(Fate::Fine), Condvar::new())));
    let of_disk = switch.clone();
    let disk = HookedDisk::shared(move |path: &Path, _| {
        let is_memory = path.file_name().is_some_and(|name| name == "memory.jsonl");
        if is_memory { of_disk.pass() } else { Ok(()) }
    });
    (Store::open_on(disk, fixture.dir.path().join("home"), StoreOptions::default()).unwrap(), switch)
}

fn notes(events: &[Event]) -> Vec<&str> {
    let notes =
        events.iter().filter_map(|event| if let Event::Note(note) = event { Some(note) } else { None });
    notes.map(String::as_str).collect()
}

/// Returns true if the remembered item was sent with the last question, and asserts that the log agrees.
fn was_remembered(fixture: &Fixture, store: &Store) -> bool {
    assert_sent_as_logged(fixture, store, &key("a"));
    fixture.chats().pop().unwrap().iter().any(|(_, text)| text.contains("The harbour is in Lisbon."))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_memory_is_done_without_and_told_once_an_answer() {
    let fixture = Fixture::new(|_| replies::ollama("fine"));
    let (store, switch) = store(&fixture);
    let conversation = start(store.clone(), fixture.model(), &quiet()).conversation(&key("a"));
    switch.set(Fate::Fails);
    for _ in 0..2 {
        let (events, answered) = ask_with_events(&conversation, "Where is the harbour?").await;
        assert_eq!(answered.unwrap().text, "fine");
        let notes = notes(&events);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("nothing remembered is used for this answer"), "{notes:?}");
        assert!(notes[0].contains("memory.jsonl"), "{notes:?}");
        assert!(!was_remembered(&fixture, &store));
    }
    switch.set(Fate::Fine);
    let (events, answered) = ask_with_events(&conversation, "Where is the harbour?").await;
    assert_eq!((answered.unwrap().text.as_str(), notes(&events).len()), ("fine", 0));
    assert!(was_remembered(&fixture, &store), "it is used again as soon as it can be read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_memory_is_waited_for_shortly_and_used_when_it_is_there() {
    let fixture = Fixture::new(|_| replies::ollama("fine"));
    let (store, switch) = store(&fixture);
    let conversation = start(store.clone(), fixture.model(), &quiet()).conversation(&key("a"));
    switch.set(Fate::Hangs);
    let (events, answered) = ask_with_events(&conversation, "Where is the harbour?").await;
    assert_eq!(answered.unwrap().text, "fine");
    let shown = notes(&events);
    assert!(shown.len() == 1 && shown[0].contains("took longer than 3 s"), "{shown:?}");
    switch.set(Fate::Fine);
    let (events, answered) = ask_with_events(&conversation, "Where is the harbour?").await;
    assert_eq!((answered.unwrap().text.as_str(), notes(&events).len()), ("fine", 0));
    assert!(was_remembered(&fixture, &store));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_remembered_is_a_failed_call_and_the_answer_goes_on() {
    let arguments = json!({"content": "The user likes tea.", "quote": "I like green tea"});
    let fixture = Fixture::new(calls(CallStyle::Native, "remember", arguments));
    let (store, switch) = store(&fixture);
    let workspace = tempfile::tempdir().unwrap();
    let rules = "[[policy.rule]]\ntool = \"remember\"\ndecision = \"allow\"\n";
    let tools = toolbox(workspace.path(), Approver::Nobody, rules);
    let (runtime, model) = (Handle::current(), fixture.model());
    let kernel = Kernel::start(&runtime, store.clone(), model, quiet(), SYSTEM.to_owned(), Some(tools));
    switch.set(Fate::Fails);
    let answered = ask(&kernel.conversation(&key("a")), "I like green tea").await;
    assert_eq!(answered.text, "It is done.");
    let told = result(&store, &key("a"));
    assert_eq!(told["failed"], true, "{told}");
    assert!(told["content"].as_str().unwrap().contains("cannot remember that"), "{told}");
    kernel.end(LONG).await;
    switch.set(Fate::Fine);
    assert_eq!(
        store.memory().unwrap().items(&Filter::default()).unwrap().len(),
        1,
        "only what was there before"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_the_record_answers_and_says_that_the_memory_cannot_be_read() {
    let fixture = Fixture::new(|_| replies::ollama("fine"));
    let (store, switch) = store(&fixture);
    store.append(&key("b"), manent::turn("user", "The harbour has three cranes.")).unwrap();
    switch.set(Fate::Fails);
    let conversation = start(store.clone(), Recall::new(store).into(), &quiet()).conversation(&key("a"));
    let answered = ask(&conversation, "How many cranes has the harbour?").await;
    assert!(answered.text.contains("three cranes"), "{}", answered.text);
    assert!(answered.text.contains("the memory cannot be read"), "{}", answered.text);
}
