//! `manent consolidate KEY…`: what was said becomes memory, with proof.

use manent::consolidate::{Consolidated, Consolidator, Extractor, LearnedItem, Rules, Step, WithoutModel};
use manent::{Place, Store, StreamId};

use crate::commands::prelude::*;
use crate::model::BlockingModel;

/// Make memory of what was said: what happened, and what is worth remembering, with proof
#[derive(Debug, Args)]
#[command(after_help = CONSOLIDATE_NOTES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that was typed or not")]
pub(crate) struct ConsolidateArgs {
    /// The sessions: keys, or @ and the beginning of an id
    #[arg(value_name = "KEY", required_unless_present = "all")]
    keys: Vec<String>,
    /// Every live session
    #[arg(long, conflicts_with = "keys")]
    all: bool,
    #[command(flatten)]
    model: ModelChoice,
    /// Only tell what would be remembered; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Put what is learned into the inbox, where `manent memory accept` takes it from
    #[arg(long)]
    inbox: bool,
    /// Also what was looked at before, but nothing twice by the same model and the same prompt
    #[arg(long)]
    again: bool,
    /// Without a model: what happened is noted in the words that were said, and nothing is learned
    #[arg(long, conflicts_with_all = ["model", "provider"])]
    without_model: bool,
    #[command(flatten)]
    wait: Wait,
}

pub(crate) fn run(context: &Context<'_>, args: &ConsolidateArgs) -> Result<Exit, Failure> {
    let store = context.store(args.wait.time)?;
    let config = context.config_with(&args.model)?;
    let sessions = named_or_all(&store, &args.keys, &[Place::Live])?;
    let rules = Rules {
        tokens_per_day: config.tokens_per_day,
        inbox: args.inbox || config.inbox,
        dry_run: args.dry_run,
        again: args.again,
    };
    let model = if args.without_model { None } else { Some(BlockingModel::choose(&config, &store)?) };
    let mut extractor: Box<dyn Extractor + '_> = match &model {
        None => Box::new(WithoutModel),
        Some(model) if model.is_model() => Box::new(model.asking()),
        Some(model) => {
            let why = model.why.as_deref().unwrap_or("no model is configured");
            let hint = "`--without-model` notes what happened and learns nothing";
            return Err(Failure::failed(format!("{why}; {hint}")));
        }
    };
    let holder = store.consolidation()?.consolidator(args.wait.time)?;
    let mut work = Work { context, holder, rules, output: context.output() };
    let mut worst = Exit::Done;
    for found in sessions {
        let done = found.and_then(|listed| work.session(&listed.id, &mut *extractor));
        work.output.flush()?;
        match done {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Failed) => worst = worst.max(Exit::Failed),
            // No model will answer for the next session either.
            Ok(Outcome::Stop) => return Ok(worst.max(Exit::Failed)),
            Err(failure) => worst = worst.max(context.complain_of(Err(failure))),
        }
    }
    note_inbox(context, &store)?;
    Ok(worst)
}

fn note_inbox(context: &Context<'_>, store: &Store) -> Result<(), Failure> {
    let waiting = store.inbox()?.counts()?.active;
    if waiting > 0 {
        let waits = if waiting == 1 { "1 item waits" } else { &format!("{waiting} items wait") };
        context.note(&format!("{waits} in the inbox; `manent memory inbox` shows it"));
    }
    Ok(())
}

/// The outcome of consolidating one session.
enum Outcome {
    Done,
    Failed,
    /// Stops, because the other sessions would fail too.
    Stop,
}

struct Work<'a> {
    context: &'a Context<'a>,
    holder: Consolidator,
    rules: Rules,
    output: Output,
}

impl Work<'_> {
    /// Consolidates everything in a session that is new.
    fn session(&mut self, at: &StreamId, extractor: &mut dyn Extractor) -> Result<Outcome, Failure> {
        let mut steps = 0;
        loop {
            match self.holder.step(at, extractor, &self.rules)? {
                Step::UpToDate => {
                    if steps == 0 {
                        self.context.note(&format!("nothing new was said in {}", at.key));
                    }
                    return Ok(Outcome::Done);
                }
                Step::Done(done) => {
                    steps += 1;
                    self.print(at, &done)?;
                    // A dry run writes no progress: the next step would print the same passage again.
                    if self.rules.dry_run || !done.more {
                        if self.rules.dry_run && done.more {
                            self.context.note("there is more; a dry run shows the next passage only");
                        }
                        return Ok(Outcome::Done);
                    }
                }
                Step::OverBudget { spent, budget } => {
                    self.context.warn(&format!(
                        "models took {} tokens today for consolidation, and {} are allowed; the rest of {} waits until \
                         tomorrow (consolidation.tokens_per_day in config.toml)",
                        term::count(spent),
                        term::count(budget),
                        at.key
                    ));
                    return Ok(Outcome::Stop);
                }
                Step::Failed { why, unavailable } => {
                    let hint = "what was said is looked at again next time";
                    self.context.complain(&Failure::failed(format!("{}: {why}; {hint}", at.key)));
                    return Ok(if unavailable { Outcome::Stop } else { Outcome::Failed });
                }
                _ => return Ok(Outcome::Done),
            }
        }
    }

    fn print(&mut self, at: &StreamId, done: &Consolidated) -> Result<(), Failure> {
        if self.output.wants_json {
            self.output.json(&json_of(at, done, self.rules.dry_run))?;
            return Ok(());
        }
        let dry = self.rules.dry_run;
        let (verb, color) =
            if dry { ("would be", AnsiColor::Yellow) } else { ("consolidated", AnsiColor::Green) };
        let style = term::bold(color);
        let key = term::line(at.key.as_str());
        let head = format!(" {key} {}-{}", done.turns.0, done.turns.1);
        self.output.line(&[(style, verb), (Style::new(), &head)])?;
        if let Some(learned) = &done.daily {
            self.line("daily", learned)?;
        }
        for learned in &done.items {
            self.line(learned.kind.word(), learned)?;
        }
        for learned in &done.proposed {
            self.line("inbox", learned)?;
        }
        if done.items.is_empty() && done.proposed.is_empty() {
            self.output.line(&[(term::FAINT, "  nothing to remember")])?;
        }
        self.output.flush()?;
        if done.unreadable {
            self.context
                .warn("the model gave no answer that can be read, also when it was told what is wrong");
        }
        for (why, quote) in &done.refused {
            self.context.detail(&format!(
                "not remembered, {}: {:?}",
                why.word(),
                term::fit(quote, QUOTE_COLUMNS)
            ));
        }
        Ok(())
    }

    fn line(&mut self, what: &str, learned: &LearnedItem) -> io::Result<()> {
        let id = learned.id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let instead = learned.replaces.map(|id| format!("  instead of {id}")).unwrap_or_default();
        let text = term::line(&learned.content).into_owned();
        let front = format!("  {}  {}  ", term::pad(&id, ID_COLUMNS), term::pad(what, KIND_COLUMNS));
        let room = self.output.columns().unwrap_or(usize::MAX).saturating_sub(front.len() + instead.len());
        let text =
            if self.output.terminal { term::fit(&text, room.max(QUOTE_COLUMNS)).into_owned() } else { text };
        self.output.line(&[(term::FAINT, &front), (Style::new(), &text), (term::FAINT, &instead)])
    }
}

fn json_of(at: &StreamId, done: &Consolidated, dry_run: bool) -> Value {
    let learned = |one: &LearnedItem| {
        json!({"id": one.id, "kind": one.kind.word(), "content": one.content, "quote": one.quote, "seq": one.seq,
            "replaces": one.replaces})
    };
    let refused =
        |(why, quote): &(manent::consolidate::Refusal, String)| json!({"why": why.word(), "quote": quote});
    json!({
        "session": at.key.as_str(), "id": at.id, "turns": [done.turns.0, done.turns.1],
        "daily": done.daily.as_ref().map(learned),
        "items": done.items.iter().map(learned).collect::<Vec<_>>(),
        "proposed": done.proposed.iter().map(learned).collect::<Vec<_>>(),
        "refused": done.refused.iter().map(refused).collect::<Vec<_>>(),
        "unreadable": done.unreadable, "more": done.more, "dry_run": dry_run,
        "tokens": {"input": done.spent.input, "output": done.spent.output},
    })
}

const ID_COLUMNS: usize = 4;
const KIND_COLUMNS: usize = 7;
const QUOTE_COLUMNS: usize = 60;

const CONSOLIDATE_NOTES: &str = "\
Each passage is looked at once: what happened becomes a daily entry, and what you said that is worth
remembering becomes a fact, a preference or a context, with your words as its proof. What a model
says and you did not is not remembered. It can be interrupted at any time, and goes on where it was.

Examples:
  manent consolidate work --dry-run
  manent consolidate --all --inbox && manent memory inbox";
