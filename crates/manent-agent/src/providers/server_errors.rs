//! Errors of model servers: what a status, a message or a broken connection means.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{ModelError, sanitize};
use super::server::ApiKey;
use super::sse::{LINE_BYTES_MAX, LineError};

/// Makes the errors of one model on one server, with its name and address in them.
#[derive(Debug, Clone)]
pub(super) struct ServerErrors {
    /// Without a password.
    pub(super) url: String,
    pub(super) model: String,
    pub(super) key: Option<ApiKey>,
}

impl ServerErrors {
    /// Returns the error of a response with an error status.
    pub(super) fn refused(&self, status: u16, told: &ErrorReport, tries: u32) -> ModelError {
        let (url, message) = (self.url.clone(), self.message(told));
        if matches!(status, 401 | 403) {
            return ModelError::Refused { url, status, message };
        }
        if let Some(error) = self.known(told) {
            return error;
        }
        if told.is_no_model(status) {
            return ModelError::NoSuchModel { model: self.model.clone(), url, others: Vec::new() };
        }
        if matches!(status, 429 | 503) && !told.is_out_of_money() {
            return ModelError::Busy { url, status, tries, message };
        }
        ModelError::Server { url, status, message }
    }

    /// Returns the error that a server reports in the middle of an answer.
    pub(super) fn failed(&self, told: &ErrorReport) -> ModelError {
        let failed = || ModelError::Failed { url: self.url.clone(), message: self.message(told) };
        self.known(told).unwrap_or_else(failed)
    }

    /// Returns the errors that are recognised by their wording, whatever the status.
    fn known(&self, told: &ErrorReport) -> Option<ModelError> {
        let (url, model) = (self.url.clone(), self.model.clone());
        if told.is_too_long() {
            return Some(ModelError::TooLong { model, url, tokens: told.tokens, window: told.window });
        }
        told.is_no_tools().then_some(ModelError::NoTools { model, url })
    }

    /// Returns the message of a server, safe to display and without the key, which some servers quote when they refuse
    /// it.
    fn message(&self, told: &ErrorReport) -> String {
        let message = match &self.key {
            Some(key) => told.message.replace(key.secret(), "(the key)"),
            None => told.message.clone(),
        };
        let message = sanitize(&message, MESSAGE_CHARS_MAX);
        if message.is_empty() { "it does not say why".to_owned() } else { message }
    }

    pub(super) fn unreachable(&self, error: reqwest::Error) -> ModelError {
        ModelError::Unreachable { url: self.url.clone(), why: root_cause(&error.without_url()) }
    }

    pub(super) fn stalled(&self, after: Duration, setting: Option<&'static str>) -> ModelError {
        ModelError::Stalled { url: self.url.clone(), after, setting }
    }

    pub(super) fn ended(&self) -> ModelError {
        ModelError::Ended { url: self.url.clone() }
    }

    pub(super) fn broken(&self) -> ModelError {
        ModelError::Broken { url: self.url.clone() }
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ModelError> {
        serde_json::from_slice(body).map_err(|_| self.broken())
    }

    pub(super) fn too_large(&self, limit: usize, setting: Option<&'static str>) -> ModelError {
        ModelError::TooLarge { url: self.url.clone(), limit: limit as u64, setting }
    }

    pub(super) fn bad_line(&self, error: LineError) -> ModelError {
        match error {
            LineError::TooLong => self.too_large(LINE_BYTES_MAX, None),
            LineError::NoText => self.broken(),
        }
    }
}

/// Returns the message of the innermost error, which says what happened; the outer ones say where it passed.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    sanitize(&cause.to_string(), MESSAGE_CHARS_MAX)
}

/// The error report of a server. Every server has its own format.
#[derive(Debug, Default)]
pub(super) struct ErrorReport {
    message: String,
    /// `code` and `type`, where there are such.
    kind: String,
    tokens: Option<u64>,
    window: Option<u64>,
}

impl ErrorReport {
    /// Reads the body of an answer.
    pub(super) fn read(body: &[u8]) -> ErrorReport {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => ErrorReport::of(value.get("error").unwrap_or(&value)),
            Err(_) => ErrorReport {
                message: page_title(&text).unwrap_or_else(|| text.into_owned()),
                ..ErrorReport::default()
            },
        }
    }

    /// Reads the value of `error`, or what stands in its place.
    pub(super) fn of(error: &Value) -> ErrorReport {
        if let Some(text) = error.as_str() {
            // Some servers put the JSON of another one into their own.
            return match serde_json::from_str::<Value>(text) {
                Ok(inner @ Value::Object(_)) => ErrorReport::of(inner.get("error").unwrap_or(&inner)),
                _ => ErrorReport { message: text.to_owned(), ..ErrorReport::default() },
            };
        }
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        let message =
            [text("message"), text("detail"), text("error")].into_iter().find(|text| !text.is_empty());
        let count = |name: &str| error.get(name).and_then(Value::as_u64);
        ErrorReport {
            message: message.unwrap_or_default().to_owned(),
            kind: format!("{} {}", text("code"), text("type")),
            tokens: count("n_prompt_tokens"),
            window: count("n_ctx"),
        }
    }

    /// Returns true if the message has all these words. Most servers give nothing else to tell errors apart.
    fn says(&self, words: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        words.iter().all(|word| message.contains(word))
    }

    fn is_too_long(&self) -> bool {
        self.kind.contains("exceed_context_size")
            || self.kind.contains("context_length_exceeded")
            || self.says(&["maximum context length"])
            || self.says(&["context", "exceed"])
            || self.says(&["prompt", "too long"])
    }

    fn is_no_tools(&self) -> bool {
        self.says(&["does not support tools"])
            || self.says(&["tool choice requires"])
            || self.says(&["tools param requires"])
    }

    fn is_no_model(&self, status: u16) -> bool {
        let is_missing = self.says(&["model", "not found"]) || self.says(&["model", "does not exist"]);
        self.kind.contains("model_not_found") || (status == 404 && is_missing)
    }

    /// Returns true if the account has no money left: waiting does not help.
    fn is_out_of_money(&self) -> bool {
        self.kind.contains("insufficient_quota")
    }
}

/// Returns the title of a page. Proxies answer with pages, and their title says what is wrong.
fn page_title(text: &str) -> Option<String> {
    if !text.trim_start().starts_with('<') {
        return None;
    }
    let title = text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    let title = title.map_or("without a title", |(title, _)| title.trim());
    Some(format!("a web page, perhaps of a proxy: {title}"))
}

/// The longest message of a server that is shown.
const MESSAGE_CHARS_MAX: usize = 300;
