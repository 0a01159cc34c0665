//! A server as it is configured: where, with which key, with how much patience.

use std::fmt;

use super::address::without_password;
use super::retry::RetryPolicy;

/// The address, the key and the limits of a model server.
#[derive(Clone)]
pub struct ServerConfig {
    pub(super) url: String,
    pub(super) key: Option<ApiKey>,
    pub(super) patience: RetryPolicy,
}

impl ServerConfig {
    /// A server at an address such as `http://127.0.0.1:11434`, without a key, with the usual patience.
    pub fn at(url: impl Into<String>) -> ServerConfig {
        ServerConfig { url: url.into(), key: None, patience: RetryPolicy::default() }
    }

    /// The same, with a key. An empty one is none.
    #[must_use]
    pub fn with_key(self, key: &str) -> ServerConfig {
        let key = key.trim();
        ServerConfig { key: (!key.is_empty()).then(|| ApiKey(key.to_owned())), ..self }
    }

    /// The same, with other limits.
    #[must_use]
    pub fn with_retry_policy(self, patience: RetryPolicy) -> ServerConfig {
        ServerConfig { patience, ..self }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("url", &without_password(&self.url))
            .field("key", &self.key)
            .field("patience", &self.patience)
            .finish()
    }
}

/// A key; its secret is not shown.
#[derive(Clone)]
pub(super) struct ApiKey(String);

impl ApiKey {
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}
