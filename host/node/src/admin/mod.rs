//! The admin API: a listener of its own, JSON in and out, on loopback unless a token protects it.
//!
//! Reads: `mod.rs` (accept, authorise, dispatch) → `api.rs` (what is where) · `change.rs` (what an
//! operator changes) · `policies.rs` · `metrics.rs`. Never serves a stream's bytes.

mod api;
mod change;
mod metrics;
mod policies;
mod problem;

pub use problem::Problem;

use crate::node::Parts;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use headwater_env::{Env, Listener};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;

/// Body of an answer.
pub type Body = Full<Bytes>;

/// The largest request: a policy and a little.
const MAX_REQUEST: usize = headwater_policy::MAX_COMPONENT_BYTES + 64 * 1024;
/// Nobody keeps an admin connection waiting for its request longer than this.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The admin API of one node. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    token: Option<String>,
    /// `None` until the node has its raft member.
    parts: ArcSwapOption<Parts>,
}

impl Admin {
    /// An API that knows nothing yet; requests must bear the token when there is one.
    pub fn new(env: Env, token: Option<String>) -> Admin {
        Admin { inner: Arc::new(Inner { env, token, parts: ArcSwapOption::empty() }) }
    }

    /// From now on it shows this node.
    pub fn show(&self, parts: Arc<Parts>) {
        self.inner.parts.store(Some(parts));
    }

    /// Accepts connections for ever.
    pub async fn serve(self, listener: Box<dyn Listener>) {
        loop {
            let connection = match listener.accept().await {
                Ok((connection, _)) => connection,
                Err(error) => {
                    tracing::warn!(%error, "the admin listener cannot accept");
                    self.inner.env.clock.sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let admin = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let admin = admin.clone();
                    async move { Ok::<_, Infallible>(admin.answer(request).await) }
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .timer(hyper_util::rt::TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .serve_connection(TokioIo::new(connection), service)
                    .await;
                if let Err(error) = served {
                    tracing::debug!(%error, "an admin connection ended early");
                }
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match self.dispatch(request).await {
            Ok(answer) => answer,
            Err(problem) => problem.answer(),
        }
    }

    async fn dispatch(&self, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        let parts = self.inner.parts.load_full();
        let path = request.uri().path().to_owned();
        // A supervisor's probes need no token: they tell nothing of the cluster.
        match path.as_str() {
            "/health" => return Ok(api::health(parts.as_deref())),
            "/ready" => return Ok(api::ready(parts.as_deref())),
            _ => self.authorise(&request)?,
        }
        let parts = parts.ok_or_else(|| Problem::unavailable("the node is starting"))?;
        let (method, query) = (request.method().clone(), request.uri().query().unwrap_or("").to_owned());
        let call = Call { parts: &parts, request };
        match (&method, segments(&path).as_slice()) {
            (&Method::GET, ["metrics"]) => Ok(metrics::answer(&parts)),
            (&Method::GET, ["admin", "cluster"]) => Ok(api::cluster(&parts)),
            (&Method::GET, ["admin", "nodes"]) => Ok(api::nodes(&parts)),
            (&Method::POST, ["admin", "nodes", id]) => change::set_node(call, id).await,
            (&Method::DELETE, ["admin", "nodes", id]) => change::evict(&parts, id).await,
            (&Method::GET, ["admin", "streams"]) => api::streams(&parts, &query),
            (&Method::GET, ["admin", "streams", ..]) => api::stream(&parts, stream_name(&path)).await,
            (&Method::POST, ["admin", "streams", .., "accept-loss"]) => {
                let name = stream_name(&path);
                change::accept_loss(&parts, name.strip_suffix("/accept-loss").unwrap_or(name)).await
            }
            (&Method::POST, ["admin", "transfer"]) => change::transfer(call).await,
            (&Method::GET, ["admin", "policies"]) => policies::list(&parts).await,
            (&Method::POST, ["admin", "policies", "activate"]) => policies::activate(call).await,
            (&Method::POST, ["admin", "policies", "rollback"]) => policies::rollback(&parts).await,
            (&Method::PUT, ["admin", "policies", name]) => policies::put(call, name).await,
            (&Method::DELETE, ["admin", "policies", digest]) => policies::remove(&parts, digest).await,
            #[cfg(feature = "faults")]
            (&Method::GET, ["admin", "faults"]) => Ok(json_answer(&headwater_env::faults::hits())),
            #[cfg(feature = "faults")]
            (&Method::POST, ["admin", "faults"]) => change::fault(call).await,
            (_, ["admin", ..] | ["metrics"]) => Err(unknown(&method, &path)),
            _ => Err(Problem::absent("the admin API is below /admin; streams are on the client listener")),
        }
    }

    fn authorise(&self, request: &Request<Incoming>) -> Result<(), Problem> {
        let Some(token) = &self.inner.token else { return Ok(()) };
        let offered = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let offered = offered.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
        match bool::from(offered.ct_eq(token.as_bytes())) {
            true => Ok(()),
            false => Err(Problem::new(StatusCode::UNAUTHORIZED, "this admin API asks for a bearer token")),
        }
    }
}

/// A request whose body is still to come.
struct Call<'a> {
    parts: &'a Parts,
    request: Request<Incoming>,
}

impl Call<'_> {
    /// The whole body.
    async fn body(self) -> Result<Bytes, Problem> {
        match Limited::new(self.request.into_body(), MAX_REQUEST).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(e) if e.is::<http_body_util::LengthLimitError>() => Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a request has at most {MAX_REQUEST} bytes"),
            )),
            Err(e) => Err(Problem::bad(format!("the request broke off: {e}"))),
        }
    }

    /// The body as JSON.
    async fn json<T: serde::de::DeserializeOwned>(self) -> Result<T, Problem> {
        let body = self.body().await?;
        serde_json::from_slice(&body)
            .map_err(|e| Problem::bad(format!("the body is not the JSON of this call: {e}")))
    }
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').skip(1).collect()
}

/// The name of a stream below `/admin/streams`: what follows, with its slash, as it was sent.
fn stream_name(path: &str) -> &str {
    path.strip_prefix("/admin/streams").unwrap_or(path)
}

fn unknown(method: &Method, path: &str) -> Problem {
    Problem::absent(format!("the admin API has no {method} {path}"))
}

/// 200 with a JSON value.
fn json_answer<T: serde::Serialize>(value: &T) -> Response<Body> {
    json_with(StatusCode::OK, value)
}

/// A JSON value under a status.
fn json_with<T: serde::Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    let value = serde_json::to_value(value).unwrap_or(Value::Null);
    let mut answer = Response::new(Body::from(value.to_string()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
