//! What tools can do to a kernel: panic, never end, want the same thing at once. Nothing of it reaches anybody else.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use manent::log::RealDisk;
use manent::memory::Filter;
use manent_agent::kernel::{CallStyle, Event, Toolbox};
use manent_agent::policy::Approver;
use manent_agent::skills::Skills;
use manent_agent::tools::{CommandRequest, CommandResult, Shell};
use manent_runs::{RecordRange, Runs, Status};
use manent_sim::model_server::{Closing, Script, replies};
use serde_json::{Value, json};

use crate::fixture::{Fixture, LONG, ask, key, logged_turns};
use crate::tools::{calls, kernel, result, toolbox};

/// A shell that does what its command says: panic, or hang whatever it is told.
#[derive(Debug)]
struct Wild;

static HANGS: AtomicBool = AtomicBool::new(false);
static MAY_END: AtomicBool = AtomicBool::new(false);

impl Shell for Wild {
    fn run(&self, order: &CommandRequest<'_>, _: &dyn Fn() -> bool) -> Result<CommandResult, String> {
        assert!(order.command != "panic", "as asked");
        HANGS.store(true, Ordering::SeqCst);
        while !MAY_END.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("it was let go".to_owned())
    }
}

fn wild(workspace: &Path) -> Toolbox {
    let rules = "[[policy.rule]]\ntool = \"run_command\"\ndecision = \"allow\"\n";
    Toolbox { shell: Some(Arc::new(Wild)), ..toolbox(workspace, Approver::Nobody, rules) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_panics_ends_a_call_and_nothing_else() {
    let fixture = Fixture::new(calls(CallStyle::Native, "run_command", json!({"command": "panic"})));
    let workspace = tempfile::tempdir().unwrap();
    let kernel = kernel(&fixture, wild(workspace.path()), CallStyle::Native);
    let (one, other) = (kernel.conversation(&key("one")), kernel.conversation(&key("other")));
    // More often than an actor may panic: then calls are refused, and conversations go on all the same.
    for round in 0..8 {
        for conversation in [&one, &other] {
            assert_eq!(ask(conversation, "do it").await.text, "It is done.", "{round}");
        }
    }
    let logged = result(&fixture.store, &key("one"));
    assert!(logged["content"].as_str().unwrap().contains("broke off"), "{logged}");
    for session in ["one", "other"] {
        let turns = logged_turns(&fixture.store, &key(session));
        assert_eq!(turns.iter().filter(|(role, _)| role == "user").count(), 8);
        assert_eq!(turns.iter().filter(|(_, text)| text == "It is done.").count(), 8);
    }
    kernel.end(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_never_ends_is_left_alone_after_a_stop() {
    let fixture = Fixture::new(calls(CallStyle::Native, "run_command", json!({"command": "hang"})));
    let workspace = tempfile::tempdir().unwrap();
    let kernel = kernel(&fixture, wild(workspace.path()), CallStyle::Native);
    let conversation = kernel.conversation(&key("talk"));
    let mut stream = conversation.ask("do it").await.unwrap();
    let mut begun = Instant::now();
    while let Some(event) = stream.next().await {
        if matches!(event, Event::ToolStarted { .. }) {
            while !HANGS.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            begun = Instant::now();
            stream.stop();
        }
    }
    assert!(stream.end().await.unwrap().stopped);
    assert!(begun.elapsed() < Duration::from_mins(1), "nobody waits for it");
    let logged = result(&fixture.store, &key("talk"));
    assert!(logged["content"].as_str().unwrap().contains("its outcome is unknown"), "{logged}");
    MAY_END.store(true, Ordering::SeqCst);
    kernel.end(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_conversations_learn_at_once_is_remembered_once() {
    let arguments = json!({"content": "The user drinks tea", "quote": "I drink tea every day"});
    let fixture = Fixture::new(calls(CallStyle::Native, "remember", arguments));
    let workspace = tempfile::tempdir().unwrap();
    let rules = "[[policy.rule]]\ntool = \"remember\"\ndecision = \"allow\"\n";
    let kernel = kernel(&fixture, toolbox(workspace.path(), Approver::Nobody, rules), CallStyle::Native);
    let mut tasks = Vec::new();
    for n in 0..12 {
        let conversation = kernel.conversation(&key(&format!("talk-{n}")));
        tasks.push(tokio::spawn(async move { ask(&conversation, "I drink tea every day").await }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let items = fixture.store.memory().unwrap().items(&Filter::default()).unwrap();
    assert_eq!(items.len(), 1, "{items:?}");
    kernel.end(LONG).await;
}

/// A home with one skill.
fn greeting() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let skill = home.path().join("skills/greeting");
    std::fs::create_dir_all(skill.join("docs")).unwrap();
    let text = "---\nname: greeting\ndescription: How to greet.\n---\nSee docs/words.md.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    std::fs::write(skill.join("docs/words.md"), "Say salve.\n").unwrap();
    std::fs::write(home.path().join("skills/secret.md"), "not for you\n").unwrap();
    home
}

fn with_skills(workspace: &Path, home: &Path) -> Toolbox {
    let skills = Skills::under(&RealDisk::shared(), &home.join("skills")).unwrap();
    Toolbox { skills, ..toolbox(workspace, Approver::Nobody, "") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_gets_the_files_of_a_skill_and_none_beside_it() {
    let home = greeting();
    for (file, wanted, failed) in [
        (json!("docs/words.md"), "Say salve.", Value::Null),
        (json!("../secret.md"), "does not stay in the directory", json!(true)),
        (Value::Null, "See docs/words.md.", Value::Null),
    ] {
        let fixture =
            Fixture::new(calls(CallStyle::Native, "use_skill", json!({"name": "greeting", "file": file})));
        let workspace = tempfile::tempdir().unwrap();
        let kernel = kernel(&fixture, with_skills(workspace.path(), home.path()), CallStyle::Native);
        assert_eq!(ask(&kernel.conversation(&key("talk")), "greet").await.text, "It is done.");
        let logged = result(&fixture.store, &key("talk"));
        assert!(logged["content"].as_str().unwrap().contains(wanted), "{logged}");
        assert_eq!(logged["failed"], failed, "{logged}");
        kernel.end(LONG).await;
    }
}

/// The runs of a session: status, kind of error, and which records it was told and wrote.
fn runs(fixture: &Fixture) -> Vec<(Status, String, Option<RecordRange>, Option<RecordRange>)> {
    let mut found = Vec::new();
    let each = Runs::open(&fixture.store).unwrap().each(&key("talk"), |run| {
        assert_eq!((&*run.skill, &*run.phase), ("greeting", "chat"));
        assert_eq!(run.input, Some(r#"{"question":"greet"}"#));
        let attempt = run.attempts.first().cloned().unwrap_or_default();
        found.push((run.status, attempt.error_class.to_string(), attempt.prompt_ref, attempt.output_ref));
        ControlFlow::Continue(())
    });
    each.unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_of_a_skill_is_recorded_and_a_crash_leaves_a_run_of_unknown_outcome() {
    let home = greeting();
    let workspace = tempfile::tempdir().unwrap();
    let requests = AtomicUsize::new(0);
    // The second answer breaks off, and the third never ends.
    let call = calls(CallStyle::Native, "use_skill", json!({"name": "greeting"}));
    let fixture = Fixture::new(move |request| {
        let has_result = crate::fixture::messages(request).last().is_some_and(|(role, _)| role == "tool");
        match has_result.then(|| requests.fetch_add(1, Ordering::SeqCst)) {
            Some(1) => {
                Script::new().chunk(replies::ollama_line(&json!({"content": "Sal"}))).close(Closing::Rst)
            }
            Some(2..) => Script::new().stall(),
            _ => call(request),
        }
    });
    let kernel = kernel(&fixture, with_skills(workspace.path(), home.path()), CallStyle::Native);
    let conversation = kernel.conversation(&key("talk"));
    assert_eq!(ask(&conversation, "greet").await.text, "It is done.");
    let failed = conversation.ask("greet").await.unwrap().end().await;
    assert!(failed.is_err(), "{failed:?}");
    let hanging = conversation.ask("greet").await.unwrap();
    let begun = Instant::now();
    while runs(&fixture).len() < 3 {
        assert!(begun.elapsed() < LONG, "{:?}", runs(&fixture));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // As a reader in another process sees it while the run goes on, or after a crash.
    let seen = runs(&fixture);
    let passage = |first, last| {
        let id = fixture.store.live(&key("talk")).unwrap().unwrap().id.id;
        Some(RecordRange { session: "talk".to_owned(), id, seq: (first, last) })
    };
    // The question, what is sent besides, the call, the instructions; then the answer.
    assert_eq!(seen[0], (Status::Success, String::new(), passage(1, 4), passage(5, 5)));
    assert_eq!((seen[1].0, seen[1].1.as_str()), (Status::Failure, "model"));
    assert_eq!((seen[2].0, seen[2].1.as_str()), (Status::Unknown, ""));
    hanging.stop();
    assert!(hanging.end().await.unwrap().stopped);
    assert_eq!((runs(&fixture)[2].0, runs(&fixture)[2].1.as_str()), (Status::Unknown, "interrupted"));
    kernel.end(LONG).await;
}
