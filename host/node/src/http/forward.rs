//! Relays a request to the node that has the stream, and its answer back, both as they come.
//!
//! A relayed request arrives at the other node's peer listener, which marks it: it is served there or
//! answered 503, never relayed or redirected again. Nothing is repeated here, so a byte that was sent is
//! sent once. Next: `serve.rs`.

use crate::http::body::{Body, BoxError, Upload};
use crate::http::error::Problem;
use crate::http::headers::names;
use bytes::Bytes;
use headwater_env::BoxFuture;
use headwater_metadata::NodeId;
use headwater_raft::{Metadata, PeerError};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header, request};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

/// A body on its way between nodes.
pub type Relayed = UnsyncBoxBody<Bytes, BoxError>;

/// The other nodes.
pub trait Peers: Send + Sync + 'static {
    /// Relays a request once.
    fn forward(
        &self,
        node: NodeId,
        request: Request<Relayed>,
    ) -> BoxFuture<'_, Result<Response<Relayed>, PeerError>>;
}

impl Peers for Metadata {
    fn forward(
        &self,
        node: NodeId,
        request: Request<Relayed>,
    ) -> BoxFuture<'_, Result<Response<Relayed>, PeerError>> {
        Box::pin(async move {
            let answer = Metadata::forward(self, node, request).await?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

/// Relays.
pub async fn forward(
    peers: &dyn Peers,
    node: NodeId,
    head: &request::Parts,
    upload: &mut Upload,
    request_id: &HeaderValue,
) -> Result<Response<Body>, Problem> {
    let mut request = Request::new(upload.take());
    *request.method_mut() = head.method.clone();
    // The path and query alone, also when the client sent a whole URL.
    let mut uri = http::uri::Parts::default();
    uri.path_and_query = head.uri.path_and_query().cloned();
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
    *request.headers_mut() = head.headers.clone();
    strip(request.headers_mut());
    request.headers_mut().remove(header::EXPECT);
    request.headers_mut().insert(names::REQUEST_ID, request_id.clone());
    let mut answer = peers.forward(node, request).await?.map(Body::Stream);
    strip(answer.headers_mut());
    *answer.version_mut() = http::Version::HTTP_11;
    Ok(answer)
}

/// Takes off what belongs to one connection.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in
        ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"]
    {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_connection_stays_on_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Mine"),
            ("x-mine", "1"),
            ("transfer-encoding", "chunked"),
            ("content-type", "text/plain"),
            ("content-length", "3"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let left: Vec<_> = headers.keys().map(|name| name.as_str()).collect();
        assert_eq!(left, ["content-type", "content-length"]);
    }
}
