//! `manent rm KEY…`: to the trash; with `--purge`, for good.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, IsTerminal, Write};

use manent::log::RealDisk;
use manent::memory::{Filter, Source};
use manent::{Memory, Place, Purged, SessionKey, Space, Store, StreamId};
use manent_runs::Runs;

use crate::commands::prelude::*;
use crate::repl::history;

/// Move sessions to the trash, or remove them for good
#[derive(Debug, Args)]
#[command(after_help = RM_NOTES)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    sessions: MovedSessions,
    /// Remove for good: every session of the key, live, archived and in the trash (with @ID, that one)
    #[arg(long)]
    purge: bool,
    /// With --purge: their forks too, which would otherwise keep a copy of what they share
    #[arg(long, requires = "purge")]
    with_forks: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub(crate) fn run(context: &Context<'_>, args: &RmArgs) -> Result<Exit, Failure> {
    let store = context.store(args.sessions.wait.time)?;
    for_each_name(context, &args.sessions.keys, |text, output| {
        if args.purge {
            return Purge { context, store: &store, args, output }.session(text);
        }
        let listed = find_session(&store, text)?;
        if listed.id.place == Place::Trash {
            let what = format!("{} is in the trash already; --purge removes it for good", listed.id.key);
            return Err(Failure::failed(what));
        }
        let trashed = store.delete(&listed.id)?;
        Ok(print_place(output, "deleted", &trashed)?)
    })
}

/// The removal of sessions for good.
struct Purge<'a> {
    context: &'a Context<'a>,
    store: &'a Store,
    args: &'a RmArgs,
    output: &'a mut Output,
}

impl Purge<'_> {
    fn session(&mut self, text: &str) -> Result<(), Failure> {
        let (context, store) = (self.context, self.store);
        let sessions = match sessions_to_purge(store, text) {
            // A key without a session may have runs of skills.
            Err(failure) if failure.exit == Exit::NotFound => {
                return self.runs_alone(text)?.then_some(()).ok_or(failure);
            }
            sessions => sessions?,
        };
        if !self.args.yes && !confirmed(text, &sessions)? {
            return Err(Failure::failed("nothing was removed"));
        }
        let lessons = lessons(store, sessions.iter().map(|at| at.key.clone()));
        let purged = store.purge(&sessions, self.args.with_forks)?;
        for at in &purged.removed {
            if self.output.wants_json {
                self.output.json(&json!({"session": at.key.as_str(), "id": at.id, "status": "purged"}))?;
            } else {
                print_place(self.output, "purged", at)?;
            }
        }
        self.print_runs(&purged, lessons)?;
        note_kept_runs(context, store, &purged.removed);
        for fork in &purged.forks {
            let (key, id) = (&fork.key, &fork.id);
            context.warn(&format!("{key} (@{id}) is a fork of it and holds a copy of what they share"));
        }
        if !purged.forks.is_empty() {
            context.note("`manent rm --purge --with-forks` would have taken them too");
        }
        warn_of_memory(context, store, &purged.removed);
        forget_history(context);
        Ok(())
    }

    /// Removes the runs of a key that has no session. Returns false if it has no runs either.
    fn runs_alone(&mut self, text: &str) -> Result<bool, Failure> {
        let runs = match Runs::open(self.store) {
            Err(e) if e.is_unsupported() => return Ok(false),
            runs => runs?,
        };
        let key = session_key(text)?;
        if runs.log(&key)?.is_none() {
            return Ok(false);
        }
        let what = format!("what skills did in {} will be gone for good. Go on? [y/N]", term::line(text));
        if !self.args.yes && !is_yes(&what)? {
            return Err(Failure::failed("nothing was removed"));
        }
        let lessons = lessons(self.store, [key.clone()]);
        let purged = self.store.purge_companions(&key)?;
        self.print_runs(&purged, lessons)?;
        Ok(!purged.companions.is_empty())
    }

    /// Prints the sessions whose runs are gone, and what may still tell of these runs.
    fn print_runs(&mut self, purged: &Purged, lessons: Result<Lessons, Failure>) -> io::Result<()> {
        for StreamId { space, key, .. } in &purged.companions {
            if self.output.wants_json {
                self.output.json(&json!({space.word(): key.as_str(), "status": "purged"}))?;
            } else {
                let what = format!("purged the {} of {}", space.word(), term::line(key.as_str()));
                self.output.plain(&what)?;
            }
        }
        if purged.derived.contains(&Space::Runs) {
            self.context.note("the latest retrospective is gone too: it may have told of them");
        }
        let runs = purged.companions.iter().filter(|at| at.space == Space::Runs);
        let runs: Vec<SessionKey> = runs.map(|at| at.key.clone()).collect();
        if !runs.is_empty() {
            warn_of_lessons(self.context, lessons, &runs);
        }
        Ok(())
    }
}

/// Removes the history of lines that were typed in chats. It does not tell sessions apart, so all of it goes.
fn forget_history(context: &Context<'_>) {
    match context.home().map(|home| history::forget(&*RealDisk::shared(), &home)) {
        Ok(Ok(true)) => context.note("what was typed in chats is no longer offered again either"),
        Ok(Ok(false)) | Err(_) => {}
        Ok(Err(why)) => context.warn(&why),
    }
}

/// Warns of runs that stay, because another session of their key does.
fn note_kept_runs(context: &Context<'_>, store: &Store, gone: &[StreamId]) {
    let Ok(runs) = Runs::open(store) else { return };
    let keys: BTreeSet<&SessionKey> = gone.iter().map(|at| &at.key).collect();
    for key in keys {
        if !matches!(runs.log(key), Ok(None)) {
            context.warn(&format!(
                "the runs of {key} are kept, and may tell what was said: another session of that key is there; \
                 `manent rm --purge {}` takes all of them",
                term::shell_word(key.as_str())
            ));
        }
    }
}

/// Warns of items in the memory that came from sessions which are gone. An error here undoes nothing.
fn warn_of_memory(context: &Context<'_>, store: &Store, gone: &[StreamId]) {
    if store.memory().is_err_and(|e| e.is_unsupported()) {
        return;
    }
    let places = [
        ("the memory", store.memory(), "forget", ", then `manent memory compact`, takes that out"),
        ("the inbox", store.inbox(), "reject", " takes that out"),
    ];
    for (place, memory, verb, rest) in places {
        match memory.map_err(Failure::from).and_then(|memory| items_from(&memory, gone)) {
            Ok(ids) if ids.is_empty() => {}
            Ok(ids) => {
                let items = if ids.len() == 1 { "an item" } else { "items" };
                let ids = term::numbers(&ids, " ");
                context.warn(&format!(
                    "{place} still holds {items} taken from it; `manent memory {verb} {ids}`{rest}"
                ));
            }
            Err(failure) => context.warn(&format!(
                "{place}, which may hold something taken from it, cannot be read: {}",
                failure.message
            )),
        }
    }
}

/// Returns the items that came from sessions which are gone.
fn items_from(memory: &Memory, gone: &[StreamId]) -> Result<Vec<u64>, Failure> {
    let is_from = |source: &Source| match (&source.session_id, &source.session) {
        (Some(id), _) => gone.iter().any(|at| at.id == *id),
        (None, Some(key)) => gone.iter().any(|at| at.key.as_str() == key),
        (None, None) => false,
    };
    let mut ids = Vec::new();
    for replaced in [false, true] {
        memory.each(&Filter { replaced, ..Filter::default() }, |item| {
            if is_from(&item.source) {
                ids.push(item.id);
            }
            true
        })?;
    }
    Ok(ids)
}

/// Warns of lessons in the memory that rest on runs which are gone.
fn warn_of_lessons(context: &Context<'_>, lessons: Result<Lessons, Failure>, gone: &[SessionKey]) {
    let ids = lessons.map(|lessons| {
        let of_gone = gone.iter().filter_map(|key| lessons.get(key)).flatten();
        of_gone.copied().collect::<BTreeSet<u64>>().into_iter().collect::<Vec<u64>>()
    });
    match ids {
        Ok(ids) if ids.is_empty() => {}
        Ok(ids) => {
            let what = if ids.len() == 1 { "a lesson" } else { "lessons" };
            let ids = term::numbers(&ids, " ");
            context.warn(&format!(
                "the memory still holds {what} of retrospectives that such runs taught; \
                 `manent memory forget {ids}`, then `manent memory compact`, takes that out"
            ));
        }
        Err(failure) => context.warn(&format!(
            "the memory, which may hold what such runs taught, cannot be read: {}",
            failure.message
        )),
    }
}

/// The lessons in the memory that rest on runs, by the session of these runs.
type Lessons = HashMap<SessionKey, Vec<u64>>;

/// Returns the lessons of sessions. They are looked up before the runs are removed, because nothing leads to them
/// afterwards.
fn lessons(store: &Store, sessions: impl IntoIterator<Item = SessionKey>) -> Result<Lessons, Failure> {
    let (memory, runs) = match store.memory() {
        Err(e) if e.is_unsupported() => return Ok(HashMap::new()),
        memory => (memory?, Runs::open(store)?),
    };
    let lessons_of = |session: SessionKey| Ok((session.clone(), runs.lessons_of(&session, &memory)?));
    sessions.into_iter().map(lessons_of).collect()
}

/// Returns the sessions that a purge removes: for an id one session, for a key every session it ever had.
fn sessions_to_purge(store: &Store, text: &str) -> Result<Vec<StreamId>, Failure> {
    if let Some(id) = id_prefix(text) {
        match store.find_id(id) {
            // A key may look like that too.
            Err(e) if e.is_missing_session() => {}
            found => return Ok(vec![found?.id]),
        }
    }
    let key = session_key(text)?;
    let mut all: Vec<StreamId> = Vec::new();
    for place in Place::ALL {
        all.extend(store.list_of(place, &key)?.into_iter().map(|listed| listed.id));
    }
    if all.is_empty() {
        // By an id of other characters than ours; or says that there is none, and where it was looked for.
        all.push(find_session(store, text)?.id);
    }
    Ok(all)
}

/// Asks whether to remove sessions for good, if a person is there to ask.
fn confirmed(text: &str, sessions: &[StreamId]) -> Result<bool, Failure> {
    let count = |place| sessions.iter().filter(|at| at.place == place).count();
    let part = |place| format!("{} {}", count(place), place_words(place));
    let parts: Vec<String> = Place::ALL.into_iter().filter(|place| count(*place) > 0).map(part).collect();
    let what = format!("{} ({}) will be gone for good. Go on? [y/N]", term::line(text), parts.join(", "));
    is_yes(&what)
}

/// Asks a question. Returns true for yes, or if nobody is there.
fn is_yes(what: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(true);
    }
    let _ = write!(io::stderr().lock(), "{} ", term::line(what));
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

const RM_NOTES: &str = "\
What is in the trash stays there until it is purged; `manent restore` brings it back.
A purge cannot be undone; on a terminal it asks.";
