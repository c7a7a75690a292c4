//! What the rest of the node sees of the state: the newest view, and a number that moves with it.

use arc_swap::ArcSwap;
use headwater_env::Env;
use headwater_metadata::{Digest, State, View};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

use crate::hooks::Hooks;

/// The published view. Readers load it once per request.
pub(crate) struct Published {
    view: ArcSwap<View>,
    applied: watch::Sender<u64>,
    policies: Notify,
}

impl Published {
    pub(crate) fn new(state: &State, applied: u64) -> Published {
        Published {
            view: ArcSwap::from_pointee(state.view()),
            applied: watch::Sender::new(applied),
            policies: Notify::new(),
        }
    }

    /// The newest view.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Index of the last log entry in the view.
    pub(crate) fn applied(&self) -> u64 {
        *self.applied.borrow()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// Waits until the view contains the entry at `index`.
    pub(crate) async fn reach(&self, index: u64) {
        // The sender lives in `self`: it cannot be gone.
        let _ = self.applied.subscribe().wait_for(|applied| *applied >= index).await;
    }

    pub(super) fn publish(&self, state: &State, applied: u64, policies_changed: bool) {
        self.view.store(Arc::new(state.view()));
        self.applied.send_replace(applied);
        if policies_changed {
            self.policies.notify_one();
        }
    }

    /// Tells the hooks of each policy in the view, once, in the order of the log. Never from apply:
    /// apply may be waiting for exactly this.
    pub(crate) async fn announce_policies(
        self: Arc<Self>,
        env: Env,
        hooks: Arc<dyn Hooks>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut seen: BTreeSet<Digest> = BTreeSet::new();
        loop {
            let view = self.view();
            let mut fresh: Vec<_> = view.policies().filter(|policy| !seen.contains(&policy.digest)).collect();
            fresh.sort_by_key(|policy| policy.put_index);
            for policy in fresh {
                let (hooks, digest, component) = (hooks.clone(), policy.digest, policy.component.clone());
                env.blocking(move || hooks.policy_arrived(digest, &component)).await;
            }
            seen = view.policies().map(|policy| policy.digest).collect();
            tokio::select! {
                biased;
                () = self.policies.notified() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }
}
