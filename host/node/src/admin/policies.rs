//! Policies of a running cluster: push, list, activate, roll back, remove.
//!
//! A component is checked before it is proposed, and activated only when every registered node says
//! that it has compiled it. `node/peer.rs` asks them.

use super::change::{fresh, propose};
use super::{Body, Call, Problem, api, json_answer, json_with};
use crate::node::{Parts, peer};
use headwater_metadata::{Command, Digest, NodeId, View};
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long an activation waits for nodes that still compile.
const COMPILE_PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(100);

/// `GET /admin/policies`.
pub async fn list(parts: &Parts) -> Result<Response<Body>, Problem> {
    let ready = peer::ready_policies(parts).await;
    let view = parts.metadata.view();
    let policies: Vec<_> = view
        .policies()
        .map(|policy| {
            json!({
                "name": *policy.name,
                "digest": policy.digest.to_string(),
                "size": policy.component.len(),
                "version": *policy.version,
                "needs_labels": policy.needs_labels,
                "put_index": policy.put_index,
                "ready_on": ready_on(&ready, policy.digest),
            })
        })
        .collect();
    let active = view.active_policy();
    let audit: Vec<_> = view
        .audit()
        .map(|change| {
            json!({
                "index": change.index,
                "by": change.by.to_string(),
                "change": format!("{:?}", change.change).to_lowercase(),
                "digest": change.policy.to_string(),
                "name": *change.name,
            })
        })
        .collect();
    Ok(json_answer(&json!({
        "active": active.policy.to_string(),
        "previous": active.previous.map(|digest| digest.to_string()),
        "shadow": null,
        "policies": policies,
        "audit": audit,
    })))
}

fn ready_on(ready: &BTreeMap<NodeId, Option<BTreeSet<Digest>>>, digest: Digest) -> Vec<NodeId> {
    let has = |ready: &Option<BTreeSet<Digest>>| ready.as_ref().is_some_and(|all| all.contains(&digest));
    ready.iter().filter(|(_, all)| has(all)).map(|(node, _)| *node).collect()
}

/// `PUT /admin/policies/{name}`.
pub async fn put(call: Call<'_>, name: &str) -> Result<Response<Body>, Problem> {
    let (parts, name) = (call.parts, name.to_owned());
    if !is_name(&name) {
        return Err(Problem::bad(format!(
            "`{name}` is not a name of a policy: 1 to 64 letters, digits, dots, dashes and underscores, no digest"
        )));
    }
    let component = call.body().await?;
    let nodes = parts.metadata.view().nodes().count();
    let (checked, component) =
        tokio::task::spawn_blocking(move || (headwater_policy::check(&component, nodes), component))
            .await
            .map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the check broke off"))?;
    let report = checked.map_err(|why| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why.to_string()))?;
    let digest = headwater_policy::digest_of(&component);
    let view = parts.metadata.view();
    let built_in = headwater_policy::builtin().0;
    if digest != built_in && view.policy_by_name(&name).is_some_and(|policy| policy.digest == built_in) {
        return Err(Problem::conflict(format!(
            "`{name}` is the policy inside the binary: push this one under another name"
        )));
    }
    let command = Command::PutPolicy {
        name: name.as_str().into(),
        version: report.description.version.as_str().into(),
        needs_labels: report.description.needs_labels,
        component,
    };
    propose(parts, command).await?;
    tracing::info!(%name, %digest, "policy pushed");
    Ok(json_with(
        StatusCode::CREATED,
        &json!({
            "digest": digest.to_string(),
            "name": name,
            "version": report.description.version,
            "summary": report.description.summary,
            "size": report.size,
        }),
    ))
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let reserved = matches!(name, "activate" | "rollback" | "shadow" | "native");
    (1..=64).contains(&name.len()) && name.chars().all(allowed) && !reserved && !is_digest(name)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Activation {
    /// The digest, the beginning of it, or a name.
    digest: String,
}

/// `POST /admin/policies/activate`.
pub async fn activate(call: Call<'_>) -> Result<Response<Body>, Problem> {
    let parts = call.parts;
    let Activation { digest } = call.json().await?;
    let digest = resolve(&*fresh(parts).await, &digest)?;
    switch(parts, digest).await
}

/// `POST /admin/policies/rollback`.
pub async fn rollback(parts: &Parts) -> Result<Response<Body>, Problem> {
    match fresh(parts).await.active_policy().previous {
        Some(previous) => switch(parts, previous).await,
        None => Err(Problem::conflict("no policy was active before this one")),
    }
}

/// `DELETE /admin/policies/{digest}`.
pub async fn remove(parts: &Parts, digest: &str) -> Result<Response<Body>, Problem> {
    let policy = resolve(&*fresh(parts).await, digest)?;
    propose(parts, Command::RemovePolicy { policy }).await?;
    Ok(json_answer(&json!({ "digest": policy.to_string(), "removed": true })))
}

/// Finds a policy by digest, by a beginning of it that names only one, or by its name.
fn resolve(view: &View, text: &str) -> Result<Digest, Problem> {
    if let Some(policy) = view.policy_by_name(text) {
        return Ok(policy.digest);
    }
    if text == "native" || text == Digest::BUILTIN.to_string() {
        return Ok(Digest::BUILTIN);
    }
    let begins = |digest: &Digest| text.len() >= 6 && digest.to_string().starts_with(text);
    let found: Vec<_> = view.policies().map(|policy| policy.digest).filter(begins).collect();
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Problem::absent(format!("the cluster has no policy `{text}`"))),
        many => Err(Problem::conflict(format!("`{text}` is the beginning of {} digests", many.len()))),
    }
}

/// Lets a policy decide, once every registered node has it ready; answers when this node runs it.
async fn switch(parts: &Parts, policy: Digest) -> Result<Response<Body>, Problem> {
    ready_everywhere(parts, policy).await?;
    propose(parts, Command::ActivatePolicy { policy }).await?;
    let started = parts.env.clock.monotonic();
    while parts.policies.active().unwrap_or(Digest::BUILTIN) != policy {
        if parts.metadata.view().active_policy().policy != policy {
            return Err(Problem::conflict("another policy was activated at the same time"));
        }
        if parts.env.clock.monotonic().saturating_sub(started) > COMPILE_PATIENCE {
            return Err(Problem::unavailable("activated, but this node does not route by it yet"));
        }
        parts.env.clock.sleep(PAUSE / 10).await;
    }
    let view = parts.metadata.view();
    let name = api::policy_name(&view, policy);
    tracing::info!(%name, %policy, "policy activated");
    Ok(json_answer(&json!({
        "digest": policy.to_string(),
        "name": name,
        "activated_index": view.active_policy().index,
    })))
}

async fn ready_everywhere(parts: &Parts, policy: Digest) -> Result<(), Problem> {
    if policy == Digest::BUILTIN {
        return Ok(());
    }
    let started = parts.env.clock.monotonic();
    loop {
        let ready = peer::ready_policies(parts).await;
        let missing: Vec<_> = ready
            .iter()
            .filter(|(_, all)| !all.as_ref().is_some_and(|all| all.contains(&policy)))
            .map(|(node, all)| match all {
                Some(_) => format!("node {node} has not compiled it"),
                None => format!("node {node} does not answer"),
            })
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        if parts.env.clock.monotonic().saturating_sub(started) > COMPILE_PATIENCE {
            return Err(Problem::conflict(format!(
                "the policy is not ready on every registered node: {}",
                missing.join(", ")
            )));
        }
        parts.env.clock.sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_taken_for_digests_or_calls() {
        for name in ["least-ratio", "a", "v1.2_x"] {
            assert!(is_name(name), "{name}");
        }
        let digest = "0".repeat(64);
        for name in ["", "a b", "a/b", "activate", "rollback", "shadow", "native", &digest, &"x".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
