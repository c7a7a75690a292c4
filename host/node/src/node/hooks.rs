//! What the raft member asks of this node: to take policies in, and to serve what others relay.

use super::peer;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use headwater_env::BoxFuture;
use headwater_metadata::Digest;
use headwater_policy::Policies;
use headwater_raft::{Body, Hooks};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use std::sync::Arc;
use tokio::sync::Notify;

/// Serves a client's request that another node relays.
pub type Relayed = Box<dyn Fn(Request<Incoming>) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// The hooks of one node.
pub struct NodeHooks {
    policies: Arc<Policies>,
    /// Rung when a policy is compiled, or cannot be.
    pub compiled: Arc<Notify>,
    /// `None` until the front end is there.
    relayed: ArcSwapOption<Relayed>,
}

impl NodeHooks {
    /// Hooks that refuse relayed requests until there is a front end.
    pub fn new(policies: Arc<Policies>) -> NodeHooks {
        NodeHooks { policies, compiled: Arc::default(), relayed: ArcSwapOption::empty() }
    }

    /// From now on relayed requests go there.
    pub fn serve_with(&self, relayed: Relayed) {
        self.relayed.store(Some(Arc::new(relayed)));
    }
}

impl Hooks for NodeHooks {
    fn policy_arrived(&self, digest: Digest, component: &Bytes) {
        // Taken in at once, since placement may ask for it; compiled elsewhere, since that takes long.
        self.policies.arrive(digest, component.clone());
        let (policies, component, compiled) =
            (self.policies.clone(), component.clone(), self.compiled.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(why) = policies.prepare(digest, component) {
                tracing::error!(%digest, %why, "a policy of the cluster cannot run here");
            }
            compiled.notify_one();
        });
    }

    fn serve_forward(&self, request: Request<Incoming>) -> BoxFuture<'static, Response<Body>> {
        if *request.method() == peer::method() {
            let answer = peer::answer(request.uri().path(), &self.policies.ready());
            return Box::pin(async move { answer });
        }
        match self.relayed.load_full() {
            Some(relayed) => relayed(request),
            None => Box::pin(async { starting() }),
        }
    }
}

fn starting() -> Response<Body> {
    let text = r#"{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"the node is starting"}"#;
    let body = Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}
