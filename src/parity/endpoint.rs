//! A server that is asked over HTTP: JSON out, JSON back.

use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::json::{self, Value};

/// Most bytes of a reply that are read.
pub const MAX_REPLY_BYTES: u64 = 64 << 20;

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a reply may take, from the first byte sent to the last one read: a model may compute for minutes.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Characters of a reply that is not JSON which its error quotes.
const MAX_QUOTED: usize = 120;

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The HTTP status, which may be one of failure: what it means is for the caller to say.
    pub status: u16,
    /// The body.
    pub body: Value,
}

/// A server under one URL. Requests go straight to it: no proxy of the environment is used and no redirect followed.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `http://host:port/prefix`, without a slash at its end.
    base: String,
    timeout: Duration,
    agent: ureq::Agent,
}

impl Endpoint {
    /// The server at `url`, which is `http://host:port` or `http://host:port/prefix`; port 80 when none is named. It is not
    /// asked anything yet.
    ///
    /// # Errors
    /// The URL is of another form.
    pub fn new(url: &str) -> Result<Self> {
        Self::with_timeout(url, TIMEOUT)
    }

    /// As [`Endpoint::new`], with the time a reply may take instead of ten minutes.
    ///
    /// # Errors
    /// As [`Endpoint::new`].
    pub fn with_timeout(url: &str, timeout: Duration) -> Result<Self> {
        let base = base(url).map_err(|why| {
            let message = format!("{}: {why}; write http://HOST:PORT or http://HOST:PORT/PREFIX", url.escape_debug());
            Error::new(ErrorKind::Usage, message)
        })?;
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(timeout))
            .user_agent(concat!("laya/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { base, timeout, agent: config.new_agent() })
    }

    /// The URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Sends `body` to `path` under the URL.
    ///
    /// # Errors
    /// The server cannot be reached, takes too long, or answers with something that is not JSON or more than
    /// [`MAX_REPLY_BYTES`]. The error names the URL.
    pub fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        let (status, body) = self.try_post(path, body)?;
        Ok(Reply { status, body: body? })
    }

    /// As [`Endpoint::post`], but what is not JSON is left to the caller: whatever stands between it and the server answers
    /// failures in its own words.
    ///
    /// # Errors
    /// The server cannot be reached, takes too long or answers with more than [`MAX_REPLY_BYTES`]. The error names the URL.
    pub(super) fn try_post(&self, path: &str, body: &Value) -> Result<(u16, Result<Value>)> {
        let url = self.at(path);
        let request = self.agent.post(&url).header("content-type", "application/json");
        self.receive(&url, request.send(body.dumps_compact().as_bytes()))
    }

    /// Asks for `path` under the URL.
    ///
    /// # Errors
    /// As [`Endpoint::post`].
    pub fn get(&self, path: &str) -> Result<Reply> {
        let (status, body) = self.try_get(path)?;
        Ok(Reply { status, body: body? })
    }

    /// As [`Endpoint::try_post`], without a body.
    ///
    /// # Errors
    /// As [`Endpoint::try_post`].
    pub(super) fn try_get(&self, path: &str) -> Result<(u16, Result<Value>)> {
        let url = self.at(path);
        self.receive(&url, self.agent.get(&url).call())
    }

    /// The URL of `path`.
    fn at(&self, path: &str) -> String {
        format!("{}/{}", self.base, path.trim_start_matches('/'))
    }

    /// The status of a reply to a request to `url`, and its body if that is JSON.
    fn receive(
        &self,
        url: &str,
        sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<(u16, Result<Value>)> {
        let fail = |message: String| Error::new(ErrorKind::Endpoint, format!("{url}: {message}"));
        let mut response = sent.map_err(|error| fail(self.why(&error)))?;
        let status = response.status().as_u16();
        let read = response.body_mut().with_config().limit(MAX_REPLY_BYTES).read_to_vec();
        let bytes = read.map_err(|error| fail(self.why(&error)))?;
        let body = json::parse(&bytes).map_err(|error| {
            let body = String::from_utf8_lossy(&bytes);
            let quoted: String = body.trim().chars().take(MAX_QUOTED).collect();
            let rest = if body.trim().chars().count() > MAX_QUOTED { "..." } else { "" };
            let said = if quoted.is_empty() { "nothing".into() } else { format!("{quoted:?}{rest}") };
            fail(format!(
                "answers status {status} with {said}, which is not JSON ({error}); is this the URL of the server, with \
                 its prefix?"
            ))
        });
        Ok((status, body))
    }

    /// What went wrong, and what to do about it.
    fn why(&self, error: &ureq::Error) -> String {
        let start = "is the server running, and is this its URL?";
        match error {
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                format!("no connection within {} s; {start}", CONNECT_TIMEOUT.as_secs())
            }
            ureq::Error::Timeout(_) => format!(
                "no answer within {} s; the server computes too slowly or hangs: ask for less at a time, or allow more \
                 time",
                self.timeout.as_secs_f64()
            ),
            ureq::Error::HostNotFound => "there is no such host; correct the URL".into(),
            ureq::Error::BodyExceedsLimit(_) => {
                format!("answers more than {} MiB; is this the URL of the server?", MAX_REPLY_BYTES >> 20)
            }
            ureq::Error::Io(source) => match source.kind() {
                io::ErrorKind::ConnectionRefused => format!("connection refused; {start}"),
                io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::UnexpectedEof => {
                    format!("the server closed the connection without a whole answer ({source}); its log says why")
                }
                _ => format!("{source}; {start}"),
            },
            ureq::Error::Protocol(source) => format!("does not speak HTTP ({source}); {start}"),
            error => format!("{error}; {start}"),
        }
    }
}

/// `url` without a slash at its end, or what is wrong with it.
fn base(url: &str) -> Result<String, String> {
    if url.is_empty() {
        return Err("the URL is empty".into());
    }
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        Some(("https", _)) => {
            return Err(
                "https is not supported: this build has no TLS; name a server on this machine, or one behind a \
                        tunnel to it (ssh -L)"
                    .into(),
            );
        }
        Some((scheme, _)) => return Err(format!("{:?} is not http", scheme)),
        None => return Err("does not begin with http://".into()),
    };
    let (authority, prefix) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    if authority.contains('@') {
        return Err("a user or password in the URL is not supported".into());
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (address, after) = inner.split_once(']').ok_or("the address in brackets is not closed")?;
            address.parse::<Ipv6Addr>().map_err(|_| format!("{address:?} is not an IPv6 address"))?;
            match after.strip_prefix(':') {
                Some(port) => (address, Some(port)),
                None if after.is_empty() => (address, None),
                None => return Err(format!("{after:?} follows the address")),
            }
        }
        None => {
            let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            if !host.chars().all(is_name) {
                return Err(format!("{host:?} is not a host name"));
            }
            (host, port)
        }
    };
    if host.is_empty() {
        return Err("has no host".into());
    }
    if let Some(port) = port {
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || !port.parse::<u16>().is_ok_and(|port| port > 0) {
            return Err(format!("{port:?} is not a port from 1 to 65535"));
        }
    }
    let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '/' | '%' | '+' | ':');
    if let Some(c) = prefix.chars().find(|c| !is_path(*c)) {
        return Err(match c {
            '?' | '#' => "a query or fragment in the URL is not supported".into(),
            c => format!("the path holds {c:?}, which must be written with %"),
        });
    }
    Ok(url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_servers() {
        for (url, path, whole) in [
            ("http://127.0.0.1:8080", "/completion", "http://127.0.0.1:8080/completion"),
            ("http://localhost", "props", "http://localhost/props"),
            ("http://[::1]:80/", "/props", "http://[::1]:80/props"),
            ("http://gpu-1.lan:65535/api/v1//", "/x", "http://gpu-1.lan:65535/api/v1/x"),
        ] {
            assert_eq!(Endpoint::new(url).unwrap().at(path), whole);
        }
    }

    #[test]
    fn every_way_a_url_can_be_wrong() {
        for (url, part) in [
            ("", "is empty"),
            ("127.0.0.1:8080", "does not begin with http://"),
            ("ftp://host:1", "\"ftp\" is not http"),
            ("HTTP://host:1", "\"HTTP\" is not http"),
            ("https://host:443", "https is not supported"),
            ("http://", "has no host"),
            ("http://:80", "has no host"),
            ("http:///prefix", "has no host"),
            ("http://host:", "\"\" is not a port"),
            ("http://host:0", "\"0\" is not a port"),
            ("http://host:65536", "\"65536\" is not a port"),
            ("http://host:+80", "\"+80\" is not a port"),
            ("http://host:80:81", "is not a port"),
            ("http://ho st:80", "\"ho st\" is not a host name"),
            ("http://h\u{f6}st:80", "is not a host name"),
            ("http://user:pass@host:80", "a user or password"),
            ("http://[::1:80", "not closed"),
            ("http://[host]:80", "is not an IPv6 address"),
            ("http://[::1]80", "\"80\" follows the address"),
            ("http://host:80/a?b=1", "a query or fragment"),
            ("http://host:80/a#b", "a query or fragment"),
            ("http://host:80/a b", "the path holds ' '"),
            ("http://host:80/\u{1b}[2J", "the path holds '\\u{1b}'"),
        ] {
            let error = Endpoint::new(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            let text = error.to_string();
            assert!(text.contains(part) && text.contains("write http://HOST:PORT"), "{url:?}: {text}");
            assert!(!text.contains('\u{1b}'), "{text:?}");
        }
    }
}
