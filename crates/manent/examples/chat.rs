//! A chat that survives kill -9: kill it whenever you like, start it again, and it goes on where it stopped.
#![allow(clippy::print_stdout, reason = "it is a chat")]

use std::io::{self, BufRead};

use manent::{SessionKey, Store, Transcript, turn};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(std::env::args().nth(1).unwrap_or_else(|| "chat-data".into()))?;
    let key = SessionKey::new("me")?;
    for turn in store.load(&key)?.turns() {
        println!("{}: {}", turn.role, turn.content);
    }
    answer(&store, &key)?; // we may have been killed between a question and its answer
    for line in io::stdin().lock().lines() {
        store.append(&key, turn("user", line?))?; // on the disk before the model is asked
        answer(&store, &key)?;
    }
    Ok(())
}

fn answer(store: &Store, key: &SessionKey) -> manent::Result<()> {
    let said = store.load(key)?;
    if said.turns().next_back().is_some_and(|last| last.role == "user") {
        let text = model(&said);
        store.append(key, turn("assistant", &text))?; // and the answer before it is shown
        println!("assistant: {text}");
    }
    Ok(())
}

fn model(said: &Transcript) -> String {
    let questions: Vec<_> = said.turns().filter(|turn| turn.role == "user").collect();
    let last = questions.last().map_or("nothing", |turn| turn.content);
    format!("you said {} things, the last was {last:?}", questions.len())
}
