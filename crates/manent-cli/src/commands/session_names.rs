//! Sessions as a command line names them: by key, or by `@` and the beginning of an id.

use manent::{Place, SessionKey, Store, StreamId, StreamStat};

use crate::commands::prelude::*;

/// Returns the session that `text` names: the live one of a key, else the newest archived. The error for one that is
/// in the trash says so.
pub(crate) fn find_session(store: &Store, text: &str) -> Result<StreamStat, Failure> {
    let found = find_session_by(store, text, |key| store.find(key));
    let is_not_found = found.as_ref().is_err_and(|failure| failure.exit == Exit::NotFound);
    if is_not_found && store.find_in(Place::Trash, &session_key(text)?).is_ok() {
        let word = term::shell_word(text);
        let hint = format!("`manent restore {}{word}` brings it back", option_guard(&word));
        return Err(Failure::not_found(format!("the session {text:?} is in the trash; {hint}")));
    }
    found
}

/// Returns the session that `text` names, by `@` and the beginning of its id, or by its key, which `by_key` looks up.
pub(crate) fn find_session_by(
    store: &Store,
    text: &str,
    by_key: impl Fn(&SessionKey) -> Result<StreamStat, manent::Error>,
) -> Result<StreamStat, Failure> {
    if let Some(id) = id_prefix(text) {
        match store.find_id(id) {
            // A key may look like that too.
            Err(e) if e.is_missing_session() => {}
            found => return Ok(found?),
        }
    }
    match by_key(&session_key(text)?) {
        Err(e) if e.is_missing_session() => find_by_foreign_id(store, text).ok_or_else(|| {
            let failure = Failure::from(e);
            let short = text.strip_prefix('@').is_some_and(|id| id.len() < ID_CHARS_MIN);
            let hint = if short { "; of an id, give at least 8 characters" } else { "" };
            Failure::new(failure.exit, format!("{}{hint}", failure.message))
        }),
        found => Ok(found?),
    }
}

/// Returns the session whose id begins with any characters. Other programs may make ids of other characters than
/// ours; those are looked for last.
fn find_by_foreign_id(store: &Store, text: &str) -> Option<StreamStat> {
    let id = text.strip_prefix('@').filter(|id| id.len() >= ID_CHARS_MIN)?;
    store.find_id(id).ok()
}

/// Returns the beginning of an id in a name: `@` and at least eight of its characters. Anything shorter is a key.
pub(crate) fn id_prefix(text: &str) -> Option<&str> {
    let id = text.strip_prefix('@')?;
    let is_id = id.len() >= ID_CHARS_MIN && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    is_id.then_some(id)
}

/// Returns the named sessions, or every session of `places`, by key. Each one that cannot be found is an error of its
/// own, so that the others are still worked on.
pub(crate) fn named_or_all(
    store: &Store,
    names: &[String],
    places: &[Place],
) -> Result<Vec<Result<StreamStat, Failure>>, Failure> {
    if !names.is_empty() {
        check_keys(names)?;
        return Ok(names.iter().map(|text| find_session(store, text)).collect());
    }
    let mut all = Vec::new();
    for place in places {
        match store.list(*place) {
            // A place that cannot be listed hides nothing of the others.
            Err(e) => all.push(Err(e.into())),
            Ok(mut listed) => {
                listed.sort_by(|a, b| (&a.id.key, &a.id.id).cmp(&(&b.id.key, &b.id.id)));
                all.extend(listed.into_iter().map(Ok));
            }
        }
    }
    Ok(all)
}

/// Refuses a name that cannot be a key. A mistake in one of several names is a mistake in the command line, and then
/// nothing is done at all.
fn check_keys(names: &[String]) -> Result<(), Failure> {
    names.iter().try_for_each(|text| session_key(text).map(drop))
}

/// Calls `act` for each name, prints the failures, and returns the worst exit code.
pub(crate) fn for_each_name(
    context: &Context<'_>,
    names: &[String],
    mut act: impl FnMut(&str, &mut Output) -> Result<(), Failure>,
) -> Result<Exit, Failure> {
    check_keys(names)?;
    let mut output = context.output();
    let mut worst = Exit::Done;
    for text in names {
        let done = act(text, &mut output);
        output.flush()?;
        worst = worst.max(context.complain_of(done));
    }
    Ok(worst)
}

/// Prints what was done with a session and the place where it is now.
pub(crate) fn print_place(output: &mut Output, verb: &str, at: &StreamId) -> io::Result<()> {
    if output.wants_json {
        return output.json(&json!({"session": at.key.as_str(), "id": at.id, "status": at.place.word()}));
    }
    let id = if at.id.is_empty() { String::new() } else { format!("  @{}", term::line(&at.id)) };
    output.done(verb, &term::line(at.key.as_str()), &id)
}

/// Returns the place of sessions in words.
pub(crate) fn place_words(place: Place) -> &'static str {
    match place {
        Place::Trash => "in the trash",
        place => place.word(),
    }
}

/// Returns the word by which a shell command names a session: its key where it is live, else its id.
pub(crate) fn shell_name(at: &StreamId) -> String {
    let by_key = at.place == Place::Live || at.id.is_empty();
    if by_key { term::shell_word(at.key.as_str()) } else { format!("@{}", term::shell_word(&at.id)) }
}

/// Returns the `-- ` that must stand before a word that looks like an option.
pub(crate) fn option_guard(word: &str) -> &'static str {
    if word.starts_with('-') || word.starts_with("'-") { "-- " } else { "" }
}

const ID_CHARS_MIN: usize = 8;
