//! `manent memory why ID`: where an item came from.

use manent::memory::{ItemHistory, Provenance, SourceTurn};

use crate::commands::prelude::*;

/// Show where an item came from, with what was said around it
#[derive(Debug, Args)]
pub(crate) struct MemoryWhyArgs {
    /// The item
    id: u64,
}

pub(crate) fn run(context: &Context<'_>, args: &MemoryWhyArgs) -> Result<Exit, Failure> {
    let memory = super::memory(context, Duration::ZERO)?;
    let all = memory.history(args.id)?;
    let mut output = context.output();
    for (nth, why) in all.iter().enumerate() {
        if nth > 0 && !output.wants_json {
            output.line(&[])?;
        }
        if output.wants_json {
            output.json_line(&json_of(why))?;
        } else {
            print(why, &mut output)?;
        }
    }
    output.flush()?;
    if all.len() > 1 {
        let what = format!("{} items have the number {}", all.len(), args.id);
        context.warn(&format!("{what}: another program gave it twice"));
    }
    Ok(Exit::Done)
}

fn print(why: &ItemHistory, output: &mut Output) -> io::Result<()> {
    let item = &why.item;
    let bold = Style::new().bold();
    let tags = super::tags_of(item);
    let since = if item.at_ms > 0 { when::minute(item.at_ms) } else { "-".to_owned() };
    let head = format!("  {}  {since}", item.kind);
    output.line(&[(bold, &item.id.to_string()), (Style::new(), &head), (term::FAINT, &tags)])?;
    output.block(&item.content)?;
    output.line(&[])?;
    let source = &item.source;
    let from = match source.who.word() {
        "" => "nobody says who",
        who => who,
    };
    let model = source.model.as_ref().map_or_else(String::new, |model| format!(" ({})", term::line(model)));
    fact(output, "from", &format!("{}{model}", term::line(from)))?;
    if let Some(session) = &source.session {
        let turns = match source.seqs {
            Some((first, last)) if first == last => format!(", record {first}"),
            Some((first, last)) => format!(", records {first} to {last}"),
            None => String::new(),
        };
        let place = match (&why.session, source.seqs) {
            (None, _) => "; it is not there any more".to_owned(),
            (Some(at), _) if at.place == manent::Place::Trash => " (in the trash)".to_owned(),
            (Some(at), _) if at.place != manent::Place::Live => format!(" ({})", at.place.word()),
            _ => String::new(),
        };
        fact(output, "session", &format!("{}{turns}{place}", term::line(session)))?;
    }
    if let Some(quote) = &source.quote {
        fact(output, "quote", &format!("\u{201c}{}\u{201d}", term::line(quote)))?;
    }
    fact(output, "rests on", words(&why.provenance))?;
    if !why.replaced_by.is_empty() {
        fact(output, "replaced", &format!("by {}", term::numbers(&why.replaced_by, ", ")))?;
    }
    if let Some(id) = item.replaces {
        fact(output, "replaces", &id.to_string())?;
    }
    let recalls = match why.recalls.times {
        0 => "never".to_owned(),
        times => {
            let often = if times == 1 { "once".to_owned() } else { format!("{} times", term::count(times)) };
            format!("{often}, last {}", time_of(&why.recalls.last))
        }
    };
    fact(output, "recalled", &recalls)?;
    if !why.passage.is_empty() {
        output.line(&[])?;
    }
    for turn in &why.passage {
        print_turn(turn, output)?;
    }
    Ok(())
}

/// Returns the time of a record for people, or its text if it is not a time.
fn time_of(ts: &str) -> String {
    when::parse_ms(ts).map_or_else(|| term::line(ts).into_owned(), when::minute)
}

fn fact(output: &mut Output, name: &str, text: &str) -> io::Result<()> {
    output.line(&[(term::FAINT, &term::pad(name, 10)), (Style::new(), text)])
}

/// Prints a turn of the passage. Turns around the source are faint, the source itself is not.
fn print_turn(turn: &SourceTurn, output: &mut Output) -> io::Result<()> {
    let mark = if turn.is_source { ">" } else { " " };
    let number = format!("{mark} {:>4}  ", turn.seq);
    let text = term::escaped_beginning(&turn.text, super::LINE_CHARS);
    let role = format!("{}  ", term::pad(&term::line(&turn.role), 9));
    let room = output.columns().map_or(usize::MAX, |columns| columns.saturating_sub(20).max(20));
    let style = if turn.is_source { Style::new() } else { term::FAINT };
    let green = term::bold(AnsiColor::Green);
    let front = if turn.is_source { green } else { term::FAINT };
    output.line(&[(front, &number), (term::role_style(&turn.role), &role), (style, &term::fit(&text, room))])
}

fn words(grounds: &Provenance) -> &'static str {
    match grounds {
        Provenance::Told => "the user, who asked for it to be remembered",
        Provenance::Quoted { role, .. } if role == "user" => "what the user said: the quote is there",
        Provenance::Quoted { .. } => "what somebody else than the user said: the quote is there",
        Provenance::NoQuote => "nothing: there is no quote",
        Provenance::NotThere => "nothing: the quote is not where it should be",
        Provenance::Gone => "nothing that is still there: the session or its records are gone",
    }
}

/// Returns the JSON of an item: as it is stored, and behind that what is known about it.
fn json_of(why: &ItemHistory) -> String {
    let (grounds, quoted) = match &why.provenance {
        Provenance::Told => ("told", None),
        Provenance::Quoted { seq, .. } => ("quoted", Some(seq)),
        Provenance::NoQuote => ("no_quote", None),
        Provenance::NotThere => ("not_there", None),
        Provenance::Gone => ("gone", None),
    };
    let passage: Vec<Value> = why
        .passage
        .iter()
        .map(|turn| {
            json!({
                "seq": turn.seq, "role": turn.role, "ts": turn.ts, "content": turn.text, "source": turn.is_source,
            })
        })
        .collect();
    let facts = json!({
        "active": why.active, "replaced_by": why.replaced_by, "grounds": grounds, "quoted_seq": quoted,
        "grounded": why.provenance.is_grounded(), "session": why.session.as_ref().map(|at| at.key.as_str()),
        "passage": passage, "recalls": why.recalls.times, "last_recall": why.recalls.last,
    })
    .to_string();
    format!(r#"{{"item":{},{}"#, why.item.line.trim_ascii(), facts.trim_start_matches('{'))
}
