//! `:model`: who answers, and going on with another.

use manent_agent::providers::Model;

use crate::commands::chat::Chatting;
use crate::exit::{Exit, Failure};

/// Who answers, and who else could.
pub(super) fn show(chatting: &Chatting<'_>) {
    let name = chatting.kernel.model().name();
    let others: Vec<String> = others(chatting, chatting.kernel.model()).unwrap_or_default();
    let there_are = match others.as_slice() {
        [] => String::new(),
        others => format!("; there are {}", some(others)),
    };
    chatting.context.note(&format!("{name} answers{there_are}; `:model NAME` goes on with another"));
}

/// Begins anew with another model; the session goes on. One that is not there changes nothing.
pub(super) fn switch(chatting: &mut Chatting<'_>, name: &str) -> Result<(), Failure> {
    if name == chatting.kernel.model().name() {
        chatting.context.note(&format!("{name} answers already"));
        return Ok(());
    }
    let mut config = chatting.config.clone();
    config.set_flag("agent.model", name).map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
    let chosen = chatting.choose(&config)?;
    let stays = chatting.kernel.model().name().to_owned();
    let refuse = |why: String| Err(Failure::new(Exit::NotFound, format!("{why}; {stays} goes on answering")));
    if let Some(why) = chosen.why {
        return refuse(why);
    }
    // A provider that was named is not asked whether it has the model; here somebody waits to be told.
    if let Some(all) = others(chatting, &chosen.model)
        && !all.iter().any(|other| other == name || other.strip_suffix(":latest") == Some(name))
    {
        return refuse(format!("there is no model {name:?}; there are {}", some(&all)));
    }
    chatting.answer_with(config, chosen.model)?;
    chatting.context.note(&format!("{} answers from here on", chatting.kernel.model().name()));
    Ok(())
}

/// The models of a server; nothing if it does not tell.
fn others(chatting: &Chatting<'_>, model: &Model) -> Option<Vec<String>> {
    let told = chatting.runtime.block_on(model.models()).ok()?;
    (!matches!(model, Model::Recall(_)) && !told.is_empty()).then_some(told)
}

fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let some = names[..names.len() - more].join(", ");
    if more == 0 { some } else { format!("{some} and {more} more") }
}

const NAMES_MAX: usize = 12;
