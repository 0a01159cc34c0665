//! Where a server is: what people write as its address, and what of it is shown.

use reqwest::Url;

use super::error::{ModelError, NAME_CHARS_MAX, sanitize};

/// Reads an address. People leave out the scheme; without it, and without a port, this port is meant.
pub(super) fn read(text: &str, port: Option<u16>) -> Result<Url, ModelError> {
    let text = text.trim();
    let is_bare = !text.contains("://");
    let whole = if is_bare { format!("http://{text}") } else { text.to_owned() };
    let wrong = |why: &str| ModelError::Address { url: without_password(text), why: why.to_owned() };
    let mut url = Url::parse(&whole).map_err(|e| wrong(&e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("neither http nor https"));
    }
    if is_bare && url.port().is_none() && port.is_some() {
        url.set_port(port).map_err(|()| wrong("no port can be set"))?;
    }
    // What a server is told to listen on is everywhere; what is meant is here.
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        url.set_host(Some("127.0.0.1")).map_err(|e| wrong(&e.to_string()))?;
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// The address of a path on a server.
pub(super) fn join(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{path}", base.path().trim_end_matches('/')));
    url
}

/// The base of an interface like OpenAI's: with its version at the end, and no more.
pub(super) fn with_version(mut base: Url) -> Url {
    let path = base.path().trim_end_matches('/');
    let path = path.strip_suffix("/chat/completions").unwrap_or(path);
    let is_version = |part: &str| {
        part.strip_prefix('v').is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
    };
    let path = if path.split('/').any(is_version) { path.to_owned() } else { format!("{path}/v1") };
    base.set_path(&path);
    base
}

/// Returns true if `url` names this machine, which is reached without a proxy.
pub(super) fn is_here(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_loopback || host == "localhost" || host.ends_with(".localhost")
}

/// An address as it is shown in errors.
pub(super) fn without_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(rest, |at| &rest[at + 1..]);
    let host = &host[..host.find(['?', '#']).unwrap_or(host.len())];
    let separator = if scheme.is_empty() { "" } else { "://" };
    sanitize(format!("{scheme}{separator}{host}").trim_end_matches('/'), NAME_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let ollama = |text: &str| read(text, Some(11434)).unwrap().to_string();
        assert_eq!(ollama("localhost"), "http://localhost:11434/");
        assert_eq!(ollama("localhost:8080"), "http://localhost:8080/");
        assert_eq!(ollama(" 0.0.0.0 "), "http://127.0.0.1:11434/");
        assert_eq!(ollama("http://box/"), "http://box/");
        assert_eq!(ollama("https://box/ollama?x=1#y"), "https://box/ollama");
        assert_eq!(ollama("[::1]:9"), "http://[::1]:9/");
        let chat = join(&read("http://box/ollama/", None).unwrap(), "api/chat");
        assert_eq!(chat.as_str(), "http://box/ollama/api/chat");
        for wrong in ["", "http://", "ftp://box", "http://a b", "file:///etc/passwd", "localhost:port"] {
            assert!(matches!(read(wrong, None), Err(ModelError::Address { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_version_is_added_where_there_is_none() {
        let base = |text: &str| with_version(read(text, None).unwrap()).to_string();
        assert_eq!(base("http://box:8080"), "http://box:8080/v1");
        assert_eq!(base("http://box:8080/v1/"), "http://box:8080/v1");
        assert_eq!(base("http://box/llm"), "http://box/llm/v1");
        assert_eq!(base("https://box/v1beta/openai/"), "https://box/v1beta/openai");
        assert_eq!(base("https://box/api/v1/chat/completions"), "https://box/api/v1");
    }

    #[test]
    fn passwords_are_not_shown_and_this_machine_is_known() {
        assert_eq!(without_password("https://me:secret@box/v1/"), "https://box/v1");
        assert_eq!(without_password("me:secret@box?key=secret"), "box");
        let error = read("http://me:secret@a b", None).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
        for (text, here) in [
            ("localhost", true),
            ("127.8.8.8", true),
            ("[::1]", true),
            ("models.localhost", true),
            ("localhost.example.com", false),
            ("192.168.0.1", false),
        ] {
            assert_eq!(is_here(&read(text, None).unwrap()), here, "{text}");
        }
    }
}
