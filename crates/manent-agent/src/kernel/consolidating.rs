//! The actor that makes memory of what was said, in the background and one session at a time. No conversation waits
//! for it: it takes no lease of a session, and what it did not get to it finds in the journal next time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use manent::SessionKey;
use manent::consolidate::{Rules, Step};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Shared;
use super::mailbox::{Letters, Mailbox};
use super::models::Urgency;
use crate::config::ConsolidationTrigger;
use crate::model_tasks::ModelTasks;
use crate::providers::Model;

/// The address of the actor.
#[derive(Debug, Clone)]
pub(super) struct Consolidating {
    mailbox: Mailbox<Letter>,
    waiting: Arc<Sessions>,
}

/// What waits to be looked at. Beside the mailbox: a full one must not make that a session is forgotten.
type Sessions = Mutex<HashMap<SessionKey, Waiting>>;

#[derive(Debug)]
enum Letter {
    /// There is an answer more in some session.
    Answered,
    /// A conversation ends.
    Ended(SessionKey),
    /// Everything ends; told when what is due is done.
    End(oneshot::Sender<()>),
}

impl Consolidating {
    /// Nothing: it is off, or there is no model that could do it.
    pub(super) fn start(shared: &Arc<Shared>) -> Option<Consolidating> {
        let off = shared.config.consolidate == ConsolidationTrigger::Off
            || matches!(shared.model, Model::Recall(_));
        // A store of another program's sessions has no memory.
        if off || shared.store.consolidation().is_err() {
            return None;
        }
        let (shared, waiting) = (shared.clone(), Arc::new(Sessions::default()));
        let known = waiting.clone();
        let mailbox = Mailbox::open(&shared.runtime.clone(), "consolidation", move |letters| {
            serve(letters, shared.clone(), known.clone())
        });
        Some(Consolidating { mailbox, waiting })
    }

    /// Never waits: if its mailbox is full, it is about to look anyway.
    pub(super) fn answered(&self, key: &SessionKey) {
        let fresh = || Waiting { answers: 0, last: Instant::now() };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let one = waiting.entry(key.clone()).or_insert_with(fresh);
        one.answers = one.answers.saturating_add(1);
        one.last = Instant::now();
        drop(waiting);
        self.mailbox.try_send(Letter::Answered);
    }

    pub(super) async fn ended(&self, key: &SessionKey) {
        let _ = self.mailbox.send(Letter::Ended(key.clone())).await;
    }

    pub(super) async fn end(&self) {
        let _ = self.mailbox.ask(Letter::End, None).await;
    }
}

/// What waits to be looked at in a session.
#[derive(Debug)]
struct Waiting {
    answers: u32,
    last: Instant,
}

async fn serve(letters: Letters<Letter>, shared: Arc<Shared>, waiting: Arc<Sessions>) {
    let when = shared.config.consolidate;
    let mut letters = letters.lock().await;
    loop {
        // Whoever waits for a rest is looked at now and then.
        let letter = match tokio::time::timeout(LOOK_EVERY, letters.recv()).await {
            Ok(None) => return,
            Ok(letter) => letter,
            Err(_) => None,
        };
        let (mut ended, mut leaving) = (None, None);
        match letter {
            Some(Letter::Ended(key)) => ended = Some(key),
            Some(Letter::End(done)) => leaving = Some(done),
            Some(Letter::Answered) | None => {}
        }
        let is_due = |key: &SessionKey, one: &mut Waiting| {
            let ends = leaving.is_some() || ended.as_ref() == Some(key);
            when.is_due(one.answers, one.last.elapsed(), ends)
        };
        let due: Vec<SessionKey> = {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.extract_if(is_due).map(|(key, _)| key).collect()
        };
        for key in due {
            let shared = shared.clone();
            let handle = Handle::current();
            // What goes wrong stays undone, and is found in the journal next time.
            let _ = tokio::task::spawn_blocking(move || look_at(&shared, &key, &handle)).await;
        }
        if let Some(done) = leaving {
            let _ = done.send(());
            return;
        }
    }
}

/// Looks at what is new in a session, as far as the budget goes.
fn look_at(shared: &Shared, key: &SessionKey, handle: &Handle) -> manent::Result<()> {
    let Some(listed) = shared.store.live(key)? else { return Ok(()) };
    let rules = Rules {
        tokens_per_day: shared.config.tokens_per_day,
        inbox: shared.config.inbox,
        ..Rules::default()
    };
    let window = shared.model.window().unwrap_or(shared.limits.max_tokens);
    let mut asking = ModelTasks::new(shared.model.name(), window, |request| {
        handle.block_on(shared.models.ask(request.clone(), Urgency::Background))
    });
    let mut holder = shared.store.consolidation()?.consolidator(HOLD_WAIT)?;
    while let Step::Done(done) = holder.step(&listed.id, &mut asking, &rules)? {
        if !done.more {
            break;
        }
    }
    Ok(())
}

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Another process that consolidates does what is due here too, when it comes to it.
const HOLD_WAIT: Duration = Duration::from_secs(1);
