//! What the parts of a raft member share. Built once by `metadata.rs`; nothing here decides.

use crate::counters::Counters;
use crate::fatal::FatalCell;
use crate::hooks::Hooks;
use crate::liveness::Leader;
use crate::log_store::LogStore;
use crate::options::{ClusterId, Member, Options};
use crate::peer::auth::Auth;
use crate::peer::book::Book;
use crate::peer::pool::Pool;
use crate::peer::receive::Receiver;
use crate::state_machine::publish::Published;
use crate::status::Peer;
use crate::types::{Config, Raft};
use headwater_env::Env;
use openraft::async_runtime::WatchReceiver;
use openraft::{Instant, RaftMetrics, ServerState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The shared parts.
pub(crate) struct Core {
    pub raft: Raft,
    pub log: LogStore,
    pub published: Arc<Published>,
    pub pool: Arc<Pool>,
    pub book: Arc<Book>,
    pub auth: Arc<Auth>,
    pub receiver: Receiver,
    pub hooks: Arc<dyn Hooks>,
    pub liveness: Leader,
    pub env: Env,
    pub options: Options,
    pub counters: Arc<Counters>,
    pub fatal: FatalCell,
    /// True once the member stops.
    pub stop: watch::Sender<bool>,
    pub cluster: ClusterId,
    pub me: Member,
    /// Start of this process, as far as addresses go.
    pub epoch: u64,
    /// `host:port` that the others use.
    pub address: String,
}

/// What a leader knows of its leadership.
pub(crate) struct Leading {
    pub term: u64,
    /// Index of the last entry that it knows to be committed.
    pub committed: u64,
    /// That entry is of its own term.
    pub own_term_committed: bool,
    /// How long ago a quorum confirmed it.
    pub quorum_acked: Option<Duration>,
    /// It is the only voter.
    pub alone: bool,
}

impl Core {
    /// What this member knows of its leadership, if it leads.
    pub(crate) fn leading(&self) -> Option<Leading> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.state != ServerState::Leader || metrics.current_leader != Some(self.me.member) {
            return None;
        }
        let committed = metrics.cluster_committed;
        Some(Leading {
            term: metrics.current_term,
            committed: committed.map_or(0, |id| id.index),
            own_term_committed: committed.is_some_and(|id| id.leader_id.term == metrics.current_term),
            quorum_acked: metrics.last_quorum_acked.as_ref().map(|acked| acked.elapsed()),
            alone: metrics.membership_config.voter_ids().all(|voter| voter == self.me.member),
        })
    }

    pub(crate) fn metrics(&self) -> RaftMetrics<Config> {
        self.raft.metrics().borrow_watched().clone()
    }

    /// The member that leads, as far as this one knows.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.raft.metrics().borrow_watched().current_leader
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.leader() == Some(self.me.member)
    }

    /// Whether a member is in the membership, as far as this one knows.
    pub(crate) fn has_member(&self, member: u64) -> bool {
        let metrics = self.raft.metrics();
        let config = metrics.borrow_watched().membership_config.clone();
        config.membership().get_node(&member).is_some()
    }

    /// This member's line of the address book.
    pub(crate) fn my_peer(&self) -> Peer {
        Peer { member: self.me.member, node: self.me.node, epoch: self.epoch, address: self.address.clone() }
    }

    /// Resolves when the known leader is another than `old`.
    pub(crate) async fn leader_changes(&self, old: Option<u64>) {
        let mut metrics = self.raft.metrics();
        loop {
            if metrics.borrow_watched().current_leader != old {
                return;
            }
            if metrics.changed().await.is_err() {
                // Raft has stopped; whoever waits has a deadline of its own.
                return std::future::pending().await;
            }
        }
    }
}
