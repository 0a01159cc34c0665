//! `manent config`: what can be set, what it is set to, and where.

use crate::commands::prelude::*;

/// Show what can be set, what it is set to, and where
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {}

pub(crate) fn run(context: &Context<'_>, _args: &ConfigArgs) -> Result<Exit, Failure> {
    let config = context.config()?;
    let mut output = context.output();
    let all = config.all();
    let columns = all.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    for (name, value, origin, about) in all {
        if output.wants_json {
            let origin = origin.to_string();
            output.json(&json!({"name": name, "value": value, "origin": origin, "about": about}))?;
            continue;
        }
        let value = if value.is_empty() { "\"\"".to_owned() } else { term::line(&value).into_owned() };
        let (name, value) = (term::pad(name, columns), format!("  {value}"));
        let about = format!("  {origin}; {about}");
        output.line(&[(Style::new().bold(), &name), (Style::new(), &value), (term::FAINT, &about)])?;
    }
    output.flush()?;
    context.note(&format!("set in {}", context.config_path()?.display()));
    Ok(Exit::Done)
}
