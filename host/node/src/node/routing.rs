//! Keeps the policy that routes on this node equal to the one that the metadata log names.
//!
//! Placement follows the log by itself, inside apply; routing follows the published view, as soon as
//! the policy is compiled here. Until then the one before goes on: a request is never held up.

use headwater_metadata::{Digest, View};
use headwater_policy::{NotReady, Policies};
use headwater_raft::Metadata;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Notify;

/// Follows the log for ever.
pub async fn follow(metadata: Metadata, policies: Arc<Policies>, compiled: Arc<Notify>) {
    let mut views = metadata.views();
    let mut known = BTreeSet::new();
    loop {
        let view = metadata.view();
        align(&view, &policies);
        forget(&view, &policies, &mut known);
        tokio::select! {
            changed = views.changed() => if changed.is_err() { return },
            () = compiled.notified() => {}
        }
    }
}

fn align(view: &View, policies: &Policies) {
    let wanted = view.active_policy().policy;
    if policies.active().unwrap_or(Digest::BUILTIN) == wanted {
        return;
    }
    if wanted == Digest::BUILTIN {
        policies.set_native();
        tracing::info!("routes by the native rule");
        return;
    }
    match policies.set_active(wanted) {
        Ok(()) => tracing::info!(policy = %wanted, "routes by a policy"),
        // It is on its way: `compiled` rings.
        Err(NotReady::NotArrived(_) | NotReady::NotCompiled(_)) => {}
        Err(NotReady::Broken(..)) => policies.set_native(),
    }
}

/// Lets go of what the cluster has removed.
fn forget(view: &View, policies: &Policies, known: &mut BTreeSet<Digest>) {
    let now: BTreeSet<Digest> = view.policies().map(|policy| policy.digest).collect();
    for removed in known.difference(&now) {
        policies.remove(*removed);
    }
    *known = now;
}
