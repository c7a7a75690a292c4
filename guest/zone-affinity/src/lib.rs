//! A stream is owned near the node that its first request arrived at: in its zone, else in the zones that
//! the node names next, else anywhere.
//!
//! Only the glue is here; the rule itself is in `decide.rs`.

pub mod decide;

use headwater_policy_sdk::{Candidate, Description, NodeId, Policy, Subject, export_policy};

/// The least filled node of the nearest zone that has one.
pub struct ZoneAffinity;

impl Policy for ZoneAffinity {
    fn describe() -> Description {
        let summary = "The least filled node in the zone of the node that the request arrived at, then in \
                       that node's zone-fallback, in order, then anywhere.";
        Description::new("zone-affinity", env!("CARGO_PKG_VERSION"), summary).with_labels()
    }

    fn place(subject: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
        decide::nearest(subject, candidates)
    }
}

export_policy!(ZoneAffinity);
