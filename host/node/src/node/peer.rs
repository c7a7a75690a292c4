//! What nodes ask each other beside raft: which policies are ready, where a stream's tail is.
//!
//! Such questions travel where relayed client requests travel, over the authenticated peer listener.
//! Those that no client could ask go under a method that the front end never relays.

use super::Parts;
use crate::http::offset::{self, Offset};
use bytes::Bytes;
use futures_util::future::join_all;
use headwater_metadata::{Digest, Fork, NodeId, Position, Stream, View};
use headwater_raft::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full, Limited};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// More policies than anybody has.
const MAX_ANSWER: usize = 1 << 20;
const READY: &str = "/ready-policies";

/// The method of questions between nodes.
pub fn method() -> Method {
    Method::from_bytes(b"HEADWATER-ASK").expect("a token of letters and a dash is a method")
}

/// Answers another node's question. `ready`: the policies that this node has compiled.
pub fn answer(path: &str, ready: &[Digest]) -> Response<Body> {
    let (status, body) = match path {
        READY => (StatusCode::OK, postcard::to_stdvec(ready).expect("plain data always encodes")),
        _ => (StatusCode::NOT_FOUND, Vec::new()),
    };
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
}

/// Which policies each registered node has ready; `None` for a node that does not answer.
pub async fn ready_policies(parts: &Parts) -> BTreeMap<NodeId, Option<BTreeSet<Digest>>> {
    let view = parts.metadata.view();
    let nodes: Vec<NodeId> = view.sessions().map(|live| live.session.node).collect();
    let asked = nodes.into_iter().map(|node| async move {
        if node == parts.config.node {
            return (node, Some(parts.policies.ready().into_iter().collect()));
        }
        let answer = parts.env.timeout(PATIENCE, ask(parts, node)).await;
        (node, answer.flatten())
    });
    join_all(asked).await.into_iter().collect()
}

/// The tail of a stream that another node has open: a client's HEAD, relayed.
pub async fn tail(parts: &Parts, view: &View, owner: NodeId, stream: &Stream) -> Option<Position> {
    let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::builder().method(Method::HEAD).uri(&*stream.name).body(body).ok()?;
    let answer = parts.metadata.forward(owner, request).await.ok()?;
    let token = answer.headers().get("stream-next-offset")?.to_str().ok()?;
    // Offsets of a fork belong to the first of its ancestors.
    let (mut family, mut fork) = (stream.id, stream.fork);
    while let Some(Fork { source, .. }) = fork {
        family = source;
        fork = view.stream(source)?.fork;
    }
    match offset::parse(token).ok()? {
        Offset::Token(token) => token.position(family).ok(),
        Offset::Start | Offset::Now => None,
    }
}

async fn ask(parts: &Parts, node: NodeId) -> Option<BTreeSet<Digest>> {
    let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let request = Request::builder().method(method()).uri(READY).body(body).ok()?;
    let answer = parts.metadata.forward(node, request).await.ok()?;
    if answer.status() != StatusCode::OK {
        return None;
    }
    let bytes = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.ok()?.to_bytes();
    postcard::from_bytes(&bytes).ok()
}
