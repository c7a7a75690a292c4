//! What is where: probes, the cluster, its nodes, its streams. Reads the published view and changes
//! nothing.
//!
//! Everything here also answers without a quorum, from what this node last heard: that is when a
//! person needs it most.

use super::{Body, Problem, json_answer, json_with};
use crate::node::{Parts, Phase, peer};
use headwater_metadata::{Digest, Node, NodeId, Ownership, Position, Stream, View};
use http::{Response, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use url::form_urlencoded;

/// Streams on a page at most.
const PAGE: usize = 1_000;
/// How long a question about one thing waits for fresh metadata.
pub const FRESH: Duration = Duration::from_secs(2);

/// The process is alive.
pub fn health(parts: Option<&Parts>) -> Response<Body> {
    match parts.and_then(|parts| parts.metadata.status().fatal) {
        None => json_answer(&json!({ "status": "alive" })),
        Some(why) => Problem::unavailable(format!("the metadata log has stopped: {why}")).answer(),
    }
}

/// Registered and serving.
pub fn ready(parts: Option<&Parts>) -> Response<Body> {
    let phase = parts.map(|parts| parts.phase.borrow().clone());
    match phase {
        Some(Phase::Serving(session)) => {
            json_answer(&json!({ "status": "ready", "node": session.node, "epoch": session.epoch }))
        }
        Some(phase) => Problem::unavailable(phase.to_string()).answer(),
        None => Problem::unavailable("the node is starting").answer(),
    }
}

/// `GET /admin/cluster`.
pub fn cluster(parts: &Parts) -> Response<Body> {
    let (view, status) = (parts.metadata.view(), parts.metadata.status());
    let (totals, digests) = (view.totals(), view.digests());
    let ids = |members: &[headwater_raft::Member]| members.iter().map(|m| m.node).collect::<Vec<_>>();
    json_answer(&json!({
        "cluster": status.cluster.to_string(),
        "node": parts.config.node,
        "leader": status.leader.map(|leader| leader.node),
        "term": status.term,
        "applied_index": view.index(),
        "state_digest": format!("{}{}", digests.fencing, digests.placement),
        "fencing_digest": digests.fencing.to_string(),
        "placement_digest": digests.placement.to_string(),
        "voters": ids(&status.voters),
        "learners": ids(&status.learners),
        "nodes": view.sessions().count(),
        "streams": {
            "total": totals.total(),
            "unplaced": totals.unplaced,
            "placed": totals.placed,
            "opened": totals.opened,
            "closed": totals.closed,
        },
        "transfers": view.transfer_count(),
        "recoveries": view.unrecovered().map(|ended| ended.session.to_string()).collect::<Vec<_>>(),
        "policy": policy(parts, &view),
    }))
}

fn policy(parts: &Parts, view: &View) -> Value {
    let active = view.active_policy();
    json!({
        "name": policy_name(view, active.policy),
        "digest": active.policy.to_string(),
        "activated_index": active.index,
        "routing": parts.policies.active().unwrap_or(Digest::BUILTIN).to_string(),
        "fallbacks": parts.policies.counters().fallbacks(),
    })
}

/// A policy's name for people.
pub fn policy_name(view: &View, digest: Digest) -> String {
    match view.policy(digest) {
        Some(policy) => policy.name.to_string(),
        None if digest == Digest::BUILTIN => "native".to_owned(),
        None => "unknown".to_owned(),
    }
}

/// `GET /admin/nodes`.
pub fn nodes(parts: &Parts) -> Response<Body> {
    let view = parts.metadata.view();
    // Known to the leader alone; another node shows what the log says.
    let silent: Vec<_> = parts.metadata.silent_sessions().iter().map(|silent| silent.session).collect();
    let shown = view.nodes().map(|node| {
        let mut shown = one_node(&view, node);
        if node.session().is_some_and(|session| silent.contains(&session)) {
            shown["state"] = "silent".into();
        }
        shown
    });
    json_answer(&shown.collect::<Vec<_>>())
}

/// A node as the API shows it.
pub fn one_node(view: &View, node: &Node) -> Value {
    let assigned = view.assigned(node.id);
    let state = match (&node.live, node.draining) {
        (None, _) => "evicted",
        (Some(_), true) => "draining",
        (Some(_), false) => "registered",
    };
    json!({
        "id": node.id,
        "epoch": node.highest,
        "address": node.live.as_ref().map(|live| live.info.address.clone()),
        "slots": node.slots,
        "labels": *node.labels,
        "draining": node.draining,
        "state": state,
        "assigned": assigned.total(),
        "placed": assigned.placed,
        "opened": assigned.opened,
    })
}

/// `GET /admin/streams`: a page, by name. `next` is the `after` of the next page.
pub fn streams(parts: &Parts, query: &str) -> Result<Response<Body>, Problem> {
    let (mut prefix, mut after, mut limit) = (String::new(), None, 100);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "prefix" => prefix = value.into_owned(),
            "after" => after = Some(value.into_owned()),
            "limit" => {
                limit =
                    value.parse().map_err(|_| Problem::bad(format!("limit `{value}` is not a number")))?;
            }
            other => return Err(Problem::bad(format!("this call has no parameter `{other}`"))),
        }
    }
    let limit = limit.clamp(1, PAGE);
    let view = parts.metadata.view();
    let mut page: Vec<_> = view.streams_by_name(after.as_deref(), &prefix).take(limit + 1).collect();
    let more = page.len() > limit;
    page.truncate(limit);
    let next = page.last().filter(|_| more).map(|stream| stream.name.clone());
    let streams: Vec<_> = page.into_iter().map(|stream| one_stream(&view, stream)).collect();
    Ok(json_answer(&json!({ "streams": streams, "next": next })))
}

/// `GET /admin/streams/{name}`.
pub async fn stream(parts: &Parts, name: &str) -> Result<Response<Body>, Problem> {
    // Fresh when that is possible in short time, and what this node knows otherwise.
    let _ = parts.env.timeout(FRESH, parts.metadata.barrier()).await;
    let view = parts.metadata.view();
    let stream = find(&view, name)?;
    let mut shown = one_stream(&view, stream);
    let tail = parts.env.timeout(FRESH, tail(parts, &view, stream)).await.flatten();
    shown["tail"] = json!(tail);
    Ok(json_with(StatusCode::OK, &shown))
}

/// The durable tail: the committed end, or, of a stream that is open, what its owner says.
async fn tail(parts: &Parts, view: &View, stream: &Stream) -> Option<Position> {
    let session = match stream.ownership {
        Ownership::Opened(session) => session,
        _ => return Some(stream.end),
    };
    if session.node == parts.config.node {
        let streams = parts.streams.load_full()?;
        return streams.info(stream.id).await.ok().map(|info| info.tail);
    }
    peer::tail(parts, view, session.node, stream).await
}

/// The stream of a name, as an operator means it.
pub fn find<'a>(view: &'a View, name: &str) -> Result<&'a Stream, Problem> {
    match view.stream_by_name(name) {
        Some(stream) if !stream.deleted => Ok(stream),
        _ => Err(Problem::absent(format!("there is no stream {name}"))),
    }
}

/// A stream as the API shows it: what the log says, also of an owner that is gone.
pub fn one_stream(view: &View, stream: &Stream) -> Value {
    let (ownership, owner): (_, Option<NodeId>) = match stream.ownership {
        Ownership::Unplaced => ("unplaced", None),
        Ownership::Placed(node) => ("placed", Some(node)),
        Ownership::Opened(session) => ("opened", Some(session.node)),
        Ownership::Closed(_) => ("closed", None),
    };
    let last_owner = match stream.ownership {
        Ownership::Closed(node) => Some(node),
        _ => None,
    };
    json!({
        "name": *stream.name,
        "id": stream.id,
        "content_type": *stream.content_type,
        "ownership": ownership,
        "owner": owner,
        "last_owner": last_owner,
        "epoch": stream.epoch,
        "start": stream.start,
        "end": stream.end,
        "eof": stream.eof,
        "damaged": stream.damaged,
        "transfer": stream.transfer.map(|t| json!({ "source": t.source, "target": t.target })),
        "waits_for": view.waits_for_recovery(stream).map(|session| session.to_string()),
    })
}
