//! Commands of the REPL: the same that can be typed in a shell, about the session at hand.

use manent::SessionKey;

use super::showing;
use crate::args;
use crate::commands::{self, chat::Chatting, chat::fresh_key};
use crate::context;
use crate::exit::Failure;

/// What comes after a command.
pub(super) enum After {
    Stay,
    Leave,
}

pub(super) fn run(chatting: &mut Chatting<'_>, line: &str) -> After {
    let (word, rest) = line[1..].split_once(char::is_whitespace).unwrap_or((&line[1..], ""));
    let (key, rest) = (chatting.key.to_string(), rest.trim());
    let key = key.as_str();
    let done = match word {
        "q" | "quit" | "exit" => return After::Leave,
        "h" | "help" | "?" => {
            anstream::eprintln!("{HELP}");
            Ok(())
        }
        "new" => switch(chatting, if rest.is_empty() { fresh_key() } else { context::key(rest) }),
        "resume" if rest.is_empty() => type_it(chatting, &["sessions", "--limit", "10"]),
        "resume" => resume(chatting, rest),
        "fork" => fork(chatting, rest),
        "save" if rest.is_empty() => {
            chatting
                .context
                .note(&format!("every turn is saved already, as {key}; `:save TITLE` gives it a title"));
            Ok(())
        }
        "save" | "title" => type_it(chatting, &["title", "--", key, rest]),
        "sessions" => type_it(chatting, &["sessions", "--limit", "20"]),
        "show" => type_it(chatting, &["show", "--tail", "10", "--", key]),
        "context" => type_it(chatting, &["context", "--", key]),
        "compact" => type_it(chatting, &["compact", "--", key]),
        "undo" => type_it(chatting, &["compact", "--undo", "--", key]),
        "model" => {
            let model = chatting.kernel.model().name().to_owned();
            chatting.context.note(&format!("{model}; `manent chat {key} --model NAME` goes on with another"));
            Ok(())
        }
        "memory" if to_remember(rest).is_some() => {
            type_it(chatting, &["memory", "add", "--", to_remember(rest).unwrap_or_default()])
        }
        "memory" | "search" | "skills" | "config" | "doctor" | "stats" => {
            let default = if word == "memory" || word == "skills" { "list" } else { "" };
            let rest = if rest.is_empty() { default } else { rest };
            let mut words = vec![word];
            words.extend(rest.split_whitespace());
            type_it(chatting, &words)
        }
        other => {
            chatting.context.warn(&format!("there is no command :{other}; :help lists what there is"));
            Ok(())
        }
    };
    // What went wrong with a command is no reason to leave.
    if let Err(failure) = done {
        chatting.context.complain(&failure);
    }
    After::Stay
}

/// The text of `:memory add TEXT`: nobody quotes it here. With options it is typed as in a shell.
fn to_remember(rest: &str) -> Option<&str> {
    let text = rest.strip_prefix("add")?.strip_prefix(char::is_whitespace)?.trim();
    (!text.is_empty() && !text.starts_with('-')).then_some(text)
}

/// As if it were typed in a shell.
fn type_it(chatting: &Chatting<'_>, words: &[&str]) -> Result<(), Failure> {
    let typed = std::iter::once("manent").chain(words.iter().copied()).map(Into::into);
    // What is wrong with it was told.
    let Ok(parsed) = args::parse(typed) else { return Ok(()) };
    commands::run(chatting.context, &parsed.command).map(drop)
}

fn switch(chatting: &mut Chatting<'_>, key: Result<SessionKey, Failure>) -> Result<(), Failure> {
    chatting.key = key?;
    showing::welcome(chatting);
    Ok(())
}

fn resume(chatting: &mut Chatting<'_>, text: &str) -> Result<(), Failure> {
    let key = context::key(text)?;
    if chatting.store.live(&key)?.is_none() {
        chatting.store.find(&key)?;
        chatting.context.note("it is archived: what you say begins a new session of that key");
    }
    switch(chatting, Ok(key))
}

fn fork(chatting: &mut Chatting<'_>, name: &str) -> Result<(), Failure> {
    let key = chatting.key.to_string();
    let name = if name.is_empty() { format!("{key}-fork") } else { name.to_owned() };
    type_it(chatting, &["fork", "--", &key, &name])?;
    let forked = context::key(&name)?;
    if chatting.store.exists(&forked)? {
        return switch(chatting, Ok(forked));
    }
    Ok(())
}

const HELP: &str = "\
  :sessions          the last sessions            :resume KEY   go on with another
  :new [KEY]         begin another                :fork [KEY]   go on from here in a new one
  :save [TITLE]      give this one a title        :show         the last turns
  :search WORDS      find anything ever said      :memory …     list, add, forget, search, why, inbox
  :context           what the model sees          :compact      make that smaller; :undo takes it back
  :model  :skills  :config  :doctor  :stats       :quit         leave; everything is kept
A line that ends with \\ goes on in the next. Ctrl-C stops an answer and keeps what came.";
