//! The configuration of a server: its address, its key, and the policy of retries.

use std::fmt;

use super::address::without_password;
use super::retry::RetryPolicy;

/// The address, the key and the limits of a model server.
#[derive(Clone)]
pub struct ServerConfig {
    pub(super) url: String,
    pub(super) key: Option<ApiKey>,
    pub(super) retry_policy: RetryPolicy,
}

impl ServerConfig {
    /// A server at an address such as `http://127.0.0.1:11434`, without a key, with the default retry policy.
    pub fn at(url: impl Into<String>) -> ServerConfig {
        ServerConfig { url: url.into(), key: None, retry_policy: RetryPolicy::default() }
    }

    /// The same, with a key. An empty one is none.
    #[must_use]
    pub fn with_key(self, key: &str) -> ServerConfig {
        let key = key.trim();
        ServerConfig { key: (!key.is_empty()).then(|| ApiKey(key.to_owned())), ..self }
    }

    /// The same, with other limits.
    #[must_use]
    pub fn with_retry_policy(self, retry_policy: RetryPolicy) -> ServerConfig {
        ServerConfig { retry_policy, ..self }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("url", &without_password(&self.url))
            .field("key", &self.key)
            .field("retry_policy", &self.retry_policy)
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
