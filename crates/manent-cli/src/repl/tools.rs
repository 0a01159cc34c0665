//! `:tools`: what the model may do here, and what it must ask for.

use std::fmt::Write;
use std::sync::PoisonError;

use anstyle::{AnsiColor, Style};
use manent_agent::kernel::{Calling, Toolbox};
use manent_agent::policy::{Decision, Permission};
use manent_agent::{skills::Skill, tools};

use super::showing;
use crate::commands::chat::Chatting;
use crate::term;

pub(super) fn show(chatting: &Chatting<'_>) {
    let model = term::line(chatting.kernel.model().name()).into_owned();
    let Some(toolbox) = chatting.kernel.toolbox() else {
        chatting.context.note(&format!("{model} has no tools in this chat"));
        return;
    };
    let way = match toolbox.calling {
        Calling::Native => "by its server's own way",
        Calling::Text => "by text, which it is taught",
    };
    let workspace = toolbox.workspace.display().to_string();
    let mut text = format!("{model} calls tools {way}; they see {}\n", term::line(&workspace));
    let policy = toolbox.policy.lock().unwrap_or_else(PoisonError::into_inner);
    for tool in tools::names() {
        if toolbox.shell.is_none() && tools::effect_of(tool) == Some(tools::ToolEffect::Run) {
            continue;
        }
        for (at, decision) in policy.outlook(tool, toolbox.asking).iter().enumerate() {
            row(&mut text, if at == 0 { tool } else { "" }, decision);
        }
    }
    drop(policy);
    let skills = toolbox.skills.callable().map(Skill::name).count();
    if skills > 0 {
        let why = format!("{skills} to read; :skills lists them");
        row(&mut text, "use_skill", &Decision { verdict: Permission::Allow, why });
    }
    text.push_str(&sandbox(toolbox));
    showing::tell(&text);
}

fn row(text: &mut String, tool: &str, decision: &Decision) {
    let (word, color) = match decision.verdict {
        Permission::Allow => ("free", AnsiColor::Green),
        Permission::Ask => ("asks", AnsiColor::Yellow),
        Permission::Deny => ("denied", AnsiColor::Red),
    };
    let style = Style::new().fg_color(Some(color.into()));
    let (tool, word) = (term::pad(tool, TOOL_COLUMNS), term::pad(word, WORD_COLUMNS));
    let _ = writeln!(text, "  {tool}  {style}{word}{style:#}  {}", term::line(&decision.why));
}

/// Where commands run.
#[cfg(target_os = "linux")]
fn sandbox(toolbox: &Toolbox) -> String {
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
fn sandbox(_toolbox: &Toolbox) -> String {
    "no commands are run: there is a sandbox on Linux only".to_owned()
}

const TOOL_COLUMNS: usize = 13;
const WORD_COLUMNS: usize = 6;
