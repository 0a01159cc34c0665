//! Which model answers: what is configured, if somebody is there; else the record itself.

use manent::Store;

use crate::config::{Config, Provider};
use crate::providers::{Model, ModelError, Ollama, OpenAi, Recall, RetryPolicy, ServerConfig};

/// The model that was chosen.
#[derive(Debug, Clone)]
pub struct SelectedModel {
    /// The selected model.
    pub model: Model,
    /// The reason why it is not the configured model, and the remedy.
    pub why: Option<String>,
}

/// Looks who is there. `key`: for a server that wants one.
///
/// Where a provider is named, nothing else is taken in its place: whoever wants a model and gets another is misled.
pub async fn select_model(
    config: &Config,
    store: &Store,
    key: Option<&str>,
) -> Result<SelectedModel, ModelError> {
    let patience = config.retry_policy();
    let sure = |model: Model| Ok(SelectedModel { model, why: None });
    match config.provider {
        Provider::Recall => sure(Recall::new(store.clone()).into()),
        Provider::OpenAi => sure(openai(config, key, patience)?.into()),
        Provider::Ollama => sure(sized(ollama(config, patience)?, config).await.into()),
        Provider::Auto => {
            let ollama = ollama(config, patience)?;
            let why = match ollama.version().await {
                Ok(_) => match has(&ollama).await {
                    Ok(()) => return sure(sized(ollama, config).await.into()),
                    Err(error) => error.to_string(),
                },
                Err(_) if !config.openai_url.is_empty() => {
                    return sure(openai(config, key, patience)?.into());
                }
                Err(error) => error.to_string(),
            };
            Ok(SelectedModel { model: Recall::new(store.clone()).into(), why: Some(why) })
        }
    }
}

/// Refuses a model that the server does not have.
async fn has(ollama: &Ollama) -> Result<(), ModelError> {
    let others = ollama.models().await?;
    let wanted = ollama.name();
    // A name without a tag means the newest.
    let is_it = |name: &String| name == wanted || name.strip_suffix(":latest") == Some(wanted);
    if others.iter().any(is_it) {
        return Ok(());
    }
    Err(ModelError::NoSuchModel { model: wanted.to_owned(), url: ollama.url().to_owned(), others })
}

fn ollama(config: &Config, patience: RetryPolicy) -> Result<Ollama, ModelError> {
    let server = ServerConfig::at(&config.ollama_url).with_retry_policy(patience);
    let model = Ollama::new(&server, &config.model)?.with_keep_alive(&config.ollama_keep_alive);
    Ok(model.with_window(wanted_window(config)))
}

fn openai(config: &Config, key: Option<&str>, patience: RetryPolicy) -> Result<OpenAi, ModelError> {
    let mut server = ServerConfig::at(&config.openai_url).with_retry_policy(patience);
    if let Some(key) = key {
        server = server.with_key(key);
    }
    Ok(OpenAi::new(&server, &config.model)?.with_window(wanted_window(config)))
}

/// No window larger than the model has. A server that does not tell is taken at our word.
async fn sized(ollama: Ollama, config: &Config) -> Ollama {
    let most = ollama.capabilities().await.ok().and_then(|capabilities| capabilities.window);
    let window = wanted_window(config).min(most.unwrap_or(u64::MAX));
    ollama.with_window(window)
}

/// Returns the window for a context of the configured size and an answer.
fn wanted_window(config: &Config) -> u64 {
    config.limits.max_tokens.saturating_add(ANSWER_TOKENS)
}

/// The tokens that are left free for an answer.
pub const ANSWER_TOKENS: u64 = 4096;
