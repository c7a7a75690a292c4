//! A small HTTP client: every request has a limit, redirects are followed only when asked, and the
//! answer says through whom it came.

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::time::Duration;

/// How many redirects are followed before it counts as a loop.
pub const MAX_HOPS: usize = 5;

/// A client with a pool of connections. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>,
}

impl Default for Client {
    fn default() -> Self {
        Client::new()
    }
}

impl Client {
    /// A client with no connection yet.
    pub fn new() -> Client {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(5)));
        let inner = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(60))
            .build(connector);
        Client { inner }
    }

    /// A request that is not sent yet.
    pub fn request(&self, method: &str, url: impl Into<String>) -> Request<'_> {
        Request {
            client: self,
            method: method.to_owned(),
            url: url.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            limit: crate::LIVE,
        }
    }

    /// GET.
    pub fn get(&self, url: impl Into<String>) -> Request<'_> {
        self.request("GET", url)
    }

    /// PUT.
    pub fn put(&self, url: impl Into<String>) -> Request<'_> {
        self.request("PUT", url)
    }

    /// POST.
    pub fn post(&self, url: impl Into<String>) -> Request<'_> {
        self.request("POST", url)
    }

    /// HEAD.
    pub fn head(&self, url: impl Into<String>) -> Request<'_> {
        self.request("HEAD", url)
    }

    /// DELETE.
    pub fn delete(&self, url: impl Into<String>) -> Request<'_> {
        self.request("DELETE", url)
    }

    /// Creates a stream of plain bytes and follows redirects; it must be new.
    pub async fn create(&self, url: impl Into<String>) -> Result<Answer> {
        self.put(url).content_type("application/octet-stream").follow().await?.expect(201)
    }

    /// Appends and follows redirects; it must be acknowledged.
    pub async fn append(&self, url: impl Into<String>, body: impl Into<Bytes>) -> Result<Answer> {
        let answer = self.post(url).content_type("application/octet-stream").body(body).follow().await?;
        ensure!(answer.status.is_success(), "the append was answered {}", answer.describe());
        Ok(answer)
    }

    /// Reads from the start until the server says that this is all, following redirects.
    pub async fn read_all(&self, url: &str) -> Result<Bytes> {
        let mut all = Vec::new();
        let mut offset = "-1".to_owned();
        loop {
            let answer = self.get(format!("{url}?offset={offset}")).follow().await?.expect(200)?;
            all.extend_from_slice(&answer.body);
            if answer.up_to_date() {
                return Ok(all.into());
            }
            let next = answer.next_offset().context("an answer without Stream-Next-Offset")?.to_owned();
            ensure!(next != offset, "a read of {url} does not get on from {offset}");
            offset = next;
        }
    }
}

/// A request that is being made up.
pub struct Request<'c> {
    client: &'c Client,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    limit: Duration,
}

impl Request<'_> {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets `Content-Type`.
    pub fn content_type(self, value: &str) -> Self {
        self.header("content-type", value)
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Another limit than [`crate::LIVE`].
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Sends it and follows no redirect.
    pub async fn send(self) -> Result<Answer> {
        let url = self.url.clone();
        self.send_to(&url).await
    }

    /// Sends it and follows redirects with the same method and body.
    pub async fn follow(self) -> Result<Answer> {
        let mut hops = Vec::new();
        let mut url = self.url.clone();
        loop {
            let mut answer = self.send_to(&url).await?;
            if answer.status != StatusCode::TEMPORARY_REDIRECT {
                answer.hops = hops;
                return Ok(answer);
            }
            let next = answer.header("location").context("a 307 without Location")?.to_owned();
            hops.push(next.clone());
            if hops.len() > MAX_HOPS {
                bail!("{} {} was redirected {} times: {hops:?}", self.method, self.url, hops.len());
            }
            url = next;
        }
    }

    async fn send_to(&self, url: &str) -> Result<Answer> {
        let mut builder =
            http::Request::builder().method(Method::from_bytes(self.method.as_bytes())?).uri(url);
        for (name, value) in &self.headers {
            builder = builder.header(name, value);
        }
        let request = builder.body(Full::new(self.body.clone()))?;
        let exchange = async {
            let answer = self.client.inner.request(request).await?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok(Answer {
                status: parts.status,
                headers: parts.headers,
                body,
                url: url.to_owned(),
                hops: Vec::new(),
            })
        };
        tokio::time::timeout(self.limit, exchange)
            .await
            .map_err(|_| anyhow!("no final answer within {:?}", self.limit))
            .and_then(|answer| answer)
            .with_context(|| format!("{} {url}", self.method))
    }
}

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its whole body.
    pub body: Bytes,
    /// The address that answered.
    pub url: String,
    /// The `Location` of each redirect on the way.
    pub hops: Vec<String>,
}

impl Answer {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The offset after what this answer is about.
    pub fn next_offset(&self) -> Option<&str> {
        self.header("stream-next-offset")
    }

    /// Whether the server says that there was nothing more.
    pub fn up_to_date(&self) -> bool {
        self.header("stream-up-to-date").is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }

    /// Itself when the status is this one.
    pub fn expect(self, status: u16) -> Result<Answer> {
        ensure!(self.status.as_u16() == status, "expected {status}, got {}", self.describe());
        Ok(self)
    }

    /// The body as JSON.
    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {}", self.describe()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Status, headers and the beginning of the body, for messages.
    pub fn describe(&self) -> String {
        let text: String = self.text().chars().take(300).collect();
        format!("{} {:?} {text:?} from {}", self.status, self.headers, self.url)
    }
}
