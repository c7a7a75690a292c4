//! The smallest policy there is, made to be told apart from others: the highest node id takes everything.

use headwater_policy_sdk::{Candidate, Description, NodeId, Policy, Subject, export_policy};

/// Gives everything to the highest node id.
pub struct HighestId;

impl Policy for HighestId {
    fn describe() -> Description {
        Description::new("highest-id", env!("CARGO_PKG_VERSION"), "The highest node id takes everything.")
    }

    fn place(_: &Subject, candidates: &[Candidate]) -> Option<NodeId> {
        candidates.iter().map(|candidate| candidate.id).max()
    }
}

export_policy!(HighestId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_takes_it() {
        let node = |id| Candidate { id, slots: 1, assigned: 100 - id, labels: Vec::new() };
        assert_eq!(HighestId::place(&Subject::default(), &[node(1), node(9), node(4)]), Some(9));
        assert_eq!(HighestId::place(&Subject::default(), &[]), None);
    }
}
