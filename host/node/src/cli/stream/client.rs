//! A client of streams: a request, its redirects, the answer as it comes.
//!
//! The target of a redirect gets what the first node got, the request id included, so one id is found in
//! the logs of all nodes. Reads are repeated after a 503 or a broken connection; what writes is not:
//! whether it took effect is for the person to find out.

use anyhow::{Context, bail};
use bytes::Bytes;
use headwater_env::Env;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::time::Duration;
use url::Url;

const MAX_HOPS: usize = 10;
/// For the head of an answer; a long-poll may take its time.
const PATIENCE: Duration = Duration::from_secs(90);
/// What cannot stand in a path. A percent sign can: names are given as in the URL.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'`').add(b'#').add(b'?');

/// A client of the streams of one cluster, through one of its nodes.
pub struct StreamClient {
    env: Env,
    base: String,
    request_id: String,
}

/// What a node answered; the body is still to come.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// Who answered.
    pub url: String,
    body: Incoming,
}

impl Answer {
    /// A header as text.
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next piece of the body.
    pub async fn piece(&mut self) -> anyhow::Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            let broken = || format!("{} broke off", self.url);
            if let Ok(data) = frame.with_context(broken)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// The whole body.
    pub async fn bytes(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.piece().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    /// Itself when it is a success; otherwise an error with what the node said.
    pub async fn success(mut self) -> anyhow::Result<Answer> {
        if self.status.is_success() {
            return Ok(self);
        }
        let body = self.bytes().await.unwrap_or_default();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        match problem.get("detail").and_then(serde_json::Value::as_str) {
            Some(detail) => bail!("{detail} ({}, {})", self.status.as_u16(), self.url),
            None => bail!("{} answered {}", self.url, self.status),
        }
    }
}

impl StreamClient {
    /// A client that asks the node at `url`.
    pub fn new(env: Env, url: &str) -> anyhow::Result<StreamClient> {
        let base = Url::parse(url).with_context(|| format!("`{url}` is not a URL"))?;
        if base.scheme() != "http" || base.host().is_none() {
            bail!("`{url}` is not the URL of a node: write http://HOST:PORT");
        }
        let request_id = format!("{:016x}", env.entropy.u64());
        Ok(StreamClient { env, base: url.trim_end_matches('/').to_owned(), request_id })
    }

    /// The path of a stream: its name with a slash before it, and what cannot stand in a URL encoded.
    pub fn path(name: &str) -> String {
        let slash = if name.starts_with('/') { "" } else { "/" };
        format!("{slash}{}", utf8_percent_encode(name, ENCODED))
    }

    /// Sends a request and follows redirects.
    pub async fn send(
        &self,
        method: Method,
        target: &str,
        headers: &[(HeaderName, String)],
        body: Bytes,
    ) -> anyhow::Result<Answer> {
        let mut url = format!("{}{target}", self.base);
        for _ in 0..=MAX_HOPS {
            let asked = format!("{method} {url}");
            let request = self.request(&method, &url, headers, body.clone())?;
            let answer = self.env.timeout(PATIENCE, self.exchange(&url, request)).await;
            let answer = answer.with_context(|| format!("{asked}: no answer within {PATIENCE:?}"))?;
            let answer = answer.with_context(|| asked)?;
            if answer.status != StatusCode::TEMPORARY_REDIRECT {
                return Ok(answer);
            }
            url = answer.header(&header::LOCATION).context("a redirect without Location")?.to_owned();
        }
        bail!("{method} {target}: more than {MAX_HOPS} redirects")
    }

    /// Sends a request that changes nothing; comes again, for up to `patience`, when nobody serves it now.
    pub async fn get(&self, method: Method, target: &str, patience: Duration) -> anyhow::Result<Answer> {
        let end = self.env.clock.monotonic() + patience;
        loop {
            let answer = self.send(method.clone(), target, &[], Bytes::new()).await;
            let over = self.env.clock.monotonic() >= end;
            let why = match answer {
                Ok(answer) if answer.status != StatusCode::SERVICE_UNAVAILABLE || over => return Ok(answer),
                Ok(answer) => format!("{} answered {}", answer.url, answer.status),
                Err(error) if over => return Err(error),
                Err(error) => format!("{error:#}"),
            };
            tracing::debug!(why, "asks again");
            self.env.clock.sleep(Duration::from_secs(1)).await;
        }
    }

    fn request(
        &self,
        method: &Method,
        url: &str,
        headers: &[(HeaderName, String)],
        body: Bytes,
    ) -> anyhow::Result<Request<Full<Bytes>>> {
        let uri: Uri = url.parse().with_context(|| format!("`{url}` is not a URL"))?;
        let authority = uri.authority().with_context(|| format!("`{url}` names no host"))?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, authority.as_str())
            .header("x-request-id", &self.request_id);
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).with_context(|| format!("{name}: `{value}`"))?;
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(body))?)
    }

    async fn exchange(&self, url: &str, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let uri = Url::parse(url)?;
        let host = uri.host_str().unwrap_or_default();
        let port = uri.port_or_known_default().unwrap_or(80);
        let connection = self.env.net.connect(&format!("{host}:{port}")).await?;
        let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(connection)).await?;
        tokio::spawn(driver);
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, url: url.to_owned(), body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_paths() {
        for (name, path) in [
            ("/a/b", "/a/b"),
            ("a", "/a"),
            ("/a b", "/a%20b"),
            ("/a%2Fb", "/a%2Fb"),
            ("/日", "/%E6%97%A5"),
            ("/a?b#c", "/a%3Fb%23c"),
            ("/a/../b", "/a/../b"),
        ] {
            assert_eq!(StreamClient::path(name), path);
        }
    }
}
