//! Many conversations at once in one process, and two kernels on one store.

use std::time::Duration;

use manent_agent::kernel::TurnError;
use manent_sim::model_server::{Script, replies};
use serde_json::json;

use crate::fixture::{
    Fixture, LONG, ask, ask_with_events, key, log, logged_turns, open, open_waiting, question, quiet, start,
};

const CONVERSATIONS: usize = 500;
const TURNS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_conversations_lose_cross_and_reorder_nothing() {
    let fixture = Fixture::new(|request| replies::ollama(&format!("answer to {}", question(request))));
    let kernel = fixture.kernel();
    let talk = |n: usize| {
        let kernel = kernel.clone();
        tokio::spawn(async move {
            for turn in 0..TURNS {
                // Asked for anew each time: it is the same conversation.
                let conversation = kernel.conversation(&key(&format!("c{n}")));
                let answered = ask(&conversation, &format!("question {turn} of {n}")).await;
                assert_eq!(answered.text, format!("answer to question {turn} of {n}"));
            }
        })
    };
    let talks: Vec<_> = (0..CONVERSATIONS).map(talk).collect();
    for talk in talks {
        talk.await.unwrap();
    }
    kernel.end(LONG).await;
    for n in 0..CONVERSATIONS {
        let wanted: Vec<(String, String)> = (0..TURNS)
            .flat_map(|turn| {
                let asked = format!("question {turn} of {n}");
                [("user".to_owned(), asked.clone()), ("assistant".to_owned(), format!("answer to {asked}"))]
            })
            .collect();
        assert_eq!(logged_turns(&fixture.store, &key(&format!("c{n}"))), wanted, "conversation {n}");
    }
    // What was sent is of the conversation it was sent for, from its beginning on.
    let sent = fixture.chats();
    assert_eq!(sent.len(), CONVERSATIONS * TURNS);
    for messages in sent {
        let last = messages.last().unwrap().1.clone();
        let of = last.rsplit(' ').next().unwrap().to_owned();
        assert!(messages[1..].iter().all(|(_, text)| text.ends_with(&format!(" of {of}"))), "{messages:?}");
    }
}

/// Questions that are asked while another is answered wait for their turn, in the order in which they came.
#[tokio::test(flavor = "multi_thread")]
async fn questions_to_one_conversation_are_answered_one_after_the_other() {
    let fixture = Fixture::new(|request| replies::ollama(&format!("answer to {}", question(request))));
    let kernel = fixture.kernel();
    let mut hearings = Vec::new();
    for n in 0..20 {
        hearings.push(kernel.conversation(&key("a")).ask(format!("q{n}")).await.unwrap());
    }
    for stream in hearings {
        stream.end().await.unwrap();
    }
    let order: Vec<String> =
        logged_turns(&fixture.store, &key("a")).into_iter().map(|(_, text)| text).collect();
    let wanted: Vec<String> = (0..20).flat_map(|n| [format!("q{n}"), format!("answer to q{n}")]).collect();
    assert_eq!(order, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_kernels_on_one_session_take_turns_whole() {
    let fixture = Fixture::new(|request| {
        let answer = json!({"role": "assistant", "content": format!("answer to {}", question(request))});
        Script::new()
            .pause(Duration::from_millis(3))
            .chunk(replies::ollama_line(&answer))
            .chunk(replies::ollama_done("stop", 11, 3))
    });
    let talk = |name: &'static str| {
        let kernel = start(open(fixture.dir.path()), fixture.model(), &quiet());
        tokio::spawn(async move {
            let conversation = kernel.conversation(&key("shared"));
            for n in 0..20 {
                ask(&conversation, &format!("{name}{n}")).await;
            }
            kernel.end(LONG).await;
        })
    };
    let (one, two) = (talk("a"), talk("b"));
    one.await.unwrap();
    two.await.unwrap();
    let turns = logged_turns(&fixture.store, &key("shared"));
    assert_eq!(turns.len(), 80, "nothing is lost, nothing is there twice");
    for pair in turns.chunks(2) {
        assert_eq!(pair[1].1, format!("answer to {}", pair[0].1), "no question within another's turn");
    }
    for name in ["a", "b"] {
        let is_theirs = |text: &&str| text.starts_with(name) && !text.starts_with("answer");
        let questions: Vec<&str> = turns.iter().map(|(_, text)| text.as_str()).filter(is_theirs).collect();
        let ordered: Vec<String> = (0..20).map(|n| format!("{name}{n}")).collect();
        assert_eq!(questions, ordered, "each in its order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_want_to_wait_for_another_is_told_who_it_is() {
    let fixture = Fixture::replay([Script::new().stall(), replies::ollama("yes")]);
    let first = fixture.kernel();
    let stream = first.conversation(&key("a")).ask("one").await.unwrap();
    assert!(fixture.server.wait_for_requests(1, LONG));
    let impatient =
        start(open_waiting(fixture.dir.path(), Duration::from_millis(20)), fixture.model(), &quiet());
    let other = impatient.conversation(&key("a"));
    let (events, outcome) = ask_with_events(&other, "two").await;
    let Err(TurnError::Store(error)) = outcome else { panic!("{outcome:?}") };
    assert!(error.is_held() && error.to_string().contains("pid"), "{error}");
    assert!(events.is_empty(), "nothing was kept, and nobody says so: {events:?}");
    assert_eq!(fixture.server.requests().len(), 1, "nobody was asked");
    stream.stop();
    stream.end().await.unwrap();
    assert_eq!(ask(&other, "two").await.text, "yes");
    assert_eq!(log(&fixture.store, &key("a")).iter().filter(|line| line.content == "two").count(), 1);
}
