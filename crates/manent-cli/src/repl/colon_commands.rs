//! Commands of the REPL: the same that can be typed in a shell, about the session at hand.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::PoisonError;

use anstyle::{AnsiColor, Style};
use manent::SessionKey;
use manent::tokens::Tokens;
use manent_agent::kernel::{CHAT_PHASE, CallStyle, Toolbox};
use manent_agent::policy::{Decision, Permission};
use manent_agent::providers::Model;
use manent_agent::{skills::Skill, tools};
use manent_runs::Runs;

use super::{answer_view, session_picker};
use crate::commands::chat::{ChatSession, fresh_key};
use crate::commands::{self, missing};
use crate::context::{self, session_key};
use crate::exit::Failure;
use crate::{args, term};

/// The next step after a command.
pub(super) enum AfterCommand {
    Stay,
    Leave,
    /// Ask this question.
    Ask(String),
}

/// A command, as `:help` lists it and the tab key completes it.
pub(super) struct ColonCommand {
    pub(super) argument: Argument,
    /// The command line, as `:help` shows it.
    usage: &'static str,
    about: &'static str,
}

impl ColonCommand {
    pub(super) fn name(&self) -> &'static str {
        self.usage[1..].split(' ').next().unwrap_or_default()
    }
}

/// The kind of argument that a command takes.
#[derive(Clone, Copy)]
pub(super) enum Argument {
    None,
    Text,
    /// The key of a session.
    Key,
    /// The name of a file.
    File,
    /// The first word is one of these; more may follow.
    Words(&'static [&'static str]),
}

const fn command(argument: Argument, usage: &'static str, about: &'static str) -> ColonCommand {
    ColonCommand { argument, usage, about }
}

pub(super) const COMMANDS: [ColonCommand; 26] = [
    command(Argument::None, ":sessions", "choose a session: by its title, or what was said in it"),
    command(Argument::Key, ":resume [KEY]", "go on with another session"),
    command(Argument::Text, ":new [KEY]", "begin another session"),
    command(Argument::Key, ":fork [KEY]", "go on from here in a new session; this one stays as it is"),
    command(Argument::Text, ":save [TITLE]", "every turn is saved already; this gives a title"),
    command(Argument::Text, ":title TITLE", "give this session a title"),
    command(Argument::None, ":show", "the last turns"),
    command(
        Argument::File,
        ":export [FILE]",
        "write this session to a file: Markdown, or JSON if it ends so",
    ),
    command(Argument::Text, ":search WORDS", "find anything that was ever said"),
    command(Argument::None, ":retry", "ask the last question again"),
    command(Argument::Words(&MEMORY), ":memory [WORD …]", "list, add, forget, search, why, inbox, accept"),
    command(Argument::Words(&["all"]), ":context [all]", "how full the context is; with all, what is in it"),
    command(Argument::None, ":compact", "make the context smaller; nothing is lost"),
    command(Argument::None, ":undo", "take the last compaction back"),
    command(Argument::Text, ":model [NAME]", "who answers; with a name, who answers from here on"),
    command(Argument::None, ":tools", "what the model may do here, and what it must ask for"),
    command(Argument::Words(&SKILLS), ":skills", "what models are taught by files"),
    command(Argument::None, ":runs", "what was run in this session"),
    command(Argument::Text, ":good [WHY]", "the last run of a skill here was good; models can learn from it"),
    command(Argument::Text, ":bad [WHY]", "it was not; the last word counts"),
    command(Argument::None, ":config", "what is set, and where"),
    command(Argument::None, ":doctor", "look whether everything is as it should be"),
    command(Argument::None, ":stats", "count what there is"),
    command(Argument::None, ":help", "this"),
    command(Argument::None, ":quit", "leave; everything is kept"),
    // Completed by the tab key, but not listed by `:help`, which lists `:quit`.
    command(Argument::None, ":exit", ""),
];

const SKILLS: [&str; 7] = ["list", "show", "validate", "doctor", "diff", "trust", "untrust"];
const MEMORY: [&str; 11] =
    ["list", "add", "forget", "search", "why", "inbox", "accept", "reject", "select", "audit", "compact"];

/// Runs a command. One that fails prints its error, and the chat goes on.
pub(super) fn run(chat: &mut ChatSession<'_>, line: &str) -> AfterCommand {
    run_command(chat, line).unwrap_or_else(|failure| {
        chat.context.complain(&failure);
        AfterCommand::Stay
    })
}

fn run_command(chat: &mut ChatSession<'_>, line: &str) -> Result<AfterCommand, Failure> {
    let (word, rest) = line[1..].split_once(char::is_whitespace).unwrap_or((&line[1..], ""));
    let rest = rest.trim();
    match word {
        "q" | "quit" | "exit" => return Ok(AfterCommand::Leave),
        "retry" => return last_question(chat).map(AfterCommand::Ask),
        "h" | "help" | "?" => answer_view::tell(&help()),
        "new" => switch(chat, if rest.is_empty() { fresh_key() } else { session_key(rest) }?),
        "sessions" => pick(chat)?,
        "resume" if rest.is_empty() => pick(chat)?,
        "resume" => resume(chat, rest)?,
        "fork" => fork(chat, rest)?,
        "model" if rest.is_empty() => show_model(chat),
        "model" => switch_model(chat, rest)?,
        "tools" => show_tools(chat),
        other => about_session(chat, other, rest)?,
    }
    Ok(AfterCommand::Stay)
}

/// Commands that leave the conversation as it is.
fn about_session(chat: &ChatSession<'_>, word: &str, rest: &str) -> Result<(), Failure> {
    let key = chat.key.as_str();
    let is_begun = chat.store.exists(&chat.key)?;
    let needs_session = ["save", "title", "show", "context", "compact", "undo", "export"].contains(&word);
    if needs_session && !is_begun {
        let hint = "ask something first";
        return Err(Failure::not_found(format!("nothing was said in {key} yet; {hint}")));
    }
    let session = format!("--session={key}");
    let words = match word {
        "save" if rest.is_empty() => {
            let note = format!("every turn is saved already, as {key}; `:save TITLE` gives it a title");
            chat.context.note(&note);
            return Ok(());
        }
        "title" if rest.is_empty() => return Err(usage(":title TITLE")),
        "search" if rest.is_empty() => return Err(usage(":search WORDS")),
        "save" | "title" => {
            chat.store.set_title(&chat.key, rest)?;
            chat.context.note(&format!("{key} is titled {rest:?} now"));
            return Ok(());
        }
        "context" if rest != "all" => return show_budget(chat, rest),
        "export" => return export(chat, rest),
        "good" | "bad" => {
            let (run, note) = (last_run(chat)?, format!("--note={rest}"));
            return shell_command(chat, &["run", "judge", &session, &note, "--", &run, word]);
        }
        "runs" => vec!["run", "list", &session],
        "show" => vec!["show", "--tail", "10", "--", key],
        "context" => vec!["context", "--", key],
        "compact" => vec!["compact", "--", key],
        "undo" => vec!["compact", "--undo", "--", key],
        "memory" | "skills" if rest.is_empty() => vec![word, "list"],
        "memory" if text_to_remember(rest).is_some() => {
            vec!["memory", "add", "--", text_to_remember(rest).unwrap_or_default()]
        }
        "memory" | "search" | "skills" | "config" | "doctor" | "stats" => {
            std::iter::once(word).chain(rest.split_whitespace()).collect()
        }
        other => return Err(unknown(other)),
    };
    shell_command(chat, &words)
}

fn usage(typed: &str) -> Failure {
    Failure::usage(format!("it is typed so: {typed}"))
}

/// Returns the failure of a command that does not exist, with the one that begins like it.
fn unknown(word: &str) -> Failure {
    let start: String = word.chars().take(3).collect();
    let names = COMMANDS.iter().map(ColonCommand::name);
    let near = names.filter(|_| !word.is_empty()).find(|name| {
        let has_start = start.chars().count() == 3 && name.starts_with(&start);
        has_start || name.starts_with(word)
    });
    let hint = near.map(|near| format!("; did you mean :{near}?")).unwrap_or_default();
    Failure::usage(format!("there is no command :{word}; :help lists what there is{hint}"))
}

/// Returns the text of `:memory add TEXT`, which needs no quotes. With options, the line is taken as in a shell.
fn text_to_remember(rest: &str) -> Option<&str> {
    let text = rest.strip_prefix("add")?.strip_prefix(char::is_whitespace)?.trim();
    (!text.is_empty() && !text.starts_with('-')).then_some(text)
}

/// Runs a command of the shell: `manent` with these words.
fn shell_command(chat: &ChatSession<'_>, words: &[&str]) -> Result<(), Failure> {
    let typed = std::iter::once("manent").chain(words.iter().copied()).map(Into::into);
    // The mistake was printed.
    let Ok(parsed) = args::parse(typed) else { return Ok(()) };
    commands::run(chat.context, &parsed.command).map(drop)
}

fn switch(chat: &mut ChatSession<'_>, key: SessionKey) {
    chat.key = key;
    missing::warn_of_new(chat.context, &chat.store, &chat.key);
    answer_view::welcome(chat);
}

/// Lets the user choose a session. Where a list cannot be drawn, it is printed.
fn pick(chat: &mut ChatSession<'_>) -> Result<(), Failure> {
    match session_picker::pick(&chat.store, chat.context)? {
        session_picker::Choice::Session(key) => switch(chat, key),
        session_picker::Choice::Nothing => {}
        session_picker::Choice::NoTerminal => shell_command(chat, &["sessions", "--limit", "20"])?,
    }
    Ok(())
}

fn resume(chat: &mut ChatSession<'_>, text: &str) -> Result<(), Failure> {
    let key = session_key(text)?;
    if chat.store.live(&key)?.is_none() {
        chat.store.find(&key)?;
        chat.context.note("it is archived: what you say begins a new session of that key");
    }
    switch(chat, key);
    Ok(())
}

fn fork(chat: &mut ChatSession<'_>, name: &str) -> Result<(), Failure> {
    let key = chat.key.to_string();
    let name = if name.is_empty() { format!("{key}-fork") } else { name.to_owned() };
    let forked = session_key(&name)?;
    if chat.store.exists(&forked)? {
        let why = format!("there is a session {name} already; `:fork KEY` takes another key");
        return Err(Failure::conflict(why));
    }
    shell_command(chat, &["fork", "--", &key, &name])?;
    switch(chat, forked);
    Ok(())
}

/// Returns the last question of the user in this session.
fn last_question(chat: &ChatSession<'_>) -> Result<String, Failure> {
    let mut turns = TAIL_TURNS;
    loop {
        let tail = chat.store.tail(&chat.key, turns)?;
        if let Some(turn) = tail.turns().rev().find(|turn| turn.role == "user") {
            return Ok(turn.content.to_owned());
        }
        // The other turns were tool calls.
        if (tail.turns().len() as u64) < turns {
            return Err(Failure::not_found(format!("nothing was asked in {} yet", chat.key)));
        }
        turns *= 8;
    }
}

/// Returns the id of the last run of a skill in this conversation. Runs that other programs recorded do not count.
fn last_run(chat: &ChatSession<'_>) -> Result<String, Failure> {
    let mut last: Option<(u64, String)> = None;
    Runs::open(&chat.store)?.each(&chat.key, |run| {
        if run.phase == CHAT_PHASE && last.as_ref().is_none_or(|(seq, _)| run.seq > *seq) {
            last = Some((run.seq, run.run_id.to_string()));
        }
        ControlFlow::Continue(())
    })?;
    last.map(|(_, run_id)| run_id).filter(|run_id| !run_id.is_empty()).ok_or_else(|| {
        let hint = "`manent run judge` judges any other run";
        let why = format!("no skill was used in {} yet, so there is nothing to judge; {hint}", chat.key);
        Failure::not_found(why)
    })
}

/// Prints how full the context is: `:context` without an argument.
fn show_budget(chat: &ChatSession<'_>, rest: &str) -> Result<(), Failure> {
    if !rest.is_empty() {
        return Err(usage(":context, or :context all"));
    }
    let context = chat.store.context(&chat.key, Tokens::default())?;
    let budget = answer_view::budget(context.tokens, chat.kernel.limits().max_tokens);
    let compacted = if context.compaction.is_some() { ", compacted" } else { "" };
    let messages = context.messages.len();
    answer_view::tell(&format!("{budget}; {messages} messages{compacted}; `:context all` shows them"));
    Ok(())
}

/// Writes the session to a file, as JSON if its name ends so, else as Markdown.
fn export(chat: &ChatSession<'_>, file: &str) -> Result<(), Failure> {
    let key = chat.key.as_str();
    let named = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let default = format!("{}.md", key.chars().map(named).collect::<String>().trim_start_matches(['-', '.']));
    let file = if file.is_empty() { &default } else { file };
    let home = context::user_home().filter(|_| file.starts_with("~/"));
    let path =
        home.map_or_else(|| file.to_owned(), |home| home.join(&file[2..]).to_string_lossy().into_owned());
    let is_json = [".json", ".jsonl"].iter().any(|end| path.ends_with(end));
    let to = if is_json { "json" } else { "md" };
    let typed = ["export", "--to", to, &format!("--output={path}"), "--", key];
    shell_command(chat, &typed)
}

fn help() -> String {
    let mut text = String::new();
    for ColonCommand { usage, about, .. } in COMMANDS.iter().filter(|command| !command.about.is_empty()) {
        let _ = writeln!(text, "  {}  {about}", term::pad(usage, HELP_COLUMNS));
    }
    text + KEYS
}

/// Prints the name of the model that answers, and those of its server.
fn show_model(chat: &ChatSession<'_>) {
    let name = chat.kernel.model().name();
    let others = others(chat, chat.kernel.model());
    let there_are = others.map(|names| format!("; there are {}", first_names(&names))).unwrap_or_default();
    chat.context.note(&format!("{name} answers{there_are}; `:model NAME` goes on with another"));
}

/// Goes on with another model. If it is not there, nothing changes.
fn switch_model(chat: &mut ChatSession<'_>, name: &str) -> Result<(), Failure> {
    if name == chat.kernel.model().name() {
        chat.context.note(&format!("{name} answers already"));
        return Ok(());
    }
    let mut config = chat.config.clone();
    config.set_flag("agent.model", name).map_err(|e| Failure::usage(e.to_string()))?;
    let chosen = chat.choose(&config)?;
    let stays = chat.kernel.model().name().to_owned();
    let refuse = |why: String| Err(Failure::not_found(format!("{why}; {stays} goes on answering")));
    if let Some(why) = chosen.why {
        return refuse(why);
    }
    // `choose` does not ask a provider that was named whether it has the model; here a person waits for that.
    if let Some(all) = others(chat, &chosen.model)
        && !all.iter().any(|other| other == name || other.strip_suffix(":latest") == Some(name))
    {
        return refuse(format!("there is no model {name:?}; there are {}", first_names(&all)));
    }
    chat.answer_with(config, chosen.model)?;
    chat.context.note(&format!("{} answers from here on", chat.kernel.model().name()));
    Ok(())
}

/// Returns the models of a server, or `None` if it lists none.
fn others(chat: &ChatSession<'_>, model: &Model) -> Option<Vec<String>> {
    let names = chat.runtime.block_on(model.models()).ok()?;
    (!matches!(model, Model::Recall(_)) && !names.is_empty()).then_some(names)
}

fn first_names(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let some = names[..names.len() - more].join(", ");
    if more == 0 { some } else { format!("{some} and {more} more") }
}

/// Prints the tools of the model, and which of them it must ask for.
fn show_tools(chat: &ChatSession<'_>) {
    let model = term::line(chat.kernel.model().name()).into_owned();
    let Some(toolbox) = chat.kernel.toolbox() else {
        chat.context.note(&format!("{model} has no tools in this chat"));
        return;
    };
    let way = match toolbox.calling {
        CallStyle::Native => "by its server's own way",
        CallStyle::Text => "by text, which it is taught",
    };
    let workspace = toolbox.workspace.display().to_string();
    let mut text = format!("{model} calls tools {way}; they see {}\n", term::line(&workspace));
    let policy = toolbox.policy.lock().unwrap_or_else(PoisonError::into_inner);
    for tool in tools::names() {
        if toolbox.shell.is_none() && tools::effect_of(tool) == Some(tools::ToolEffect::Run) {
            continue;
        }
        for (at, decision) in policy.outlook(tool, toolbox.asking).iter().enumerate() {
            tool_row(&mut text, if at == 0 { tool } else { "" }, decision);
        }
    }
    drop(policy);
    let skills = toolbox.skills.callable().map(Skill::name).count();
    if skills > 0 {
        let why = format!("{skills} to read; :skills lists them");
        tool_row(&mut text, "use_skill", &Decision { permission: Permission::Allow, why });
    }
    text.push_str(&sandbox_line(toolbox));
    answer_view::tell(&text);
}

fn tool_row(text: &mut String, tool: &str, decision: &Decision) {
    let (word, color) = match decision.permission {
        Permission::Allow => ("free", AnsiColor::Green),
        Permission::Ask => ("asks", AnsiColor::Yellow),
        Permission::Deny => ("denied", AnsiColor::Red),
    };
    let style = Style::new().fg_color(Some(color.into()));
    let (tool, word) = (term::pad(tool, TOOL_COLUMNS), term::pad(word, WORD_COLUMNS));
    let _ = writeln!(text, "  {tool}  {style}{word}{style:#}  {}", term::line(&decision.why));
}

/// Describes the sandbox in which commands run.
#[cfg(target_os = "linux")]
fn sandbox_line(toolbox: &Toolbox) -> String {
    use manent_agent::sandbox::Sandbox;
    if toolbox.shell.is_none() {
        return "no commands are run".to_owned();
    }
    match Sandbox::probe() {
        Ok(sandbox) => {
            format!("commands run in a sandbox: {} ({})", sandbox.kind(), term::line(sandbox.details()))
        }
        Err(error) => format!("no command is run: {}", term::line(&error.to_string())),
    }
}

#[cfg(not(target_os = "linux"))]
fn sandbox_line(_toolbox: &Toolbox) -> String {
    "no commands are run: there is a sandbox on Linux only".to_owned()
}

const HELP_COLUMNS: usize = 18;
const TOOL_COLUMNS: usize = 13;
const WORD_COLUMNS: usize = 6;
/// The number of models that are named.
const NAMES_MAX: usize = 12;
const KEYS: &str = "\
Tab completes. Alt-Enter begins a new line; a line that ends with \\ goes on in
the next, and so does an open ```. Ctrl-C stops an answer or a tool and keeps
what came, or clears the line. Ctrl-R searches what was typed; a line that
begins with a blank is not kept for that.";
/// The number of turns in which the last question is looked for first.
const TAIL_TURNS: u64 = 32;
