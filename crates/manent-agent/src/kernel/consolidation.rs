//! The actor that makes memory of what was said, in the background and one session at a time. No conversation waits
//! for it: it takes no lease of a session, and what it did not get to it finds in the journal next time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use manent::SessionKey;
use manent::consolidate::{Rules, Step};
use tokio::sync::oneshot;

use super::Shared;
use super::actor::{Inbox, Mailbox};
use super::model_call::Urgency;
use crate::config::ConsolidationTrigger;

/// The handle of the actor.
#[derive(Debug, Clone)]
pub(super) struct ConsolidationActor {
    mailbox: Mailbox<Command>,
    waiting: Arc<Sessions>,
}

/// Sessions with the number of their new answers and the time of the last. Kept beside the mailbox, so that no
/// session is forgotten because that is full.
type Sessions = Mutex<HashMap<SessionKey, (u32, Instant)>>;

#[derive(Debug)]
enum Command {
    /// A session has a new answer.
    Answered,
    /// A conversation ends.
    Ended(SessionKey),
    /// The kernel ends. Replied to when all that is due is done.
    End(oneshot::Sender<()>),
}

impl ConsolidationActor {
    /// Starts the actor; `None` if consolidation is off, or if there is no model that could do it.
    pub(super) fn start(shared: &Arc<Shared>) -> Option<ConsolidationActor> {
        let is_off = shared.config.consolidate == ConsolidationTrigger::Off || shared.is_recall();
        // A store of another program's sessions has no memory.
        if is_off || shared.store.consolidation().is_err() {
            return None;
        }
        let (shared, waiting) = (shared.clone(), Arc::new(Sessions::default()));
        let sessions = waiting.clone();
        let mailbox = Mailbox::start(&shared.runtime.clone(), "consolidation", move |inbox| {
            serve(inbox, shared.clone(), sessions.clone())
        });
        Some(ConsolidationActor { mailbox, waiting })
    }

    /// Notes an answer. Never waits: if the mailbox is full, the actor is about to look anyway.
    pub(super) fn answered(&self, key: &SessionKey) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let answers = waiting.get(key).map_or(0, |(answers, _)| *answers);
        waiting.insert(key.clone(), (answers.saturating_add(1), Instant::now()));
        drop(waiting);
        self.mailbox.try_send(Command::Answered);
    }

    pub(super) async fn ended(&self, key: &SessionKey) {
        let _ = self.mailbox.send(Command::Ended(key.clone())).await;
    }

    pub(super) async fn end(&self) {
        let _ = self.mailbox.ask(Command::End).await;
    }
}

async fn serve(inbox: Inbox<Command>, shared: Arc<Shared>, waiting: Arc<Sessions>) {
    let when = shared.config.consolidate;
    let mut inbox = inbox.lock().await;
    loop {
        let (mut ended, mut ending) = (None, None);
        // Sessions that wait for a pause in the conversation are looked at now and then.
        match tokio::time::timeout(LOOK_EVERY, inbox.recv()).await {
            Ok(None) => return,
            Ok(Some(Command::Ended(key))) => ended = Some(key),
            Ok(Some(Command::End(done))) => ending = Some(done),
            Ok(Some(Command::Answered)) | Err(_) => {}
        }
        let is_due = |key: &SessionKey, (answers, last): &mut (u32, Instant)| {
            let ends = ending.is_some() || ended.as_ref() == Some(key);
            when.is_due(*answers, last.elapsed(), ends)
        };
        let due: Vec<SessionKey> = {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.extract_if(is_due).map(|(key, _)| key).collect()
        };
        for key in due {
            let shared = shared.clone();
            // A passage that fails is found in the journal next time, so its error is dropped here.
            let _ = tokio::task::spawn_blocking(move || consolidate(&shared, &key)).await;
        }
        if let Some(done) = ending {
            let _ = done.send(());
            return;
        }
    }
}

/// Consolidates what is new in a session, as far as the budget goes. Blocks.
fn consolidate(shared: &Shared, key: &SessionKey) -> manent::Result<()> {
    let Some(listed) = shared.store.live(key)? else { return Ok(()) };
    let rules = Rules {
        tokens_per_day: shared.config.tokens_per_day,
        inbox: shared.config.inbox,
        ..Rules::default()
    };
    let mut tasks = shared
        .model_tasks(|request| shared.runtime.block_on(shared.models.ask(request, Urgency::Background)));
    let mut holder = shared.store.consolidation()?.consolidator(HOLD_WAIT)?;
    while let Step::Done(done) = holder.step(&listed.id, &mut tasks, &rules)? {
        if !done.more {
            break;
        }
    }
    Ok(())
}

const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Another process that consolidates does what is due here too, when it comes to it.
const HOLD_WAIT: Duration = Duration::from_secs(1);
