//! The HTTP client of a model server: its timeouts, and its retries.
//!
//! A request is sent again only as long as no part of its answer came: the caller has got such a part already, and
//! would
//! get it twice.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::{Client, Method, Request, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::error::{MAX_ANSWER_BYTES, MAX_SILENCE, ModelError, sanitize};
use super::reply_builder::ReplyBuilder;
use super::retry::{RetryPolicy, random, retry_after};
use super::server::ServerConfig;
use super::server_errors::{ErrorReport, ServerErrors};
use super::{OnEvent, ReplyEvent, address};

/// A client for one server.
#[derive(Clone)]
pub(super) struct Connection {
    client: Client,
    base: Url,
    headers: HeaderMap,
    pub(super) server_errors: ServerErrors,
    pub(super) retry_policy: RetryPolicy,
}

impl Connection {
    pub(super) fn new(base: Url, server: &ServerConfig, model: &str) -> Result<Connection, ModelError> {
        let (retry_policy, key) = (server.retry_policy, server.key.clone());
        let server_errors =
            ServerErrors { url: address::without_password(base.as_str()), model: model.to_owned(), key };
        let mut headers = HeaderMap::new();
        if let Some(key) = &server_errors.key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.secret()));
            let mut value = value.map_err(|_| ModelError::Unsendable(BAD_KEY))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        // Fails if one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("manent/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(retry_policy.connect)
            // Some servers close after five seconds; a request must not cross that on its way.
            .pool_idle_timeout(IDLE)
            // A question sent elsewhere takes the key and the conversation with it.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true);
        if address::is_here(&base) {
            builder = builder.no_proxy();
        }
        if base.scheme() == "http" {
            // Certificates of the system take time to load, and are missing in small containers.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|e| server_errors.unreachable(e))?;
        Ok(Connection { client, base, headers, server_errors, retry_policy })
    }

    /// The host of the server.
    pub(super) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// Sends a chat request until the server begins to answer it. If the server does not have the model, the error
    /// lists the models that it has; failing to get that list is not an error of its own.
    pub(super) async fn ask(
        &self,
        path: &str,
        body: String,
        asked: &super::Request,
        on: OnEvent<'_>,
        others: impl Future<Output = Result<Vec<String>, ModelError>>,
    ) -> Result<ResponseStream, ModelError> {
        let request = self.request(path, Some(body));
        let mut tries = 0;
        loop {
            tries += 1;
            // The body is shared, not copied.
            let Some(copy) = request.try_clone() else { return Err(self.server_errors.broken()) };
            let trouble = match self.send(copy, tries, self.retry_policy.first_byte, Some(MAX_SILENCE)).await
            {
                Ok(mut stream) => {
                    if asked.tools.is_some() {
                        stream.allow_calls();
                    }
                    return Ok(stream);
                }
                Err(SendError { error: ModelError::NoSuchModel { model, url, .. }, .. }) => {
                    let others = others.await.unwrap_or_default();
                    return Err(ModelError::NoSuchModel { model, url, others });
                }
                Err(trouble) => trouble,
            };
            let (allowed, why) = match &trouble.error {
                ModelError::Unreachable { why, .. } => (self.retry_policy.reach_tries, why.clone()),
                ModelError::Busy { status, message, .. } => {
                    (self.retry_policy.tries, format!("busy ({status}): {message}"))
                }
                ModelError::Server { status, message, .. } if trouble.error.is_transient() => {
                    (self.retry_policy.tries, format!("in trouble ({status}): {message}"))
                }
                _ => return Err(trouble.error),
            };
            if tries >= allowed {
                return Err(trouble.error);
            }
            let wait = self.retry_policy.wait(tries, trouble.wait, random());
            let after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            on(ReplyEvent::Again { after_ms, why: &why });
            tokio::time::sleep(wait).await;
        }
    }

    /// Asks once for something small in JSON, by POST if there is a body.
    pub(super) async fn fetch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<Value>,
        limit: Duration,
    ) -> Result<T, ModelError> {
        let body = body.map(|body| body.to_string());
        let sent = self.send(self.request(path, body), 1, limit, None).await;
        let mut stream = sent.map_err(|trouble| trouble.error)?;
        stream.retry_policy.answer_bytes = FETCHED_BYTES_MAX;
        stream.retry_policy.first_byte = limit;
        stream.retry_policy.between = limit.min(self.retry_policy.between);
        self.server_errors.parse(&stream.whole(Vec::new()).await?)
    }

    fn request(&self, path: &str, body: Option<String>) -> Request {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::new(method, address::join(&self.base, path));
        *request.headers_mut() = self.headers.clone();
        if let Some(body) = body {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.into());
        }
        request
    }

    async fn send(
        &self,
        request: Request,
        tries: u32,
        limit: Duration,
        setting: Option<&'static str>,
    ) -> Result<ResponseStream, SendError> {
        let response = match timeout(limit, self.client.execute(request)).await {
            Err(_) => return Err(self.server_errors.stalled(limit, setting).into()),
            Ok(Err(error)) => return Err(self.server_errors.unreachable(error).into()),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        let mut stream = ResponseStream {
            response,
            tries,
            server_errors: self.server_errors.clone(),
            retry_policy: self.retry_policy,
            setting,
            received: 0,
            is_begun: false,
            progressed: Instant::now(),
        };
        if status.is_success() {
            return Ok(stream);
        }
        let wait = stream.header(RETRY_AFTER.as_str()).and_then(retry_after);
        if status.is_redirection() {
            let elsewhere =
                sanitize(stream.header(LOCATION.as_str()).unwrap_or("elsewhere"), PLACE_CHARS_MAX);
            let message = format!("it sends us to {elsewhere}; configure that address if it is meant");
            let error =
                ModelError::Server { url: self.server_errors.url.clone(), status: status.as_u16(), message };
            return Err(error.into());
        }
        let told = ErrorReport::read(&stream.beginning().await);
        Err(SendError { error: self.server_errors.refused(status.as_u16(), &told, tries), wait })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may have a password in it, and the headers have the key.
        f.debug_struct("Connection").field("server_errors", &self.server_errors).finish_non_exhaustive()
    }
}

/// A request that was not answered, and after how long the server wants to be asked again.
struct SendError {
    error: ModelError,
    wait: Option<Duration>,
}

impl From<ModelError> for SendError {
    fn from(error: ModelError) -> SendError {
        SendError { error, wait: None }
    }
}

/// An answer as it comes.
pub(super) struct ResponseStream {
    response: Response,
    pub(super) tries: u32,
    pub(super) server_errors: ServerErrors,
    retry_policy: RetryPolicy,
    /// The setting that allows more time, for the error message.
    setting: Option<&'static str>,
    /// The bytes that came so far.
    received: usize,
    /// True once a part of the answer itself came.
    is_begun: bool,
    progressed: Instant,
}

impl ResponseStream {
    /// Allows more time between pieces, because some servers send nothing until a call of a tool is whole.
    pub(super) fn allow_calls(&mut self) {
        self.retry_policy.between = self.retry_policy.between.max(self.retry_policy.call);
    }

    /// Notes that a part of the answer came, and not only a sign of life.
    pub(super) fn progress(&mut self, answer: &ReplyBuilder<'_>) {
        self.progressed = Instant::now();
        // Before its first piece a server is silent because it still reads, or thinks and does not show it.
        self.is_begun |= answer.is_begun();
    }

    /// Shortens the timeout once the reply is finished: the rest of the stream is optional.
    pub(super) fn expect_end(&mut self) {
        self.retry_policy.between = self.retry_policy.between.min(LINGER);
    }

    /// The longest answer that is taken.
    pub(super) fn answer_bytes(&self) -> usize {
        self.retry_policy.answer_bytes
    }

    /// Reads the rest of the body behind `begun`. In JSON a byte may take six, which the limit allows for.
    pub(super) async fn whole(&mut self, begun: Vec<u8>) -> Result<Vec<u8>, ModelError> {
        let (mut whole, most) = (begun, self.answer_bytes().saturating_mul(6));
        while let Some(bytes) = self.chunk().await? {
            whole.extend_from_slice(&bytes);
            if whole.len() > most {
                return Err(self.server_errors.too_large(most, self.setting.map(|_| MAX_ANSWER_BYTES)));
            }
        }
        Ok(whole)
    }

    /// Waits for the next bytes; `None` at the end of the response.
    pub(super) async fn chunk(&mut self) -> Result<Option<impl Deref<Target = [u8]> + use<>>, ModelError> {
        let alive = if self.is_begun { self.retry_policy.between } else { self.retry_policy.first_byte };
        let limit = alive.min(self.retry_policy.first_byte.saturating_sub(self.progressed.elapsed()));
        match timeout(limit, self.response.chunk()).await {
            Err(_) => Err(self.server_errors.stalled(alive.min(self.retry_policy.first_byte), self.setting)),
            // Reset, or closed before what was announced had come.
            Ok(Err(_)) => Err(self.server_errors.ended()),
            Ok(Ok(chunk)) => {
                self.received = self.received.saturating_add(chunk.as_deref().map_or(0, <[u8]>::len));
                // A server can send for ever without saying anything.
                if self.received > self.retry_policy.wire_bytes() {
                    return Err(self
                        .server_errors
                        .too_large(self.retry_policy.wire_bytes(), Some(MAX_ANSWER_BYTES)));
                }
                Ok(chunk)
            }
        }
    }

    /// Reads the beginning of a message about an error, as far as it comes.
    async fn beginning(&mut self) -> Vec<u8> {
        self.retry_policy.first_byte = self.retry_policy.between.min(LINGER);
        let mut beginning = Vec::new();
        while beginning.len() < MESSAGE_BYTES_MAX {
            let Ok(Some(bytes)) = self.chunk().await else { break };
            beginning.extend_from_slice(&bytes);
        }
        beginning.truncate(MESSAGE_BYTES_MAX);
        beginning
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }
}

const BAD_KEY: &str = "the API key has characters that no header can carry; copy it again, on one line";
const IDLE: Duration = Duration::from_secs(4);
/// The timeout for parts of a response that are not needed.
const LINGER: Duration = Duration::from_secs(5);
const PLACE_CHARS_MAX: usize = 200;
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Lists of models and what is told of one; some servers tell the vocabulary.
const FETCHED_BYTES_MAX: usize = 8 << 20;
