//! The comparison that most policies end with: the fewest streams for its slots. In whole numbers, by
//! cross-multiplication in 128 bits: no division, no floats, nothing that can overflow or be NaN.

use crate::{Candidate, NodeId};
use std::cmp::Ordering;

/// Orders by `assigned / slots`, then by id. A node without slots comes last.
pub fn by_ratio(a: &Candidate, b: &Candidate) -> Ordering {
    let left = u128::from(a.assigned) * u128::from(b.slots);
    let right = u128::from(b.assigned) * u128::from(a.slots);
    (a.slots == 0).cmp(&(b.slots == 0)).then(left.cmp(&right)).then(a.id.cmp(&b.id))
}

/// Of these, the one with the fewest streams for its slots; a node without slots takes nothing.
pub fn least_ratio<'a>(candidates: impl IntoIterator<Item = &'a Candidate>) -> Option<NodeId> {
    let able = candidates.into_iter().filter(|candidate| candidate.slots > 0);
    able.min_by(|a, b| by_ratio(a, b)).map(|candidate| candidate.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_slots_a_node_is_last_and_takes_nothing() {
        let node = |id, slots, assigned| Candidate { id, slots, assigned, labels: Vec::new() };
        let mut nodes = [node(1, 0, 0), node(2, 1, 9), node(3, 2, 9), node(4, 0, 5)];
        assert_eq!(least_ratio(&nodes), Some(3));
        assert_eq!(least_ratio(&nodes[..1]), None);
        nodes.sort_by(by_ratio);
        assert_eq!(nodes.map(|node| node.id), [3, 2, 1, 4]);
    }
}
