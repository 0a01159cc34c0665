//! What can be set, where it is set, and which setting counts: a flag over the environment, that over the file, that
//! over what is built in.
//!
//! The file is `config.toml` in the home of the store. Everything has a default; a store without the file works. What
//! is wrong in it is named with its place and what would be right; a name nobody knows is a mistake, not a wish for
//! later.

mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use manent::context::Limits;
use manent::human_time;

use crate::providers::RetryPolicy;
use settings::{ENVIRONMENT, SETTINGS};

/// The configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The model.
    pub model: String,
    /// The provider of the model.
    pub provider: Provider,
    /// The limits of a context, beyond which it is compacted.
    pub limits: Limits,
    /// The longest answer of a model, in bytes, with thoughts and calls.
    pub max_answer_bytes: usize,
    /// The longest pause of a server within an answer; before its first byte it may take twice as long.
    pub max_silence: Duration,
    /// The time limit for an answer that nobody reads as it arrives.
    pub background_timeout: Duration,
    /// The address of Ollama.
    pub ollama_url: String,
    /// The time for which Ollama keeps a model in memory after a question, in the syntax of Ollama.
    pub ollama_keep_alive: String,
    /// The address of a server with OpenAI's interface; empty if there is none.
    pub openai_url: String,
    /// The variable of the environment that has the key for it. The key itself is never in a file of ours.
    pub openai_key_env: String,
    /// The trigger of consolidation.
    pub consolidate: ConsolidationTrigger,
    /// If set, consolidated items wait in the inbox until a person accepts them.
    pub inbox: bool,
    /// The number of tokens that consolidation may use a day.
    pub tokens_per_day: u64,
    /// The report of what skills did that is kept.
    pub retro: RetroConfig,
    origins: BTreeMap<&'static str, SettingOrigin>,
}

/// The provider of models.
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

/// The event after which a conversation is consolidated into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsolidationTrigger {
    /// Consolidation only on request.
    Off,
    /// The number of answers after which a conversation is consolidated.
    Every(u32),
    /// The idle time after which a conversation is consolidated.
    Idle(Duration),
    /// Consolidation at the end of a conversation.
    End,
}

impl ConsolidationTrigger {
    /// Returns true if consolidation is due after `answers` answers since the last one, `rested` since the last answer,
    /// and `ends` if the conversation ends now.
    pub fn is_due(self, answers: u32, rested: Duration, ends: bool) -> bool {
        if answers == 0 {
            return false;
        }
        match self {
            ConsolidationTrigger::Off => false,
            ConsolidationTrigger::Every(n) => answers >= n.max(1) || ends,
            ConsolidationTrigger::Idle(time) => rested >= time || ends,
            ConsolidationTrigger::End => ends,
        }
    }
}

/// The report of what skills did that is kept, and made anew now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetroConfig {
    /// The interval between two reports.
    pub every: RetroInterval,
    /// The period that a report covers.
    pub since: Duration,
    /// If set, lessons of the report are added to the memory.
    pub remember: bool,
    /// If set, a model writes a narrative for the report.
    pub with_model: bool,
}

/// The interval of a scheduled task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetroInterval {
    /// The task is never run.
    Off,
    /// The time between two runs of the task.
    Time(Duration),
}

/// The origin of the value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SettingOrigin {
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

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Default => f.write_str("default"),
            SettingOrigin::File => f.write_str("config.toml"),
            SettingOrigin::Env(name) => write!(f, "${name}"),
            SettingOrigin::Flag => f.write_str("command line"),
        }
    }
}

/// The errors of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is no TOML.
    #[error("{path} is no TOML: {why}; mend it, or move it away: everything has a default")]
    Toml {
        /// The file.
        path: String,
        /// The fault and its position.
        why: String,
    },
    /// The file sets something that is no setting.
    #[error("{path} sets {name:?}, which nobody knows")]
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
        /// The given value.
        value: String,
        /// The origin of the value.
        origin: SettingOrigin,
        /// The accepted values.
        wanted: &'static str,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            model: "gemma4:e4b".to_owned(),
            provider: Provider::Auto,
            limits: Limits::default(),
            max_answer_bytes: RetryPolicy::default().answer_bytes,
            max_silence: Duration::from_mins(5),
            background_timeout: Duration::from_mins(10),
            ollama_url: "http://127.0.0.1:11434".to_owned(),
            ollama_keep_alive: "5m".to_owned(),
            openai_url: String::new(),
            openai_key_env: "OPENAI_API_KEY".to_owned(),
            consolidate: ConsolidationTrigger::Every(1),
            inbox: false,
            tokens_per_day: 200_000,
            retro: RetroConfig {
                every: RetroInterval::Time(Duration::from_hours(24)),
                since: Duration::from_hours(24 * 30),
                remember: false,
                with_model: false,
            },
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
                let toml::Value::Table(values) = values else {
                    return Err(ConfigError::Unknown { path, name: section });
                };
                for (name, value) in values {
                    let value = match value {
                        toml::Value::String(text) => Ok(text),
                        toml::Value::Integer(number) => Ok(number.to_string()),
                        toml::Value::Boolean(is) => Ok(is.to_string()),
                        other => Err(format!("a value of type {}", other.type_str())),
                    };
                    config.set(&path, &format!("{section}.{name}"), value, SettingOrigin::File)?;
                }
            }
        }
        for (variable, name) in ENVIRONMENT {
            if let Some(value) = env(variable).filter(|value| !value.is_empty()) {
                config.set("the environment", name, Ok(value), SettingOrigin::Env(variable))?;
            }
        }
        Ok(config)
    }

    /// Returns the limits for what a server sends.
    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            first_byte: self.max_silence.saturating_mul(2),
            between: self.max_silence,
            call: self.max_silence,
            answer_bytes: self.max_answer_bytes,
            ..RetryPolicy::default()
        }
    }

    /// Sets what was given on the command line.
    pub fn set_flag(&mut self, name: &'static str, value: &str) -> Result<(), ConfigError> {
        self.set("the command line", name, Ok(value.to_owned()), SettingOrigin::Flag)
    }

    /// Returns all settings: the name of each, its value, the origin of the value, and its purpose.
    pub fn all(&self) -> Vec<(&'static str, String, SettingOrigin, &'static str)> {
        let origin = |name| self.origins.get(name).cloned().unwrap_or_default();
        SETTINGS.iter().map(|s| (s.name, (s.get)(self), origin(s.name), s.about)).collect()
    }

    /// Sets `name`, which stands in `path`. A value that is an error is shown as such.
    fn set(
        &mut self,
        path: &str,
        name: &str,
        value: Result<String, String>,
        origin: SettingOrigin,
    ) -> Result<(), ConfigError> {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
            return Err(ConfigError::Unknown { path: path.to_owned(), name: name.to_owned() });
        };
        let is_set = value.as_ref().is_ok_and(|value| (setting.set)(self, value.trim()).is_some());
        if !is_set {
            let value = value.unwrap_or_else(|what| what).chars().take(SHOWN_CHARS).collect();
            return Err(ConfigError::Value { name: setting.name, value, origin, wanted: setting.wanted });
        }
        self.origins.insert(setting.name, origin);
        Ok(())
    }
}

impl Provider {
    fn of_word(word: &str) -> Option<Provider> {
        let all = [Provider::Auto, Provider::Ollama, Provider::OpenAi, Provider::Recall];
        all.into_iter().find(|provider| provider.to_string() == word)
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Provider::Auto => "auto",
            Provider::Ollama => "ollama",
            Provider::OpenAi => "openai",
            Provider::Recall => "recall",
        })
    }
}

impl ConsolidationTrigger {
    fn of_words(text: &str) -> Option<ConsolidationTrigger> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (word, rest.trim()) {
            ("off", "") => Some(ConsolidationTrigger::Off),
            ("turn", "") => Some(ConsolidationTrigger::Every(1)),
            ("end", "") => Some(ConsolidationTrigger::End),
            ("every", n) => n.parse().ok().filter(|n| *n > 0).map(ConsolidationTrigger::Every),
            ("idle", time) => human_time::parse_duration(time).ok().map(ConsolidationTrigger::Idle),
            _ => None,
        }
    }
}

impl RetroInterval {
    fn of_words(text: &str) -> Option<RetroInterval> {
        if text == "off" { Some(RetroInterval::Off) } else { length(text).map(RetroInterval::Time) }
    }
}

impl fmt::Display for RetroInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetroInterval::Off => f.write_str("off"),
            RetroInterval::Time(time) => f.write_str(&format_duration(*time)),
        }
    }
}

/// A length of time of a second or more, with its unit: a bare number may be meant as days.
fn length(text: &str) -> Option<Duration> {
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    human_time::parse_duration(text).ok().filter(|time| has_unit && *time >= Duration::from_secs(1))
}

/// `30d`, `90m`, `45s`: in the largest unit that says it to the second.
pub fn format_duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if time.subsec_nanos() > 0 {
        return format!("{}ms", time.as_millis());
    }
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let fits = units.iter().find(|(length, _)| seconds > 0 && seconds.is_multiple_of(*length));
    fits.map_or_else(|| format!("{seconds}s"), |(length, unit)| format!("{}{unit}", seconds / length))
}

impl fmt::Display for ConsolidationTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConsolidationTrigger::Off => f.write_str("off"),
            ConsolidationTrigger::Every(1) => f.write_str("turn"),
            ConsolidationTrigger::Every(n) => write!(f, "every {n}"),
            ConsolidationTrigger::Idle(time) => write!(f, "idle {}s", time.as_secs()),
            ConsolidationTrigger::End => f.write_str("end"),
        }
    }
}

const SHOWN_CHARS: usize = 60;

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
            (ConsolidationTrigger::Every(5), "http://127.0.0.1:11434")
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
            ("[retro]\nevery = \"daily\"", "it must be a time like 1d, a second or more, or off"),
            ("[retro]\nevery = 0", "it must be a time like 1d"),
            ("[retro]\nevery = \"500ms\"", "it must be a time like 1d"),
            ("[retro]\nsince = 30", "it must be a time like 30d"),
            ("[agent]\nmax_answer_bytes = 100", "a number of bytes from 1000 to 8388608"),
            ("[agent]\nmax_answer_bytes = 8388609", "a number of bytes from 1000 to 8388608"),
            ("[agent]\nmax_silence = 5", "it must be a time like 5m"),
            ("[agent]\nbackground_timeout = \"soon\"", "it must be a time like 10m"),
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
        assert_eq!(config.consolidate, ConsolidationTrigger::Idle(Duration::from_mins(10)));
        for (text, shown) in [("36h", "36h"), ("2w", "14d"), ("90s", "90s"), ("off", "off"), ("120m", "2h")] {
            config.set_flag("retro.every", text).unwrap();
            assert_eq!(config.retro.every.to_string(), shown);
        }
    }

    #[test]
    fn it_is_time_when_it_was_set() {
        let (now, later) = (Duration::ZERO, Duration::from_secs(700));
        assert!(
            ConsolidationTrigger::Every(2).is_due(2, now, false)
                && !ConsolidationTrigger::Every(2).is_due(1, now, false)
        );
        assert!(ConsolidationTrigger::Idle(Duration::from_mins(10)).is_due(1, later, false));
        assert!(
            !ConsolidationTrigger::End.is_due(9, later, false)
                && ConsolidationTrigger::End.is_due(1, now, true)
        );
        assert!(!ConsolidationTrigger::Off.is_due(9, later, true), "off is off");
        assert!(!ConsolidationTrigger::Every(1).is_due(0, later, true), "nothing was said");
    }
}
