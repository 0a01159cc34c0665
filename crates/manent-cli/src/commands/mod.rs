//! One file for each command, all of the same shape: `run(context, what was typed)` gives the exit code.

pub(crate) mod append;
pub(crate) mod archive;
mod beside;
pub(crate) mod chat;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod consolidate;
pub(crate) mod context;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fork;
pub(crate) mod man;
pub(crate) mod memory;
pub(crate) mod missing;
pub(crate) mod reindex;
pub(crate) mod repair;
pub(crate) mod restore;
pub(crate) mod retro;
mod retro_every;
mod retro_text;
pub(crate) mod rm;
pub(crate) mod run;
#[cfg(target_os = "linux")]
pub(crate) mod sandbox;
pub(crate) mod search;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod skills;
pub(crate) mod stats;
mod taught;
pub(crate) mod title;
pub(crate) mod train;
pub(crate) mod unarchive;
pub(crate) mod verify;

use anstyle::{AnsiColor, Style};
use manent::{Place, SessionKey, Store, StreamId, StreamStat};
use serde_json::json;

use crate::args::Command;
use crate::context::{Context, key};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::term;

/// Does what was typed.
pub(crate) fn run(context: &Context<'_>, command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Chat(given) => chat::run(context, given),
        Command::Append(given) => append::run(context, given),
        Command::Show(given) => show::run(context, given),
        Command::Export(given) => export::run(context, given),
        Command::Search(given) => search::run(context, given),
        Command::Context(given) => context::run(context, given),
        Command::Compact(given) => compact::run(context, given),
        Command::Consolidate(given) => consolidate::run(context, given),
        Command::Sessions(given) => sessions::run(context, given),
        Command::Archive(given) => archive::run(context, given),
        Command::Unarchive(given) => unarchive::run(context, given),
        Command::Rm(given) => rm::run(context, given),
        Command::Restore(given) => restore::run(context, given),
        Command::Fork(given) => fork::run(context, given),
        Command::Title(given) => title::run(context, given),
        Command::Memory(given) => memory::run(context, given),
        Command::Skills(given) => skills::run(context, given),
        Command::Run(given) => run::run(context, given),
        Command::Train(given) => train::run(context, given),
        Command::Retro(given) => retro::run(context, given),
        #[cfg(target_os = "linux")]
        Command::Sandbox(given) => sandbox::run(context, given),
        Command::Stats(given) => stats::run(context, given),
        Command::Config => config::run(context),
        Command::Doctor => doctor::run(context),
        Command::Reindex => reindex::run(context),
        Command::Completions(given) => completions::run(given),
        Command::Man(given) => man::run(given),
        Command::Verify(given) => verify::run(context, given),
        Command::Repair(given) => repair::run(context, given),
    }
}

/// A session that was named, or what is wrong with its name.
type Found = Result<StreamStat, Failure>;

/// The session that was named: by `@` and the beginning of its id, or by its key, which `by_key` looks for.
fn named(
    store: &Store,
    text: &str,
    by_key: impl Fn(&SessionKey) -> Result<StreamStat, manent::Error>,
) -> Result<StreamStat, Failure> {
    if let Some(id) = id_in(text) {
        match store.find_id(id) {
            // A key may look like that too.
            Err(e) if e.is_missing_session() => {
                if let Ok(listed) = by_key(&key(text)?) {
                    return Ok(listed);
                }
            }
            found => return Ok(found?),
        }
    }
    match by_key(&key(text)?) {
        Err(e) if e.is_missing_session() => by_odd_id(store, text).ok_or_else(|| {
            let failure = Failure::from(e);
            let short = text.strip_prefix('@').is_some_and(|id| id.len() < ID_CHARS_MIN);
            let hint = if short { "; of an id, give at least 8 characters" } else { "" };
            Failure::new(failure.exit, format!("{}{hint}", failure.message))
        }),
        found => Ok(found?),
    }
}

/// Other programs may make ids of other characters than ours; those are looked for last.
fn by_odd_id(store: &Store, text: &str) -> Option<StreamStat> {
    let id = text.strip_prefix('@').filter(|id| id.len() >= ID_CHARS_MIN)?;
    store.find_id(id).ok()
}

/// What a name says as an id: `@` and at least eight of its characters. Shorter, it is somebody's nickname.
fn id_in(text: &str) -> Option<&str> {
    let id = text.strip_prefix('@')?;
    let is_id = id.len() >= ID_CHARS_MIN && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_id.then_some(id)
}

/// The sessions that were named, or every one of these places, by key.
fn named_or_all(store: &Store, named_keys: &[String], places: &[Place]) -> Result<Vec<Found>, Failure> {
    if !named_keys.is_empty() {
        // A mistake in one name is a mistake in what was typed: nothing is done.
        for text in named_keys {
            key(text)?;
        }
        let find = |text: &String| named(store, text, |key| store.find(key));
        return Ok(named_keys.iter().map(find).collect());
    }
    let mut all = Vec::new();
    for place in places {
        let mut listed = match store.list(*place) {
            // A place that cannot be listed hides nothing of the others.
            Err(e) => {
                all.push(Err(e.into()));
                continue;
            }
            Ok(listed) => listed,
        };
        listed.sort_by(|a, b| (&a.id.key, &a.id.id).cmp(&(&b.id.key, &b.id.id)));
        all.extend(listed.into_iter().map(Ok));
    }
    Ok(all)
}

/// The word by which a command line names a session: its key where it is live, else its id.
fn word_for(at: &StreamId) -> String {
    let by_key = at.place == Place::Live || at.id.is_empty();
    if by_key { term::shell_word(at.key.as_str()) } else { format!("@{}", term::shell_word(&at.id)) }
}

/// A key that looks like an option must stand behind `--`.
fn dashes_for(word: &str) -> &'static str {
    if word.starts_with('-') || word.starts_with("'-") { "-- " } else { "" }
}

/// Does something with every session that was named, tells of each, and gives the worst outcome.
fn each(
    context: &Context<'_>,
    names: &[String],
    mut act: impl FnMut(&str, &mut Output) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    // A mistake in one name is a mistake in what was typed: nothing is done.
    for text in names {
        key(text)?;
    }
    let mut output = context.output();
    let mut worst = Exit::Done;
    for text in names {
        let done = act(text, &mut output);
        output.flush()?;
        if let Err(failure) = done {
            context.complain(&failure);
            worst = worst.max(failure.exit);
        }
    }
    Ok(worst)
}

/// Tells where a session is now.
fn tell(output: &mut Output, verb: &str, at: &StreamId) -> std::io::Result<()> {
    if output.json {
        return output.json(&json!({"session": at.key.as_str(), "id": at.id, "status": at.place.word()}));
    }
    let style = Style::new().fg_color(Some(AnsiColor::Green.into())).bold();
    let id = if at.id.is_empty() { String::new() } else { format!("  @{}", term::line(&at.id)) };
    let key = format!(" {}", term::line(at.key.as_str()));
    output.line(&[(style, verb), (Style::new(), &key), (term::FAINT, &id)])
}

const ID_CHARS_MIN: usize = 8;
