//! `manent context KEY [--at SEQ]`: exactly the messages that a model sees, with what each takes.

use manent::context::{Message, Origin};
use manent::tokens::{Counting, Tokens};

use crate::commands::prelude::*;

/// Show exactly what a model sees of a session, and what it takes
#[derive(Debug, Args)]
pub(crate) struct ContextArgs {
    /// The session: its key (the live one, else the newest archived), or @ and the beginning of its id
    key: String,
    /// As it was at this record: what the model saw when it gave that answer
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// Count four bytes a token instead of asking a vocabulary
    #[arg(long)]
    estimate: bool,
}

pub(crate) fn run(context: &Context<'_>, args: &ContextArgs) -> Result<Exit, Failure> {
    let store = context.store(Duration::ZERO)?;
    let at = find_session(&store, &args.key)?.id;
    let counting = if args.estimate { Counting::Estimate } else { Counting::Exact };
    let seen = store.context_at(&at, args.at, Tokens::new(counting))?;
    let mut output = context.output();
    for message in &seen.messages {
        if output.wants_json {
            output.json_line(&json_of(message))?;
        } else {
            print(message, &mut output)?;
        }
    }
    if output.wants_json {
        output.json_line(&total_of(&seen))?;
    } else if let Some(tools) = &seen.tools {
        output.line(&[(Style::new().bold(), "tools"), (term::FAINT, &tokens(seen.tools_tokens))])?;
        output.block(tools)?;
        output.line(&[])?;
    }
    output.flush()?;
    if seen.gaps > 0 {
        context.warn(&format!("{} damaged places; `manent verify` tells more", seen.gaps));
    }
    let plural = if seen.messages.len() == 1 { "" } else { "s" };
    let what = format!("{} message{plural}, {} tokens", seen.messages.len(), term::count(seen.tokens));
    let tools = match seen.tools_tokens {
        0 => String::new(),
        tools => format!(", {} of them for tools", term::count(tools)),
    };
    let compacted = match (seen.compaction, seen.first_seq) {
        (Some(seq), Some(first)) => {
            format!("; compacted by record {seq}, as it was said from record {first} on")
        }
        _ => String::new(),
    };
    context.note(&format!("{what}{tools}{compacted}"));
    Ok(Exit::Done)
}

fn print(message: &Message, output: &mut Output) -> io::Result<()> {
    let role = term::line(&message.role);
    let from = format!("  {}{}", origin(message.origin).2, tokens(message.tokens));
    output.line(&[(term::role_style(&message.role), &role), (term::FAINT, &from)])?;
    if !message.content.is_empty() {
        output.block(&message.content)?;
    }
    if let Some(calls) = &message.tool_calls {
        output.line(&[(term::FAINT, &term::line(calls))])?;
    }
    output.line(&[])
}

fn tokens(count: u64) -> String {
    format!("  {}", term::counted(count, "token"))
}

/// Returns the origin of a message: its word in JSON, the number of its record, and its description.
fn origin(origin: Origin) -> (&'static str, Option<u64>, String) {
    match origin {
        Origin::System => ("system", None, "system text".to_owned()),
        Origin::Memory => ("memory", None, "remembered".to_owned()),
        Origin::Request => ("request", None, "not in the log".to_owned()),
        Origin::Summary(seq) => ("summary", Some(seq), format!("summary, record {seq}")),
        Origin::Turn(seq) => ("turn", Some(seq), format!("record {seq}")),
        Origin::Pruned(seq) => ("pruned", Some(seq), format!("record {seq}, left out")),
        Origin::Stray(seq) => ("stray", Some(seq), format!("record {seq}, without its call")),
        Origin::Interrupted(seq) => {
            let text = format!("put in for a result that never came, of record {seq}");
            ("interrupted", Some(seq), text)
        }
        Origin::Unanswered(seq) => {
            let text = format!("put in for an answer that never came, to record {seq}");
            ("unanswered", Some(seq), text)
        }
        Origin::Gap(offset) => ("gap", None, format!("put in for damage at offset {offset}")),
    }
}

/// Returns a message as providers want it, with its origin and its tokens. Tool calls come out as they are stored.
fn json_of(message: &Message) -> String {
    let (from, seq, _) = origin(message.origin);
    let text = |text: &str| json!(text).to_string();
    let mut members = vec![("role", text(&message.role)), ("content", text(&message.content))];
    members.extend(message.tool_calls.clone().map(|calls| ("tool_calls", calls)));
    members.extend(message.tool_call_id.as_deref().map(|id| ("tool_call_id", text(id))));
    members.extend(message.name.as_deref().map(|name| ("name", text(name))));
    members.push(("from", text(from)));
    members.extend(seq.map(|seq| ("seq", seq.to_string())));
    members.push(("tokens", message.tokens.to_string()));
    object(&members)
}

/// Returns the last line of the JSON: what is sent besides the messages, and the tokens of all of it.
fn total_of(seen: &manent::Context) -> String {
    let mut members =
        vec![("messages", seen.messages.len().to_string()), ("tokens", seen.tokens.to_string())];
    members.extend(seen.model.as_ref().map(|model| ("model", json!(model).to_string())));
    members.extend(seen.tools.clone().map(|tools| ("tools", tools)));
    members.push(("tools_tokens", seen.tools_tokens.to_string()));
    members.extend(seen.compaction.map(|seq| ("compaction", seq.to_string())));
    members.push(("unanswered", seen.unanswered.to_string()));
    members.push(("gaps", seen.gaps.to_string()));
    object(&members)
}

/// An object of values that are JSON already.
fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
    format!("{{{}}}", members.join(","))
}
