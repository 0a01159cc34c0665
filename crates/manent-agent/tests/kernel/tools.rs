//! Tools in a conversation: what is called, by whose word, and what is kept of it, whichever way a model calls.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use manent::log::RealDisk;
use manent::tokens::Tokens;
use manent::{LogItem, Record, SessionKey, Start, Store, StreamId};
use manent_agent::kernel::{
    Answer, ApprovalReply, CallStyle, Conversation, Event, Kernel, Toolbox, TurnError,
};
use manent_agent::policy::{ApprovalScope, Approvals, Approver, Grant, PolicyRules, ToolPolicy};
use manent_agent::providers::Request as ModelRequest;
use manent_agent::skills::Skills;
use manent_agent::text_tools;
use manent_agent::tools::{CommandRequest, CommandResult, Shell};
use manent_sim::model_server::{Request, Script, replies};
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::fixture::{Fixture, LONG, SYSTEM, key, log, messages, quiet, system_text};

static AT_WORK: AtomicBool = AtomicBool::new(false);

/// A shell that runs nothing, and ends only when it is told to.
#[derive(Debug)]
struct Endless;

impl Shell for Endless {
    fn run(&self, _: &CommandRequest<'_>, stop: &dyn Fn() -> bool) -> Result<CommandResult, String> {
        let begun = Instant::now();
        AT_WORK.store(true, Ordering::Relaxed);
        while !stop() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (output, ended) = ("half of it".to_owned(), "stopped".to_owned());
        let (sandbox, duration) = ("none".to_owned(), begun.elapsed());
        Ok(CommandResult { output, exit_code: None, ended, sandbox, duration, notes: Vec::new() })
    }
}

pub(crate) fn toolbox(workspace: &Path, asking: Approver, rules: &str) -> Toolbox {
    Toolbox {
        disk: RealDisk::shared(),
        workspace: workspace.to_owned(),
        hidden: Vec::new(),
        shell: Some(Arc::new(Endless)),
        policy: Mutex::new(ToolPolicy::new(PolicyRules::read(rules).unwrap(), Approvals::default())),
        asking,
        unreadable: Vec::new(),
        skills: Skills::default(),
        calling: CallStyle::Native,
    }
}

pub(crate) fn kernel(fixture: &Fixture, toolbox: Toolbox, calling: CallStyle) -> Kernel {
    let (store, model) = (fixture.store.clone(), fixture.model());
    let toolbox = Toolbox { calling, ..toolbox };
    Kernel::start(&Handle::current(), store, model, quiet(), SYSTEM.to_owned(), Some(toolbox))
}

/// A model that calls a tool, and then says what came of it.
pub(crate) fn calls(
    calling: CallStyle,
    name: &'static str,
    arguments: Value,
) -> impl Fn(&Request) -> Script + Send + Sync {
    move |request| {
        let (role, content) = messages(request).pop().unwrap();
        if role == "tool" || content.contains("<tool_result") {
            return replies::ollama("It is done.");
        }
        let call = json!({"name": name, "arguments": arguments});
        let message = if calling == CallStyle::Native {
            json!({"role": "assistant", "content": "Let me see.", "tool_calls": [{"function": call}]})
        } else {
            json!({"role": "assistant", "content": format!("Let me see.\n<tool_call>\n{call}\n</tool_call>")})
        };
        Script::new().chunk(replies::ollama_line(&message)).chunk(replies::ollama_done("stop", 900, 9))
    }
}

/// Asks; says this word to whatever needs one, and notes what that was.
async fn ask(conversation: &Conversation, word: &ApprovalReply) -> (Result<Answer, TurnError>, Vec<Event>) {
    let mut stream = conversation.ask("what does notes.txt say?").await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        if let Event::Approve(approval) = &event {
            approval.answer(word.clone());
        }
        events.push(event);
    }
    (stream.end().await, events)
}

/// The result of the one call, as it stands in the log.
pub(crate) fn result(store: &Store, key: &SessionKey) -> Value {
    let mut reader = store.stream(key, Start::First).unwrap();
    let mut found = Value::Null;
    while let Some(item) = reader.next().unwrap() {
        if let LogItem::Entry(entry) = item
            && Record::of(&entry).is_some_and(|record| record.role().as_deref() == Some("tool"))
        {
            found = serde_json::from_slice(entry.bytes).unwrap();
        }
    }
    found
}

const NO: ApprovalReply = ApprovalReply::No(None);

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_of_calling_give_the_same_turns_and_what_was_sent_is_what_the_log_says() {
    let mut logs = Vec::new();
    for calling in [CallStyle::Native, CallStyle::Text] {
        let fixture = Fixture::new(calls(calling, "read_file", json!({"path": "notes.txt"})));
        let workspace = tempfile::tempdir().unwrap();
        std::fs::write(workspace.path().join("notes.txt"), "the port is 8081\n").unwrap();
        let kernel = kernel(&fixture, toolbox(workspace.path(), Approver::Nobody, ""), calling);
        let (k, store) = (key("talk"), fixture.store.clone());
        let (answered, events) = ask(&kernel.conversation(&k), &NO).await;
        assert_eq!(answered.unwrap().text, "It is done.");
        let shown: String = events
            .iter()
            .filter_map(|event| if let Event::Text(text) = event { Some(text.as_str()) } else { None })
            .collect();
        assert!(!shown.contains("tool_call"), "no block is shown: {shown}");
        kernel.end(LONG).await;
        let result = result(&store, &k);
        assert!(result["content"].as_str().unwrap().contains("the port is 8081"), "{result}");
        assert_eq!(result["decision"], "allowed: looking is free");
        assert!(result["duration_ms"].is_u64() && result["failed"].is_null(), "{result}");
        let answers: Vec<u64> =
            log(&store, &k).iter().filter(|line| line.role == "assistant").map(|line| line.seq).collect();
        // Where tools are taught by text, that stands behind the system text.
        let requests = fixture.server.requests();
        let chats: Vec<&Request> =
            requests.iter().filter(|request| system_text(request).starts_with(SYSTEM)).collect();
        assert_eq!(chats.len(), 2);
        for (seq, sent) in answers.iter().zip(chats.into_iter().map(messages)) {
            let context = store.context_at(&StreamId::live(&k), Some(*seq), Tokens::default()).unwrap();
            assert_eq!(context.protocol.as_deref(), Some(calling.word()));
            let request = ModelRequest::from(&context);
            let request = if calling == CallStyle::Native { request } else { text_tools::flatten(&request) };
            let logged: Vec<(String, String)> =
                request.messages.into_iter().map(|message| (message.role, message.content)).collect();
            assert_eq!(sent, logged, "{calling:?}, answer {seq}");
        }
        let turns: Vec<(String, String)> = log(&store, &k)
            .into_iter()
            .filter(|line| ["user", "assistant", "tool"].contains(&line.role.as_str()))
            .map(|line| (line.role, line.content.trim_end().to_owned()))
            .collect();
        logs.push(turns);
    }
    assert_eq!(logs[0], logs[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_files_needs_a_word_and_shows_what_would_change() {
    let arguments = json!({"path": "notes.txt", "old": "8081", "new": "9090"});
    let words = [
        (
            ApprovalReply::Yes(ApprovalScope::Once, Grant::Same),
            Approver::Person,
            "the port is 9090\n",
            "allowed by the user",
        ),
        (
            ApprovalReply::No(Some("not today".to_owned())),
            Approver::Person,
            "the port is 8081\n",
            "denied by the user",
        ),
        (NO, Approver::Nobody, "the port is 8081\n", "denied: "),
    ];
    for (word, asking, wanted, decision) in words {
        let fixture = Fixture::new(calls(CallStyle::Native, "edit_file", arguments.clone()));
        let workspace = tempfile::tempdir().unwrap();
        let notes = workspace.path().join("notes.txt");
        std::fs::write(&notes, "the port is 8081\n").unwrap();
        let kernel = kernel(&fixture, toolbox(workspace.path(), asking, ""), CallStyle::Native);
        let k = key("talk");
        let (answered, events) = ask(&kernel.conversation(&k), &word).await;
        answered.unwrap();
        let preview = events.iter().find_map(|event| match event {
            Event::Approve(approval) => approval.preview.clone(),
            _ => None,
        });
        assert_eq!(preview.is_some(), asking == Approver::Person);
        assert!(preview.is_none_or(|diff| diff.contains("-the port is 8081\n+the port is 9090")));
        assert_eq!(std::fs::read_to_string(&notes).unwrap(), wanted, "{word:?}");
        let result = result(&fixture.store, &k);
        assert!(result["decision"].as_str().unwrap().starts_with(decision), "{result}");
        if matches!(word, ApprovalReply::No(Some(_))) {
            assert!(
                result["content"].as_str().unwrap().contains("not today"),
                "the model is logged: {result}"
            );
        }
        kernel.end(LONG).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_hangs_is_stopped_and_the_conversation_goes_on() {
    let fixture = Fixture::new(calls(CallStyle::Native, "run_command", json!({"command": "sleep 1000"})));
    let workspace = tempfile::tempdir().unwrap();
    let rules = "[[policy.rule]]\ntool = \"run_command\"\nprefix = [\"sleep\"]\ndecision = \"allow\"\n";
    let kernel = kernel(&fixture, toolbox(workspace.path(), Approver::Nobody, rules), CallStyle::Native);
    let (k, conversation) = (key("talk"), kernel.conversation(&key("talk")));
    let mut stream = conversation.ask("wait for ever").await.unwrap();
    while let Some(event) = stream.next().await {
        if matches!(event, Event::ToolStarted { .. }) {
            while !AT_WORK.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stream.stop();
        }
    }
    assert!(stream.end().await.unwrap().stopped);
    let result = result(&fixture.store, &k);
    assert!(result["content"].as_str().unwrap().contains("half of it"), "{result}");
    assert_eq!(result["sandbox"], "none");
    let context = fixture.store.context(&k, Tokens::default()).unwrap();
    assert_eq!(context.messages.last().unwrap().role, "tool");
    kernel.end(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_right_is_told_and_one_who_calls_for_ever_is_ended() {
    for (name, arguments, expected) in [
        ("read_fil", json!({"path": "x"}), "read_file"),
        ("read_file", json!({"file": "x"}), "path"),
        ("read_file", json!({"path": "../../etc/passwd"}), "workspace"),
        ("use_skill", json!({"name": "nothing"}), "nothing"),
    ] {
        let fixture = Fixture::new(calls(CallStyle::Native, name, arguments));
        let workspace = tempfile::tempdir().unwrap();
        let kernel = kernel(&fixture, toolbox(workspace.path(), Approver::Nobody, ""), CallStyle::Native);
        let (answered, _) = ask(&kernel.conversation(&key("talk")), &NO).await;
        assert_eq!(answered.unwrap().text, "It is done.");
        let result = result(&fixture.store, &key("talk"));
        assert_eq!(result["failed"], true, "{result}");
        assert!(result["content"].as_str().unwrap().contains(expected), "{result}");
        kernel.end(LONG).await;
    }
    let call = json!({"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "search_files", "arguments": {"glob": "*"}}}]});
    let again = Script::new().chunk(replies::ollama_line(&call)).chunk(replies::ollama_done("stop", 900, 9));
    let fixture = Fixture::new(move |_| again.clone());
    let workspace = tempfile::tempdir().unwrap();
    let kernel = kernel(&fixture, toolbox(workspace.path(), Approver::Nobody, ""), CallStyle::Native);
    let (answered, _) = ask(&kernel.conversation(&key("round")), &NO).await;
    assert!(matches!(answered, Err(TurnError::Rounds { .. })), "{answered:?}");
    kernel.end(LONG).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_cannot_be_read_is_kept_complained_of_once_and_then_taken_for_an_answer() {
    let garbled = "One moment.\n<tool_call>\n{\"name\": read_file \"path\" notes\n</tool_call>";
    let fixture = Fixture::new(move |_| replies::ollama(garbled));
    let workspace = tempfile::tempdir().unwrap();
    let kernel = kernel(&fixture, toolbox(workspace.path(), Approver::Nobody, ""), CallStyle::Text);
    let (answered, _) = ask(&kernel.conversation(&key("talk")), &NO).await;
    answered.unwrap();
    kernel.end(LONG).await;
    let turns: Vec<(String, String)> = log(&fixture.store, &key("talk"))
        .into_iter()
        .filter(|line| ["user", "assistant", "system"].contains(&line.role.as_str()))
        .map(|line| (line.role, line.content))
        .collect();
    let roles: Vec<&str> = turns.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "system", "assistant"], "one complaint, then it is an answer");
    assert_eq!((turns[1].1.as_str(), turns[3].1.as_str()), (garbled, garbled), "as it was written");
    assert!(turns[2].1.contains("could not be understood"), "{}", turns[2].1);
}
