//! Commands of the REPL: the same that can be typed in a shell, about the session at hand.

use std::fmt::Write;
use std::ops::ControlFlow;

use manent::SessionKey;
use manent::tokens::Tokens;
use manent_agent::kernel::CHAT_PHASE;
use manent_runs::Runs;

use super::{picking, showing, switching, tools};
use crate::commands::{self, chat::Chatting, chat::fresh_key, missing};
use crate::exit::{Exit, Failure};
use crate::{args, context, term};

/// What comes after a command.
pub(super) enum After {
    Stay,
    Leave,
    /// This is asked.
    Ask(String),
}

/// A command, as `:help` and the tab key know it.
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// How it is typed, and what it does.
    help: (&'static str, &'static str),
}

/// What a command is given.
#[derive(Clone, Copy)]
pub(super) enum Takes {
    Nothing,
    /// Anything.
    Text,
    /// The key of a session.
    Key,
    /// The name of a file.
    File,
    /// One of these, and more.
    Words(&'static [&'static str]),
}

const fn command(name: &'static str, takes: Takes, typed: &'static str, does: &'static str) -> Command {
    Command { name, takes, help: (typed, does) }
}

pub(super) const COMMANDS: [Command; 26] = [
    command(
        "sessions",
        Takes::Nothing,
        ":sessions",
        "choose a session: by its title, or what was said in it",
    ),
    command("resume", Takes::Key, ":resume [KEY]", "go on with another session"),
    command("new", Takes::Text, ":new [KEY]", "begin another session"),
    command("fork", Takes::Key, ":fork [KEY]", "go on from here in a new session; this one stays as it is"),
    command("save", Takes::Text, ":save [TITLE]", "every turn is saved already; this gives a title"),
    command("title", Takes::Text, ":title TITLE", "give this session a title"),
    command("show", Takes::Nothing, ":show", "the last turns"),
    command(
        "export",
        Takes::File,
        ":export [FILE]",
        "write this session to a file: Markdown, or JSON if it ends so",
    ),
    command("search", Takes::Text, ":search WORDS", "find anything that was ever said"),
    command("retry", Takes::Nothing, ":retry", "ask the last question again"),
    command(
        "memory",
        Takes::Words(&MEMORY),
        ":memory [WORD …]",
        "list, add, forget, search, why, inbox, accept",
    ),
    command(
        "context",
        Takes::Words(&["all"]),
        ":context [all]",
        "how full the context is; with all, what is in it",
    ),
    command("compact", Takes::Nothing, ":compact", "make the context smaller; nothing is lost"),
    command("undo", Takes::Nothing, ":undo", "take the last compaction back"),
    command("model", Takes::Text, ":model [NAME]", "who answers; with a name, who answers from here on"),
    command("tools", Takes::Nothing, ":tools", "what the model may do here, and what it must ask for"),
    command("skills", Takes::Words(&SKILLS), ":skills", "what models are taught by files"),
    command("runs", Takes::Nothing, ":runs", "what was run in this session"),
    command(
        "good",
        Takes::Text,
        ":good [WHY]",
        "the last run of a skill here was good; models can learn from it",
    ),
    command("bad", Takes::Text, ":bad [WHY]", "it was not; the last word counts"),
    command("config", Takes::Nothing, ":config", "what is set, and where"),
    command("doctor", Takes::Nothing, ":doctor", "look whether everything is as it should be"),
    command("stats", Takes::Nothing, ":stats", "count what there is"),
    command("help", Takes::Nothing, ":help", "this"),
    command("quit", Takes::Nothing, ":quit", "leave; everything is kept"),
    command("exit", Takes::Nothing, "", ""),
];

const SKILLS: [&str; 7] = ["list", "show", "validate", "doctor", "diff", "trust", "untrust"];
const MEMORY: [&str; 11] =
    ["list", "add", "forget", "search", "why", "inbox", "accept", "reject", "select", "audit", "compact"];

pub(super) fn run(chatting: &mut Chatting<'_>, line: &str) -> After {
    let (word, rest) = line[1..].split_once(char::is_whitespace).unwrap_or((&line[1..], ""));
    let rest = rest.trim();
    let done = match word {
        "q" | "quit" | "exit" => return After::Leave,
        "retry" => match last_question(chatting) {
            Ok(question) => return After::Ask(question),
            Err(failure) => Err(failure),
        },
        "h" | "help" | "?" => {
            showing::tell(&help());
            Ok(())
        }
        "new" => switch(chatting, if rest.is_empty() { fresh_key() } else { context::key(rest) }),
        "sessions" => pick(chatting),
        "resume" if rest.is_empty() => pick(chatting),
        "resume" => resume(chatting, rest),
        "fork" => fork(chatting, rest),
        "model" if rest.is_empty() => {
            switching::show(chatting);
            Ok(())
        }
        "model" => switching::switch(chatting, rest),
        "tools" => {
            tools::show(chatting);
            Ok(())
        }
        other => about_session(chatting, other, rest),
    };
    // What went wrong with a command is no reason to leave.
    if let Err(failure) = done {
        chatting.context.complain(&failure);
    }
    After::Stay
}

/// Commands that leave the conversation as it is.
fn about_session(chatting: &Chatting<'_>, word: &str, rest: &str) -> Result<(), Failure> {
    let key = chatting.key.as_str();
    let is_begun = chatting.store.exists(&chatting.key)?;
    let needs_session = ["save", "title", "show", "context", "compact", "undo", "export"].contains(&word);
    if needs_session && !is_begun {
        let hint = "ask something first";
        return Err(Failure::new(Exit::NotFound, format!("nothing was said in {key} yet; {hint}")));
    }
    match word {
        "save" if rest.is_empty() => {
            let note = format!("every turn is saved already, as {key}; `:save TITLE` gives it a title");
            chatting.context.note(&note);
            Ok(())
        }
        "title" if rest.is_empty() => Err(usage(":title TITLE")),
        "save" | "title" => {
            chatting.store.set_title(&chatting.key, rest)?;
            chatting.context.note(&format!("{key} is titled {rest:?} now"));
            Ok(())
        }
        "search" if rest.is_empty() => Err(usage(":search WORDS")),
        "good" | "bad" => {
            let run = last_run(chatting)?;
            let (session, note) = (format!("--session={key}"), format!("--note={rest}"));
            type_it(chatting, &["run", "judge", &session, &note, "--", &run, word])
        }
        "runs" => type_it(chatting, &["run", "list", &format!("--session={key}")]),
        "show" => type_it(chatting, &["show", "--tail", "10", "--", key]),
        "context" => in_context(chatting, rest),
        "compact" => type_it(chatting, &["compact", "--", key]),
        "undo" => type_it(chatting, &["compact", "--undo", "--", key]),
        "export" => export(chatting, rest),
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
        other => Err(unknown(other)),
    }
}

fn usage(typed: &str) -> Failure {
    Failure::new(Exit::Usage, format!("it is typed so: {typed}"))
}

/// Whoever mistyped is shown what begins so.
fn unknown(word: &str) -> Failure {
    let near = COMMANDS.iter().find(|command| {
        let begins =
            word.chars().count() >= 3 && command.name.starts_with(&word.chars().take(3).collect::<String>());
        begins || (!word.is_empty() && command.name.starts_with(word))
    });
    let hint = near.map(|near| format!("; did you mean :{}?", near.name)).unwrap_or_default();
    Failure::new(Exit::Usage, format!("there is no command :{word}; :help lists what there is{hint}"))
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
    missing::warn_of_new(chatting.context, &chatting.store, &chatting.key);
    showing::welcome(chatting);
    Ok(())
}

/// Where keys and lines cannot be drawn, the list is shown, as it always was.
fn pick(chatting: &mut Chatting<'_>) -> Result<(), Failure> {
    match picking::pick(&chatting.store, chatting.context)? {
        picking::Picked::Session(key) => switch(chatting, Ok(key)),
        picking::Picked::Nothing => Ok(()),
        picking::Picked::NoTerminal => type_it(chatting, &["sessions", "--limit", "20"]),
    }
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
    let forked = context::key(&name)?;
    if chatting.store.exists(&forked)? {
        let why = format!("there is a session {name} already; `:fork KEY` takes another key");
        return Err(Failure::new(Exit::Conflict, why));
    }
    type_it(chatting, &["fork", "--", &key, &name])?;
    switch(chatting, Ok(forked))
}

/// What the user last asked here.
fn last_question(chatting: &Chatting<'_>) -> Result<String, Failure> {
    let mut turns = TAIL_TURNS;
    loop {
        let tail = chatting.store.tail(&chatting.key, turns)?;
        if let Some(turn) = tail.turns().rev().find(|turn| turn.role == "user") {
            return Ok(turn.content.to_owned());
        }
        // A long stretch of tool calls.
        if (tail.turns().len() as u64) < turns {
            let why = format!("nothing was asked in {} yet", chatting.key);
            return Err(Failure::new(Exit::NotFound, why));
        }
        turns *= 8;
    }
}

/// The id of the last run of a skill in this conversation; of those that other programs recorded for it, none.
fn last_run(chatting: &Chatting<'_>) -> Result<String, Failure> {
    let mut last: Option<(u64, String)> = None;
    Runs::open(&chatting.store)?.each(&chatting.key, |run| {
        if run.phase == CHAT_PHASE && last.as_ref().is_none_or(|(seq, _)| run.seq > *seq) {
            last = Some((run.seq, run.run_id.to_string()));
        }
        ControlFlow::Continue(())
    })?;
    last.map(|(_, run_id)| run_id).filter(|run_id| !run_id.is_empty()).ok_or_else(|| {
        let hint = "`manent run judge` judges any other run";
        let why = format!("no skill was used in {} yet, so there is nothing to judge; {hint}", chatting.key);
        Failure::new(Exit::NotFound, why)
    })
}

/// How full it is; with `all`, what is in it.
fn in_context(chatting: &Chatting<'_>, rest: &str) -> Result<(), Failure> {
    match rest {
        "" => {}
        "all" => return type_it(chatting, &["context", "--", chatting.key.as_str()]),
        _ => return Err(usage(":context, or :context all")),
    }
    let seen = chatting.store.context(&chatting.key, Tokens::default())?;
    let limit = chatting.kernel.limits().max_tokens;
    let compacted = if seen.compaction.is_some() { ", compacted" } else { "" };
    let messages = seen.messages.len();
    let text = format!(
        "{}; {messages} messages{compacted}; `:context all` shows them",
        showing::budget(seen.tokens, limit)
    );
    showing::tell(&text);
    Ok(())
}

/// Markdown, unless the name says otherwise.
fn export(chatting: &Chatting<'_>, file: &str) -> Result<(), Failure> {
    let key = chatting.key.as_str();
    let named = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let default = format!("{}.md", key.chars().map(named).collect::<String>().trim_start_matches(['-', '.']));
    let file = if file.is_empty() { &default } else { file };
    let home = context::user_home().filter(|_| file.starts_with("~/"));
    let path =
        home.map_or_else(|| file.to_owned(), |home| home.join(&file[2..]).to_string_lossy().into_owned());
    let is_json = [".json", ".jsonl"].iter().any(|end| path.ends_with(end));
    let to = if is_json { "json" } else { "md" };
    let typed = ["export", "--to", to, &format!("--output={path}"), "--", key];
    type_it(chatting, &typed)
}

fn help() -> String {
    let mut text = String::new();
    for Command { help: (typed, does), .. } in COMMANDS.iter().filter(|command| !command.help.0.is_empty()) {
        let _ = writeln!(text, "  {}  {does}", term::pad(typed, HELP_COLUMNS));
    }
    text + KEYS
}

const HELP_COLUMNS: usize = 18;
const KEYS: &str = "\
Tab completes. Alt-Enter begins a new line; a line that ends with \\ goes on in
the next, and so does an open ```. Ctrl-C stops an answer or a tool and keeps
what came, or clears the line. Ctrl-R searches what was typed; a line that
begins with a blank is not kept for that.";
/// Far enough for most.
const TAIL_TURNS: u64 = 32;
