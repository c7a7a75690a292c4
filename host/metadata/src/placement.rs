//! The one question that apply asks of the outside: which node shall have this stream?
//!
//! The answer must be a pure function of the arguments. Whatever it is, only placement depends on it.

use crate::model::{Digest, NodeId, StreamId};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A node that may be given streams: registered, not draining, with at least one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id. Candidates come in id order.
    pub id: NodeId,
    /// Capacity weight, at least 1.
    pub slots: u32,
    /// Streams placed or open on it now.
    pub assigned: u64,
    /// Empty unless the policy asks for labels.
    pub labels: BTreeMap<String, String>,
}

/// The stream that needs an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its id.
    pub id: StreamId,
    /// The URL path.
    pub name: Arc<str>,
    /// Content type.
    pub content_type: Arc<str>,
    /// The node that proposes; it need not be a candidate.
    pub proposer: NodeId,
    /// Empty unless the policy asks for labels.
    pub proposer_labels: BTreeMap<String, String>,
}

/// What a policy said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This node. Apply checks that it is a candidate.
    Node(NodeId),
    /// Left to the built-in rule.
    None,
    /// The policy failed; the built-in rule decides.
    Fault,
}

/// Runs a policy's placement. Implemented by the Wasm host, by fakes in tests.
pub trait Placement: Send + Sync {
    /// Asks the policy with this digest. May block until the policy is compiled; must never answer
    /// differently for reasons that other nodes do not share.
    fn place(&self, policy: Digest, subject: &Subject, candidates: &[Candidate]) -> Choice;

    /// A component that `place` may be asked to run from now on, told while `PutPolicy` is applied. Only
    /// so does it come in time when the log is replayed: the `Place` that needs it may follow in the
    /// same batch, before anybody else can hear of it.
    fn arrived(&self, _policy: Digest, _component: &Bytes) {}

    /// The answer named a node that is not a candidate; counted by the implementation.
    fn not_a_candidate(&self, policy: Digest, named: NodeId);

    /// Fingerprint of the engine that `place` runs on.
    fn engine(&self) -> Digest;
}
