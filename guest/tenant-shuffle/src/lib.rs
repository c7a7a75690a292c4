//! Shuffle sharding: each tenant (the first segment of the path) has a small set of nodes of its own, so
//! that a bad tenant spoils two nodes and not the cluster.
//!
//! Only the glue is here; the rule itself is in `decide.rs`.

pub mod decide;

use headwater_policy_sdk::{Candidate, Description, NodeId, Policy, Subject, export_policy};

/// The least filled node of the tenant's set.
pub struct TenantShuffle;

impl Policy for TenantShuffle {
    fn describe() -> Description {
        let summary = "Each tenant (the first path segment) has two nodes of its own choice; the less filled \
                       one takes its streams.";
        Description::new("tenant-shuffle", env!("CARGO_PKG_VERSION"), summary)
    }

    fn place(subject: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
        decide::within_the_shard(&subject.name, candidates)
    }
}

export_policy!(TenantShuffle);
