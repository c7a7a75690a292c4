//! The default policy: a stream goes to the node with the fewest streams for its slots.
//!
//! Only the glue is here; the rule itself is in `decide.rs`.

pub mod decide;

use headwater_policy_sdk::{Candidate, Description, NodeId, Policy, Subject, export_policy};

/// Lowest `assigned / slots` takes the stream, ties go to the lowest node id.
pub struct LeastRatio;

impl Policy for LeastRatio {
    fn describe() -> Description {
        Description::new(
            "least-ratio",
            env!("CARGO_PKG_VERSION"),
            "The node with the fewest streams for its slots takes the next one; ties go to the lowest id.",
        )
    }

    fn place(_: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
        decide::least_ratio(candidates)
    }
}

export_policy!(LeastRatio);
