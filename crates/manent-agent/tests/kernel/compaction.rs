//! Contexts that grow too large are made smaller, and what is compacted of it is true.

use manent::context::{CompactedContext, CompactionMethod, CompactionReason};
use manent::tokens::Tokens;
use manent_agent::config::Config;
use manent_agent::kernel::{Event, Kernel, TurnError};
use manent_agent::policy::Approver;
use manent_sim::model_server::{Script, replies};
use serde_json::json;
use tokio::runtime::Handle;

use crate::fixture::{
    Fixture, LONG, SYSTEM, ask, ask_with_events, is_chat, key, log, messages, question, quiet, system_text,
};
use crate::tools::toolbox;

const SUMMARY: &str = "Goal: the user tells of ships. Facts: /srv/ships/bertha.toml has port 4711.";

fn few_messages() -> Config {
    let mut config = quiet();
    config.limits.max_messages = 10;
    config
}

fn few_tokens() -> Config {
    let mut config = quiet();
    config.limits.max_tokens = 1000;
    config
}

/// Asks until a context was compacted, and once more. Gives what was compacted.
async fn until_compacted(fixture: &Fixture, config: &Config) -> CompactedContext {
    let conversation = fixture.kernel_with(config).conversation(&key("a"));
    for n in 0..40 {
        let question_text =
            format!("{n}: look into /srv/ships/bertha.toml for port 4711. {}", "She is a ship. ".repeat(10));
        let (events, answered) = ask_with_events(&conversation, &question_text).await;
        answered.unwrap();
        let compacted = events.into_iter().find_map(|event| match event {
            Event::Compacted(done) => Some(done),
            _ => None,
        });
        let last = fixture.chats().pop().unwrap();
        assert!(last.len() <= config.limits.max_messages, "{} messages were sent", last.len());
        assert_eq!(last.last().unwrap().1, question_text, "the last request always stays");
        if let Some(compacted) = compacted {
            ask(&conversation, "and then?").await;
            return compacted;
        }
    }
    panic!("it never was compacted");
}

/// Asserts that the events, the record and the request agree.
fn assert_true(fixture: &Fixture, compacted: &CompactedContext) {
    let store = &fixture.store;
    let lines = log(store, &key("a"));
    let line = lines.iter().find(|line| line.role == "compaction").unwrap();
    assert_eq!(line.seq, compacted.seq);
    let at = |seq| {
        let at = manent::StreamId::live(&key("a"));
        store.context_at(&at, Some(seq), Tokens::default()).unwrap().tokens
    };
    assert_eq!(compacted.before, at(compacted.seq - 1), "so many tokens before");
    assert_eq!(compacted.after, at(compacted.seq), "so many after");
    assert!(compacted.after < compacted.before);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_messages_are_summed_up_by_the_model() {
    let fixture = Fixture::new(|request| replies::ollama(if is_chat(request) { "Aye." } else { SUMMARY }));
    let compacted = until_compacted(&fixture, &few_messages()).await;
    assert_eq!(
        (compacted.reason, compacted.way),
        (CompactionReason::Messages, CompactionMethod::Model),
        "{compacted:?}"
    );
    assert_true(&fixture, &compacted);
    let sent = fixture.chats().pop().unwrap();
    assert!(sent.iter().any(|(_, text)| text.contains(SUMMARY)), "{sent:?}");
    let question_text =
        fixture.server.requests().iter().filter(|request| system_text(request).contains("summary")).count();
    assert_eq!(question_text, 1, "once, and not in every turn after it");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_tokens_are_summed_up_by_the_model() {
    let fixture = Fixture::new(|request| replies::ollama(if is_chat(request) { "Aye." } else { SUMMARY }));
    let compacted = until_compacted(&fixture, &few_tokens()).await;
    assert_eq!(compacted.reason, CompactionReason::Tokens);
    assert_true(&fixture, &compacted);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_sum_up_is_done_without() {
    let bad: [fn() -> Script; 4] = [
        || Script::error(500, r#"{"error":"no memory"}"#),
        || replies::ollama(""),
        || replies::ollama("Ha ha."),
        || replies::ollama_error("half of a summ", "died"),
    ];
    for script in bad {
        let fixture =
            Fixture::new(move |request| if is_chat(request) { replies::ollama("Aye.") } else { script() });
        let compacted = until_compacted(&fixture, &few_messages()).await;
        assert!(matches!(compacted.way, CompactionMethod::Extract | CompactionMethod::Drop), "{compacted:?}");
        assert!(compacted.tried.iter().any(|(way, _)| *way == CompactionMethod::Model), "{compacted:?}");
        assert_true(&fixture, &compacted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_no_context_can_hold_is_kept_and_refused() {
    let fixture = Fixture::new(|_| replies::ollama("Aye."));
    let conversation = fixture.kernel_with(&few_tokens()).conversation(&key("a"));
    let huge = "a very long question indeed ".repeat(1000);
    let (events, outcome) = ask_with_events(&conversation, &huge).await;
    let is_told = matches!(outcome, Err(TurnError::Store(manent::Error::CannotCompact { .. })));
    assert!(is_told, "{outcome:?}");
    assert!(matches!(events[0], Event::QuestionSaved { .. }));
    assert_eq!(log(&fixture.store, &key("a"))[0].content, huge);
    assert!(fixture.server.requests().is_empty(), "nobody is question_text what they cannot read");
    // What was too much once does not lame the conversation for ever.
    assert_eq!(ask(&conversation, "a short one").await.text, "Aye.");
    assert_eq!(question(fixture.server.requests().last().unwrap()), "a short one");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_server_counts_is_what_counts() {
    // It always says that it read 900 tokens, and so 1000 are soon too many.
    let fixture = Fixture::new(|request| {
        let text = if is_chat(request) { "Aye." } else { SUMMARY };
        let read = if is_chat(request) { 900 } else { 100 };
        Script::new()
            .chunk(replies::ollama_line(&serde_json::json!({"role": "assistant", "content": text})))
            .chunk(replies::ollama_done("stop", read, 3))
    });
    let conversation = fixture.kernel_with(&few_tokens()).conversation(&key("a"));
    let mut compacted = None;
    for n in 0..4 {
        let (events, answered) =
            ask_with_events(&conversation, &format!("{n} {}", "She is a ship. ".repeat(20))).await;
        answered.unwrap();
        compacted = compacted.or_else(|| {
            events.into_iter().find_map(|event| match event {
                Event::Compacted(done) => Some(done),
                _ => None,
            })
        });
    }
    let at = manent::StreamId::live(&key("a"));
    let compacted = compacted.expect("by its count there is too much");
    assert!(compacted.before > 1000);
    let ours = fixture.store.context_at(&at, Some(compacted.seq - 1), Tokens::default()).unwrap().tokens;
    assert!(ours < 700, "by ours there is not: {ours}");
    let record = fixture.store.load(&key("a")).unwrap().turns().nth(1).unwrap().extra.to_owned();
    assert!(record.contains("\"input\":900") && record.contains("\"counted\":"), "{record}");
}

#[tokio::test(flavor = "multi_thread")]
async fn context_that_is_too_large_after_the_last_round_is_not_compacted_before_the_next_question() {
    let mut messages_max = usize::MAX;
    // The first model calls tools until it is ended, and shows how many messages the last request has. That is the
    // limit for the second: only the context behind the last round is larger.
    for expected in [0, 1] {
        let fixture = Fixture::new(|request| match messages(request).pop() {
            Some((role, text)) if role == "user" && text == "and then?" => replies::ollama("Aye."),
            _ if !is_chat(request) => replies::ollama(SUMMARY),
            _ => {
                let call = json!({"function": {"name": "search_files", "arguments": {"glob": "*"}}});
                let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
                Script::new()
                    .chunk(replies::ollama_line(&message))
                    .chunk(replies::ollama_done("stop", 900, 9))
            }
        });
        let workspace = tempfile::tempdir().unwrap();
        let tools = toolbox(workspace.path(), Approver::Nobody, "");
        let mut config = quiet();
        config.limits.max_messages = messages_max;
        let (runtime, system) = (Handle::current(), SYSTEM.to_owned());
        let kernel =
            Kernel::start(&runtime, fixture.store.clone(), fixture.model(), config, system, Some(tools));
        let conversation = kernel.conversation(&key("a"));
        let (_, ended) = ask_with_events(&conversation, "look for it").await;
        let Err(TurnError::Rounds { most }) = ended else { panic!("{ended:?}") };
        let compactions =
            || log(&fixture.store, &key("a")).iter().filter(|line| line.role == "compaction").count();
        assert_eq!((compactions(), fixture.server.requests().len()), (0, most as usize));
        messages_max = fixture.chats().pop().unwrap().len();
        assert_eq!(ask(&conversation, "and then?").await.text, "Aye.");
        assert_eq!(compactions(), expected, "the context was larger than {messages_max} messages by then");
        kernel.end(LONG).await;
    }
}

/// One that counts only what is new to it (a cache) corrects nothing.
#[tokio::test(flavor = "multi_thread")]
async fn who_counts_only_what_is_new_is_not_believed() {
    let fixture = Fixture::new(|_| replies::ollama("Aye."));
    let conversation = fixture.kernel().conversation(&key("a"));
    let mut last = 0;
    for n in 0..6 {
        let answered = ask(&conversation, &format!("{n} {}", "She is a ship. ".repeat(30))).await;
        assert!(answered.tokens > last + 100, "{} after {last}", answered.tokens);
        last = answered.tokens;
    }
}
