//! What an operator changes: a node's slots, labels and draining, evictions, transfers, the accepted
//! loss of a damaged stream. Each is one command of the metadata log.

use super::{Body, Call, Problem, api, json_answer, json_with};
use crate::config;
use crate::node::Parts;
use headwater_metadata::{Command, NodeId, Outcome, Rejection, View};
use headwater_raft::ProposeError;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeChange {
    slots: Option<u32>,
    labels: Option<BTreeMap<String, String>>,
    draining: Option<bool>,
}

/// `POST /admin/nodes/{id}`.
pub async fn set_node(call: Call<'_>, id: &str) -> Result<Response<Body>, Problem> {
    let (parts, node) = (call.parts, node_id(id)?);
    let NodeChange { slots, labels, draining } = call.json().await?;
    if slots.is_none() && labels.is_none() && draining.is_none() {
        return Err(Problem::bad("nothing to change: give slots, labels or draining"));
    }
    for (key, value) in labels.iter().flatten() {
        if key.contains('=') {
            return Err(Problem::bad(format!("`{key}` is not the key of a label: it has an equals sign")));
        }
        config::label(&format!("{key}={value}")).map_err(Problem::bad)?;
    }
    let view = fresh(parts).await;
    if view.node(node).is_none() {
        return Err(Problem::absent(format!("there is no node {node}")));
    }
    propose(parts, Command::SetNode { node, slots, labels, draining }).await?;
    let view = parts.metadata.view();
    let node = view.node(node).ok_or_else(|| Problem::absent(format!("there is no node {node}")))?;
    Ok(json_answer(&api::one_node(&view, node)))
}

/// `DELETE /admin/nodes/{id}`: ends the registered session of the node.
pub async fn evict(parts: &Parts, id: &str) -> Result<Response<Body>, Problem> {
    let node = node_id(id)?;
    let view = fresh(parts).await;
    let known = view.node(node).ok_or_else(|| Problem::absent(format!("there is no node {node}")))?;
    let Some(session) = known.session() else {
        return Err(Problem::conflict(format!("node {node} has no session: it was evicted before")));
    };
    propose(parts, Command::Evict { session, silent: false }).await?;
    tracing::info!(%session, "evicted on request");
    Ok(json_answer(&json!({ "id": node, "epoch": session.epoch, "state": "evicted" })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TransferRequest {
    stream: String,
    to: u64,
}

/// `POST /admin/transfer`: accepted once the move is in the log; the source's node carries it out.
pub async fn transfer(call: Call<'_>) -> Result<Response<Body>, Problem> {
    let parts = call.parts;
    let TransferRequest { stream, to } = call.json().await?;
    let view = fresh(parts).await;
    let found = api::find(&view, &stream)?;
    let command = Command::Transfer { stream: found.id, epoch: found.epoch, target: NodeId(to) };
    propose(parts, command).await?;
    let view = parts.metadata.view();
    Ok(json_with(StatusCode::ACCEPTED, &api::one_stream(&view, api::find(&view, &stream)?)))
}

/// `POST /admin/streams/{name}/accept-loss`.
pub async fn accept_loss(parts: &Parts, name: &str) -> Result<Response<Body>, Problem> {
    let view = fresh(parts).await;
    let found = api::find(&view, name)?;
    propose(parts, Command::AcceptLoss { stream: found.id, epoch: found.epoch }).await?;
    let view = parts.metadata.view();
    Ok(json_answer(&api::one_stream(&view, api::find(&view, name)?)))
}

#[cfg(feature = "faults")]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultRequest {
    name: String,
    action: String,
}

/// `POST /admin/faults`: gives a fail point an action.
#[cfg(feature = "faults")]
pub async fn fault(call: Call<'_>) -> Result<Response<Body>, Problem> {
    let FaultRequest { name, action } = call.json().await?;
    match headwater_env::faults::set(&name, &action) {
        true => Ok(json_answer(&json!({ "name": name, "action": action }))),
        false => Err(Problem::bad(format!("`{action}` is not an action of a fail point"))),
    }
}

/// A view that has what was committed before this request, when that is to be had in short time:
/// somebody who was just told of a stream or a session at one node names it at another.
pub(super) async fn fresh(parts: &Parts) -> Arc<View> {
    let _ = parts.env.timeout(api::FRESH, parts.metadata.barrier()).await;
    parts.metadata.view()
}

fn node_id(text: &str) -> Result<NodeId, Problem> {
    text.parse().map(NodeId).map_err(|_| Problem::bad(format!("`{text}` is not the id of a node")))
}

/// Proposes a command; a redundant one is a success.
pub async fn propose(parts: &Parts, command: Command) -> Result<Outcome, Problem> {
    match parts.metadata.propose(command).await {
        Ok(Outcome::Rejected(why)) => Err(rejected(&why)),
        Ok(outcome) => Ok(outcome),
        Err(e @ ProposeError::TooLarge { .. }) => {
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, e.to_string()))
        }
        Err(e) => Err(Problem::unavailable(e.to_string())),
    }
}

fn rejected(why: &Rejection) -> Problem {
    match why {
        Rejection::NoStream(_) | Rejection::NoPolicy(_) => Problem::absent(why.to_string()),
        Rejection::TooLarge(_) => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why.to_string()),
        // The proposer's own session: the same request is fine at another moment.
        Rejection::NotRegistered { .. } => Problem::unavailable(why.to_string()),
        _ => Problem::conflict(why.to_string()),
    }
}
