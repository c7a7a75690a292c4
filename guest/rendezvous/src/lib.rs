//! Stable hashing: the name of a stream says where it belongs, and nodes that come and go move only their
//! own share.
//!
//! Only the glue is here; the rule itself is in `decide.rs`.

pub mod decide;

use headwater_policy_sdk::{Candidate, Description, NodeId, Policy, Subject, export_policy};

/// Each node draws a lot for the name, weighted by its slots; the lowest wins.
pub struct Rendezvous;

impl Policy for Rendezvous {
    fn describe() -> Description {
        let summary = "Stable hashing by name, weighted by slots: a node that joins or leaves moves its own \
                       share and nothing else.";
        Description::new("rendezvous", env!("CARGO_PKG_VERSION"), summary)
    }

    fn place(subject: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
        decide::lowest_lot(&subject.name, candidates)
    }
}

export_policy!(Rendezvous);
