//! What can be set, where it is set, and which setting counts: a flag over the environment, that over the file, that
//! over what is built in.
//!
//! The file is `config.toml` in the home of the store. Everything has a default; a store without the file works. What
//! is wrong in it is named with its place and what would be right; a name nobody knows is a mistake, not a wish for
//! later.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use manent::context::Limits;
use manent::when;

/// What is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The model.
    pub model: String,
    /// Who serves it.
    pub provider: Provider,
    /// How large a context may grow.
    pub limits: Limits,
    /// Where Ollama answers.
    pub ollama_url: String,
    /// How long Ollama keeps a model in memory after a question.
    pub ollama_keep_alive: String,
    /// Where a server answers that speaks like OpenAI; empty: none does.
    pub openai_url: String,
    /// The variable of the environment that has the key for it. The key itself is never in a file of ours.
    pub openai_key_env: String,
    /// When what was said becomes memory.
    pub consolidate: When,
    /// What is learned waits in the inbox for a person.
    pub inbox: bool,
    /// What models may take a day for consolidation, in tokens.
    pub tokens_per_day: u64,
    origins: BTreeMap<&'static str, Origin>,
}

/// Who serves models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    /// Ollama if it answers, else the other server if one is set, else the record itself.
    Auto,
    /// Ollama.
    Ollama,
    /// A server that speaks like OpenAI.
    OpenAi,
    /// No model: the record itself.
    Recall,
}

/// When what was said becomes memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Only when somebody asks for it.
    Off,
    /// After every so many answers.
    Every(u32),
    /// When a conversation has rested for so long.
    Idle(Duration),
    /// When a conversation ends.
    End,
}

impl When {
    /// Whether it is time: so many answers since last time, so long since the last one, and whether the conversation
    /// ends now.
    pub fn is_due(self, answers: u32, rested: Duration, ends: bool) -> bool {
        if answers == 0 {
            return false;
        }
        match self {
            When::Off => false,
            When::Every(n) => answers >= n.max(1) || ends,
            When::Idle(time) => rested >= time || ends,
            When::End => ends,
        }
    }
}

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// Built in.
    #[default]
    Default,
    /// The file.
    File,
    /// A variable of the environment.
    Env(&'static str),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File => f.write_str("config.toml"),
            Origin::Env(name) => write!(f, "${name}"),
            Origin::Flag => f.write_str("command line"),
        }
    }
}

/// What is wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is no TOML.
    #[error("{path} is no TOML: {why}; mend it, or move it away: everything has a default")]
    Toml {
        /// The file.
        path: String,
        /// What is wrong, and where.
        why: String,
    },
    /// Nobody knows the name.
    #[error("{path} sets {name:?}, which nobody knows; `manent config` lists what can be set")]
    Unknown {
        /// The file.
        path: String,
        /// The name.
        name: String,
    },
    /// The value makes no sense.
    #[error("{name} is set to {value:?} by {origin}; it must be {wanted}")]
    Value {
        /// The setting.
        name: &'static str,
        /// What it is set to.
        value: String,
        /// Where.
        origin: Origin,
        /// What would make sense.
        wanted: &'static str,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            model: "gemma4:e4b".to_owned(),
            provider: Provider::Auto,
            limits: Limits::default(),
            ollama_url: "http://127.0.0.1:11434".to_owned(),
            ollama_keep_alive: "5m".to_owned(),
            openai_url: String::new(),
            openai_key_env: "OPENAI_API_KEY".to_owned(),
            consolidate: When::Every(1),
            inbox: false,
            tokens_per_day: 200_000,
            origins: BTreeMap::new(),
        }
    }
}

impl Config {
    /// Reads the text of the file (nothing: there is none) and the environment.
    pub fn read(
        path: &Path,
        text: Option<&str>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        if let Some(text) = text {
            let path = path.display().to_string();
            let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
                let why = e.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ");
                ConfigError::Toml { path: path.clone(), why }
            })?;
            for (section, values) in table {
                // Rules about tools are read elsewhere.
                if section == "policy" {
                    continue;
                }
                // Its rules are no settings: `policy` reads them.
                if section == "policy" {
                    continue;
                }
                let toml::Value::Table(values) = values else {
                    return Err(ConfigError::Unknown { path, name: section });
                };
                for (name, value) in values {
                    let full = format!("{section}.{name}");
                    let Some(setting) = SETTINGS.iter().find(|setting| setting.name == full) else {
                        return Err(ConfigError::Unknown { path, name: full });
                    };
                    let value = match value {
                        toml::Value::String(text) => text,
                        toml::Value::Integer(number) => number.to_string(),
                        toml::Value::Boolean(is) => is.to_string(),
                        other => {
                            let (name, wanted) = (setting.name, setting.wanted);
                            let value = format!("a value of type {}", other.type_str());
                            return Err(ConfigError::Value { name, value, origin: Origin::File, wanted });
                        }
                    };
                    config.set(setting, &value, Origin::File)?;
                }
            }
        }
        for setting in &SETTINGS {
            for name in setting.env {
                if let Some(value) = env(name).filter(|value| !value.is_empty()) {
                    config.set(setting, &value, Origin::Env(name))?;
                }
            }
        }
        Ok(config)
    }

    /// Sets what was given on the command line.
    pub fn set_flag(&mut self, name: &'static str, value: &str) -> Result<(), ConfigError> {
        match SETTINGS.iter().find(|setting| setting.name == name) {
            Some(setting) => self.set(setting, value, Origin::Flag),
            None => Err(ConfigError::Unknown { path: "the command line".to_owned(), name: name.to_owned() }),
        }
    }

    /// Everything that can be set: its name, what it is set to, where, and what it is for.
    pub fn all(&self) -> Vec<(&'static str, String, Origin, &'static str)> {
        let origin = |name| self.origins.get(name).cloned().unwrap_or_default();
        SETTINGS.iter().map(|s| (s.name, (s.get)(self), origin(s.name), s.about)).collect()
    }

    fn set(&mut self, setting: &Setting, value: &str, origin: Origin) -> Result<(), ConfigError> {
        if (setting.set)(self, value.trim()).is_none() {
            let shown = value.chars().take(SHOWN_CHARS).collect();
            return Err(ConfigError::Value {
                name: setting.name,
                value: shown,
                origin,
                wanted: setting.wanted,
            });
        }
        self.origins.insert(setting.name, origin);
        Ok(())
    }
}

/// One thing that can be set.
struct Setting {
    name: &'static str,
    env: &'static [&'static str],
    about: &'static str,
    /// What a value must be.
    wanted: &'static str,
    get: fn(&Config) -> String,
    /// Nothing: the value makes no sense.
    set: fn(&mut Config, &str) -> Option<()>,
}

const SETTINGS: [Setting; 11] = [
    Setting {
        name: "agent.model",
        env: &["MANENT_MODEL"],
        about: "the model",
        wanted: "the name of a model",
        get: |c| c.model.clone(),
        set: |c, v| named(v).map(|v| c.model = v),
    },
    Setting {
        name: "agent.provider",
        env: &["MANENT_PROVIDER"],
        about: "who serves it: auto, ollama, openai, or recall (no model, the record itself)",
        wanted: "auto, ollama, openai or recall",
        get: |c| c.provider.word().to_owned(),
        set: |c, v| Provider::of_word(v).map(|v| c.provider = v),
    },
    Setting {
        name: "agent.max_context_tokens",
        env: &[],
        about: "more tokens than this are compacted",
        wanted: "a number, 1000 or more",
        get: |c| c.limits.max_tokens.to_string(),
        set: |c, v| v.parse().ok().filter(|n| *n >= 1000).map(|n| c.limits.max_tokens = n),
    },
    Setting {
        name: "agent.max_history_messages",
        env: &[],
        about: "more messages than this are compacted",
        wanted: "a number, 4 or more",
        get: |c| c.limits.max_messages.to_string(),
        set: |c, v| v.parse().ok().filter(|n| *n >= 4).map(|n| c.limits.max_messages = n),
    },
    Setting {
        name: "ollama.url",
        env: &["OLLAMA_HOST"],
        about: "where Ollama answers",
        wanted: "an address like http://127.0.0.1:11434",
        get: |c| c.ollama_url.clone(),
        set: |c, v| address(v, "11434").map(|v| c.ollama_url = v),
    },
    Setting {
        name: "ollama.keep_alive",
        env: &[],
        about: "how long Ollama keeps the model in memory",
        wanted: "a time like 5m, or -1 for ever",
        get: |c| c.ollama_keep_alive.clone(),
        set: |c, v| {
            let is_time = v == "-1" || v == "0" || when::duration(v).is_ok();
            is_time.then(|| v.clone_into(&mut c.ollama_keep_alive))
        },
    },
    Setting {
        name: "openai.url",
        env: &["OPENAI_BASE_URL"],
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
        env: &[],
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
        env: &[],
        about: "when what was said becomes memory: turn, every N, idle TIME, end, off",
        wanted: "turn, every N, idle TIME, end or off",
        get: |c| c.consolidate.to_string(),
        set: |c, v| When::of_words(v).map(|v| c.consolidate = v),
    },
    Setting {
        name: "consolidation.inbox",
        env: &[],
        about: "what is learned waits until you accept it",
        wanted: "true or false",
        get: |c| c.inbox.to_string(),
        set: |c, v| v.parse().ok().map(|v| c.inbox = v),
    },
    Setting {
        name: "consolidation.tokens_per_day",
        env: &[],
        about: "what models may take a day for it, in tokens",
        wanted: "a number",
        get: |c| c.tokens_per_day.to_string(),
        set: |c, v| v.parse().ok().map(|v| c.tokens_per_day = v),
    },
];

impl Provider {
    const ALL: [Provider; 4] = [Provider::Auto, Provider::Ollama, Provider::OpenAi, Provider::Recall];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Provider::Auto => "auto",
            Provider::Ollama => "ollama",
            Provider::OpenAi => "openai",
            Provider::Recall => "recall",
        }
    }

    fn of_word(word: &str) -> Option<Provider> {
        Provider::ALL.into_iter().find(|provider| provider.word() == word)
    }
}

impl When {
    fn of_words(text: &str) -> Option<When> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (word, rest.trim()) {
            ("off", "") => Some(When::Off),
            ("turn", "") => Some(When::Every(1)),
            ("end", "") => Some(When::End),
            ("every", n) => n.parse().ok().filter(|n| *n > 0).map(When::Every),
            ("idle", time) => when::duration(time).ok().map(When::Idle),
            _ => None,
        }
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            When::Off => f.write_str("off"),
            When::Every(1) => f.write_str("turn"),
            When::Every(n) => write!(f, "every {n}"),
            When::Idle(time) => write!(f, "idle {}s", time.as_secs()),
            When::End => f.write_str("end"),
        }
    }
}

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

const SHOWN_CHARS: usize = 60;
const NAME_BYTES_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Config::read(Path::new("/s/config.toml"), Some(text), &env)
    }

    #[test]
    fn each_layer_goes_over_the_one_below() {
        let file = "[agent]\nmodel = \"a\"\nmax_context_tokens = 8000\n[consolidation]\nwhen = \"every 5\"\n";
        let mut config = read(file, &[("MANENT_MODEL", "b"), ("OLLAMA_HOST", "0.0.0.0")]).unwrap();
        assert_eq!((config.model.as_str(), config.limits.max_tokens), ("b", 8000));
        assert_eq!(
            (config.consolidate, config.ollama_url.as_str()),
            (When::Every(5), "http://127.0.0.1:11434")
        );
        config.set_flag("agent.model", "c").unwrap();
        let origins: Vec<String> =
            config.all().iter().take(3).map(|(.., origin, _)| origin.to_string()).collect();
        assert_eq!(
            (config.model.as_str(), origins),
            ("c", ["command line", "default", "config.toml"].map(String::from).to_vec())
        );
        assert_eq!(read("", &[]).unwrap(), Config::default());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (file, said) in [
            ("[agent]\nmodle = 1", "sets \"agent.modle\", which nobody knows"),
            ("model = \"x\"", "sets \"model\", which nobody knows"),
            ("[agent", "is no TOML"),
            (
                "[agent]\nmax_context_tokens = 3",
                "agent.max_context_tokens is set to \"3\" by config.toml; it must be a number, 1000 or more",
            ),
            ("[agent]\nprovider = \"gpt\"", "it must be auto, ollama, openai or recall"),
            ("[openai]\nkey_env = \"sk-123\"", "not the key itself"),
            ("[openai]\nurl = \"ftp://x\"", "an address like"),
            ("[consolidation]\nwhen = \"now and then\"", "turn, every N, idle TIME, end or off"),
        ] {
            let error = read(file, &[]).unwrap_err().to_string();
            assert!(error.contains(said), "{file}: {error}");
        }
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
        let mut config = read("[consolidation]\nwhen=\"idle 10m\"", &[]).unwrap();
        for (name, value, ..) in config.clone().all() {
            config.set_flag(name, &value).unwrap();
        }
        assert_eq!(config.consolidate, When::Idle(Duration::from_mins(10)));
    }

    #[test]
    fn it_is_time_when_it_was_set() {
        let (now, later) = (Duration::ZERO, Duration::from_secs(700));
        assert!(When::Every(2).is_due(2, now, false) && !When::Every(2).is_due(1, now, false));
        assert!(When::Idle(Duration::from_mins(10)).is_due(1, later, false));
        assert!(!When::End.is_due(9, later, false) && When::End.is_due(1, now, true));
        assert!(!When::Off.is_due(9, later, true), "off is off");
        assert!(!When::Every(1).is_due(0, later, true), "nothing was said");
    }
}
