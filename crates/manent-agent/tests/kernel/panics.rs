//! Every part that others wait for panics at every call in turn: the client of the model, the shell, the disk under
//! tools and skills, and the disk under the store and its memory. Nobody hangs, nobody is told of something that is not
//! so, what came is kept, and the next question is answered.
//!
//! A life is one question with many calls of tools. It is lived again and again, with a panic at the first call of a
//! trait, at the second, and so on, until a life comes to its end without having met its panic.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use manent::log::RealDisk;
use manent::memory::Filter;
use manent::{LogItem, Record, Start, Store, StoreOptions};
use manent_agent::config::ConsolidationTrigger;
use manent_agent::kernel::{CallStyle, Event, Kernel, Toolbox};
use manent_agent::policy::{Approvals, Approver, PolicyRules, ToolPolicy};
use manent_agent::providers::{FinishReason, ModelClient, ModelError, Reply, ReplyEvent, Request, ToolCall};
use manent_agent::skills::Skills;
use manent_agent::tools::{CommandRequest, CommandResult, Shell};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::fixture::{LONG, SYSTEM, key, log, quiet};
use crate::hooked_disk::HookedDisk;

/// Panics at one call, counted from 1.
#[derive(Debug, Default)]
struct Trap {
    /// Calls count from the first question on.
    armed: AtomicBool,
    calls: AtomicUsize,
    at: usize,
    sprung: AtomicBool,
}

impl Trap {
    fn step(&self) {
        if self.armed.load(Ordering::SeqCst) && self.calls.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            self.sprung.store(true, Ordering::SeqCst);
            std::panic::panic_any(Sprung);
        }
    }
}

/// The payload of a trap's panic, which is not printed.
struct Sprung;

fn be_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Sprung>() {
                before(info);
            }
        }));
    });
}

/// The part in which the trap is laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Model,
    Shell,
    ToolDisk,
    StoreDisk,
}

/// A model that calls each kind of tool, then says so; and that finds nothing worth remembering in what was said.
#[derive(Debug)]
struct Scripted(Arc<Trap>);

impl ModelClient for Scripted {
    fn name(&self) -> &'static str {
        self.0.step();
        "scripted"
    }

    fn chat<'a>(
        &'a self,
        request: &'a Request,
        on: &'a mut (dyn FnMut(ReplyEvent<'_>) + Send),
    ) -> Pin<Box<dyn Future<Output = Result<Reply, ModelError>> + Send + 'a>> {
        self.0.step();
        Box::pin(async move {
            self.0.step();
            let mut reply = Reply { model: "scripted".to_owned(), tries: 1, ..Reply::default() };
            if request.messages[0].content != SYSTEM {
                reply.text.push_str("{\"facts\":[]}");
                return Ok(reply);
            }
            let question = request.messages.iter().rposition(|message| message.role == "user").unwrap();
            let is_first = question + 1 == request.messages.len();
            let words: &[&str] = if is_first { &["Let me ", "see."] } else { &["It is ", "done."] };
            on(ReplyEvent::Thinking("hm"));
            self.0.step();
            reply.thinking.push_str("hm");
            for word in words {
                on(ReplyEvent::Text(word));
                reply.text.push_str(word);
                tokio::task::yield_now().await;
                self.0.step();
            }
            if is_first {
                (reply.calls, reply.finish) = (calls(), FinishReason::Calls);
                reply.calls.iter().for_each(|call| on(ReplyEvent::Call(call)));
            }
            self.0.step();
            Ok(reply)
        })
    }
}

fn calls() -> Vec<ToolCall> {
    let all = [
        ("read_file", json!({"path": "notes.txt"})),
        ("write_file", json!({"path": "new.txt", "content": "written\n"})),
        ("edit_file", json!({"path": "notes.txt", "old": "8081", "new": "9090"})),
        ("search_files", json!({"pattern": "port"})),
        ("run_command", json!({"command": "ls"})),
        ("use_skill", json!({"name": "greeting"})),
        ("use_skill", json!({"name": "greeting", "file": "words.md"})),
        ("remember", json!({"content": "The user likes tea.", "quote": "I like green tea"})),
        ("recall", json!({"query": "tea"})),
    ];
    let call = |(at, (name, arguments)): (usize, (&str, Value))| ToolCall {
        id: format!("call{at:05}"),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    };
    all.into_iter().enumerate().map(call).collect()
}

#[derive(Debug)]
struct Trapped(Arc<Trap>);

impl Shell for Trapped {
    fn run(&self, _: &CommandRequest<'_>, _: &dyn Fn() -> bool) -> Result<CommandResult, String> {
        self.0.step();
        let (output, ended) = ("notes.txt\n".to_owned(), "exit code 0".to_owned());
        let (sandbox, duration) = ("none".to_owned(), Duration::ZERO);
        Ok(CommandResult { output, exit_code: Some(0), ended, sandbox, duration, notes: Vec::new() })
    }
}

/// A workspace, a skill, a store and a kernel, with a trap in one part.
struct Life {
    dir: tempfile::TempDir,
    trap: Arc<Trap>,
    part: Part,
}

impl Life {
    fn new(part: Part, at: usize) -> Life {
        // In memory: hundreds of lives sync their records, and none of them loses power.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("work/notes.txt", "the port is 8081\n");
        write("skills/greeting/SKILL.md", "---\nname: greeting\ndescription: x\n---\nSee words.md.\n");
        write("skills/greeting/words.md", "Say salve.\n");
        Life { dir, trap: Arc::new(Trap { at, ..Trap::default() }), part }
    }

    /// The trap if it is laid in this part, else one that never springs.
    fn trap(&self, part: Part) -> Arc<Trap> {
        if self.part == part { self.trap.clone() } else { Arc::default() }
    }

    fn disk(&self, part: Part) -> Arc<dyn manent::log::fs::Disk> {
        let trap = self.trap(part);
        HookedDisk::shared(move |_: &Path, _| -> io::Result<()> {
            trap.step();
            Ok(())
        })
    }

    fn kernel(&self, store: &Store) -> Kernel {
        let rules: String = ["write_file", "edit_file", "run_command", "remember"]
            .map(|tool| format!("[[policy.rule]]\ntool = \"{tool}\"\ndecision = \"allow\"\n"))
            .concat();
        let skills = Skills::under(&self.disk(Part::ToolDisk), &self.dir.path().join("skills"));
        let toolbox = Toolbox {
            disk: self.disk(Part::ToolDisk),
            workspace: self.dir.path().join("work"),
            hidden: Vec::new(),
            shell: Some(Arc::new(Trapped(self.trap(Part::Shell)))),
            policy: Mutex::new(ToolPolicy::new(PolicyRules::read(&rules).unwrap(), Approvals::default())),
            asking: Approver::Nobody,
            unreadable: Vec::new(),
            skills: skills.unwrap_or_default(),
            calling: CallStyle::Native,
        };
        let mut config = quiet();
        config.consolidate = ConsolidationTrigger::Every(1);
        let model = manent_agent::providers::Model::Other(Arc::new(Scripted(self.trap(Part::Model))));
        Kernel::start(&Handle::current(), store.clone(), model, config, SYSTEM.to_owned(), Some(toolbox))
    }

    fn open(&self, disk: Arc<dyn manent::log::fs::Disk>) -> Store {
        Store::open_on(disk, self.dir.path().join("home"), StoreOptions::default()).unwrap()
    }
}

/// Lives one life with a panic at this call. Gives whether it was met.
async fn live(part: Part, at: usize) -> bool {
    let life = Life::new(part, at);
    let kernel = life.kernel(&life.open(life.disk(Part::StoreDisk)));
    let conversation = kernel.conversation(&key("a"));
    life.trap.armed.store(true, Ordering::SeqCst);
    let question = "I like green tea; look around";
    let (events, outcome) =
        tokio::time::timeout(LONG, crate::fixture::ask_with_events(&conversation, question))
            .await
            .unwrap_or_else(|_| panic!("{part:?} {at}: somebody waits for ever"));
    let again = tokio::time::timeout(LONG, crate::fixture::ask_with_events(&conversation, "and now?")).await;
    let (_, again) = again.unwrap_or_else(|_| panic!("{part:?} {at}: the next question hangs"));
    let ended = tokio::time::timeout(LONG, kernel.end(LONG)).await;
    assert!(ended.is_ok(), "{part:?} {at}: the kernel does not end");
    let is_sprung = life.trap.sprung.load(Ordering::SeqCst);

    // As another process sees it afterwards.
    let store = life.open(RealDisk::shared());
    let what = format!("{part:?} {at}: {outcome:?}, then {again:?}");
    let is_kept = events.iter().any(|event| matches!(event, Event::QuestionSaved { .. }));
    let lines = if store.exists(&key("a")).unwrap() { log(&store, &key("a")) } else { Vec::new() };
    if is_kept {
        assert!(lines.iter().any(|line| line.role == "user" && line.content == question), "{what}");
    }
    for answered in [&outcome, &again].into_iter().flatten() {
        let record = lines.iter().find(|line| Some(line.seq) == answered.seq).expect(&what);
        assert_eq!((&record.role[..], &record.content), ("assistant", &answered.text), "{what}");
    }
    let shown: String = events
        .iter()
        .filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None })
        .collect();
    let logged: String =
        lines.iter().filter(|line| line.role == "assistant").map(|line| line.content.as_str()).collect();
    // Only the disk under the log can keep words from it, and then the question failed, aloud.
    let is_excused = part == Part::StoreDisk && outcome.is_err();
    assert!(logged.contains(&shown) || is_excused, "{what}: shown {shown:?}, logged {logged:?}");
    assert_results(&life, &store, &what);
    // A trap springs once: one question may fail by it, not both.
    assert!(outcome.is_ok() || again.is_ok(), "{what}");
    if !is_sprung {
        assert!(outcome.is_ok() && again.is_ok(), "{what}");
    }
    is_sprung
}

/// Asserts that the results of calls are true.
fn assert_results(life: &Life, store: &Store, what: &str) {
    if !store.exists(&key("a")).unwrap() {
        return;
    }
    let read =
        |path: &str| std::fs::read_to_string(life.dir.path().join("work").join(path)).unwrap_or_default();
    let remembered = store.memory().unwrap().items(&Filter::default()).unwrap();
    let is_remembered = remembered.iter().any(|item| item.content == "The user likes tea.");
    let mut reader = store.stream(&key("a"), Start::First).unwrap();
    while let Some(item) = reader.next().unwrap() {
        let LogItem::Entry(entry) = item else { panic!("{what}: damage") };
        if Record::of(&entry).is_none_or(|record| record.role().as_deref() != Some("tool")) {
            continue;
        }
        let result: Value = serde_json::from_slice(entry.bytes).unwrap();
        if result["failed"] == true {
            continue;
        }
        let content = result["content"].as_str().unwrap();
        match result["name"].as_str().unwrap() {
            "write_file" => assert_eq!(read("new.txt"), "written\n", "{what}"),
            "edit_file" => assert_eq!(read("notes.txt"), "the port is 9090\n", "{what}"),
            "remember" => assert!(is_remembered, "{what}: {content}"),
            "run_command" => assert!(content.contains("notes.txt"), "{what}: {content}"),
            "use_skill" => assert!(content.contains("words.md") || content.contains("salve"), "{what}"),
            _ => assert!(!content.is_empty(), "{what}"),
        }
    }
    assert!(["", "written\n"].contains(&read("new.txt").as_str()), "{what}: half a file");
    let notes = read("notes.txt");
    assert!(["the port is 8081\n", "the port is 9090\n"].contains(&notes.as_str()), "{what}: {notes:?}");
}

/// Panics at every call of a part, one life each, until a life makes fewer calls.
async fn every_call(part: Part, at_least: usize) {
    be_quiet();
    let mut met = 0;
    loop {
        // Some at once: a life mostly waits.
        let lives: Vec<_> = (1..=AT_ONCE).map(|n| tokio::spawn(live(part, met + n))).collect();
        let mut sprung = 0;
        for life in lives {
            sprung += usize::from(life.await.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic())));
        }
        met += sprung;
        if sprung < AT_ONCE {
            break;
        }
    }
    assert!(met >= at_least, "{part:?}: only {met} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_client_that_panics_at_any_call_hangs_nobody_and_what_came_is_kept() {
    every_call(Part::Model, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_panics_at_any_call_is_a_failed_call() {
    every_call(Part::Shell, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_panics_under_tools_and_skills_at_any_call_is_a_failed_call() {
    every_call(Part::ToolDisk, 30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_panics_under_the_store_at_any_call_gives_no_false_receipt() {
    every_call(Part::StoreDisk, 100).await;
}

const AT_ONCE: usize = 8;
