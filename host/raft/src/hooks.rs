//! What the raft member asks of the node above it.

use crate::error::BoxError;
use bytes::Bytes;
use headwater_env::BoxFuture;
use headwater_metadata::Digest;
use http_body_util::combinators::UnsyncBoxBody;

/// Body of a request or an answer between nodes.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// What the raft member asks of the node above it. Called from tasks of its own, never from apply.
pub trait Hooks: Send + Sync + 'static {
    /// A policy is in the state: applied, found in a snapshot, or there at the start. Called once for
    /// each, in the order of arrival; may take long (it compiles).
    fn policy_arrived(&self, digest: Digest, component: &Bytes);

    /// Another node relays a client's request. The path and query are the client's own.
    fn serve_forward(
        &self,
        request: http::Request<hyper::body::Incoming>,
    ) -> BoxFuture<'static, http::Response<Body>>;
}
