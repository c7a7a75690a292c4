//! Nodes for a purpose: a label names the path prefixes that a node is reserved for; those streams go
//! there, and no others do.
//!
//! Only the glue is here; the rule itself is in `decide.rs`.

pub mod decide;

use headwater_policy_sdk::{Candidate, Description, NodeId, Policy, Subject, export_policy};

/// The least filled of the nodes reserved for the stream's longest prefix, or of those reserved for nothing.
pub struct Reserved;

impl Policy for Reserved {
    fn describe() -> Description {
        let summary = "Nodes labelled reserved=/prefix take the streams below it and no others; the rest goes \
                       to nodes without that label.";
        Description::new("reserved", env!("CARGO_PKG_VERSION"), summary).with_labels()
    }

    fn place(subject: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
        decide::by_prefix(&subject.name, candidates)
    }
}

export_policy!(Reserved);
