//! A small client of the admin API: one request, one connection, JSON back.
//!
//! Never retries: a person reads the answer. Errors carry what the node said (`detail` of a problem
//! document) instead of a bare status.

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use headwater_env::Env;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// Where the admin API is, and how its output is written.
#[derive(Args, Clone, Debug)]
pub struct AdminArgs {
    /// Admin API of any node.
    #[arg(
        long = "admin",
        env = "HEADWATER_ADMIN_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:4537",
        global = true
    )]
    pub url: String,
    /// File with the token that the admin API asks for.
    #[arg(long = "token-file", env = "HEADWATER_ADMIN_TOKEN_FILE", value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Write JSON, for scripts.
    #[arg(long, env = "HEADWATER_JSON", global = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub json: bool,
}

/// A client of one admin listener.
pub struct AdminClient {
    env: Env,
    base: Url,
    token: Option<String>,
    patience: Duration,
}

/// What a node answered.
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body; `Null` when it has none or is no JSON.
    pub body: Value,
}

impl AdminClient {
    /// A client of the admin API that the flags name.
    pub fn new(env: Env, args: &AdminArgs) -> anyhow::Result<AdminClient> {
        let base = Url::parse(&args.url).with_context(|| format!("`{}` is not a URL", args.url))?;
        if base.scheme() != "http" || base.host().is_none() {
            bail!("`{}` is not the URL of an admin API: write http://HOST:PORT", args.url);
        }
        let token = match &args.token_file {
            Some(file) => Some(read_secret(&env, file)?),
            None => None,
        };
        Ok(AdminClient { env, base, token, patience: Duration::from_secs(30) })
    }

    /// Gives up after this time instead of 30 s.
    pub fn patience(mut self, patience: Duration) -> AdminClient {
        self.patience = patience;
        self
    }

    /// Sends a request and gives whatever came back.
    pub async fn request(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Answer> {
        let asked = format!("{method} {}{path}", self.base.as_str().trim_end_matches('/'));
        match self.env.timeout(self.patience, self.exchange(method, path, body)).await {
            Some(answer) => answer.with_context(|| asked),
            None => bail!("{asked}: no answer within {:?}", self.patience),
        }
    }

    /// Sends a request and gives the body of a success; anything else is an error with what the node said.
    pub async fn call(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Value> {
        let answer = self.request(method, path, body).await?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        let text = |key: &str| answer.body.get(key).and_then(Value::as_str).map(str::to_owned);
        match text("detail").or_else(|| text("title")) {
            Some(why) => bail!("{why}"),
            None => bail!("the node answered {}", answer.status),
        }
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// `POST` of a JSON value.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::POST, path, Bytes::from(body.to_string())).await
    }

    async fn exchange(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Answer> {
        let authority = self.base.authority().to_owned();
        let port = self.base.port_or_known_default().unwrap_or(80);
        let host = self.base.host_str().unwrap_or_default();
        let connection = self.env.net.connect(&format!("{host}:{port}")).await?;
        let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(connection)).await?;
        tokio::spawn(driver);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, authority);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let response = sender.send_request(request.body(Full::new(body))?).await?;
        let status = response.status();
        let bytes = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) })
    }
}

/// Reads a secret from a file: its text without the white space around it.
pub fn read_secret(env: &Env, file: &std::path::Path) -> anyhow::Result<String> {
    let bytes = env.disk.read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = String::from_utf8(bytes).with_context(|| format!("{} is not text", file.display()))?;
    match text.trim() {
        "" => bail!("{} is empty", file.display()),
        secret => Ok(secret.to_owned()),
    }
}
