//! What the state keeps beside streams: nodes, sessions, policies, the trail of policy changes.
//!
//! Plain data that views show. `weigh.rs` says which digest each part belongs to, `state.rs` holds them.

use crate::command::Outcome;
use crate::model::*;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node that registered at least once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The highest epoch ever recorded for it. Never goes back.
    pub highest: Epoch,
    /// Its registered session; `None` after an eviction.
    pub live: Option<Arc<Live>>,
    /// Capacity weight: of the first registration, then as an operator set it.
    pub slots: u32,
    /// Labels: of the first registration, then as an operator set them.
    pub labels: Arc<BTreeMap<String, String>>,
    /// Takes nothing new.
    pub draining: bool,
}

impl Node {
    /// Its registered session.
    pub fn session(&self) -> Option<Session> {
        self.live.as_ref().map(|live| live.session)
    }

    /// Whether it may be given streams: registered, not draining, at least one slot.
    pub fn takes_streams(&self) -> bool {
        self.live.is_some() && !self.draining && self.slots > 0
    }
}

/// A registered session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// Which.
    pub session: Session,
    /// Random number of the process.
    pub nonce: u128,
    /// What the node said when it registered. Slots and labels in force are the node's.
    pub info: NodeInfo,
    /// Log index of its `Register`.
    pub registered_index: u64,
    /// Names the whole `Register`, so that a repeat is recognised.
    pub(crate) registration: Digest,
}

/// What changes with every entry of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Everything in its write-ahead log below this is committed.
    pub trim: WalSeq,
    /// Number of its last entry; 0 before the first.
    pub number: u64,
    /// What its last entry answered.
    pub last: Option<Arc<LastEntry>>,
}

/// The last entry of a session, remembered so that a repeat is answered and not applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEntry {
    /// Digest of the entry.
    pub entry: Digest,
    /// Its answers, one per command.
    pub answers: Vec<Answered>,
}

/// A remembered answer, in the half of the state that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answered {
    /// Follows from the fencing half alone.
    Fencing(Outcome),
    /// Depends on where streams are placed.
    Placement(Outcome),
}

impl Answered {
    /// The answer.
    pub fn outcome(&self) -> &Outcome {
        let (Answered::Fencing(outcome) | Answered::Placement(outcome)) = self;
        outcome
    }
}

/// A session that ended. Kept for ever: it is never registered again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    /// Which.
    pub session: Session,
    /// Why it ended.
    pub why: RetiredBy,
    /// Replaced, but its node did not recover it in time: its streams no longer count as placed there.
    pub disowned: bool,
    /// Its log was sealed and replayed, nothing is open in it any more.
    pub recovered: bool,
    /// Log index of its end.
    pub retired_index: u64,
    /// Random number of its process: objects and seals in its log carry it.
    pub nonce: u128,
    /// Form of its write-ahead log.
    pub wal: WalForm,
    /// The data-directory lock that it held.
    pub lock: LockIdentity,
    /// Trim point (where sealing probes from); number and answers until it is recovered.
    pub progress: Progress,
}

impl Retired {
    /// Whether streams that are open in it count as placed on its node, not as closed.
    pub fn keeps_streams(&self) -> bool {
        self.why == RetiredBy::Replaced && !self.disowned
    }
}

/// A policy in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// SHA-256 of the component.
    pub digest: Digest,
    /// A name for people; the newest policy of a name is found by it.
    pub name: Arc<str>,
    /// The version that the component says it has.
    pub version: Arc<str>,
    /// It asks for nodes' labels.
    pub needs_labels: bool,
    /// Log index of the last `PutPolicy` with it.
    pub put_index: u64,
    /// The component.
    pub component: Bytes,
}

/// Which policy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Active {
    /// The policy; `Digest::BUILTIN` is the built-in rule.
    pub policy: Digest,
    /// Log index since when.
    pub index: u64,
    /// The one before: what a rollback activates.
    pub previous: Option<Digest>,
}

impl Default for Active {
    fn default() -> Self {
        Active { policy: Digest::BUILTIN, index: 0, previous: None }
    }
}

/// One change of the policies, kept for people who ask later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Log index.
    pub index: u64,
    /// Who proposed it.
    pub by: Session,
    /// What was done.
    pub change: PolicyChange,
    /// To which policy.
    pub policy: Digest,
    /// Its name, when it has one.
    pub name: Arc<str>,
}

/// Kinds of changes of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyChange {
    /// `PutPolicy`.
    Put,
    /// `ActivatePolicy`.
    Activated,
    /// `RemovePolicy`.
    Removed,
    /// `ResetPlacement`: back to the built-in rule.
    Reset,
}
