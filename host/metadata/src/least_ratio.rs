//! The built-in rule: the node with the lowest share of streams per slot.
//!
//! Shares are compared by cross-multiplication in 128 bits: no division, no rounding, the same answer on
//! every machine. The default policy is the same rule as a component; it decides the same.

use crate::model::NodeId;
use crate::placement::Candidate;

/// The candidate with the lowest `assigned / slots`, of equal ones the lowest id. Without slots a node
/// takes nothing.
pub fn choose(candidates: &[Candidate]) -> Option<NodeId> {
    let takers = candidates.iter().filter(|candidate| candidate.slots > 0);
    let best = takers.reduce(|best, next| if before(next, best) { next } else { best });
    best.map(|candidate| candidate.id)
}

fn before(a: &Candidate, b: &Candidate) -> bool {
    let left = u128::from(a.assigned) * u128::from(b.slots);
    let right = u128::from(b.assigned) * u128::from(a.slots);
    (left, a.id) < (right, b.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn candidate(id: u64, slots: u32, assigned: u64) -> Candidate {
        Candidate { id: NodeId(id), slots, assigned, labels: BTreeMap::new() }
    }

    #[test]
    fn takes_the_lowest_share_and_of_equal_ones_the_lowest_id() {
        type Node = (u64, u32, u64);
        let table: &[(&[Node], Option<u64>)] = &[
            (&[], None),
            (&[(1, 0, 0)], None),
            (&[(1, 1, 0), (2, 1, 0)], Some(1)),
            (&[(2, 1, 0), (1, 1, 0)], Some(1)),
            (&[(1, 1, 1), (2, 1, 0)], Some(2)),
            (&[(1, 4, 3), (2, 1, 1)], Some(1)),
            (&[(1, 4, 4), (2, 1, 1)], Some(1)),
            (&[(1, 4, 5), (2, 1, 1)], Some(2)),
            (&[(1, 0, 0), (2, 1, 1_000_000)], Some(2)),
            (&[(1, u32::MAX, u64::MAX), (2, u32::MAX, u64::MAX - 1)], Some(2)),
            (&[(1, 1, u64::MAX), (2, u32::MAX, u64::MAX)], Some(2)),
        ];
        for (nodes, expected) in table {
            let candidates: Vec<_> = nodes.iter().map(|(id, slots, n)| candidate(*id, *slots, *n)).collect();
            assert_eq!(choose(&candidates), expected.map(NodeId), "{nodes:?}");
        }
    }

    #[test]
    fn weights_are_met_exactly() {
        let mut nodes = [candidate(1, 4, 0), candidate(2, 1, 0), candidate(3, 1, 0)];
        for _ in 0..600 {
            let chosen = choose(&nodes);
            nodes.iter_mut().filter(|node| Some(node.id) == chosen).for_each(|node| node.assigned += 1);
        }
        assert_eq!(nodes.map(|node| node.assigned), [400, 100, 100]);
    }
}
