//! What can go wrong between us and a model, in words: what, where, and what to do next.

use std::time::Duration;

/// A model that did not answer, or not to the end.
///
/// What a server said about it is shown cut and without control characters. Nothing of a conversation is in here, as
/// far as the server put nothing of it into its own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The address is none.
    #[error("{url} is no address of a server ({why}); give one as http://127.0.0.1:11434")]
    Address {
        /// The given address, without a password.
        url: String,
        /// The fault of the address.
        why: String,
    },
    /// A request that must not be sent.
    #[error("the request was not sent: {0}")]
    Unsendable(&'static str),
    /// The server cannot be reached.
    #[error(
        "no model server answers at {url} ({why}); start one with `ollama serve`, or configure the address of \
         another"
    )]
    Unreachable {
        /// The server.
        url: String,
        /// The error of the system.
        why: String,
    },
    /// The server does not have the model.
    #[error("{url} has no model {model}; get it with `ollama pull {model}`{}", choice(others))]
    NoSuchModel {
        /// The model.
        model: String,
        /// The server.
        url: String,
        /// The models that the server has, if it listed them.
        others: Vec<String>,
    },
    /// The server wants another key, or one at all.
    #[error("{url} refuses us ({status}: {message}); check the API key that is configured for it")]
    Refused {
        /// The server.
        url: String,
        /// 401 or 403.
        status: u16,
        /// The message of the server.
        message: String,
    },
    /// The model cannot call tools.
    #[error("{model} at {url} cannot call tools; choose a model that can, or ask without tools")]
    NoTools {
        /// The model.
        model: String,
        /// The server.
        url: String,
    },
    /// The request is longer than the model can read at once.
    #[error(
        "the request is too long for {model} at {url}{}; compact the session, or configure a larger window",
        sizes(*tokens, *window)
    )]
    TooLong {
        /// The model.
        model: String,
        /// The server.
        url: String,
        /// The size of the request in tokens, if the server reported it.
        tokens: Option<u64>,
        /// The window of the model in tokens, if the server reported it.
        window: Option<u64>,
    },
    /// The server had no time for us, however often it was asked.
    #[error("{url} is busy ({status}: {message}), asked {}; try again later", times(*tries))]
    Busy {
        /// The server.
        url: String,
        /// 429 or 503.
        status: u16,
        /// The number of attempts.
        tries: u32,
        /// The message of the server.
        message: String,
    },
    /// The server answered with an error.
    #[error("{url} answered with an error ({status}: {message}); its log may say more")]
    Server {
        /// The server.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The message of the server.
        message: String,
    },
    /// The server began to answer and then reported an error.
    #[error("{url} failed while it answered ({message}); try again, or look into its log")]
    Failed {
        /// The server.
        url: String,
        /// The message of the server.
        message: String,
    },
    /// The record could not be searched.
    #[error("the record could not be searched: {0}")]
    Record(String),
    /// The client of the model panicked.
    #[error("what asks the model broke off; what came is kept: ask again, and report this")]
    Broke,
    /// The caller stopped the answer.
    #[error("stopped; ask again")]
    Stopped,
    /// The server sent nothing for too long.
    #[error(
        "nothing came from {url} for {} s; see whether it is overloaded, or allow it more time{}",
        after.as_secs_f32(), with(*setting)
    )]
    Stalled {
        /// The server.
        url: String,
        /// The time waited.
        after: Duration,
        /// The setting that allows more.
        setting: Option<&'static str>,
    },
    /// The answer as a whole took too long, and nobody waits for it.
    #[error(
        "the model did not come to an end within {} s, which is the limit for work in the background; see whether it \
         is overloaded, or allow it more time with agent.background_timeout",
        after.as_secs_f32()
    )]
    OutOfTime {
        /// The time waited.
        after: Duration,
    },
    /// The answer stopped in its middle.
    #[error("the answer of {url} stopped before its end; see whether the server died, and try again")]
    Ended {
        /// The server.
        url: String,
    },
    /// The response is not one of a model server.
    #[error("{url} sent something that is no answer of a model server; check its address and its version")]
    Broken {
        /// The server.
        url: String,
    },
    /// The answer is too large.
    #[error(
        "{url} sent more than {limit} bytes where an answer is expected, and was cut off; check its address and its \
         model, or allow longer answers{}",
        with(*setting)
    )]
    TooLarge {
        /// The server.
        url: String,
        /// The limit in bytes.
        limit: u64,
        /// The setting that allows more.
        setting: Option<&'static str>,
    },
}

impl ModelError {
    /// Returns true if the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::Busy { .. }
            | Self::Failed { .. }
            | Self::Stalled { .. }
            | Self::OutOfTime { .. }
            | Self::Ended { .. } => true,
            Self::Server { status, .. } => matches!(status, 500 | 502 | 504),
            _ => false,
        }
    }
}

/// Returns text from a server in a form that is safe to display: cut to `chars_max` characters, and without characters
/// that move a cursor or reverse the direction of text.
pub(super) fn sanitize(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    for (at, c) in text.trim().chars().enumerate() {
        if at == chars_max {
            shown.push('…');
            break;
        }
        shown.push(match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            // Marks that reverse the text behind them.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                char::REPLACEMENT_CHARACTER
            }
            c => c,
        });
    }
    shown
}

fn choice(others: &[String]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let some: Vec<_> = others.iter().take(OTHERS_SHOWN).map(|name| sanitize(name, NAME_CHARS_MAX)).collect();
    let more = if others.len() > OTHERS_SHOWN { ", …" } else { "" };
    format!(", or choose one of {}{more}", some.join(", "))
}

fn sizes(tokens: Option<u64>, window: Option<u64>) -> String {
    match (tokens, window) {
        (Some(tokens), Some(window)) => format!(" ({tokens} tokens, and {window} are allowed)"),
        (None, Some(window)) => format!(" ({window} tokens are allowed)"),
        (Some(tokens), None) => format!(" ({tokens} tokens)"),
        (None, None) => String::new(),
    }
}

fn with(setting: Option<&'static str>) -> String {
    setting.map(|setting| format!(" with {setting}")).unwrap_or_default()
}

fn times(tries: u32) -> String {
    if tries == 1 { "once".to_owned() } else { format!("{tries} times") }
}

/// The settings that change the limits of an answer.
pub(super) const MAX_SILENCE: &str = "agent.max_silence";
pub(super) const MAX_ANSWER_BYTES: &str = "agent.max_answer_bytes";
const OTHERS_SHOWN: usize = 8;
/// Names of models and the like.
pub(super) const NAME_CHARS_MAX: usize = 100;
