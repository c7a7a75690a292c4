//! The types that openraft is instantiated with. Nothing outside this crate sees them.

use headwater_metadata as metadata;
use openraft::rt::deterministic_rng::DeterministicRng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

// Randomness (election timeouts) comes from a seed that each task inherits from the one that starts
// raft: `Runtime::scope` around `Raft::new` is all that is needed.
/// Tasks and time are tokio's, randomness is seeded.
pub(crate) type Runtime = DeterministicRng<openraft::impls::TokioRuntime>;

openraft::declare_raft_types!(
    /// Raft over the metadata's entries.
    pub(crate) Config:
        D = Proposal,
        R = Applied,
        NodeId = u64,
        Node = MemberInfo,
        AsyncRuntime = Runtime,
);

/// What the membership says of a member. Addresses are no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberInfo {
    pub node: metadata::NodeId,
}

/// What is proposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Proposal(pub Arc<metadata::Entry>);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            metadata::Entry::Register(register) => write!(f, "register {}", register.session),
            metadata::Entry::Batch(batch) => {
                write!(f, "entry {} of {} ({} commands)", batch.number, batch.session, batch.commands.len())
            }
        }
    }
}

/// What applying a proposal answers: one outcome for each command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub outcomes: Vec<metadata::Outcome>,
}

pub(crate) type Entry = openraft::alias::EntryOf<Config>;
pub(crate) type LogId = openraft::alias::LogIdOf<Config>;
pub(crate) type Vote = openraft::alias::VoteOf<Config>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<Config>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Config>;
pub(crate) type Raft = openraft::Raft<Config, crate::state_machine::Machine>;
