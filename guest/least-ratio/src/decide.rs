//! The rule, as a pure function. The comparison itself is in the SDK, since other policies end with it too.

use headwater_policy_sdk::{Candidate, NodeId};

/// The candidate with the lowest `assigned / slots`; ties go to the lowest id. A node without slots takes
/// nothing.
pub fn least_ratio(candidates: &[Candidate]) -> Option<NodeId> {
    headwater_policy_sdk::least_ratio(candidates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_policy_sdk::by_ratio;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn node(id: NodeId, slots: u32, assigned: u64) -> Candidate {
        Candidate { id, slots, assigned, labels: Vec::new() }
    }

    #[test]
    fn table() {
        let cases: [(&str, Vec<Candidate>, Option<NodeId>); 7] = [
            ("nobody", vec![], None),
            ("only one", vec![node(7, 1, 1000)], Some(7)),
            ("a tie goes to the lowest id", vec![node(2, 1, 5), node(1, 1, 5)], Some(1)),
            ("weights count", vec![node(1, 1, 1), node(2, 4, 3)], Some(2)),
            ("equal ratios of different weights tie", vec![node(3, 2, 4), node(9, 4, 8)], Some(3)),
            ("no slots, no streams", vec![node(1, 0, 0), node(2, 1, 9)], Some(2)),
            (
                "no overflow at the ends of the types",
                vec![node(1, 1, u64::MAX), node(2, u32::MAX, u64::MAX)],
                Some(2),
            ),
        ];
        for (what, candidates, expected) in cases {
            assert_eq!(least_ratio(&candidates), expected, "{what}");
        }
    }

    proptest! {
        /// Nobody has a lower ratio than the one that was chosen, and nobody of the same ratio a lower id.
        #[test]
        fn the_chosen_one_is_minimal(
            nodes in prop::collection::btree_map(any::<u64>(), (0u32..9, 0u64..50), 0..12)
        ) {
            let candidates: Vec<_> = nodes.iter().map(|(id, (slots, assigned))| node(*id, *slots, *assigned)).collect();
            let able: Vec<_> = candidates.iter().filter(|c| c.slots > 0).collect();
            let Some(chosen) = least_ratio(&candidates) else {
                prop_assert!(able.is_empty());
                return Ok(());
            };
            let chosen = able.iter().find(|c| c.id == chosen).expect("a candidate with slots");
            for other in &able {
                prop_assert_ne!(by_ratio(other, chosen), Ordering::Less);
            }
        }

        /// The order in which candidates come does not matter.
        #[test]
        fn order_does_not_matter(
            nodes in prop::collection::btree_map(any::<u64>(), (0u32..9, 0u64..50), 0..12)
        ) {
            let mut candidates: Vec<_> = nodes.iter().map(|(id, (slots, assigned))| node(*id, *slots, *assigned)).collect();
            let forward = least_ratio(&candidates);
            candidates.reverse();
            prop_assert_eq!(forward, least_ratio(&candidates));
        }

        /// Placing many streams one after the other fills nodes by their weights, to within one stream each.
        #[test]
        fn many_placements_follow_the_weights(slots in prop::collection::vec(1u32..6, 1..6), rounds in 1u64..20) {
            let mut nodes: Vec<_> = (1..).zip(&slots).map(|(id, slots)| node(id, *slots, 0)).collect();
            let total: u64 = slots.iter().map(|s| u64::from(*s)).sum();
            for _ in 0..total * rounds {
                let chosen = least_ratio(&nodes).expect("there are candidates");
                nodes.iter_mut().find(|n| n.id == chosen).expect("a candidate").assigned += 1;
            }
            for node in nodes {
                prop_assert_eq!(node.assigned, u64::from(node.slots) * rounds);
            }
        }
    }
}
