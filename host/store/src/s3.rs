//! An S3-compatible store: credentials and endpoint from the environment (`AWS_*`), no retries of the
//! library's own (ours go by the seams), and `Retry-After` seen.

use async_trait::async_trait;
use headwater_env::Env;
use http::StatusCode;
use http::header::RETRY_AFTER;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::prefix::PrefixStore;
use object_store::{BackoffConfig, ObjectStore, Result, RetryConfig};
use parking_lot::Mutex;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Until when the store asked to be left alone.
#[derive(Clone)]
pub(crate) struct Hold {
    env: Env,
    until: Arc<Mutex<Duration>>,
}

impl Hold {
    pub(crate) fn new(env: Env) -> Hold {
        Hold { env, until: Arc::default() }
    }

    /// How long to leave the store alone from now on.
    pub(crate) fn remaining(&self) -> Duration {
        self.until.lock().saturating_sub(self.env.clock.monotonic())
    }

    fn ask(&self, time: Duration) {
        let until = self.env.clock.monotonic() + time.min(Duration::from_secs(60));
        let mut held = self.until.lock();
        *held = until.max(*held);
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.until.lock().fmt(f)
    }
}

#[derive(Debug)]
struct Connector {
    hold: Hold,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(Client { client, hold: self.hold.clone() }))
    }
}

#[derive(Debug)]
struct Client {
    client: HttpClient,
    hold: Hold,
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.client.execute(request).await?;
        if matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
            if let Some(seconds) = after.and_then(|text| text.trim().parse().ok()) {
                self.hold.ask(Duration::from_secs(seconds));
            }
        }
        Ok(response)
    }
}

/// Opens `s3://bucket/prefix` with settings named as in the environment.
pub(crate) fn open(
    url: &Url,
    settings: impl IntoIterator<Item = (String, String)>,
    hold: Hold,
) -> Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::new();
    for (name, value) in settings {
        let name = name.to_ascii_lowercase();
        let known = name.starts_with("aws_").then(|| AmazonS3ConfigKey::from_str(&name).ok());
        if let Some(key) = known.flatten() {
            builder = builder.with_config(key, value);
        }
    }
    let store = builder
        .with_bucket_name(url.host_str().unwrap_or_default())
        .with_retry(retry)
        .with_http_connector(Connector { hold })
        .build()?;
    let prefix = object_store::path::Path::from_url_path(url.path())?;
    if prefix.as_ref().is_empty() {
        Ok(Arc::new(store))
    } else {
        Ok(Arc::new(PrefixStore::new(store, prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_the_longest_that_was_asked_and_bounded() {
        let hold = Hold::new(Env::real());
        assert_eq!(hold.remaining(), Duration::ZERO);
        hold.ask(Duration::from_secs(20));
        hold.ask(Duration::from_secs(1));
        assert!(hold.remaining() > Duration::from_secs(18));
        hold.ask(Duration::from_secs(86_400));
        assert!(hold.remaining() <= Duration::from_secs(60));
    }
}
