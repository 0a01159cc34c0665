//! The tables of what can be set: its name, how it is shown and read, and the variables that set it.

use manent::human_time;

use super::{Config, ConsolidationTrigger, Provider, RetroInterval, format_duration, length};

/// One thing that can be set.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The accepted values, for error messages.
    pub(super) wanted: &'static str,
    pub(super) get: fn(&Config) -> String,
    /// Parses and stores a value; `None` if the value is not valid.
    pub(super) set: fn(&mut Config, &str) -> Option<()>,
}

pub(super) static SETTINGS: [Setting; 18] = [
    Setting {
        name: "agent.model",
        about: "the model",
        wanted: "the name of a model",
        get: |c| c.model.clone(),
        set: |c, v| named(v).map(|v| c.model = v),
    },
    Setting {
        name: "agent.provider",
        about: "who serves it: auto, ollama, openai, or recall (no model, the record itself)",
        wanted: "auto, ollama, openai or recall",
        get: |c| c.provider.word().to_owned(),
        set: |c, v| Provider::of_word(v).map(|v| c.provider = v),
    },
    Setting {
        name: "agent.max_context_tokens",
        about: "more tokens than this are compacted",
        wanted: "a number, 1000 or more",
        get: |c| c.limits.max_tokens.to_string(),
        set: |c, v| v.parse().ok().filter(|n| *n >= 1000).map(|n| c.limits.max_tokens = n),
    },
    Setting {
        name: "agent.max_history_messages",
        about: "more messages than this are compacted",
        wanted: "a number, 4 or more",
        get: |c| c.limits.max_messages.to_string(),
        set: |c, v| v.parse().ok().filter(|n| *n >= 4).map(|n| c.limits.max_messages = n),
    },
    Setting {
        name: "agent.max_answer_bytes",
        about: "a longer answer of a model is cut off, and what came is kept",
        wanted: "a number of bytes from 1000 to 8388608",
        get: |c| c.max_answer_bytes.to_string(),
        set: |c, v| {
            let bytes = v.parse().ok().filter(|n| (1000..=ANSWER_BYTES_MAX).contains(n));
            bytes.map(|n| c.max_answer_bytes = n)
        },
    },
    Setting {
        name: "agent.max_silence",
        about: "how long a server may send nothing in an answer; twice as long before its first word",
        wanted: "a time like 5m, a second or more",
        get: |c| format_duration(c.max_silence),
        set: |c, v| length(v).map(|v| c.max_silence = v),
    },
    Setting {
        name: "agent.background_timeout",
        about: "how long an answer may take that nobody reads as it comes: summaries, consolidation, reports",
        wanted: "a time like 10m, a second or more",
        get: |c| format_duration(c.background_timeout),
        set: |c, v| length(v).map(|v| c.background_timeout = v),
    },
    Setting {
        name: "ollama.url",
        about: "where Ollama answers",
        wanted: "an address like http://127.0.0.1:11434",
        get: |c| c.ollama_url.clone(),
        set: |c, v| address(v, "11434").map(|v| c.ollama_url = v),
    },
    Setting {
        name: "ollama.keep_alive",
        about: "how long Ollama keeps the model in memory",
        wanted: "a time like 5m, or -1 for ever",
        get: |c| c.ollama_keep_alive.clone(),
        set: |c, v| {
            let is_time = v == "-1" || v == "0" || human_time::parse_duration(v).is_ok();
            is_time.then(|| v.clone_into(&mut c.ollama_keep_alive))
        },
    },
    Setting {
        name: "openai.url",
        about: "where a server answers that speaks like OpenAI; empty: none",
        wanted: "an address like https://example.org/v1",
        get: |c| c.openai_url.clone(),
        set: |c, v| match v {
            "" => {
                c.openai_url.clear();
                Some(())
            }
            v => address(v, "").map(|v| c.openai_url = v),
        },
    },
    Setting {
        name: "openai.key_env",
        about: "the variable of the environment that has its key",
        wanted: "the name of a variable, not the key itself",
        get: |c| c.openai_key_env.clone(),
        set: |c, v| {
            let is_name =
                !v.is_empty() && v.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
            is_name.then(|| v.clone_into(&mut c.openai_key_env))
        },
    },
    Setting {
        name: "consolidation.when",
        about: "when what was said becomes memory: turn, every N, idle TIME, end, off",
        wanted: "turn, every N, idle TIME, end or off",
        get: |c| c.consolidate.to_string(),
        set: |c, v| ConsolidationTrigger::of_words(v).map(|v| c.consolidate = v),
    },
    Setting {
        name: "consolidation.inbox",
        about: "what is learned waits until you accept it",
        wanted: "true or false",
        get: |c| c.inbox.to_string(),
        set: |c, v| v.parse().ok().map(|v| c.inbox = v),
    },
    Setting {
        name: "consolidation.tokens_per_day",
        about: "what models may take a day for it, in tokens",
        wanted: "a number",
        get: |c| c.tokens_per_day.to_string(),
        set: |c, v| v.parse().ok().map(|v| c.tokens_per_day = v),
    },
    Setting {
        name: "retro.every",
        about: "how often a report of what skills did is made by itself, if there is news: TIME, off",
        wanted: "a time like 1d, a second or more, or off",
        get: |c| c.retro.every.to_string(),
        set: |c, v| RetroInterval::of_words(v).map(|v| c.retro.every = v),
    },
    Setting {
        name: "retro.since",
        about: "how far back it looks",
        wanted: "a time like 30d, a second or more",
        get: |c| format_duration(c.retro.since),
        set: |c, v| length(v).map(|v| c.retro.since = v),
    },
    Setting {
        name: "retro.remember",
        about: "what it teaches goes into the memory",
        wanted: "true or false",
        get: |c| c.retro.remember.to_string(),
        set: |c, v| v.parse().ok().map(|v| c.retro.remember = v),
    },
    Setting {
        name: "retro.with_model",
        about: "a model tells what stands out in it",
        wanted: "true or false",
        get: |c| c.retro.with_model.to_string(),
        set: |c, v| v.parse().ok().map(|v| c.retro.with_model = v),
    },
];

/// Variables of the environment, each with the name of the setting that it sets.
pub(super) const ENVIRONMENT: [(&str, &str); 4] = [
    ("MANENT_MODEL", "agent.model"),
    ("MANENT_PROVIDER", "agent.provider"),
    ("OLLAMA_HOST", "ollama.url"),
    ("OPENAI_BASE_URL", "openai.url"),
];

fn named(text: &str) -> Option<String> {
    let is_name = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned())
}

/// An address as people write it: with or without what stands before and behind the name of the host.
fn address(text: &str, port: &str) -> Option<String> {
    if text.is_empty()
        || text.len() > NAME_BYTES_MAX
        || text.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return None;
    }
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    if !matches!(scheme, "http" | "https") || rest.is_empty() || rest.contains('@') {
        return None;
    }
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    // What a server listens on is not where it is reached.
    let host = host.replacen("0.0.0.0", "127.0.0.1", 1);
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
    let port =
        if has_port || port.is_empty() || scheme == "https" { String::new() } else { format!(":{port}") };
    Some(format!("{scheme}://{host}{port}{}", path.trim_end_matches('/')))
}

/// In JSON a byte may take six, and a record of the log has at most 64 MiB.
const ANSWER_BYTES_MAX: usize = 8 << 20;
const NAME_BYTES_MAX: usize = 500;
