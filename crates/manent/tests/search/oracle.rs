//! The truth: every turn of a store, read from its logs, and what a question asks for, compared word by word.

use std::collections::BTreeSet;

use manent::backend::{Seek, Target};
use manent::{LogItem, Place, Record, Start, Store, StreamId};
use manent_sim::Rng;

/// Words of five letters mostly, so that one can take another's place in a file; with common prefixes, and with
/// forms of one word.
pub(crate) const WORDS: [&str; 32] = [
    "alpha", "alpin", "alpes", "bravo", "brave", "brand", "carol", "cargo", "delta", "delay", "extra",
    "gamma", "gavel", "hotel", "house", "india", "index", "kilos", "lemma", "limit", "micro", "mixed",
    "novel", "tests", "runs", "running", "al", "x", "42", "search", "searches", "the",
];

pub(crate) const ROLES: [&str; 4] = ["user", "assistant", "tool", "system"];

/// The place of a turn, in a form that can be sorted.
pub(crate) type Spot = (Place, String, String, u64);

pub(crate) fn spot(at: &StreamId, seq: u64) -> Spot {
    (at.place, at.key.to_string(), at.id.clone(), seq)
}

/// A turn as its log has it.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) id: StreamId,
    pub(crate) seq: u64,
    pub(crate) role: String,
    pub(crate) ts: String,
    pub(crate) words: Vec<String>,
}

/// All turns of a store.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) turns: Vec<Turn>,
    /// Sessions that cannot be read.
    pub(crate) unread: BTreeSet<Spot>,
    /// Forks: where each is, its id, that of its parent, and up to which record they share.
    forks: Vec<(Place, String, String, u64)>,
}

impl Truth {
    /// Reads every session, through no index.
    pub(crate) fn of(store: &Store) -> Result<Truth, String> {
        let mut truth = Truth::default();
        for place in Place::ALL {
            for listed in store.list(place).map_err(|e| format!("cannot list: {e}"))? {
                if truth.read(store, &listed.id).is_err() {
                    truth.unread.insert(spot(&listed.id, 0));
                }
            }
        }
        Ok(truth)
    }

    fn read(&mut self, store: &Store, at: &StreamId) -> manent::Result<()> {
        let mut records = store.streams().open(Target::Id(at))?;
        let parent = store.read(at, Start::Header)?.meta().and_then(|meta| meta.parent.clone());
        if let Some(parent) = parent {
            self.forks.push((at.place, at.id.clone(), parent.id, parent.upto));
        }
        records.seek(Seek::First)?;
        while let Some(item) = records.next()? {
            let LogItem::Entry(entry) = item else { continue };
            let Some(record) = Record::of(&entry) else { continue };
            let Some(role) = record.role() else { continue };
            self.turns.push(Turn {
                id: at.clone(),
                seq: entry.seq,
                role: role.into_owned(),
                ts: record.ts().unwrap_or_default().into_owned(),
                words: words_of(&text_of(&record)),
            });
        }
        Ok(())
    }

    /// The turns that can be found at all.
    pub(crate) fn findable(&self) -> impl Iterator<Item = &Turn> {
        self.turns
            .iter()
            .filter(|turn| turn.id.place != Place::Trash || self.is_shown(&turn.id.id, turn.seq, 0))
    }

    /// Returns true if a session that is not in the trash shows a record of this one as its own.
    fn is_shown(&self, id: &str, seq: u64, depth: u32) -> bool {
        let mut forks = self.forks.iter().filter(|(_, _, parent, upto)| parent == id && seq <= *upto);
        !id.is_empty()
            && depth < 9
            && forks.any(|(place, fork, ..)| *place != Place::Trash || self.is_shown(fork, seq, depth + 1))
    }
}

fn text_of(record: &Record<'_>) -> String {
    let text = record.content();
    if record.verified() || !text.starts_with('[') {
        return text.into_owned();
    }
    // Another program's list of parts.
    let Ok(serde_json::Value::Array(parts)) = serde_json::from_str(&text) else { return text.into_owned() };
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    texts.join("\n")
}

/// Enough for text that is all ASCII.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    assert!(text.is_ascii(), "the oracle reads nothing else: {text:?}");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

/// Words in a row; the last may be only the beginning of one.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) words: Vec<String>,
    pub(crate) prefix: bool,
    /// Written with what joins words where no quotes are: `a_b`.
    pub(crate) joined: bool,
}

impl Part {
    fn is_in(&self, said: &[String]) -> bool {
        let last = self.words.len() - 1;
        let fits = |at: usize, word: &String| {
            if self.prefix && at == last {
                word.starts_with(&self.words[at])
            } else {
                *word == self.words[at]
            }
        };
        said.windows(self.words.len()).any(|row| row.iter().enumerate().all(|(at, word)| fits(at, word)))
    }

    fn text(&self) -> String {
        let star = if self.prefix { "*" } else { "" };
        match self.words.as_slice() {
            [one] => format!("{one}{star}"),
            several if self.joined => format!("{}{star}", several.join("_")),
            several => format!("\"{}{star}\"", several.join(" ")),
        }
    }
}

/// A question, with no doubt about what it means.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    /// All of these, of each any.
    pub(crate) must: Vec<Vec<Part>>,
    pub(crate) not: Vec<Part>,
    pub(crate) roles: Vec<String>,
    pub(crate) not_roles: Vec<String>,
    /// Values of the filter `session:`.
    pub(crate) sessions: Vec<String>,
    pub(crate) not_sessions: Vec<String>,
    /// Seconds since 1970.
    pub(crate) since: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl Ask {
    pub(crate) fn word(word: &str) -> Ask {
        let part = Part { words: vec![word.to_owned()], prefix: false, joined: false };
        Ask { must: vec![vec![part]], ..Ask::default() }
    }

    pub(crate) fn text(&self) -> String {
        let mut items: Vec<String> = Vec::new();
        for any in &self.must {
            items.push(any.iter().map(Part::text).collect::<Vec<_>>().join(" OR "));
        }
        items.extend(self.not.iter().map(|part| format!("-{}", part.text())));
        if !self.roles.is_empty() {
            items.push(format!("role:{}", self.roles.join(",")));
        }
        items.extend(self.not_roles.iter().map(|role| format!("-role:{role}")));
        items.extend(self.sessions.iter().map(|session| format!("session:{session}")));
        items.extend(self.not_sessions.iter().map(|session| format!("-session:{session}")));
        items.extend(self.since.map(|s| format!("since:{}", clock(s))));
        items.extend(self.until.map(|s| format!("until:{}", clock(s))));
        items.join(" ")
    }

    /// Returns true if a search falls back to related turns.
    pub(crate) fn is_plain(&self) -> bool {
        let bare =
            |any: &Vec<Part>| any.len() == 1 && !any[0].prefix && (any[0].joined || any[0].words.len() == 1);
        !self.must.is_empty() && self.not.is_empty() && self.must.iter().all(bare)
    }

    /// Returns true if a query selects a turn; `None` if that depends on a time that the turn does not give.
    pub(crate) fn takes(&self, turn: &Turn) -> Option<bool> {
        let all = self.must.iter().all(|any| any.iter().any(|part| part.is_in(&turn.words)));
        let none = self.not.iter().all(|part| !part.is_in(&turn.words));
        if !all || !none { Some(false) } else { self.admits(turn) }
    }

    /// Applies the filters of [`Ask::takes`] without its words.
    pub(crate) fn admits(&self, turn: &Turn) -> Option<bool> {
        let role = turn.role.to_lowercase();
        let by = (self.roles.is_empty() || self.roles.contains(&role)) && !self.not_roles.contains(&role);
        let any = |list: &[String]| list.iter().any(|session| is_session(session, &turn.id));
        let of = (self.sessions.is_empty() || any(&self.sessions)) && !any(&self.not_sessions);
        if !by || !of {
            return Some(false);
        }
        if self.since.is_none() && self.until.is_none() {
            return Some(true);
        }
        let second = turn.ts.parse::<jiff::Timestamp>().ok()?.as_millisecond().div_euclid(1000);
        Some(self.since.is_none_or(|since| second >= since) && self.until.is_none_or(|until| second < until))
    }
}

fn clock(second: i64) -> String {
    jiff::Timestamp::from_second(second).unwrap().to_string()
}

fn is_session(wanted: &str, at: &StreamId) -> bool {
    let key = at.key.as_str();
    if let Some(id) = wanted.strip_prefix('@') {
        return !at.id.is_empty() && at.id.starts_with(id);
    }
    if let Some(quoted) = wanted.strip_prefix('"') {
        return key == quoted.trim_end_matches('"');
    }
    match wanted.strip_suffix('*') {
        Some(start) => key.starts_with(start),
        None => key == wanted,
    }
}

/// Any question, mostly one to which there is an answer.
pub(crate) fn any_ask(rng: &mut Rng, truth: &Truth) -> Ask {
    let said: Vec<&Turn> = truth.turns.iter().filter(|turn| !turn.words.is_empty()).collect();
    let from = (!said.is_empty() && rng.chance(5, 6)).then(|| said[rng.below(said.len() as u64) as usize]);
    let mut ask = Ask::default();
    for _ in 0..[0, 1, 1, 1, 2, 2, 3][rng.below(7) as usize] {
        let mut any = vec![any_part(rng, from)];
        while rng.chance(1, 6) {
            any.push(any_part(rng, None));
        }
        ask.must.push(any);
    }
    if rng.chance(1, 5) {
        ask.not.push(any_part(rng, None));
    }
    if rng.chance(1, 6) {
        ask.roles = (0..rng.range(1..=2)).map(|_| pick(rng, &ROLES).to_owned()).collect();
    }
    if rng.chance(1, 10) {
        ask.not_roles.push(pick(rng, &ROLES).to_owned());
    }
    if let Some(turn) = from.filter(|_| rng.chance(1, 6)) {
        let session = session_text(rng, &turn.id);
        if rng.chance(1, 4) { ask.not_sessions.push(session) } else { ask.sessions.push(session) }
    }
    let second =
        from.and_then(|turn| turn.ts.parse::<jiff::Timestamp>().ok()).map(jiff::Timestamp::as_second);
    if let Some(second) = second {
        let near = second + rng.below(3) as i64 - 1;
        ask.since = rng.chance(1, 8).then_some(near);
        ask.until = rng.chance(1, 8).then_some(near + rng.below(4) as i64);
    }
    let filtered = !ask.roles.is_empty() || !ask.sessions.is_empty() || ask.since.or(ask.until).is_some();
    if ask.must.is_empty() && !filtered && ask.not_roles.is_empty() && ask.not_sessions.is_empty() {
        ask.must.push(vec![any_part(rng, from)]);
    }
    ask
}

fn session_text(rng: &mut Rng, at: &StreamId) -> String {
    let key = at.key.as_str();
    match rng.below(4) {
        0 if at.id.len() > 12 => format!("@{}", &at.id[..at.id.len() - 2]),
        1 => format!("{}*", &key[..1]),
        2 => format!("\"{key}\""),
        _ if key.contains(' ') => format!("\"{key}\""),
        _ => key.to_owned(),
    }
}

fn any_part(rng: &mut Rng, from: Option<&Turn>) -> Part {
    let len = [1, 1, 1, 2, 2, 3][rng.below(6) as usize];
    let words: Vec<String> = match from {
        Some(turn) if turn.words.len() >= len => {
            let begin = rng.below((turn.words.len() - len + 1) as u64) as usize;
            turn.words[begin..begin + len].to_vec()
        }
        _ => (0..len).map(|_| pick(rng, &WORDS).to_owned()).collect(),
    };
    let mut part = Part { words, prefix: rng.chance(1, 5), joined: rng.chance(1, 3) };
    if part.prefix
        && let Some(last) = part.words.last_mut()
    {
        last.truncate(rng.range(1..=last.len() as u64) as usize);
    }
    part
}

pub(crate) fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len() as u64) as usize]
}
