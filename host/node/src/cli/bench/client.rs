//! One lane of the load: a request at a time, over connections that it keeps, one for each node that it
//! was led to. Follows redirects and never repeats a request.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use headwater_env::Env;
use http::{Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
const MAX_HOPS: usize = 5;

/// What a node answered.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// Where the answer came from, without the query.
    pub url: String,
    /// `Stream-Next-Offset`, empty when there is none.
    pub next: String,
    /// `Stream-Up-To-Date`.
    pub up_to_date: bool,
    /// Bytes of the body.
    pub length: usize,
}

impl Answer {
    /// Itself when the status is one of these.
    pub fn expect(self, statuses: &[u16]) -> anyhow::Result<Answer> {
        ensure!(statuses.contains(&self.status.as_u16()), "{} answered {}", self.url, self.status);
        Ok(self)
    }
}

/// The connections of one lane.
pub struct Connection {
    env: Env,
    open: BTreeMap<String, SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// No connection yet.
    pub fn new(env: &Env) -> Connection {
        Connection { env: env.clone(), open: BTreeMap::new() }
    }

    /// Sends a request and follows redirects.
    pub async fn call(&mut self, method: Method, url: &str, body: Bytes) -> anyhow::Result<Answer> {
        let env = self.env.clone();
        let called = env.timeout(LIMIT, self.follow(method, url, body)).await;
        called.with_context(|| format!("{url}: no answer within {LIMIT:?}"))?
    }

    async fn follow(&mut self, method: Method, url: &str, body: Bytes) -> anyhow::Result<Answer> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_HOPS {
            match self.send(method.clone(), &url, body.clone()).await {
                Ok(Reply::Answer(answer)) => return Ok(answer),
                Ok(Reply::Redirect(next)) => url = next,
                Err(error) => {
                    // The next request starts on a fresh connection.
                    self.open.clear();
                    return Err(error);
                }
            }
        }
        bail!("{url}: more than {MAX_HOPS} redirects")
    }

    async fn send(&mut self, method: Method, url: &str, body: Bytes) -> anyhow::Result<Reply> {
        let uri: Uri = url.parse()?;
        let authority = uri.authority().context("a URL without a host")?.to_string();
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &authority)
            .header(header::CONTENT_TYPE, "application/octet-stream")
            .body(Full::new(body))?;
        let sender = self.sender(authority).await?;
        sender.ready().await?;
        let mut response = sender.send_request(request).await?;
        let mut length = 0;
        while let Some(frame) = response.body_mut().frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        let text = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or("");
        if response.status() == StatusCode::TEMPORARY_REDIRECT {
            return Ok(Reply::Redirect(text("location").to_owned()));
        }
        Ok(Reply::Answer(Answer {
            status: response.status(),
            url: url.split('?').next().unwrap_or(url).to_owned(),
            next: text("stream-next-offset").to_owned(),
            up_to_date: text("stream-up-to-date") == "true",
            length,
        }))
    }

    async fn sender(&mut self, authority: String) -> anyhow::Result<&mut SendRequest<Full<Bytes>>> {
        if self.open.get(&authority).is_none_or(SendRequest::is_closed) {
            let connection = self.env.net.connect(&authority).await?;
            let (sender, driver) = handshake(TokioIo::new(connection)).await?;
            tokio::spawn(driver);
            self.open.insert(authority.clone(), sender);
        }
        self.open.get_mut(&authority).context("a connection just made")
    }
}

enum Reply {
    Answer(Answer),
    Redirect(String),
}
